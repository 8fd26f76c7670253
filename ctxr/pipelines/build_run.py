"""The work behind `ctxr build-sets`: every source to a unit, units to the artifact."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from ctxr.data.artifacts import MANIFEST, Parent, take_manifest
from ctxr.data.atomic import write_bytes
from ctxr.data.sources import Found
from ctxr.data.splits import read_published
from ctxr.data.tables import write_table
from ctxr.data.units import Stamp, read_stamp, read_unit
from ctxr.data.video import VideoError, VideoHeader
from ctxr.errors import DataError
from ctxr.pipelines.build_sets import BuildSets, limits_of
from ctxr.pipelines.build_work import Build, build_photos, readable_unit
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.quality import Meter, Unmeasurable
from ctxr.pipelines.scan import ScanFailed, Scanner, ScanOptions
from ctxr.pipelines.sets_artifact import complete
from ctxr.pipelines.talk import Talk, Task
from ctxr.pipelines.video_unit import Embedder, pick_again, scan_video


def build(
    config: BuildSets,
    out: Path,
    sources: Sequence[Found],
    parents: Sequence[Parent],
    talk: Talk,
    clear: Callable[[], None],
) -> None:
    """Make or complete the artifact `out`. The caller holds its lock; `clear` removes what must be made anew."""
    from ctxr.models.encode import load_encoder

    encoder = load_encoder(config.encoder, config.device, config.precision, warn=talk.warn)
    threshold = encoder.threshold if config.threshold is None else config.threshold
    meter = Meter(limits_of(config), config.brisque_weights, config.ocr)
    run = Build(
        config,
        out,
        talk,
        encoder,
        Embedder(lambda: encoder, threading.Lock()),
        Picking(threshold, config.set_size, encoder.margin, meter),
        ScanOptions(
            detector=config.detector,
            detector_threshold=config.detector_threshold,
            min_shot=config.min_shot,
            rate=config.rate,
            every_frame=config.every_frame,
            gate=0.0 if config.every_frame else config.gate,
            decoder=config.decoder,
            threads=config.threads,
            keep_damaged=config.keep_damaged,
            stall_seconds=config.stall_seconds,
            time_limit=config.time_limit,
            memory_limit=config.memory_limit,
        ),
    )
    run.scan_options.check()
    published = read_published(config.splits) if config.splits else {}
    names = {source.name for source in sources}
    if unknown := sorted(published.keys() - names):
        named = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")
        talk.warn(f"{config.splits} deals to what is no source here: {named} ({len(unknown)} in all)")
    models = {
        "encoder": encoder.describe(),
        "selection": {
            "threshold": threshold,
            "margin": encoder.margin,
            "set_size": config.set_size,
            "duplicate": run.duplicate,
        },
        "quality": meter.describe(),
    }
    # everything that can be refused has been: from here on the old result is no longer complete
    finished_before = take_manifest(out)
    clear()
    _videos(run, [source for source in sources if source.kind == "video"])
    build_photos(run, [source for source in sources if source.kind == "photos"])
    if not run.units:
        if finished_before:
            write_bytes(out / MANIFEST, finished_before)  # nothing has changed: the old result stays as it was
        else:
            write_table(out / "failures.jsonl", run.failures)
        worst = run.failures[0]
        more = f" (and {len(run.failures) - 1} more)" if len(run.failures) > 1 else ""
        raise DataError(
            f"no source could be used: {worst.message}{more}", hint="every reason stands in a warning above"
        )
    complete(
        out,
        "build-sets",
        config.result_config(),
        parents,
        run.units,
        run.failures,
        models,
        published,
        config.salt,
        talk,
    )


def _videos(run: Build, videos: Sequence[Found]) -> None:
    todo: list[tuple[Found, Stamp, bool]] = []
    for found in videos:
        stamp, there = run.stamp(found.sha256), read_stamp(run.out, found.name)
        if there == stamp:
            run.units[found.name] = read_unit(run.out, found.name)
        else:
            todo.append((found, stamp, there is not None and there.scan == stamp.scan))
    if run.units:
        run.talk.note(f"{len(run.units)} of {len(videos)} videos were finished before")
    if not todo:
        return
    workers = min(run.config.workers or max(1, (os.cpu_count() or 2) // 2), len(todo))
    with run.talk.progress("videos", len(todo)) as task, ThreadPoolExecutor(workers) as pool:
        scanners = [Scanner() for _ in range(workers)]
        free = list(scanners)
        jobs = [pool.submit(_video, run, free, found, stamp, again, task) for found, stamp, again in todo]
        try:
            done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
            for job in done:
                job.result()
        except BaseException:
            # Ctrl-C, a full disk: stop the others at once; finished units stay
            run.stopping.set()
            for job in jobs:
                job.cancel()
            for scanner in scanners:
                scanner.cancel()
            raise
        finally:
            for scanner in scanners:
                scanner.close()


def _video(run: Build, free: list[Scanner], found: Found, stamp: Stamp, again: bool, task: Task) -> None:
    if run.stopping.is_set():
        return
    task.say(found.name)
    cache = FactCache.beside(run.out, found.name, found.sha256)
    scanner = free.pop()
    watch = _Watch(task)
    try:
        old = readable_unit(run.out, found.name) if again else None
        if old is not None:
            unit = pick_again(
                run.out,
                old,
                run.out,
                lambda: found.path,
                stamp,
                run.picking,
                run.embedder,
                cache,
                run.scan_options,
                run.stopping.is_set,
            )
        else:
            unit = scan_video(run.out, found, stamp, scanner, run.scan_options, run.picking, run.embedder, cache, watch)
        run.units[found.name] = unit
        left, needed = sum(row.row is not None for row in unit.ledger), run.picking.set_size
        if left < needed:
            run.talk.warn(
                f"{found.path} gives no set: sampling and the near-still gate leave {left} of its {unit.source.frames} "
                f"frames, fewer than a set of {needed}"
            )
    except (ScanFailed, VideoError, Unmeasurable) as failure:
        if not run.stopping.is_set():
            run.fail(found, failure.reason, failure.message, failure.hint)
    finally:
        watch.finish()
        free.append(scanner)


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
