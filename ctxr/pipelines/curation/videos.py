"""One video becomes one unit: scanned, embedded and picked in one decode, or picked again from its ledger.

The same code picks while a video is decoded (`build-sets`) and picks again from the ledger (`filter`, another threshold):
only where pixels come from differs. So both give the same sets.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.units import Portable
from ctxr.errors import CtxrError, DataError
from ctxr.media.decoder_process import CandidateFrame, ChildFrameReader, FrameGone, ScanEnd, Scanner
from ctxr.media.footage import SourceLocator
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, perceptual_hash
from ctxr.media.scan import ScanOptions
from ctxr.media.sources import InputSource
from ctxr.media.video import VideoError, VideoHeader
from ctxr.metrics.selection import GreedyPicker, PickedSet, Rejection
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.quality import FactCache, QualityGate, QualityLimits, forget_other_measures
from ctxr.store.arrays import VectorLog, Vectors, set_distances, stack_vectors
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.paths import CACHE
from ctxr.store.records import BETWEEN, REJECTED, Decision, Facts, Image, ImageSet, LedgerRow, Shot, Source
from ctxr.store.units import DROPPED, IMAGES, SOURCES, SourceUnit, UnitKeys, write_unit

BATCH = 16  # frames that are decoded again and embedded together
HELD_BYTES = 160 * 2**20  # of pixels of frames that wait to be embedded, which bounds memory for 4K and 8K footage


@dataclass(frozen=True)
class PickingRules:
    """How sets are picked. `margin` is the encoder's; `quality` measures and judges pictures."""

    threshold: float
    set_size: int
    margin: float
    quality: QualityGate


@dataclass
class Embedder(Portable):
    """An encoder that is loaded when first needed and used by one thread at a time.

    Attributes:
        name, device, precision: as `load_encoder` takes them. progress: hears of warnings.
        fingerprint: of the encoder that earlier sets were built with; "" for any.
    """

    name: str
    device: str = "auto"
    precision: str = "auto"
    progress: Progress = SILENT
    fingerprint: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False, compare=False)
    loaded: Encoder | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def encoder(self) -> Encoder:
        """The encoder. Raises DataError where it is not that of the earlier sets."""
        with self.lock:
            if self.loaded is None:
                self.loaded = load_encoder(self.name, self.device, self.precision, warn=self.progress.warn)
                if self.fingerprint not in ("", self.loaded.fingerprint):
                    raise DataError(
                        f"the encoder {self.name} is not the one the sets were built with (other weights)",
                        hint="run ctxr build-sets again, then filter",
                    )
            return self.loaded

    def embed(self, pictures: Sequence[Pixels], exact: bool = False) -> Vectors:
        """Unit vectors [n, D] float32 of pictures uint8 [H, W, 3]."""
        with self.lock:
            vectors: Vectors = self.encoder.encode_images(pictures, exact=exact)
        if not np.isfinite(vectors).all():
            raise CtxrError("the encoder returned NaN or infinite vectors", hint="try --precision fp32")
        return vectors


@dataclass(frozen=True)
class UnitContext(Portable):
    """What the units of one run are made with, in the folder `artifact`; `stopping` is set when work under way is to end."""

    artifact: Path
    picking: PickingRules
    embedder: Embedder
    options: ScanOptions = field(default_factory=ScanOptions)
    stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def save(self, unit: SourceUnit) -> SourceUnit:
        """Write a unit, and remember what was measured on its source. Returns the unit as it lies there."""
        written = write_unit(self.artifact, unit)
        self.cache(unit.source).store(unit, self.artifact)
        return written

    def cache(self, source: Source | InputSource) -> FactCache:
        """The cached measurements of a source, shared by all artifacts next to this one."""
        return FactCache(self.artifact.resolve().parent / CACHE / f"{source.name}-{source.sha256[:12]}")


