"""`ctxr build-sets`: from videos and photos to image sets (ImageCoDe, section 3.1; specs C1 and C2)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import discard
from ctxr.datasets.image_sets import report_on
from ctxr.datasets.splits import read_published
from ctxr.engine.parallel import half_of_cores, run_in_parallel
from ctxr.engine.progress import Progress, ProgressTask, Silent
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs, NothingWritten, execute
from ctxr.errors import DataError, UsageError, plural, some
from ctxr.media.scan import ScanFailed, Scanner, ScanOptions
from ctxr.media.shots import check_detector
from ctxr.media.sources import InputSource, find_sources
from ctxr.media.video import VideoError, VideoHeader
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.curation.image_sets import SetsStage, complete
from ctxr.pipelines.curation.photos import (
    DUPLICATE_SHARE,
    PhotoPicking,
    PhotoPool,
    gather_pool,
    pick_photos,
    unreadable_photos,
)
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits, Unmeasurable
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger, scan_video
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact, package_versions
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import remember_paths
from ctxr.store.records import Facts, Failure, SplitName
from ctxr.store.tables import write_table
from ctxr.store.units import SOURCES, SourceUnit, Stamp, read_stamp, read_unit


def run(config: BuildSets, progress: Progress | None = None) -> SetsReport:
    """Build image sets and report on them.

    Raises UsageError for wrong arguments, DataError when every source fails, CtxrError when the disk is full.
    """
    progress, out = progress or Silent(), config.folder()
    if not config.check().sources:
        return report_on(open_artifact(out, IMAGE_SETS, "ctxr build-sets videos/").path, up_to_date=True, curve=True)
    stage = BuildStage(config)
    up_to_date = execute(stage, progress).up_to_date
    report = report_on(out, up_to_date, config.yield_curve)
    if up_to_date and config.encoder == "auto" and report.encoder == "ctxr-tiny":
        progress.warn("these sets were picked with ctxr-tiny because CLIP was not available: --encoder ViT-B-32:openai")
    if not up_to_date and not report.counts["sets"]:
        progress.warn(f"no image set could be built: {_cure_for_none(report)}")
    return report


@dataclass(frozen=True)
class BuildInput:
    """What sets are built from: sources, and the encoder, which is loaded once it is needed."""

    sources: Sequence[InputSource]
    encoder: Callable[[], Encoder]


@dataclass(frozen=True)
class BuildJob:
    """A build whose options and inputs are valid.

    Attributes:
        videos, albums: the sources. stamps: of their units. choice: how photo sets are picked.
        models: as in the manifest. published: splits from a file.
    """

    run: "SetsRun"
    videos: Sequence[InputSource]
    albums: Sequence[InputSource]
    stamps: Mapping[str, Stamp]
    choice: PhotoPicking
    models: Mapping[str, Any]
    published: Mapping[str, SplitName]


class BuildStage(SetsStage):
    """Builds image sets from sources."""

    options: BuildSets

    def out(self) -> Path:
        """The folder of the artifact."""
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        """The sources, which are known by their content."""
        options = self.options
        search = find_sources(options.sources, progress)
        for path, why in search.left_out:
            progress.warn(f"{path} is left out: {why}")
        for source in search.found:
            if source.path.resolve().is_relative_to(self.out().resolve()):
                raise UsageError(
                    f"{source.path} lies inside the artifact folder {self.out()}", hint="choose another --out"
                )
        encoder = cache(partial(load_encoder, options.encoder, options.device, options.precision, warn=progress.warn))
        parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
        return Inputs(parents, BuildInput(search.found, encoder))

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """As for all image sets; failures to retry, and other weights in a folder of them, are work to do."""
        ready, options = super().current(out, inputs), self.options
        if ready is None or (options.retry_failed and ready.manifest.counts.get("failed")):
            return None
        if options.encoder.startswith(("local-dir:", "checkpoint:")):
            recorded = ready.manifest.models["encoder"]["fingerprint"]
            return ready if inputs.data.encoder().fingerprint == recorded else None
        return ready

    def prepare(self, inputs: Inputs, out: Path, progress: Progress) -> Inputs:
        """Load the encoder and the quality measures, and read the file of splits."""
        options, sources = self.options, inputs.data.sources
        _warn_of_removal(out, sources, progress)
        remember_paths(out, {source.sha256: source.path for source in sources})
        encoder = inputs.data.encoder()
        threshold = encoder.threshold if options.threshold is None else options.threshold
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        picking = Picking(threshold, options.set_size, encoder.margin, quality)
        context = UnitContext(out, picking, Embedder(lambda: encoder, threading.Lock()), _scan_options(options))
        # of the encoder's own scale, whatever threshold was asked for
        choice = PhotoPicking(encoder.threshold * DUPLICATE_SHARE, options.sample, options.seed, options.neighbours)
        selection = {
            "threshold": threshold,
            "margin": encoder.margin,
            "set_size": options.set_size,
            "duplicate": choice.duplicate,
        }
        videos = [source for source in sources if source.kind == "video"]
        albums = [source for source in sources if source.kind == "photos"]
        job = BuildJob(
            SetsRun(context, progress, _retry(options)),
            videos,
            albums,
            _stamps(context, encoder, choice, videos, albums),
            choice,
            {"encoder": encoder.describe(), "selection": selection, "quality": quality.describe()},
            _published(options, sources, progress),
        )
        return replace(inputs, data=job)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Make the missing units, and merge all."""
        job: BuildJob = inputs.data
        discard(out, *self.changed, progress)
        _videos(job.run, job.videos, job.stamps, self.options.workers)
        if job.albums:
            _photos(job.run, job.albums, job.stamps, job.choice)
        job.run.require_units([], "the warnings above give every reason")
        return complete(
            out,
            job.run.units,
            job.run.failures,
            progress,
            models=job.models,
            published=job.published,
            salt=self.options.salt,
        )


