"""One video becomes one unit: scanned, embedded and picked in one decode, or picked again from its ledger.

The same code picks while a video is decoded (`build-sets`) and picks again from the ledger (`filter`, another threshold):
only where pixels come from differs. So both give the same sets.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.engine.units import Portable
from ctxr.errors import CtxrError
from ctxr.media.decoder_process import CandidateFrame, ScanEnd, ScanOptions
from ctxr.media.frames import ChildFrameReader
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, perceptual_hash
from ctxr.media.scan import FrameGone, Scanner
from ctxr.media.sources import InputSource
from ctxr.media.video import VideoError, VideoHeader
from ctxr.metrics.selection import Completed, FrameDecision, Rejection, SecantSearch, Walk
from ctxr.models.encoders import Encoder
from ctxr.pipelines.curation.quality import FactCache, QualityGate, forget_other_measures
from ctxr.store.arrays import VectorLog, Vectors, spread, stack_vectors
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import BETWEEN, Facts, Image, ImageSet, LedgerRow, Shot, Source
from ctxr.store.units import DROPPED, IMAGES, SOURCES, SourceUnit, Stamp, write_unit


@dataclass(frozen=True)
class Picking:
    """How sets are picked. `margin` is the encoder's; `quality` measures and judges pictures."""

    threshold: float
    set_size: int
    margin: float
    quality: QualityGate


