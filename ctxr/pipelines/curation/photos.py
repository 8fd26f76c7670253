"""Sets from a pool of photos: duplicates, embeddings in shards, nearest neighbours (ImageCoDe, section 3.1, static sets)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.engine.progress import Progress, ProgressTask
from ctxr.engine.units import Engine, Job, RankShard, WorkUnit, map_units
from ctxr.errors import DataError
from ctxr.media.images import Pixels, image_size, perceptual_hash, read_image, troubles
from ctxr.media.sources import InputSource
from ctxr.metrics.selection import Rejection
from ctxr.models.neighbours import Neighbours, nearest
from ctxr.pipelines.curation.copies import (
    CopyRule,
    Distances,
    PhotoRanking,
    Positions,
    SourceHashes,
    deduplicate,
    find_copies,
)
from ctxr.pipelines.curation.quality import QualityGate, Unmeasurable, measuring
from ctxr.pipelines.curation.videos import Embedder, UnitContext
from ctxr.store.arrays import Vectors, load_vectors, save_vectors, set_distances, stack_vectors
from ctxr.store.artifacts import package_versions
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.records import Facts, Image, ImageSet, LedgerRow, Source
from ctxr.store.units import IMAGES, SOURCES, SourceUnit, Stamp, photo_names

SHARD = 256
"""Photos embedded between two points at which a killed run can go on."""

STRIPE = 4096
"""Photos whose neighbours are one unit of work."""


@dataclass
class PooledPhoto:
    """A readable photo of the pool: `position` in its album, `row` in the album's embeddings, `phash` as in its ledger row."""

    album: InputSource
    position: int
    file: Path
    sha256: str
    name: str
    width: int
    height: int
    row: int
    phash: str

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
    """All readable photos, by album and name, with vectors [N, D]; the unreadable ones; the neighbours, once found."""

    photos: list[PooledPhoto]
    vectors: Vectors
    unreadable: list[tuple[InputSource, int, str]]
    neighbours: Neighbours = (np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32))


def part_of_pool(pool: PhotoPool, albums: Sequence[InputSource]) -> PhotoPool:
    """The photos of some albums."""
    names = {album.name for album in albums}
    rows = [row for row, photo in enumerate(pool.photos) if photo.album.name in names]
    vectors = pool.vectors if len(rows) == len(pool.photos) else pool.vectors[rows]
    return PhotoPool([pool.photos[row] for row in rows], vectors, pool.unreadable)


def hashes_of(pool: PhotoPool, albums: Sequence[InputSource]) -> list[SourceHashes]:
    """The hashes and vectors of each album."""
    rows: dict[str, list[int]] = {album.name: [] for album in albums}
    for at, photo in enumerate(pool.photos):
        rows[photo.album.name].append(at)
    photos = pool.photos
    return [
        SourceHashes(name, "photos", [photos[at].id for at in own], [photos[at].phash for at in own], pool.vectors[own])
        for name, own in rows.items()
    ]


def gather_pool(
    artifact: Path,
    albums: Sequence[InputSource],
    units: Mapping[str, SourceUnit],
    scans: Mapping[str, str],
    embedder: Embedder,
    *,
    task: ProgressTask,
    rank: RankShard | None = None,
) -> PhotoPool:
    """The pool of all albums. `units`, by album, give theirs without embedding anything again; every photo of the
    others is read and embedded, in shards, of a `rank` its share; those finished under the same key in `scans` are taken as they are.
    """
    photos: list[PooledPhoto] = []
    unreadable: list[tuple[InputSource, int, str]] = []
    blocks: list[Vectors] = []
    numbers = count()
    for album in albums:
        readable: dict[int, tuple[int, int, str]] = {}
        if unit := units.get(album.name):
            kept = [row for row in unit.ledger if row.row is not None]
            readable = {row.index: (*image_size(album.photos[row.index]), row.phash or "") for row in kept}
            unreadable += unreadable_photos(album, unit)
            blocks.append(unit.vectors)
            task.advance(len(album.photos))
        else:
            for start in range(0, len(album.photos), SHARD):
                chosen = range(start, min(start + SHARD, len(album.photos)))
                if rank is None or next(numbers) % rank.world == rank.rank:
                    found, problems, vectors = _shard(artifact, album, chosen, scans[album.name], embedder)
                    readable |= {int(position): photo for position, photo in found.items()}
                    unreadable += [(album, int(position), problem) for position, problem in problems.items()]
                    blocks.append(vectors)
                task.advance(len(chosen))
        names = photo_names(album.photos)
        for row, (position, (width, height, phash)) in enumerate(readable.items()):
            file, digest = album.photos[position], album.photo_sha256[position]
            photos.append(PooledPhoto(album, position, file, digest, names[position], width, height, row, phash))
    columns = max((block.shape[1] for block in blocks), default=0)
    # stacking copies into memory, so the units' files may be replaced
    return PhotoPool(photos, stack_vectors([block for block in blocks if len(block)], columns), unreadable)


