"""Sources become units, by any engine and any number of ranks, and units an artifact of image sets: tables, splits and counts."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from ctxr.datasets.changes import changed, discard
from ctxr.datasets.image_sets import sets_report
from ctxr.datasets.readers.artifact import dataset_of
from ctxr.datasets.splits import GROUPS, SPLITS_TABLE, alert_of_leaks, find_leakage
from ctxr.engine.engines import Engine, map_units
from ctxr.engine.options import option_name
from ctxr.engine.progress import Progress
from ctxr.engine.report import SetsReport, leak_sentence
from ctxr.engine.stage import Inputs, NothingWritten, Stage, execute
from ctxr.engine.units import KILLED, Job, WorkUnit
from ctxr.errors import DataError, UnfinishedError, UsageError, and_more, plural, some
from ctxr.media.sources import InputSource
from ctxr.media.video import KEEP_DAMAGED, VideoError
from ctxr.models.neighbours import RECALLED
from ctxr.pipelines.curation.config import SAME_SETS_OPTIONS, BuildSets, SetsOptions
from ctxr.pipelines.curation.photos import (
    LEAST_INDEXED,
    PhotoPicking,
    PhotoPool,
    PickedPhotos,
    album_unit,
    pick_photos,
    with_neighbours,
)
from ctxr.pipelines.curation.quality import Unmeasurable
from ctxr.pipelines.curation.videos import UnitContext
from ctxr.store.artifacts import (
    MANIFEST,
    Artifact,
    Content,
    Manifest,
    Parent,
    earlier_manifest,
    finished,
    json_config,
    open_artifact,
    package_versions,
    take_manifest,
)
from ctxr.store.kinds import IMAGE_SETS, JUDGMENTS, TASKS
from ctxr.store.paths import rooted
from ctxr.store.records import BETWEEN, Facts, Failure, ImageSet, SharedFootage, Source, Split, SplitName
from ctxr.store.tables import grouped, read_table, write_table
from ctxr.store.units import (
    FailedUnit,
    RankRun,
    SourceUnit,
    UnitKeys,
    merge_units,
    rank_lock,
    read_failed,
    read_ranks,
    scanned_unit,
    tidy,
    unit_sources,
    write_failed,
)


@dataclass
class VideoJob(Job[SourceUnit | FailedUnit]):
    """Makes the units of videos; `files` go by name, `retry` is the command that tries failures again, `hint` for those without."""

    context: UnitContext
    files: Mapping[str, str]
    retry: str
    hint: str

    @abstractmethod
    def make(self, unit: WorkUnit) -> SourceUnit:
        """Write the unit."""

    def __call__(self, unit: WorkUnit) -> SourceUnit | FailedUnit:
        """Write the unit; the failure of a video that cannot be used."""
        try:
            return self.make(unit)
        except (VideoError, Unmeasurable) as error:
            return self.failed(unit, error)

    def failed(self, unit: WorkUnit, error: VideoError | Unmeasurable) -> FailedUnit:
        """The failure of a video."""
        hint = error.hint or self.hint
        retry = f"{self.retry} --keep-damaged" if hint == KEEP_DAMAGED else self.retry
        failure = Failure(unit.name, self.files[unit.name], error.reason, error.message, retry)
        return FailedUnit(unit.stamp, failure, f"{error.message} ({hint})" if hint else error.message)

    def lost(self, unit: WorkUnit) -> FailedUnit:
        """The failure of a video at which two workers died."""
        file = Path(self.files[unit.name])
        return self.failed(unit, VideoError("worker_died", KILLED, "it may need more memory: --jobs 1", file))

    def stop(self) -> None:
        """End what is under way."""
        self.context.stopping.set()


class NothingBuilt(DataError, NothingWritten):
    """No source could be used."""


@dataclass(kw_only=True)
class SetsRun(ABC):
    """A build or a filter run whose options and inputs are valid.

    Attributes:
        work: makes units of the `videos`. stamps: of the albums, by name. models: as in the manifest.
        earlier: failures of the parent. retried: whether failures of a finished result of the same inputs are tried again.
        merged: how the ranks ran whose units are merged: this run makes no unit of a video. choice: of photos.
        footage: sources that share footage. splits: of each source, once they are dealt.
        units: those that are done, by source. failures: sources and photos that gave nothing. more: counts for the manifest beside
            those of the units.
    """

    LABEL: ClassVar[str] = "scanning videos"
    """Of the progress of videos."""

    options: SetsOptions
    progress: Progress
    work: VideoJob
    videos: Sequence[WorkUnit]
    stamps: dict[str, UnitKeys]
    models: Mapping[str, Any]
    retried: bool
    merged: RankRun | None
    choice: PhotoPicking
    earlier: Sequence[Failure] = ()
    footage: list[SharedFootage] = field(default_factory=list)
    splits: dict[str, SplitName] = field(default_factory=dict)
    units: dict[str, SourceUnit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict)

    @property
    def artifact(self) -> Path:
        """The folder that is written to."""
        return self.work.context.artifact

    @property
    def engine(self) -> Engine:
        """What works on the units."""
        return Engine(self.options.engine, self.options.jobs)

    @abstractmethod
    def make_photos(self) -> None:
        """The units of all albums, once the videos are done; every source then has its split."""

    def share_photos(self) -> object:
        """What a rank does for the albums, by default nothing; the merge makes their units."""
        return None

    def find_todo(self, rebuilt: Collection[str]) -> list[WorkUnit]:
        """The videos, of a rank its own, whose units are missing or `rebuilt`. Raises UnfinishedError if ranks make them."""
        shard, todo = self.options.shard, []
        videos = sorted(self.videos, key=lambda unit: unit.name)
        videos = videos[shard.rank :: shard.world] if shard else videos
        for unit in videos:
            failed = None if self.options.retry_failed else read_failed(self.artifact, unit.name)
            if unit.name not in rebuilt and self.take(unit.name, unit.stamp):
                continue
            if failed and failed.stamp == unit.stamp:
                self.fail(failed)
            else:
                todo.append(unit)
        if len(todo) < len(videos):
            self.progress.note(f"{self.LABEL}: {len(videos) - len(todo)} of {len(videos)} were done before")
        if todo and self.merged:
            missing = f"{plural(len(todo), 'source')} of {len(videos)} not finished by any rank"
            world = self.merged.world
            hint = self.options.command_line(rank=videos.index(todo[0]) % world, world_size=world)
            raise UnfinishedError(f"{missing}: {some(unit.name for unit in todo)}", hint=hint)
        return todo

    def make_videos(self, todo: Sequence[WorkUnit]) -> list[SourceUnit]:
        """Make the units of videos; returns them."""
        shard, made = self.options.shard, []
        if todo and shard:
            # the failures that the manifest stood for are recorded, for the merge
            stamps = {unit.name: unit.stamp for unit in self.videos}
            for row in read_table(self.artifact / "failures.jsonl", Failure) if self.retried else ():
                if row.source in stamps and read_failed(self.artifact, row.source) is None:
                    write_failed(self.artifact, FailedUnit(stamps[row.source], row, row.message))
            take_manifest(self.artifact)
        results = map_units(self.work, todo, self.engine, self.progress, self.LABEL)
        for _, result in results:
            if isinstance(result, SourceUnit):
                made.append(result)
                continue
            self.fail(result)
            if shard:
                write_failed(self.artifact, result)
        self.units.update({unit.source.name: unit for unit in made})
        return made

    def take(self, name: str, stamp: UnitKeys) -> bool:
        """Reuse the unit of an earlier run; False if it is missing, damaged, or of another stamp."""
        unit = scanned_unit(self.artifact, name, stamp.scan)
        if unit and unit.stamp == stamp:
            self.units[name] = unit
        return name in self.units

    def fail(self, failed: FailedUnit) -> None:
        """Record a video that gave nothing."""
        self.failures.append(failed.failure)
        self.progress.warn(failed.warning)

    def pick_photos(
        self,
        pool: PhotoPool,
        albums: Sequence[InputSource],
        facts: Mapping[tuple[str, int], Facts],
        label: str,
    ) -> None:
        """The units of all albums; the photos of a split are one pool, see `photos.pick_photos`. The sets are shared by the number of
        photos, and what a small split cannot give comes from the next larger one."""
        context = self.work.context
        measures, known = context.picking.quality.stamps(), dict(facts)
        for album in albums:
            cached = context.cache(album).load(measures)
            known = {(album.name, index): row for index, (row, _) in cached.items()} | known
        by_split = grouped((split, group) for group, split in sorted(self.splits.items()))
        parts = [part for groups in by_split.values() if (part := pool.part({*groups})).photos]
        photos = len(pool.photos)
        left, picked = self.choice.count(photos), PickedPhotos()
        if left < photos:
            self.progress.note(f"{plural(left, 'set')} from {photos:,} photos: --sample all makes one of each")
        with self.progress.task(label, photos) as task:
            parts = [*with_neighbours(self.artifact, parts, self.engine, self.progress, index=self.choice.index)]
            self._record_index([pool, *parts])
            for part in sorted(parts, key=lambda part: len(part.photos)):
                if len(part.photos) < context.picking.set_size and len(parts) > 1:
                    few = f"{plural(len(part.photos), 'photo')} of {self.splits[part.photos[0].image.group]}"
                    self.progress.warn(f"{few} are fewer than a set of {context.picking.set_size}")
                share, photos = round(left * len(part.photos) / photos), photos - len(part.photos)
                choice = replace(self.choice, sample=str(share))
                left -= pick_photos(context, part, choice, known, picked)
                task.advance(len(part.photos))
        for album in albums:
            self.units[album.name] = context.save(album_unit(album, pool, picked, self.stamps[album.name]))

    def _record_index(self, pools: Sequence[PhotoPool]) -> None:
        """Put into the manifest what share of the neighbours indexes found: the lowest."""
        if indexes := [pool.index for pool in pools if pool.index]:
            worst = min(indexes, key=lambda index: index.recall)
            measured = {"recall": round(worst.recall, 4), "of": RECALLED, "photos": len(worst.sample)}
            self.models["selection"]["neighbours"] = {"by": "index", **measured, **package_versions("faiss-cpu")}
        elif self.choice.index:
            self.progress.note(f"fewer than {LEAST_INDEXED:,} photos: their neighbours are exact, without an index")

    def content(self, first: bool) -> Content:
        """Merge units into the tables of the artifact, and remove leftovers.

        Raises NothingBuilt if no source could be used; the failures are written where this is the `first` result.
        """
        failures, names = [*self.earlier, *self.failures], {unit.name for unit in self.videos}
        # beside videos, photos count only if they make a set: a stray photo is not a result of footage that failed
        if self.failures and not any(
            unit.sets or ((name in names or not names) and unit.source.frames) for name, unit in self.units.items()
        ):
            if first:
                write_table(self.artifact / "failures.jsonl", failures)
            worst = min(self.failures, key=lambda failure: failure.key())
            problem = f"no source could be used: {worst.message}{and_more(len(self.failures))}"
            hint = self.work.hint or "the warnings above give every reason"
            raise NothingBuilt(problem, hint=hint)
        units = [*self.units.values()]
        files = merge_units(self.artifact, units)
        groups = {row.group for unit in units for row in unit.ledger} | self.units.keys()
        shared = [row for row in self.footage if row.first in groups and row.second in groups]
        tables: dict[str, Sequence[Any]] = {
            GROUPS: shared,
            SPLITS_TABLE: [Split(name, split) for name, split in sorted(self.splits.items()) if name in groups],
        }
        # not among the files of the manifest: its rows hold paths and commands of this machine
        for name, rows in {"failures.jsonl": failures, **tables}.items():
            write_table(self.artifact / name, rows)
        tidy(self.artifact, self.units)
        counts = counts_of(units, self.splits, shared) | {"failed": len(failures)} | self.more
        return Content([*files, *tables], counts, dict(self.models))


def counts_of(
    units: Sequence[SourceUnit], split_of: Mapping[str, SplitName], footage: Sequence[SharedFootage]
) -> dict[str, Any]:
    """The counts of an artifact of image sets: sources, sets, and rejected frames by reason."""
    sets = [image_set for unit in units for image_set in unit.sets]
    ledger = [row for unit in units for row in unit.ledger if row.reason != BETWEEN]
    images = {image.id: image for unit in units for image in unit.images}
    leakage = find_leakage(sets, images, {image_set.id: split_of[image_set.group] for image_set in sets}, footage)
    kinds = Counter(unit.source.kind for unit in units)
    return {
        "videos": kinds["video"],
        "albums": kinds["photos"],
        "frames": sum(unit.source.frames for unit in units if unit.source.kind == "video"),
        "photos": sum(unit.source.frames for unit in units if unit.source.kind == "photos"),
        "shots": sum(unit.source.shots or 0 for unit in units),
        "considered": len(ledger),
        "embedded": sum(row.row is not None for row in ledger),
        BETWEEN: sum(len(unit.ledger) for unit in units) - len(ledger),
        "measured": sum(len(unit.facts) for unit in units),
        "sets": len(sets),
        "video_sets": sum(image_set.kind == "video" for image_set in sets),
        "photo_sets": sum(image_set.kind == "photos" for image_set in sets),
        "images": len(images),
        "reasons": dict(sorted(Counter(row.reason for row in ledger if row.reason).items())),
        "splits": dict(sorted(Counter(split_of[image_set.group] for image_set in sets).items())),
        **leakage.counts(),
    }


InputsT = TypeVar("InputsT", bound=Inputs)


class SetsStage(Stage[InputsT]):
    """A stage that writes image sets. An earlier result counts as finished only if its pictures are unmodified too.

    Attributes:
        merged: see `SetsRun`.
    """

    KIND = IMAGE_SETS
    IN_PLACE = True
    options: SetsOptions

    def __init__(self, options: SetsOptions, merged: RankRun | None = None) -> None:
        super().__init__(options)
        self.merged, self.shard = merged, options.shard

    @abstractmethod
    def open(self, inputs: InputsT, out: Path, progress: Progress, ready: Artifact | None) -> SetsRun:
        """The run: what can fail before anything is written. `ready` is a finished result of the same inputs."""

    @abstractmethod
    def remarks(self, report: SetsReport) -> Iterator[str]:
        """Warnings about the finished artifact."""

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Tables, arrays and pictures."""
        return [*changed(artifact)]

    def write(self, inputs: InputsT, out: Path, progress: Progress) -> Content | SetsReport:
        """Make the missing units, and merge all; a rank makes its own alone, and reports on them.

        Raises DataError for a rank where files were modified: only a whole run can rebuild them.
        """
        ready = None
        with suppress(UnfinishedError):  # another rank may remove the manifest meanwhile
            ready = finished(out, self.KIND, self.options.COMMAND, inputs.key, inputs.parents)
        if (files := changed(ready) if ready else {}) and self.shard:
            hint = "run the same command once without --rank: it rebuilds what changed"
            raise DataError(f"{out / next(iter(files))} has changed since it was written", hint=hint)
        run = self.open(inputs, out, progress, None if files else ready)
        loss = self._ask(earlier, inputs, run) if (earlier := earlier_manifest(out)) else None
        todo = run.find_todo({*files.values()})
        new, kept = len({unit.name for unit in todo} - {one.name for one in unit_sources(out)}), len(run.units)
        videos = {"new_videos": new, "videos_again": len(todo) - new, "videos_kept": kept}
        self.announce(progress, **videos, albums=len(run.stamps), loss=loss)
        if not (shard := self.shard):
            first = take_manifest(out) is None
            discard(out, files, progress)
            run.make_videos(todo)
            run.make_photos()
            return run.content(first)
        # engines, jobs and retries may differ between ranks, and a merge ignores them
        own = {"rank", "world_size", "engine", "jobs", "threads", "retry_failed"}
        options = {
            name: value
            for name, value in vars(self.options).items()
            if value != getattr(type(self.options), name) and name not in own
        }
        encoder, frames = run.models["encoder"], run.models["selection"]["frames"]
        key = {**inputs.key, "encoder": encoder["fingerprint"], "precision": encoder["precision"], "frames": frames}
        ran = RankRun(self.options.COMMAND, shard.world, json_config(options), json_config(key), [*inputs.parents])
        with rank_lock(run.artifact, shard.rank, ran) as record:
            _refuse_unlike(ran, record)
            run.make_videos(todo)
            if run.stamps:
                run.share_photos()
            if run.retried and (run.artifact / MANIFEST).is_file():  # nothing to do
                record.unlink()
        counts = {"sources": len(run.videos), "finished": len(run.units), "failed": len(run.failures)}
        failures = [*map(msgspec.structs.asdict, run.failures)]
        name, threshold = rooted(encoder["name"], run.artifact), run.models["selection"]["threshold"]
        rank = f"{shard.rank} of {shard.world}"
        read = self.options.source()
        return SetsReport(run.artifact, False, name, threshold, counts, failures, read=read, rank=rank)

    def _ask(self, earlier: Manifest, inputs: InputsT, run: SetsRun) -> str | None:
        """What the run takes from the earlier result; None for nothing. Warns of sets that tasks or answers of the project are about, and
        of sources where the command names them; raises UsageError without --yes."""
        models, out, options = earlier.models, run.artifact, self.options
        other = any(
            models[part][name] != run.models[part][name]
            for part, name in (("encoder", "fingerprint"), ("selection", "threshold"), ("selection", "frames"))
        )
        other = other or not SAME_SETS_OPTIONS.issuperset(options.describe().keys() & self.other(earlier, inputs))
        parents, before = inputs.parents, unit_sources(out)
        if earlier.config.get("keep_damaged") and not options.keep_damaged:
            damaged = {source.name for source in before if source.damage}
            parents = [parent for parent in parents if parent.name not in damaged]
        lost = sorted(source.name for source in gone(out, parents))
        # another album gives photos other neighbours
        albums, those = ({row.sha256 for row in rows if row.kind == "photos"} for rows in (before, parents))
        sets = list[ImageSet]()
        with suppress(DataError):  # a damaged table is made again
            sets = read_table(out / "sets.jsonl", ImageSet)
        going = {row.id for row in sets if other or row.source in lost or (row.kind == "photos" and albums != those)}
        tables = (f"{TASKS}/*/sets.jsonl", f"{JUDGMENTS}/sets.jsonl")
        folders = options.workdir, out.resolve().parent
        files = {file for folder in folders for table in tables for file in folder.glob(table)}
        in_use = going & {row.id for file in files for row in read_table(file, ImageSet)}
        named = lost and options.source() is None
        what = f"{len(lost)} of {plural(len(before), 'source')} ({some(lost)}) and " if lost else ""
        about = f"; tasks or answers are about {len(in_use)} of these sets" if in_use else ""
        count = f"{len(going)} of {plural(len(sets), 'set')}"
        loss = f"this run {'replaces' if other else 'removes'} {what}{count} in {out}{about}"
        if not in_use and not named:
            return loss if going or lost else None
        if not options.yes:
            add = "--add to keep these sources, " if named else ""
            raise UsageError(loss, hint=f"{add}--yes to go on, or another --out")
        run.progress.warn(loss)
        return loss

    def report(self, progress: Progress, curve: bool = False) -> SetsReport:
        """Run the stage, and report on its result, or on what a rank did."""
        result = execute(self, progress)
        if isinstance(result.part, SetsReport):
            return result.part
        report = sets_report(self.out(), result.up_to_date, curve, self.options.source())
        for remark in self.remarks(report):
            progress.warn(remark)
        if leak_sentence(report.counts):
            alert_of_leaks(dataset_of(open_artifact(self.out())), progress)
        # what failed when the sets were built is tried again there, with --keep-damaged if anything needs it, which filter lacks
        retries, flag = [row["retry"] for row in report.failures], " --keep-damaged"
        given = BuildSets(workdir=self.options.workdir, out=getattr(self.options, "input", None)).command_line()
        built = (
            given + row[len("ctxr build-sets") :]
            for row in retries
            if not row.startswith(f"ctxr {self.options.COMMAND} ")
        )
        words = {"retry_failed": True} | ({"yield_curve": False} if curve else {})
        retry = next(built, self.options.command_line(**words)).removesuffix(flag)
        return replace(report, retry=retry + flag * any(row.endswith(flag) for row in retries))


