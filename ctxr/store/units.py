"""Units: what one source gave, as a folder inside the artifact.

`sources/<name>/` appears by one rename when the source is done, so a killed run loses at most one source. From its ledger and
embeddings, sets can be picked again with other settings without opening the source.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from ctxr.errors import DataError, UnfinishedError
from ctxr.store.arrays import Vectors, load_vectors, save_vectors
from ctxr.store.artifacts import RANKS, Parent, take_lock
from ctxr.store.atomic import HALF_WRITTEN, disk_errors, replace_folder, write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.paths import PLAIN_NAME, safe_name, stays_inside
from ctxr.store.records import PHOTO_SUFFIXES, Facts, Failure, Image, ImageSet, LedgerRow, Record, Shot, Source
from ctxr.store.tables import UNREADABLE, pretty_json, read_table, read_value, write_tables

SOURCES = "sources"  # folder of the units inside an artifact
IMAGES = "images"  # of the images in sets: `images/<set>/imgN.jpg`, `images/<album>/<file>`
DROPPED = "dropped"  # of frames that were measured and are in no set: `dropped/<source>/imgN.jpg`

TABLES: dict[str, type[Record]] = {
    "shots": Shot,
    "ledger": LedgerRow,
    "facts": Facts,
    "sets": ImageSet,
    "images": Image,
}
_VECTORS = {"vectors": "embeddings.npy", "exact": "exact.npy"}

_LEFTOVER = re.compile(r"\..+\.(?:making|old|vectors|part|failed|rank|shard\d+\.(?:json|npy))")
_FRAME = re.compile(r"img\d+\.jpg")
_VIDEO_SET = re.compile(r".+-shot\d+_\d+")


class UnitKeys(msgspec.Struct, frozen=True):
    """Keys of all that decides a unit: of decoding to embedding, of picking and quality, and of each measured fact."""

    scan: str
    select: str
    measures: dict[str, str]


class _Head(msgspec.Struct, frozen=True):
    stamp: UnitKeys
    source: Source


@dataclass(frozen=True)
class SourceUnit:
    """A source with its tables; rows of the ledger address `vectors` [N, D] and `exact` [M, D]."""

    stamp: UnitKeys
    source: Source
    shots: list[Shot]
    ledger: list[LedgerRow]
    facts: list[Facts]
    sets: list[ImageSet]
    images: list[Image]
    vectors: Vectors
    exact: Vectors
    folder: Path | None = field(default=None, compare=False)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Another process reads a unit that is on the disk."""
        if self.folder is None:
            return SourceUnit, tuple(vars(self).values())
        return read_unit, (self.folder.parent.parent, self.folder.name)


def unit_folder(artifact: Path, name: str) -> Path:
    """The folder of a unit. Raises DataError for a name that could lead elsewhere."""
    if not PLAIN_NAME.fullmatch(name):
        raise DataError(f"{name!r} is not a valid name of a source", hint=f"restore {artifact}, or make it again")
    return artifact / SOURCES / name


def scanned_unit(artifact: Path, name: str, scan: str) -> SourceUnit | None:
    """The unit of an earlier run with that scan, whatever was picked from it; None for another, and for one missing or damaged."""
    with suppress(DataError):
        if (folder := unit_folder(artifact, name)).is_dir() and _read_head(folder).stamp.scan == scan:
            return read_unit(artifact, name)
    return None


def unit_sources(artifact: Path) -> list[Source]:
    """The sources of all finished units, by name; damaged ones are left out."""
    sources = []
    for file in sorted((artifact / SOURCES).glob("[!.]*/source.json")):
        with suppress(DataError):
            sources.append(_read_head(file.parent).source)
    return sources


def read_unit(artifact: Path, name: str) -> SourceUnit:
    """A finished unit; vectors are memory-mapped.

    Raises DataError for what is missing or damaged, and for a path that does not stay inside the artifact.
    """
    folder = unit_folder(artifact, name)
    head = _read_head(folder)
    try:
        parts: dict[str, Any] = {name: read_table(folder / f"{name}.jsonl", row) for name, row in TABLES.items()}
        parts |= {name: load_vectors(folder / file) for name, file in _VECTORS.items()}
        unit = SourceUnit(stamp=head.stamp, source=head.source, folder=folder, **parts)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}", hint=_again(folder)) from error
    pictures: dict[str, Sequence[Image | Facts]] = {"images": unit.images, "facts": unit.facts}
    for name, rows in pictures.items():
        for number, row in enumerate(rows, 1):
            if not stays_inside(row.path):
                problem = f"the path {row.path!r} does not stay inside the artifact"
                raise DataError(f"{folder / name}.jsonl: row {number} {row.key()}: {problem}", hint=_again(folder))
    return unit


