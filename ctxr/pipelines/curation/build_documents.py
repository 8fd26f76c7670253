"""`ctxr build-documents`: documents with known links, made of the captions of a dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ctxr.datasets.constructors import construct
from ctxr.datasets.open import open_dataset, origin_of
from ctxr.datasets.splits import SPLITS, leakage_of
from ctxr.datasets.writers.job import ExportPictures
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.pipelines.curation.config import BuildDocuments, DocumentsReport
from ctxr.store.artifacts import Content
from ctxr.store.kinds import DATASET
from ctxr.store.records import Split
from ctxr.store.tables import write_table
from ctxr.store.units import IMAGES


def run(options: BuildDocuments, progress: Progress | None = None) -> DocumentsReport:
    """Draw documents and report how many.

    Raises UsageError for wrong arguments, UnfinishedError without a dataset, DataError for one that gives no document.
    """
    stage = _DocumentsStage(options)
    result = execute(stage, progress or Silent())
    assert result.artifact is not None  # noqa: S101  # a staged artifact is never incomplete
    counts = dict(result.artifact.manifest.counts)
    return DocumentsReport(options.folder(), stage.read, result.up_to_date, counts, counts.pop("notes"))


class _DocumentsStage(Stage):
    KIND = DATASET
    STAGED = True
    options: BuildDocuments
    read: str

    def out(self) -> Path:
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        dataset = open_dataset(self.options.dataset, self.options.workdir, progress)
        self.read = dataset.name
        return Inputs([origin_of(dataset)], dataset)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        options, source = self.options, inputs.data
        wanted = {split: getattr(options, split) for split in SPLITS}
        built = construct(source, options.kind, wanted, options.seed)
        for note in built.notes:
            progress.warn(note)
        pictures, images = ExportPictures(source), []
        home = "" if all(image.path.startswith(f"{IMAGES}/") for image in built.images.values()) else f"{IMAGES}/"
        with progress.task("pictures", len(built.images)) as task:
            for image in built.images.values():
                images.append(msgspec.structs.replace(image, path=image.path and f"{home}{image.path}"))
                if image.path:
                    pictures.link(image, out / images[-1].path)
                task.advance()
        tables: dict[str, Sequence[Any]] = {
            "sets": built.sets,
            "images": images,
            "texts": [*built.texts.values()],
            "queries": [*built.queries.values()],
            "judgments": built.judgments,
            "splits": [Split(name, split) for name, split in built.splits.items()],
        }
        for name, rows in tables.items():
            write_table(out / f"{name}.jsonl", rows)
        splits = {split: sum(side == split for side in built.splits.values()) for split in SPLITS}
        links = sum(row.value > 0 for row in built.judgments)
        counts: dict[str, Any] = {
            "documents": len(built.sets),
            "sentences": len(built.queries),
            "images": len(images),
            "links": links,
        }
        counts |= {"splits": splits, "notes": built.notes} | leakage_of(built).counts()
        files = {f"{name}.jsonl" for name in tables} | {image.path for image in images if image.path}
        return Content(sorted(files), counts, {})
