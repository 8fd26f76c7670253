"""`ctxr verify`: compare the images of a recipe or an artifact with their sources, frames by decoding, photos by hash."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
from ctxr.media.sources import require_sources
from ctxr.pipelines.curation.config import Verify, VerifyReport
from ctxr.pipelines.curation.recipes import recipe_of, wanted_frames
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.records import Image, Source


def run(config: Verify, progress: Progress | None = None) -> VerifyReport:
    """Decode every frame again, look every photo up by its hash, and compare. Nothing is written.

    Raises UsageError for wrong arguments, UnfinishedError without a finished artifact, DataError when its tables were changed.
    """
    progress = progress or Silent()
    if config.check().videos is not None:
        require_sources(config.videos)
    path = chosen(config.artifact, config.workdir, SETS, progress)
    artifact = open_artifact(path, maker="ctxr build-sets, or ctxr export --to recipe")
    kind, to = artifact.manifest.kind, artifact.manifest.config.get("to")
    if kind == "export" and to == "recipe":
        return verify_recipe(path, config, progress)
    if kind == "export":
        raise UsageError(f"{path} is an export to {to}", hint=f"ctxr doctor {path} checks its files")
    return verify_sets(path, config, progress)


class _Comparison:
    """Images by id, with how they differ (None: proven equal), and by source why it proves nothing."""

    def __init__(self, path: Path, config: Verify, progress: Progress) -> None:
        self._sources, self._progress, self._workers = (
            SourceLocator(path, config.videos, progress),
            progress,
            config.workers,
        )
        self.verdicts: dict[str, ImageDifference | None] = {}
        self.problems: dict[str, str] = {}

    def frames(self, wanted: list[Wanted], compare: Callable[[Any, Pixels], ImageDifference | None]) -> None:
        """Decode and compare frames."""

        def visit(image: Any, rgb: Pixels, stream: int | None) -> tuple[str, ImageDifference | None]:
            return image.id, compare(image, rgb)

        for video, results, error in decode_frames(wanted, self._sources, visit, self._progress, self._workers):
            self.verdicts |= dict(results)
            if error:
                self.problems[video.name] = error.message

    def photos(
        self,
        photos: list[tuple[Any, str]],
        sources: Iterable[Source],
        compare: Callable[[Any, Path], ImageDifference | None],
    ) -> None:
        """Compare each photo, which comes with its album's name, with its file among the sources."""
        albums = {source.name: source.sha256 for source in sources if source.kind == "photos"}
        files = self._sources.photos(albums) if photos else {}
        lost: Counter[str] = Counter()
        for image, album in photos:
            if image.sha256 in files:
                self.verdicts[image.id] = compare(image, files[image.sha256])
            else:
                lost[album] += 1
        for name, count in lost.items():
            self.problems[name] = f"{plural(count, 'photo')} of {name} missing or changed"

    @property
    def differences(self) -> dict[str, ImageDifference]:
        """Images that differ, by id."""
        return {name: difference for name, difference in sorted(self.verdicts.items()) if difference}

    def report(self, path: Path, kind: str, images: set[str], software: str = "") -> VerifyReport:
        """The report."""
        return VerifyReport(
            artifact=path,
            kind=kind,
            images=len(images),
            equal=len(self.verdicts) - len(self.differences),
            differences=[msgspec.structs.asdict(difference) for difference in self.differences.values()],
            unproven=sorted(images - self.verdicts.keys()),
            sources=dict(sorted(self.problems.items())),
            software=software,
        )


def verify_recipe(path: Path, config: Verify, progress: Progress) -> VerifyReport:
    """Compare a recipe with its sources: pixels of frames and the files they are saved as, photos by their hash."""
    _, recipe = recipe_of(path)
    comparison = _Comparison(path, config, progress)

    def frame(image: RecipeImage, rgb: Pixels) -> ImageDifference | None:
        content = encode_jpeg(rgb)
        if pixels_sha256(rgb) != image.pixels:
            what = "pixels", "the decoded frame has other pixels than the recipe says"
        elif sha256_bytes(content) != image.sha256:
            what = "saved_file", "the frame is the same, its JPEG file is another"
        else:
            return None
        return ImageDifference(image.id, *what, _distance_from(config.pictures, image, content))  # type: ignore[arg-type]

    def photo(image: RecipeImage, file: Path) -> ImageDifference | None:
        if pixels_sha256(read_image(file)) == image.pixels:
            return None
        return ImageDifference(image.id, "pixels", "the photo is the same file, but is read as other pixels here")

    images = recipe.images.values()
    comparison.frames(wanted_frames([image for image in images if image.index is not None], recipe), frame)
    photos = [(image, image.source) for image in images if image.index is None]
    comparison.photos(photos, recipe.sources.values(), photo)
    software = other_software(recipe.head.software) if comparison.differences else ""
    return comparison.report(path, "recipe", set(recipe.images), software)


def verify_sets(path: Path, config: Verify, progress: Progress) -> VerifyReport:
    """Compare the pictures of an artifact with its sources: each frame decoded and saved again must be the same file, each
    photo must still lie among the sources.
    """
    _, dataset = open_sets(path)
    comparison = _Comparison(path, config, progress)
    frames, photos = [], []
    with progress.task("read pictures", len(dataset.images)) as task:
        for image in dataset.images.values():
            if (trouble := _trouble(path, image)) is not None:
                comparison.verdicts[image.id] = trouble
            elif image.index is None:
                photos.append((image, _source_name(image)))
            else:
                frames.append(image)
            task.advance()

    def frame(image: Image, rgb: Pixels) -> ImageDifference | None:
        content = encode_jpeg(rgb)
        if sha256_bytes(content) == image.sha256:
            return None
        message = "the frame decoded and saved here is another file than the picture"
        return ImageDifference(image.id, "saved_file", message, _distance(path / image.path, content))

    wanted, comparison.problems = _by_video(frames, {source.name: source for source in dataset.sources})
    comparison.frames(wanted, frame)
    # a photo is a copy of its source: the same file says all
    comparison.photos(photos, dataset.sources, lambda image, file: None)
    return comparison.report(path, "image_sets", set(dataset.images))


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


def _trouble(path: Path, image: Image) -> ImageDifference | None:
    try:
        same = sha256_file(path / image.path) == image.sha256
    except OSError as error:
        return ImageDifference(image.id, "missing", f"{image.path} cannot be read: {error.strerror}")
    return None if same else ImageDifference(image.id, "changed", f"{image.path} was changed since it was saved")


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
