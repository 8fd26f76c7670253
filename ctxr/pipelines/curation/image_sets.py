"""Sources become units, by any engine and any number of ranks, and units an artifact of image sets: tables, splits and counts."""

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ctxr.datasets.changes import changed, discard
from ctxr.datasets.image_sets import report_on
from ctxr.datasets.readers.artifact import dataset_of
from ctxr.datasets.splits import GROUPS, SPLITS_TABLE, alert_of_leaks, find_leakage, leak_sentence
from ctxr.engine.progress import Progress
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs, NothingWritten, Stage, execute
from ctxr.engine.units import Job, Local, UnitEngine, WorkUnit, find_engine, map_units
from ctxr.errors import DataError, UnfinishedError, UsageError, and_more, plural, some
from ctxr.media.sources import InputSource
from ctxr.media.video import KEEP_DAMAGED, VideoError
from ctxr.pipelines.curation.config import KEEPING, BuildSets, Filter
from ctxr.pipelines.curation.losses import gone, losses
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, part_of_pool, pick_photos, with_neighbours
from ctxr.pipelines.curation.quality import Unmeasurable
from ctxr.pipelines.curation.videos import UnitContext
from ctxr.store.artifacts import (
    MANIFEST,
    Artifact,
    Content,
    Manifest,
    earlier_manifest,
    open_artifact,
    plain,
    take_manifest,
)
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.records import BETWEEN, Facts, Failure, SharedFootage, Split, SplitName
from ctxr.store.tables import read_table, write_table
from ctxr.store.units import (
    FailedUnit,
    RankRun,
    SourceUnit,
    Stamp,
    finished_unit,
    merge_units,
    rank_lock,
    read_failed,
    read_unit,
    tidy,
    unit_sources,
    write_failed,
)


@dataclass
class VideoJob(Job):
    """Makes the units of videos.

    Attributes:
        retry: the command that tries failed sources again. hint: the hint for failures that have none.
    """

    context: UnitContext
    retry: str
    hint: str

    @abstractmethod
    def make(self, unit: WorkUnit) -> object:
        """Write the unit."""

    @abstractmethod
    def file(self, unit: WorkUnit) -> Path | str:
        """The file of a video, for failures."""

    def __call__(self, unit: WorkUnit) -> FailedUnit | None:
        """Write the unit; the failure of a video that cannot be used."""
        try:
            self.make(unit)
        except (VideoError, Unmeasurable) as error:
            hint = error.hint or self.hint
            retry = f"{self.retry} --keep-damaged" if hint == KEEP_DAMAGED else self.retry
            failure = Failure(unit.name, str(self.file(unit)), error.reason, error.message, retry)
            return FailedUnit(unit.stamp, failure, f"{error.message} ({hint})" if hint else error.message)
        return None

    def stop(self) -> None:
        """End what is under way."""
        self.context.stopping.set()


