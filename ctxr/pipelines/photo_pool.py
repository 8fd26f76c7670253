"""All photos of a run as one pool with its embeddings, read in shards that survive a kill."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctxr.data.atomic import disk_errors, write_bytes
from ctxr.data.embeddings import Vectors, load_vectors, save_vectors, stack_vectors
from ctxr.data.hashing import sha256_bytes, sha256_of
from ctxr.data.images import Pixels, image_size, read_image
from ctxr.data.sources import Found, safe_name
from ctxr.data.units import IMAGES, SOURCES, Unit
from ctxr.errors import DataError
from ctxr.pipelines.video_unit import Embedder

SHARD = 256
"""Photos embedded between two points at which a killed run can go on."""


@dataclass
class Photo:
    """A readable photo of the pool: `position` in its album, `row` in the album's embeddings."""

    album: Found
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
class Pool:
    """All readable photos, in the order of albums and names, with their vectors [N, D]; and the unreadable ones."""

    photos: list[Photo]
    vectors: Vectors
    unreadable: list[tuple[Found, int, str]]


def gather_pool(
    artifact: Path,
    albums: Sequence[Found],
    known: Mapping[str, Unit],
    scans: Mapping[str, str],
    embedder: Embedder,
    watch: Callable[[int], None],
) -> Pool:
    """The pool of all albums. `known` units, by album, give theirs without embedding anything again; every photo of the
    others is read and embedded, in shards: those that an earlier run finished under the same key in `scans` are taken as they are.
    """
    parts = []
    for album in albums:
        if unit := known.get(album.name):
            parts.append(_reopened(album, unit))
            watch(len(album.photos))
        else:
            parts.append(_embedded(artifact, album, scans[album.name], embedder, watch))
    return _joined(parts)


def reopen_pool(albums: Sequence[Found], units: Sequence[Unit]) -> Pool:
    """The pool that `units` were made from, without embedding anything again; `albums` say where the photos lie now."""
    return _joined([_reopened(album, unit) for album, unit in zip(albums, units, strict=True)])


def _joined(parts: Sequence[Pool]) -> Pool:
    width = max((part.vectors.shape[1] for part in parts), default=0)
    # stacking copies into memory, so the units' files may be replaced
    vectors = stack_vectors([part.vectors for part in parts if len(part.vectors)], width)
    return Pool(
        [photo for part in parts for photo in part.photos], vectors, [one for part in parts for one in part.unreadable]
    )


def _embedded(artifact: Path, album: Found, scan: str, embedder: Embedder, watch: Callable[[int], None]) -> Pool:
    photos: list[Photo] = []
    unreadable: list[tuple[Found, int, str]] = []
    blocks: list[Vectors] = []
    names = file_names(album.photos)
    for start in range(0, len(album.photos), SHARD):
        chosen = range(start, min(start + SHARD, len(album.photos)))
        sizes, problems, vectors = _shard(artifact, album, chosen, scan, embedder)
        for position in chosen:
            if str(position) in problems:
                unreadable.append((album, position, problems[str(position)]))
                continue
            width, height = sizes[str(position)]
            file, digest = album.photos[position], album.photo_sha256[position]
            photos.append(Photo(album, position, file, digest, names[position], width, height, len(photos)))
        blocks.append(vectors)
        watch(len(chosen))
    width = max((block.shape[1] for block in blocks), default=0)
    return Pool(photos, stack_vectors([block for block in blocks if len(block)], width), unreadable)


def _reopened(album: Found, unit: Unit) -> Pool:
    photos: list[Photo] = []
    names = file_names(album.photos)
    for row in unit.ledger:
        if row.row is None:
            continue
        file, digest = album.photos[row.index], album.photo_sha256[row.index]
        width, height = image_size(file)
        photos.append(Photo(album, row.index, file, digest, names[row.index], width, height, row.row))
    return Pool(photos, unit.vectors, unreadable_photos([album], [unit]))


def _shard(
    artifact: Path, album: Found, chosen: range, scan: str, embedder: Embedder
) -> tuple[dict[str, tuple[int, int]], dict[str, str], Vectors]:
    """Sizes and problems by position, and vectors of the readable ones, in memory."""
    folder, stem = artifact / SOURCES, f".{album.name}.shard{chosen.start}"
    head, matrix = folder / f"{stem}.json", folder / f"{stem}.npy"
    key = sha256_of([scan, [album.photo_sha256[position] for position in chosen]])
    try:
        known = json.loads(head.read_bytes())
        vectors: Vectors = np.array(load_vectors(matrix))
        if known["key"] == key and known["vectors"] == sha256_bytes(vectors.tobytes()):
            return known["sizes"], known["problems"], vectors
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


def file_names(photos: Sequence[Path]) -> list[str]:
    """Safe and unique file names inside the artifact of an album's photos, by position."""
    taken: set[str] = set()
    names = []
    for position, file in enumerate(photos):
        stem, suffix = safe_name(file.stem), file.suffix.lower()
        while f"{stem}{suffix}".lower() in taken:
            stem = f"{stem}-{position}"
        name = f"{stem}{suffix}"
        taken.add(name.lower())
        names.append(name)
    return names


def unreadable_photos(albums: Sequence[Found], units: Sequence[Unit]) -> list[tuple[Found, int, str]]:
    """The photos that could not be read when `units` were made, as in `Pool`; why is found by failing again."""
    return [
        (album, row.index, _problem(album.photos[row.index]))
        for album, unit in zip(albums, units, strict=True)
        for row in unit.ledger
        if row.reason == "unreadable"
    ]


def _problem(file: Path) -> str:
    try:
        read_image(file)
    except DataError as error:
        return error.message
    return f"{file} is not a readable picture"
