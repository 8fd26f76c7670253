"""Sets from a pool of photos: duplicates, embeddings in shards, nearest neighbours (ImageCoDe, section 3.1, static sets)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ctxr.errors import DataError
from ctxr.media.images import Pixels, image_size, read_image
from ctxr.media.sources import InputSource
from ctxr.metrics.selection import Rejection
from ctxr.models.neighbours import nearest
from ctxr.pipelines.curation.quality import QualityGate, Unmeasurable
from ctxr.pipelines.curation.videos import Embedder, UnitContext
from ctxr.store.arrays import Vectors, load_vectors, save_vectors, spread, stack_vectors
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.records import Facts, Image, ImageSet, LedgerRow, Source
from ctxr.store.units import IMAGES, SOURCES, SourceUnit, Stamp, file_names

Positions = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]


def deduplicate(
    contents: Sequence[str], vectors: Vectors, around: Positions, distances: Distances, duplicate: float
) -> Positions:
    """For each photo [N] the first photo of its group; photos of two groups are never copies of one another.

    Two photos are copies when their contents are equal or their distance lies below `duplicate`, and a group holds whatever
    such pairs connect. So groups grow along chains: where A is a copy of B and B of C, all three are one group, even if A and C
    lie further apart. Which photos make a group does not depend on their order.

    Args:
        contents: sha256 of each photo.
        vectors: [N, D].
        around: [N, K] nearest photos, nearest first, with `distances` [N, K].
        duplicate: on the scale of `distances`.
    """
    count, first = len(contents), dict[str, int]()
    close = distances < duplicate
    pairs = [np.stack([np.nonzero(close)[0], around[close]])]
    pairs.append(np.array([[at, first.setdefault(content, at)] for at, content in enumerate(contents)], np.int64).T)
    # all known neighbours are copies: there may be more of them
    if 0 < around.shape[1] < count - 1 and (full := np.flatnonzero(close.all(axis=1)).tolist()):
        ranking = PhotoRanking(vectors)
        pairs += [np.array([(at, other) for other in ranking.within(at, duplicate)], np.int64).T for at in full]
    rows, columns = np.concatenate([pair.reshape(2, -1) for pair in pairs], axis=1)
    _, group = connected_components(
        coo_array((np.ones(len(rows), bool), (rows, columns)), (count, count)), directed=False
    )
    _, earliest = np.unique(group, return_index=True)
    labels: Positions = earliest[group]
    return labels


SHARD = 256
"""Photos embedded between two points at which a killed run can go on."""


@dataclass
class PooledPhoto:
    """A readable photo of the pool: `position` in its album, `row` in the album's embeddings."""

    album: InputSource
    position: int
    file: Path
    sha256: str
    name: str
    width: int
    height: int
    row: int

    @property
    def id(self) -> str:
        """`album/file name`."""
        return f"{self.album.name}/{self.name}"

    @property
    def path(self) -> str:
        """Its place in the artifact."""
        return f"{IMAGES}/{self.album.name}/{self.name}"


@dataclass(frozen=True)
class PhotoPool:
    """All readable photos, in the order of albums and names, with their vectors [N, D]; and the unreadable ones."""

    photos: list[PooledPhoto]
    vectors: Vectors
    unreadable: list[tuple[InputSource, int, str]]