@dataclass
class Picker:
    """Picks from one source, frame by frame in order.

    Attributes:
        artifact: folder that pictures are written to.
        pixels: frame number -> upright RGB uint8 [H, W, 3]. encode_exact: pictures -> vectors [n, D] in full precision.
        embed: number of a frame between two samples -> its vector [D].
        facts: what is known already, by frame. files: saved pictures that exist already, by frame; each has facts.
        exact: full-precision vectors that are known already, by frame.
    """

    artifact: Path
    source: str
    picking: Picking
    pixels: Callable[[int], Pixels]
    encode_exact: Callable[[Sequence[Pixels]], Vectors]
    embed: Callable[[int], Vectors]
    facts: dict[int, Facts] = field(default_factory=dict)
    files: dict[int, Path] = field(default_factory=dict)
    exact: dict[int, Vectors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decisions: dict[int, FrameDecision] = {}
        self.measured: dict[int, Facts] = {}
        self.sets: list[ImageSet] = []
        self.images: list[Image] = []
        self._refined: dict[int, Vectors] = {}
        self._rows: dict[int, LedgerRow] = {}
        self._open_rows: dict[int, tuple[LedgerRow, Vectors]] = {}
        self.walk = Walk(self.picking.threshold, self.picking.set_size, self.picking.margin, self._refine, self._veto)
        self._search = SecantSearch(self.walk, self.embed, self._push)

    def consider(self, held: Sequence[LedgerRow], sample: LedgerRow, vector: Vectors) -> None:
        """Decide on a sample, and on those frames held before it that the search embeds; a set that becomes full is saved at once."""
        self._rows = {row.index: row for row in (*held, sample)}
        self._search.run([row.index for row in held], sample.index, vector)

    def _push(self, index: int, vector: Vectors) -> FrameDecision:
        row = self._rows[index]
        self._open_rows[index] = (row, vector)
        decision, completed = self.walk.push(index, row.shot or 0, vector)
        self.decisions[index] = decision
        if completed:
            self._save_set(completed)
        for other in self._open_rows.keys() - set(self.walk.chosen()):
            del self._open_rows[other]
        return decision

    def ledger(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """The rows with what the walk made of them; call it when the last shot is over."""
        self.walk.finish()
        exact_rows = {index: position for position, index in enumerate(sorted(self._refined))}
        return [self._decided(row, exact_rows.get(row.index)) for row in rows]

    def _decided(self, row: LedgerRow, exact_row: int | None) -> LedgerRow:
        if (made := self.decisions.get(row.index)) is None:
            return row
        image_set = None if made.set_number is None else self._set_id(made.shot, made.set_number)
        figures = {"value": _rounded(made.value), "nearest": made.nearest, "distance": _rounded(made.distance)}
        return msgspec.structs.replace(row, image_set=image_set, reason=made.reason, exact_row=exact_row, **figures)

    def exact_vectors(self, width: int) -> Vectors:
        """Vectors that were taken again, ordered by frame, [M, D]."""
        return stack_vectors((self._refined[index] for index in sorted(self._refined)), width)

    def _set_id(self, shot: int, number: int) -> str:
        return f"{self.source}-shot{shot}_{number}"

    def _refine(self, indices: Sequence[int]) -> Vectors:
        missing = [index for index in indices if index not in self.exact]
        if missing:
            vectors = self.encode_exact([self.pixels(index) for index in missing])
            self.exact.update(zip(missing, vectors, strict=True))
        self._refined |= {index: self.exact[index] for index in indices}
        return np.stack([self.exact[index] for index in indices])

    def _veto(self, index: int) -> Rejection | None:
        quality = self.picking.quality
        if not quality.limits:
            return None
        path = f"{DROPPED}/{self.source}/img{index}.jpg"
        self._save(index, path)
        facts = self.facts[index]
        if not quality.complete(facts):
            # measured on the file as it is saved, so that anyone can repeat it
            facts = quality.measure(facts, lambda: decode_jpeg(self.files[index].read_bytes()))
        self.facts[index] = self.measured[index] = msgspec.structs.replace(facts, path=path)
        return quality.limits.judge(facts)

    def _save(self, index: int, path: str) -> None:
        """Write the frame to `path`: a link to an existing file, or its pixels as JPEG."""
        target = self.artifact / path
        file = self.files.get(index)
        if file is None:
            rgb = self.pixels(index)
            content = encode_jpeg(rgb)
            write_bytes(target, content, durable=False)
            self.facts[index] = Facts(self.source, index, path, sha256_bytes(content), rgb.shape[1], rgb.shape[0])
        elif file != target:
            link_or_copy(file, target)
        self.files[index] = target

    def _save_set(self, completed: Completed) -> None:
        set_id = self._set_id(completed.shot, completed.number)
        for index in completed.indices:
            row, _ = self._open_rows[index]
            path = f"{IMAGES}/{set_id}/img{index}.jpg"
            self._save(index, path)
            facts = self.facts[index]
            if index in self.measured:
                self.measured[index] = msgspec.structs.replace(facts, path=path)
            size = facts.width, facts.height
            image = Image(f"{self.source}/img{index}", path, facts.sha256, self.source, *size, index, row.time)
            self.images.append(image)
        images = tuple(f"{self.source}/img{index}" for index in completed.indices)
        distances = spread(np.stack([self._open_rows[index][1] for index in completed.indices]))
        self.sets.append(ImageSet(set_id, "video", images, self.source, self.source, completed.shot, *distances))


def _rounded(value: float | None, places: int = 6) -> float | None:
    """By default to six decimals: finer than any decision, coarse enough to read."""
    return None if value is None else round(value, places)


BATCH = 16
"""Frames that are embedded together; their pixels are held until the walk has seen them."""

BATCH_BYTES = 160 * 2**20
"""Pixel bytes held for one batch at most, which bounds memory for 4K and 8K footage."""


@dataclass(frozen=True)
class Embedder(Portable):
    """An encoder that is made when first needed and used by one thread at a time."""

    make: Callable[[], "Encoder"]
    lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False, compare=False)

    @property
    def encoder(self) -> "Encoder":
        """The encoder."""
        with self.lock:
            return self._encoder

    @cached_property
    def _encoder(self) -> "Encoder":
        return self.make()

    def embed(self, pictures: Sequence[Pixels], exact: bool = False, rows: int | None = None) -> Vectors:
        """Unit vectors [n, D] float32 of pictures uint8 [H, W, 3], `rows` of them in a pass."""
        with self.lock:
            vectors: Vectors = self.encoder.encode_images(pictures, exact=exact, rows=rows)
        if not np.isfinite(vectors).all():
            raise CtxrError("the encoder returned NaN or infinite vectors", hint="try --precision fp32")
        return vectors


@dataclass(frozen=True)
class UnitContext(Portable):
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
    stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def save(self, unit: SourceUnit) -> SourceUnit:
        """Write a unit, and remember what was measured on its source."""
        write_unit(self.artifact, unit)
        self.cache(unit.source).store(unit, self.artifact)
        return unit

    def cache(self, source: Source | InputSource) -> FactCache:
        """The cached measurements of a source."""
        return FactCache(self.artifact, source.name, source.sha256)


class _Pass:
    """One decode of a video: what has been considered, embedded and picked so far."""

    def __init__(self, context: UnitContext, video: InputSource, header: VideoHeader, scanner: Scanner) -> None:
        self.rows: dict[int, LedgerRow] = {}
        self.places: dict[int, int] = {}
        self.vectors = VectorLog(context.artifact / SOURCES / f".{video.name}.vectors")
        self._context, self._video, self._scanner = context, video, scanner
        self._embedder = context.embedder
        self._reader = ChildFrameReader(lambda: video.path, header.decoder, context.options)
        self._times: dict[int, Fraction] = {}
        self._batch: list[tuple[CandidateFrame, Pixels]] = []
        self._live: dict[int, Pixels] = {}
        encode_exact = partial(context.embedder.embed, exact=True)
        self.picker = Picker(
            context.artifact, video.name, context.picking, self._pixels, encode_exact, self._embed_held
        )

    def take(self, candidate: CandidateFrame) -> None:
        """The next considered frame."""
        self._times[candidate.index] = candidate.time
        self.rows[candidate.index] = _row(self._video.name, candidate)
        for index, time in candidate.held:
            self._times[index] = time
            between = LedgerRow(self._video.name, index, time, candidate.shot, reason=BETWEEN)
            self.rows[index] = msgspec.structs.replace(self.rows.get(index, between), held=True)
        if candidate.rgb is None:
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
        first, last = self.vectors.append(embedded), self._batch[-1][0].index
        for offset, ((candidate, rgb), vector) in enumerate(zip(self._batch, embedded, strict=True)):
            index = candidate.index
            self.places[index] = first + offset
            self.rows[index] = msgspec.structs.replace(self.rows[index], phash=perceptual_hash(rgb))
            self.picker.consider([self.rows[held] for held, _ in candidate.held], self.rows[index], vector)
            # of what went by, only pixels of the open set may be asked for again
            for gone in [one for one in self._live if one <= index and one not in self.picker.walk.chosen()]:
                del self._live[gone]
        self._batch.clear()
        if self._context.options.search:
            self._scanner.release(last)

    def _embed_held(self, index: int) -> Vectors:
        """The vector of a frame that the child process keeps."""
        rgb = self._live[index] = self._scanner.fetch(index)
        vectors = self._embedder.embed([rgb], rows=1)
        self.places[index] = self.vectors.append(vectors)
        vector: Vectors = vectors[0]
        return vector

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
    video: InputSource,
    stamp: Stamp,
    scanner: Scanner,
    watch: Callable[[VideoHeader | None, int], None],
) -> SourceUnit:
    """Decode, embed and pick in one pass, and write the unit. `watch` hears of the header and of frames decoded.

    Raises `VideoError` when the file gives nothing.
    """
    decode: _Pass | None = None
    try:
        with closing(scanner.scan(video.path, context.options)) as events:
            for event in events:
                if isinstance(event, VideoHeader):
                    # a second header: another decoder begins again, what came before does not count
                    if decode:
                        decode.close()
                    decode = _Pass(context, video, event, scanner)
                    watch(event, 0)
                elif decode and isinstance(event, ScanEnd):
                    decode.settle()
                    source = _source(video, event)
                    shots = [Shot(video.name, *astuple(shot)) for shot in event.shots]
                    rows, vectors = _in_order(decode.rows.values(), decode.places, decode.vectors.close())
                    return context.save(_unit(stamp, source, shots, rows, vectors, picker=decode.picker))
                elif decode and isinstance(event, CandidateFrame):
                    watch(None, event.index)
                    with suppress(FrameGone):
                        decode.take(event)
                elif decode:
                    with suppress(FrameGone):
                        decode.settle()
        raise RuntimeError(f"the scan of {video.path} ended without an end")
    finally:
        if decode:
            decode.close()


