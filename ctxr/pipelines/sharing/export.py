"""`ctxr export`: image sets and what is asked about them, in the formats of other tools, with a dataset card.

Formats: the layout of the ImageCoDe release, a folder for `datasets`, WebDataset shards, Croissant, FiftyOne, a task of mteb, and a
recipe that holds everything but the pixels (`ctxr rebuild` makes the same frames from it again).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from ctxr.annotation.records import DROPPED
from ctxr.datasets.lineage import content_of, picture_parents
from ctxr.datasets.open import open_dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rounds import label_notes
from ctxr.datasets.splits import alert_of_leaks
from ctxr.datasets.writers import croissant, documents, fiftyone, hf, imagecode, mteb, narratives, recipe, webdataset
from ctxr.datasets.writers.job import (
    UNKNOWN,
    ExportJob,
    ExportResult,
    Licence,
    read_licences,
    without_test_answers,
)
from ctxr.datasets.writers.photochat import write as write_photochat
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.stage import LEAVING, MAKING, Inputs, Stage, execute
from ctxr.errors import DataError, UsageError, plural, some
from ctxr.models.hub import STAND_INS
from ctxr.pipelines.sharing.config import Export, ExportReport
from ctxr.pipelines.sharing.figures import TABLES, as_printed, prove
from ctxr.problems.question import find_learner
from ctxr.problems.registry import question_about
from ctxr.problems.runs import Scoring, ScoringOptions, find_runs, run_sources
from ctxr.store.artifacts import MANIFEST, MARKER, Content, Manifest, Parent, open_artifact
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EXPORT
from ctxr.store.paths import without_folder
from ctxr.store.records import Source

CARD = "README.md"
"""Name of the dataset card, the one file of an export that people edit."""

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")


def card(
    job: ExportJob, manifest: Manifest | None, fingerprint: str, written: ExportResult, figures: Mapping[str, float]
) -> str:
    """The card as Markdown; for `hf` and `mteb` with YAML for the hub and `datasets`."""
    counts = job.counts
    subject = question_about(job.dataset).subject
    rows = [f"| {name} | {as_printed(value)} |" for name, value in figures.items()]
    front: list[str] = []
    if written.front_matter:
        licence = job.shared_licence
        size = next((name for most, name in _SIZES if counts.sets < most), "1M<n<10M")
        front = ["---", f"pretty_name: {_yaml(job.dataset.name)}"]
        front += ["license: other", f"license_name: {_yaml(licence)}"] if licence else ["license: unknown"]
        front += ["size_categories:", f"- {size}", "tags:", "- image-retrieval", written.front_matter, "---", ""]
    origin = [f"- as published by others; sha256 {fingerprint}"]
    if manifest:
        kinds = sorted({image_set.kind for image_set in job.dataset.sets})
        origin = [
            f"- made by ctxr {text(manifest.ctxr)} {text(manifest.verb)}; sha256 of its manifest {fingerprint}",
            f"- kinds of sets: {', '.join(kinds) or 'none'}",
        ]
        encoder, selection = (manifest.models.get(name, {}) for name in ("encoder", "selection"))
        if encoder and selection:
            name = text(without_folder(encoder.get("name", "")))
            threshold = f"{text(selection.get('threshold'))} (encoder {name})"
            origin.append(f"- frames of a video set are further apart than {threshold}")
            if remark := STAND_INS.get(encoder["name"]):
                origin.append(f"- **{name} was used instead of CLIP**; {remark}")
        limits = [name for name in ("brisque", "max_text", "min_size") if manifest.config.get(name) is not None]
        origin += [f"- {name.replace('_', ' ')}: {text(manifest.config[name])}" for name in limits]
    parts = [
        "\n".join(front),
        f"# {text(job.dataset.name)}\n",
        f"{subject.sets[:1].upper()}{subject.sets[1:]}: a benchmark for {subject.task}.\n",
        "\n".join(["| figure | value |", "| --- | --- |", *rows, ""]),
        "`python verify.py` recomputes these figures from the tables of this release, and needs numpy alone; it does not check licences.\n",
        "## Loading\n",
        written.load,
        "## How it was made\n",
        "\n".join([*origin, ""]),
        "## Sources and licences\n",
        _licences(job),
    ]
    if left_out := [*written.left_out, *written.notes, *job.dataset.notes]:
        parts += ["## Left out or changed\n", "\n".join(f"- {line}" for line in left_out) + "\n"]
    return "\n".join(part for part in parts if part)


def text(value: object) -> str:
    """A value as Markdown that shows it as it is: one line, no markup, no table cell of its own."""
    return _MARKDOWN.sub(r"\\\1", " ".join(str(value).split()))


def _yaml(value: str) -> str:
    """A quoted YAML string: a JSON string of printable characters is one."""
    return json.dumps(" ".join(value.split()))


def _licences(job: ExportJob) -> str:
    images, known = job.dataset.images, job.licences
    sources: dict[str, Source] = {source.name: source for source in job.dataset.sources}
    rows = []
    # the sources that have images in a set
    for name in sorted({image.source for image in images.values()}):
        source = sources.get(name)
        shown = f"{text(name)} ({text(source.file)})" if source and source.file != name else text(name)
        rows.append((shown, known.get(name, Licence()), source.sha256 if source else ""))
    rows += [(text(name), known[name], images[name].sha256) for name in sorted(known) if name in images]
    lines = ["| source | licence | attribution | sha256 |", "| --- | --- | --- | --- |"]
    for shown, licence, sha256 in rows:
        link = f" <{licence.url.replace('>', '%3E').replace(' ', '%20').replace('|', '%7C')}>" if licence.url else ""
        lines.append(f"| {shown} | {text(licence.licence) or UNKNOWN} | {text(licence.attribution)}{link} | {sha256} |")
    note = ""
    if unknown := sum(not job.licence_of(image).licence for image in images.values()):
        note = (
            f"The licence of {unknown} of {len(images)} images is unknown. "
            "Ask the owner of a source before redistributing its images.\n"
        )
    return "\n".join([*lines, "", note])


WRITERS: dict[str, Callable[[ExportJob], ExportResult]] = {
    "imagecode": imagecode.write,
    "hf": hf.write,
    "webdataset": webdataset.write,
    "croissant": croissant.write,
    "fiftyone": fiftyone.write,
    "recipe": recipe.write,
    "links": documents.write_links,
    "mmc4": documents.write_mmc4,
    "narratives": narratives.write,
    "mteb": mteb.write,
    "photochat": write_photochat,
}


def run(options: Export, progress: Progress = SILENT) -> ExportReport:
    """Write an export and report its contents.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError for pictures that are missing or changed.
    """
    options.check()
    source = chosen(options.input, options.workdir, CHAIN, progress)
    up_to_date = execute(_ExportStage(options, source), progress).up_to_date
    counts = open_artifact(options.folder()).manifest.counts
    left_out, notes = (list(counts.pop(name, [])) for name in ("left_out", "notes"))
    return ExportReport(options.folder(), source, options.to, up_to_date, counts, left_out, notes)


class _ExportStage(Stage[Inputs]):
    KIND = EXPORT
    options: Export

    def __init__(self, options: Export, source: Path) -> None:
        super().__init__(options)
        self.source = source
        # whether it is as others publish it
        self.foreign = source.exists() and not any((source / name).exists() for name in (MANIFEST, MARKER))

    def inputs(self, progress: Progress) -> Inputs:
        options, out = self.options, self.out()
        inside, around = out.resolve(), self.source.resolve()
        if inside.is_relative_to(around) or around.is_relative_to(inside):
            raise UsageError(f"{out} and {self.source}, the input, are inside one another", hint="choose another --out")
        _refuse_others(out, options.to)
        if not self.foreign:
            open_artifact(self.source, maker="ctxr build-sets videos/")
        known = content_of(self.source)
        parents = [known, *picture_parents(self.source, known, options.workdir, progress)]
        key = options.key()
        if options.run:
            (scored,) = run_sources([_run_of(options.run)], options.workdir, known, progress)
            key["run"] = options.run.removeprefix(_run_of(options.run))  # a seed
            parents.append(structs.replace(scored.origin, name="scores"))
        if options.licences is not None:
            parents.append(Parent("licences", "table", sha256_file(options.licences)))
        return Inputs(parents, key)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        options, source = self.options, self.source
        manifest = None if self.foreign else open_artifact(source).manifest
        dataset = open_sets(source) if manifest else open_dataset(source, options.workdir, progress)
        alert_of_leaks(dataset, progress)
        if not dataset.sets:
            raise DataError(
                f"{source} holds no sets: there is nothing to export", hint="name image sets that hold some: --input"
            )
        subject = question_about(dataset).subject
        if options.to not in subject.formats:
            what = f"{options.to} cannot hold the {subject.unit}s{subject.of} in {source}"
            raise DataError(what, hint=f"--to {', '.join(subject.formats)}")
        dataset = replace(dataset, notes=(*dataset.notes, *label_notes(source)))
        licences, size = read_licences(options.licences, dataset), options.shard_mb * 10**6
        dataset = without_test_answers(dataset) if options.hide_test else dataset
        job = ExportJob(dataset, source, out, licences, size, progress, options.videos, options.jobs)
        if options.run:
            job = _with_scores(job, inputs.parents[0], options)
        self.announce(progress, **{name: getattr(job.counts, name) for name in ("sets", "images", "queries")})
        _keep_card(self.out(), progress)
        written = WRITERS[options.to](job)
        # votes on dropped descriptions do not name their split
        hidden = options.hide_test or options.to == "imagecode"
        shown = without_test_answers(dataset) if hidden else dataset
        home = "." if options.to == "recipe" else TABLES  # a recipe is these tables
        figures = prove(shown, source / (DROPPED if not hidden else ""), out, home)
        written.notes += [
            f"{plural(len(rows), 'row')} of {name}.jsonl are in {home}/ alone: {options.to} has no place for them."
            for name, rows in dataset.payloads.items()
            if name not in written.kept
        ]
        page = card(job, manifest, inputs.parents[0].sha256, written, figures)
        write_bytes(out / CARD, page.encode())
        for line in written.left_out:
            progress.warn(line)
        if unknown := sum(not job.licence_of(image).licence for image in dataset.images.values()):
            progress.note(
                f"the licence of {unknown} images is unknown: --licences FILE.csv (source,licence,attribution,url), or COCO captions"
            )
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        counts = asdict(job.counts) | written.counts | {"left_out": written.left_out, "notes": written.notes}
        return Content(files, counts, {"software": written.software} if written.software else {})


def _run_of(by: str) -> str:
    """What `by` names without the seed of `RUN/seed0`."""
    return re.sub(r"/seed[0-9]+$", "", by)


def _with_scores(job: ExportJob, origin: Parent, options: Export) -> ExportJob:
    """The job with the scores of all queries that `--run` means: a file, a run, the run of a seed, `RUN/seed0`, or a published model."""
    sources = run_sources([_run_of(options.run)], options.workdir, origin, job.progress)
    queries = [query.id for query in job.dataset.queries.values() if query.labels is None]
    learner = partial(find_learner, question_about(job.dataset))
    scoring = ScoringOptions(options.workdir)
    runs = find_runs(sources, Scoring(job.dataset, origin, queries, scoring, job.progress, learner))
    scorers = {scorer.name: scorer.values for run in runs for scorer in run.scorers}
    name = options.run if options.run in scorers else next(iter(scorers))
    if len(scorers) > 1 and options.run != name:
        raise UsageError(f"--run {options.run} is not one of its scorers: {some(scorers)}", hint=f"--run {name}")
    return replace(job, scorer=name, scores=scorers[name])


def _refuse_others(out: Path, to: str) -> None:
    """Raises UsageError where `out` is no export, or one in another format."""
    if not out.is_dir():
        return
    with disk_errors(out):
        names = {path.name for path in out.iterdir()}
    if MANIFEST in names:
        manifest = open_artifact(out).manifest
        if manifest.kind != EXPORT:
            raise UsageError(f"{out} holds {manifest.kind}, not an {EXPORT}", hint="choose another folder with --out")
        if manifest.config.get("to") != to:
            raise UsageError(
                f"{out} holds an export to {manifest.config.get('to')}, not to {to}", hint="choose another --out"
            )
    elif MARKER in names and names - {MARKER} and not names & {MAKING, LEAVING}:
        raise UsageError(f"{out} holds an unfinished artifact of another kind", hint="choose another folder with --out")


def _keep_card(out: Path, progress: Progress) -> None:
    """Before an export is replaced: a card that was edited by hand is kept beside the new one."""
    card = out / CARD
    if not (out / MANIFEST).is_file() or not card.is_file():
        return
    entry = open_artifact(out).manifest.files.get(CARD)
    if entry is not None and sha256_file(card) != entry.sha256:
        kept = out / f"{card.stem}.edited{card.suffix}"
        link_or_copy(card, kept)
        progress.warn(f"{card} was edited: your version is kept as {kept.name}")