def gather_pool(
    artifact: Path,
    albums: Sequence[InputSource],
    units: Mapping[str, SourceUnit],
    scans: Mapping[str, str],
    embedder: Embedder,
    *,
    watch: Callable[[int], None],
) -> PhotoPool:
    """The pool of all albums. `units`, by album, give theirs without embedding anything again; every photo of the
    others is read and embedded, in shards: those that an earlier run finished under the same key in `scans` are taken as they are.
    """
    photos: list[PooledPhoto] = []
    unreadable: list[tuple[InputSource, int, str]] = []
    blocks: list[Vectors] = []
    for album in albums:
        readable: dict[int, tuple[int, int]] = {}
        if unit := units.get(album.name):
            indices = [row.index for row in unit.ledger if row.row is not None]
            readable = {index: image_size(album.photos[index]) for index in indices}
            unreadable += unreadable_photos([album], [unit])
            blocks.append(unit.vectors)
            watch(len(album.photos))
        else:
            for start in range(0, len(album.photos), SHARD):
                chosen = range(start, min(start + SHARD, len(album.photos)))
                sizes, problems, vectors = _shard(artifact, album, chosen, scans[album.name], embedder)
                readable |= {int(position): (size[0], size[1]) for position, size in sizes.items()}
                unreadable += [(album, int(position), problem) for position, problem in problems.items()]
                blocks.append(vectors)
                watch(len(chosen))
        names = file_names(album.photos)
        for row, (position, (width, height)) in enumerate(readable.items()):
            file, digest = album.photos[position], album.photo_sha256[position]
            photos.append(PooledPhoto(album, position, file, digest, names[position], width, height, row))
    columns = max((block.shape[1] for block in blocks), default=0)
    # stacking copies into memory, so the units' files may be replaced
    return PhotoPool(photos, stack_vectors([block for block in blocks if len(block)], columns), unreadable)


def _shard(
    artifact: Path, album: InputSource, chosen: range, scan: str, embedder: Embedder
) -> tuple[dict[str, tuple[int, int]], dict[str, str], Vectors]:
    """Sizes and problems by position, and vectors of the readable ones, in memory."""
    folder, stem = artifact / SOURCES, f".{album.name}.shard{chosen.start}"
    head, matrix = folder / f"{stem}.json", folder / f"{stem}.npy"
    key = sha256_of([scan, [album.photo_sha256[position] for position in chosen]])
    try:
        stored = json.loads(head.read_bytes())
        vectors: Vectors = np.array(load_vectors(matrix))
        if stored["key"] == key and stored["vectors"] == sha256_bytes(vectors.tobytes()):
            return stored["sizes"], stored["problems"], vectors
    except (OSError, ValueError, KeyError, DataError):
        pass  # no finished shard: it is made now
    sizes: dict[str, tuple[int, int]] = {}
    problems: dict[str, str] = {}
    blocks: list[Vectors] = []
    pending: list[Pixels] = []
    for position in chosen:
        try:
            rgb = read_image(album.photos[position])
        except DataError as error:
            problems[str(position)] = error.message
            continue
        sizes[str(position)] = (rgb.shape[1], rgb.shape[0])
        pending.append(rgb)
        if len(pending) == 16:
            blocks.append(embedder.embed(pending))
            pending = []
    if pending:
        blocks.append(embedder.embed(pending))
    vectors = stack_vectors(blocks, 0)
    passing = folder / f"{stem}.npy.part"
    with disk_errors(passing):
        folder.mkdir(parents=True, exist_ok=True)
        save_vectors(passing, vectors)
        passing.replace(matrix)
    # the head is written last, and knows its matrix: a kill in between leaves two that do not belong together
    content = {"key": key, "sizes": sizes, "problems": problems, "vectors": sha256_bytes(vectors.tobytes())}
    write_bytes(head, json.dumps(content).encode())
    return sizes, problems, vectors


def unreadable_photos(albums: Sequence[InputSource], units: Sequence[SourceUnit]) -> list[tuple[InputSource, int, str]]:
    """The photos that could not be read when `units` were made, as in `PhotoPool`; why is found by failing again."""
    unreadable = []
    for album, unit in zip(albums, units, strict=True):
        for row in unit.ledger:
            if row.reason == "unreadable":
                file = album.photos[row.index]
                problem = f"{file} is not a readable picture"
                try:
                    read_image(file)
                except DataError as error:
                    problem = error.message
                unreadable.append((album, row.index, problem))
    return unreadable


DUPLICATE_SHARE = 0.3
"""Two photos below this share of the encoder's own threshold are one picture: the same pixels saved again lie there,
photos that differ in anything one could describe do not."""

NEIGHBOURS = 64
"""Neighbours looked up for every photo at once; when duplicates and rejected photos exhaust them, `PhotoRanking` continues."""

DISTANCE_BLOCK = 256
"""Exact distances taken at a time beyond those neighbours."""


