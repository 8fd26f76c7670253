"""Sets out of a pool of photos: each anchor with its nearest neighbours (ImageCoDe, section 3.1, static sets)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.data.atomic import link_or_copy
from ctxr.data.embeddings import Vectors, pairwise_distances
from ctxr.data.images import read_image
from ctxr.data.records import Facts, Image, ImageSet, LedgerRow, Source
from ctxr.data.sources import Found
from ctxr.data.units import Stamp, Unit, write_unit
from ctxr.models.selection import Rejection
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.photo_copies import first_of_copies
from ctxr.pipelines.photo_pool import Photo, Pool
from ctxr.pipelines.quality import Meter, Unmeasurable

Positions = npt.NDArray[np.int64]

DUPLICATE_SHARE = 0.3
"""Two photos below this share of the encoder's own threshold are one picture: the same pixels saved again lie there,
photos that differ in anything one could describe do not."""

NEIGHBOURS = 64
"""Neighbours looked up for every photo at once; when duplicates and rejected ones use them up, `Ranking` goes on."""

BLOCK = 256
"""Exact distances taken at a time beyond those neighbours."""


@dataclass(frozen=True)
class PhotoPicking:
    """How photo sets are picked.

    Attributes:
        duplicate: distance below which two photos are one picture.
        sample: how many sets are wanted, drawn with `seed`; None = one per photo.
        engine: what finds neighbours; see `models.neighbours`. All give the same answer.
    """

    set_size: int
    duplicate: float
    sample: int | None
    seed: int
    meter: Meter
    engine: str = "auto"


def pick_photos(
    artifact: Path,
    pool: Pool,
    albums: Sequence[Found],
    stamps: Mapping[str, Stamp],
    picking: PhotoPicking,
    known: dict[str, Facts],
    watch: Callable[[int], None],
) -> list[Unit]:
    """Sets out of the pool, as one unit per album, written. `known` are facts by photo id, `stamps` go by album.

    Anchors are tried in an order drawn from the seed, until `sample` sets are full. A photo that equals an earlier one is
    no anchor; within a set no two photos are copies of one another (`photo_copies`).
    """
    from ctxr.models.neighbours import nearest

    count = len(pool.photos)
    caches = {album.name: FactCache.beside(artifact, album.name, album.sha256) for album in albums}
    facts = {
        f"{name}/{index}": row
        for name, cache in caches.items()
        for index, (row, _) in cache.load(picking.meter.stamps()).items()
    }
    judge = _Judge(pool, picking.meter, known, facts)
    k = min(NEIGHBOURS, max(count - 1, 0))
    around, distances = (
        nearest(pool.vectors, k, engine=picking.engine)
        if k
        else (np.zeros((count, 0), np.int64), np.zeros((count, 0), np.float32))
    )
    contents = [photo.sha256 for photo in pool.photos]
    same = first_of_copies(contents, pool.vectors, around, distances, picking.duplicate)
    rows = {position: _photo_row(pool.photos[position]) for position in range(count)}
    ranking = Ranking(pool.vectors)
    sets: dict[int, list[int]] = {}
    for anchor in np.random.default_rng(picking.seed).permutation(count).tolist():
        watch(1)
        closest = (int(around[anchor, 0]), float(distances[anchor, 0])) if k else (None, None)
        row = _with_nearest(pool, rows[anchor], anchor, *closest)
        if picking.sample is not None and len(sets) >= picking.sample:
            rows[anchor] = msgspec.structs.replace(row, reason="not_sampled")
            continue
        if same[anchor] < anchor:
            rows[anchor] = msgspec.structs.replace(row, reason="duplicate", value=0.0)
            continue
        rejection = judge(anchor)
        if rejection:
            rows[anchor] = msgspec.structs.replace(row, reason=rejection.reason, value=round(rejection.value, 6))
            continue
        members = _members(ranking, anchor, around, same, picking.set_size, judge)
        if len(members) < picking.set_size:
            rows[anchor] = msgspec.structs.replace(row, reason="too_few_neighbours", value=float(len(members)))
            continue
        sets[anchor] = members
        rows[anchor] = msgspec.structs.replace(row, image_set=_set_id(pool.photos[anchor]))
    return _write(artifact, pool, albums, stamps, rows, sets, judge, caches)


class _Judge:
    """Asks quality about a photo, at most once."""

    def __init__(self, pool: Pool, meter: Meter, known: dict[str, Facts], cached: dict[str, Facts]) -> None:
        self._pool, self._meter, self._known, self._cached = pool, meter, known, cached
        self.facts: dict[int, Facts] = {}

    def __call__(self, position: int) -> Rejection | None:
        if not self._meter.limits:
            return None
        if position not in self.facts:
            photo = self._pool.photos[position]
            facts = self._known.get(photo.id) or self._cached.get(f"{photo.album.name}/{photo.position}")
            if facts is None:
                facts = Facts(photo.album.name, photo.position, photo.path, photo.sha256, photo.width, photo.height)
            if not self._meter.complete(facts):
                try:
                    facts = self._meter.measure(facts, lambda: read_image(photo.file))
                except Unmeasurable:
                    return Rejection("unmeasurable", 0.0)
            self.facts[position] = msgspec.structs.replace(facts, path=photo.path)
        return self._meter.limits.judge(self.facts[position])


class Ranking:
    """The photos of a pool by distance from one of them, as far as somebody asks.

    Products in float32 give the order up to `slack`, a bound on what they can be wrong by; exact distances (float64, from the
    differences) are taken of a block of photos at a time, and a photo is given out once no later one can be nearer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self._squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
        self.slack = vectors.shape[1] * 2.0**-22 * float(self._squares.max(initial=0.0)) + 1e-9

    def around(self, anchor: int) -> Iterator[int]:
        """All photos by distance from `anchor`, itself included; equal distances by position."""
        rough = self._squares + self._squares[anchor] - 2 * (self.vectors @ self.vectors[anchor])
        order = np.argsort(rough)
        waiting: list[tuple[float, int]] = []
        for stop in range(BLOCK, len(order) + BLOCK, BLOCK):
            block = order[stop - BLOCK : stop]
            for pair in zip(self.squared(anchor, block).tolist(), block.tolist(), strict=True):
                heappush(waiting, pair)
            sure = float(rough[order[stop]]) - self.slack if stop < len(order) else np.inf
            while waiting and waiting[0][0] < sure:
                yield heappop(waiting)[1]

    def squared(self, anchor: int, rows: Positions) -> npt.NDArray[np.float64]:
        """Exact squared distances of the photos `rows` from `anchor`."""
        difference = np.asarray(self.vectors[rows], np.float64) - np.asarray(self.vectors[anchor], np.float64)
        squares: npt.NDArray[np.float64] = np.einsum("nd,nd->n", difference, difference)
        return squares


