"""Sets from a pool of photos: duplicates, embeddings in shards, nearest neighbours (ImageCoDe, section 3.1, static sets)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from io import BytesIO
from itertools import chain, islice
from pathlib import Path

import msgspec
import numpy as np

from ctxr.engine.engines import Engine, ThingsJob, map_units
from ctxr.engine.progress import Progress
from ctxr.engine.units import KILLED, Job, WorkUnit
from ctxr.errors import CtxrError, DataError, UsageError, plural
from ctxr.media.images import Pixels, image_size, perceptual_hash, read_image, read_photo, troubles
from ctxr.media.likeness import SIDE
from ctxr.media.sources import InputSource, fetch
from ctxr.metrics.selection import Rejection
from ctxr.models.neighbours import (
    LEAST_RECALL,
    RECALLED,
    Neighbours,
    VectorIndex,
    build_index,
    nearest,
    nearest_by_index,
)
from ctxr.pipelines.curation.config import NO_FAISS
from ctxr.pipelines.curation.copies import CopyRule, PhotoRanking, Positions, deduplicate, exact_distances, find_copies
from ctxr.pipelines.curation.quality import QualityLimits, Unmeasurable
from ctxr.pipelines.curation.videos import BATCH, Embedder, UnitContext
from ctxr.store.arrays import Vectors, load_vectors, set_distances, stack_vectors
from ctxr.store.artifacts import package_versions
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.records import REJECTED, WORKER_DIED, Facts, Image, ImageSet, LedgerReason, LedgerRow, Source
from ctxr.store.tables import UNREADABLE
from ctxr.store.units import IMAGES, SOURCES, SourceUnit, UnitKeys, photo_names

SHARD = 256  # photos embedded between two points at which a killed run can go on
STRIPE = 4096  # photos whose neighbours are one unit of work
# looked up for every photo at once; when duplicates and rejected photos exhaust them, `PhotoRanking` continues
NEIGHBOURS = 64
LEAST_INDEXED = 20_000  # photos of a pool: among fewer, exact search is as fast (`python -m bench.index`)
LEAST_SETS = 30  # of a sample by default, where there are so many photos
Readable = tuple[int, int, str]  # width, height and perceptual hash of a photo that could be read


@dataclass
class PooledPhoto:
    """A readable photo of the pool: `position` in its album, `row` in the album's embeddings, `phash` as in its ledger row."""

    album: str
    position: int
    file: Path
    image: Image
    row: int
    phash: str


@dataclass
class PhotoPool:
    """All readable photos, by album and name, with vectors [N, D]; why others are `unreadable`, by album and position; and for each
    photo the group of its `copies`, once they were looked for; the `index` that found neighbours, if one did."""

    photos: list[PooledPhoto]
    vectors: Vectors
    unreadable: dict[str, dict[int, str]]
    neighbours: Neighbours = (np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32))
    copies: Positions = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    index: VectorIndex | None = None

    def part(self, groups: Collection[str]) -> "PhotoPool":
        """The photos of some groups."""
        rows = [row for row, photo in enumerate(self.photos) if photo.image.group in groups]
        vectors = self.vectors if len(rows) == len(self.photos) else self.vectors[rows]
        photos = [self.photos[row] for row in rows]
        return PhotoPool(photos, vectors, self.unreadable, copies=self.copies[rows])

    @staticmethod
    def reason(message: str) -> LedgerReason:
        """Why a photo could not be read, by its message."""
        return WORKER_DIED if message.endswith(KILLED) else "unreadable"

    def regroup(self, groups: Mapping[tuple[str, int], str | None]) -> None:
        """Put photos, by album and position, into groups of their own."""
        for photo in self.photos:
            if group := groups.get((photo.album, photo.position)):
                photo.image = msgspec.structs.replace(photo.image, group=group)


@dataclass
class Shard:
    """What a killed run leaves to the next: vectors [n, D] of photos, by position, in their order, and why the others could not be
    read; or the neighbours of a stripe [n, 2 K]."""

    matrix: Vectors
    photos: dict[int, Readable] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)


class _ShardHead(msgspec.Struct):
    """A shard's table; `digest` is that of its matrix."""

    key: str
    digest: str
    photos: dict[int, Readable]
    problems: dict[int, str]