@dataclass(frozen=True)
class PhotoPicking:
    """How photo sets are picked, beside what holds for all sets.

    Attributes:
        duplicate: distance below which two photos are one picture.
        sample: how many sets are wanted, drawn with `seed`; None = one per photo.
        engine: what finds neighbours; see `models.neighbours`. All give the same answer.
    """

    duplicate: float
    sample: int | None
    seed: int
    engine: str = "auto"


def pick_photos(
    context: UnitContext,
    pool: PhotoPool,
    albums: Sequence[InputSource],
    stamps: Mapping[str, Stamp],
    picking: PhotoPicking,
    *,
    facts: Mapping[tuple[str, int], Facts],
    watch: Callable[[int], None],
) -> list[SourceUnit]:
    """Sets out of the pool, as one unit per album, written. `facts` go by album and position, `stamps` by album.

    Anchors are tried in an order drawn from the seed, until `sample` sets are full. A photo that equals an earlier one is
    no anchor; within a set no two photos are copies of one another (`deduplicate`).
    """
    count, quality, set_size = len(pool.photos), context.picking.quality, context.picking.set_size
    remembered = {
        (album.name, index): row
        for album in albums
        for index, (row, _) in context.cache(album).load(quality.stamps()).items()
    }
    judge = _Judge(pool, quality, remembered | dict(facts))
    k = min(NEIGHBOURS, max(count - 1, 0))
    around, distances = (
        nearest(pool.vectors, k, engine=picking.engine)
        if k
        else (np.zeros((count, 0), np.int64), np.zeros((count, 0), np.float32))
    )
    contents = [photo.sha256 for photo in pool.photos]
    same = deduplicate(contents, pool.vectors, around, distances, picking.duplicate)
    rows: dict[int, LedgerRow] = {}
    ranking = PhotoRanking(pool.vectors)
    sets: dict[int, list[int]] = {}

    def outcome(anchor: int) -> dict[str, Any]:
        if picking.sample is not None and len(sets) >= picking.sample:
            return {"reason": "not_sampled"}
        if same[anchor] < anchor:
            return {"reason": "duplicate", "value": 0.0}
        if rejection := judge(anchor):
            return {"reason": rejection.reason, "value": round(rejection.value, 6)}
        members = _members(ranking, anchor, around, same, set_size, judge=judge)
        if len(members) < set_size:
            return {"reason": "too_few_neighbours", "value": float(len(members))}
        sets[anchor] = members
        return {"image_set": _set_id(pool.photos[anchor])}

    for anchor in np.random.default_rng(picking.seed).permutation(count).tolist():
        watch(1)
        photo, columns = pool.photos[anchor], outcome(anchor)
        if k:
            neighbour = pool.photos[around[anchor, 0]]
            columns["nearest"] = neighbour.position if neighbour.album.name == photo.album.name else None
            columns["distance"] = round(float(distances[anchor, 0]), 6)
        rows[anchor] = LedgerRow(photo.album.name, photo.position, None, None, photo.file.name, photo.row, **columns)
    return _write(context, pool, albums, stamps, rows, sets=sets, facts=judge.facts)


class _Judge:
    """Measures the quality of a photo, at most once."""

    def __init__(self, pool: PhotoPool, quality: QualityGate, facts: Mapping[tuple[str, int], Facts]) -> None:
        self._pool, self._quality, self._known = pool, quality, facts
        self.facts: dict[int, Facts] = {}

    def __call__(self, position: int) -> Rejection | None:
        if not self._quality.limits:
            return None
        if position not in self.facts:
            photo = self._pool.photos[position]
            facts = self._known.get((photo.album.name, photo.position))
            if facts is None:
                facts = Facts(photo.album.name, photo.position, photo.path, photo.sha256, photo.width, photo.height)
            if not self._quality.complete(facts):
                try:
                    facts = self._quality.measure(facts, lambda: read_image(photo.file))
                except Unmeasurable:
                    return Rejection("unmeasurable", 0.0)
            self.facts[position] = msgspec.structs.replace(facts, path=photo.path)
        return self._quality.limits.judge(self.facts[position])


