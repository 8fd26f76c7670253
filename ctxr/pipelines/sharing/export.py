"""`ctxr export`: export image sets with their queries in common formats.

Formats: the layout of the ImageCoDe release, a folder for `datasets`, WebDataset shards, Croissant, FiftyOne, and a recipe that holds
everything but the pixels (`ctxr rebuild` makes the same frames from it again).
"""

from collections.abc import Callable
from pathlib import Path

from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.writers import croissant, fiftyone, hf, imagecode, recipe, webdataset
from ctxr.datasets.writers.card import card
from ctxr.datasets.writers.job import ExportJob, ExportResult, read_licences, without_test_answers
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.engine.staging import keep_card, refuse_others
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.sharing.config import Export, ExportReport
from ctxr.store.artifacts import Content, Parent
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file

WRITERS: dict[str, Callable[[ExportJob], ExportResult]] = {
    "imagecode": imagecode.write,
    "hf": hf.write,
    "webdataset": webdataset.write,
    "croissant": croissant.write,
    "fiftyone": fiftyone.write,
    "recipe": recipe.write,
}
"""What writes each format."""


def run(options: Export, progress: Progress | None = None) -> ExportReport:
    """Write an export and report its contents.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError for pictures that are missing or changed.
    """
    stage = _ExportStage(options)
    result = execute(stage, progress or Silent())
    assert result.artifact is not None  # noqa: S101  # a staged artifact is never incomplete
    counts = dict(result.artifact.manifest.counts)
    left_out, notes = (list(counts.pop(name, [])) for name in ("left_out", "notes"))
    return ExportReport(options.folder(), stage.source, options.to, result.up_to_date, counts, left_out, notes)


class _ExportStage(Stage):
    KIND = "export"
    STAGED = True
    options: Export
    source: Path

    def out(self) -> Path:
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        self.source = chosen(self.options.input, self.options.workdir, CHAIN, progress)
        _check_apart(self.source, self.out())
        refuse_others(self.out(), self.KIND, self.options.to)
        artifact, dataset = open_sets(self.source)
        if not dataset.sets:
            raise DataError(
                f"{self.source} holds no sets: there is nothing to export", hint="build with a smaller --threshold"
            )
        licences = read_licences(self.options.licences, dataset)
        parents = [Parent("image_sets", artifact.manifest.kind, artifact.sha256)]
        if self.options.licences is not None:
            parents.append(Parent("licences", "table", sha256_file(self.options.licences)))
        return Inputs(parents, (artifact, dataset, licences))

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        options = self.options
        artifact, dataset, licences = inputs.data
        dataset = without_test_answers(dataset) if options.hide_test else dataset
        keep_card(self.out(), progress)
        size = options.shard_mb * 10**6
        job = ExportJob(dataset, self.source, out, licences, size, progress, options.videos, options.workers)
        written = WRITERS[options.to](job)
        page = card(job, artifact.manifest, artifact.sha256, options.to, written)
        write_bytes(out / "README.md", page.encode())
        for line in written.left_out:
            progress.warn(line)
        if unknown := sum(not licences.of(image).licence for image in dataset.images.values()):
            progress.note(
                f"the licence of {unknown} images is unknown: --licences FILE.csv (source,licence,attribution,url), or COCO captions"
            )
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        counts = job.counts() | written.counts | {"left_out": written.left_out, "notes": written.notes}
        return Content(files, counts, {"software": written.software} if written.software else {})


def _check_apart(source: Path, out: Path) -> None:
    inside, around = out.resolve(), source.resolve()
    if inside == around or inside.is_relative_to(around) or around.is_relative_to(inside):
        raise UsageError(f"{out} and {source}, the input, are inside one another", hint="choose another --out")
