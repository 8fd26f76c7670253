"""All photos of a run as one pool with its embeddings, read in shards that survive a kill."""

import json
from collections.abc import Callable, Sequence
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


def embed_albums(
    artifact: Path, albums: Sequence[Found], scan: str, embedder: Embedder, watch: Callable[[int], None]
) -> Pool:
    """Read and embed every photo; shards that an earlier run finished are taken as they are."""
    photos: list[Photo] = []
    unreadable: list[tuple[Found, int, str]] = []
    blocks: list[Vectors] = []
    for album in albums:
        names = _file_names(album)
        row = 0
        for start in range(0, len(album.photos), SHARD):
            chosen = range(start, min(start + SHARD, len(album.photos)))
            sizes, problems, vectors = _shard(artifact, album, chosen, scan, embedder)
            for position in chosen:
                if str(position) in problems:
                    unreadable.append((album, position, problems[str(position)]))
                    continue
                width, height = sizes[str(position)]
                photos.append(
                    Photo(
                        album,
                        position,
                        album.photos[position],
                        album.photo_sha256[position],
                        names[position],
                        width,
                        height,
                        row,
                    )
                )
                row += 1
            blocks.append(vectors)
            watch(len(chosen))
    width = max((block.shape[1] for block in blocks), default=0)
    return Pool(photos, stack_vectors([block for block in blocks if len(block)], width), unreadable)


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


def _file_names(album: Found) -> list[str]:
    """Safe and unique file names inside the artifact, by position."""
    taken: set[str] = set()
    names = []
    for position, file in enumerate(album.photos):
        stem, suffix = safe_name(file.stem), file.suffix.lower()
        while f"{stem}{suffix}".lower() in taken:
            stem = f"{stem}-{position}"
        name = f"{stem}{suffix}"
        taken.add(name.lower())
        names.append(name)
    return names


def reopen_pool(albums: Sequence[Found], units: Sequence[Unit]) -> Pool:
    """The pool that `units` were made from, without embedding anything again; `albums` say where the photos lie now."""
    photos: list[Photo] = []
    blocks: list[Vectors] = []
    for album, unit in zip(albums, units, strict=True):
        names = _file_names(album)
        for row in unit.ledger:
            file = album.photos[row.index]
            if row.row is None:
                continue
            width, height = image_size(file)
            digest = album.photo_sha256[row.index]
            photos.append(Photo(album, row.index, file, digest, names[row.index], width, height, row.row))
        blocks.append(unit.vectors)
    width = max((block.shape[1] for block in blocks), default=0)
    # stacking copies into memory, so the units' files may be replaced
    vectors = stack_vectors([block for block in blocks if len(block)], width)
    return Pool(photos, vectors, unreadable_photos(albums, units))


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
