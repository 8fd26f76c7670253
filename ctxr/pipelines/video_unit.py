"""One video becomes one unit: scanned, embedded and picked in a single decode, or picked again from its ledger."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ctxr.data.embeddings import VectorLog, Vectors
from ctxr.data.images import Pixels
from ctxr.data.records import Facts, LedgerRow, Shot, Source
from ctxr.data.sources import FoundSource
from ctxr.data.units import SOURCES, SourceUnit, Stamp, write_unit
from ctxr.data.video import VideoHeader
from ctxr.errors import CtxrError
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.frame_child import ChildFrameReader
from ctxr.pipelines.picking import Picker, Picking
from ctxr.pipelines.quality import forget_other_measures
from ctxr.pipelines.scan import CandidateFrame, ScanEnd, ScanFailed, Scanner, ScanOptions

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

    def embed_exactly(self, pictures: Sequence[Pixels]) -> Vectors:
        """As `embed`, in full precision."""
        return self.embed(pictures, exact=True)


@dataclass(frozen=True)
class UnitContext:
    """What the units of one run are made with.

    Attributes:
        artifact: folder that units and pictures are written to.
        options: how videos are decoded.
        stopping: set when work that is under way is to end.
    """

    artifact: Path
    picking: Picking
    embedder: Embedder
    options: ScanOptions = field(default_factory=ScanOptions)
    stopping: threading.Event = field(default_factory=threading.Event)

    def save(self, unit: SourceUnit) -> SourceUnit:
        """Write a unit, and remember what was measured on its source."""
        write_unit(self.artifact, unit)
        self.cache(unit.source).store(unit, self.artifact)
        return unit

    def cache(self, source: Source | FoundSource) -> FactCache:
        """What was ever measured on a source."""
        return FactCache.beside(self.artifact, source.name, source.sha256)


class _Pass:
    """One decode of a video: what has been considered, embedded and picked so far."""

    def __init__(self, context: UnitContext, found: FoundSource, header: VideoHeader) -> None:
        self.rows: list[LedgerRow] = []
        self.vectors = VectorLog(context.artifact / SOURCES / f".{found.name}.vectors")
        self._found, self._embedder = found, context.embedder
        self._reader = ChildFrameReader(lambda: found.path, header.decoder, context.options)
        self._times: dict[int, Fraction] = {}
        self._batch: list[tuple[CandidateFrame, Pixels]] = []
        self._live: dict[int, Pixels] = {}
        self.picker = Picker(
            context.artifact, found.name, context.picking, self._pixels, context.embedder.embed_exactly
        )

    def take(self, candidate: CandidateFrame) -> None:
        """The next considered frame."""
        self._times[candidate.index] = candidate.time
        if candidate.rgb is None:
            self.rows.append(_row(self._found.name, candidate, None))
            return
        self._live[candidate.index] = candidate.rgb
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
        for index in self._live.keys() - self.picker.needed():
            del self._live[index]

    def _pixels(self, index: int) -> Pixels:
        """A frame that just went by; an older one is decoded again."""
        rgb = self._live.get(index)
        return self._reader.read(index, self._times[index]) if rgb is None else rgb

    def close(self) -> None:
        """Let go of what only this pass needs."""
        self._reader.close()
        self.vectors.discard()


def scan_video(
    context: UnitContext,
    found: FoundSource,
    stamp: Stamp,
    scanner: Scanner,
    watch: Callable[[VideoHeader | None, int], None],
) -> SourceUnit:
    """Decode, embed and pick in one pass, and write the unit. `watch` hears of the header and of frames decoded.

    Raises `scan.ScanFailed` when the file gives nothing.
    """
    decode: _Pass | None = None
    try:
        for event in scanner.scan(found.path, context.options):
            if isinstance(event, VideoHeader):
                # a second header: another decoder begins again, what came before does not count
                if decode:
                    decode.close()
                decode = _Pass(context, found, event)
                watch(event, 0)
            elif decode and isinstance(event, CandidateFrame):
                watch(None, event.index)
                decode.take(event)
            elif decode and isinstance(event, ScanEnd):
                decode.settle()
                source = _source(found, event, len(decode.rows))
                shots = [
                    Shot(found.name, shot.number, shot.start_index, shot.start_time, shot.end_index, shot.end_time)
                    for shot in event.shots
                ]
                rows = sorted(decode.rows, key=lambda row: row.index)
                return context.save(_unit(stamp, source, shots, rows, decode.vectors.close(), decode.picker))
        raise RuntimeError(f"the scan of {found.path} ended without an end")
    finally:
        if decode:
            decode.close()


def pick_from_ledger(
    context: UnitContext, old: SourceUnit, origin: Path, video: Callable[[], Path], stamp: Stamp
) -> SourceUnit:
    """Pick from the ledger of `old`, whose pictures lie in the artifact `origin`, and write the unit.

    Facts measured with the same instruments are reused; only frames that no file holds are decoded, from the file that `video`
    gives when it is first needed, in a child process.
    """
    known, files = _known(context, old, origin, stamp)
    times = {row.index: row.time for row in old.ledger if row.time is not None}
    with ChildFrameReader(video, old.source.decoder or "pyav", context.options) as reader:
        picker = Picker(
            context.artifact,
            old.source.name,
            context.picking,
            lambda index: reader.read(index, times[index]),
            context.embedder.embed_exactly,
            facts=known,
            files={index: file for index, file in files.items() if file.is_file()},
            exact={row.index: np.asarray(old.exact[row.exact_row]) for row in old.ledger if row.exact_row is not None},
        )
        rows = [_undecided(row) for row in old.ledger]
        for row in rows:
            if context.stopping.is_set():
                raise ScanFailed("cancelled", f"{old.source.name}: picking was stopped")
            if row.row is not None and row.shot is not None:
                picker.push(row, row.shot, old.vectors[row.row])
    return context.save(_unit(stamp, old.source, old.shots, rows, old.vectors, picker))


def _known(
    context: UnitContext, old: SourceUnit, origin: Path, stamp: Stamp
) -> tuple[dict[int, Facts], dict[int, Path]]:
    """Facts, and the pictures they are about, by frame: of the unit, and of whatever else was measured on its source."""
    known = {row.index: row for row in forget_other_measures(old.facts, old.stamp.measures, stamp.measures)}
    for image in old.images:
        if image.index is not None and image.index not in known:
            known[image.index] = Facts(
                old.source.name, image.index, image.path, image.sha256, image.width, image.height
            )
    files = {index: origin / facts.path for index, facts in known.items()}
    complete = {index for index, facts in known.items() if context.picking.quality.complete(facts)}
    for index, (facts, file) in context.cache(old.source).load(stamp.measures, complete).items():
        known[index], files[index] = facts, file
    return known, files


def _unit(
    stamp: Stamp, source: Source, shots: list[Shot], rows: Sequence[LedgerRow], vectors: Vectors, picker: Picker
) -> SourceUnit:
    """What `picker` made of the rows of a ledger; it has seen all of them."""
    return SourceUnit(
        stamp=stamp,
        source=source,
        shots=shots,
        ledger=picker.ledger(rows),
        facts=list(picker.measured.values()),
        sets=picker.sets,
        images=picker.images,
        vectors=vectors,
        exact=picker.exact_vectors(vectors.shape[1]),
    )


def _row(source: str, candidate: CandidateFrame, row: int | None) -> LedgerRow:
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


def _source(found: FoundSource, ended: ScanEnd, considered: int) -> Source:
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
