"""`ctxr build-documents`: documents with known links, made of the captions of a dataset."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctxr.datasets.constructors import construct
from ctxr.datasets.open import open_dataset, origin_of
from ctxr.datasets.splits import SPLITS, leakage_of
from ctxr.datasets.writers.job import ExportPictures
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.pipelines.curation.config import BuildDocuments, DocumentsReport
from ctxr.store.artifacts import Content
from ctxr.store.kinds import DATASET
from ctxr.store.tables import write_tables
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

    def out(self) -> Path:
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        dataset = open_dataset(self.options.dataset, self.options.workdir, progress)
        self.read = dataset.name
        return Inputs([origin_of(dataset)], dataset)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        wanted = {split: getattr(self.options, split) for split in SPLITS}
        built = construct(inputs.data, self.options.kind, wanted, self.options.seed)
        for note in built.notes:
            progress.warn(note)
        pictures = [image for image in built.images.values() if image.path]
        home = "" if all(image.path.startswith(f"{IMAGES}/") for image in pictures) else f"{IMAGES}/"
        with progress.task("pictures", len(pictures)) as task:
            for image in pictures:
                ExportPictures(inputs.data).link(image, out / f"{home}{image.path}")
                task.advance()
        images = [replace(image, path=image.path and f"{home}{image.path}") for image in built.images.values()]
        rows = write_tables(out, built.tables() | {"images": images})
        counts: dict[str, Any] = {"documents": len(built.sets), "sentences": rows["queries"], "images": len(images)}
        counts["links"] = sum(row.value > 0 for row in built.judgments)
        counts["splits"] = {split: [*built.splits.values()].count(split) for split in SPLITS}
        counts |= {"notes": built.notes} | leakage_of(built).counts()
        files = {f"{name}.jsonl" for name in rows} | {image.path for image in images if image.path}
        return Content(sorted(files), counts, {})