def _shard(
    artifact: Path, album: InputSource, chosen: range, scan: str, embedder: Embedder
) -> tuple[dict[str, tuple[int, int, str]], dict[str, str], Vectors]:
    """By position, width, height and phash of the readable photos and problems of the others; vectors, in memory."""
    key = sha256_of([scan, [album.photo_sha256[position] for position in chosen]])

    def make() -> tuple[dict[str, Any], Vectors]:
        photos: dict[str, tuple[int, int, str]] = {}
        problems: dict[str, str] = {}

        def readable() -> Iterator[Pixels]:
            for position in chosen:
                try:
                    rgb = read_image(album.photos[position])
                except DataError as error:
                    problems[str(position)] = error.message
                else:
                    photos[str(position)] = (rgb.shape[1], rgb.shape[0], perceptual_hash(rgb))
                    yield rgb

        pictures = readable()
        vectors = [embedder.embed(batch) for batch in iter(lambda: [*islice(pictures, 16)], [])]
        return {"photos": photos, "problems": problems}, stack_vectors(vectors, 0)

    head, vectors = _kept(artifact, f"{album.name}.shard{chosen.start}", key, make, ("photos", "problems"))
    return head["photos"], head["problems"], vectors


def _kept(
    artifact: Path, name: str, key: str, make: Callable[[], tuple[dict[str, Any], Vectors]], columns: Sequence[str] = ()
) -> tuple[dict[str, Any], Vectors]:
    """Head and matrix, in memory, that an earlier run finished under the same key; else what `make` returns, written."""
    stem = artifact / SOURCES / f".{name}"
    head, matrix, passing = Path(f"{stem}.json"), Path(f"{stem}.npy"), Path(f"{stem}.npy.part")
    try:
        stored = json.loads(head.read_bytes())
        vectors: Vectors = np.array(load_vectors(matrix))
        if stored["key"] == key and stored["vectors"] == sha256_bytes(vectors.tobytes()):
            return {column: stored[column] for column in columns}, vectors
    except (OSError, ValueError, KeyError, TypeError, RecursionError, DataError):
        pass
    content, vectors = make()
    with disk_errors(passing):
        stem.parent.mkdir(parents=True, exist_ok=True)
        save_vectors(passing, vectors)
        passing.replace(matrix)
    # the head is written last, and knows its matrix: a kill in between leaves two that do not belong together
    write_bytes(head, json.dumps({"key": key, **content, "vectors": sha256_bytes(vectors.tobytes())}).encode())
    return content, vectors


def has_shard(artifact: Path, album: InputSource, scan: str) -> bool:
    """Whether an earlier run finished the first shard of an album under the key `scan`."""
    head = artifact / SOURCES / f".{album.name}.shard0.json"
    return head.is_file() and sha256_of([scan, list(album.photo_sha256[:SHARD])]).encode() in head.read_bytes()


def unreadable_photos(album: InputSource, unit: SourceUnit) -> list[tuple[InputSource, int, str]]:
    """The photos that could not be read when `unit` was made, as in `PhotoPool`; why is found by failing again."""
    positions = [row.index for row in unit.ledger if row.reason == "unreadable"]
    files = [album.photos[position] for position in positions]
    problems = troubles(read_image, files)
    return [
        (album, position, error.message if error else f"{file} is not a readable picture")
        for position, file, error in zip(positions, files, problems, strict=True)
    ]