def _read_head(folder: Path) -> _Head:
    file = folder / "source.json"
    head = read_value(file, _Head, _again(folder))
    if head.source.name != folder.name:
        raise DataError(f"{file} is of a source named {head.source.name!r}, not {folder.name!r}", hint=_again(folder))
    return head


def _again(folder: Path) -> str:
    return f"delete {folder}, then run the command that made it again as before"


def write_unit(artifact: Path, unit: SourceUnit) -> SourceUnit:
    """Write a unit and rename it into place; returns it, with its vectors memory-mapped."""
    final = unit_folder(artifact, unit.source.name)
    staging = final.with_name(f".{final.name}.making")
    with disk_errors(staging):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    write_tables(staging, {name: getattr(unit, name) for name in TABLES})
    for name, file in _VECTORS.items():
        save_vectors(staging / file, getattr(unit, name))
    write_bytes(staging / "source.json", pretty_json(_Head(unit.stamp, unit.source)))
    replace_folder(staging, final)
    arrays: dict[str, Any] = {name: load_vectors(final / file) for name, file in _VECTORS.items()}
    return replace(unit, folder=final, **arrays)


class FailedUnit(msgspec.Struct, frozen=True):
    """A source that gave no unit: its row of failures.jsonl, and a warning with a hint."""

    stamp: UnitKeys
    failure: Failure
    warning: str


def write_failed(artifact: Path, failed: FailedUnit) -> None:
    """Record what a rank could not make."""
    name = failed.failure.source
    write_bytes(unit_folder(artifact, name).with_name(f".{name}.failed"), msgspec.json.encode(failed))


def read_failed(artifact: Path, name: str) -> FailedUnit | None:
    """The failure that a rank recorded; None without one."""
    try:
        content = unit_folder(artifact, name).with_name(f".{name}.failed").read_bytes()
        return msgspec.json.decode(content, type=FailedUnit)
    except (OSError, *UNREADABLE):
        return None


class RankRun(msgspec.Struct, frozen=True):
    """How a rank ran: the verb, the number of ranks, and the options that are not at their defaults, by field.

    Attributes:
        key: what decides the result beside `parents`: options, the encoder's fingerprint.
    """

    verb: Annotated[str, msgspec.Meta(pattern="^(build-sets|filter)$")]
    world: Annotated[int, msgspec.Meta(ge=1)]
    options: dict[str, Any]
    key: dict[str, Any]
    parents: list[Parent]


@contextmanager
def rank_lock(artifact: Path, rank: int, run: RankRun) -> Iterator[Path]:
    """Record how a rank runs, and lock its record, which is yielded.

    Raises UnfinishedError while the same rank, or a rank among another number of ranks, is at work.
    """
    own = artifact / SOURCES / f".{rank}-of-{run.world}.rank"
    with disk_errors(own):
        own.parent.mkdir(parents=True, exist_ok=True)
        stream = own.open("a+")
    with stream:
        if not take_lock(stream):
            raise UnfinishedError(f"rank {rank} of {run.world} is at work in {artifact}", hint="wait for it")
        for other in artifact.glob(RANKS):
            if not other.name.endswith(f"-of-{run.world}.rank"):
                with other.open("a+") as their:
                    if not take_lock(their):
                        own.unlink()
                        sentence = f"rank {other.name[1:-5].replace('-', ' ')} is at work in {artifact}"
                        raise UnfinishedError(sentence, hint="wait for it, or use the same --world-size")
                other.unlink(missing_ok=True)
        stream.truncate(0)
        stream.write(msgspec.json.encode(run).decode())
        stream.flush()
        yield own


def read_ranks(artifact: Path) -> dict[int, RankRun]:
    """How the ranks of the latest run ran, by rank."""
    runs = {}
    for file in artifact.glob(RANKS):
        rank = file.name[1:].partition("-")[0]
        try:
            runs[int(rank)] = msgspec.json.decode(file.read_bytes(), type=RankRun)
        except (OSError, ValueError, *UNREADABLE) as error:
            raise DataError(f"{file} is damaged: {error}", hint=f"delete {file}, and run rank {rank} again") from error
    return dict(sorted(runs.items()))


class AlbumFiles(NamedTuple):
    """The photos of an album by position as it was built, their SHA-256, "" if unreadable, and sentences about changes."""

    files: list[Path]
    hashes: list[str]
    problems: list[str]


