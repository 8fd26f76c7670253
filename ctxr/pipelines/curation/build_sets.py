"""`ctxr build-sets`: from videos and photos to image sets (ImageCoDe, section 3.1; specs C1 and C2)."""

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import changed, discard
from ctxr.datasets.image_sets import report_on
from ctxr.datasets.splits import read_published
from ctxr.engine.parallel import half_of_cores, side_by_side
from ctxr.engine.progress import Progress, ProgressTask, Silent
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UsageError
from ctxr.media.scan import ScanFailed, Scanner, ScanOptions
from ctxr.media.sources import FoundSource, find_sources
from ctxr.media.video import VideoError, VideoHeader
from ctxr.models.encoders import load_encoder
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.curation.image_sets import SetsOrigin, complete
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
from ctxr.store.artifacts import (
    MANIFEST,
    Parent,
    finished,
    locked,
    open_artifact,
    package_versions,
    require_ours,
    take_manifest,
)
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import remember_places
from ctxr.store.records import Facts, Failure, SplitName
from ctxr.store.tables import write_table
from ctxr.store.units import SOURCES, SourceUnit, Stamp, read_stamp, read_unit


def run(config: BuildSets, progress: Progress | None = None) -> SetsReport:
    """Build image sets and say what was found.

    Raises UsageError for wrong arguments, DataError when every source fails, CtxrError when the disk is full.
    """
    progress = progress or Silent()
    config.check()
    QualityLimits.of(config).check()
    out = config.folder()
    if not config.sources:
        if config.yield_curve:
            return report_on(
                open_artifact(out, IMAGE_SETS, "ctxr build-sets videos/").path, up_to_date=True, curve=True
            )
        raise UsageError("no SOURCES given", hint="ctxr build-sets videos/")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder", hint="choose another --out or --workdir")
    if config.workdir.exists() and not config.workdir.is_dir():
        raise UsageError(f"{config.workdir} is a file, not a folder", hint="choose another --workdir")
    search = find_sources(config.sources, lambda total: progress.task("read sources, MiB", round(total)))
    for path, why in search.left_out:
        progress.warn(f"{path} is left out: {why}")
    for source in search.found:
        if source.path.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source.path} lies inside the artifact folder {out}", hint="choose another --out")
    # content decides, not place
    parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
    ready = finished(out, IMAGE_SETS, "build-sets", config.result_config(), parents)
    if ready and config.encoder.startswith(("local-dir:", "checkpoint:")) and _encoder_changed(config, ready, progress):
        ready = None
    files, units = changed(ready) if ready else ([], [])
    if ready and not files and not (config.retry_failed and ready.manifest.counts.get("failed")):
        if config.encoder == "auto" and ready.manifest.models["encoder"]["name"] == "ctxr-tiny":
            progress.warn(
                "these sets were picked with ctxr-tiny, because CLIP could not be had: --encoder ViT-B-32:openai"
            )
        return report_on(out, up_to_date=True, curve=config.yield_curve)
    require_ours(out)
    with locked(out):
        _say_what_goes(out, search.found, progress)
        remember_places(out, {source.sha256: source.path for source in search.found})
        build(config, out, search.found, parents, progress, lambda: discard(out, files, units, progress))
    report = report_on(out, up_to_date=False, curve=config.yield_curve)
    if not report.counts["sets"]:
        progress.warn(f"no set came about: {_cure_for_none(report)}")
    return report


def _say_what_goes(out: Path, found: "Sequence[FoundSource]", progress: Progress) -> None:
    """A warning when sources that the folder holds, finished or not, are not among those that it is made from next."""
    units = (out / SOURCES).iterdir() if (out / SOURCES).is_dir() else ()
    before = {unit.name for unit in units if not unit.name.startswith(".")}
    if gone := sorted(before - {source.name for source in found}):
        named = ", ".join(gone[:3]) + (" …" if len(gone) > 3 else "")
        sources = "1 source" if len(before) == 1 else f"{len(before)} sources"
        progress.warn(f"{out} held {sources}, of which {len(gone)} leave it now: {named} (another --out keeps both)")


