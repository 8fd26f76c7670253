"""A benchmark out of the drawn world: sets of scenes with contextual descriptions whose truth is computed.

It is an artifact of kind `dataset` like one that people made, so every verb that reads one can be tried on it, and a model
that cannot learn it need not be tried on photographs.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.artifacts import Artifact
    from ctxr.data.records import Kind, SplitName

AUTHOR = "world"
"""Who wrote the descriptions."""

_AHEAD = 8
"""Sets that wait for each process that draws."""


@dataclass(frozen=True)
class WorldBenchmark:
    """What to draw.

    Attributes:
        out: artifact folder to write.
        train, valid, test: queries on each side.
        targets: images of a train set that are described, at most; 0: one to three, as in ImageCoDe. Valid and test sets always
            have one to three. More on train teach more for each picture that is drawn and encoded.
        video: share of the sets, 0..1, whose scenes follow each other in time; the others are near neighbours.
        side: of the square pictures, pixels.
        seed: of everything; the same one draws the same bytes.
        encoder: makes the distances of the sets. device: where it runs.
        workers: processes that draw; they change nothing.
    """

    out: Path
    train: int = 2000
    valid: int = 250
    test: int = 500
    targets: int = 0
    video: float = 0.7
    side: int = 96
    seed: int = 0
    encoder: str = "ctxr-tiny"
    device: str = "auto"
    workers: int = 2


@dataclass(frozen=True)
class BenchmarkSet:
    """A set as it is drawn: its pictures as JPEG bytes, and (target, text, phenomena) of each description."""

    name: str
    pictures: tuple[bytes, ...]
    descriptions: tuple[tuple[int, str, tuple[str, ...]], ...]


def write_benchmark(config: WorldBenchmark, talk: Talk | None = None) -> "Artifact":
    """Draw the benchmark, or leave it if it is there. Raises UsageError for numbers that make no sense."""
    from ctxr.data.artifacts import finish, finished, locked, refuse_strangers, take_manifest

    talk = talk or Silent()
    refuse_seed(config.seed)
    if (
        not 0 <= config.video <= 1
        or min(config.train, config.valid, config.test, config.targets) < 0
        or config.side < 16
    ):
        raise UsageError(
            "a world benchmark needs counts of at least 0, a share of video in 0..1 and a side of 16 pixels"
        )
    decides = {name: value for name, value in asdict(config).items() if name not in ("out", "device", "workers")}
    ready = finished(config.out, "dataset", "world", decides, [])
    if ready is not None:
        return ready
    refuse_strangers(config.out)
    with locked(config.out):
        take_manifest(config.out)
        counts, models = _write(config, talk)
        return finish(
            config.out, kind="dataset", verb="world", config=decides, parents=[], counts=counts, models=models,
            files=[f"{name}.jsonl" for name in counts],
        )  # fmt: skip


def _write(config: WorldBenchmark, talk: Talk) -> tuple[dict[str, int], dict[str, object]]:
    from ctxr.data.tables import write_table
    from ctxr.models.encode import load_encoder
    from ctxr.pipelines.world_rows import rows_of

    encoder = load_encoder(config.encoder, config.device, warn=talk.warn)
    rows: dict[str, list[object]] = {name: [] for name in ("sets", "images", "splits", "texts", "queries", "judgments")}
    wanted: dict[SplitName, int] = {"train": config.train, "valid": config.valid, "test": config.test}
    with talk.progress("drawing queries", sum(wanted.values())) as task:
        for split, count in wanted.items():
            left = count
            for kind, told in _draw(config, split, count):
                if not left:
                    break
                kept = told.descriptions[:left]
                left -= len(kept)
                for name, found in rows_of(config.out, split, kind, told, kept, encoder, config.side).items():
                    rows[name] += found
                task.advance(len(kept))
    counts = {name: write_table(config.out / f"{name}.jsonl", content) for name, content in rows.items()}  # type: ignore[type-var]
    return counts, {"encoder": encoder.describe()}


def _draw(config: WorldBenchmark, split: str, count: int) -> "Iterator[tuple[Kind, BenchmarkSet]]":
    """Sets of a side, more than enough: each has a seed of its own, so the number of processes changes nothing."""
    from ctxr.pipelines.world_rows import draw_set

    targets = config.targets if split == "train" else 0
    if not count:
        return
    if config.workers == 1:
        for number in itertools.count():
            yield draw_set(config.seed, split, number, config.video, config.side, targets)
    ahead: deque[Future[tuple[Kind, BenchmarkSet]]] = deque()
    with ProcessPoolExecutor(config.workers, mp_context=get_context("spawn")) as pool:
        try:
            for number in itertools.count():
                ahead.append(pool.submit(draw_set, config.seed, split, number, config.video, config.side, targets))
                # the next sets are drawn while this one is encoded and written
                if len(ahead) > _AHEAD * config.workers:
                    yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
