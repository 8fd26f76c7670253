"""What one source gave, as a folder of its own inside the artifact: the unit of work, of resuming and of replaying.

`sources/<name>/` appears by one rename when the source is done, so a killed run loses at most the source it was in. It holds
the ledger and the embeddings, from which sets can be picked again with other settings without opening the source.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ctxr.data.atomic import disk_errors, replace_folder, write_bytes
from ctxr.data.embeddings import Vectors, load_vectors, save_vectors
from ctxr.data.records import Facts, Image, ImageSet, LedgerRow, Shot, Source
from ctxr.data.tables import decode_other, encode_other, read_table, write_table
from ctxr.errors import DataError

SOURCES = "sources"
"""Folder of the units inside an artifact."""

IMAGES = "images"
"""Folder of the images that are in a set: `images/<set>/imgN.jpg`, `images/<album>/<file>`."""

DROPPED = "dropped"
"""Folder of frames that were measured and are in no set: `dropped/<source>/imgN.jpg`."""


class Stamp(msgspec.Struct, frozen=True):
    """What a unit is the result of; a key differs as soon as anything differs that could change the part it stands for.

    Attributes:
        scan: of decoding, shots, sampling and embedding: ledger columns that cost time.
        select: of picking and quality: which frames became sets.
        measures: how each fact was measured, by fact.
    """

    scan: str
    select: str
    measures: dict[str, str]


class _Head(msgspec.Struct, frozen=True):
    stamp: Stamp
    source: Source


@dataclass(frozen=True)
class Unit:
    """Everything one source gave. `vectors` [N, D] and `exact` [M, D] are addressed by ledger rows."""

    stamp: Stamp
    source: Source
    shots: list[Shot]
    ledger: list[LedgerRow]
    facts: list[Facts]
    sets: list[ImageSet]
    images: list[Image]
    vectors: Vectors
    exact: Vectors
    folder: Path | None = field(default=None, compare=False)


def unit_folder(artifact: Path, name: str) -> Path:
    """Where the unit of the source `name` lies."""
    return artifact / SOURCES / name


def read_stamp(artifact: Path, name: str) -> Stamp | None:
    """The stamp of a finished unit; None if it is not there. A damaged head counts as not there: it is made again."""
    try:
        content = (unit_folder(artifact, name) / "source.json").read_bytes()
        return msgspec.json.decode(content, type=_Head, dec_hook=decode_other).stamp
    except (OSError, msgspec.DecodeError):
        return None


def read_unit(artifact: Path, name: str) -> Unit:
    """A finished unit; vectors are memory-mapped. Raises DataError naming what is missing or damaged."""
    folder = unit_folder(artifact, name)
    head = folder / "source.json"
    try:
        decoded = msgspec.json.decode(head.read_bytes(), type=_Head, dec_hook=decode_other)
    except OSError as error:
        raise DataError(f"{head} is missing", hint="run the command that makes this artifact again") from error
    except msgspec.DecodeError as error:
        raise DataError(f"{head} is damaged: {error}", hint=f"delete {folder} and run its command again") from error
    return Unit(
        stamp=decoded.stamp,
        source=decoded.source,
        shots=read_table(folder / "shots.jsonl", Shot),
        ledger=read_table(folder / "ledger.jsonl", LedgerRow),
        facts=read_table(folder / "facts.jsonl", Facts),
        sets=read_table(folder / "sets.jsonl", ImageSet),
        images=read_table(folder / "images.jsonl", Image),
        vectors=load_vectors(folder / "embeddings.npy"),
        exact=load_vectors(folder / "exact.npy"),
        folder=folder,
    )


def write_unit(artifact: Path, unit: Unit) -> None:
    """Write a unit and put it in place by one rename."""
    final = unit_folder(artifact, unit.source.name)
    making = final.with_name(f".{final.name}.making")
    with disk_errors(making):
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
    head = msgspec.json.encode(_Head(unit.stamp, unit.source), enc_hook=encode_other)
    write_table(making / "shots.jsonl", unit.shots)
    write_table(making / "ledger.jsonl", unit.ledger)
    write_table(making / "facts.jsonl", unit.facts)
    write_table(making / "sets.jsonl", unit.sets)
    write_table(making / "images.jsonl", unit.images)
    save_vectors(making / "embeddings.npy", unit.vectors)
    save_vectors(making / "exact.npy", unit.exact)
    write_bytes(making / "source.json", msgspec.json.format(head, indent=1) + b"\n")
    replace_folder(making, final)


def merge_units(artifact: Path, units: Iterable[Unit]) -> list[str]:
    """Write the artifact's own tables from its units; returns their names, and the units' files, for the manifest."""
    listed = sorted(units, key=lambda unit: unit.source.name)
    write_table(artifact / "sources.jsonl", [unit.source for unit in listed])
    write_table(artifact / "shots.jsonl", [row for unit in listed for row in unit.shots])
    write_table(artifact / "facts.jsonl", [row for unit in listed for row in unit.facts])
    write_table(artifact / "sets.jsonl", [row for unit in listed for row in unit.sets])
    # a photo of one album can be a neighbour in a set of another: both units list it, the same
    images = {row.id: row for unit in listed for row in unit.images}
    write_table(artifact / "images.jsonl", images.values())
    own = ["sources.jsonl", "shots.jsonl", "facts.jsonl", "sets.jsonl", "images.jsonl"]
    parts = ["source.json", "ledger.jsonl", "embeddings.npy", "exact.npy"]
    return own + [f"{SOURCES}/{unit.source.name}/{part}" for unit in listed for part in parts]


def tidy(artifact: Path, units: Mapping[str, Unit]) -> None:
    """Remove what earlier runs left: units of sources that are gone, images that no table names, half-made folders."""
    wanted = {image.path for unit in units.values() for image in unit.images}
    wanted |= {fact.path for unit in units.values() for fact in unit.facts}
    with disk_errors(artifact):
        for leftover in [*(artifact / SOURCES).glob("*"), *artifact.glob(".*.part")]:
            if leftover.parent == artifact or leftover.name not in units:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        for top in (IMAGES, DROPPED):
            for folder in sorted((artifact / top).glob("*")):
                for file in folder.iterdir():
                    if f"{top}/{folder.name}/{file.name}" not in wanted:
                        file.unlink()
                if not any(folder.iterdir()):
                    folder.rmdir()
            if (artifact / top).is_dir() and not any((artifact / top).iterdir()):
                (artifact / top).rmdir()
