"""`ctxr rebuild`: the images of a recipe made again out of the owner's videos and photos."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ctxr.datasets.changes import changed
from ctxr.datasets.rebuilding import ImageDifference, RebuildRecipe, RecipeImage, read_rebuild_recipe
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UsageError, and_more
from ctxr.media.footage import other_software, pixels_sha256
from ctxr.media.images import Pixels, encode_jpeg
from ctxr.media.sources import require_sources
from ctxr.pipelines.curation.config import Rebuild, RebuildReport
from ctxr.pipelines.curation.originals import Originals, recipe_at
from ctxr.store.artifacts import MANIFEST, MARKER, Artifact, Content, Parent, open_artifact, take_manifest
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_if_readable
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import remember_paths
from ctxr.store.records import Facts, Failure, Image, ImageSet, Record, Shot
from ctxr.store.tables import PAYLOADS, payload_rows, read_table, write_tables
from ctxr.store.units import IMAGES, SOURCES


def run(config: Rebuild, progress: Progress = SILENT) -> RebuildReport:
    """Make the images of a recipe from its sources and report those that differ.

    A missing source costs only its sets. Raises UsageError for wrong arguments, UnfinishedError without a finished recipe,
    DataError for a damaged recipe and when no source is found at all.
    """
    out = config.folder()
    up_to_date = execute(RebuildStage(config), progress).up_to_date
    tables: dict[str, Any] = {"differences": ImageDifference, "failures": Failure}
    rows = {name: [*map(msgspec.structs.asdict, read_table(out / f"{name}.jsonl", tables[name]))] for name in tables}
    report = RebuildReport(out, config.source(), up_to_date, open_artifact(out).manifest.counts, **rows)
    if report.differences and not report.up_to_date:
        progress.warn(f"{len(report.differences)} images differ from the recipe: see {out / 'differences.jsonl'}")
    return report


@dataclass(frozen=True)
class RebuildInputs(Inputs):
    """Where the recipe lies."""

    recipe: Path


@dataclass(frozen=True)
class RebuiltPictures:
    """Pictures by image id, those that did not come out as recorded, and by source why images of it could not be had."""

    images: dict[str, Image]
    differences: list[ImageDifference]
    failed: dict[str, DataError]


class RebuildStage(Stage[RebuildInputs]):
    """Makes the images of a recipe from its sources. Existing pictures are kept."""

    KIND = IMAGE_SETS
    IN_PLACE = True
    options: Rebuild

    def inputs(self, progress: Progress) -> RebuildInputs:
        """The recipe, a folder that may be written, and one that holds sources if it is named."""
        if self.options.videos is not None:
            require_sources(self.options.videos)
        artifact = recipe_at(self.options.source())
        refuse_other_verbs(self.out())
        parents = [Parent("recipe", artifact.manifest.kind, artifact.sha256)]
        return RebuildInputs(parents, self.options.key(), recipe=artifact.path)

    def pending(self, artifact: Artifact, inputs: RebuildInputs) -> bool:
        """Whether an image could not be made."""
        return artifact.manifest.counts.get("failed") != 0

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Tables, or else pictures."""
        return [*changed(artifact)]

    def _pictures(self, recipe: RebuildRecipe, out: Path, progress: Progress) -> RebuiltPictures:
        """Make the missing pictures."""
        originals, images = Originals(recipe.path, self.options, progress), recipe.images.values()
        had = {image.id for image in images if sha256_if_readable(out / image.path) == image.sha256}
        missing = [image for image in images if image.id not in had]
        made: list[tuple[Image, ImageDifference | None]]
        made = [(_image(image), None) for image in images if image.id in had]
        made += originals.recipe_frames(missing, recipe, partial(_frame, out))
        photos = [(image, image.source) for image in missing if image.index is None]
        for image, file in originals.photos(photos, recipe.sources.values()):
            link_or_copy(file, out / image.path)
            made.append((_image(image), None))
        pictures, failed = {row.id: row for row, _ in made}, originals.errors
        differences = [difference for _, difference in made if difference]
        if not pictures:
            first = failed[min(failed)] if failed else DataError(f"{recipe.path} holds no images")
            raise DataError(f"no image could be made: {first.message}{and_more(len(failed))}", hint=first.hint)
        for name in sorted(failed):
            progress.warn(failed[name].message)
        if differences and (other := other_software(recipe.head.software)):
            progress.warn(f"other versions are installed here than where the recipe was made: {other}")
        remember_paths(out, originals.locator.places)
        return RebuiltPictures(pictures, differences, failed)

    def write(self, inputs: RebuildInputs, out: Path, progress: Progress) -> Content:
        """Make the missing pictures, while the earlier result stays valid, then write the tables."""
        refuse_links(out)
        recipe = read_rebuild_recipe(inputs.recipe)
        made = self._pictures(recipe, out, progress)
        pictures, compared, failed = made.images, made.differences, made.failed
        take_manifest(out)
        sets = [image_set for image_set in recipe.sets if all(name in pictures for name in image_set.images)]
        used = {name for image_set in sets for name in image_set.images}
        images = [image for name, image in pictures.items() if name in used]
        differences = [row for row in compared if row.id in used]
        failures = [
            Failure(name, recipe.sources[name].file, getattr(error, "reason", "unreadable"), error.message, _RETRY)
            for name, error in failed.items()
        ]
        kept = {recipe.images[name].source for name in used}
        tables: dict[str, Sequence[Any]] = {
            "images": images,
            "sets": sets,
            "sources": [source for name, source in recipe.sources.items() if name in kept],
            "splits": recipe.splits,
            "groups": recipe.footage,
            "failures": failures,
            "differences": differences,
            "facts": list[Facts](),
            "shots": list[Shot](),
        }
        annotations = _annotations(recipe, sets)
        tables |= {name: rows for name, rows in annotations.items() if rows}
        write_tables(out, tables)
        _tidy(out, recipe, {image.path for image in images}, set(tables))
        split_of = {row.group: row.split for row in recipe.splits}
        splits = Counter(split_of.get(image_set.group) for image_set in sets)
        counts = {
            "sets": len(sets),
            "images": len(images),
            "equal": len(images) - len(differences),
            "different": len(differences),
            "sets_left_out": len(recipe.sets) - len(sets),
            "images_left_out": len({name for image_set in recipe.sets for name in image_set.images} - used),
            "failed": len(failures),
            "splits": {name: splits[name] for name in sorted(set(split_of.values()))},
        }
        return Content([f"{name}.jsonl" for name in tables], counts, recipe.head.models)


