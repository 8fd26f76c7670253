"""Revised labels: rounds of judgments beside the given dataset, with their samples and audits; each can be undone."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import picture_parents
from ctxr.datasets.open import dataset_identity, read_dataset
from ctxr.engine.options import Options
from ctxr.engine.progress import Progress
from ctxr.engine.stage import Inputs, Stage
from ctxr.errors import DataError, UsageError
from ctxr.store.artifacts import (
    MANIFEST,
    RESTORE,
    Artifact,
    Content,
    FileEntry,
    Parent,
    open_artifact,
    picked_with,
    take_manifest,
)
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file, sha256_if_readable, sha256_of
from ctxr.store.kinds import DATASET, RELEASE, REVISE_LABELS
from ctxr.store.paths import reached, relative
from ctxr.store.records import ImageSet, Judgment, Record
from ctxr.store.tables import grouped, read_table, read_value, write_table

Decision = Literal["added", "rejected", "unsure"]
Reason = Literal["below_threshold", "cap_image", "cap_caption", "between_thresholds", "no_answer"]
CAPPED: tuple[Reason, ...] = ("cap_image", "cap_caption")
"""Reasons of pairs that are entailed and were left out by a cap."""

Direction = Literal["image", "caption", "both"]
ThresholdFrom = Literal["classifier", "given", "dev", "audit"]


class Round(Record, frozen=True):
    """One revision of the labels.

    Attributes:
        number: from 1; of its judgments too. active: they count; an undone round keeps its files.
        by, classifier: the retriever and the judge, with their fingerprints.
        threshold: lowest probability of a pair that counts as entailed, chosen for the precision `wanted` on dev; `precision` (with
            its exact interval of 95 %), `recall` and the number of pairs `called` are those on dev.
        candidates: pairs that were judged. added: became weak positives. capped: entailed, and left out by a cap.
        leaked: images that the classifier was trained on.
        decides: hash over everything that decided it. judgments: SHA-256 of its table of judgments.
        judges: fingerprints of the judges of a cascade, in order; () for one judge.
        unsure: pairs from `unsure_below` to the threshold, neither entailed nor rejected.
        splits: of the sets that it judged, "" for none.
        pending: pairs of valid and test that a judge called entailed, and that do not count because no licence covers them.
        licence: the audit that licensed it, in words; "" for none. refused: why a later audit refused the judge, "" for none: the
            round then counts on train alone. unlicensed: it counts without a licence.
    """

    KEY: ClassVar[tuple[str, ...]] = ("number",)

    number: int
    active: bool
    by: str
    by_fingerprint: str
    classifier: str
    classifier_fingerprint: str
    threshold: float
    threshold_from: ThresholdFrom
    images: int
    candidates: int
    added: int
    capped: int
    leaked: int
    decides: str
    wanted: float | None = None
    precision: float | None = None
    recall: float | None = None
    called: int | None = None
    precision_low: float | None = None
    precision_high: float | None = None
    judgments: str = ""
    judges: tuple[str, ...] = ()
    unsure_below: float | None = None
    unsure: int = 0
    pending: int = 0
    licence: str = ""
    refused: str = ""
    unlicensed: bool = False
    toy: bool = False
    splits: tuple[str, ...] = ()


class CandidateRow(Record, frozen=True):
    """The decision on a candidate: does an image, with its captions, entail a caption of another?

    Attributes:
        caption: id of the query. source: retrieval model, whose score this is.
        direction: whether it was among the best captions of the image, the best images of the caption, or both.
        rank: there, from 1 (of the image where both), without pairs that were given or that earlier rounds decided.
        probability: of entailment, 0..1, by the judge with this fingerprint; None where it gave no answer.
        reason: why it was not added. leaked: whether the classifier was trained on the image.
    """

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    source: str
    direction: Direction
    rank: int
    score: float
    probability: float | None
    decision: Decision
    classifier: str
    reason: Reason | None = None
    leaked: bool = False


class SetConflict(Record, frozen=True):
    """A description of `images` that, by the classifier, also holds for another image of its set; people should check it."""

    KEY: ClassVar[tuple[str, ...]] = ("caption", "image")

    caption: str
    image: str
    image_set: str
    images: tuple[str, ...]
    text: str
    probability: float


class AuditSample(Record, frozen=True):
    """A pair of the audit's sample, and the stratum it stands for (`stratum_of`): its candidates, and how many were drawn."""

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    stratum: str
    decision: Decision
    population: int
    sampled: int
    probability: float | None
    rank: int