def _cure_for_none(report: SetsReport) -> str:
    counts, reasons = report.counts, report.counts["reasons"]
    if not counts["videos"]:
        return f"{counts['photos']} photos are too few different ones; try a smaller --set-size, or more photos"
    if reasons and max(reasons, key=reasons.__getitem__) == "near_still":
        return "most frames were near-still; try --gate 0, a higher --rate, or footage in which more happens"
    return f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives), or a higher --rate"


def _encoder_changed(config: BuildSets, ready: Any, progress: Progress) -> bool:
    """Whether a folder of weights holds others than those the finished sets were made with: its name does not say."""
    encoder = load_encoder(config.encoder, config.device, config.precision, warn=progress.warn)
    return bool(encoder.fingerprint != ready.manifest.models["encoder"]["fingerprint"])


@dataclass
class SetsRun:
    """A run that makes units of sources.

    Attributes:
        retry: the command that tries failed sources again. hint: what helps where a failure says nothing else.
        units: by source, those that are done. failures: sources and photos that gave nothing.
    """

    context: UnitContext
    progress: Progress
    retry: str
    hint: str = ""
    units: dict[str, SourceUnit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def take(self, name: str, stamp: Stamp) -> bool:
        """Take a unit as an earlier run left it; whether it is there, whole, and of this stamp."""
        artifact = self.context.artifact
        unit = readable_unit(artifact, name) if read_stamp(artifact, name) == stamp else None
        if unit is not None:
            self.units[name] = unit
        return unit is not None

    def attempt(self, name: str, file: Callable[[], Path | str], make: Callable[[], SourceUnit]) -> SourceUnit | None:
        """Make the unit of a video, whose `file` a failure names; a video that cannot be used costs only itself."""
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

    def fail_photos(self, unreadable: Sequence[tuple[FoundSource, int, str]]) -> None:
        """Note photos (album, position, why) that could not be read; the others of their albums go on."""
        for album, position, message in unreadable:
            self.failures.append(Failure(album.name, str(album.photos[position]), "unreadable", message, self.retry))
            self.progress.warn(message)

    def pick_photos(
        self,
        pool: PhotoPool,
        albums: Sequence[FoundSource],
        stamps: Mapping[str, Stamp],
        choice: PhotoPicking,
        facts: Mapping[tuple[str, int], Facts],
        label: str,
    ) -> None:
        """The units of all albums, whose photos are one pool; see `photo_units.pick_photos`."""
        with self.progress.task(label, len(pool.photos)) as task:
            made = pick_photos(self.context, pool, albums, stamps, choice, facts, task.advance)
        self.units.update({unit.source.name: unit for unit in made})

    def require_units(self, finished_before: bytes | None, known: Sequence[Failure], hint: str) -> None:
        """Raise DataError if no source could be used. The manifest `finished_before` is put back then: the old result stays
        as it was; without one, the failures are written, `known` ones too.
        """
        if self.units or not self.failures:
            return
        artifact = self.context.artifact
        if finished_before:
            write_bytes(artifact / MANIFEST, finished_before)
        else:
            write_table(artifact / "failures.jsonl", [*known, *self.failures])
        first = min(self.failures, key=lambda failure: failure.key())
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        raise DataError(f"no source could be used: {first.message}{more}", hint=hint)


def typed_options(config: Any) -> list[str]:
    """The options of `build-sets` or `filter` that decide the result, not where things lie, as they are typed."""
    default, typed = type(config)(), []
    for name in config.result_config():
        value = getattr(config, name, None)
        if value != getattr(default, name, None):
            typed += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return typed


def readable_unit(out: Path, name: str) -> SourceUnit | None:
    """A unit to pick from again; None if it is not there or was damaged: then it is made anew."""
    try:
        return read_unit(out, name)
    except DataError:
        return None


def build(
    config: BuildSets,
    out: Path,
    sources: Sequence[FoundSource],
    parents: Sequence[Parent],
    progress: Progress,
    clear: Callable[[], None],
) -> None:
    """Make or complete the artifact `out`. The caller holds its lock; `clear` removes what must be made anew."""
    encoder = load_encoder(config.encoder, config.device, config.precision, warn=progress.warn)
    threshold = encoder.threshold if config.threshold is None else config.threshold
    quality = QualityGate(QualityLimits.of(config), config.brisque_weights, config.ocr)
    picking = Picking(threshold, config.set_size, encoder.margin, quality)
    context = UnitContext(out, picking, Embedder(lambda: encoder, threading.Lock()), _scan_options(config))
    # of the encoder's own scale, whatever threshold was asked for
    choice = PhotoPicking(encoder.threshold * DUPLICATE_SHARE, config.sample, config.seed, config.neighbours)
    published = _published(config, sources, progress)
    selection = {
        "threshold": threshold,
        "margin": encoder.margin,
        "set_size": config.set_size,
        "duplicate": choice.duplicate,
    }
    models = {"encoder": encoder.describe(), "selection": selection, "quality": quality.describe()}
    options = {name: value for name, value in vars(context.options).items() if name not in _NO_EFFECT}
    made_with = [options, encoder.fingerprint, encoder.precision, package_versions()]

    def stamp(content: str, pool: object = None) -> Stamp:
        """Of a unit made from `content`; `pool` is what else its sets are picked from."""
        select = [threshold, config.set_size, choice.duplicate, vars(quality.limits), config.sample, config.seed, pool]
        return Stamp(sha256_of([content, *made_with]), sha256_of(select), quality.stamps())

    # everything that can be refused has been: from here on the old result is no longer complete
    finished_before = take_manifest(out)
    clear()
    run = SetsRun(context, progress, _retry(config))
    videos = [source for source in sources if source.kind == "video"]
    _videos(run, videos, {video.name: stamp(video.sha256) for video in videos}, config.workers)
    if albums := [source for source in sources if source.kind == "photos"]:
        contents = [[album.name, album.sha256] for album in albums]
        _photos(run, albums, {album.name: stamp(album.sha256, contents) for album in albums}, choice)
    run.require_units(finished_before, [], "every reason stands in a warning above")
    origin = SetsOrigin("build-sets", config.result_config(), parents, models, published, config.salt)
    complete(out, origin, run.units, run.failures, progress)


_NO_EFFECT = frozenset({"threads", "stall_seconds", "time_limit"})
"""Scan options that change how long a scan takes, not what it gives; the memory limit bounds how many frames are held."""


def _scan_options(config: BuildSets) -> ScanOptions:
    given = {field.name: getattr(config, field.name) for field in fields(ScanOptions)}
    options = ScanOptions(**given | ({"gate": 0.0} if config.every_frame else {}))
    options.check()
    return options


def _published(config: BuildSets, sources: Sequence[FoundSource], progress: Progress) -> dict[str, SplitName]:
    published = read_published(config.splits) if config.splits else {}
    if unknown := sorted(published.keys() - {source.name for source in sources}):
        named = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")
        progress.warn(f"{config.splits} deals to what is no source here: {named} ({len(unknown)} in all)")
    return published


def _retry(config: BuildSets) -> str:
    # what decides the result is the content of the file of splits, but it is typed as a path
    splits = [] if config.splits is None else ["--splits", str(config.splits)]
    typed = ["ctxr", "build-sets", *config.sources, *typed_options(config), *splits, "--retry-failed"]
    return shlex.join(typed)


def _videos(run: SetsRun, videos: Sequence[FoundSource], stamps: Mapping[str, Stamp], workers: int) -> None:
    todo = [found for found in videos if not run.take(found.name, stamps[found.name])]
    if run.units:
        run.progress.note(f"{len(run.units)} of {len(videos)} videos were finished before")
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

        side_by_side(lambda found: _video(run, free, found, stamps[found.name], task), todo, workers, stop)


def _video(run: SetsRun, free: list[Scanner], found: FoundSource, stamp: Stamp, task: ProgressTask) -> None:
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
            f"{found.path} gives no set: sampling and the near-still gate leave {left} of its {unit.source.frames} "
            f"frames, fewer than a set of {needed}"
        )


def _photos(run: SetsRun, albums: Sequence[FoundSource], stamps: Mapping[str, Stamp], choice: PhotoPicking) -> None:
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
    """Turns frames decoded into shares of one video."""

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
        """The video is over, whatever was promised."""
        self._task.advance(1 - self._done)