def gather_pool(
    albums: Sequence[InputSource], units: Mapping[str, SourceUnit | None], shards: Mapping[str, Sequence[Shard]]
) -> PhotoPool:
    """The pool of all albums, of which `units`, by album, give theirs without embedding anything again, and `shards` the others."""
    photos: list[PooledPhoto] = []
    unreadable: dict[str, dict[int, str]] = {}
    blocks: list[Vectors] = []
    for album in albums:
        readable: dict[int, Readable] = {}
        if unit := units.get(album.name):
            kept = [row for row in unit.ledger if row.row is not None]
            readable = {row.index: (*image_size(album.photos[row.index]), row.phash or "") for row in kept}
            # why a photo could not be read is found by failing again
            positions = [row.index for row in unit.ledger if row.reason == "unreadable"]
            errors = troubles(read_photo, [album.photos[position] for position in positions])
            unreadable[album.name] = {
                position: error.message if error else f"{album.photos[position]} is not a readable picture"
                for position, error in zip(positions, errors, strict=True)
            } | {row.index: _killed(album.photos[row.index]) for row in unit.ledger if row.reason == WORKER_DIED}
            blocks.append(unit.vectors)
        for shard in shards.get(album.name, ()):
            readable |= shard.photos
            unreadable.setdefault(album.name, {}).update(shard.problems)
            blocks.append(shard.matrix)
        names = photo_names(album.photos)
        for row, (position, (width, height, phash)) in enumerate(readable.items()):
            id_ = f"{album.name}/{names[position]}"
            image = Image(id_, f"{IMAGES}/{id_}", album.photo_sha256[position], album.name, width, height)
            photos.append(PooledPhoto(album.name, position, album.photos[position], image, row, phash))
    columns = max((block.shape[1] for block in blocks), default=0)
    # stacking copies into memory, so the units' files may be replaced
    return PhotoPool(photos, stack_vectors([block for block in blocks if len(block)], columns), unreadable)


@dataclass
class EmbedPhotos(ThingsJob[Shard]):
    """Reads and embeds shards of albums; those of an earlier run are taken as they are."""

    artifact: Path
    embedder: Embedder
    deadly: set[str] = field(default_factory=set)

    def __call__(self, unit: WorkUnit) -> Shard:
        """The shard, whose payload is its album, its first position there, and its files."""
        if finished := _finished(self.artifact, unit.name, unit.stamp):
            return finished
        album, start, files = unit.payload
        shard, vectors, batch = Shard(np.zeros((0, 0), np.float32)), list[Vectors](), list[Pixels]()
        for position, file in enumerate(files, start):
            if f"{album}.shard{position}" in self.deadly:
                shard.problems[position] = _killed(file)
                continue
            try:
                rgb = read_photo(file)
            except DataError as error:
                shard.problems[position] = error.message
                continue
            shard.photos[position] = rgb.shape[1], rgb.shape[0], perceptual_hash(rgb)
            batch.append(rgb)
            if len(batch) == BATCH:
                if self.stopping.is_set():
                    raise CtxrError("stopped")
                vectors.append(self.embedder.embed(batch))
                self.show(unit.name, (position - start) / len(files))
                batch = []
        vectors += [self.embedder.embed(batch)] if batch else []
        return _kept(self.artifact, unit.name, unit.stamp, replace(shard, matrix=stack_vectors(vectors, 0)))

    def alone(self, unit: WorkUnit) -> list[WorkUnit]:
        """A shard of each photo."""
        album, start, files = unit.payload
        return [
            WorkUnit(f"{album}.shard{at}", sha256_of([unit.stamp, at]), (album, at, [file]))
            for at, file in enumerate(files, start)
        ]


def _killed(photo: Path) -> str:
    return f"{photo}: {KILLED}"


def album_shards(albums: Sequence[InputSource], scans: Mapping[str, str]) -> list[WorkUnit]:
    """The units of `EmbedPhotos` for albums, whose photos are embedded as `scans` say."""
    units = []
    for album in albums:
        for start in range(0, len(album.photos), SHARD):
            key = sha256_of([scans[album.name], album.photo_sha256[start : start + SHARD]])
            files = album.photos[start : start + SHARD]
            units.append(WorkUnit(f"{album.name}.shard{start}", key, (album.name, start, files)))
    return units


def _finished(artifact: Path, name: str, key: str) -> Shard | None:
    """The shard that an earlier run finished under the same key, in memory; None without one."""
    stem = artifact / SOURCES / f".{name}"
    with suppress(OSError, DataError, *UNREADABLE):
        head = msgspec.json.decode(Path(f"{stem}.json").read_bytes(), type=_ShardHead)
        matrix: Vectors = np.array(load_vectors(Path(f"{stem}.npy")))
        if head.key == key and head.digest == sha256_bytes(matrix.tobytes()):
            return Shard(matrix, head.photos, head.problems)
    return None


