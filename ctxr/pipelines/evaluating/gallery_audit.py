"""What people said of pairs that a classifier judged, wherever a project keeps it: answers, and audits of its rounds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.data.artifacts import MANIFEST, Parent, open_artifact
from ctxr.data.records import Judgment
from ctxr.data.tables import read_table
from ctxr.data.weak_positives import WORKER, Pair, read_judgments
from ctxr.errors import DataError
from ctxr.pipelines.revising.auditing import AUDITS, KIND, LOOKED
from ctxr.pipelines.revising.records import AuditSample, AuditVerdict
from ctxr.pipelines.revising.rounds import ROUNDS, STRATA, folder_of, refuse_changed
from ctxr.pipelines.standing import blocked_workers
from ctxr.pipelines.tasks_artifact import JUDGMENTS

UNIT = "entail/"
"""What the ids of units begin with that ask whether a picture entails a caption: `entail/IMAGE/CAPTION`."""


R = TypeVar("R", bound=msgspec.Struct)


class _Round(msgspec.Struct):
    number: int
    active: bool = True


@dataclass(frozen=True)
class AuditStratum:
    """The stratum of a pair: its round and name, how many pairs it holds, whether the classifier calls them entailed, and whether
    they are among the judged ones: what a cap left out is not."""

    name: str
    population: int
    called: bool
    judged: bool


@dataclass(frozen=True)
class HumanLabels:
    """What people said about a project's rounds, and about pairs that no round judged.

    Attributes:
        answers: judgments of every worker who is not blocked, also those about units `entail/IMAGE/CAPTION`.
        looked: whether a pair (caption, image) of an audited sample is entailed, as its audit found.
        strata: of each pair of a sample of a round in force its stratum.
        parents: artifacts that it was read from.
    """

    answers: tuple[Judgment, ...] = ()
    looked: Mapping[Pair, bool] = field(default_factory=dict)
    strata: Mapping[Pair, AuditStratum] = field(default_factory=dict)
    parents: tuple[Parent, ...] = ()


def people_of(revised: Sequence[Path], workdir: Path) -> HumanLabels:
    """What lies in `judgments/` and `revision-audit/` beside revised labels, and in the project.

    Args:
        revised: folders that may hold rounds; without any, only answers to tasks of entailment are read, of the project.

    Raises DataError for artifacts that were changed and damaged tables.
    """
    rounds = [folder for folder in revised if (folder / ROUNDS).is_file()]
    homes = list(dict.fromkeys([*(folder.resolve().parent for folder in rounds), workdir.resolve()]))
    strata: dict[Pair, AuditStratum] = {}
    for folder in rounds:
        refuse_changed(folder)
    for folder in rounds_in_force(rounds):
        if (folder / STRATA).is_file():
            drawn = read_table(folder / STRATA, AuditSample)
            strata |= {(one.caption, one.image): _stratum(folder.name, one) for one in drawn}
    answers: list[Judgment] = []
    looked: dict[Pair, bool] = {}
    parents = []
    for home in homes:
        if (home / JUDGMENTS / MANIFEST).is_file():
            given = read_judgments(home / JUDGMENTS)
            if rounds or any(row.query.startswith(UNIT) for row in given):
                parents.append(_parent(home / JUDGMENTS, JUDGMENTS))
                blocked = set(blocked_workers(home))
                answers += [row for row in given if row.worker not in blocked]
        for folder in sorted((home / AUDITS).glob("*")) if rounds else ():
            if (folder / MANIFEST).is_file():
                parents.append(_parent(folder, KIND))
                looked |= {(one.caption, one.image): one.entailed for one in read_table(folder / LOOKED, AuditVerdict)}
    return HumanLabels(tuple(answers), looked, strata, tuple(parents))


def rounds_in_force(roots: Sequence[Path]) -> list[Path]:
    """Folders of the rounds in force, by number. Raises DataError for a damaged table."""
    found = []
    for root in dict.fromkeys(one.resolve() for one in roots):
        if (root / ROUNDS).is_file():
            found += [root / folder_of(one.number) for one in rows_of(root / ROUNDS, _Round) if one.active]
    return sorted(found)


def rows_of(file: Path, kind: type[R]) -> list[R]:
    """A table of a revision, as much of it as `kind` asks for. Raises DataError for a damaged one."""
    try:
        return msgspec.json.Decoder(kind).decode_lines(file.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{file} is damaged: {error}", hint="run ctxr revise-labels again") from error


def decided(said: Mapping[Pair, bool], judgments: Iterable[Judgment], people: HumanLabels) -> dict[Pair, bool]:
    """What people make of pairs that a classifier judged: as an audit found, else by majority. Ties decide nothing."""
    units = {f"{UNIT}{image}/{caption}": (caption, image) for caption, image in said}
    votes: dict[Pair, dict[str, bool]] = {}
    for row in (*judgments, *people.answers):
        if row.worker == "gold" or row.worker.startswith(WORKER):
            continue
        pair = (row.query, row.candidate)
        if pair in said:
            votes.setdefault(pair, {})[row.worker] = row.value > 0
        elif row.query in units and row.candidate == ENTAILMENT and not row.round:
            votes.setdefault(units[row.query], {})[row.worker] = row.value > 0
    counts = {pair: (sum(given.values()), len(given)) for pair, given in votes.items()}
    found = {pair: 2 * yes > of for pair, (yes, of) in counts.items() if 2 * yes != of}
    return found | {pair: entailed for pair, entailed in people.looked.items() if pair in said}


def _stratum(number: str, drawn: AuditSample) -> AuditStratum:
    capped = drawn.stratum.startswith("capped")
    return AuditStratum(f"{number} {drawn.stratum}", drawn.population, drawn.decision == "added", not capped)


def _parent(folder: Path, kind: str) -> Parent:
    artifact = open_artifact(folder, kind)
    if edited := artifact.changed_files():
        raise DataError(
            f"{folder / edited[0]} was changed since it was written",
            hint=f"restore it, or run ctxr {artifact.manifest.verb} again",
        )
    return Parent(f"{folder.parent.name}/{folder.name}", kind, artifact.sha256)
