"""The artifact of revised labels: the dataset as it was given, and rounds of judgments beside it that can be taken back."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctxr.data.artifacts import (
    MANIFEST,
    Artifact,
    FileEntry,
    Parent,
    finish,
    open_artifact,
    refuse_strangers,
    take_manifest,
)
from ctxr.data.atomic import link_or_copy, write_bytes
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_bytes, sha256_file, sha256_of
from ctxr.data.readers import read_dataset
from ctxr.data.records import ImageSet, Judgment, Split
from ctxr.data.tables import encode_row, read_table, write_table
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.revising.records import RESTORE, VERB, Round
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.tasks_artifact import reached, relative

KIND = "dataset"

FOLDER = "revised"
"""Folder of a project that holds the artifact."""

JUDGMENTS, GIVEN, ROUNDS = "judgments.jsonl", "given.jsonl", "rounds.jsonl"

LEDGER, SAMPLE, STRATA, ALSO, FIGURES = "ledger.jsonl", "sample.jsonl", "strata.jsonl", "also.jsonl", "figures.json"
"""Files of a round, beside its judgments."""

RELEASED = ("sets", "images", "texts", "queries", "splits")
"""Tables that are written of a published release, which has none of ours."""


@dataclass(frozen=True)
class Base:
    """What is revised.

    Attributes:
        path: folder or file that it was read from. kind, sha256: of the artifact by its manifest, or of a release by its rows.
        tables: files of the manifest with their hashes; None of a release.
    """

    dataset: Dataset
    path: Path
    kind: str
    sha256: str
    tables: Mapping[str, FileEntry] | None

    @property
    def names(self) -> list[str]:
        """Its tables in the artifact of revised labels, but for the judgments."""
        if self.tables is None:
            return [f"{name}.jsonl" for name in RELEASED]
        return [name for name in self.tables if name != JUDGMENTS]

    @property
    def content(self) -> str:
        """SHA-256 over what its tables hold, whenever they were written."""
        if self.tables is None:
            return self.sha256
        return sha256_of(sorted((name, entry.sha256) for name, entry in self.tables.items()))


def open_base(path: Path) -> Base:
    """The dataset at `path`: an artifact or a published release. Raises what `read_dataset` raises, UsageError for one that is
    itself revised, DataError for an artifact that was changed."""
    if not (path / MANIFEST).is_file():
        dataset = read_dataset(path)
        return Base(dataset, path, "release", rows_of(dataset), None)
    artifact = open_artifact(path)
    if artifact.manifest.verb == VERB:
        raise UsageError(f"{path} holds revised labels itself", hint="name the dataset that it was made from")
    if edited := artifact.changed_files():
        raise DataError(f"{path / edited[0]} was changed since it was written", hint="restore it, or make it again")
    return Base(read_dataset(path), path, artifact.manifest.kind, artifact.sha256, artifact.manifest.files)


def rows_of(dataset: Dataset) -> str:
    """SHA-256 over everything that a release says of its sets, pictures and captions."""
    parts = (dataset.sets, dataset.images.values(), dataset.texts.values(), dataset.queries.values(), dataset.judgments)
    return sha256_of([sha256_bytes(b"".join(sorted(map(encode_row, rows)))) for rows in parts])


def folder_of(number: int) -> str:
    """The folder of a round.

    >>> folder_of(3)
    'rounds/003'
    """
    return f"rounds/{number:03d}"


def read_rounds(out: Path) -> list[Round]:
    """The rounds of an artifact, by number; none where it is not there yet."""
    return read_table(out / ROUNDS, Round) if (out / ROUNDS).is_file() else []


def refuse_changed(out: Path) -> None:
    """Raises DataError where a file of a finished artifact of revised labels is not as it was written."""
    if not (out / MANIFEST).is_file() or not (out / ROUNDS).is_file():
        return
    if edited := open_artifact(out).changed_files():
        raise _changed(out, edited[0])


def newest_sample(workdir: Path) -> Path | None:
    """The pairs that people are to look at of the latest round in force of a project; None without any."""
    active = [one.number for one in read_rounds(workdir / FOLDER) if one.active]
    return workdir / FOLDER / folder_of(active[-1]) / SAMPLE if active else None


def sample_of(workdir: Path, named: Path | None) -> tuple[Path | None, Path | None]:
    """The table of pairs that people are to look at: the `named` one, or the newest sample of a project, or None; and the revised
    labels that it is the sample of, None where it is none. Raises DataError for labels that were changed since."""
    table = named or newest_sample(workdir)
    if table is None or table.name != SAMPLE:
        return table, None
    folder = table.resolve().parent.parent.parent
    if not (folder / ROUNDS).is_file():
        return table, None
    refuse_changed(folder)
    return table, folder


def base_of(out: Path) -> Path | None:
    """The folder that an artifact of revised labels was made from, called as `out` is; None without one."""
    if not (out / MANIFEST).is_file():
        return None
    artifact = open_artifact(out, KIND)
    if artifact.manifest.verb != VERB:
        raise UsageError(f"{out} is a dataset that ctxr {artifact.manifest.verb} wrote", hint="choose another --out")
    return reached(out, str(artifact.manifest.config["base"]))


def refuse_other_base(out: Path, base: Base) -> None:
    """Raises DataError where rounds were made from another dataset than `base` holds now."""
    if not read_rounds(out):
        return
    if (out / MANIFEST).is_file():
        manifest = open_artifact(out, KIND).manifest
        same = base.sha256 in {parent.sha256 for parent in manifest.parents} or _holds(base, manifest.files)
    else:  # stopped while a round was put in force
        given = (base.tables or {}).get(JUDGMENTS)
        same = given is None or ((out / GIVEN).is_file() and sha256_file(out / GIVEN) == given.sha256)
    if not same:
        raise DataError(
            f"{out} revises another dataset than {base.path} holds now",
            hint="--out ANOTHER revises this one, and leaves those rounds as they are",
        )


def _holds(base: Base, files: Mapping[str, FileEntry]) -> bool:
    """Whether all tables of a dataset are what they were, though it was made again."""
    tables = {GIVEN if name == JUDGMENTS else name: entry.sha256 for name, entry in (base.tables or {}).items()}
    return bool(tables) and all(name in files and files[name].sha256 == sha256 for name, sha256 in tables.items())


def add_round(
    out: Path,
    base: Base,
    made: Round,
    tables: Mapping[str, Iterable[Any]],
    files: Mapping[str, bytes],
    sets: Sequence[ImageSet],
    talk: Talk,
) -> Artifact:
    """Write a round, `JUDGMENTS` among its tables, and put it in force; the caller holds the folder. A kill leaves the rounds
    before it as they were.

    `sets` are those of a release, with distances that it does not tell."""
    refuse_strangers(out)
    refuse_changed(out)
    _put_base(out, base, sets, talk)
    folder = out / folder_of(made.number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        write_table(folder / name, rows)
    for name, content in files.items():
        write_bytes(folder / name, content)
    made = replace(made, judgments=sha256_file(folder / JUDGMENTS))
    return put_in_force(out, base, [*read_rounds(out), made])


def put_in_force(out: Path, base: Base, rounds: Sequence[Round]) -> Artifact:
    """Write the judgments that were given together with those of the active rounds, and the manifest.

    Lines that were given stay as they are, byte for byte. Raises DataError for a round whose judgments were changed.
    """
    for one in rounds:
        name = f"{folder_of(one.number)}/{JUDGMENTS}"
        if one.judgments and not ((out / name).is_file() and sha256_file(out / name) == one.judgments):
            raise _changed(out, name)
    take_manifest(out)
    write_table(out / ROUNDS, rounds)
    rows = read_table(out / GIVEN, Judgment)
    for one in rounds:
        if one.active:
            rows += read_table(out / folder_of(one.number) / JUDGMENTS, Judgment)
    counts = {"rounds": len(rounds), "active": sum(one.active for one in rounds)}
    counts["judgments"] = write_table(out / JUDGMENTS, rows)
    counts["added"] = sum(one.added for one in rounds if one.active)
    files = [*base.names, JUDGMENTS, GIVEN, ROUNDS]
    files += [f"{folder_of(one.number)}/{file.name}" for one in rounds for file in _files(out, one)]
    judges = [Parent(one.classifier, "classifier", one.classifier_fingerprint) for one in rounds]
    return finish(
        out,
        kind=KIND,
        verb=VERB,
        config={"base": relative(base.path, out)},
        parents=[Parent(base.path.resolve().name, base.kind, base.sha256), *dict.fromkeys(judges)],
        counts=counts,
        models={},
        files=sorted(files),
    )


def refuse_unknown(rounds: Sequence[Round], number: int) -> None:
    """Raises UsageError for a number that no round has; 0 names none."""
    there = ", ".join(f"{one.number} ({'in force' if one.active else 'taken back'})" for one in rounds)
    if number not in (0, *(one.number for one in rounds)):
        raise UsageError(f"there is no round {number}", hint=f"--round N; the rounds are {there}")


def turn(out: Path, base: Base, number: int, active: bool, again: Callable[..., str]) -> Round:
    """Take a round back, or put it in force again; 0 is the latest that can be. Nothing of it is deleted. `again` makes commands
    about the same rounds of some words.

    Raises UsageError where there is no such round, or it is so already, DataError where a file was changed since it was written.
    """
    refuse_changed(out)
    refuse_unknown(rounds := read_rounds(out), number)
    fitting = [one for one in rounds if one.active != active and number in (0, one.number)]
    if not fitting:
        what = f"round {number}" if number else "every round" if len(rounds) > 1 else "the only round"
        other = again(f"--{'undo' if active else 'redo'}", "--round", str(number or rounds[-1].number))
        state = "in force" if active else "taken back"
        raise UsageError(f"{what} is {state} already", hint=f"nothing to do; the other way: {other}")
    turned = replace(fitting[-1], active=active)
    put_in_force(out, base, [turned if one.number == turned.number else one for one in rounds])
    return turned


def _changed(out: Path, name: str) -> DataError:
    return DataError(f"{out / name} was changed since it was written", hint=RESTORE)


def _files(out: Path, made: Round) -> list[Path]:
    return sorted(file for file in (out / folder_of(made.number)).iterdir() if file.is_file())


def _put_base(out: Path, base: Base, sets: Sequence[ImageSet], talk: Talk) -> None:
    """Every table and picture of the dataset, linked where the file system can; its judgments as those that were given."""
    dataset = base.dataset
    if base.tables is None:
        splits = [Split(group, side) for group, side in dataset.splits.items()]
        rows: tuple[Iterable[Any], ...] = (
            sets, dataset.images.values(), dataset.texts.values(), dataset.queries.values(), splits
        )  # fmt: skip
        for name, held in zip(RELEASED, rows, strict=True):
            write_table(out / f"{name}.jsonl", held)
    for name in base.names if base.tables is not None else ():
        _link(base.path / name, out / name)
    if JUDGMENTS in (base.tables or {}):
        _link(base.path / JUDGMENTS, out / GIVEN)
    else:
        write_table(out / GIVEN, dataset.judgments)
    root = dataset.root or base.path
    paths = sorted({image.path for image in dataset.images.values() if image.path})
    with talk.progress("pictures", len(paths)) as task:
        for path in paths:
            _link(root / path, out / path)
            task.advance()


def _link(original: Path, copy: Path) -> None:
    if not original.is_file():
        raise DataError(f"{original} is gone", hint="restore it, or make the dataset again")
    if copy.is_file() and copy.samefile(original):
        return
    link_or_copy(original, copy)
