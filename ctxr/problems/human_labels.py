"""What people said of pairs that a judge judged: answers of a project's workers, and audits of its rounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.rounds import (
    AUDIT,
    AUDITS,
    LOOKED,
    ROUNDS,
    STRATA,
    AuditSample,
    AuditVerdict,
    folder_of,
    read_rounds,
    refuse_changed_rounds,
)
from ctxr.datasets.truth import WORKER, Pair, judge_verdicts, read_verdicts, unsure_pairs
from ctxr.store.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.store.kinds import JUDGMENTS
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table

UNIT = "entail/"
"""What the ids of units begin with that ask whether a picture entails a caption: `entail/IMAGE/CAPTION`."""


@dataclass(frozen=True)
class AuditStratum:
    """The stratum of a pair: its round and name, how many pairs it holds, whether the classifier calls them entailed, and whether
    they are among the judged ones: what a cap left out is not, nor what it is unsure about."""

    name: str
    population: int
    called: bool
    judged: bool


@dataclass(frozen=True)
class HumanLabels:
    """The human verdicts on a project's rounds, and on other pairs.

    Attributes:
        answers: judgments of every worker who is not blocked, including those about units `entail/IMAGE/CAPTION`.
        looked: whether a pair (caption, image) of an audited sample is entailed, as its audit found.
        strata: the stratum of each sampled pair of an active round.
    """

    answers: tuple[Judgment, ...] = ()
    looked: Mapping[Pair, bool] = field(default_factory=dict)
    strata: Mapping[Pair, AuditStratum] = field(default_factory=dict)


def people_of(revised: Sequence[Path], workdir: Path) -> HumanLabels:
    """What lies in `judgments/` and `revision-audit/` beside revised labels, and in the project.

    Args:
        revised: folders that may hold rounds; without any, only answers to tasks of entailment are read, of the project.

    Raises DataError for artifacts that were changed and damaged tables.
    """
    rounds = [folder for folder in revised if (folder / ROUNDS).is_file()]
    strata: dict[Pair, AuditStratum] = {}
    for folder in rounds:
        refuse_changed_rounds(folder)
    for folder in rounds_in_force(rounds):
        if (folder / STRATA).is_file():
            for one in read_table(folder / STRATA, AuditSample):
                name, judged = f"{folder.name} {one.stratum}", not one.stratum.startswith(("capped", "unsure"))
                strata[one.caption, one.image] = AuditStratum(name, one.population, one.decision == "added", judged)
    answers: list[Judgment] = []
    audited: dict[Pair, bool] = {}
    for artifact in verdict_artifacts(revised, workdir):
        artifact.refuse_changed()
        if artifact.manifest.kind == AUDIT:
            table = read_table(artifact.path / LOOKED, AuditVerdict)
            audited |= {(one.caption, one.image): one.entailed for one in table}
        else:
            blocked = set(blocked_workers(artifact.path.parent))
            answers += [row for row in read_verdicts(artifact.path) if row.worker not in blocked]
    return HumanLabels(tuple(answers), audited, strata)


def verdict_artifacts(revised: Sequence[Path], workdir: Path) -> Iterator[Artifact]:
    """The artifacts that `people_of` reads: answers, and audits of rounds, beside revised labels and in the project."""
    rounds = [folder for folder in revised if (folder / ROUNDS).is_file()]
    for home in dict.fromkeys([*(folder.resolve().parent for folder in rounds), workdir.resolve()]):
        if (home / JUDGMENTS / MANIFEST).is_file():
            yield open_artifact(home / JUDGMENTS, JUDGMENTS)
        for manifest in sorted((home / AUDITS).glob(f"*/{MANIFEST}")) if rounds else ():
            yield open_artifact(manifest.parent, AUDIT)


def rounds_in_force(roots: Sequence[Path]) -> list[Path]:
    """Folders of the active rounds, by number. Raises DataError for a damaged table."""
    folders = []
    for root in dict.fromkeys(one.resolve() for one in roots):
        folders += [root / folder_of(row.number) for row in read_rounds(root) if row.active]
    return sorted(folders)


def decided(calls: Mapping[Pair, bool], judgments: Iterable[Judgment], people: HumanLabels) -> dict[Pair, bool]:
    """What people make of pairs that a classifier judged: as an audit found, else by majority. Ties decide nothing."""
    units = {f"{UNIT}{image}/{caption}": (caption, image) for caption, image in calls}
    votes: dict[Pair, dict[str, bool]] = {}
    for row in (*judgments, *people.answers):
        if row.worker == "gold" or row.worker.startswith(WORKER):
            continue
        pair = (row.query, row.candidate)
        if pair in calls:
            votes.setdefault(pair, {})[row.worker] = row.value > 0
        elif row.query in units and row.candidate == ENTAILMENT and not row.round:
            votes.setdefault(units[row.query], {})[row.worker] = row.value > 0
    counts = {pair: (sum(ballots.values()), len(ballots)) for pair, ballots in votes.items()}
    majorities = {pair: 2 * yes > of for pair, (yes, of) in counts.items() if 2 * yes != of}
    return majorities | {pair: entailed for pair, entailed in people.looked.items() if pair in calls}


Verdicts = tuple[Mapping[Pair, bool], frozenset[Pair]]
"""Whether judges call (query, candidate) pairs entailed, and the pairs of which they are unsure."""

NO_VERDICTS: Verdicts = {}, frozenset()


def verdicts_of(judgments: Sequence[Judgment], people: HumanLabels) -> Verdicts:
    """The verdicts of judges in their latest rounds; of people where judges are unsure."""
    unsure = unsure_pairs(judgments)
    # a vote for an image of a set is no verdict on whether the text holds for it
    answers = tuple(row for row in (*judgments, *people.answers) if row.query.startswith(UNIT))
    decisions = decided(dict.fromkeys(unsure, False), (), replace(people, answers=answers))
    return judge_verdicts(judgments) | decisions, unsure - decisions.keys()