def pick_from_ledger(
    context: UnitContext, old: SourceUnit, origin: Path, video: Callable[[], Path], stamp: Stamp
) -> SourceUnit:
    """Pick from the ledger of `old`, whose pictures lie in the artifact `origin`, and write the unit.

    Facts measured with the same instruments are reused; only frames that no file holds are decoded, and frames that the search asks
    for now and did not then, from the file that `video` gives when it is first needed, in a child process.
    """
    facts, files = _facts(context, old, origin, stamp)
    times = {row.index: row.time for row in old.ledger if row.time is not None}
    before = {row.index: row.row for row in old.ledger if row.row is not None}
    samples = {row.index for row in old.ledger if row.row is not None and not row.held}
    places = {index: place for index, place in before.items() if index in samples}
    fresh: list[Vectors] = []

    def embed(index: int) -> Vectors:
        if index not in before:
            before[index] = len(old.vectors) + len(fresh)
            fresh.extend(context.embedder.embed([pixels(index)], rows=1))
        places[index] = at = before[index]
        vector: Vectors = old.vectors[at] if at < len(old.vectors) else fresh[at - len(old.vectors)]
        return vector

    options = replace(context.options, keep_damaged=bool(old.source.damage))
    with ChildFrameReader(video, old.source.decoder or "pyav", options) as reader:
        pixels = lru_cache(maxsize=4)(lambda index: reader.read(index, times[index]))
        picker = Picker(
            context.artifact,
            old.source.name,
            context.picking,
            pixels,
            partial(context.embedder.embed, exact=True),
            embed,
            facts=facts,
            files={index: file for index, file in files.items() if file.is_file()},
            exact={row.index: np.asarray(old.exact[row.exact_row]) for row in old.ledger if row.exact_row is not None},
        )
        rows, held = [_undecided(row) for row in old.ledger], list[LedgerRow]()
        for row in rows:
            if context.stopping.is_set():
                raise VideoError("cancelled", f"{old.source.name}: picking was stopped")
            if row.held:
                held.append(row)
            elif row.index in samples:
                picker.consider(held, row, old.vectors[before[row.index]])
                held = []
    vectors = np.concatenate([old.vectors, np.stack(fresh)]) if fresh else old.vectors
    rows, vectors = _in_order(rows, places, vectors)
    return context.save(_unit(stamp, old.source, old.shots, rows, vectors, picker=picker))


