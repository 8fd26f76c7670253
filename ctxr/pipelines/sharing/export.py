"""`ctxr export`: image sets and what is asked about them, in the formats of other tools, with a dataset card.

Formats: the layout of the ImageCoDe release, a folder for `datasets`, WebDataset shards, Croissant, FiftyOne, and a recipe that holds
everything but the pixels (`ctxr rebuild` makes the same frames from it again).
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxr.datasets.documents import is_documents
from ctxr.datasets.open import open_dataset, origin_of
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rounds import label_notes
from ctxr.datasets.splits import alert_of_leaks
from ctxr.datasets.writers import croissant, documents, fiftyone, hf, imagecode, recipe, webdataset
from ctxr.datasets.writers.job import (
    UNKNOWN,
    ExportJob,
    ExportResult,
    Licence,
    read_licences,
    source_names,
    without_test_answers,
)
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.stage import Inputs, Stage, execute, keep_card, refuse_others
from ctxr.errors import DataError, UsageError, some
from ctxr.pipelines.sharing.config import DOCUMENT_FORMATS, Export, ExportReport
from ctxr.problems.runs import SCORES
from ctxr.store.artifacts import MANIFEST, Content, Manifest, Parent
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EXPORT, RUNS
from ctxr.store.records import Source
from ctxr.store.scores import read_scores

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")


def card(job: ExportJob, manifest: Manifest | None, fingerprint: str, to: str, written: ExportResult) -> str:
    """The card as Markdown; for `hf` with YAML before it, which the hub and `datasets` read."""
    counts = job.counts()
    sets, task = "sets of minimally contrastive images", "finding the right image from a contextual text"
    if is_documents(job.dataset):
        sets, task = "documents of sentences and images", "linking the sentences and images of a document"
    splits = [f"| {name} | {number} |" for name, number in counts["splits"].items()]
    parts = [
        _front_matter(job, counts, written) if to == "hf" else "",
        f"# {text(job.dataset.name)}\n",
        f"{counts['sets']} {sets}, {counts['images']} images"
        + (f", {counts['queries']} queries" if counts["queries"] else ", no descriptions yet")
        + f": a benchmark for {task}.\n",
        "\n".join(["| side | sets |", "| --- | --- |", *splits, ""]),
        "## Loading\n",
        written.load,
        "## How it was made\n",
        _origin(job, manifest, fingerprint) if manifest else f"- documents as others keep them; sha256 {fingerprint}\n",
        "## Sources and licences\n",
        _licences(job),
    ]
    if left_out := [*written.left_out, *written.notes, *job.dataset.notes]:
        parts += ["## Left out or changed\n", "\n".join(f"- {line}" for line in left_out) + "\n"]
    return "\n".join(part for part in parts if part)


def text(value: object) -> str:
    """A value as Markdown that shows it as it is: one line, no markup, no table cell of its own."""
    return _MARKDOWN.sub(r"\\\1", " ".join(str(value).split()))


def _front_matter(job: ExportJob, counts: dict[str, Any], written: ExportResult) -> str:
    licence = job.licences.shared(job.dataset.images.values())
    lines = ["---", f"pretty_name: {_yaml(job.dataset.name)}"]
    lines += ["license: other", f"license_name: {_yaml(licence)}"] if licence else ["license: unknown"]
    size = next((name for most, name in _SIZES if counts["sets"] < most), "1M<n<10M")
    lines += ["size_categories:", f"- {size}", "tags:", "- image-retrieval", written.front_matter, "---", ""]
    return "\n".join(lines)


def _yaml(value: str) -> str:
    """A quoted YAML string: a JSON string of printable characters is one."""
    return json.dumps(" ".join(value.split()))


def _origin(job: ExportJob, manifest: Manifest, fingerprint: str) -> str:
    encoder = manifest.models.get("encoder", {})
    selection = manifest.models.get("selection", {})
    kinds = sorted({image_set.kind for image_set in job.dataset.sets})
    lines = [
        f"- made by ctxr {text(manifest.ctxr)} {text(manifest.verb)}; sha256 of its manifest {fingerprint}",
        f"- kinds of sets: {', '.join(kinds) or 'none'}",
    ]
    if encoder and selection:
        threshold = selection.get("threshold")
        lines.append(
            f"- frames of a video set are further apart than {text(threshold)} (encoder {text(encoder.get('name', ''))})"
        )
    limits = [name for name in ("brisque", "max_text", "min_size") if manifest.config.get(name) is not None]
    lines += [f"- {name.replace('_', ' ')}: {text(manifest.config[name])}" for name in limits]
    return "\n".join([*lines, ""])


def _licences(job: ExportJob) -> str:
    sources: dict[str, Source] = {source.name: source for source in job.dataset.sources}
    lines = ["| source | licence | attribution | sha256 |", "| --- | --- | --- | --- |"]
    for name in source_names(job.dataset):
        source = sources.get(name)
        shown = f"{text(name)} ({text(source.file)})" if source and source.file != name else text(name)
        lines.append(_row(shown, job.licences.known.get(name, Licence()), source.sha256 if source else ""))
    own = [name for name in sorted(job.licences.known) if name in job.dataset.images]
    lines += [_row(text(name), job.licences.known[name], job.dataset.images[name].sha256) for name in own]
    unknown = sum(not job.licences.of(image).licence for image in job.dataset.images.values())
    note = ""
    if unknown:
        note = (
            f"The licence of {unknown} of {len(job.dataset.images)} images is unknown. "
            "Ask the owner of a source before redistributing its images.\n"
        )
    return "\n".join([*lines, "", note])


def _row(name: str, licence: Licence, sha256: str) -> str:
    link = f" <{licence.url.replace('>', '%3E').replace(' ', '%20').replace('|', '%7C')}>" if licence.url else ""
    return f"| {name} | {text(licence.licence) or UNKNOWN} | {text(licence.attribution)}{link} | {sha256} |"


WRITERS: dict[str, Callable[[ExportJob], ExportResult]] = {
    "imagecode": imagecode.write,
    "hf": hf.write,
    "webdataset": webdataset.write,
    "croissant": croissant.write,
    "fiftyone": fiftyone.write,
    "recipe": recipe.write,
    "links": documents.write_links,
    "mmc4": documents.write_mmc4,
}
"""What writes each format."""


def run(options: Export, progress: Progress = SILENT) -> ExportReport:
    """Write an export and report its contents.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError for pictures that are missing or changed.
    """
    stage = _ExportStage(options)
    result = execute(stage, progress)
    assert result.artifact is not None  # noqa: S101  # a staged artifact is never incomplete
    counts = dict(result.artifact.manifest.counts)
    left_out, notes = (list(counts.pop(name, [])) for name in ("left_out", "notes"))
    return ExportReport(options.folder(), stage.source, options.to, result.up_to_date, counts, left_out, notes)


class _ExportStage(Stage):
    KIND = EXPORT
    STAGED = True
    options: Export
    source: Path

    def inputs(self, progress: Progress) -> Inputs:
        self.source = chosen(self.options.input, self.options.workdir, CHAIN, progress)
        _check_separate(self.source, self.out())
        refuse_others(self.out(), self.KIND, self.options.to)
        to, manifest = self.options.to, None
        if to in DOCUMENT_FORMATS and not (self.source / MANIFEST).is_file():
            dataset = open_dataset(self.source, self.options.workdir, progress)
            origin = origin_of(dataset)
        else:
            artifact, dataset = open_sets(self.source)
            manifest, origin = artifact.manifest, Parent("image_sets", artifact.manifest.kind, artifact.sha256)
        alert_of_leaks(dataset, progress)
        if not dataset.sets:
            raise DataError(
                f"{self.source} holds no sets: there is nothing to export", hint="build with a smaller --threshold"
            )
        holds = is_documents(dataset)
        if holds and to not in (*DOCUMENT_FORMATS, "hf", "webdataset"):
            raise DataError(f"{to} cannot hold the documents of {self.source}", hint="--to links, mmc4, hf, webdataset")
        if to in DOCUMENT_FORMATS and not holds:
            raise DataError(f"{self.source} holds no documents, which {to} is about", hint="ctxr build-documents")
        dataset = replace(dataset, notes=(*dataset.notes, *label_notes(self.source)))
        licences = read_licences(self.options.licences, dataset)
        parents = [origin]
        scores: list[Any] = []
        if self.options.by:
            path, *scores = _scores_by(self.options.by, self.options.workdir)
            parents.append(Parent("scores", "scores", sha256_file(path)))
        if self.options.licences is not None:
            parents.append(Parent("licences", "table", sha256_file(self.options.licences)))
        return Inputs(parents, (manifest, dataset, licences, scores))

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        options = self.options
        manifest, dataset, licences, scores = inputs.data
        dataset = without_test_answers(dataset) if options.hide_test else dataset
        keep_card(self.out(), progress)
        size = options.shard_mb * 10**6
        job = ExportJob(dataset, self.source, out, licences, size, progress, options.videos, options.workers, *scores)
        written = WRITERS[options.to](job)
        page = card(job, manifest, inputs.parents[0].sha256, options.to, written)
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


def _scores_by(by: str, workdir: Path) -> tuple[Path, str, dict[str, dict[str, float]]]:
    """A file of scores, a scorer in it, and its scores: `by` is a file, a run, or one seed of a run, `RUN/seed0`."""
    run = workdir / RUNS / by
    path = next((file for file in (Path(by), run / SCORES, run.parent / SCORES) if file.is_file()), None)
    if path is None:
        raise UsageError(f"--by {by} is neither a run in {workdir / RUNS} nor a file of scores", hint="ctxr eval RUN")
    scorers = read_scores(path)
    name = by if by in scorers else next(iter(scorers))
    if by not in scorers and (len(scorers) > 1 or path not in (Path(by), run / SCORES)):
        raise UsageError(f"--by {by} is not one of the scorers of {path}: {some(scorers)}", hint=f"--by {name}")
    return path, name or path.stem, scorers[name].values


def _check_separate(source: Path, out: Path) -> None:
    inside, around = out.resolve(), source.resolve()
    if inside.is_relative_to(around) or around.is_relative_to(inside):
        raise UsageError(f"{out} and {source}, the input, are inside one another", hint="choose another --out")