def _stamps(
    context: UnitContext,
    encoder: Encoder,
    choice: PhotoPicking,
    videos: Sequence[InputSource],
    albums: Sequence[InputSource],
) -> dict[str, Stamp]:
    """By source: what its unit is made with. Sets of photos are picked from all albums together."""
    picking, quality = context.picking, context.picking.quality
    options = {name: value for name, value in vars(context.options).items() if name not in _NO_EFFECT}
    made_with = [options, encoder.fingerprint, encoder.precision, package_versions()]
    pool = [[album.name, album.sha256] for album in albums]

    def stamp(source: InputSource, pool: object) -> Stamp:
        select = [
            picking.threshold,
            picking.set_size,
            choice.duplicate,
            vars(quality.limits),
            choice.sample,
            choice.seed,
            pool,
        ]
        return Stamp(sha256_of([source.sha256, *made_with]), sha256_of(select), quality.stamps())

    return {video.name: stamp(video, None) for video in videos} | {album.name: stamp(album, pool) for album in albums}


def _warn_of_removal(out: Path, found: Sequence[InputSource], progress: Progress) -> None:
    """Warn about sources in the folder, finished or not, that the run will remove."""
    units = (out / SOURCES).iterdir() if (out / SOURCES).is_dir() else ()
    before = {unit.name for unit in units if not unit.name.startswith(".")}
    if gone := sorted(before - {source.name for source in found}):
        sources = plural(len(before), "source")
        progress.warn(f"{out} held {sources}; this run removes {len(gone)}: {some(gone)} (another --out keeps both)")


def _cure_for_none(report: SetsReport) -> str:
    counts, reasons = report.counts, report.counts["reasons"]
    if not counts["videos"]:
        return f"{counts['photos']} photos are too few once duplicates are removed; try a smaller --set-size, or more photos"
    if reasons and max(reasons, key=reasons.__getitem__) == "near_still":
        return "most frames were nearly static; try --gate 0, a higher --rate, or footage with more motion"
    return f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives), or a higher --rate"


