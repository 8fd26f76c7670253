"""The truth beside the footage, as rows of JSONL."""

from fractions import Fraction
from typing import ClassVar

import msgspec

from ctxr.store.records import Record
from ctxr.synthetic.world.albums import Copy
from ctxr.synthetic.world.films import Film
from ctxr.synthetic.world.scenes import Scene
from ctxr.synthetic.world.shots import SceneShot
from ctxr.synthetic.world.sights import measure


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """One actor in a picture: the box of its part inside the frame, as shares of width and height (zeros if there is none), and the
    share of its silhouette that nearer actors, a text panel or the frame's edges hide, 0..1."""

    actor: str
    left: float
    top: float
    right: float
    bottom: float
    hidden: float


class VideoTruth(Record, frozen=True):
    """One video of a `Format` of `films`, named as its file without suffix, at `path` below the world's folder."""

    KEY: ClassVar[tuple[str, ...]] = ("video",)
    video: str
    path: str
    format: str
    width: int
    height: int
    rotation: int
    rate: Fraction
    variable: bool
    frames: int


class ShotTruth(Record, frozen=True):
    """Shot number `shot`, from 0: frames `first` to `last`, both included (those of a dissolve belong to the new shot), from `time`
    on in exact seconds; `script.at(seconds since time)` is the scene."""

    KEY: ClassVar[tuple[str, ...]] = ("video", "shot")
    video: str
    shot: int
    first: int
    last: int
    time: Fraction
    script: SceneShot


class CutTruth(Record, frozen=True):
    """One change of shot, as `films.Transition`; `time` is that of the frame `first`, in exact seconds."""

    KEY: ClassVar[tuple[str, ...]] = ("video", "first")
    video: str
    first: int
    last: int
    kind: str
    time: Fraction


class FrameTruth(Record, frozen=True):
    """One frame: its number in order of presentation, from 0, and its exact seconds.

    Attributes:
        mix: how much of its shot it shows: 1, or less within a dissolve, the rest being the shot before.
        blur: standard deviation as a share of the shorter side; 0 is sharp. text: how much of a panel with words has slid over it, 0..1.
        still: whether it shows exactly what the frame before shows. seen: the actors of its shot, farthest first.
    """

    KEY: ClassVar[tuple[str, ...]] = ("video", "frame")
    video: str
    frame: int
    time: Fraction
    shot: int
    mix: float
    blur: float
    text: float
    still: bool
    seen: tuple[Seen, ...]


class PhotoTruth(Record, frozen=True):
    """One photo as `albums.Snapshot`: its folder and file name, its `path` below the world's folder, the actors farthest first."""

    KEY: ClassVar[tuple[str, ...]] = ("album", "photo")
    album: str
    photo: str
    path: str
    width: int
    height: int
    group: int
    copy: Copy
    orientation: int
    scene: Scene
    seen: tuple[Seen, ...]


def seen_in(scene: Scene, width: int, height: int) -> tuple[Seen, ...]:
    """Return what is seen of each actor in a picture of that size, farthest first."""
    rows = []
    sights = measure(scene, width, height)
    for actor in scene.actors:
        sight = sights[actor.name]
        left, top, right, bottom = (round(edge, 4) for edge in sight.box)
        rows.append(Seen(actor.name, left, top, right, bottom, round(sight.hidden, 4)))
    return tuple(rows)


def shot_rows(video: str, film: Film) -> list[ShotTruth]:
    """Return a row for each shot of a film."""
    ends = [take.first - 1 for take in film.takes[1:]] + [len(film.times) - 1]
    return [
        ShotTruth(video, index, take.first, last, film.times[take.first], take.shot)
        for index, (take, last) in enumerate(zip(film.takes, ends, strict=True))
    ]


def cut_rows(video: str, film: Film) -> list[CutTruth]:
    """Return a row for each change of shot of a film."""
    return [CutTruth(video, cut.first, cut.last, cut.kind, film.times[cut.first]) for cut in film.transitions]


def frame_rows(video: str, film: Film) -> list[FrameTruth]:
    """Return a row for each frame of a film."""
    rows: list[FrameTruth] = []
    for frame, time in enumerate(film.times):
        scene, still = film.scene(frame), film.is_still(frame)
        seen = rows[-1].seen if still else seen_in(scene, film.format.width, film.format.height)
        mix, text = round(film.mix(frame), 4), scene.overlay.shown if scene.overlay else 0.0
        rows.append(FrameTruth(video, frame, time, film.shot_of(frame), mix, scene.blur, text, still, seen))
    return rows