NEIGHBOURS = 64
"""Neighbours looked up for every photo at once; when duplicates and rejected photos exhaust them, `PhotoRanking` continues."""


@dataclass(frozen=True)
class PhotoPicking:
    """How photo sets are picked, beside what holds for all sets.

    Attributes:
        copies: which photos are copies.
        sample: how many sets are wanted, drawn with `seed`; None = one per photo.
    """

    copies: CopyRule
    sample: int | None
    seed: int


@dataclass
class Stripes(Job[Vectors]):
    """Finds the neighbours of a stripe of photos in pools of vectors."""

    artifact: Path
    pools: Sequence[Vectors]

    def __call__(self, unit: WorkUnit) -> Vectors:
        """Positions and distances, side by side [n, 2 K]: float32 has all positions up to 2^24."""
        number, *ends = unit.payload
        k, rows = min(NEIGHBOURS, len(self.pools[number]) - 1), slice(*ends)

        def make() -> tuple[dict[str, Any], Vectors]:
            stripe = np.hstack(nearest(self.pools[number], k, rows=rows)) if k else np.zeros((1, 0))
            return {}, stripe.astype(np.float32)

        return _kept(self.artifact, unit.name, unit.stamp, make)[1]


def with_neighbours(
    artifact: Path, pools: Sequence[PhotoPool], engine: Engine, progress: Progress
) -> Iterator[PhotoPool]:
    """The pools with the neighbours of their photos; stripes that an earlier run finished are taken as they are."""
    units = []
    for number, pool in enumerate(pools):
        content = sha256_bytes(pool.vectors.tobytes()), pool.vectors.shape
        key = sha256_of([number, content, NEIGHBOURS, STRIPE, package_versions("torch")])
        stops = range(STRIPE, len(pool.photos) + STRIPE, STRIPE)
        units += [WorkUnit(f"{key}.shard{stop}", key, (number, stop - STRIPE, stop)) for stop in stops]
    engine = engine if len(units) > len(pools) else Engine()  # a stripe is not worth the start of a process
    job = Stripes(artifact, [pool.vectors for pool in pools])
    stripes = {unit.payload: matrix for unit, matrix in map_units(job, units, engine, progress, "neighbours")}
    for number, pool in enumerate(pools):
        around, distances = np.hsplit(stack_vectors([stripes[at] for at in sorted(stripes) if at[0] == number], 0), 2)
        yield replace(pool, neighbours=(around.astype(np.int64), distances))


def pick_photos(
    context: UnitContext,
    pool: PhotoPool,
    albums: Sequence[InputSource],
    stamps: Mapping[str, Stamp],
    picking: PhotoPicking,
    *,
    facts: Mapping[tuple[str, int], Facts],
    task: ProgressTask,
) -> list[SourceUnit]:
    """Sets out of the pool, as one unit per album, written. `facts` go by album and position, `stamps` by album.

    Anchors are tried in an order drawn from the seed, until `sample` sets are full. Of photos that are copies of one another only
    the best can stand in a set: the one with the most pixels, then the most bytes, then the first by name.
    """
    count, quality, set_size = len(pool.photos), context.picking.quality, context.picking.set_size
    remembered = {
        (album.name, index): row
        for album in albums
        for index, (row, _) in context.cache(album).load(quality.stamps()).items()
    }
    judge = _Judge(pool, quality, remembered | dict(facts))
    around, distances = pool.neighbours
    same = _best_copies(pool, around, distances, picking.copies)
    rows: dict[int, LedgerRow] = {}
    ranking = PhotoRanking(pool.vectors)
    sets: dict[int, list[int]] = {}

    def outcome(anchor: int) -> dict[str, Any]:
        if same[anchor] != anchor:
            return {"reason": "duplicate", "value": 0.0}
        if picking.sample is not None and len(sets) >= picking.sample:
            return {"reason": "not_sampled"}
        if rejection := judge(anchor):
            return {"reason": rejection.reason, "value": round(rejection.value, 6)}
        members = _members(ranking, anchor, around, same, set_size, judge=judge)
        if len(members) < set_size:
            return {"reason": "too_few_neighbours", "value": float(len(members))}
        sets[anchor] = members
        return {"image_set": _set_id(pool.photos[anchor])}

    for anchor in np.random.default_rng(picking.seed).permutation(count).tolist():
        task.advance()
        photo, columns = pool.photos[anchor], outcome(anchor)
        if count > 1:
            other = same[anchor] if same[anchor] != anchor else around[anchor, 0]
            beside = pool.photos[other]
            columns["nearest"] = beside.position if beside.album.name == photo.album.name else None
            columns["distance"] = round(float(np.sqrt(ranking.squared(anchor, np.array([other])))[0]), 6)
        columns["phash"] = photo.phash
        rows[anchor] = LedgerRow(photo.album.name, photo.position, None, None, photo.file.name, photo.row, **columns)
    return _write(context, pool, albums, stamps, rows, sets=sets, facts=judge.facts)


