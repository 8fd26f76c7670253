"""Votes as they were cast: every pick of an image, in the order of submission, with what it was cast on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import retrieve
from ctxr.metrics.votes import Votes, gather
from ctxr.pipelines.tasks_artifact import Answered


@dataclass(frozen=True)
class RetrieverPick:
    """One retriever's pick.

    Attributes:
        picked: image id. right: whether it is the target. position: in the set's own order, from 0.
        place: where it was shown, from 0. target: where the target was shown. first: the first vote on its unit.
        kind: `video` or `photos`. describer: who wrote the description.
    """

    unit: Unit
    answer: Answer
    picked: str
    right: bool
    position: int
    place: int
    target: int
    first: bool
    kind: str
    describer: str

    @property
    def worker(self) -> str:
        """Who picked."""
        return self.answer.worker


def picks_of(answered: Answered) -> list[RetrieverPick]:
    """Every pick on a description whose target is known, by unit and time; checks of the workers are none."""
    found: list[RetrieverPick] = []
    seen: set[str] = set()
    for answer in sorted(answered.answers, key=lambda one: (one.unit, one.at, one.worker)):
        unit = answered.units[answer.unit]
        if unit.task != "retrieve" or unit.purpose != "work" or not unit.truth:
            continue
        (picked,), (target,) = answer.values[retrieve.FIELD], unit.truth
        found.append(
            RetrieverPick(
                unit=unit,
                answer=answer,
                picked=picked,
                right=picked == target,
                position=unit.images.index(picked),
                place=answer.order.index(picked),
                target=answer.order.index(target),
                first=unit.id not in seen,
                kind=answered.sets[unit.image_set].kind,
                describer=unit.authors[0] if unit.authors else "",
            )
        )
        seen.add(unit.id)
    return found


def votes_on_images(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for image ids."""
    return gather([one.unit.id for one in picks], [one.worker for one in picks], [one.picked for one in picks])


def votes_on_positions(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for positions in the set, 0..K-1."""
    return gather([one.unit.id for one in picks], [one.worker for one in picks], [one.position for one in picks])


def of_kind(picks: Iterable[RetrieverPick], kind: str) -> list[RetrieverPick]:
    """The picks on one kind of set; `all` keeps them all."""
    return [one for one in picks if kind in ("all", one.kind)]
