"""Whether a text holds for an image, by judges and people, and what queries learn from it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets import rounds
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import WORKER, Pair, judge_verdicts, read_verdicts
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.problems.queries import EvalQuery
from ctxr.store.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.store.kinds import AUDIT, JUDGMENTS
from ctxr.store.records import Judgment
from ctxr.store.tables import grouped, read_table

UNIT = "entail/"
"""What the ids of units begin with that ask whether a picture entails a caption: `entail/IMAGE/CAPTION`."""


@dataclass(frozen=True)
class AuditStratum:
    """A stratum of pairs by round and name: how many, whether the classifier calls them entailed, and whether they are judged: those
    that a cap left out are not, nor those that it is unsure about."""

    name: str
    population: int
    called: bool
    judged: bool


@dataclass(frozen=True)
class HumanLabels:
    """The human verdicts on a project's rounds, and on other pairs.

    Attributes:
        answers: judgments of every worker who is not blocked, including those about units `entail/IMAGE/CAPTION`.
        looked: whether a pair (caption, image) of an audited sample is entailed, by the audit.
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
    folders = [folder for folder in revised if (folder / rounds.ROUNDS).is_file()]
    strata: dict[Pair, AuditStratum] = {}
    for folder in folders:
        rounds.refuse_changed_rounds(folder)
    for folder in rounds_in_force(folders):
        if (folder / rounds.STRATA).is_file():
            for one in read_table(folder / rounds.STRATA, rounds.AuditSample):
                name, judged = f"{folder.name} {one.stratum}", not one.stratum.startswith(("capped", "unsure"))
                strata[one.caption, one.image] = AuditStratum(name, one.population, one.decision == "added", judged)
    answers: list[Judgment] = []
    audited: dict[Pair, bool] = {}
    for artifact in verdict_artifacts(revised, workdir):
        artifact.refuse_changed()
        if artifact.manifest.kind == AUDIT:
            table = read_table(artifact.path / rounds.LOOKED, rounds.AuditVerdict)
            audited |= {(one.caption, one.image): one.entailed for one in table}
        else:
            blocked = set(blocked_workers(artifact.path.parent))
            answers += [row for row in read_verdicts(artifact.path) if row.worker not in blocked]
    return HumanLabels(tuple(answers), audited, strata)


def verdict_artifacts(revised: Sequence[Path], workdir: Path) -> Iterator[Artifact]:
    """What `people_of` reads, beside revised labels and in the project: answers, and audits."""
    folders = [folder for folder in revised if (folder / rounds.ROUNDS).is_file()]
    for home in dict.fromkeys([*(folder.resolve().parent for folder in folders), workdir.resolve()]):
        if (home / JUDGMENTS / MANIFEST).is_file():
            yield open_artifact(home / JUDGMENTS, JUDGMENTS)
        for manifest in sorted((home / rounds.AUDITS).glob(f"*/{MANIFEST}")) if folders else ():
            yield open_artifact(manifest.parent, AUDIT)


def rounds_in_force(roots: Sequence[Path]) -> list[Path]:
    """Folders of the active rounds, by number. Raises DataError for a damaged table."""
    folders = []
    for root in dict.fromkeys(one.resolve() for one in roots):
        folders += [root / rounds.folder_of(row.number) for row in rounds.read_rounds(root) if row.active]
    return sorted(folders)


def decided(calls: Mapping[Pair, bool], judgments: Iterable[Judgment], people: HumanLabels) -> dict[Pair, bool]:
    """What people make of judged pairs: as an audit found, else the majority, ties left out."""
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


@dataclass(frozen=True)
class PairVerdicts:
    """Pairs (query, image) by whether judges call them entailed, and those about which no judge is sure."""

    entailed: Mapping[Pair, bool] = field(default_factory=dict)
    unsure: frozenset[Pair] = frozenset()


def verdicts_of(judgments: Sequence[Judgment], people: HumanLabels) -> PairVerdicts:
    """The verdicts of judges in their latest rounds; of people where judges are unsure."""
    told = judge_verdicts(judgments)
    sure = {pair: entailed for pair, entailed in told.items() if entailed is not None}
    unsure = frozenset(told.keys() - sure.keys())
    # a vote for an image of a set is not a verdict on whether the text holds for it
    answers = tuple(row for row in (*judgments, *people.answers) if row.query.startswith(UNIT))
    decisions = decided(dict.fromkeys(unsure, False), (), replace(people, answers=answers))
    return PairVerdicts(sure | decisions, unsure - decisions.keys())


def verdicts_in(dataset: Dataset, judgments: Path | None, workdir: Path) -> PairVerdicts:
    """The verdicts in a dataset's judgments and in further ones; of people where judges are unsure.

    Raises DataError where the table of further judgments does not exist, and for damaged ones.
    """
    rows = [*dataset.judgments, *(read_verdicts(judgments) if judgments else ())]
    folders = [one for one in (judgments, dataset.root) if one is not None]
    unsure = None in judge_verdicts(rows).values()
    return verdicts_of(rows, people_of(folders, workdir) if unsure else HumanLabels())


def none_entailed(dataset: Dataset) -> DataError:
    """What a recipe that wants weak positives says where there are none to learn from."""
    return DataError(
        f"the recipe wants weak positives, and nothing was found to be entailed in the train split of {dataset.name}",
        hint="ctxr revise-labels --entail --judge JUDGE   (the toy adds nothing to photos without --unlicensed); or --set weak=off",
    )


def with_weak_positives(
    queries: Sequence[EvalQuery], dataset: Dataset, anywhere: bool, verdicts: PairVerdicts, progress: Progress
) -> list[EvalQuery]:
    """Queries to learn from, with the images beside the target for which each was found to hold, and the unsure ones.

    They are those of its own set; `anywhere`, for training that draws from all sets, those of any set that is asked about.
    Raises DataError where no query has either.
    """
    positives = grouped(sorted(pair for pair, entails in verdicts.entailed.items() if entails))
    pool = {image for one in queries for image in one.images} if anywhere else None
    marked = [replace(one, weak=_beside(one, positives, pool)) for one in with_unsure(queries, verdicts, pool)]
    some = [len(one.weak) for one in marked if one.weak]
    if not some and not any(one.unsure for one in marked):
        raise none_entailed(dataset)
    progress.note(f"{sum(some)} weak positives of {len(some)} of {len(queries)} queries to train on")
    return marked


def with_unsure(queries: Sequence[EvalQuery], verdicts: PairVerdicts, pool: set[str] | None = None) -> list[EvalQuery]:
    """Queries with the images, of their own sets or of `pool`, about which no judge is sure."""
    unsure = grouped(sorted(verdicts.unsure))
    return [replace(one, unsure=_beside(one, unsure, pool)) for one in queries]


def _beside(one: EvalQuery, found: Mapping[str, Sequence[str]], pool: set[str] | None) -> tuple[str, ...]:
    targets = {one.images[position] for position in one.targets}
    near = {*one.images} if pool is None else pool
    return tuple(image for image in found.get(one.query, ()) if image in near and image not in targets)
