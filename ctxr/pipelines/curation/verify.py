"""`ctxr verify`: compare the images of a recipe or an artifact with their sources, frames by decoding, photos by hash."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rebuilding import ImageDifference, RecipeImage
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import SETS, chosen
from ctxr.errors import UsageError, plural
from ctxr.media.footage import SourceLocator
from ctxr.media.frames import Wanted, decode_frames, other_software, pixels_sha256
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, read_image
from ctxr.pipelines.curation.config import Verify, VerifyReport
from ctxr.pipelines.curation.rebuild import recipe_of, wanted_frames
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.records import Image, Source


def run(config: Verify, progress: Progress | None = None) -> VerifyReport:
    """Decode every frame again, look every photo up by its hash, and compare. Nothing is written.

    Raises UsageError for wrong arguments, UnfinishedError without a finished artifact, DataError when its tables were changed.
    """
    progress = progress or Silent()
    path = chosen(config.check().artifact, config.workdir, SETS, progress)
    artifact = open_artifact(path, maker="ctxr build-sets, or ctxr export --to recipe")
    kind, to = artifact.manifest.kind, artifact.manifest.config.get("to")
    if kind == "export" and to == "recipe":
        return verify_recipe(path, config, progress)
    if kind == "export":
        raise UsageError(
            f"{path} is an export to {to}", hint=f"ctxr doctor {path} looks whether its files are as written"
        )
    return verify_sets(path, config, progress)


P = TypeVar("P", Image, RecipeImage)


class _Tally:
    """Results by image id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.equal: set[str] = set()
        self.differences: dict[str, ImageDifference] = {}

    def same(self, name: str) -> None:
        """Record an image that is proven equal."""
        with self._lock:
            self.equal.add(name)

    def differs(self, name: str, what: Any, message: str, distance: int | None = None) -> None:
        """Record an image that differs."""
        with self._lock:
            self.differences[name] = ImageDifference(name, what, message, distance)


def verify_recipe(path: Path, config: Verify, progress: Progress) -> VerifyReport:
    """Compare a recipe with its sources: pixels of frames and the files they are saved as, photos by their hash."""
    _, recipe = recipe_of(path)
    tally, sources = _Tally(), SourceLocator(path, config.videos, progress)

    def visit(image: RecipeImage, rgb: Pixels, stream: int | None) -> None:
        content = encode_jpeg(rgb)
        same_pixels, same_file = pixels_sha256(rgb) == image.pixels, sha256_bytes(content) == image.sha256
        if same_pixels and same_file:
            tally.same(image.id)
            return
        distance = _distance_from(config.pictures, image, content)
        if not same_pixels:
            tally.differs(image.id, "pixels", "the decoded frame has other pixels than the recipe says", distance)
        else:
            tally.differs(image.id, "saved_file", "the frame is the same, its JPEG file is another", distance)

    frames = [image for image in recipe.images.values() if image.index is not None]
    failed = decode_frames(wanted_frames(frames, recipe), sources, visit, progress, config.workers)
    albums = {name: source.sha256 for name, source in recipe.sources.items() if source.kind == "photos"}
    photos = [(image, image.source) for image in recipe.images.values() if image.index is None]

    def read(image: RecipeImage, file: Path) -> None:
        if pixels_sha256(read_image(file)) == image.pixels:
            tally.same(image.id)
        else:
            tally.differs(image.id, "pixels", "the photo is the same file, but is read as other pixels here")

    told = {name: error.message for name, error in failed.items()} | _photos(photos, albums, sources, read)
    software = other_software(recipe.head.software) if tally.differences else ""
    return _report(path, "recipe", set(recipe.images), tally, told, software)


def _photos(
    photos: list[tuple[P, str]], albums: dict[str, str], sources: SourceLocator, visit: Callable[[P, Path], None]
) -> dict[str, str]:
    """Give each photo, which comes with its album's name, to `visit` with its file among the sources; returns what is lost by album."""
    found = sources.photos(albums) if photos else {}
    lost: Counter[str] = Counter()
    for image, album in photos:
        if image.sha256 in found:
            visit(image, found[image.sha256])
        else:
            lost[album] += 1
    return {name: f"{plural(count, 'photo')} of {name} missing or changed" for name, count in lost.items()}