class SetPicker(GreedyPicker, ABC):
    """Picks sets of images from one video; a set that becomes full is saved at once.

    Attributes:
        rows: of the ledger, by frame. places: of embedded frames, the rows of their vectors.
        facts: what is known of pictures, by frame. files: saved pictures, by frame; each has facts.
        exact: full-precision vectors that are known, by frame.
    """

    def __init__(self, context: UnitContext, source: str) -> None:
        picking = context.picking
        super().__init__(picking.threshold, picking.set_size, picking.margin, BATCH)
        self.context, self.source = context, source
        self.rows: dict[int, LedgerRow] = {}
        self.places: dict[int, int] = {}
        self.facts: dict[int, Facts] = {}
        self.files: dict[int, Path] = {}
        self.exact: dict[int, Vectors] = {}
        self._measured: dict[int, Facts] = {}
        self._rejected: dict[int, Decision] = {}
        self._refined: set[int] = set()
        self._sets: list[ImageSet] = []
        self._images: list[Image] = []

    @abstractmethod
    def pixels(self, index: int) -> Pixels:
        """A frame as upright RGB uint8 [H, W, 3]."""

    def refine(self, indices: Sequence[int]) -> Vectors:
        """See `GreedyPicker.refine`."""
        missing = [index for index in indices if index not in self.exact]
        if missing:
            vectors = self.context.embedder.embed([self.pixels(index) for index in missing], exact=True)
            self.exact.update(zip(missing, vectors, strict=True))
        self._refined.update(indices)
        return np.stack([self.exact[index] for index in indices])

    def veto(self, index: int) -> Rejection | None:
        """See `GreedyPicker.veto`."""
        quality, name = self.context.picking.quality, f"{self.source}/img{index}"
        if name in quality.people.rejected:
            self._rejected[index] = quality.people.rejected[name]
            return Rejection(REJECTED)
        if quality.limits == QualityLimits():
            return None
        path = f"{DROPPED}/{self.source}/img{index}.jpg"
        self._save(index, path)
        # measured on the file as it is saved, so that anyone can repeat it
        facts = quality.measure(self.facts[index], lambda: decode_jpeg(self.files[index].read_bytes()))
        self.facts[index] = self._measured[index] = msgspec.structs.replace(facts, path=path)
        return None if name in quality.people.kept else quality.limits.judge(facts)

    def complete(self, full: PickedSet) -> None:
        """See `GreedyPicker.complete`."""
        set_id = self._set_id(full.shot, full.number)
        names = tuple(f"{self.source}/img{index}" for index in full.indices)
        left_out = self.context.picking.quality.people.left_out
        if by := next((left_out[name] for name in names if name in left_out), None):
            self._rejected |= dict.fromkeys(full.indices, by)
            return
        for name, index in zip(names, full.indices, strict=True):
            path = f"{IMAGES}/{set_id}/img{index}.jpg"
            self._save(index, path)
            facts = self.facts[index]
            if index in self._measured:
                self._measured[index] = msgspec.structs.replace(facts, path=path)
            size = facts.width, facts.height
            self._images.append(Image(name, path, facts.sha256, self.source, *size, index, self.rows[index].time))
        place = self.source, self.source, full.shot
        self._sets.append(ImageSet(set_id, "video", names, *place, *set_distances(full.vectors)))

    def unit(self, stamp: UnitKeys, source: Source, shots: list[Shot], vectors: Vectors) -> SourceUnit:
        """What was picked, once the last shot is over; `vectors` [N, D] are those at `places`."""
        self.finish()
        numbers = {index: number for number, index in enumerate(sorted(self.places))}
        exact_rows = {index: position for position, index in enumerate(sorted(self._refined))}
        ledger = []
        for index, row in sorted(self.rows.items()):
            columns: dict[str, Any] = {"row": numbers.get(index)}
            if made := self.decisions.get(index):
                columns |= {
                    "reason": made.reason,
                    "value": _rounded(made.value),
                    "nearest": made.nearest,
                    "distance": _rounded(made.distance),
                    "exact_row": exact_rows.get(index),
                    "image_set": None if made.set_number is None else self._set_id(made.shot, made.set_number),
                }
            if by := self._rejected.get(index):
                columns |= {"image_set": None, **by.columns}
            ledger.append(msgspec.structs.replace(row, **columns))
        order = [self.places[index] for index in numbers]
        vectors = vectors if order == list(range(len(vectors))) else vectors[order]
        exact = stack_vectors((self.exact[index] for index in exact_rows), vectors.shape[1])
        source = msgspec.structs.replace(source, considered=sum(row.reason != BETWEEN for row in ledger))
        left_out = self.context.picking.quality.people.left_out  # no picture of these is kept
        facts = [
            row
            for index, row in self._measured.items()
            if index not in self._rejected and f"{self.source}/img{index}" not in left_out
        ]
        made_of = facts, self._sets, self._images
        return SourceUnit(stamp, source, shots, ledger, *made_of, vectors=vectors, exact=exact)

    def _set_id(self, shot: int, number: int) -> str:
        return f"{self.source}-shot{shot}_{number}"

    def _save(self, index: int, path: str) -> None:
        """Write the frame to `path`: a link to an existing file, or its pixels as JPEG."""
        target = self.context.artifact / path
        file = self.files.get(index)
        if file is None:
            rgb = self.pixels(index)
            content = encode_jpeg(rgb)
            write_bytes(target, content, durable=False)
            self.facts[index] = Facts(self.source, index, path, sha256_bytes(content), rgb.shape[1], rgb.shape[0])
        elif file != target:
            link_or_copy(file, target)
        self.files[index] = target


