"""A world written to a folder, videos and photos with the truth beside them, and read back."""

import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import av
import cv2
import msgspec
import numpy as np
from PIL import Image

from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.records import Record
from ctxr.store.tables import encode_row, read_table, write_tables
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.films import FORMATS, Film, sample_film
from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.sets import neighbours
from ctxr.synthetic.world.shots import SceneShot
from ctxr.synthetic.world.sights import measure_sights

# x264's look-ahead reads rows beyond pictures whose sides are no multiples of 16: two runs differed. All that rests on
# it is off; B-frames stay, so that frames are stored in another order than they are shown.
_X264 = "rc-lookahead=0:mbtree=0:b-adapt=0:scenecut=0:weightp=0:bframes=2:keyint=60"
_OPTIONS = {
    "libx264": {"preset": "veryfast", "crf": "16", "x264-params": _X264},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "8", "crf": "10", "b": "0", "row-mt": "0"},
}

SIZES = ((400, 300), (300, 400), (480, 320), (360, 360))
"""Widths and heights of photos, in pixels; all photos of one base scene are of one size."""

Copy = Literal["", "bytes", "encoding"]
"""Not a copy, a copy of the file's bytes, or the same picture encoded again at another quality."""


class Snapshot(msgspec.Struct, frozen=True):
    """One photo before it is saved, `width` x `height` pixels when upright.

    Attributes:
        group: exact duplicates share it; every other photo has its own. copy: how it was made from the first photo of its group.
        quality: of the JPEG, 0..100. orientation: EXIF value; 6 means that a viewer must turn the stored picture clockwise.
    """

    scene: Scene
    width: int
    height: int
    group: int
    copy: Copy = ""
    quality: int = 92
    orientation: int = 1


