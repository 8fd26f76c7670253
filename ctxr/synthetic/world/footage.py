"""A world written to a folder, videos and photos with the truth beside them, and read back."""

import io
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Literal

import av
import cv2
import msgspec
import numpy as np
from PIL import Image

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UsageError
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.records import Record
from ctxr.store.tables import encode_row, read_table, write_tables
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.films import FORMATS, Film, sample_film
from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.sets import neighbours
from ctxr.synthetic.world.shots import SceneShot

# x264's look-ahead reads rows beyond pictures whose sides are not multiples of 16: two runs differed. All that rests on
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
    """Return `count` photos in random order: base scenes with up to eleven near neighbours each. From four photos on, one in eight is
    an exact duplicate, in turn of another's bytes and of its picture, and one photo has its orientation in EXIF."""
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


class ShotTruth(Record, frozen=True):
    """Shot number `shot` of a video, from 0: `script.at(seconds since time)` is its scene."""

    KEY: ClassVar[tuple[str, ...]] = ("video", "shot")
    video: str
    shot: int
    time: Fraction
    script: SceneShot


class FrameTruth(Record, frozen=True):
    """One frame: its number in order of presentation, from 0, its exact seconds, and its shot; within a dissolve the new one.

    Attributes:
        blur: standard deviation as a share of the shorter side; 0 is sharp.
        text: how much of a panel with words has slid over it, 0..1.
    """

    KEY: ClassVar[tuple[str, ...]] = ("video", "frame")
    video: str
    frame: int
    time: Fraction
    shot: int
    blur: float
    text: float


class PhotoTruth(Record, frozen=True):
    """One photo by its folder and file name; `scene`, `group` and `copy` as in `Snapshot`."""

    KEY: ClassVar[tuple[str, ...]] = ("album", "photo")
    album: str
    photo: str
    group: int
    copy: Copy
    scene: Scene


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


def encode(film: Film, path: Path) -> None:
    """Write the film to a video file; one encoder thread and no dates in it, so equal films give equal bytes on one machine."""
    # the times are whole numbers of it; Matroska counts milliseconds
    unit = Fraction(1, 1000) if film.format.variable or path.suffix == ".webm" else 1 / film.format.rate
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


VERSION = 2
"""Of the layout and the rows; a world of another version is drawn again."""
_PARTS = ("videos", "photos", "truth")
TABLES: dict[str, type[Record]] = {"shots": ShotTruth, "frames": FrameTruth, "photos": PhotoTruth}


@dataclass(frozen=True)
class WorldConfig:
    """What to draw: videos of about so many `seconds`, in the formats in turn, and albums. Equal ones give equal bytes on one machine."""

    seed: int = 0
    videos: int = 6
    seconds: float = 12.0
    formats: tuple[str, ...] = tuple(FORMATS)
    albums: int = 2
    photos_per_album: int = 24


@dataclass(frozen=True)
class World:
    """Footage on disk with its truth: `shots` by (video, number), `frames` likewise, `photos` by (album, file name)."""

    folder: Path
    shots: dict[tuple[str, int], ShotTruth]
    frames: dict[tuple[str, int], FrameTruth]
    photos: dict[tuple[str, str], PhotoTruth]

    def scene(self, video: str, number: int) -> Scene:
        """Return the scene that a frame shows; within a dissolve, that of its own shot."""
        frame = self.frames[video, number]
        shot = self.shots[video, frame.shot]
        return shot.script.at(float(frame.time - shot.time))


def write_world(folder: Path, config: WorldConfig, progress: Progress = SILENT) -> World:
    """Draw a world into a folder and return it; an equal, finished one there is only read.

    The layout is `videos/*.mp4|webm`, `photos/<album>/*.jpg` and `truth/*.jsonl`; `truth/world.json` is written last. Another
    world in the folder is replaced.

    Raises UsageError if the folder holds anything else; CtxrError if the disk is full or not writable.
    """
    truth = folder / "truth"
    head, done = encode_row({"version": VERSION, "config": asdict(config)}), truth / "world.json"
    if not (done.is_file() and done.read_bytes() == head):
        with disk_errors(folder):
            names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
            if strangers := [name for name in names if name not in _PARTS]:
                what = f"{folder} holds {strangers[0]!r}, which is not part of a toy world"
                raise UsageError(what, "choose an empty folder")
            done.unlink(missing_ok=True)
            for part in _PARTS:
                shutil.rmtree(folder / part, ignore_errors=True)
                (folder / part).mkdir(parents=True)
            tables: dict[str, list[Record]] = {name: [] for name in TABLES}
            with progress.task("drawing videos and albums", config.videos + config.albums) as task:
                for index in range(config.videos):
                    # a stream of its own for each video: the first ones do not depend on how many there are
                    rng = np.random.default_rng([config.seed, 0, index])
                    name = config.formats[index % len(config.formats)]
                    film, video = sample_film(rng, name, config.seconds), f"{index:03d}-{name}"
                    encode(film, folder / "videos" / f"{video}{film.format.suffix}")
                    takes = enumerate(film.takes)
                    tables["shots"] += [ShotTruth(video, at, film.times[take.first], take.shot) for at, take in takes]
                    for frame, time in enumerate(film.times):
                        scene, shot = film.scene(frame), film.shot_of(frame)
                        text = scene.overlay.shown if scene.overlay else 0.0
                        tables["frames"].append(FrameTruth(video, frame, time, shot, scene.blur, text))
                    task.advance()
                for index in range(config.albums):
                    album, rng = f"album-{index:02d}", np.random.default_rng([config.seed, 1, index])
                    (folder / "photos" / album).mkdir()
                    for number, photo in enumerate(sample_album(rng, config.photos_per_album)):
                        name = f"{number:04d}.jpg"
                        (folder / "photos" / album / name).write_bytes(jpeg(photo))
                        tables["photos"].append(PhotoTruth(album, name, photo.group, photo.copy, photo.scene))
                    task.advance()
        write_tables(truth, tables)
        write_bytes(done, head)
    rows = ({row.key(): row for row in read_table(truth / f"{name}.jsonl", kind)} for name, kind in TABLES.items())
    return World(folder, *rows)  # type: ignore[arg-type]


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