def verify_sets(path: Path, config: Verify, progress: Progress) -> VerifyReport:
    """Compare the pictures of an artifact with its sources: each frame decoded and saved again must be the same file, each
    photo must still lie among the sources.
    """
    _, dataset = open_sets(path)
    tally, sources = _Tally(), SourceLocator(path, config.videos, progress)
    by_name = {source.name: source for source in dataset.sources}
    saved, frames, photos = {}, [], []
    with progress.task("read pictures", len(dataset.images)) as task:
        for image in dataset.images.values():
            if (trouble := _trouble(path, image)) is not None:
                tally.differs(image.id, *trouble)
            elif image.index is None:
                photos.append((image, _source_name(image)))
            else:
                saved[image.id] = path / image.path
                frames.append(image)
            task.advance()

    def visit(image: Image, rgb: Pixels, stream: int | None) -> None:
        content = encode_jpeg(rgb)
        if sha256_bytes(content) == image.sha256:
            tally.same(image.id)
            return
        distance = _distance(saved[image.id], content)
        message = "the frame decoded and saved here is another file than the picture"
        tally.differs(image.id, "saved_file", message, distance)

    wanted, told = _by_video(frames, by_name)
    failed = decode_frames(wanted, sources, visit, progress, config.workers)
    told |= {name: error.message for name, error in failed.items()}
    albums = {source.name: source.sha256 for source in dataset.sources if source.kind == "photos"}
    # a photo is a copy of its source: the same file says all
    told |= _photos(photos, albums, sources, lambda image, _: tally.same(image.id))
    return _report(path, "image_sets", set(dataset.images), tally, told, "")


def _by_video(frames: list[Image], sources: dict[str, Source]) -> tuple[list[Wanted], dict[str, str]]:
    grouped: dict[str, list[Image]] = {}
    for image in frames:
        grouped.setdefault(_source_name(image), []).append(image)
    wanted = [
        Wanted(name, sources[name].file, sources[name].sha256, sources[name].decoder or "pyav", images)
        for name, images in sorted(grouped.items())
        if name in sources
    ]
    return wanted, {name: f"nothing is known of the source {name}" for name in grouped if name not in sources}


def _source_name(image: Image) -> str:
    return image.id.rpartition("/")[0] or image.group


def _trouble(path: Path, image: Image) -> tuple[str, str] | None:
    try:
        same = sha256_file(path / image.path) == image.sha256
    except OSError as error:
        return "missing", f"{image.path} cannot be read: {error.strerror}"
    return None if same else ("changed", f"{image.path} was changed since it was saved")


def _distance_from(pictures: Path | None, image: RecipeImage, content: bytes) -> int | None:
    """The largest difference from the saved picture in another artifact, if that is what the recipe was made of."""
    if pictures is None:
        return None
    file = pictures / image.path
    try:
        return _distance(file, content) if sha256_file(file) == image.sha256 else None
    except OSError:
        return None


def _distance(saved: Path, content: bytes) -> int | None:
    """Largest difference of two pixel values (0..255) between a saved picture and JPEG bytes; None if their sizes differ."""
    # one decoder for both: what differs is then the files, not how they are read
    then, now = decode_jpeg(saved.read_bytes()), decode_jpeg(content)
    if then.shape != now.shape:
        return None
    return int(np.abs(then.astype(np.int16) - now.astype(np.int16)).max(initial=0))


def _report(
    path: Path, kind: str, images: set[str], tally: _Tally, told: dict[str, str], software: str
) -> VerifyReport:
    return VerifyReport(
        artifact=path,
        kind=kind,
        images=len(images),
        equal=len(tally.equal),
        differences=[msgspec.structs.asdict(tally.differences[name]) for name in sorted(tally.differences)],
        unproven=sorted(images - tally.equal - tally.differences.keys()),
        sources=dict(sorted(told.items())),
        software=software,
    )