def sample_album(rng: np.random.Generator, count: int) -> list[Snapshot]:
    """Return `count` photos in random order: base scenes with up to eleven near neighbours each.

    From four photos on, one in eight is an exact duplicate of another, in turn of its bytes and of its picture, and one
    photo has its orientation in EXIF.
    """
    copies = max(2, count // 8) if count >= 4 else 0
    photos: list[Snapshot] = []
    while len(photos) < count - copies:
        width, height = SIZES[int(rng.integers(len(SIZES)))]
        base = sample_scene(rng, width / height)
        family = [base, *neighbours(rng, base, min(11, count - copies - len(photos) - 1))]
        photos += [Snapshot(scene, width, height, len(photos) + i) for i, scene in enumerate(family)]
    if count >= 4:
        turned = int(rng.integers(len(photos)))
        photos[turned] = msgspec.structs.replace(photos[turned], orientation=6)
    for index in range(copies):
        original = photos[int(rng.integers(count - copies))]
        kind: Copy = "bytes" if index % 2 == 0 else "encoding"
        quality = original.quality if kind == "bytes" else 80
        photos.append(msgspec.structs.replace(original, copy=kind, quality=quality))
    return [photos[i] for i in rng.permutation(len(photos))]


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
    """One photo as `Snapshot`: its folder and file name, its `path` below the world's folder, the actors farthest first."""

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
    sights = reversed(measure_sights(scene, width, height).items())  # nearest first
    return tuple(Seen(name, *(round(share, 4) for share in (*sight.box, sight.hidden))) for name, sight in sights)


def frame_rows(video: str, film: Film) -> list[FrameTruth]:
    """Return a row for each frame of a film."""
    rows: list[FrameTruth] = []
    for frame, time in enumerate(film.times):
        scene, still = film.scene(frame), film.is_still(frame)
        seen = rows[-1].seen if still else seen_in(scene, film.format.width, film.format.height)
        mix, text = round(film.mix(frame), 4), scene.overlay.shown if scene.overlay else 0.0
        rows.append(FrameTruth(video, frame, time, film.shot_of(frame), mix, scene.blur, text, still, seen))
    return rows


def frames(film: Film) -> Iterator[np.ndarray]:
    """Yield the film's upright pictures in order, uint8 RGB [H, W, 3]; a dissolve mixes two shots' pictures."""
    width, height = film.format.width, film.format.height
    for index in range(len(film.times)):
        shot, share = film.shot_of(index), film.mix(index)
        picture = render(film.scene(index), width, height)
        if share < 1:
            before = render(film.scene(index, shot - 1), width, height)
            picture = np.asarray(cv2.addWeighted(picture, share, before, 1 - share, 0.0))
        yield picture


def time_base(film: Film) -> Fraction:
    """Return the unit in which the film's times are whole numbers."""
    variable = film.format.variable or film.format.suffix == ".webm"  # Matroska counts milliseconds
    return Fraction(1, 1000) if variable else 1 / film.format.rate


def encode(film: Film, path: Path) -> None:
    """Write the film to a video file, replacing an existing one.

    One encoder thread and no dates in the file: equal films give equal bytes on one machine.
    """
    unit = time_base(film)
    turned = film.format.rotation in (90, 270)
    width, height = film.format.width, film.format.height
    options = {"fflags": "+bitexact"} | ({"movflags": "+faststart"} if path.suffix == ".mp4" else {})
    with av.open(str(path), "w", container_options=options) as container:
        stream = container.add_stream(film.format.codec, rate=film.format.rate, options=_OPTIONS[film.format.codec])
        stream.width, stream.height = (height, width) if turned else (width, height)
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = unit
        stream.time_base = unit
        if film.format.rotation:
            stream.set_display_rotation(film.format.rotation)
        for time, picture in zip(film.times, frames(film), strict=True):
            # a player turns the stored picture counterclockwise by `rotation`: store it turned the other way
            stored = np.ascontiguousarray(np.rot90(picture, -(film.format.rotation // 90)))
            frame = av.VideoFrame.from_ndarray(stored, format="rgb24")
            frame.pts, frame.time_base = int(time / unit), unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


VERSION = 1
"""Of the layout and the rows; a newer one is refused."""
_PARTS = ("videos", "photos", "truth")
TABLES: dict[str, type[Record]] = {
    "videos": VideoTruth, "shots": ShotTruth, "cuts": CutTruth, "frames": FrameTruth, "photos": PhotoTruth
}  # fmt: skip


@dataclass(frozen=True)
class WorldConfig:
    """What to draw; equal configurations give equal bytes on one machine. Videos last about so many `seconds`, and have the
    formats in turn."""

    seed: int = 0
    videos: int = 6
    seconds: float = 12.0
    formats: tuple[str, ...] = tuple(FORMATS)
    albums: int = 2
    photos_per_album: int = 24


@dataclass(frozen=True)
class World:
    """Footage on disk with its truth."""

    folder: Path
    config: WorldConfig
    videos: tuple[VideoTruth, ...]
    shots: tuple[ShotTruth, ...]
    cuts: tuple[CutTruth, ...]
    frames: tuple[FrameTruth, ...]
    photos: tuple[PhotoTruth, ...]

    @cached_property
    def _shot_of(self) -> dict[tuple[str, int], ShotTruth]:
        return {(row.video, row.shot): row for row in self.shots}

    def scene(self, frame: FrameTruth) -> Scene:
        """Return the scene a frame shows; within a dissolve, that of its own shot.

        Raises DataError if the frame's shot is not in the truth.
        """
        row = self._shot_of.get((frame.video, frame.shot))
        if row is None:
            raise DataError(f"{self.folder}: no shot {frame.shot} of video {frame.video!r} in the truth")
        return row.script.at(float(frame.time - row.time))


def write_world(folder: Path, config: WorldConfig, progress: Callable[[str], None] | None = None) -> World:
    """Draw a world into a folder and return it; an equal, finished one there is only read.

    The layout is `videos/*.mp4|webm`, `photos/<album>/*.jpg` and `truth/*.jsonl`; `truth/world.json` is written last. Another
    world in the folder is replaced. `progress` is called with a line of text after each video and album.

    Raises UsageError if the folder holds anything else, or the configuration makes no sense; CtxrError if the disk is full or not
    writable.
    """
    for name in ("videos", "albums", "photos_per_album"):
        if getattr(config, name) < 0:
            raise UsageError(f"{name} is {getattr(config, name)}, it cannot be negative", f"choose {name} of 0 or more")
    if config.videos and not config.formats:
        raise UsageError("no video format is named", f"name some of {', '.join(FORMATS)}")
    if (folder / "truth" / "world.json").is_file():
        world = read_world(folder)
        if world.config == config:
            return world
    say = progress or (lambda line: None)
    with disk_errors(folder):
        strangers = sorted(path.name for path in folder.iterdir() if path.name not in _PARTS) if folder.exists() else []
        if strangers:
            raise UsageError(
                f"{folder} holds {strangers[0]!r}, which is not part of a toy world", "choose an empty folder"
            )
        (folder / "truth" / "world.json").unlink(missing_ok=True)
        for part in _PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).mkdir(parents=True)
        tables: dict[str, list[Record]] = {name: [] for name in TABLES}
        for index in range(config.videos):
            _film(folder, config, index, tables, say)
        for index in range(config.albums):
            tables["photos"] += _album(folder, config, index, say)
    write_tables(folder / "truth", tables)
    write_bytes(folder / "truth" / "world.json", encode_row({"version": VERSION, "config": asdict(config)}))
    return read_world(folder)


def _film(
    folder: Path, config: WorldConfig, index: int, tables: dict[str, list[Record]], say: Callable[[str], None]
) -> None:
    # a stream of its own for each video: the first ones do not depend on how many there are
    rng = np.random.default_rng([config.seed, 0, index])
    name = config.formats[index % len(config.formats)]
    film = sample_film(rng, name, config.seconds)
    video, video_format = f"{index:03d}-{name}", film.format
    path = f"videos/{video}{video_format.suffix}"
    encode(film, folder / path)
    stored = (video_format.width, video_format.height, video_format.rotation, video_format.rate, video_format.variable)
    tables["videos"].append(VideoTruth(video, path, name, *stored, len(film.times)))
    lasts = [take.first - 1 for take in film.takes[1:]] + [len(film.times) - 1]
    tables["shots"] += [
        ShotTruth(video, shot, take.first, last, film.times[take.first], take.shot)
        for shot, (take, last) in enumerate(zip(film.takes, lasts, strict=True))
    ]
    tables["cuts"] += [
        CutTruth(video, cut.first, cut.last, cut.kind, film.times[cut.first]) for cut in film.transitions
    ]
    tables["frames"] += frame_rows(video, film)
    say(f"{path}: {len(film.times)} frames, {len(film.takes)} shots")


def jpeg(snapshot: Snapshot) -> bytes:
    """Return a photo's file: JPEG, with EXIF orientation where the snapshot asks for it."""
    picture = Image.fromarray(render(snapshot.scene, snapshot.width, snapshot.height))
    exif = Image.Exif()
    if snapshot.orientation == 6:  # stored turned counterclockwise, so that a viewer's clockwise turn sets it upright
        picture = picture.transpose(Image.Transpose.ROTATE_90)
        exif[0x0112] = 6
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=snapshot.quality, exif=exif)
    return buffer.getvalue()


def _album(folder: Path, config: WorldConfig, index: int, say: Callable[[str], None]) -> Iterator[PhotoTruth]:
    rng = np.random.default_rng([config.seed, 1, index])
    album = f"album-{index:02d}"
    (folder / "photos" / album).mkdir()
    for number, shot in enumerate(sample_album(rng, config.photos_per_album)):
        photo = f"{number:04d}.jpg"
        path = f"photos/{album}/{photo}"
        (folder / path).write_bytes(jpeg(shot))
        seen = seen_in(shot.scene, shot.width, shot.height)
        yield PhotoTruth(
            album, photo, path, shot.width, shot.height, shot.group, shot.copy, shot.orientation, shot.scene, seen
        )
    say(f"photos/{album}: {config.photos_per_album} photos")


def read_world(folder: Path) -> World:
    """Return the world in a folder. Raises UnfinishedError if it was not written to the end, DataError if its truth is damaged or of
    another version."""
    path = folder / "truth" / "world.json"
    if not path.is_file():
        raise UnfinishedError(f"{folder} holds no finished toy world: truth/world.json is missing", "draw it again")
    try:
        head: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        version = head["version"]
        if version != VERSION:
            raise DataError(f"{path}: version {version} is not {VERSION}", "draw the world again with this version")
        config = msgspec.convert(head["config"], WorldConfig)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError) as error:
        raise DataError(f"{path}: not a toy world's head: {error}", "draw the world again") from error
    tables = (tuple(read_table(folder / "truth" / f"{name}.jsonl", kind)) for name, kind in TABLES.items())
    return World(folder, config, *tables)  # type: ignore[arg-type]