def album_files(unit: SourceUnit, folder: Path, digest: Callable[[Path], str]) -> AlbumFiles:
    """The photos of an album in `folder`, compared with the unit by their SHA-256, which `digest` finds. The album's hash, over names and
    contents, shows every change.

    Raises DataError for a ledger that names no photo in `folder`.
    """
    files: list[Path] = []
    for position, row in enumerate(unit.ledger):
        if row.index != position or row.name is None or row.name in {"", ".", ".."} or Path(row.name).name != row.name:
            where = f"{unit.folder or unit.source.name}: ledger.jsonl: row {position + 1}"
            raise DataError(f"{where} names the photo {row.name!r}", hint="make the artifact again")
        files.append(folder / row.name)
    recorded = {f"{unit.source.name}/{file.name}": file for file in files}
    known = {recorded[image.id]: image.sha256 for image in unit.images if image.id in recorded}
    known |= {files[facts.index]: facts.sha256 for facts in unit.facts if facts.index < len(files)}
    hashes, problems = [], []
    for file in files:
        try:
            hashes.append(digest(file))
        except OSError as error:
            hashes.append("")
            problems.append(f"{file} cannot be read: {error.strerror}")
            continue
        if known.get(file, hashes[-1]) != hashes[-1]:
            problems.append(f"{file} has changed since the sets were built")
    lines = "\n".join(f"{file.name}\t{digest}" for file, digest in zip(files, hashes, strict=True))
    if not problems and sha256_bytes(lines.encode()) != unit.source.sha256:
        problems.append(f"{folder} has changed since the sets were built")
    return AlbumFiles(files, hashes, problems)


def merge_units(artifact: Path, units: Iterable[SourceUnit]) -> list[str]:
    """Write the artifact's own tables from its units; returns the names of these and of the units' files."""
    listed = sorted(units, key=lambda unit: unit.source.name)
    tables: dict[str, Any] = {name: [row for unit in listed for row in getattr(unit, name)] for name in TABLES}
    # a photo can be a neighbour in a set of another album: both units list it
    tables["images"] = {row.id: row for row in tables["images"]}.values()
    tables["sources"] = [unit.source for unit in listed]
    del tables["ledger"]
    own = [f"{name}.jsonl" for name in write_tables(artifact, tables)]
    parts = ["source.json", *_VECTORS.values(), *(f"{name}.jsonl" for name in TABLES)]
    return own + [f"{SOURCES}/{unit.source.name}/{part}" for unit in listed for part in parts]


def tidy(artifact: Path, units: Mapping[str, SourceUnit]) -> None:
    """Remove leftovers of earlier runs: units of removed sources, images that no table names, half-made folders.

    Only files with names that ctxr gives are removed, and none through a link to another folder.
    """
    wanted = {image.path for unit in units.values() for image in unit.images}
    wanted |= {fact.path for unit in units.values() for fact in unit.facts}
    with disk_errors(artifact):
        for file in artifact.glob(HALF_WRITTEN):
            file.unlink()
        for leftover in _entries(artifact / SOURCES):
            removed = leftover.name not in units and (leftover / "source.json").is_file()
            if removed or _LEFTOVER.fullmatch(leftover.name):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        for top in (artifact / IMAGES, artifact / DROPPED):
            for folder in filter(Path.is_dir, _entries(top)):
                if not PLAIN_NAME.fullmatch(folder.name):
                    continue
                for file in _entries(folder):
                    if file.relative_to(artifact).as_posix() not in wanted and file.is_file() and _is_ours(file):
                        file.unlink()
                if not any(folder.iterdir()):
                    folder.rmdir()
            if top.is_dir() and not top.is_symlink() and not any(top.iterdir()):
                top.rmdir()


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder without links; none for a link to a folder."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [entry for entry in sorted(folder.iterdir()) if not entry.is_symlink()]


def _is_ours(file: Path) -> bool:
    """Whether a file below `IMAGES` or `DROPPED` has a name that ctxr gives."""
    if _LEFTOVER.fullmatch(file.name):
        return True
    if file.parent.parent.name == DROPPED or _VIDEO_SET.fullmatch(file.parent.name):
        return bool(_FRAME.fullmatch(file.name))
    return bool(PLAIN_NAME.fullmatch(file.name)) and file.suffix in PHOTO_SUFFIXES


def photo_names(photos: Sequence[Path]) -> list[str]:
    """Safe and unique file names of an album's photos inside the artifact, by position."""
    taken: set[str] = set()
    names = []
    for position, file in enumerate(photos):
        stem, suffix = safe_name(file.stem), file.suffix.lower()
        while f"{stem}{suffix}".lower() in taken:
            stem = f"{stem}-{position}"
        names.append(f"{stem}{suffix}")
        taken.add(names[-1].lower())
    return names


def ids_in_ledger(unit: SourceUnit) -> list[str]:
    """The image id of each row of the ledger, in its order; photos are named by their positions."""
    names = [f"img{row.index}" for row in unit.ledger]
    if unit.source.kind != "video":
        names = photo_names([Path(row.name or "") for row in unit.ledger])
    return [f"{unit.source.name}/{name}" for name in names]
