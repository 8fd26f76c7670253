"""How many sets, votes and people until intervals are this narrow or differences are told apart, by simulated studies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from typing import NamedTuple

import numpy as np

from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.engine.progress import Progress
from ctxr.errors import UsageError, plural
from ctxr.metrics import studies
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.metrics.studies import VoteModel
from ctxr.pipelines.crowd.config import Plan, StudySize
from ctxr.problems.drawing import Chart
from ctxr.store.tables import grouped

ALIKE = 0.7
"""Assumed correlation of votes on one description: at the accuracy of ImageCoDe they agree in 80 % of pairs, and its alpha is .795."""

OTHERS = 0.1
"""Assumed correlation of votes on one image set, and of one worker's."""

TARGETS = (1, 2, 3, 5, 8)
"""Descriptions of a set that are compared, beside those of the protocol."""

MOST_DESCRIPTIONS = 50_000

FEW_PEOPLE = 50
"""With fewer in a pilot, planned widths are off by more than a tenth now and then (`python -m bench studies`)."""


class Price(NamedTuple):
    """Cost in minor units of a currency, and hours of work."""

    cost: int
    hours: float


def model_of(config: Plan, right: float, pilot: Sequence[tuple[Unit, Answer]], notes: list[str]) -> VoteModel:
    """How votes depend on each other: by the option, or by a pilot, or assumed, which is added to `notes`. Raises UsageError for an
    agreement below that of chance."""
    if config.resolve is not None:
        notes.append(
            f"models are taken to be right on {config.model_accuracy:.0%}, and to find hard what people find hard"
        )
    notes.append(f"each person is taken to retrieve {config.per_submission} times (--per-submission)")
    if config.agreement is None and (measured := _measured(pilot, notes)) is not None:
        return replace(measured, right=right)
    if config.agreement is None:
        description = ALIKE
        agreement = 1 - 2 * (right - studies.both_right(right, ALIKE))
        notes.append(f"no description has two votes yet: votes on one are assumed to agree in {agreement:.0%} of pairs")
    else:
        least, most = (1 - 2 * (right - studies.both_right(right, alike)) for alike in (0.0, studies.MOST_ALIKE))
        if not least - 1e-9 <= config.agreement <= most + 1e-9:
            raise UsageError(
                f"two votes that are right with probability {right:.3g} agree in {least:.1%} of pairs by chance and in {most:.1%} at most, "
                f"not in {config.agreement:.1%}",
                hint=f"--agreement from {ceil(1000 * least) / 1000} to {int(1000 * most) / 1000}",
            )
        description = studies.tetrachoric(right, (config.agreement + 2 * right - 1) / 2)
    return VoteModel(right, description, min(OTHERS, description), min(OTHERS, 1 - description))


def _measured(pilot: Sequence[tuple[Unit, Answer]], notes: list[str]) -> VoteModel | None:
    """By the first two votes on each description; None without any description that has two."""
    oldest = sorted(pilot, key=lambda vote: (vote[1].at, vote[1].worker))
    of_unit = grouped((unit.id, (unit, answer)) for unit, answer in oldest if unit.task == "retrieve")
    votes = [vote for votes in of_unit.values() for vote in votes[:2]]
    marks = [task_of(unit).score(unit, answer).right for unit, answer in votes]
    units, sets = ([getattr(unit, name) for unit, _ in votes] for name in ("id", "image_set"))
    workers = [answer.worker for _, answer in votes]
    model = studies.model_of_votes(np.array([mark is True for mark in marks]), units, sets, workers)
    if model is not None and (people := len(set(workers))) < FEW_PEOPLE:
        notes.append(f"how much people differ is measured on only {people}; a pilot with {FEW_PEOPLE} is more reliable")
    return model