def _best_copies(pool: PhotoPool, around: Positions, distances: Distances, rule: CopyRule) -> Positions:
    """For each photo the best of its copies; see `pick_photos`."""
    contents, hashes = [photo.sha256 for photo in pool.photos], [photo.phash for photo in pool.photos]
    copies = find_copies(contents, pool.vectors, around, distances, rule, hashes=hashes)
    merit = [(-photo.width * photo.height, -photo.file.stat().st_size, photo.id) for photo in pool.photos]
    return deduplicate(copies, np.argsort(sorted(range(len(merit)), key=merit.__getitem__)))


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
                    with measuring(facts):
                        facts = self._quality.measure(facts, read_image(photo.file))
                except Unmeasurable:
                    return Rejection("unmeasurable", 0.0)
            self.facts[position] = msgspec.structs.replace(facts, path=photo.path)
        return self._quality.limits.judge(self.facts[position])


def _members(
    ranking: PhotoRanking, anchor: int, around: Positions, same: Positions, size: int, *, judge: "_Judge"
) -> list[int]:
    """The anchor and its nearest neighbours that are no copies and not ruled out, by distance."""
    near = dict.fromkeys(around[anchor].tolist())
    farther = (other for other in ranking.around(anchor) if other not in near)
    order = chain(near, farther if len(near) < len(around) - 1 else ())
    members = (other for other in order if other != anchor and same[other] == other and judge(other) is None)
    return [anchor, *islice(members, size - 1)]


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
        ledger = [rows[at] for at in own] + [
            LedgerRow(album.name, position, None, None, album.photos[position].name, reason="unreadable")
            for owner, position, _ in pool.unreadable
            if owner.name == album.name
        ]
        unreadable = len(album.photos) - len(own)
        damage = f"{unreadable} photos could not be read" if unreadable else None
        counts: dict[str, Any] = {"frames": len(own), "considered": len(ledger), "damage": damage}
        source = Source(album.name, "photos", album.path.resolve().name, album.sha256, album.bytes, **counts)
        anchors = [anchor for anchor in own if anchor in sets]
        shown = [pool.photos[at] for at in sorted({member for anchor in anchors for member in sets[anchor]})]
        images = [Image(one.id, one.path, one.sha256, one.album.name, one.width, one.height) for one in shown]
        made = [_image_set(pool, anchor, sets[anchor]) for anchor in anchors]
        vectors = np.asarray(pool.vectors[own]) if own else np.zeros((0, 0), np.float32)
        exact, measured = np.zeros((0, pool.vectors.shape[1]), np.float32), [facts[at] for at in own if at in facts]
        unit = SourceUnit(stamps[album.name], source, [], ledger, measured, made, images, vectors, exact)
        units.append(context.save(unit))
    return units


def _image_set(pool: PhotoPool, anchor: int, members: list[int]) -> ImageSet:
    photo, images = pool.photos[anchor], tuple(pool.photos[member].id for member in members)
    album = photo.album.name
    return ImageSet(_set_id(photo), "photos", images, album, album, None, *set_distances(pool.vectors[members]))
