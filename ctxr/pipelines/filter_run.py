"""The work behind `ctxr filter`: every unit picked again with quality in force."""

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, take_manifest
from ctxr.data.hashing import sha256_of
from ctxr.data.records import Failure, Split
from ctxr.data.sources import FoundSource
from ctxr.data.tables import read_table
from ctxr.data.units import SourceUnit, Stamp, album_files, read_unit, unit_folder
from ctxr.data.whereabouts import place_of
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.build_work import SetsRun, typed_options
from ctxr.pipelines.decoding import side_by_side
from ctxr.pipelines.filter import Filter
from ctxr.pipelines.footage_again import RESTORE, SourceLocator
from ctxr.pipelines.inputs import require_workers
from ctxr.pipelines.photo_pool import gather_pool
from ctxr.pipelines.photo_units import PhotoPicking
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.quality import QualityGate, QualityLimits, forget_other_measures
from ctxr.pipelines.sets_artifact import SetsOrigin, complete
from ctxr.pipelines.talk import Silent, Talk, Task
from ctxr.pipelines.video_unit import Embedder, UnitContext, pick_from_ledger

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder


def refilter(
    config: Filter,
    artifact: Artifact,
    out: Path,
    parents: Sequence[Parent],
    talk: Talk,
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
    context = UnitContext(out, picking, _embedder(models["encoder"], built, config, talk))
    run = SetsRun(context, talk, shlex.join(["ctxr", "filter", *typed_options(config)]), RESTORE)
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
    with talk.progress("filter videos", len(videos)) as task:
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
    complete(out, origin, run.units, [*failed_before, *run.failures], talk)


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
    run: SetsRun, artifact: Artifact, sources: SourceLocator, stamps: Mapping[str, Stamp], task: Task, unit: SourceUnit
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


def _embedder(described: dict[str, Any], built: dict[str, Any], config: Filter, talk: Talk) -> Embedder:
    """The encoder that the sets were built with, loaded only if a decision has to be taken again."""

    @cache
    def make() -> "Encoder":
        from ctxr.models.encode import load_encoder

        encoder = load_encoder(described["name"], config.device, built["precision"], warn=talk.warn)
        if encoder.fingerprint != described["fingerprint"]:
            raise DataError(
                f"the encoder {described['name']} is not the one the sets were built with (other weights)",
                hint="run ctxr build-sets again, then filter",
            )
        return encoder

    return Embedder(make, threading.Lock())
