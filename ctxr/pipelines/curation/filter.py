"""`ctxr filter`: image sets without blurry, text-heavy or small images; what falls out is replaced (specs C1.3).

A rejected frame is as if it had never been there: the walk runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import changed, discard, refuse_changed
from ctxr.datasets.image_sets import report_on
from ctxr.engine.parallel import side_by_side
from ctxr.engine.progress import Progress, ProgressTask, Silent
from ctxr.engine.project import require_workers
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.footage import RESTORE, SourceLocator
from ctxr.media.sources import FoundSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.build_sets import SetsRun, typed_options
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.image_sets import SetsOrigin, complete
from ctxr.pipelines.curation.photos import PhotoPicking, gather_pool
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits, forget_other_measures
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger
from ctxr.store.artifacts import (
    MANIFEST,
    Artifact,
    Parent,
    finished,
    locked,
    open_artifact,
    require_ours,
    take_manifest,
)
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import place_of
from ctxr.store.records import Failure, Split
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, Stamp, album_files, read_unit, unit_folder


def run(config: Filter, progress: Progress | None = None) -> SetsReport:
    """Filter image sets and say what is left.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError when a source is needed and
    cannot be found.
    """
    progress = progress or Silent()
    limits = QualityLimits.of(config)
    limits.check()
    if not limits:
        raise UsageError("nothing to filter by", hint="ctxr filter --brisque 0.65   (or --max-text, --min-size)")
    if config.brisque_weights not in ("live", "piq"):
        raise UsageError(f"--brisque-weights {config.brisque_weights} is unknown", hint="choose live or piq")
    if config.ocr not in ("auto", "tesserocr", "pytesseract"):
        raise UsageError(f"--ocr {config.ocr} is unknown", hint="choose auto, tesserocr or pytesseract")
    source = config.input or config.workdir / "sets"
    out = config.folder()
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder", hint="choose another --out or --workdir")
    if out.resolve() == source.resolve():
        raise UsageError("--input and --out are the same folder", hint="choose another --out")
    artifact = open_artifact(source, IMAGE_SETS, _maker(config))
    refuse_changed(artifact, "ctxr build-sets")
    _check_same_limits(artifact.manifest.config, config)
    parents = [Parent("image_sets", IMAGE_SETS, artifact.sha256), *artifact.manifest.parents]
    ready = finished(out, IMAGE_SETS, "filter", config.result_config(), parents)
    files, units = changed(ready) if ready else ([], [])
    if ready and not files:
        return report_on(out, up_to_date=True, read=source)
    require_ours(out)
    with locked(out):
        refilter(config, artifact, out, parents, progress, lambda: discard(out, files, units, progress))
    report = report_on(out, up_to_date=False, read=source)
    if not report.counts["sets"]:
        asked = {"--brisque": config.brisque, "--max-text": config.max_text, "--min-size": config.min_size}
        limits_typed = " and ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        progress.warn(f"no set is left by {limits_typed}: wider limits let more through")
    return report


def _maker(config: Filter) -> str:
    """The command that makes what this filter reads."""
    if config.input is not None:
        return f"ctxr build-sets videos/ --out {config.input}"
    return "ctxr build-sets videos/" + ("" if config.workdir == Filter().workdir else f" -w {config.workdir}")


def _check_same_limits(built: dict[str, Any], config: Filter) -> None:
    """A limit that the sets were built with stays in force: dropping it silently would bring bad frames back."""
    for name in ("brisque", "max_text", "min_size"):
        before, now = built.get(name), getattr(config, name)
        if before is not None and now is None:
            option = "--" + name.replace("_", "-")
            raise DataError(
                f"the sets were built with {option} {before}, which this filter leaves out",
                hint=f"add {option} {before} (or another value) to the command",
            )


def refilter(
    config: Filter,
    artifact: Artifact,
    out: Path,
    parents: Sequence[Parent],
    progress: Progress,
    clear: Callable[[], None],
) -> None:
    """Make or complete the artifact `out` from the finished sets in `artifact`. The caller holds the lock of `out`; `clear`
    removes from it what must be made anew.

    A video that cannot be used any more costs only itself. It is then no parent of the result, so that the same command tries
    it again. Raises DataError when none can be used, and for an album of which a photo is gone or was changed.
    """
    require_workers(config.workers)
    _check_built(artifact)
    models, built = artifact.manifest.models, artifact.manifest.config
    quality = QualityGate(QualityLimits.of(config), config.brisque_weights, config.ocr)
    selection = models["selection"]
    described = {"encoder": models["encoder"], "selection": selection, "quality": quality.describe()}
    picking = Picking(selection["threshold"], selection["set_size"], selection["margin"], quality)
    there = [parent.name for parent in artifact.manifest.parents if unit_folder(artifact.path, parent.name).is_dir()]
    units = [read_unit(artifact.path, name) for name in there]
    # the search says nothing: a line of progress is there already when a worker first asks
    sources = SourceLocator(artifact.path, config.videos, Silent())
    context = UnitContext(out, picking, _embedder(models["encoder"], built, config, progress))
    run = SetsRun(context, progress, shlex.join(["ctxr", "filter", *typed_options(config)]), RESTORE)
    stamps = {
        unit.source.name: Stamp(
            unit.stamp.scan, sha256_of([unit.stamp.scan, unit.stamp.select, vars(quality.limits)]), quality.stamps()
        )
        for unit in units
    }
    # everything that can be refused has been: from here on the old result is no longer complete
    finished_before = take_manifest(out)
    clear()
    videos = [unit for unit in units if unit.source.kind == "video"]
    with progress.task("filter videos", len(videos)) as task:
        work = partial(_video, run, artifact, sources, stamps, task)
        side_by_side(work, videos, config.workers, context.stopping.set)
    if albums := [unit for unit in units if unit.source.kind == "photos"]:
        _photos(run, artifact, sources, albums, {unit.source.name: stamps[unit.source.name] for unit in albums})
    failed_before = read_table(artifact.path / "failures.jsonl", Failure)
    run.require_units(finished_before, failed_before, RESTORE)
    if not artifact.is_still_there():
        raise UnfinishedError(f"{artifact.path} was made anew meanwhile", hint="run the same command again")
    failed = {failure.source for failure in run.failures}
    used = [parent for parent in parents if parent.name not in failed]
    # the sides were dealt when the sets were built, and filtering moves nobody
    sides = {row.group: row.split for row in read_table(artifact.path / "splits.jsonl", Split)}
    origin = SetsOrigin("filter", config.result_config(), used, described, sides, built.get("salt", "ctxr"))
    complete(out, origin, run.units, [*failed_before, *run.failures], progress)


def _check_built(artifact: Artifact) -> None:
    """Whether the sets come from `build-sets`, whose settings are needed to pick again."""
    if artifact.manifest.verb == "filter":
        raise UsageError(
            f"{artifact.path} was made by ctxr filter, which filters only what build-sets made",
            hint="filter the sets themselves again, with all limits in one command",
        )
    models, built = artifact.manifest.models, artifact.manifest.config
    wanted = {"selection": ("threshold", "set_size", "margin", "duplicate"), "encoder": ("name", "fingerprint")}
    missing = [
        f"models.{part}.{name}" for part, names in wanted.items() for name in names if name not in models.get(part, {})
    ]
    missing += [f"config.{name}" for name in ("precision", "sample", "seed") if name not in built]
    if missing:
        raise DataError(f"{artifact.path / MANIFEST} does not say {missing[0]}", hint="run ctxr build-sets again")


def _video(
    run: SetsRun,
    artifact: Artifact,
    sources: SourceLocator,
    stamps: Mapping[str, Stamp],
    task: ProgressTask,
    unit: SourceUnit,
) -> None:
    """Pick the sets of a video again, or take them as an earlier run left them."""
    source = unit.source
    if not run.take(source.name, stamps[source.name]):
        run.attempt(
            source.name,
            lambda: place_of(artifact.path, source.sha256) or source.file,
            lambda: pick_from_ledger(
                run.context, unit, artifact.path, partial(sources.video, source), stamps[source.name]
            ),
        )
    task.advance()


def _photos(
    run: SetsRun, artifact: Artifact, sources: SourceLocator, albums: Sequence[SourceUnit], stamps: Mapping[str, Stamp]
) -> None:
    if all(run.take(name, stamp) for name, stamp in stamps.items()):
        return
    found = [_album(sources, unit) for unit in albums]
    known = {unit.source.name: unit for unit in albums}
    pool = gather_pool(run.context.artifact, found, known, {}, run.context.embedder, lambda count: None)
    measures = run.context.picking.quality.stamps()
    facts = {
        (unit.source.name, row.index): row
        for unit in albums
        for row in forget_other_measures(unit.facts, unit.stamp.measures, measures)
    }
    built = artifact.manifest.config
    duplicate = artifact.manifest.models["selection"]["duplicate"]
    choice = PhotoPicking(duplicate, built["sample"], built["seed"])
    run.pick_photos(pool, found, stamps, choice, facts, "filter photos")


def _album(sources: SourceLocator, unit: SourceUnit) -> FoundSource:
    """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
    source, folder = unit.source, sources.album(unit.source)
    files, hashes, wrong = album_files(unit, folder)
    if wrong:
        raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=RESTORE)
    return FoundSource(source.name, "photos", folder, source.sha256, source.bytes, tuple(files), tuple(hashes))


def _embedder(described: dict[str, Any], built: dict[str, Any], config: Filter, progress: Progress) -> Embedder:
    """The encoder that the sets were built with, loaded only if a decision has to be taken again."""

    @cache
    def make() -> "Encoder":
        encoder = load_encoder(described["name"], config.device, built["precision"], warn=progress.warn)
        if encoder.fingerprint != described["fingerprint"]:
            raise DataError(
                f"the encoder {described['name']} is not the one the sets were built with (other weights)",
                hint="run ctxr build-sets again, then filter",
            )
        return encoder

    return Embedder(make, threading.Lock())