_RETRY = "ctxr rebuild --videos DIR"
"""The command that retries a source; without paths, so an artifact is the same wherever it was made."""


def refuse_other_verbs(out: Path) -> None:
    """Raise UsageError for a folder that another verb wrote, finished or not."""
    if (out / MANIFEST).is_file():
        verb = open_artifact(out).manifest.verb
        if verb != Rebuild.COMMAND:
            raise UsageError(f"{out} was made by ctxr {verb}", hint="choose another folder with --out")
    elif (out / SOURCES).exists():
        raise UsageError(f"{out} holds an unfinished artifact of another kind", hint="choose another folder with --out")


def refuse_links(out: Path) -> None:
    """Raise UsageError where a link would lead pictures out of the folder."""
    for folder in (out / IMAGES, *(out / IMAGES).glob("*")):
        if folder.is_symlink():
            raise UsageError(f"{folder} is a link to another folder", hint="choose an empty or new folder with --out")


def _frame(out: Path, image: RecipeImage, rgb: Pixels, stream: int | None) -> tuple[Image, ImageDifference | None]:
    """Save a decoded frame, and compare it with the recipe."""
    content, difference = encode_jpeg(rgb), None
    sha256 = sha256_bytes(content)
    write_bytes(out / image.path, content, durable=False)
    if pixels_sha256(rgb) != image.pixels:
        what = "the decoded frame has other pixels than the recipe says"
        difference = ImageDifference(image.id, "pixels", what)
    elif sha256 != image.sha256:
        what = "the decoded frame is the one of the recipe, but saved as JPEG it is another file"
        difference = ImageDifference(image.id, "saved_file", what)
    return msgspec.structs.replace(_image(image), sha256=sha256, height=rgb.shape[0], width=rgb.shape[1]), difference


def _image(image: RecipeImage) -> Image:
    size = image.width, image.height
    return Image(image.id, image.path, image.sha256, image.group, *size, image.index, image.time)


def _annotations(recipe: RebuildRecipe, sets: Sequence[ImageSet]) -> dict[str, Sequence[Record]]:
    """Texts, queries, judgments and payload tables about the sets that could be made."""
    made = {image_set.id for image_set in sets}
    queries = [query for query in recipe.queries if query.image_set in made]
    ids = {query.id for query in queries}
    named = {name for query in queries for name in query.texts}
    judgments = [judgment for judgment in recipe.judgments if judgment.query in ids]
    texts = [text for text in recipe.texts if text.id in named]
    images = {name for image_set in sets for name in image_set.images}
    payloads = payload_rows(recipe.payloads, {"query": ids, "image": images, "image_set": made})
    return {"texts": texts, "queries": queries, "judgments": judgments, **payloads}


def _tidy(out: Path, recipe: RebuildRecipe, wanted: set[str], tables: set[str]) -> None:
    """Remove leftovers of earlier runs: pictures of the recipe whose set could not be made, and half-written files."""
    with disk_errors(out):
        for image in recipe.images.values():
            if image.path not in wanted:
                (out / image.path).unlink(missing_ok=True)
        for name in ("texts", "queries", "judgments", *PAYLOADS):
            if name not in tables:
                (out / f"{name}.jsonl").unlink(missing_ok=True)
        for part in [*out.glob(".*.part"), *(out / IMAGES).glob("*/.*.part")]:
            part.unlink()
        for folder in sorted((out / IMAGES).glob("*")):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        (out / MARKER).touch()
