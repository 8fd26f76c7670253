"""The work behind `ctxr build-sets`: every source to a unit, units to the artifact."""

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

from ctxr.data.artifacts import Parent, package_versions, take_manifest
from ctxr.data.hashing import sha256_of
from ctxr.data.records import SplitName
from ctxr.data.sources import FoundSource
from ctxr.data.splits import read_published
from ctxr.data.units import SourceUnit, Stamp, read_stamp
from ctxr.data.video import VideoHeader
from ctxr.pipelines.build_sets import BuildSets
from ctxr.pipelines.build_work import SetsRun, readable_unit, typed_options
from ctxr.pipelines.decoding import half_of_cores, side_by_side
from ctxr.pipelines.photo_pool import gather_pool, unreadable_photos
from ctxr.pipelines.photo_units import DUPLICATE_SHARE, PhotoPicking
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.quality import QualityGate, QualityLimits
from ctxr.pipelines.scan import Scanner, ScanOptions
from ctxr.pipelines.sets_artifact import SetsOrigin, complete
from ctxr.pipelines.talk import Talk, Task
from ctxr.pipelines.video_unit import Embedder, UnitContext, pick_from_ledger, scan_video


def build(
    config: BuildSets,
    out: Path,
    sources: Sequence[FoundSource],
    parents: Sequence[Parent],
    talk: Talk,
    clear: Callable[[], None],
) -> None:
    """Make or complete the artifact `out`. The caller holds its lock; `clear` removes what must be made anew."""
    from ctxr.models.encode import load_encoder

    encoder = load_encoder(config.encoder, config.device, config.precision, warn=talk.warn)
    threshold = encoder.threshold if config.threshold is None else config.threshold
    quality = QualityGate(QualityLimits.of(config), config.brisque_weights, config.ocr)
    picking = Picking(threshold, config.set_size, encoder.margin, quality)
    context = UnitContext(out, picking, Embedder(lambda: encoder, threading.Lock()), _scan_options(config))
    # of the encoder's own scale, whatever threshold was asked for
    choice = PhotoPicking(encoder.threshold * DUPLICATE_SHARE, config.sample, config.seed, config.neighbours)
    published = _published(config, sources, talk)
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
    run = SetsRun(context, talk, _retry(config))
    videos = [source for source in sources if source.kind == "video"]
    _videos(run, videos, {video.name: stamp(video.sha256) for video in videos}, config.workers)
    if albums := [source for source in sources if source.kind == "photos"]:
        contents = [[album.name, album.sha256] for album in albums]
        _photos(run, albums, {album.name: stamp(album.sha256, contents) for album in albums}, choice)
    run.require_units(finished_before, [], "every reason stands in a warning above")
    origin = SetsOrigin("build-sets", config.result_config(), parents, models, published, config.salt)
    complete(out, origin, run.units, run.failures, talk)


_NO_EFFECT = frozenset({"threads", "stall_seconds", "time_limit"})
"""Scan options that change how long a scan takes, not what it gives; the memory limit bounds how many frames are held."""


def _scan_options(config: BuildSets) -> ScanOptions:
    given = {field.name: getattr(config, field.name) for field in fields(ScanOptions)}
    options = ScanOptions(**given | ({"gate": 0.0} if config.every_frame else {}))
    options.check()
    return options


def _published(config: BuildSets, sources: Sequence[FoundSource], talk: Talk) -> dict[str, SplitName]:
    published = read_published(config.splits) if config.splits else {}
    if unknown := sorted(published.keys() - {source.name for source in sources}):
        named = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")
        talk.warn(f"{config.splits} deals to what is no source here: {named} ({len(unknown)} in all)")
    return published


def _retry(config: BuildSets) -> str:
    # what decides the result is the content of the file of splits, but it is typed as a path
    splits = [] if config.splits is None else ["--splits", str(config.splits)]
    typed = ["ctxr", "build-sets", *config.sources, *typed_options(config), *splits, "--retry-failed"]
    return shlex.join(typed)


def _videos(run: SetsRun, videos: Sequence[FoundSource], stamps: Mapping[str, Stamp], workers: int) -> None:
    todo = [found for found in videos if not run.take(found.name, stamps[found.name])]
    if run.units:
        run.talk.note(f"{len(run.units)} of {len(videos)} videos were finished before")
    if not todo:
        return
    workers = min(workers or half_of_cores(), len(todo))
    with run.talk.progress("videos", len(todo)) as task, ExitStack() as stack:
        scanners = [stack.enter_context(Scanner()) for _ in range(workers)]
        free = list(scanners)

        def stop() -> None:  # finished units stay
            run.context.stopping.set()
            for scanner in scanners:
                scanner.cancel()

        side_by_side(lambda found: _video(run, free, found, stamps[found.name], task), todo, workers, stop)


def _video(run: SetsRun, free: list[Scanner], found: FoundSource, stamp: Stamp, task: Task) -> None:
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
        run.talk.warn(
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
    with run.talk.progress("photos", sum(len(album.photos) for album in albums)) as task:
        scans = {name: stamp.scan for name, stamp in stamps.items()}
        pool = gather_pool(out, albums, known, scans, run.context.embedder, task.advance)
    run.fail_photos(pool.unreadable)
    run.pick_photos(pool, albums, stamps, choice, {}, "photo sets")
    if not any(run.units[album.name].sets for album in albums):
        count, needed = len(pool.photos), run.context.picking.set_size
        run.talk.warn(f"no photo set: {count} different photos are too few for sets of {needed}")


class _Watch:
    """Turns frames decoded into shares of one video."""

    def __init__(self, task: Task) -> None:
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
