"""One video becomes one unit: scanned, embedded and picked in a single decode, or picked again from its ledger."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ctxr.data.embeddings import VectorLog, Vectors
from ctxr.data.images import Pixels
from ctxr.data.records import Facts, LedgerRow, Shot, Source
from ctxr.data.sources import Found
from ctxr.data.units import SOURCES, Stamp, Unit, write_unit
from ctxr.data.video import VideoHeader
from ctxr.errors import CtxrError
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.frame_child import ChildFrameReader
from ctxr.pipelines.picking import Picker, Picking
from ctxr.pipelines.quality import forget_other_measures
from ctxr.pipelines.scan import Candidate, ScanEnd, ScanFailed, Scanner, ScanOptions

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

BATCH = 16
"""Frames that are embedded together; their pixels are held until the walk has seen them."""

BATCH_BYTES = 160 * 2**20
"""Most pixels held for one batch, so that memory stays bounded for 4K and 8K footage."""


@dataclass(frozen=True)
class Embedder:
    """An encoder that is made when first needed and used by one thread at a time."""

    make: Callable[[], "Encoder"]
    lock: threading.Lock

    def embed(self, pictures: Sequence[Pixels], exact: bool = False) -> Vectors:
        """Unit vectors [n, D] float32 of pictures uint8 [H, W, 3]."""
        with self.lock:
            vectors: Vectors = self.make().encode_images(pictures, exact=exact)
        if not np.isfinite(vectors).all():
            raise CtxrError("the encoder gave vectors that are not numbers", hint="try --precision fp32")
        return vectors


class LiveBank:
    """Pixels of the frames that just went by; an older frame is decoded again."""

    def __init__(self, reader: Callable[[int], Pixels]) -> None:
        self.live: dict[int, Pixels] = {}
        self._reader = reader

    def pixels(self, index: int) -> Pixels:
        """See `picking.FrameBank`."""
        rgb = self.live.get(index)
        return self._reader(index) if rgb is None else rgb

    def keep(self, indices: set[int]) -> None:
        """Let go of all others."""
        for index in self.live.keys() - indices:
            del self.live[index]


class _Pass:
    """One decode of a video: what has been considered, embedded and picked so far."""

    def __init__(
        self,
        artifact: Path,
        found: Found,
        header: VideoHeader,
        picking: Picking,
        embedder: Embedder,
        options: ScanOptions,
    ) -> None:
        self.rows: list[LedgerRow] = []
        self.vectors = VectorLog(artifact / SOURCES / f".{found.name}.vectors")
        self._found, self._embedder = found, embedder
        self._reader = ChildFrameReader(lambda: found.path, header.decoder, options)
        self._times: dict[int, Fraction] = {}
        self._batch: list[tuple[Candidate, Pixels]] = []
        self._bank = LiveBank(self._read_again)
        self.picker = Picker(
            artifact, found.name, picking, self._bank, lambda pictures: embedder.embed(pictures, exact=True)
        )

    def take(self, candidate: Candidate) -> None:
        """The next considered frame."""
        self._times[candidate.index] = candidate.time
        if candidate.rgb is None:
            self.rows.append(_row(self._found.name, candidate, None))
            return
        self._bank.live[candidate.index] = candidate.rgb
        self._batch.append((candidate, candidate.rgb))
        if len(self._batch) >= max(1, min(BATCH, BATCH_BYTES // candidate.rgb.nbytes)):
            self.settle()

    def settle(self) -> None:
        """Embed the frames that wait, and let the walk see them."""
        if not self._batch:
            return
        embedded = self._embedder.embed([rgb for _, rgb in self._batch])
        first = self.vectors.append(embedded)
        for offset, ((candidate, _), vector) in enumerate(zip(self._batch, embedded, strict=True)):
            row = _row(self._found.name, candidate, first + offset)
            self.rows.append(row)
            self.picker.push(row, candidate.shot, vector)
        self._batch.clear()
        self._bank.keep(self.picker.needed())

    def _read_again(self, index: int) -> Pixels:
        return self._reader.read(index, self._times[index])

    def close(self) -> None:
        """Let go of what only this pass needs."""
        self._reader.close()
        self.vectors.discard()


def scan_video(
    artifact: Path,
    found: Found,
    stamp: Stamp,
    scanner: Scanner,
    options: ScanOptions,
    picking: Picking,
    embedder: Embedder,
    cache: FactCache,
    watch: Callable[[VideoHeader | None, int], None],
) -> Unit:
    """Decode, embed and pick in one pass, and write the unit. `watch` hears of the header and of frames decoded.

    Raises `scan.ScanFailed` when the file gives nothing.
    """
    decode: _Pass | None = None
    try:
        for event in scanner.scan(found.path, options):
            if isinstance(event, VideoHeader):
                # a second header: another decoder begins again, what came before does not count
                if decode:
                    decode.close()
                decode = _Pass(artifact, found, event, picking, embedder, options)
                watch(event, 0)
            elif decode and isinstance(event, Candidate):
                watch(None, event.index)
                decode.take(event)
            elif decode and isinstance(event, ScanEnd):
                decode.settle()
                unit = _finished(found, stamp, decode, event)
                write_unit(artifact, unit)
                cache.store(unit, artifact)
                return unit
        raise RuntimeError(f"the scan of {found.path} ended without an end")
    finally:
        if decode:
            decode.close()


def _finished(found: Found, stamp: Stamp, decode: _Pass, ended: ScanEnd) -> Unit:
    vectors, picker = decode.vectors.close(), decode.picker
    return Unit(
        stamp=stamp,
        source=_source(found, ended, len(decode.rows)),
        shots=[
            Shot(found.name, shot.number, shot.start_index, shot.start_time, shot.end_index, shot.end_time)
            for shot in ended.shots
        ],
        ledger=picker.ledger(sorted(decode.rows, key=lambda row: row.index)),
        facts=list(picker.measured.values()),
        sets=picker.sets,
        images=picker.images,
        vectors=vectors,
        exact=picker.exact_vectors(vectors.shape[1]),
    )


def pick_again(
    artifact: Path,
    old: Unit,
    origin: Path,
    video: Callable[[], Path],
    stamp: Stamp,
    picking: Picking,
    embedder: Embedder,
    cache: FactCache,
    options: ScanOptions | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Unit:
    """Pick from the ledger of `old`, whose pictures lie in the artifact `origin`, into `artifact`.

    Facts measured with the same instruments are reused; only frames that no file holds are decoded, from the file that `video`
    gives when it is first needed, in a child process with the limits of `options`.
    """
    known = {row.index: row for row in forget_other_measures(old.facts, old.stamp.measures, stamp.measures)}
    for image in old.images:
        if image.index is not None and image.index not in known:
            known[image.index] = Facts(
                old.source.name, image.index, image.path, image.sha256, image.width, image.height
            )
    files = {index: origin / facts.path for index, facts in known.items()}
    complete = {index for index, facts in known.items() if picking.meter.complete(facts)}
    for index, (facts, file) in cache.load(stamp.measures, complete).items():
        known[index], files[index] = facts, file
    exact = {row.index: np.asarray(old.exact[row.exact_row]) for row in old.ledger if row.exact_row is not None}
    times = {row.index: row.time for row in old.ledger if row.time is not None}
    reader = ChildFrameReader(video, old.source.decoder or "pyav", options)

    def read(index: int) -> Pixels:
        return reader.read(index, times[index])

    bank = LiveBank(read)
    picker = Picker(
        artifact,
        old.source.name,
        picking,
        bank,
        lambda pictures: embedder.embed(pictures, exact=True),
        facts=known,
        files={index: file for index, file in files.items() if file.is_file()},
        exact=exact,
    )
    rows = [_undecided(row) for row in old.ledger]
    with reader:
        for row in rows:
            if stopping():
                raise ScanFailed("cancelled", f"{old.source.name}: picking was stopped")
            if row.row is not None and row.shot is not None:
                picker.push(row, row.shot, old.vectors[row.row])
    unit = Unit(
        stamp=stamp,
        source=old.source,
        shots=old.shots,
        ledger=picker.ledger(rows),
        facts=list(picker.measured.values()),
        sets=picker.sets,
        images=picker.images,
        vectors=old.vectors,
        exact=picker.exact_vectors(old.vectors.shape[1]),
    )
    write_unit(artifact, unit)
    cache.store(unit, artifact)
    return unit


def _row(source: str, candidate: Candidate, row: int | None) -> LedgerRow:
    skipped = row is None
    return LedgerRow(
        source=source,
        index=candidate.index,
        time=candidate.time,
        shot=candidate.shot,
        row=row,
        gate=None if candidate.gate_difference is None else round(candidate.gate_difference, 4),
        thumbnail=candidate.thumbnail_hash,
        reason="near_still" if skipped else None,
        value=round(candidate.gate_difference, 4) if skipped and candidate.gate_difference is not None else None,
    )


def _undecided(row: LedgerRow) -> LedgerRow:
    """The row as the scan left it."""
    if row.row is None:
        return row
    return msgspec.structs.replace(
        row, exact_row=None, image_set=None, reason=None, value=None, nearest=None, distance=None
    )


def _source(found: Found, ended: ScanEnd, considered: int) -> Source:
    header = ended.header
    return Source(
        name=found.name,
        kind="video",
        file=found.path.name,
        sha256=found.sha256,
        bytes=found.bytes,
        width=header.width,
        height=header.height,
        rate=header.rate,
        duration=header.duration,
        frames=ended.frames,
        considered=considered,
        shots=len(ended.shots),
        late_cuts=ended.late_cuts,
        decoder=ended.decoder,
        damage=ended.damage,
    )
