"""How sets are picked again with limits, which is what `ctxr filter` does.

Filtering acts as if a rejected frame had never been sampled: the walk runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import refuse_changed
from ctxr.datasets.splits import GROUPS, SPLITS, SPLITS_TABLE, assign_splits
from ctxr.engine.options import typed
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs
from ctxr.engine.units import WorkUnit
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.footage import RESTORE, SourceLocator
from ctxr.media.sources import InputSource, require_sources
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.config import BuildSets, Filter
from ctxr.pipelines.curation.copies import CopyRule
from ctxr.pipelines.curation.image_sets import SetsJob, SetsStage, VideoJob
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, gather_pool
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits, forget_other_measures
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import last_path
from ctxr.store.records import Failure, SharedFootage, Source, Split
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, Stamp, album_files, read_unit, unit_folder


class FilterStage(SetsStage):
    """Picks the sets of an artifact again, with limits.

    A video that cannot be used any more is left out. It is then no parent of the result, so the same command tries it again.
    """

    options: Filter
    label = "filter videos"
    nothing = RESTORE

    def inputs(self, progress: Progress) -> Inputs:
        """The finished sets, and a folder that holds sources if one is named."""
        if self.options.videos is not None:
            require_sources(self.options.videos)
        maker = BuildSets(out=self.options.input, workdir=self.options.workdir).command_line("videos/")
        built = open_artifact(self.options.source(), IMAGE_SETS, maker)
        _check_built(built)
        refuse_changed(built)
        _check_same_limits(built.manifest.config, self.options)
        return Inputs([Parent("image_sets", IMAGE_SETS, built.sha256), *built.manifest.parents], built)

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """As for all image sets; the result of the same command without the videos that failed is tried again."""
        ready = super().current(out, inputs)
        if ready is None and (out / MANIFEST).is_file():
            with suppress(UnfinishedError):  # another rank may remove the manifest meanwhile
                used = [parent for parent in inputs.parents if parent in open_artifact(out).manifest.parents]
                self.retried = super().current(out, replace(inputs, parents=used))
        return ready

    def remarks(self, report: SetsReport) -> Iterator[str]:
        """On limits that no set, or none of a split, passes."""
        if not report.up_to_date and not report.counts["sets"]:
            limits = vars(QualityLimits.of(self.options)).items()
            values = " and ".join(f"{typed(name)} {value}" for name, value in limits if value is not None)
            yield f"no set passes {values}: try wider limits"
        elif not report.up_to_date:
            before, after = self.built.manifest.counts["splits"], report.counts["splits"]
            if empty := [name for name in SPLITS if before.get(name) and not after.get(name)]:
                yield f"no sets are left in {' and '.join(empty)}: try wider limits, or add sources"

    def resolve(self, inputs: Inputs, out: Path, progress: Progress) -> SetsJob:
        """Read the units, and make the instruments."""
        options, self.built = self.options, inputs.data
        built = self.built
        models, config = built.manifest.models, built.manifest.config
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        selection = models["selection"]
        encoder = models["encoder"] | {"threshold": selection["threshold"]}
        picking = Picking(selection["threshold"], selection["set_size"], selection["margin"], quality)
        named = [parent.name for parent in built.manifest.parents if parent.kind in ("video", "photos")]
        sources = [name for name in named if unit_folder(built.path, name).is_dir()]
        units = [read_unit(built.path, name) for name in sources]
        stamps = {
            unit.source.name: Stamp(
                unit.stamp.scan, sha256_of([unit.stamp.scan, unit.stamp.select, vars(quality.limits)]), quality.stamps()
            )
            for unit in units
        }
        load = partial(_recorded_encoder, models["encoder"], options.device, progress)
        context = UnitContext(out, picking, Embedder(load))
        videos = [unit.source for unit in units if unit.source.kind == "video"]
        self.albums = [unit for unit in units if unit.source.kind == "photos"]
        # the search reports no progress: it runs inside another progress line
        self.sources = SourceLocator(built.path, options.videos, Silent())
        return SetsJob(
            FilterVideos(context, options.decisive().command_line(), RESTORE, built.path, self.sources),
            progress,
            [WorkUnit(source.name, stamps[source.name], source) for source in videos],
            {unit.source.name: stamps[unit.source.name] for unit in self.albums},
            {"encoder": encoder, "selection": selection, "quality": quality.describe()},
            # the splits were assigned when the sets were built, and filtering keeps them
            {row.group: row.split for row in read_table(built.path / SPLITS_TABLE, Split)},
            config.get("salt", "ctxr"),
            read_table(built.path / "failures.jsonl", Failure),
            read_table(built.path / GROUPS, SharedFootage) if GROUPS in built.manifest.files else (),
        )

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content | None:
        """Pick again, video by video, then photos. Raises DataError for an album with a missing or changed photo."""
        content = super().write(inputs, out, progress)
        if not inputs.data.is_unchanged():
            raise UnfinishedError(f"{inputs.data.path} was rebuilt in the meantime", hint="run the same command again")
        return content

    def used(self, inputs: Inputs) -> Sequence[Parent]:
        """The parents without videos that failed."""
        failed = {failure.source for failure in self.job.failures}
        return [parent for parent in inputs.parents if parent.name not in failed]

    def deal(self, job: SetsJob, pool: PhotoPool | None = None) -> None:
        """Filtering keeps the splits."""
        sources = dict.fromkeys([*job.units, *job.stamps], True)
        job.splits = {row.group: row.split for row in assign_splits(sources, (), job.fixed, job.salt)}

    def photos(self, job: SetsJob) -> None:
        """Pick again from the photos of all albums."""
        self.deal(job)
        if all(job.take(name, stamp) for name, stamp in job.stamps.items()):
            return
        albums, context = [_album(self.sources, unit) for unit in self.albums], job.work.context
        units = {unit.source.name: unit for unit in self.albums}
        pool = gather_pool(context.artifact, albums, units, {}, context.embedder, watch=lambda count: None)
        measures = context.picking.quality.stamps()
        facts = {
            (unit.source.name, row.index): row
            for unit in self.albums
            for row in forget_other_measures(unit.facts, unit.stamp.measures, measures)
        }
        config = self.built.manifest.config
        copies = CopyRule.recorded(self.built.manifest.models["selection"])
        choice = PhotoPicking(copies, config["sample"], config["seed"])
        job.pick_photos(pool, albums, choice, facts, "filter photos")


@dataclass
class FilterVideos(VideoJob):
    """Picks again from the ledgers of the artifact `built`."""

    built: Path
    sources: SourceLocator

    def file(self, unit: WorkUnit) -> Path | str:
        """Where the video was last seen, or its name."""
        source: Source = unit.payload
        return last_path(self.built, source.sha256) or source.file

    def make(self, unit: WorkUnit) -> None:
        """Pick the sets of a video again."""
        video = partial(self.sources.video, unit.payload)
        pick_from_ledger(self.context, read_unit(self.built, unit.name), self.built, video, unit.stamp)


def _check_same_limits(built: dict[str, Any], config: Filter) -> None:
    """Raise DataError for a limit that the sets were built with and that is missing now: rejected frames would return."""
    for name in ("brisque", "max_text", "min_size"):
        before, now = built.get(name), getattr(config, name)
        if before is not None and now is None:
            option = typed(name)
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
    wanted = {
        "selection": ("threshold", "set_size", "margin", "duplicate"),
        "encoder": ("name", "fingerprint", "precision"),
    }
    missing = [
        f"models.{part}.{name}" for part, names in wanted.items() for name in names if name not in models.get(part, {})
    ]
    missing += [f"config.{name}" for name in ("sample", "seed") if name not in built]
    if missing:
        raise DataError(f"{artifact.path / MANIFEST} does not say {missing[0]}", hint="run ctxr build-sets again")


def _album(sources: SourceLocator, unit: SourceUnit) -> InputSource:
    """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
    source, folder = unit.source, sources.album(unit.source)
    files, hashes, wrong = album_files(unit, folder)
    if wrong:
        raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=RESTORE)
    return InputSource(source.name, "photos", folder, source.sha256, source.bytes, tuple(files), tuple(hashes))


def _recorded_encoder(recorded: dict[str, Any], device: str, progress: Progress) -> Encoder:
    """The encoder that the sets were built with, in its precision."""
    encoder = load_encoder(recorded["name"], device, recorded["precision"], warn=progress.warn)
    if encoder.fingerprint != recorded["fingerprint"]:
        raise DataError(
            f"the encoder {recorded['name']} is not the one the sets were built with (other weights)",
            hint="run ctxr build-sets again, then filter",
        )
    if recorded["precision"] not in encoder.precisions():
        hint = "pip install openvino and use --device cpu"
        raise UsageError(f"these sets were made with OpenVINO, which is not available on {encoder.device}", hint=hint)
    return encoder
