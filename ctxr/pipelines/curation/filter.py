"""`ctxr filter`: image sets without blurry, text-heavy or small images; rejected images are replaced (specs C1.3).

Filtering acts as if a rejected frame had never been sampled: the walk runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import discard, refuse_changed
from ctxr.datasets.image_sets import report_on
from ctxr.engine.parallel import run_in_parallel
from ctxr.engine.progress import Progress, ProgressTask, Silent
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs, execute
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.footage import RESTORE, SourceLocator
from ctxr.media.sources import InputSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.build_sets import SetsRun
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.image_sets import SetsStage, complete
from ctxr.pipelines.curation.photos import PhotoPicking, gather_pool
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits, forget_other_measures
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import place_of
from ctxr.store.records import Failure, Split
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, Stamp, album_files, read_unit, unit_folder


def run(config: Filter, progress: Progress | None = None) -> SetsReport:
    """Filter image sets and report on the rest.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError when a source is needed and
    cannot be found.
    """
    progress = progress or Silent()
    report = report_on(config.folder(), execute(FilterStage(config), progress).up_to_date, read=config.source())
    if not report.up_to_date and not report.counts["sets"]:
        asked = {"--brisque": config.brisque, "--max-text": config.max_text, "--min-size": config.min_size}
        limits_typed = " and ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        progress.warn(f"no set passes {limits_typed}: try wider limits")
    return report


@dataclass(frozen=True)
class FilterJob:
    """A filter run whose options and inputs are valid.

    Attributes:
        built: the sets to filter. units: theirs. stamps: of the units made of them. models: as in the manifest.
    """

    run: SetsRun
    built: Artifact
    sources: SourceLocator
    units: Sequence[SourceUnit]
    stamps: Mapping[str, Stamp]
    models: Mapping[str, Any]


class FilterStage(SetsStage):
    """Picks the sets of an artifact again, with limits.

    A video that cannot be used any more is left out. It is then no parent of the result, so the same command tries it again.
    """

    options: Filter

    def out(self) -> Path:
        """The folder of the artifact."""
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        """The finished sets."""
        built = open_artifact(self.options.source(), IMAGE_SETS, _maker(self.options))
        refuse_changed(built, "ctxr build-sets")
        _check_same_limits(built.manifest.config, self.options)
        return Inputs([Parent("image_sets", IMAGE_SETS, built.sha256), *built.manifest.parents], built)

    def prepare(self, inputs: Inputs, out: Path, progress: Progress) -> Inputs:
        """Read the units, and make the instruments."""
        options, built = self.options, inputs.data
        _check_built(built)
        models = built.manifest.models
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        selection = models["selection"]
        picking = Picking(selection["threshold"], selection["set_size"], selection["margin"], quality)
        there = [parent.name for parent in built.manifest.parents if unit_folder(built.path, parent.name).is_dir()]
        units = [read_unit(built.path, name) for name in there]
        stamps = {
            unit.source.name: Stamp(
                unit.stamp.scan, sha256_of([unit.stamp.scan, unit.stamp.select, vars(quality.limits)]), quality.stamps()
            )
            for unit in units
        }
        context = UnitContext(out, picking, _embedder(models["encoder"], built.manifest.config, options, progress))
        job = FilterJob(
            SetsRun(context, progress, options.decisive().command_line(), RESTORE),
            built,
            # the search reports no progress: it runs inside another progress line
            SourceLocator(built.path, options.videos, Silent()),
            units,
            stamps,
            {"encoder": models["encoder"], "selection": selection, "quality": quality.describe()},
        )
        return replace(inputs, data=job)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Pick again, video by video, then photos. Raises DataError for an album with a missing or changed photo."""
        job: FilterJob = inputs.data
        discard(out, *self.changed, progress)
        run, built = job.run, job.built
        videos = [unit for unit in job.units if unit.source.kind == "video"]
        with progress.task("filter videos", len(videos)) as task:
            run_in_parallel(partial(_video, job, task), videos, self.options.workers, run.context.stopping.set)
        if albums := [unit for unit in job.units if unit.source.kind == "photos"]:
            _photos(job, albums)
        failed_before = read_table(built.path / "failures.jsonl", Failure)
        run.require_units(failed_before, RESTORE)
        if not built.is_unchanged():
            raise UnfinishedError(f"{built.path} was rebuilt in the meantime", hint="run the same command again")
        return complete(
            out,
            run.units,
            [*failed_before, *run.failures],
            progress,
            models=job.models,
            # the splits were assigned when the sets were built, and filtering keeps them
            published={row.group: row.split for row in read_table(built.path / "splits.jsonl", Split)},
            salt=built.manifest.config.get("salt", "ctxr"),
        )

    def used(self, inputs: Inputs) -> Sequence[Parent]:
        """The parents without videos that failed."""
        failed = {failure.source for failure in inputs.data.run.failures}
        return [parent for parent in inputs.parents if parent.name not in failed]


def _maker(config: Filter) -> str:
    """The command that makes what this filter reads."""
    if config.input is not None:
        return f"ctxr build-sets videos/ --out {config.input}"
    return "ctxr build-sets videos/" + ("" if config.workdir == Filter().workdir else f" -w {config.workdir}")


def _check_same_limits(built: dict[str, Any], config: Filter) -> None:
    """Raise DataError for a limit that the sets were built with and that is missing now: rejected frames would return."""
    for name in ("brisque", "max_text", "min_size"):
        before, now = built.get(name), getattr(config, name)
        if before is not None and now is None:
            option = "--" + name.replace("_", "-")
            raise DataError(
                f"the sets were built with {option} {before}, which this filter leaves out",
                hint=f"add {option} {before} (or another value) to the command",
            )


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


def _video(job: FilterJob, task: ProgressTask, unit: SourceUnit) -> None:
    """Pick the sets of a video again, or reuse those of an earlier run."""
    source, built = unit.source, job.built.path
    stamp = job.stamps[source.name]
    if not job.run.take(source.name, stamp):
        job.run.attempt(
            source.name,
            lambda: place_of(built, source.sha256) or source.file,
            lambda: pick_from_ledger(job.run.context, unit, built, partial(job.sources.video, source), stamp),
        )
    task.advance()


def _photos(job: FilterJob, albums: Sequence[SourceUnit]) -> None:
    run, stamps = job.run, {unit.source.name: job.stamps[unit.source.name] for unit in albums}
    if all(run.take(name, stamp) for name, stamp in stamps.items()):
        return
    found = [_album(job.sources, unit) for unit in albums]
    known = {unit.source.name: unit for unit in albums}
    pool = gather_pool(run.context.artifact, found, known, {}, run.context.embedder, lambda count: None)
    measures = run.context.picking.quality.stamps()
    facts = {
        (unit.source.name, row.index): row
        for unit in albums
        for row in forget_other_measures(unit.facts, unit.stamp.measures, measures)
    }
    config = job.built.manifest.config
    choice = PhotoPicking(job.models["selection"]["duplicate"], config["sample"], config["seed"])
    run.pick_photos(pool, found, stamps, choice, facts, "filter photos")


def _album(sources: SourceLocator, unit: SourceUnit) -> InputSource:
    """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
    source, folder = unit.source, sources.album(unit.source)
    files, hashes, wrong = album_files(unit, folder)
    if wrong:
        raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=RESTORE)
    return InputSource(source.name, "photos", folder, source.sha256, source.bytes, tuple(files), tuple(hashes))


def _embedder(described: dict[str, Any], built: dict[str, Any], config: Filter, progress: Progress) -> Embedder:
    """The encoder that the sets were built with, loaded only if a decision must be repeated."""

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
