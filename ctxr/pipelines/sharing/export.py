"""`ctxr export`: image sets, with what is asked about them, in the formats that others read.

Formats: the layout of the ImageCoDe release, a folder for `datasets`, WebDataset shards, Croissant, FiftyOne, and a recipe that holds
everything but the pixels (`ctxr rebuild` makes the same frames from it again).
"""

from pathlib import Path
from typing import Any

from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.writers.card import card
from ctxr.datasets.writers.job import ExportJob, read_licences, without_test_answers
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.staging import keep_card, making, refuse_others
from ctxr.errors import DataError, UsageError, did_you_mean
from ctxr.pipelines.sharing.config import FORMATS, Export, ExportReport
from ctxr.store.artifacts import Content, Parent, finish, finished, locked
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file

KIND = "export"


def run(config: Export, progress: Progress | None = None) -> ExportReport:
    """Write an export and say what is in it.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError for pictures that are missing or changed.
    """
    from dataclasses import replace

    progress = progress or Silent()
    _check(config)
    source, out = chosen(config.input, config.workdir, CHAIN, progress), config.folder()
    _check_apart(source, out)
    artifact, dataset = open_sets(source)
    if not dataset.sets:
        raise DataError(f"{source} holds no sets: there is nothing to export", hint="build with a smaller --threshold")
    licences = read_licences(config.licences, dataset)
    parents = [Parent("image_sets", artifact.manifest.kind, artifact.sha256)]
    if config.licences is not None:
        parents.append(Parent("licences", "table", sha256_file(config.licences)))
    refuse_others(out, KIND, config.to)
    ready = finished(out, KIND, "export", config.result_config(), parents)
    if ready and not ready.changed_files():
        return _report(config, source, ready.manifest.counts, up_to_date=True)
    dataset = without_test_answers(dataset) if config.hide_test else dataset
    with locked(out), making(out) as folder:
        keep_card(out, progress)
        size = config.shard_mb * 10**6
        job = ExportJob(dataset, source, folder, licences, size, progress, config.videos, config.workers)
        counts = _write(config, job, artifact.manifest, artifact.sha256, parents)
    for line in counts["left_out"]:
        progress.warn(line)
    if unknown := sum(not licences.of(image).licence for image in dataset.images.values()):
        progress.note(
            f"the licence of {unknown} images is unknown: --licences FILE.csv (source,licence,attribution,url), or COCO captions"
        )
    return _report(replace(config, out=out), source, counts, up_to_date=False)


def _write(config: Export, job: Any, made_by: Any, fingerprint: str, parents: Any) -> dict[str, Any]:
    """Let the format write, then the card, then the manifest; returns the counts."""
    from importlib import import_module

    written = import_module(f"ctxr.datasets.writers.{config.to}").write(job)
    write_bytes(job.out / "README.md", card(job, made_by, fingerprint, config.to, written).encode())
    files = sorted(path.relative_to(job.out).as_posix() for path in job.out.rglob("*") if path.is_file())
    counts = job.counts() | written.counts | {"left_out": written.left_out, "notes": written.notes}
    finish(
        job.out,
        kind=KIND,
        verb="export",
        config=config.result_config(),
        parents=parents,
        content=Content(files, counts, {"software": written.software} if written.software else {}),
    )
    return dict(counts)


def _check(config: Export) -> None:
    if config.to not in FORMATS:
        said = f"--to {config.to} is unknown" if config.to else "which format? --to is missing"
        hint = did_you_mean(config.to, FORMATS, f"choose one of {', '.join(FORMATS)}", "--to {}")
        raise UsageError(said, hint=hint)
    if config.shard_mb < 1:
        raise UsageError(f"--shard-mb {config.shard_mb} is out of range", hint="it is megabytes, at least 1")
    if not 0 <= config.workers <= 256:
        raise UsageError(f"--workers {config.workers} is out of range", hint="it is 0 = half the cores")


def _check_apart(source: Path, out: Path) -> None:
    inside, around = out.resolve(), source.resolve()
    if inside == around or inside.is_relative_to(around) or around.is_relative_to(inside):
        raise UsageError(f"{out} and {source}, which is read, lie within one another", hint="choose another --out")


def _report(config: Export, source: Path, counts: dict[str, Any], up_to_date: bool) -> ExportReport:
    plain = {name: value for name, value in counts.items() if name not in ("left_out", "notes")}
    left_out, notes = (list(counts.get(name, [])) for name in ("left_out", "notes"))
    return ExportReport(config.folder(), source, config.to, up_to_date, plain, left_out, notes)