def _in_order(
    rows: Iterable[LedgerRow], places: Mapping[int, int], vectors: Vectors
) -> tuple[list[LedgerRow], Vectors]:
    """Rows by frame, and the vectors that stand at `places`, in the same order."""
    numbers = {index: number for number, index in enumerate(sorted(places))}
    ordered = sorted(rows, key=lambda row: row.index)
    numbered = [msgspec.structs.replace(row, row=numbers.get(row.index)) for row in ordered]
    order = [places[index] for index in numbers]
    return numbered, vectors if order == list(range(len(vectors))) else vectors[order]


def _facts(
    context: UnitContext, old: SourceUnit, origin: Path, stamp: Stamp
) -> tuple[dict[int, Facts], dict[int, Path]]:
    """Facts, and the pictures they are about, by frame: of the unit, and of whatever else was measured on its source."""
    rows = {row.index: row for row in forget_other_measures(old.facts, old.stamp.measures, stamp.measures)}
    for image in old.images:
        if image.index is not None and image.index not in rows:
            rows[image.index] = Facts(old.source.name, image.index, image.path, image.sha256, image.width, image.height)
    files = {index: origin / facts.path for index, facts in rows.items()}
    complete = {index for index, facts in rows.items() if context.picking.quality.complete(facts)}
    for index, (facts, file) in context.cache(old.source).load(stamp.measures, complete).items():
        rows[index], files[index] = facts, file
    return rows, files


def _unit(
    stamp: Stamp, source: Source, shots: list[Shot], rows: Sequence[LedgerRow], vectors: Vectors, *, picker: Picker
) -> SourceUnit:
    """What `picker` made of the rows of a ledger; it has seen all of them."""
    ledger, exact = picker.ledger(rows), picker.exact_vectors(vectors.shape[1])
    made = [*picker.measured.values()], picker.sets, picker.images
    source = msgspec.structs.replace(source, considered=sum(row.reason != BETWEEN for row in ledger))
    return SourceUnit(stamp, source, shots, ledger, *made, vectors=vectors, exact=exact)


def _row(source: str, candidate: CandidateFrame) -> LedgerRow:
    gate = _rounded(candidate.gate_difference, 4)
    why: dict[str, Any] = {"reason": "near_still", "value": gate} if candidate.rgb is None else {}
    place = source, candidate.index, candidate.time, candidate.shot
    return LedgerRow(*place, gate=gate, thumbnail=candidate.thumbnail_hash, **why)


def _undecided(row: LedgerRow) -> LedgerRow:
    """The row as the scan left it."""
    decided = ("exact_row", "image_set", "reason", "value", "nearest", "distance") if row.row is not None else ()
    why: dict[str, Any] = dict.fromkeys(decided)
    if row.held:
        why |= {"reason": BETWEEN} if row.gate is None else {"reason": "near_still", "value": row.gate}
    return msgspec.structs.replace(row, **why)


def _source(video: InputSource, ended: ScanEnd) -> Source:
    facts = {name: getattr(ended.header, name) for name in ("width", "height", "rate", "duration")}
    facts |= {name: getattr(ended, name) for name in ("frames", "late_cuts", "decoder", "damage")}
    return Source(video.name, "video", video.path.name, video.sha256, video.bytes, **facts, shots=len(ended.shots))
