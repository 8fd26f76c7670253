"""`ctxr rebuild`: the images of a recipe made again out of the owner's videos and photos."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ctxr.datasets.changes import changed
from ctxr.datasets.rebuilding import ImageDifference, RebuildRecipe, RecipeImage, read_rebuild_recipe
from ctxr.engine.engines import Engine
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UsageError, and_more
from ctxr.media.footage import SourceLocator, other_software
from ctxr.media.images import Pixels, encode_jpeg
from ctxr.media.sources import require_sources
from ctxr.pipelines.curation.config import Rebuild, RebuildReport
from ctxr.pipelines.curation.originals import Originals, frame_difference, recipe_at
from ctxr.store.artifacts import MANIFEST, MARKER, Artifact, Content, Parent, open_artifact, take_manifest
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_if_readable
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import remember_paths
from ctxr.store.records import Failure, Image, Record
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


# the command that retries a source; without paths, so an artifact is the same wherever it was made
_RETRY = "ctxr rebuild --videos DIR"


class RebuildStage(Stage[Inputs]):
    """Makes the images of a recipe from its sources. Existing pictures are kept."""

    KIND = IMAGE_SETS
    IN_PLACE = True
    options: Rebuild

    def inputs(self, progress: Progress) -> Inputs:
        """The recipe, a folder that may be written, and one that holds sources if it is named."""
        require_sources(self.options.videos)
        artifact, out = recipe_at(self.options.source()), self.out()
        if (out / MANIFEST).is_file():
            verb = open_artifact(out).manifest.verb
            if verb != Rebuild.COMMAND:
                raise UsageError(f"{out} was made by ctxr {verb}", hint="choose another folder with --out")
        elif (out / SOURCES).exists():
            what = f"{out} holds an unfinished artifact of another kind"
            raise UsageError(what, hint="choose another folder with --out")
        return Inputs([Parent("recipe", artifact.manifest.kind, artifact.sha256)], self.options.key())

    def pending(self, artifact: Artifact, inputs: Inputs) -> bool:
        """Whether an image could not be made."""
        return artifact.manifest.files["failures.jsonl"].bytes > 0

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Tables, or else pictures."""
        return [*changed(artifact)]

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Make the missing pictures, while the earlier result stays valid, then write the tables."""
        for folder in (out / IMAGES, *(out / IMAGES).glob("*")):
            if folder.is_symlink():
                hint = "choose an empty or new folder with --out"
                raise UsageError(f"{folder} is a link to another folder", hint=hint)
        recipe = read_rebuild_recipe(self.options.source())
        locator = SourceLocator(recipe.path, self.options.videos, progress)
        originals = Originals(locator, Engine(self.options.engine, self.options.jobs), progress)
        self.announce(progress, sets=len(recipe.sets), pictures=len(recipe.images))
        pictures = _make_pictures(recipe, out, originals, progress)
        take_manifest(out)
        sets = [image_set for image_set in recipe.sets if all(name in pictures for name in image_set.images)]
        used = {name for image_set in sets for name in image_set.images}
        images = [image for name, image in pictures.items() if name in used]
        differences = [row for name, row in originals.compared.items() if row and name in used]
        failures = [
            Failure(name, recipe.sources[name].file, getattr(error, "reason", "unreadable"), error.message, _RETRY)
            for name, error in originals.errors.items()
        ]
        kept = {recipe.images[name].source for name in used}
        tables: dict[str, Sequence[Record]] = {
            "images": images,
            "sets": sets,
            "sources": [source for name, source in recipe.sources.items() if name in kept],
            "splits": recipe.splits,
            "groups": recipe.footage,
            "failures": failures,
            "differences": differences,
            "facts": (),
            "shots": (),
        }
        # texts, queries, judgments and payload tables about the sets that could be made
        made = {image_set.id for image_set in sets}
        queries = [query for query in recipe.queries if query.image_set in made]
        ids, named = {query.id for query in queries}, {name for query in queries for name in query.texts}
        annotations: dict[str, Sequence[Record]] = {
            "texts": [text for text in recipe.texts if text.id in named],
            "queries": queries,
            "judgments": [judgment for judgment in recipe.judgments if judgment.query in ids],
            **payload_rows(recipe.payloads, {"query": ids, "text": named, "image": used, "image_set": made}),
        }
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


def _make_pictures(recipe: RebuildRecipe, out: Path, originals: Originals, progress: Progress) -> dict[str, Image]:
    """Make the missing pictures. Returns all pictures by id. Raises DataError if there are none."""
    kept = (image for image in recipe.images.values() if sha256_if_readable(out / image.path) == image.sha256)
    pictures = {image.id: _picture(image) for image in kept}
    missing = [image for image in recipe.images.values() if image.id not in pictures]
    for name, (picture, difference) in originals.frames(missing, recipe.sources, partial(_save, out)).items():
        pictures[name], originals.compared[name] = picture, difference
    for image, file in originals.photos(missing, recipe.sources):
        link_or_copy(file, out / image.path)
        pictures[image.id] = _picture(image)
    failed = originals.errors
    if not pictures:
        first = failed[min(failed)] if failed else DataError(f"{recipe.path} holds no images")
        raise DataError(f"no image could be made: {first.message}{and_more(len(failed))}", hint=first.hint)
    for name in sorted(failed):
        progress.warn(failed[name].message)
    if any(originals.compared.values()) and (other := other_software(recipe.head.software)):
        progress.warn(f"other versions are installed here than where the recipe was made: {other}")
    remember_paths(out, originals.locator.places)
    return pictures


def _save(out: Path, image: RecipeImage, rgb: Pixels, _stream: int | None) -> tuple[Image, ImageDifference | None]:
    """Write a picture. Returns it, and how it differs."""
    content = encode_jpeg(rgb)
    write_bytes(out / image.path, content, durable=False)
    height, width, _ = rgb.shape
    picture = msgspec.structs.replace(_picture(image), sha256=sha256_bytes(content), height=height, width=width)
    return picture, frame_difference(image, rgb, content)


def _picture(image: RecipeImage) -> Image:
    size = image.width, image.height
    return Image(image.id, image.path, image.sha256, image.group, *size, image.index, image.time)


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
