"""Picking sets out of one video: the walk, the pictures it needs, and the rows it leaves.

The same code picks while a video is decoded (`build-sets`) and picks again from the ledger (`filter`, another threshold):
only where pixels come from differs. So both give the same sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from ctxr.data.atomic import link_or_copy, write_bytes
from ctxr.data.embeddings import Vectors, spread, stack_vectors
from ctxr.data.hashing import sha256_bytes
from ctxr.data.images import Pixels, decode_jpeg, encode_jpeg
from ctxr.data.records import Facts, Image, ImageSet, LedgerRow
from ctxr.data.units import DROPPED, IMAGES
from ctxr.models.selection import Completed, FrameDecision, Rejection, Walk
from ctxr.pipelines.quality import QualityGate


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
        facts: what is known already, by frame. files: saved pictures that exist already, by frame; each has facts.
        exact: full-precision vectors that are known already, by frame.
    """

    artifact: Path
    source: str
    picking: Picking
    pixels: Callable[[int], Pixels]
    encode_exact: Callable[[Sequence[Pixels]], Vectors]
    facts: dict[int, Facts] = field(default_factory=dict)
    files: dict[int, Path] = field(default_factory=dict)
    exact: dict[int, Vectors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decisions: dict[int, FrameDecision] = {}
        self.measured: dict[int, Facts] = {}
        self.sets: list[ImageSet] = []
        self.images: list[Image] = []
        self._refined: dict[int, Vectors] = {}
        self._open_rows: dict[int, tuple[LedgerRow, Vectors]] = {}
        self.walk = Walk(self.picking.threshold, self.picking.set_size, self.picking.margin, self._refine, self._veto)

    def push(self, row: LedgerRow, shot: int, vector: Vectors) -> None:
        """Decide on an embedded frame of `shot`; a set that becomes full is saved at once."""
        self._open_rows[row.index] = (row, vector)
        decision, completed = self.walk.push(row.index, shot, vector)
        self.decisions[row.index] = decision
        if completed:
            self._save_set(completed)
        for index in self._open_rows.keys() - set(self.walk.chosen()):
            del self._open_rows[index]

    def needed(self) -> set[int]:
        """Frames whose pixels may be asked for again: those of the open set."""
        return set(self.walk.chosen())

    def ledger(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """The rows with what the walk made of them; call it when the last shot is over."""
        self.walk.finish()
        exact_rows = {index: position for position, index in enumerate(sorted(self._refined))}
        return [self._decided(row, exact_rows.get(row.index)) for row in rows]

    def _decided(self, row: LedgerRow, exact_row: int | None) -> LedgerRow:
        decision = self.decisions.get(row.index)
        if decision is None:
            return row
        return msgspec.structs.replace(
            row,
            image_set=None if decision.set_number is None else self._set_id(decision.shot, decision.set_number),
            reason=decision.reason,
            value=_rounded(decision.value),
            nearest=decision.nearest,
            distance=_rounded(decision.distance),
            exact_row=exact_row,
        )

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
        """Have the frame as a file at `path`, from a file that is there already or from its pixels."""
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
            self.images.append(
                Image(
                    id=f"{self.source}/img{index}",
                    path=path,
                    sha256=facts.sha256,
                    group=self.source,
                    width=facts.width,
                    height=facts.height,
                    index=index,
                    time=row.time,
                )
            )
        closest, mean = spread(np.stack([self._open_rows[index][1] for index in completed.indices]))
        self.sets.append(
            ImageSet(
                id=set_id,
                kind="video",
                images=tuple(f"{self.source}/img{index}" for index in completed.indices),
                source=self.source,
                group=self.source,
                shot=completed.shot,
                closest=closest,
                mean_distance=mean,
            )
        )


def _rounded(value: float | None) -> float | None:
    """Six decimals: finer than any decision, coarse enough to read."""
    return None if value is None else round(value, 6)