def _rounded(value: float | None, places: int = 6) -> float | None:
    """By default to six decimals: finer than any decision, coarse enough to read."""
    return None if value is None else round(value, places)


class VideoPass(SetPicker):
    """One decode of a video: what has been considered, embedded and picked so far."""

    def __init__(self, context: UnitContext, video: InputSource, header: VideoHeader, scanner: Scanner) -> None:
        super().__init__(context, video.name)
        self.vectors = VectorLog(context.artifact / SOURCES / f".{video.name}.vectors")
        self._scanner = scanner
        self._reader = ChildFrameReader(video.path, header.decoder, context.options)
        self.batch = context.embedder.encoder.rows
        self._most = max(1, HELD_BYTES // (3 * header.width * header.height))
        self._released = -1
        self._live: dict[int, Pixels] = {}

    def take(self, candidate: CandidateFrame) -> None:
        """The next considered frame."""
        gate = _rounded(candidate.gate_difference, 4)
        why: dict[str, Any] = {"reason": "near_still", "value": gate} if candidate.rgb is None else {}
        place = self.source, candidate.index, candidate.time, candidate.shot
        if candidate.rgb is not None and candidate.sampled:
            why["phash"] = perceptual_hash(candidate.rgb)
        self.rows[candidate.index] = LedgerRow(*place, gate=gate, thumbnail=candidate.thumbnail_hash, **why)
        for index, time in candidate.held:
            between = LedgerRow(self.source, index, time, candidate.shot, reason=BETWEEN)
            self.rows[index] = msgspec.structs.replace(self.rows.get(index, between), held=True)
        if candidate.rgb is None:
            return
        self._live[candidate.index] = candidate.rgb
        searches = self.context.options.frames == "search"
        most = min(BATCH if searches else self.batch, self._most)
        if self.queue([index for index, _ in candidate.held], candidate.index, candidate.shot) >= most:
            # a search asks for single frames too, and the samples that wait make full passes of them
            self.settle(most - 1 if searches else 0)

    def settle(self, keep: int | None = None) -> None:
        """Embed and decide on the samples that wait, but the last `keep`; by default on half of them."""
        self.search(len(self._gaps) // 2 if keep is None else keep)
        waiting = [gap.frames[-1] for gap in self._gaps]
        # of what went by, only pixels of the open set may be asked for again
        self._live = {index: self.pixels(index) for index in (*self.chosen(), *waiting)}
        if self._sample:
            self._released = self._gaps[0].frames[0] if waiting else self._sample[0]
            self._scanner.release(self._released)

    def embed(self, indices: Sequence[int]) -> Vectors:
        """The vectors of samples, and of frames that the child process keeps."""
        embedded = []
        for start in range(0, len(indices), self._most):
            part = indices[start : start + self._most]
            kept = [index for index in part if index not in self._live]
            pictures = self._live | dict(zip(kept, self._scanner.fetch(kept), strict=True))
            embedded.append(self.context.embedder.embed([pictures[index] for index in part]))
            first = self.vectors.append(embedded[-1])
            self.places.update(zip(part, range(first, first + len(part)), strict=True))
        return np.concatenate(embedded)

    def pixels(self, index: int) -> Pixels:
        """A frame that just went by; an older one is decoded again."""
        if index in self._live:
            return self._live[index]
        if index > self._released:
            return self._scanner.fetch([index])[0]
        time = self.rows[index].time
        assert time is not None  # noqa: S101  # every frame of a video has its time
        return self._reader.read(index, time)

    def close(self) -> None:
        """End the child process, and remove the vectors that are not written yet."""
        self._reader.close()
        self.vectors.discard()


def scan_video(
    context: UnitContext, video: InputSource, stamp: UnitKeys, scanner: Scanner, show: Callable[[float], None]
) -> SourceUnit:
    """Decode, embed and pick in one pass, and write the unit. `show` hears which share of the video, 0..1, was decoded.

    Raises VideoError when the file gives nothing.
    """
    decode: VideoPass | None = None
    frames = 0
    try:
        with closing(scanner.scan(video.path, context.options)) as events:
            for event in events:
                if isinstance(event, VideoHeader):
                    # a second header: another decoder begins again, what came before does not count
                    if decode:
                        decode.close()
                    decode = VideoPass(context, video, event, scanner)
                    by_time = float(event.duration * event.rate) if event.duration and event.rate else 0
                    frames = int(event.promised_frames or by_time)
                elif decode and isinstance(event, ScanEnd):
                    decode.settle(keep=0)
                    shots = [msgspec.structs.replace(shot, source=video.name) for shot in event.shots]
                    known = ("width", "height", "rate", "duration", "decoder")
                    facts = {name: getattr(event.header, name) for name in known}
                    facts |= {name: getattr(event, name) for name in ("frames", "late_cuts", "damage")}
                    content = video.path.name, video.sha256, video.bytes
                    source = Source(video.name, "video", *content, **facts, shots=len(shots))
                    return context.save(decode.unit(stamp, source, shots, decode.vectors.close()))
                elif decode and isinstance(event, CandidateFrame):
                    if frames:
                        show(event.index / frames)
                    with suppress(FrameGone):
                        decode.take(event)
                elif decode:
                    with suppress(FrameGone):
                        decode.settle()
        raise RuntimeError(f"the scan of {video.path} ended without an end")
    finally:
        if decode:
            decode.close()


class LedgerPass(SetPicker):
    """Picks again from the ledger of the unit `old`, whose pictures lie in the artifact `origin`.

    Facts measured with the same instruments are reused; only frames that no file holds are decoded, and frames that the search asks
    for now and did not then, in a child process, from the file at `place`, which is looked up when it is first needed.
    """

    def __init__(
        self,
        context: UnitContext,
        old: SourceUnit,
        origin: Path,
        place: Path | SourceLocator,
        measures: Mapping[str, str],
    ) -> None:
        super().__init__(context, old.source.name)
        for row in old.ledger:  # as the scan left it
            decided = ("exact_row", "image_set", "reason", "value", "nearest", "distance")
            why: dict[str, Any] = dict.fromkeys(decided if row.row is not None else ())
            if row.held:
                why |= {"reason": BETWEEN} if row.gate is None else {"reason": "near_still", "value": row.gate}
            self.rows[row.index] = msgspec.structs.replace(row, **why)
        self.exact = {
            row.index: np.asarray(old.exact[row.exact_row]) for row in old.ledger if row.exact_row is not None
        }
        self._old, self._place = old, place
        self._before = {row.index: row.row for row in old.ledger if row.row is not None}
        self._fresh: list[Vectors] = []
        self._reader: ChildFrameReader | None = None
        self._recent: dict[int, Pixels] = {}
        # facts, and the pictures they are about: of the unit, and of whatever else was measured on its source
        rows = {row.index: row for row in forget_other_measures(old.facts, old.stamp.measures, measures)}
        for image in old.images:
            if image.index is not None and image.index not in rows:
                size = image.width, image.height
                rows[image.index] = Facts(old.source.name, image.index, image.path, image.sha256, *size)
        files = {index: origin / facts.path for index, facts in rows.items()}
        known = {index for index, facts in rows.items() if context.picking.quality.complete(facts)}
        for index, (facts, file) in context.cache(old.source).load(measures, known).items():
            rows[index], files[index] = facts, file
        self.facts |= rows
        self.files |= {index: file for index, file in files.items() if file.is_file()}

    def pick(self, show: Callable[[float], None]) -> Vectors:
        """Decide on all frames. Returns the vectors at `places`. `show` hears which share of the ledger, 0..1, was walked."""
        old, held = self._old, list[int]()
        samples = {row.index for row in old.ledger if row.row is not None and not row.held}
        for number, (index, row) in enumerate(self.rows.items()):
            if self.context.stopping.is_set():
                raise VideoError("cancelled", f"{self.source}: picking was stopped")
            if row.held:
                held.append(index)
            elif index in samples:
                show(number / len(self.rows))
                if self.queue(held, index, row.shot or 0) == BATCH:
                    self.search(BATCH - 1)
                held = []
        self.search()
        return np.concatenate([old.vectors, np.stack(self._fresh)]) if self._fresh else old.vectors

    def embed(self, indices: Sequence[int]) -> Vectors:
        """The vectors that the unit holds, and new ones."""
        old, missing = self._old.vectors, [index for index in indices if index not in self._before]
        for start in range(0, len(missing), BATCH):
            part = missing[start : start + BATCH]
            self._before |= {index: at for at, index in enumerate(part, len(old) + len(self._fresh))}
            self._fresh.extend(self.context.embedder.embed([self.pixels(index) for index in part]))
        self.places.update((index, self._before[index]) for index in indices)
        places = (self._before[index] for index in indices)
        return np.stack([old[at] if at < len(old) else self._fresh[at - len(old)] for at in places])

    def pixels(self, index: int) -> Pixels:
        """A frame, decoded again."""
        if index in self._recent:
            return self._recent[index]
        source, time = self._old.source, self.rows[index].time
        if self._reader is None:
            path = self._place if isinstance(self._place, Path) else self._place.video(source)
            options = replace(self.context.options, keep_damaged=bool(source.damage))
            self._reader = ChildFrameReader(path, source.decoder or "pyav", options)
        assert time is not None  # noqa: S101  # every frame of a video has its time
        if len(self._recent) == BATCH:
            del self._recent[next(iter(self._recent))]
        self._recent[index] = self._reader.read(index, time)
        return self._recent[index]

    def close(self) -> None:
        """End the child process, if there is one."""
        if self._reader is not None:
            self._reader.close()


def pick_from_ledger(
    context: UnitContext,
    old: SourceUnit,
    origin: Path,
    place: Path | SourceLocator,
    stamp: UnitKeys,
    *,
    show: Callable[[float], None],
) -> SourceUnit:
    """Pick again from the ledger of a unit, and write the unit; see `LedgerPass`."""
    with closing(LedgerPass(context, old, origin, place, stamp.measures)) as again:
        return context.save(again.unit(stamp, old.source, old.shots, again.pick(show)))