class AuditVerdict(Record, frozen=True):
    """What people decided of a pair of the sample: whether the image with its captions entails the caption."""

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    stratum: str
    decision: Decision
    entailed: bool


COMMAND = f"ctxr {REVISE_LABELS}"

FOLDER = "revised"
JUDGMENTS, GIVEN, ROUNDS = "judgments.jsonl", "given.jsonl", "rounds.jsonl"

LEDGER, SAMPLE, STRATA = "ledger.jsonl", "sample.jsonl", "strata.jsonl"
CONFLICTS, FIGURES = "also.jsonl", "figures.json"


@dataclass(frozen=True)
class RevisionBase:
    """What is revised: where it is read from, `kind` and `sha256` of an artifact by its manifest or of a release by its files, the
    manifest's files; None of a release, which has its pictures instead."""

    path: Path
    kind: str
    sha256: str
    tables: Mapping[str, FileEntry] | None
    pictures: tuple[Parent, ...] = ()

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset. Raises what `read_dataset` raises."""
        return read_dataset(self.path).of_sets(COMMAND)

    @property
    def names(self) -> list[str]:
        """Names of its tables in the artifact of revised labels, but for the judgments."""
        if self.tables is None:
            # what is written of a published release, which has no tables of ours
            return [f"{name}.jsonl" for name in self.dataset.tables() if name != "judgments"]
        return [name for name in self.tables if name != JUDGMENTS]

    @property
    def content(self) -> str:
        """SHA-256 over what its tables hold, whenever they were written, and over the pictures of a release."""
        if self.tables is None:
            return sha256_of([self.sha256, *(parent.sha256 for parent in self.pictures)])
        return sha256_of(sorted((name, entry.sha256) for name, entry in self.tables.items()))


def open_base(path: Path, workdir: Path, progress: Progress) -> RevisionBase:
    """The dataset at `path`, an artifact or a release, whose tables are not read yet. Raises UsageError where nothing is recognised, and
    for one that is itself revised, DataError for an artifact that was changed."""
    if not (path / MANIFEST).is_file():
        release = dataset_identity(path)
        return RevisionBase(
            path, RELEASE, release.sha256, None, tuple(picture_parents(path, release, workdir, progress))
        )
    artifact = open_artifact(path)
    if artifact.manifest.verb == REVISE_LABELS:
        raise UsageError(f"{path} holds revised labels itself", hint="name the dataset that it was made from")
    artifact.refuse_changed()
    return RevisionBase(path, artifact.manifest.kind, artifact.sha256, artifact.manifest.files)


def folder_of(number: int) -> str:
    """The folder of a round, such as `rounds/003`."""
    return f"rounds/{number:03d}"


def read_rounds(out: Path) -> list[Round]:
    """The rounds of an artifact, by number; none where it is not there yet."""
    return read_table(out / ROUNDS, Round) if (out / ROUNDS).is_file() else []


def label_notes(out: Path) -> list[str]:
    """A note for each active round that a toy judged, or that counts without a licence."""
    free = ", which count without a licence (--unlicensed)"
    return [
        f"labels of round {row.number} by {row.classifier}{', a toy' * row.toy}{free * row.unlicensed}"
        for row in read_rounds(out)
        if row.active and (row.toy or row.unlicensed)
    ]


def refuse_changed_rounds(out: Path) -> None:
    """Raises DataError where a file of finished revised labels was changed."""
    if (out / MANIFEST).is_file() and (out / ROUNDS).is_file():
        open_artifact(out).refuse_changed()


def newest_sample(workdir: Path) -> Path | None:
    """The audit sample of the latest active round of a project; None without any."""
    active = [row.number for row in read_rounds(workdir / FOLDER) if row.active]
    return workdir / FOLDER / folder_of(active[-1]) / SAMPLE if active else None


def labels_of_sample(table: Path) -> Path | None:
    """The revised labels that a table of pairs was drawn from; None for any other table. Raises DataError for changed labels."""
    folder = table.resolve().parent.parent.parent
    if table.name != SAMPLE or not (folder / ROUNDS).is_file():
        return None
    refuse_changed_rounds(folder)
    return folder


def base_of(out: Path) -> Path | None:
    """The folder that an artifact of revised labels was made from, called as `out` is; None without one."""
    if not (out / MANIFEST).is_file():
        return None
    artifact = open_artifact(out, DATASET)
    if artifact.manifest.verb != REVISE_LABELS:
        raise UsageError(f"{out} is a dataset that ctxr {artifact.manifest.verb} wrote", hint="choose another --out")
    return reached(out, artifact.manifest.counts["base"])


def refuse_other_base(out: Path, base: RevisionBase) -> None:
    """Raises DataError where rounds were made from another dataset than `base` holds now."""
    if not read_rounds(out):
        return
    if (out / MANIFEST).is_file():
        manifest = open_artifact(out, DATASET).manifest
        # a dataset that was made again may hold the same tables
        tables = {GIVEN if name == JUDGMENTS else name: entry for name, entry in (base.tables or {}).items()}
        equal = bool(tables) and all(
            name in manifest.files and manifest.files[name].sha256 == entry.sha256 for name, entry in tables.items()
        )
        made_from = {parent.sha256 for parent in manifest.parents}
        same = equal or {base.sha256, *(parent.sha256 for parent in base.pictures)} <= made_from
    else:  # stopped while a round was put in force
        entry = (base.tables or {}).get(JUDGMENTS)
        same = entry is None or ((out / GIVEN).is_file() and sha256_file(out / GIVEN) == entry.sha256)
    if not same:
        raise DataError(
            f"{out} revises another dataset than {base.path} holds now",
            hint="--out ANOTHER revises this one, and leaves those rounds as they are",
        )


@dataclass(frozen=True)
class RoundInputs(Inputs):
    """The rounds as they are to be, but for one that is still to be made."""

    rounds: tuple[Round, ...]


def parents_of(base: RevisionBase, rounds: Sequence[Round]) -> list[Parent]:
    """The dataset, the pictures of a release, and the judges of rounds."""
    judges = (Parent(row.classifier, "classifier", row.classifier_fingerprint) for row in rounds)
    return [Parent(base.path.resolve().name, base.kind, base.sha256), *base.pictures, *dict.fromkeys(judges)]


class Rounds(Stage[RoundInputs]):
    """Set which rounds of revised labels count, and what of them: `changed` are rounds as they are to be, by number."""

    KIND = DATASET
    IN_PLACE = True

    def __init__(self, options: Options, base: RevisionBase, changed: Mapping[int, Round]) -> None:
        super().__init__(options)
        self.base, self.changed = base, changed

    def inputs(self, progress: Progress) -> RoundInputs:
        """The dataset, the judges, and the rounds."""
        rounds = read_rounds(self.out())
        wanted = tuple(self.changed.get(row.number, row) for row in rounds)
        return RoundInputs(parents_of(self.base, wanted), {"base": self.base.content}, wanted)

    def pending(self, artifact: Artifact, inputs: RoundInputs) -> bool:
        """Whether the rounds are not yet as they are to be."""
        return read_rounds(artifact.path) != [*inputs.rounds]

    def write(self, inputs: RoundInputs, out: Path, progress: Progress) -> Content:
        """See `put_in_force`."""
        refuse_changed_rounds(out)
        self.announce(progress, pairs=sum(row.added for row in self.changed.values()))
        return put_in_force(out, self.base, inputs.rounds)


def put_in_force(out: Path, base: RevisionBase, rounds: Sequence[Round]) -> Content:
    """Write the table of rounds and all judgments that count, given ones first. Raises DataError for a changed file."""
    refuse_changed_rounds(out)
    for row in rounds:
        name = f"{folder_of(row.number)}/{JUDGMENTS}"
        if sha256_if_readable(out / name) != row.judgments:
            raise DataError(f"{out / name} was changed since it was written", hint=RESTORE)
    take_manifest(out)
    write_table(out / ROUNDS, rounds)
    rows = read_table(out / GIVEN, Judgment)
    for row in rounds:
        if row.active:
            rows += counted_judgments(out, row, base.dataset)
    counts: dict[str, Any] = {"rounds": len(rounds), "active": sum(row.active for row in rounds)}
    counts["judgments"] = write_table(out / JUDGMENTS, rows)
    counts["added"] = sum(row.added for row in rounds if row.active)
    counts["base"] = relative(base.path, out)
    files = [*base.names, JUDGMENTS, GIVEN, ROUNDS]
    for row in rounds:
        folder = folder_of(row.number)
        files += [f"{folder}/{file.name}" for file in (out / folder).iterdir() if file.is_file()]
    return Content(sorted(files), counts, picked_with(base.path), parents_of(base, rounds))


def counted_judgments(out: Path, row: Round, dataset: Dataset) -> list[Judgment]:
    """What a round says that counts; of one whose judge was refused later, on train alone."""
    rows = read_table(out / folder_of(row.number) / JUDGMENTS, Judgment)
    train = {one.id for one in dataset.sets if dataset.split_of(one) == "train"} if row.refused else set()
    return [one for one in rows if not row.refused or dataset.queries[one.query].image_set in train]


def write_round(out: Path, row: Round, tables: Mapping[str, Iterable[Record]], files: Mapping[str, bytes]) -> Round:
    """Write the files of a round, `JUDGMENTS` among its tables; the round with their hash."""
    folder = out / folder_of(row.number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        write_table(folder / name, rows)
    for name, content in files.items():
        write_bytes(folder / name, content)
    return structs.replace(row, judgments=sha256_file(folder / JUDGMENTS))


def refuse_unknown(rounds: Sequence[Round], number: int) -> None:
    """Raises UsageError for a number that no round has; 0 names none."""
    if number not in (0, *(row.number for row in rounds)):
        listed = ", ".join(f"{row.number} ({'active' if row.active else 'undone'})" for row in rounds)
        raise UsageError(f"there is no round {number}", hint=f"--round N; the rounds are {listed}")


def to_switch(rounds: Sequence[Round], number: int, active: bool, command: Callable[..., str]) -> Round:
    """The round to undo or redo; 0 is the latest possible. `command` makes one about the same rounds from some words.

    Raises UsageError for an unknown round and for one that is in that state already.
    """
    refuse_unknown(rounds, number)
    fitting = [row for row in rounds if row.active != active and number in (0, row.number)]
    if not fitting:
        what = f"round {number}" if number else "every round" if len(rounds) > 1 else "the only round"
        reverse = command(f"--{'undo' if active else 'redo'}", "--round", str(number or rounds[-1].number))
        state = "active" if active else "undone"
        raise UsageError(f"{what} is {state} already", hint=f"nothing to do; the reverse: {reverse}")
    return fitting[-1]


def link_base(out: Path, base: RevisionBase, sets: Sequence[ImageSet], progress: Progress) -> None:
    """Every table and picture of the dataset, linked where the file system can; its judgments as those that were given. `sets` are
    those of a release, completed with their distances."""
    dataset = base.dataset
    tables = {**dataset.tables(), "sets": sets}
    for name in base.names:
        if base.tables is None:
            write_table(out / name, tables[name.removesuffix(".jsonl")])
        else:
            _link(base.path / name, out / name)
    if JUDGMENTS in (base.tables or {}):
        _link(base.path / JUDGMENTS, out / GIVEN)
    else:
        write_table(out / GIVEN, dataset.judgments)
    root = dataset.root or base.path
    paths = sorted({image.path for image in dataset.images.values() if image.path})
    for path in progress.each("linking pictures", paths):
        _link(root / path, out / path)


def _link(original: Path, copy: Path) -> None:
    if not original.is_file():
        raise DataError(f"{original} is gone", hint="restore it, or make the dataset again")
    if not (copy.is_file() and copy.samefile(original)):
        link_or_copy(original, copy)


LOOKED = "looked.jsonl"

AUDITS = "revision-audit"


def stratum_of(link: CandidateRow) -> str:
    """The stratum of a candidate in words: its decision, its band of probability, its band of rank.

    >>> stratum_of(CandidateRow("i", "c", "m", "image", 12, 0.3, 0.95, "added", "f"))
    'added, p 0.9 to 1, rank above 10'
    """
    done = "capped" if link.reason in CAPPED else link.decision
    rank = "rank up to 10" if link.rank <= 10 else "rank above 10"
    if link.probability is None:
        return f"{done}, p unknown, {rank}"
    edges = (0.0, 0.1, 0.5, 0.9, 1.0)
    band = int(np.searchsorted(edges[1:-1], link.probability, side="right"))
    return f"{done}, p {edges[band]:g} to {edges[band + 1]:g}, {rank}"


def read_figures(folder: Path, cure: str = "restore it, or revise again") -> dict[str, Any]:
    """The figures of a round, or of its audit. Raises DataError if missing or damaged."""
    return read_value(folder / FIGURES, dict[str, Any], cure)


def read_audit(folder: Path) -> dict[str, Any] | None:
    """The figures of an audit; None without one. Raises DataError if damaged."""
    return read_figures(folder, "ctxr revise-labels --audit") if (folder / FIGURES).is_file() else None


def written_for(dataset: Dataset) -> dict[str, list[str]]:
    """The captions that were written for each image, by image, in the order of their ids."""
    positive = (row for row in dataset.judgments if row.worker == "gold" and row.value > 0)
    pairs = [(row.candidate, dataset.queries[row.query]) for row in sorted(positive, key=Judgment.key)]
    return grouped((image, dataset.text_of(one)) for image, one in pairs if one.labels is None)