@dataclass(frozen=True)
class Frontier:
    """The sizes of a study that reach what is asked, one for each number of descriptions of a set.

    Attributes:
        price: of so many answers by task.
    """

    config: Plan
    model: VoteModel
    price: Callable[[Mapping[str, float]], Price]

    @cached_property
    def each(self) -> int:
        """Retrievals of a worker."""
        return self.config.work_in(self.config.per_submission, "retrieve")

    @cached_property
    def checks(self) -> float:
        """Answers to retrievals for one vote, checks of the worker included."""
        every = (self.config.gold_every, self.config.attention_every)
        return 1 + sum(1 / (answers - 1) for answers in every if answers)

    def sizes(self, progress: Progress) -> list[StudySize]:
        """By descriptions of a set. Raises UsageError where none is reached with `MOST_DESCRIPTIONS`, or nothing is kept."""
        if not 0 < self.model.right < 1:
            seen = (
                "every retrieval was right: an interval needs some"
                if self.model.right
                else "no retrieval was right: nothing"
            )
            raise UsageError(f"{seen} {'that are wrong' if self.model.right else 'is kept'}", hint="--right 0.735")
        found = []
        for targets in progress.each("simulate studies", sorted({*TARGETS, self.config.targets})):
            least = max(LEAST_CLUSTERS, self.each * (ceil(LEAST_CLUSTERS / targets) - 1) + 1)
            goals = [(self.config.target_ci, self.width), (self.config.resolve, self.resolved)]
            sets = [
                studies.least_sets(wanted / 100, partial(reached, targets), least, MOST_DESCRIPTIONS // targets)
                for wanted, reached in goals
                if wanted is not None
            ]
            needed = [one for one in sets if one is not None]
            if len(needed) == len(sets):
                found.append(self.size(targets, max(needed)))
        if not found:
            raise UsageError(
                f"more than {MOST_DESCRIPTIONS:,} descriptions would be needed",
                hint="both are in points: --target-ci 5, --resolve 3",
            )
        return found

    def size(self, targets: int, sets: int) -> StudySize:
        """What a study of that size takes and tells."""
        needed, most = self.config.votes("test")
        studied = [self._votes(targets, sets, most, rng) for rng in self._rounds()]
        full = self.config.full_share if most > needed else 0.0
        used = np.mean([(1 - full) * studies.votes_used(one.right, needed).mean() + full * most for one in studied])
        kept = np.mean([(one.right.sum(axis=-1) >= needed).mean() for one in studied])
        descriptions = sets * targets
        votes = descriptions * float(used) * self.checks
        people = max(ceil(votes / self.checks / self.each), targets * most)  # who sees a set once
        cost, hours = self.price({"describe": descriptions, "retrieve": votes})
        reached = 100 * self.width(targets, sets), 100 * self.resolved(targets, sets)
        return StudySize(
            targets, sets, descriptions, round(descriptions * float(kept)), round(votes), people, hours, cost, *reached
        )

    def width(self, targets: int, sets: int) -> float:
        """Of the interval of human accuracy over workers, on first votes."""
        studied = (self._votes(targets, sets, 1, rng) for rng in self._rounds())
        errors = [studies.standard_error(one.right.ravel().astype(float), one.workers.ravel()) for one in studied]
        return studies.width_of(float(np.mean(errors)))

    def resolved(self, targets: int, sets: int) -> float:
        """The difference of two models on the descriptions that are kept."""
        needed, most = self.config.votes("test")
        better = min(1.0, self.config.model_accuracy + (self.config.resolve or 0) / 100)
        found = []
        for rng in self._rounds():
            kept = self._votes(targets, sets, most, rng).right.sum(axis=-1) >= needed
            one, other = studies.simulate_runs(self.model, (self.config.model_accuracy, better), (sets, targets), rng)
            clusters, gains = int(kept.any(axis=1).sum()), (other.astype(float) - one)[kept]
            if clusters < LEAST_CLUSTERS:
                found.append(1.0)  # what is measured on next to no set resolves nothing
            else:
                found.append(studies.resolves(studies.standard_error(gains, np.nonzero(kept)[0]), clusters))
        return min(1.0, float(np.mean(found)))

    def _votes(self, targets: int, sets: int, votes: int, rng: np.random.Generator) -> studies.SimulatedVotes:
        return studies.simulate(self.model, sets, targets, votes, each=self.each, rng=rng)

    def _rounds(self) -> Iterator[np.random.Generator]:
        """Generators of simulated studies, the same for every size."""
        return (np.random.default_rng((self.config.seed, number)) for number in range(studies.ROUNDS))


def chart_of(sizes: Sequence[StudySize]) -> Chart:
    """Retrievals against image sets."""
    cells = {("", f"{one.sets} × {one.targets}"): Interval(one.votes) for one in reversed(sizes)}
    return Chart("retrievals", cells, "image sets × descriptions of each", scale=1)


def sentences(config: Plan, sizes: Sequence[StudySize]) -> Iterator[str]:
    """For the paper, about the study with as many descriptions of a set as the protocol says, else as few as possible."""
    if not sizes:
        return
    own = next((one for one in sizes if one.targets == config.targets), sizes[0])
    basis = f"With {own.sets:,} image sets and {plural(own.targets, 'description')} of each, about {own.kept:,} of which are kept,"
    if config.target_ci is not None:
        yield f"{basis} the 95 % interval of human accuracy is {own.width:.1f} points wide."
    if config.resolve is not None:
        yield (
            f"{basis} this benchmark resolves differences of {own.resolves:.1f} points between models (power {studies.POWER:g}, two-sided "
            f"test over image sets at .05)."
        )
