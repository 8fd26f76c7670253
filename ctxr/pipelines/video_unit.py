"""One video becomes one unit: scanned, embedded and picked in a single decode, or picked again from its ledger."""

import os
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
from ctxr.data.video import FrameReader, VideoHeader
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.picking import Picker, Picking
from ctxr.pipelines.quality import forget_other_measures
from ctxr.pipelines.scan import Candidate, ScanEnd, Scanner, ScanOptions

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
            return self.make().encode_images(pictures, exact=exact)


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
    rows: list[LedgerRow] = []
    times: dict[int, Fraction] = {}
    header: VideoHeader | None = None
    ended: ScanEnd | None = None
    vectors = VectorLog(artifact / SOURCES / f".{found.name}.vectors")

    def read_again(index: int) -> Pixels:
        decoder = header.decoder if header else "pyav"
        with FrameReader(found.path, decoder) as reader:
            return reader.read(index, times[index])

    bank = LiveBank(read_again)
    picker = Picker(artifact, found.name, picking, bank, lambda pictures: embedder.embed(pictures, exact=True))
    batch: list[Candidate] = []

    def settle() -> None:
        pictures = [candidate.rgb for candidate in batch if candidate.rgb is not None]
        embedded = embedder.embed(pictures)
        first = vectors.append(embedded)
        for offset, (candidate, vector) in enumerate(zip(batch, embedded, strict=True)):
            row = _row(found.name, candidate, first + offset)
            rows.append(row)
            picker.push(row, candidate.shot, vector)
        batch.clear()
        bank.keep(picker.needed())

    try:
        for event in scanner.scan(found.path, options):
            if isinstance(event, VideoHeader):
                header = event
                watch(event, 0)
            elif isinstance(event, ScanEnd):
                ended = event
            else:
                watch(None, event.index)
                times[event.index] = event.time
                if event.rgb is None:
                    rows.append(_row(found.name, event, None))
                    continue
                bank.live[event.index] = event.rgb
                batch.append(event)
                if len(batch) >= max(1, min(BATCH, BATCH_BYTES // event.rgb.nbytes)):
                    settle()
        if batch:
            settle()
        if ended is None:
            raise RuntimeError("a scan ended without saying so")
        final = vectors.close()
        unit = Unit(
            stamp=stamp,
            source=_source(artifact, found, ended, len(rows)),
            shots=[
                Shot(found.name, shot.number, shot.start_index, shot.start_time, shot.end_index, shot.end_time)
                for shot in ended.shots
            ],
            ledger=picker.ledger(rows),
            facts=list(picker.measured.values()),
            sets=picker.sets,
            images=picker.images,
            vectors=final,
            exact=picker.exact_vectors(final.shape[1]),
        )
        write_unit(artifact, unit)
        cache.store(unit, artifact)
        return unit
    finally:
        vectors.discard()


def pick_again(
    artifact: Path,
    old: Unit,
    origin: Path,
    video: Path,
    stamp: Stamp,
    picking: Picking,
    embedder: Embedder,
    cache: FactCache,
) -> Unit:
    """Pick from the ledger of `old`, whose pictures lie in the artifact `origin`, into `artifact`.

    Facts measured with the same instruments are reused; only frames that no file holds are decoded, from `video`.
    """
    known = {row.index: row for row in forget_other_measures(old.facts, old.stamp.measures, stamp.measures)}
    for image in old.images:
        if image.index is not None and image.index not in known:
            known[image.index] = Facts(
                old.source.name, image.index, image.path, image.sha256, image.width, image.height
            )
    files = {index: origin / facts.path for index, facts in known.items()}
    for index, (facts, file) in cache.load(stamp.measures).items():
        if index not in known or not picking.meter.complete(known[index]):
            known[index], files[index] = facts, file
    exact = {row.index: np.asarray(old.exact[row.exact_row]) for row in old.ledger if row.exact_row is not None}
    times = {row.index: row.time for row in old.ledger if row.time is not None}
    reader = FrameReader(video, old.source.decoder or "pyav")

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


def _source(artifact: Path, found: Found, ended: ScanEnd, considered: int) -> Source:
    header = ended.header
    return Source(
        name=found.name,
        kind="video",
        path=path_from(artifact, found.path),
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


def path_from(artifact: Path, source: Path) -> str:
    """Where `source` lies, seen from the artifact: moving both together keeps it true."""
    return Path(os.path.relpath(source.resolve(), artifact.resolve())).as_posix()