def _refuse_unlike(ran: RankRun, record: Path) -> None:
    """Raises UsageError where another rank of the same run chose other frames or another precision, as `auto` may on its machine."""
    artifact, own = record.parents[1], ran.key
    with suppress(DataError):  # of a rank that starts at this moment, and will compare itself with this one
        for rank, other in read_ranks(artifact).items():
            unlike = sorted(name for name in own.keys() | other.key.keys() if own.get(name) != other.key.get(name))
            if unlike and {*unlike} <= {"frames", "precision"} and {*other.parents} == {*ran.parents}:
                record.unlink()
                pinned = [" ".join(f"{option_name(name)} {key[name]}" for name in unlike) for key in (other.key, own)]
                sentence = (
                    f"rank {rank} of {artifact} works with {pinned[0]}, and this rank would work with {pinned[1]}"
                )
                raise UsageError(sentence, hint=f"add {pinned[0]}, or run all ranks with {pinned[1]} and another --out")


def gone(artifact: Path, parents: Sequence[Parent]) -> list[Source]:
    """Sources with a unit in the artifact that are not among `parents`; to an album, which is known by its name, photos may be added."""
    now = {(parent.name, parent.kind == "video" and parent.sha256) for parent in parents}
    sources = unit_sources(artifact)
    return [source for source in sources if (source.name, source.kind == "video" and source.sha256) not in now]
