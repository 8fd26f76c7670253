"""`ctxr verify`: compare the images of a recipe or an artifact with their sources, frames by decoding, photos by hash."""

from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rebuilding import ImageDifference, RecipeImage, read_rebuild_recipe
from ctxr.engine.engines import Engine, map_items
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import SETS, chosen
from ctxr.errors import DataError, UsageError
from ctxr.media.footage import SourceLocator, other_software, pixels_sha256
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, read_image
from ctxr.media.sources import require_sources
from ctxr.pipelines.curation.config import Verify, VerifyReport
from ctxr.pipelines.curation.originals import Originals, frame_difference, recipe_at
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_if_readable
from ctxr.store.kinds import EXPORT, IMAGE_SETS
from ctxr.store.records import Image


def run(config: Verify, progress: Progress = SILENT) -> VerifyReport:
    """Decode every frame again, look every photo up by its hash, and compare. Nothing is written.

    Raises UsageError for wrong arguments, UnfinishedError without a finished artifact, DataError when its tables were changed.
    """
    config.check()
    require_sources(config.videos)
    path = chosen(config.artifact, config.workdir, SETS, progress)
    manifest = open_artifact(path, maker="ctxr build-sets, or ctxr export --to recipe").manifest
    is_recipe, to = manifest.kind == EXPORT, manifest.config.get("to")
    if is_recipe and to != "recipe":
        raise UsageError(f"{path} is an export to {to}", hint=f"ctxr doctor {path} checks its files")
    originals = Originals(SourceLocator(path, config.videos, progress), Engine(config.engine, config.jobs), progress)
    if is_recipe:
        recipe = read_rebuild_recipe(recipe_at(path).path)
        images = {*recipe.images}
        compare = partial(_compare_frame, config.pictures)
        originals.compared |= originals.frames(recipe.images.values(), recipe.sources, compare)
        photos = [*originals.photos(recipe.images.values(), recipe.sources)]
        alike = map_items(_same_pixels, photos, originals.engine, progress, "reading photos")
        for (image, _), same in zip(photos, alike, strict=True):
            message = "the photo is the same file, but is read as other pixels here"
            originals.compared[image.id] = None if same else ImageDifference(image.id, "pixels", message)
    else:
        dataset = open_sets(path)
        images = {*dataset.images}
        _compare_sets(dataset, path, originals, progress)
    rows = [msgspec.structs.asdict(difference) for _, difference in sorted(originals.compared.items()) if difference]
    software = other_software(recipe.head.software) if is_recipe and rows else ""
    unproven = sorted(images - originals.compared.keys())
    sources = {name: error.message for name, error in sorted(originals.errors.items())}
    kind, equal = "recipe" if is_recipe else IMAGE_SETS, len(originals.compared) - len(rows)
    return VerifyReport(path, kind, len(images), equal, rows, unproven, sources, software)


def _compare_sets(dataset: Dataset, path: Path, originals: Originals, progress: Progress) -> None:
    """Compare pictures with their sources: a frame decoded and saved again is the same file, a photo still lies there."""
    sources = {source.name: source for source in dataset.sources}
    whole, pictures = [], [*dataset.images.values()]
    problems = map_items(partial(_look, path), pictures, originals.engine, progress, "reading pictures")
    for image, problem in zip(pictures, problems, strict=True):
        if problem:
            originals.compared[image.id] = problem
        elif image.index is None or image.source in sources:
            whole.append(image)
        else:
            originals.errors[image.source] = DataError(f"nothing is known of the source {image.source}")
    originals.compared |= originals.frames(whole, sources, partial(_compare_saved, path))
    # a photo is a copy of its source: the same file says all
    originals.compared.update((image.id, None) for image, _ in originals.photos(whole, sources))


def _look(path: Path, image: Image) -> ImageDifference | None:
    """Whether a saved picture is still there, and the same."""
    try:
        same = sha256_file(path / image.path) == image.sha256
    except OSError as error:
        return ImageDifference(image.id, "missing", f"{image.path} cannot be read: {error.strerror}")
    return None if same else ImageDifference(image.id, "changed", f"{image.path} was changed since it was saved")


def _same_pixels(photo: tuple[RecipeImage, Path]) -> bool:
    image, file = photo
    return pixels_sha256(read_image(file)) == image.pixels


def _compare_frame(pictures: Path | None, image: RecipeImage, rgb: Pixels, _: int | None) -> ImageDifference | None:
    content = encode_jpeg(rgb)
    difference = frame_difference(image, rgb, content)
    if difference is None or pictures is None:
        return difference
    return msgspec.structs.replace(difference, distance=_distance(pictures / image.path, image.sha256, content))


def _compare_saved(path: Path, image: Image, rgb: Pixels, _stream: int | None) -> ImageDifference | None:
    content = encode_jpeg(rgb)
    if sha256_bytes(content) == image.sha256:
        return None
    message = "the frame decoded and saved here is another file than the picture"
    return ImageDifference(image.id, "saved_file", message, _distance(path / image.path, image.sha256, content))


def _distance(saved: Path, sha256: str, content: bytes) -> int | None:
    """Largest difference of two pixel values (0..255) between a saved picture and JPEG bytes; None for another picture or size."""
    if sha256_if_readable(saved) != sha256:
        return None
    # one decoder for both: what differs is then the files, not how they are read
    then, now = decode_jpeg(saved.read_bytes()), decode_jpeg(content)
    return int(np.abs(then.astype(np.int16) - now.astype(np.int16)).max(initial=0)) if then.shape == now.shape else None
