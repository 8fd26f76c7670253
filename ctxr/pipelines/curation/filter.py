"""`ctxr filter`: image sets without low-quality, text-heavy or small images; rejected images are replaced.

Filtering acts as if a rejected frame had never been sampled: the picker runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from ctxr.datasets.changes import refuse_changed
from ctxr.datasets.decisions import decisions_key, person_choices, read_decisions
from ctxr.datasets.splits import GROUPS, SPLITS, SPLITS_TABLE
from ctxr.engine.engines import device_of
from ctxr.engine.options import option_name
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import SourceInputs
from ctxr.engine.units import WorkUnit
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.footage import RESTORE, SourceLocator
from ctxr.media.sources import InputSource, digest_of, require_sources
from ctxr.pipelines.curation.config import BuildSets, Filter
from ctxr.pipelines.curation.copies import CopyRule
from ctxr.pipelines.curation.image_sets import SetsRun, SetsStage, VideoJob
from ctxr.pipelines.curation.photos import PhotoPicking, gather_pool, with_copies
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits, forget_other_measures
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext, pick_from_ledger
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import last_path, portable, rooted
from ctxr.store.records import SOURCE_KINDS, Decision, Failure, SharedFootage, Split
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, UnitKeys, album_files, read_unit, unit_folder


def run(config: Filter, progress: Progress = SILENT) -> SetsReport:
    """Filter image sets and report on the rest.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError when a source is needed and
    cannot be found.
    """
    return FilterStage(config).report(progress)


class FilterStage(SetsStage[SourceInputs[Artifact]]):
    """Picks the sets of an artifact again, with limits. A video that cannot be used any more is left out, and tried again next time."""

    options: Filter
    decided: tuple[Mapping[str, Decision], Mapping[str, Decision]]

    def inputs(self, progress: Progress) -> SourceInputs[Artifact]:
        """The finished sets, and a folder that holds sources if one is named."""
        require_sources(self.options.videos)
        maker = BuildSets(out=self.options.input, workdir=self.options.workdir).command_line("videos/")
        built = open_artifact(self.options.source(), IMAGE_SETS, maker)
        if (verb := built.manifest.verb) != "build-sets":
            hint = "filter the sets themselves again, with all limits in one command" if verb == "filter" else ""
            raise UsageError(
                f"{built.path} was made by ctxr {verb}, and ctxr filter needs what ctxr build-sets made",
                hint=hint or "name sets that ctxr build-sets made with --input",
            )
        if built.changed_files():
            refuse_changed(built)
        for name in ("brisque", "max_text", "min_size"):
            before, option = built.manifest.config.get(name), option_name(name)
            if before is not None and getattr(self.options, name) is None:  # rejected frames would return
                raise DataError(
                    f"the sets were built with {option} {before}, which this filter leaves out",
                    hint=f"add {option} {before} (or another value) to the command",
                )
        parents = [Parent("image_sets", IMAGE_SETS, built.sha256), *built.manifest.parents]
        drop, keep = self.decided = (
            read_decisions(self.options.drop, "reject"),
            read_decisions(self.options.keep, "keep"),
        )
        hashes = {"drop": self.options.drop and decisions_key(drop), "keep": self.options.keep and decisions_key(keep)}
        decided = {name: value for name, value in hashes.items() if value}
        return SourceInputs(parents, self.options.key() | decided, built)

    def pending(self, artifact: Artifact, inputs: SourceInputs[Artifact]) -> bool:
        """Whether a video could not be used."""
        return bool(artifact.manifest.counts["failed"] > inputs.source.manifest.counts["failed"])

    def remarks(self, report: SetsReport) -> Iterator[str]:
        """On limits that no set, or none of a split, passes."""
        if not report.up_to_date and not report.counts["sets"]:
            limits = {**vars(QualityLimits.of(self.options)), "drop": self.options.drop}.items()
            values = " and ".join(f"{option_name(name)} {value}" for name, value in limits if value is not None)
            yield f"no set passes {values}: try wider limits"
        elif not report.up_to_date:
            before = open_artifact(self.options.source()).manifest.counts["splits"]
            if empty := [name for name in SPLITS if before.get(name) and not report.counts["splits"].get(name)]:
                yield f"no sets are left in {' and '.join(empty)}: try wider limits, or add sources"

    def open(
        self, inputs: SourceInputs[Artifact], out: Path, progress: Progress, ready: Artifact | None
    ) -> "FilterRun":
        """Read the units, and make the instruments."""
        options, built = self.options, inputs.source
        refuse_changed(built)  # a picture, too
        models, config = built.manifest.models, built.manifest.config
        selection, encoder = models["selection"], models["encoder"]
        encoder_name = rooted(encoder["name"], built.path)
        named = [parent.name for parent in built.manifest.parents if parent.kind in SOURCE_KINDS]
        units = [read_unit(built.path, name) for name in named if unit_folder(built.path, name).is_dir()]
        people = person_choices(*self.decided, units, progress.warn)
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr, people)
        picking = PickingRules(selection["threshold"], selection["set_size"], selection["margin"], quality)
        limits, measures = vars(quality.limits), quality.stamps()
        decided, stamps = [(name, inputs.key[name]) for name in ("drop", "keep") if name in inputs.key], {}
        for unit in units:
            scan, select = unit.stamp.scan, unit.stamp.select
            stamps[unit.source.name] = UnitKeys(scan, sha256_of([scan, select, limits, *decided]), measures)
        videos = [unit.source for unit in units if unit.source.kind == "video"]
        albums = [unit for unit in units if unit.source.kind == "photos"]
        # where a video was last seen, or its name
        files = {video.name: str(last_path(built.path, video.sha256) or video.file) for video in videos}
        device = device_of(options.engine, options.device)
        embedder = Embedder(encoder_name, device, encoder["precision"], progress, encoder["fingerprint"])
        # the search reports no progress: it runs inside another progress line
        locator = SourceLocator(built.path, options.videos, SILENT)
        context = UnitContext(out, picking, embedder)
        retry = options.decisive().command_line(drop=options.drop, keep=options.keep)
        return FilterRun(
            options=options,
            progress=progress,
            work=FilterVideos(context, files, retry, RESTORE, built.path, locator),
            videos=[WorkUnit(video.name, stamps[video.name]) for video in videos],
            stamps={unit.source.name: stamps[unit.source.name] for unit in albums},
            models={
                "encoder": encoder | {"name": portable(encoder_name, out), "threshold": selection["threshold"]},
                "selection": selection,
                "quality": quality.describe(),
            },
            # filtering keeps the splits that were dealt when the sets were built
            splits={row.group: row.split for row in read_table(built.path / SPLITS_TABLE, Split)},
            retried=ready is not None,
            merged=self.merged,
            earlier=read_table(built.path / "failures.jsonl", Failure),
            footage=read_table(built.path / GROUPS, SharedFootage),
            choice=PhotoPicking(
                CopyRule(**selection["copies"]), config["sample"], config["seed"], config["neighbours"] == "index"
            ),
            albums=albums,
        )

    def write(self, inputs: SourceInputs[Artifact], out: Path, progress: Progress) -> Content | SetsReport:
        """Pick again, video by video, then photos. Raises DataError for an album with a missing or changed photo."""
        content = super().write(inputs, out, progress)
        if sha256_if_readable(inputs.source.path / MANIFEST) != inputs.source.sha256:
            hint = "run the same command again"
            raise UnfinishedError(f"{inputs.source.path} was rebuilt in the meantime", hint=hint)
        return content


@dataclass(kw_only=True)
class FilterRun(SetsRun):
    """A filter run, whose sources `work` finds; `albums` are the units of photos of the earlier sets."""

    LABEL: ClassVar[str] = "filtering videos"

    albums: list[SourceUnit]
    work: "FilterVideos"

    def make_photos(self) -> None:
        """Pick again from the photos of all albums. Raises DataError when one of them is gone or was changed."""
        if all(self.take(name, stamp) for name, stamp in self.stamps.items()):
            return
        albums = []
        for unit in self.albums:
            source, folder = unit.source, self.work.locator.album(unit.source)
            files, hashes, wrong = album_files(unit, folder, digest_of)
            if wrong:
                raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=RESTORE)
            content = source.sha256, source.bytes, tuple(files), tuple(hashes)
            albums.append(InputSource(source.name, "photos", folder, *content))
        units, context = {unit.source.name: unit for unit in self.albums}, self.work.context
        pool = gather_pool(albums, units, {})
        pool = with_copies(self.artifact, pool, self.choice, self.engine, self.progress)
        pool.regroup({(row.source, row.index): row.group for unit in self.albums for row in unit.ledger})
        measures = context.picking.quality.stamps()
        facts = {
            (unit.source.name, row.index): row
            for unit in self.albums
            for row in forget_other_measures(unit.facts, unit.stamp.measures, measures)
        }
        self.pick_photos(pool, albums, facts, "filtering photos")


@dataclass
class FilterVideos(VideoJob):
    """Picks again from the ledgers of the artifact `built`."""

    built: Path
    locator: SourceLocator

    def make(self, unit: WorkUnit) -> SourceUnit:
        """Pick the sets of a video again."""
        self.task.say(unit.name)
        old, show = read_unit(self.built, unit.name), partial(self.show, unit.name)
        return pick_from_ledger(self.context, old, self.built, self.locator, unit.stamp, show=show)