@dataclass
class SetsRun:
    """A run that turns sources into units.

    Attributes:
        retry: the command that tries failed sources again. hint: the hint for failures that have none.
        units: by source, those that are done. failures: sources and photos that gave nothing.
    """

    context: UnitContext
    progress: Progress
    retry: str
    hint: str = ""
    units: dict[str, SourceUnit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.earlier_result = (self.context.artifact / MANIFEST).is_file()

    def take(self, name: str, stamp: Stamp) -> bool:
        """Reuse the unit of an earlier run; False if it is missing, damaged, or of another stamp."""
        artifact = self.context.artifact
        unit = readable_unit(artifact, name) if read_stamp(artifact, name) == stamp else None
        if unit is not None:
            self.units[name] = unit
        return unit is not None

    def attempt(self, name: str, file: Callable[[], Path | str], make: Callable[[], SourceUnit]) -> SourceUnit | None:
        """Make the unit of a video; if that fails, record the failure of its `file` and return None."""
        if self.context.stopping.is_set():
            return None
        try:
            unit = self.units[name] = make()
        except (ScanFailed, VideoError, Unmeasurable) as error:
            if not self.context.stopping.is_set():
                hint = error.hint or self.hint
                self.failures.append(Failure(name, str(file()), error.reason, error.message, self.retry))
                self.progress.warn(f"{error.message} ({hint})" if hint else error.message)
            return None
        return unit

    def fail_photos(self, unreadable: Sequence[tuple[InputSource, int, str]]) -> None:
        """Record photos (album, position, why) that could not be read."""
        for album, position, message in unreadable:
            self.failures.append(Failure(album.name, str(album.photos[position]), "unreadable", message, self.retry))
            self.progress.warn(message)

    def pick_photos(
        self,
        pool: PhotoPool,
        albums: Sequence[InputSource],
        stamps: Mapping[str, Stamp],
        choice: PhotoPicking,
        facts: Mapping[tuple[str, int], Facts],
        label: str,
    ) -> None:
        """The units of all albums, whose photos are one pool; see `photo_units.pick_photos`."""
        with self.progress.task(label, len(pool.photos)) as task:
            made = pick_photos(self.context, pool, albums, stamps, choice, facts, task.advance)
        self.units.update({unit.source.name: unit for unit in made})

    def require_units(self, known: Sequence[Failure], hint: str) -> None:
        """Raise NothingBuilt if no source could be used; the failures, `known` ones too, are written where there is no earlier
        result.
        """
        if self.units or not self.failures:
            return
        if not self.earlier_result:
            write_table(self.context.artifact / "failures.jsonl", [*known, *self.failures])
        first = min(self.failures, key=lambda failure: failure.key())
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        raise NothingBuilt(f"no source could be used: {first.message}{more}", hint=hint)


class NothingBuilt(DataError, NothingWritten):
    """No source could be used."""


def readable_unit(out: Path, name: str) -> SourceUnit | None:
    """The unit; None if it is missing or damaged."""
    try:
        return read_unit(out, name)
    except DataError:
        return None


_NO_EFFECT = frozenset({"threads", "stall_seconds", "time_limit"})
"""Scan options that change how long a scan takes, not what it gives; the memory limit bounds how many frames are held."""


def _scan_options(config: BuildSets) -> ScanOptions:
    given = {field.name: getattr(config, field.name) for field in fields(ScanOptions)}
    check_detector(config.detector, config.detector_threshold)
    return ScanOptions(**given | ({"gate": 0.0} if config.every_frame else {}))


def _published(config: BuildSets, sources: Sequence[InputSource], progress: Progress) -> dict[str, SplitName]:
    published = read_published(config.splits) if config.splits else {}
    if unknown := sorted(published.keys() - {source.name for source in sources}):
        progress.warn(f"{config.splits} names {plural(len(unknown), 'unknown source')}: {some(unknown)}")
    return published


def _retry(config: BuildSets) -> str:
    # what decides the result is the content of the file of splits, but it is typed as a path
    return config.decisive().command_line(*config.sources, splits=config.splits, retry_failed=True)


def _videos(run: SetsRun, videos: Sequence[InputSource], stamps: Mapping[str, Stamp], workers: int) -> None:
    todo = [found for found in videos if not run.take(found.name, stamps[found.name])]
    if run.units:
        run.progress.note(f"{len(run.units)} of {len(videos)} videos are finished already")
    if not todo:
        return
    workers = min(workers or half_of_cores(), len(todo))
    with run.progress.task("videos", len(todo)) as task, ExitStack() as stack:
        scanners = [stack.enter_context(Scanner()) for _ in range(workers)]
        free = list(scanners)

        def stop() -> None:  # finished units stay
            run.context.stopping.set()
            for scanner in scanners:
                scanner.cancel()

        run_in_parallel(lambda found: _video(run, free, found, stamps[found.name], task), todo, workers, stop)


def _video(run: SetsRun, free: list[Scanner], found: InputSource, stamp: Stamp, task: ProgressTask) -> None:
    context, scanner, watch = run.context, free.pop(), _Watch(task)

    def make() -> SourceUnit:
        task.say(found.name)
        there = read_stamp(context.artifact, found.name)
        if there is not None and there.scan == stamp.scan and (old := readable_unit(context.artifact, found.name)):
            return pick_from_ledger(context, old, context.artifact, lambda: found.path, stamp)
        return scan_video(context, found, stamp, scanner, watch)

    try:
        unit = run.attempt(found.name, lambda: found.path, make)
    finally:
        watch.finish()
        free.append(scanner)
    if unit is None:
        return
    left, needed = sum(row.row is not None for row in unit.ledger), context.picking.set_size
    if left < needed:
        run.progress.warn(
            f"{found.path} gives no set: sampling and the motion gate leave {left} of its {unit.source.frames} "
            f"frames, fewer than a set of {needed}"
        )


def _photos(run: SetsRun, albums: Sequence[InputSource], stamps: Mapping[str, Stamp], choice: PhotoPicking) -> None:
    """Every album of the run: all are one pool, in which each photo finds its neighbours."""
    out = run.context.artifact
    if all(run.take(name, stamp) for name, stamp in stamps.items()):
        run.fail_photos(unreadable_photos(albums, [run.units[album.name] for album in albums]))
        return
    known: dict[str, SourceUnit] = {}
    for name, stamp in stamps.items():
        there = read_stamp(out, name)
        if there is not None and there.scan == stamp.scan and (unit := readable_unit(out, name)):
            known[name] = unit
    with run.progress.task("photos", sum(len(album.photos) for album in albums)) as task:
        scans = {name: stamp.scan for name, stamp in stamps.items()}
        pool = gather_pool(out, albums, known, scans, run.context.embedder, task.advance)
    run.fail_photos(pool.unreadable)
    run.pick_photos(pool, albums, stamps, choice, {}, "photo sets")
    if not any(run.units[album.name].sets for album in albums):
        count, needed = len(pool.photos), run.context.picking.set_size
        run.progress.warn(f"no photo set: {count} different photos are too few for sets of {needed}")


class _Watch:
    """Converts decoded frames into fractions of one video."""

    def __init__(self, task: ProgressTask) -> None:
        self._task, self._done, self._total = task, 0.0, 0

    def __call__(self, header: VideoHeader | None, index: int) -> None:
        if header is not None:
            by_time = float(header.duration * header.rate) if header.duration and header.rate else 0
            self._total = int(header.promised_frames or by_time)
            return
        if self._total:
            share = min(0.99, index / self._total)
            self._task.advance(max(0.0, share - self._done))
            self._done = max(self._done, share)

    def finish(self) -> None:
        """Complete the progress, whatever the header promised."""
        self._task.advance(1 - self._done)