class PhotoRanking:
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
        rough = self._rough(anchor)
        order = np.argsort(rough)
        waiting: list[tuple[float, int]] = []
        for stop in range(DISTANCE_BLOCK, len(order) + DISTANCE_BLOCK, DISTANCE_BLOCK):
            block = order[stop - DISTANCE_BLOCK : stop]
            for pair in zip(self.squared(anchor, block).tolist(), block.tolist(), strict=True):
                heappush(waiting, pair)
            sure = float(rough[order[stop]]) - self.slack if stop < len(order) else np.inf
            while waiting and waiting[0][0] < sure:
                yield heappop(waiting)[1]

    def within(self, anchor: int, distance: float) -> list[int]:
        """The photos nearer to `anchor` than `distance`."""
        near = np.flatnonzero(self._rough(anchor) < distance**2 + self.slack)
        close: list[int] = near[np.sqrt(self.squared(anchor, near)).astype(np.float32) < distance].tolist()
        return close

    def _rough(self, anchor: int) -> npt.NDArray[np.float64]:
        rough: npt.NDArray[np.float64] = (
            self._squares + self._squares[anchor] - 2 * (self.vectors @ self.vectors[anchor])
        )
        return rough

    def squared(self, anchor: int, rows: Positions) -> npt.NDArray[np.float64]:
        """Exact squared distances of the photos `rows` from `anchor`."""
        difference = np.asarray(self.vectors[rows], np.float64) - np.asarray(self.vectors[anchor], np.float64)
        squares: npt.NDArray[np.float64] = np.einsum("nd,nd->n", difference, difference)
        return squares


def _members(
    ranking: PhotoRanking, anchor: int, around: Positions, same: Positions, size: int, *, judge: "_Judge"
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


def _set_id(photo: PooledPhoto) -> str:
    return f"{photo.album.name}-photo-{Path(photo.name).stem}{Path(photo.name).suffix.replace('.', '-')}"


def _write(
    context: UnitContext,
    pool: PhotoPool,
    albums: Sequence[InputSource],
    stamps: Mapping[str, Stamp],
    rows: dict[int, LedgerRow],
    *,
    sets: dict[int, list[int]],
    facts: dict[int, Facts],
) -> list[SourceUnit]:
    """Link the pictures that are in a set or were measured, and write one unit per album."""
    for position in sorted({member for members in sets.values() for member in members} | facts.keys()):
        photo = pool.photos[position]
        link_or_copy(photo.file, context.artifact / photo.path)
    units = []
    for album in albums:
        own = [at for at, photo in enumerate(pool.photos) if photo.album.name == album.name]
        anchors = [anchor for anchor in own if anchor in sets]
        ledger = [rows[at] for at in own] + [
            LedgerRow(album.name, position, None, None, album.photos[position].name, reason="unreadable")
            for owner, position, _ in pool.unreadable
            if owner.name == album.name
        ]
        unreadable = len(album.photos) - len(own)
        in_sets = sorted({member for anchor in anchors for member in sets[anchor]})
        unit = SourceUnit(
            stamp=stamps[album.name],
            source=Source(
                name=album.name,
                kind="photos",
                file=album.path.resolve().name,
                sha256=album.sha256,
                bytes=album.bytes,
                frames=len(own),
                considered=len(ledger),
                damage=f"{unreadable} photos could not be read" if unreadable else None,
            ),
            shots=[],
            ledger=ledger,
            facts=[facts[at] for at in own if at in facts],
            sets=[_image_set(pool, anchor, sets[anchor]) for anchor in anchors],
            images=[_image(pool.photos[at]) for at in in_sets],
            vectors=np.asarray(pool.vectors[own]) if own else np.zeros((0, 0), np.float32),
            exact=np.zeros((0, pool.vectors.shape[1]), np.float32),
        )
        units.append(context.save(unit))
    return units


def _image(photo: PooledPhoto) -> Image:
    return Image(photo.id, photo.path, photo.sha256, photo.album.name, photo.width, photo.height)


def _image_set(pool: PhotoPool, anchor: int, members: list[int]) -> ImageSet:
    closest, mean = spread(pool.vectors[members])
    photo = pool.photos[anchor]
    return ImageSet(
        id=_set_id(photo),
        kind="photos",
        images=tuple(pool.photos[member].id for member in members),
        source=photo.album.name,
        group=photo.album.name,
        shot=None,
        closest=closest,
        mean_distance=mean,
    )