def _members(
    ranking: Ranking, anchor: int, around: Positions, same: Positions, size: int, judge: "_Judge"
) -> list[int]:
    """The anchor and its nearest neighbours that are neither equal to one another nor ruled out, by distance."""
    members, taken = [anchor], {int(same[anchor])}

    def extend(order: Iterable[int]) -> None:
        for candidate in order:
            if len(members) == size:
                return
            if int(same[candidate]) not in taken and judge(candidate) is None:
                members.append(candidate)
                taken.add(int(same[candidate]))

    extend(around[anchor].tolist())
    if len(members) < size and around.shape[1] < len(around) - 1:
        looked_at = {anchor, *around[anchor].tolist()}
        extend(candidate for candidate in ranking.around(anchor) if candidate not in looked_at)
    return members


def _set_id(photo: Photo) -> str:
    return f"{photo.album.name}-photo-{Path(photo.name).stem}{Path(photo.name).suffix.replace('.', '-')}"


def _photo_row(photo: Photo) -> LedgerRow:
    return LedgerRow(
        source=photo.album.name, index=photo.position, time=None, shot=None, name=photo.file.name, row=photo.row
    )


def _with_nearest(pool: Pool, row: LedgerRow, anchor: int, nearest: int | None, distance: float | None) -> LedgerRow:
    if nearest is None or distance is None:
        return row
    at_home = pool.photos[nearest].album.name == pool.photos[anchor].album.name
    return msgspec.structs.replace(
        row, nearest=pool.photos[nearest].position if at_home else None, distance=round(distance, 6)
    )


def _write(
    artifact: Path,
    pool: Pool,
    albums: Sequence[Found],
    stamps: Mapping[str, Stamp],
    rows: dict[int, LedgerRow],
    sets: dict[int, list[int]],
    judge: "_Judge",
    caches: dict[str, FactCache],
) -> list[Unit]:
    """Link the pictures that are in a set or were measured, and write one unit per album."""
    for position in sorted({member for members in sets.values() for member in members} | judge.facts.keys()):
        photo = pool.photos[position]
        link_or_copy(photo.file, artifact / photo.path)
    units = []
    for album in albums:
        own = [at for at, photo in enumerate(pool.photos) if photo.album.name == album.name]
        anchors = [anchor for anchor in own if anchor in sets]
        ledger = [rows[at] for at in own] + [
            LedgerRow(album.name, position, None, None, album.photos[position].name, reason="unreadable")
            for owner, position, _ in pool.unreadable
            if owner.name == album.name
        ]
        in_sets = sorted({member for anchor in anchors for member in sets[anchor]})
        unit = Unit(
            stamp=stamps[album.name],
            source=Source(
                name=album.name,
                kind="photos",
                file=album.path.resolve().name,
                sha256=album.sha256,
                bytes=album.bytes,
                frames=len(own),
                considered=len(ledger),
                damage=_damage(len(album.photos) - len(own)),
            ),
            shots=[],
            ledger=ledger,
            facts=[judge.facts[at] for at in own if at in judge.facts],
            sets=[_image_set(pool, anchor, sets[anchor]) for anchor in anchors],
            images=[_image(pool.photos[at]) for at in in_sets],
            vectors=np.asarray(pool.vectors[own]) if own else np.zeros((0, 0), np.float32),
            exact=np.zeros((0, pool.vectors.shape[1]), np.float32),
        )
        write_unit(artifact, unit)
        caches[album.name].store(unit, artifact)
        units.append(unit)
    return units


def _damage(unreadable: int) -> str | None:
    return f"{unreadable} photos could not be read" if unreadable else None


def _image(photo: Photo) -> Image:
    return Image(photo.id, photo.path, photo.sha256, photo.album.name, photo.width, photo.height)


def _image_set(pool: Pool, anchor: int, members: list[int]) -> ImageSet:
    distances = pairwise_distances(pool.vectors[members])
    above = distances[np.triu_indices(len(members), 1)]
    photo = pool.photos[anchor]
    return ImageSet(
        id=_set_id(photo),
        kind="photos",
        images=tuple(pool.photos[member].id for member in members),
        source=photo.album.name,
        group=photo.album.name,
        shot=None,
        closest=round(float(above.min()), 6),
        mean_distance=round(float(above.mean()), 6),
    )
