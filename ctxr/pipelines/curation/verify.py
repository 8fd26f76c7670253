"""`ctxr verify`: compare the images of a recipe or an artifact with their sources, frames by decoding, photos by hash."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rebuilding import ImageDifference, RecipeImage, read_rebuild_recipe
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import SETS, chosen
from ctxr.errors import DataError, UsageError
from ctxr.media.footage import other_software, pixels_sha256
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, read_image
from ctxr.media.sources import require_sources
from ctxr.pipelines.curation.config import Verify, VerifyReport
from ctxr.pipelines.curation.originals import Originals, recipe_at
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_if_readable
from ctxr.store.kinds import EXPORT, IMAGE_SETS
from ctxr.store.records import Image

Verdicts = dict[str, ImageDifference | None]
"""How images differ from their sources, by id; None: proven equal."""


def run(config: Verify, progress: Progress = SILENT) -> VerifyReport:
    """Decode every frame again, look every photo up by its hash, and compare. Nothing is written.

    Raises UsageError for wrong arguments, UnfinishedError without a finished artifact, DataError when its tables were changed.
    """
    config.check()
    if config.videos is not None:
        require_sources(config.videos)
    path = chosen(config.artifact, config.workdir, SETS, progress)
    artifact = open_artifact(path, maker="ctxr build-sets, or ctxr export --to recipe")
    kind, to = artifact.manifest.kind, artifact.manifest.config.get("to")
    originals = Originals(path, config, progress)
    if kind == EXPORT and to == "recipe":
        return _verify_recipe(path, config, originals)
    if kind == EXPORT:
        raise UsageError(f"{path} is an export to {to}", hint=f"ctxr doctor {path} checks its files")
    return _verify_sets(path, originals, progress)


def _report(path: Path, kind: str, images: Collection[str], verdicts: Verdicts, originals: Originals) -> VerifyReport:
    rows = [msgspec.structs.asdict(difference) for _, difference in sorted(verdicts.items()) if difference]
    unproven = sorted(set(images) - verdicts.keys())
    sources = {name: error.message for name, error in sorted(originals.errors.items())}
    return VerifyReport(path, kind, len(images), len(verdicts) - len(rows), rows, unproven, sources, software="")


def _verify_recipe(path: Path, config: Verify, originals: Originals) -> VerifyReport:
    """Compare a recipe with its sources: pixels of frames and the files they are saved as, photos by their hash."""
    recipe = read_rebuild_recipe(recipe_at(path).path)

    def frame(image: RecipeImage, rgb: Pixels, stream: int | None) -> tuple[str, ImageDifference | None]:
        content = encode_jpeg(rgb)
        if pixels_sha256(rgb) != image.pixels:
            what = "pixels", "the decoded frame has other pixels than the recipe says"
        elif sha256_bytes(content) != image.sha256:
            what = "saved_file", "the frame is the same, its JPEG file is another"
        else:
            return image.id, None
        saved = config.pictures and config.pictures / image.path
        distance = _distance(saved, image.sha256, content) if saved else None
        return image.id, ImageDifference(image.id, *what, distance)  # type: ignore[arg-type]

    images = recipe.images.values()
    verdicts = dict(originals.recipe_frames(images, recipe, frame))
    photos = [(image, image.source) for image in images if image.index is None]
    for image, file in originals.photos(photos, recipe.sources.values()):
        same = pixels_sha256(read_image(file)) == image.pixels
        message = "the photo is the same file, but is read as other pixels here"
        verdicts[image.id] = None if same else ImageDifference(image.id, "pixels", message)
    report = _report(path, "recipe", recipe.images, verdicts, originals)
    return replace(report, software=other_software(recipe.head.software)) if report.differences else report


def _verify_sets(path: Path, originals: Originals, progress: Progress) -> VerifyReport:
    """Compare pictures with their sources: a frame decoded and saved again is the same file, a photo still lies there."""
    dataset = open_sets(path)
    sources = {source.name: source for source in dataset.sources}
    verdicts: Verdicts = {}
    frames, photos = [], []
    with progress.task("read pictures", len(dataset.images)) as task:
        for image in dataset.images.values():
            name = image.id.rpartition("/")[0] or image.group
            if (trouble := _trouble(path, image)) is not None:
                verdicts[image.id] = trouble
            elif image.index is None:
                photos.append((image, name))
            elif source := sources.get(name):
                frames.append((image, source))
            else:
                originals.errors[name] = DataError(f"nothing is known of the source {name}")
            task.advance()

    def frame(image: Image, rgb: Pixels, stream: int | None) -> tuple[str, ImageDifference | None]:
        content = encode_jpeg(rgb)
        if sha256_bytes(content) == image.sha256:
            return image.id, None
        message = "the frame decoded and saved here is another file than the picture"
        return image.id, ImageDifference(
            image.id, "saved_file", message, _distance(path / image.path, image.sha256, content)
        )

    verdicts |= dict(originals.frames(frames, frame))
    # a photo is a copy of its source: the same file says all
    verdicts |= {image.id: None for image, _ in originals.photos(photos, dataset.sources)}
    return _report(path, IMAGE_SETS, dataset.images, verdicts, originals)


def _trouble(path: Path, image: Image) -> ImageDifference | None:
    try:
        same = sha256_file(path / image.path) == image.sha256
    except OSError as error:
        return ImageDifference(image.id, "missing", f"{image.path} cannot be read: {error.strerror}")
    return None if same else ImageDifference(image.id, "changed", f"{image.path} was changed since it was saved")


def _distance(saved: Path, sha256: str, content: bytes) -> int | None:
    """Largest difference of two pixel values (0..255) between a saved picture and JPEG bytes; None for another picture or size."""
    if sha256_if_readable(saved) != sha256:
        return None
    # one decoder for both: what differs is then the files, not how they are read
    then, now = decode_jpeg(saved.read_bytes()), decode_jpeg(content)
    return int(np.abs(then.astype(np.int16) - now.astype(np.int16)).max(initial=0)) if then.shape == now.shape else None