@dataclass
class SetsJob:
    """A build or a filter run whose options and inputs are valid.

    Attributes:
        work: makes units of the `videos`. stamps: of the albums, by name.
        models: as in the manifest. fixed: splits that are given. salt: of the others. earlier: failures of the parent.
        units: those that are done, by source. failures: sources and photos that gave nothing.
        footage: sources that share footage. splits: of each source, once they are dealt. engine: runs the units.
    """

    work: VideoJob
    progress: Progress
    videos: Sequence[WorkUnit]
    stamps: Mapping[str, Stamp]
    models: Mapping[str, Any]
    fixed: Mapping[str, SplitName]
    salt: str
    earlier: Sequence[Failure] = ()
    footage: Sequence[SharedFootage] = ()
    splits: Mapping[str, SplitName] = field(default_factory=dict)
    units: dict[str, SourceUnit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    engine: UnitEngine = field(default_factory=Local)

    def take(self, name: str, stamp: Stamp) -> bool:
        """Reuse the unit of an earlier run; False if it is missing, damaged, or of another stamp."""
        unit = finished_unit(self.work.context.artifact, name, lambda before: before == stamp)
        if unit is not None:
            self.units[name] = unit
        return unit is not None

    def fail(self, failed: FailedUnit) -> None:
        """Record a video that gave nothing."""
        self.failures.append(failed.failure)
        self.progress.warn(failed.warning)

    def fail_photos(self, unreadable: Sequence[tuple[InputSource, int, str]]) -> None:
        """Record photos (album, position, why) that could not be read."""
        for album, position, message in unreadable:
            file = str(album.photos[position])
            self.failures.append(Failure(album.name, file, "unreadable", message, self.work.retry))
            self.progress.warn(message)

    def pick_photos(
        self,
        pool: PhotoPool,
        albums: Sequence[InputSource],
        choice: PhotoPicking,
        facts: Mapping[tuple[str, int], Facts],
        label: str,
    ) -> None:
        """The units of all albums; the photos of a split are one pool, see `photos.pick_photos`. A sample is shared by the number of
        photos, and what a small split cannot give comes from the next larger one."""
        sides: dict[SplitName, list[InputSource]] = defaultdict(list)
        for album in albums:
            sides[self.splits[album.name]].append(album)
        parts = [part_of_pool(pool, side) for side in sides.values()]
        found = with_neighbours(self.work.context.artifact, parts, choice.engine, self.engine, self.progress)
        pools = list(zip(found, sides.values(), strict=True))
        left, photos = choice.sample, len(pool.photos)
        with self.progress.task(label, photos) as task:
            for part, side in sorted(pools, key=lambda each: len(each[0].photos)):
                if 0 < len(part.photos) < self.work.context.picking.set_size and len(pools) > 1:
                    few = f"{plural(len(part.photos), 'photo')} of {self.splits[side[0].name]}"
                    self.progress.warn(f"{few} are fewer than a set of {self.work.context.picking.set_size}")
                share = None if left is None else round(left * len(part.photos) / max(1, photos))
                picking, photos = replace(choice, sample=share), photos - len(part.photos)
                units = pick_photos(
                    self.work.context, part, side, self.stamps, picking, facts=facts, watch=task.advance
                )
                left = None if left is None else left - sum(len(unit.sets) for unit in units)
                self.units.update({unit.source.name: unit for unit in units})


class NothingBuilt(DataError, NothingWritten):
    """No source could be used."""


class NotMerged(UnfinishedError, NothingWritten):
    """A unit is missing that a rank makes."""


class SetsStage(Stage):
    """A stage that writes image sets. An earlier result counts as finished only if its pictures are unmodified too.

    Attributes:
        label: of the progress of videos. nothing: the hint where no source can be used.
    """

    KIND = IMAGE_SETS
    options: BuildSets | Filter
    label = "videos"
    nothing = ""
    changed: tuple[Sequence[str], Sequence[str]] = ((), ())
    """Files of the earlier result that were modified, and their units."""
    retried: Artifact | None = None
    """The finished result of the same options and inputs, whose failures are tried again."""

    def out(self) -> Path:
        """The folder that the options name."""
        return self.options.folder()

    def __init__(self, options: BuildSets | Filter, of_rank: Callable[[int], str] | None = None) -> None:
        """`of_rank`: make no unit of a video; the error about a missing one names this command."""
        super().__init__(options)
        self._of_rank = of_rank

    @abstractmethod
    def remarks(self, report: SetsReport) -> Iterator[str]:
        """Warnings about the finished artifact."""

    @abstractmethod
    def photos(self, job: SetsJob) -> None:
        """The units of all albums."""

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Tables, arrays and pictures."""
        self.changed = files, _ = changed(artifact)
        return files

    def prepare(self, inputs: Inputs, out: Path, progress: Progress) -> Inputs:
        """Resolve the job. Raises DataError for a rank where files were modified: only a whole run can rebuild them."""
        if self.shard and self.changed[0]:
            hint = "run the same command once without --rank: it rebuilds what changed"
            raise DataError(f"{out / self.changed[0][0]} has changed since it was written", hint=hint)
        self._earlier_result = (out / MANIFEST).is_file()
        self.job = self.resolve(inputs, out, progress)
        if earlier := earlier_manifest(out):
            self._ask(earlier, inputs, out, progress)
        return inputs

    def _ask(self, earlier: Manifest, inputs: Inputs, out: Path, progress: Progress) -> None:
        """Say what the run takes from the earlier result. Raises UsageError without --yes."""
        models = earlier.models
        recorded = [models.get("encoder", {}).get("fingerprint"), models.get("selection", {}).get("threshold")]
        other = recorded != [self.job.models["encoder"]["fingerprint"], self.job.models["selection"]["threshold"]]
        other = other or not KEEPING.issuperset(self.other_options(inputs, out))
        building = isinstance(self.options, BuildSets)
        parents = inputs.parents
        if earlier.config.get("keep_damaged") and not getattr(self.options, "keep_damaged", True):
            damaged = {source.name for source in unit_sources(out) if source.damage}
            parents = [parent for parent in parents if parent.name not in damaged]
        lost = losses(out, parents, self.options.workdir, other=other, sources=building)
        if lost and not self.options.yes:
            add = "--add to keep these sources, " if building and gone(out, parents) else ""
            raise UsageError(f"this run {lost}", hint=f"{add}--yes to go on, or another --out")
        if lost:
            progress.warn(f"this run {lost}")

    @abstractmethod
    def resolve(self, inputs: Inputs, out: Path, progress: Progress) -> SetsJob:
        """The job, with its encoder and quality measures."""

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content | None:
        """Make the missing units, and merge all; a rank makes its own alone."""
        job = self.job
        job.engine = find_engine(self.options.engine, self.options.workers)
        if self.shard:
            run = RankRun(self.options.COMMAND, self.shard.world, rank_options(self.options))
            with rank_lock(out, self.shard.rank, run) as record:
                self.videos(job)
                if job.stamps and isinstance(self.options, BuildSets):
                    self.photos(job)
                if self.retried and (out / MANIFEST).is_file():  # nothing to do
                    record.unlink()
            return None
        discard(out, *self.changed, progress)
        self.videos(job)
        if job.stamps:
            self.photos(job)
        else:
            self.deal(job)
        self._require_units(job)
        return complete(out, job)

    def videos(self, job: SetsJob) -> list[SourceUnit]:
        """Make the units of videos that are missing; returns those that were made. Raises NotMerged if ranks make them."""
        artifact, made = job.work.context.artifact, []
        videos = self.shard.part(job.videos) if self.shard else sorted(job.videos, key=lambda unit: unit.name)
        todo = [unit for unit in videos if not self._is_done(job, unit)]
        if len(todo) < len(videos):
            job.progress.note(f"{self.label}: {len(videos) - len(todo)} of {len(videos)} were done before")
        if not todo:
            return []
        if self._of_rank:
            missing = f"{plural(len(todo), 'source')} of {len(videos)} not finished by any rank"
            names = some(unit.name for unit in todo)
            raise NotMerged(f"{missing}: {names}", hint=self._of_rank(videos.index(todo[0])))
        if self.shard:
            self._take_manifest(job)
        for unit, failed in map_units(job.work, todo, job.engine, job.progress, self.label):
            if failed is not None:
                job.fail(failed)
                if self.shard:
                    write_failed(artifact, failed)
            else:
                made.append(read_unit(artifact, unit.name))
        job.units |= {unit.source.name: unit for unit in made}
        return made

    @abstractmethod
    def deal(self, job: SetsJob, pool: PhotoPool | None = None) -> None:
        """Give every source its split, once the videos are done and the photos are read."""

    def _is_done(self, job: SetsJob, unit: WorkUnit) -> bool:
        """Take the unit of an earlier run, or its failure, unless failures are tried again; False without either."""
        if job.take(unit.name, unit.stamp):
            return True
        failed = None if self.options.retry_failed else read_failed(job.work.context.artifact, unit.name)
        if failed is None or failed.stamp != unit.stamp:
            return False
        job.fail(failed)
        return True

    def _take_manifest(self, job: SetsJob) -> None:
        """Remove the manifest for a rank that has work; the failures that it stood for are recorded, for the merge."""
        artifact, stamps = job.work.context.artifact, {unit.name: unit.stamp for unit in job.videos}
        for row in read_table(artifact / "failures.jsonl", Failure) if self.retried else ():
            if row.source in stamps and read_failed(artifact, row.source) is None:
                write_failed(artifact, FailedUnit(stamps[row.source], row, row.message))
        take_manifest(artifact)

    def _require_units(self, job: SetsJob) -> None:
        """Raise NothingBuilt if no source could be used; the failures are written where there is no earlier result."""
        names = {unit.name for unit in job.videos}
        # beside videos, photos count only if they make a set: a stray photo is no result of footage that failed
        if not job.failures or any(
            unit.sets or ((name in names or not names) and unit.source.frames) for name, unit in job.units.items()
        ):
            return
        if not self._earlier_result:
            write_table(job.work.context.artifact / "failures.jsonl", [*job.earlier, *job.failures])
        first = min(job.failures, key=lambda failure: failure.key())
        raise NothingBuilt(f"no source could be used: {first.message}{and_more(len(job.failures))}", hint=self.nothing)

    def report(self, progress: Progress, curve: bool = False, read: Path | None = None) -> SetsReport:
        """Run the stage, and report on its result, or on what a rank did."""
        result = execute(self, progress)
        if self.shard is None or result.up_to_date:
            report = report_on(self.out(), result.up_to_date, curve, read)
            for remark in self.remarks(report):
                progress.warn(remark)
            if leak_sentence(report.counts):
                alert_of_leaks(dataset_of(open_artifact(self.out())), progress)
            typed: Any = {"sources": ()} if isinstance(self.options, BuildSets) else {}
            retry = self.options.command_line(*getattr(self.options, "sources", ()), **typed, retry_failed=True)
            damaged = any(row["retry"].endswith(" --keep-damaged") for row in report.failures)
            return replace(report, retry=f"{retry} --keep-damaged" if damaged else retry)
        job, models = self.job, self.job.models
        counts = {"sources": len(job.videos), "finished": len(job.units), "failed": len(job.failures)}
        failures = [*map(msgspec.structs.asdict, job.failures)]
        encoder, threshold = models["encoder"]["name"], models["selection"]["threshold"]
        rank = f"{self.shard.rank} of {self.shard.world}"
        return SetsReport(self.out(), False, encoder, threshold, counts, failures, read=read, rank=rank)


_OF_A_RANK = {"rank", "world_size", "engine", "workers", "threads", "retry_failed"}
"""Options that a merge ignores."""


def rank_options(options: BuildSets | Filter) -> dict[str, Any]:
    """The options that are not at their defaults, by field, without those that a merge ignores."""
    changes = {name: value for name, value in vars(options).items() if value != getattr(type(options), name)}
    return plain({name: value for name, value in changes.items() if name not in _OF_A_RANK})


def complete(out: Path, job: SetsJob) -> Content:
    """Merge units into the tables of the artifact, and remove leftovers."""
    units = job.units
    files = merge_units(out, units.values())
    splits = [Split(name, job.splits[name]) for name in units]
    shared = [row for row in job.footage if row.first in units and row.second in units]
    failures = [*job.earlier, *job.failures]
    tables: dict[str, Sequence[Any]] = {"failures.jsonl": failures, GROUPS: shared, SPLITS_TABLE: splits}
    for name, rows in tables.items():
        write_table(out / name, rows)
    tidy(out, units)
    return Content([*files, *tables], count(job, shared), dict(job.models))


def count(job: SetsJob, footage: Sequence[SharedFootage]) -> dict[str, Any]:
    """The counts of an artifact of image sets: sources, sets, and rejected frames by reason."""
    all_units, split_of = job.units.values(), job.splits
    sets = [image_set for unit in all_units for image_set in unit.sets]
    between = sum(row.reason == BETWEEN for unit in all_units for row in unit.ledger)
    ledger = [row for unit in all_units for row in unit.ledger if row.reason != BETWEEN]
    reasons = Counter(row.reason for row in ledger if row.reason)
    images = {image.id: image for unit in all_units for image in unit.images}
    leakage = find_leakage(sets, images, {image_set.id: split_of[image_set.group] for image_set in sets}, footage)
    kinds = Counter(unit.source.kind for unit in all_units)
    return {
        "videos": kinds["video"],
        "albums": kinds["photos"],
        "failed": len(job.earlier) + len(job.failures),
        "frames": sum(unit.source.frames for unit in all_units if unit.source.kind == "video"),
        "photos": sum(unit.source.frames for unit in all_units if unit.source.kind == "photos"),
        "shots": sum(unit.source.shots or 0 for unit in all_units),
        "considered": len(ledger),
        "embedded": sum(row.row is not None for row in ledger),
        BETWEEN: between,
        "measured": sum(len(unit.facts) for unit in all_units),
        "sets": len(sets),
        "video_sets": sum(image_set.kind == "video" for image_set in sets),
        "photo_sets": sum(image_set.kind == "photos" for image_set in sets),
        "images": len(images),
        "reasons": dict(sorted(reasons.items())),
        "splits": dict(sorted(Counter(split_of[image_set.group] for image_set in sets).items())),
        **leakage.counts(),
    }