def _kept(artifact: Path, name: str, key: str, shard: Shard) -> Shard:
    """The shard, written for a later run."""
    stem = artifact / SOURCES / f".{name}"
    matrix = BytesIO()
    np.save(matrix, shard.matrix)
    write_bytes(Path(f"{stem}.npy"), matrix.getvalue(), durable=False)
    # the table is written last, and knows its matrix: a kill in between leaves two that do not belong together
    head = _ShardHead(key, sha256_bytes(shard.matrix.tobytes()), shard.photos, shard.problems)
    write_bytes(Path(f"{stem}.json"), msgspec.json.encode(head))
    return shard


@dataclass(frozen=True)
class PhotoPicking:
    """Which photos are copies, how many sets are wanted, as `BuildSets.sample` says, the seed of their order, and whether an `index`
    of faiss finds neighbours. Raises UsageError where that is not installed."""

    copies: CopyRule
    sample: str
    seed: int
    index: bool = False

    def __post_init__(self) -> None:
        if self.index and find_spec("faiss") is None:
            raise UsageError(*NO_FAISS)

    def count(self, photos: int) -> int:
        """How many sets are made of so many photos."""
        if self.sample.isdecimal():
            return int(self.sample)
        return photos if self.sample else max(-(-photos // 10), min(photos, LEAST_SETS))


@dataclass
class Stripes(Job[Vectors]):
    """Finds neighbours of a stripe of photos in pools: files of float32 vectors [N, D], by an index if there is one."""

    artifact: Path
    pools: Sequence[tuple[Path, tuple[int, ...], VectorIndex | None]]

    def __call__(self, unit: WorkUnit) -> Vectors:
        """Positions, as the bits of int32, and distances, side by side [n, 2 K]."""
        if finished := _finished(self.artifact, unit.name, unit.stamp):
            return finished.matrix
        number, start, stop = unit.payload
        file, shape, index = self.pools[number]
        vectors: Vectors = np.memmap(file, np.float32, "c", shape=shape)  # torch takes no array that is read-only
        k, stripe = min(NEIGHBOURS, len(vectors) - 1), np.zeros((1, 0), np.float32)
        if k:
            rows = np.arange(start, min(stop, len(vectors)))
            found = nearest_by_index(index, vectors, k, rows) if index else nearest(vectors, k, rows=rows)
            stripe = np.hstack([found.indices.astype(np.int32).view(np.float32), found.scores.astype(np.float32)])
        return _kept(self.artifact, unit.name, unit.stamp, Shard(stripe)).matrix


def with_neighbours(
    artifact: Path, pools: Sequence[PhotoPool], engine: Engine, progress: Progress, *, index: bool = False
) -> Iterator[PhotoPool]:
    """The pools with the neighbours of their photos, those that an `index` finds where it is wanted and there are enough photos; stripes
    that an earlier run finished are taken as they are."""
    units, stored, files = [], list[tuple[Path, tuple[int, ...], VectorIndex | None]](), list[Path]()
    try:
        for number, pool in enumerate(pools):
            content, by_index = pool.vectors.tobytes(), index and len(pool.photos) >= LEAST_INDEXED
            packages = package_versions("torch", *["faiss-cpu"] * by_index)
            made_with = [NEIGHBOURS, STRIPE, "int32", *[RECALLED, LEAST_RECALL] * by_index, packages]
            key = sha256_of([number, sha256_bytes(content), pool.vectors.shape, made_with])
            file, made = artifact / SOURCES / f".{key}.vectors", None
            files += [file, file.with_suffix(".index.vectors")]
            write_bytes(file, content, durable=False)
            if by_index:
                with progress.task("indexing photos", None):
                    made = build_index(pool.vectors, NEIGHBOURS, files[-1])
            stored.append((file, pool.vectors.shape, made))
            stops = range(STRIPE, len(pool.photos) + STRIPE, STRIPE)
            units += [WorkUnit(f"{key}.shard{stop}", key, (number, stop - STRIPE, stop)) for stop in stops]
        engine = engine if len(units) > len(pools) else Engine()  # a stripe is not worth the start of a process
        job = Stripes(artifact, stored)
        stripes = {unit.payload: matrix for unit, matrix in map_units(job, units, engine, progress, "neighbours")}
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    for number, pool in enumerate(pools):
        around, distances = np.hsplit(stack_vectors([stripes[at] for at in sorted(stripes) if at[0] == number], 0), 2)
        yield replace(pool, neighbours=(around.view(np.int32).astype(np.int64), distances), index=stored[number][2])


def with_copies(artifact: Path, pool: PhotoPool, choice: PhotoPicking, engine: Engine, progress: Progress) -> PhotoPool:
    """The pool with the neighbours of its photos, and the groups of copies, see `find_copies`."""
    (found,) = with_neighbours(artifact, [pool], engine, progress, index=choice.index)
    photos, around = pool.photos, found.neighbours[0]
    contents, hashes = [photo.image.sha256 for photo in photos], [photo.phash for photo in photos]

    def read(at: int) -> Pixels:
        return read_image(photos[at].file, SIDE, tight=True)

    return replace(found, copies=find_copies(contents, around, read, choice.copies, hashes=hashes))


@dataclass
class PickedPhotos:
    """What was decided on photos: `rows` of the ledger and `facts`, by album and position, and the sets."""

    rows: dict[tuple[str, int], LedgerRow] = field(default_factory=dict)
    facts: dict[tuple[str, int], Facts] = field(default_factory=dict)
    sets: list[ImageSet] = field(default_factory=list)


def pick_photos(
    context: UnitContext,
    pool: PhotoPool,
    picking: PhotoPicking,
    known: Mapping[tuple[str, int], Facts],
    picked: PickedPhotos,
) -> int:
    """Pick sets from the pool, write their pictures, and add both to `picked`. Returns the number of sets. `known`: earlier measurements.

    Anchors are tried in an order drawn from the seed: first those whose sets share no photo with earlier ones, then those that share
    one, and so on. Of photos that are copies of one another only the best can stand in a set: the one with the most pixels, then the
    most bytes, then the first by name.
    """
    picker, photos = _PhotoPicker(context, pool, picking, known), pool.photos
    order = np.random.default_rng(picking.seed).permutation(len(photos)).tolist()
    rows = {anchor: picker.decide(anchor) for anchor in order}
    sets = picker.chosen(order, picking.count(len(photos)))
    for position in sorted({member for members in sets.values() for member in members} | picker.facts.keys()):
        link_or_copy(fetch(photos[position].file), context.artifact / photos[position].image.path)
    for anchor, row in rows.items():
        if row.reason is None and anchor not in sets:
            row = msgspec.structs.replace(row, image_set=None, reason="not_sampled")
        picked.rows[row.source, row.index] = row
    for anchor, members in sets.items():
        ids, group = tuple(photos[member].image.id for member in members), photos[anchor].image.group
        name, album = rows[anchor].image_set or "", photos[anchor].album
        picked.sets.append(ImageSet(name, "photos", ids, album, group, None, *set_distances(pool.vectors[members])))
    picked.facts |= {(photos[at].album, photos[at].position): facts for at, facts in picker.facts.items()}
    return len(sets)


def album_unit(album: InputSource, pool: PhotoPool, picked: PickedPhotos, stamp: UnitKeys) -> SourceUnit:
    """The unit of an album, whose photos and those of its sets are in the pool."""
    own = [at for at, photo in enumerate(pool.photos) if photo.album == album.name]
    keys = [(album.name, pool.photos[at].position) for at in own]
    ledger = [picked.rows[key] for key in keys] + [
        LedgerRow(album.name, position, None, None, album.photos[position].name, reason=pool.reason(message))
        for position, message in pool.unreadable.get(album.name, {}).items()
    ]
    unreadable = len(album.photos) - len(own)
    damage = f"{plural(unreadable, 'photo')} could not be read" if unreadable else None
    place = album.name, "photos", album.path.resolve().name, album.sha256, album.bytes
    source = Source(*place, frames=len(own), considered=len(ledger), damage=damage)
    sets = [image_set for image_set in picked.sets if image_set.source == album.name]
    shown = {image for image_set in sets for image in image_set.images}
    images = [photo.image for photo in pool.photos if photo.image.id in shown]
    vectors = np.asarray(pool.vectors[own]) if own else np.zeros((0, 0), np.float32)
    facts = [picked.facts[key] for key in keys if key in picked.facts]
    exact = np.zeros((0, pool.vectors.shape[1]), np.float32)
    return SourceUnit(stamp, source, [], ledger, facts, sets, images, vectors, exact)


class _PhotoPicker:
    """Decides on the photos of a pool; by position in it, `sets` are members by anchor, `facts` those that were measured."""

    def __init__(
        self, context: UnitContext, pool: PhotoPool, picking: PhotoPicking, known: Mapping[tuple[str, int], Facts]
    ) -> None:
        self.sets: dict[int, list[int]] = {}
        self.facts: dict[int, Facts] = {}
        self._pool, self._known = pool, known
        self._size, self._quality = context.picking.set_size, context.picking.quality
        self._ranking = PhotoRanking(pool.vectors)
        photos = pool.photos
        merit = [(-one.image.width * one.image.height, -fetch(one.file).stat().st_size, one.image.id) for one in photos]
        # the best of the copies of each photo
        self._best = deduplicate(pool.copies, np.argsort(sorted(range(len(merit)), key=merit.__getitem__)))
        people = context.picking.quality.people
        out = {**people.left_out, **people.rejected}
        # with all its copies
        self._rejected = {self._best[at]: out[one.image.id] for at, one in enumerate(photos) if one.image.id in out}

    def decide(self, anchor: int) -> LedgerRow:
        """The ledger row of a photo; where its set is full, it is in `sets`."""
        photo, best = self._pool.photos[anchor], self._best[anchor]
        group = None if photo.image.group == photo.album else photo.image.group
        place = photo.album, photo.position, None, None, photo.file.name, photo.row
        row = LedgerRow(*place, phash=photo.phash, group=group)
        if len(self._pool.photos) > 1:
            other = best if best != anchor else self._pool.neighbours[0][anchor, 0]
            other_photo = self._pool.photos[other]
            position = other_photo.position if other_photo.album == photo.album else None
            distance = round(float(exact_distances(self._pool.vectors, np.array([[other, anchor]]))[0]), 6)
            row = msgspec.structs.replace(row, nearest=position, distance=distance)
        if best != anchor:
            return msgspec.structs.replace(row, reason="duplicate", value=0.0)
        if by := self._rejected.get(anchor):
            return msgspec.structs.replace(row, **by.columns)
        if rejection := self._judge(anchor):
            return msgspec.structs.replace(row, reason=rejection.reason, value=round(rejection.value or 0.0, 6))
        # the anchor and its nearest neighbours that are not copies and not ruled out, by distance
        around, bests = self._pool.neighbours[0], self._best
        near = dict.fromkeys(around[anchor].tolist())
        farther = (at for at in self._ranking.around(anchor) if at not in near)
        order = chain(near, farther if len(near) < len(around) - 1 else ())
        others = (at for at in order if at != anchor and bests[at] == at and self._judge(at) is None)
        members = [anchor, *islice(others, self._size - 1)]
        if len(members) < self._size:
            return msgspec.structs.replace(row, reason="too_few_neighbours", value=float(len(members)))
        self.sets[anchor] = members
        file = Path(photo.image.path)
        name = f"{photo.album}-photo-{file.stem}{file.suffix.replace('.', '-')}"
        return msgspec.structs.replace(row, image_set=name)

    def chosen(self, order: Sequence[int], most: int) -> dict[int, list[int]]:
        """At most so many sets, by anchor, which share few photos."""
        kept, used = dict[int, list[int]](), set[int]()
        for shared in range(self._size + 1):
            for anchor in order if len(kept) < min(most, len(self.sets)) else ():
                members = self.sets.get(anchor, [])
                if members and anchor not in kept and len(used.intersection(members)) <= shared and len(kept) < most:
                    kept[anchor] = members
                    used.update(members)
        return kept

    def _judge(self, position: int) -> Rejection | None:
        """Why people or quality rule a photo out, which is measured once."""
        if position in self._rejected:
            return Rejection(REJECTED)
        if self._quality.limits == QualityLimits():
            return None
        if position not in self.facts:
            photo = self._pool.photos[position]
            image = photo.image
            new = Facts(photo.album, photo.position, image.path, image.sha256, image.width, image.height)
            known = self._known.get((photo.album, photo.position), new)
            try:
                facts = self._quality.measure(known, lambda: read_image(photo.file))
            except Unmeasurable:
                return Rejection("unmeasurable", 0.0)
            self.facts[position] = msgspec.structs.replace(facts, path=image.path)
        kept = self._pool.photos[position].image.id in self._quality.people.kept
        return None if kept else self._quality.limits.judge(self.facts[position])
