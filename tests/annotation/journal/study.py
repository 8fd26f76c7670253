"""A small study for the tests of the journal: sets, units of every task, and values that answer a lease."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import select

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Lease, NoWork, WorkerState
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Purpose, TaskName, Unit
from ctxr.annotation.tasks import review
from ctxr.annotation.unit_factory import retrieve_unit
from ctxr.store.records import ImageSet, Query, SplitName, Text

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
PUBLISHED = Protocol(full_share=0.0)

_WORDS = [
    f"{first}{second}" for first in ("bar", "lom", "tri", "sev", "nok", "pel") for second in ("ta", "ru", "mi", "go")
]


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def image_sets(count: int, name: str = "s") -> list[ImageSet]:
    """Sets of four photos; every third one is a video."""
    return [
        ImageSet(
            id=f"{name}{number}",
            kind="video" if number % 3 == 2 else "photos",
            images=tuple(f"{name}{number}/p{place}" for place in range(4)),
            source=f"a{number}",
            group=f"g-{name}{number}",
            shot=None,
            closest=0.1,
            mean_distance=0.2,
        )
        for number in range(count)
    ]


def _unit(task: TaskName, name: str, image_set: ImageSet, **more: Any) -> Unit:
    return Unit(
        id=name, task=task, image_set=image_set.id, group=image_set.group, **{"images": image_set.images} | more
    )


def described(image_set: ImageSet, place: int = 0, split: SplitName | None = None) -> Unit:
    """A target to describe."""
    more = {"ordered": image_set.kind == "video", "split": split, "target": image_set.images[place]}
    return _unit("describe", f"describe-{image_set.id}-{place}", image_set, **more)


def retrieved(
    image_set: ImageSet,
    place: int = 0,
    split: SplitName | None = None,
    protocol: Protocol = PUBLISHED,
    author: str = "w-x",
) -> Unit:
    """A description to be found."""
    query = Query(f"q-{image_set.id}-{place}", image_set.id, ("t",))
    text = Text("t", "something that is on one of them", author)
    return retrieve_unit(image_set, query, [text], image_set.images[place], split, protocol=protocol)


def known(image_set: ImageSet, purpose: Purpose, place: int = 0) -> Unit:
    """A retrieval whose answer is known, to check workers with."""
    more = {"truth": (image_set.images[place],), "most": 10**6, "full": True, "purpose": purpose}
    return _unit("retrieve", f"{purpose}-{image_set.id}-{place}", image_set, texts=("a known one",), **more)


def tagged(image_set: ImageSet, votes: int, split: SplitName | None = None) -> Unit:
    """A description to be tagged by several."""
    asked = {"query": f"tag/{image_set.id}", "texts": ("a description",), "text_ids": ("t",)}
    more = {"split": split, "target": image_set.images[0], "labels": ("negation", "spatial")}
    return _unit("tag", f"tag-{image_set.id}", image_set, needed=votes, most=votes, **asked, **more)


def talked(image_set: ImageSet, place: int = 0, split: SplitName | None = None, talks: int = 1) -> Unit:
    """A photo to talk about."""
    photo = image_set.images[place]
    more = {"images": (photo,), "ordered": True, "split": split, "target": photo, "needed": talks, "most": talks}
    return _unit("dialogue", f"dialogue-{image_set.id}-{place}", image_set, **more)


def sentence(rng: random.Random) -> str:
    """Ten words that nobody wrote before."""
    return " ".join(rng.choices(_WORDS, k=10))


def values(unit: Unit, rng: random.Random, right: bool = True) -> dict[str, tuple[str, ...]]:
    """An answer to a unit; wrong where it can be."""
    if unit.task == "describe":
        return {"description": (sentence(rng),)}
    if unit.task == "tag":
        return {"tags": ("spatial",)}
    if unit.task == "review":
        return {"verdict": (review.KEEP,)}
    wrong: Sequence[str] = [image for image in unit.images if image not in unit.truth]
    return {"pick": (unit.truth[0] if right and unit.truth else rng.choice(wrong),)}


def leased(journal: Journal, worker: str, now: datetime = START, tasks: Sequence[str] | None = None) -> Lease:
    """A lease that the test cannot do without."""
    lease = journal.lease(worker, now, tasks)
    assert isinstance(lease, Lease), lease
    return lease


def reason(journal: Journal, worker: str, now: datetime = START, tasks: Sequence[str] | None = None) -> str:
    """Why there is no work for a worker."""
    refusal = journal.lease(worker, now, tasks)
    assert isinstance(refusal, NoWork), refusal
    assert refusal.sentence.endswith(".")
    return refusal.reason


def answer(journal: Journal, lease: Lease, right: bool = True, now: datetime = START, seed: object = None) -> Answer:
    """Submit an answer to a lease."""
    rng = random.Random(str(seed if seed is not None else (lease.unit.id, lease.worker)))
    return journal.submit(lease.token, lease.worker, values(lease.unit, rng, right), now)


def newcomer(journal: Journal, worker: str) -> str:
    """One more worker, now known to the journal."""
    return journal.enrol(worker, "local", START).worker


def enrolled(journal: Journal, *workers: str) -> tuple[str, ...]:
    """The workers, now known to the journal."""
    for worker in workers:
        journal.enrol(worker, "local", START)
    return workers


def units_of(journal: Journal) -> list[Unit]:
    """Every unit, given or followed from an answer, in the order in which they came."""
    with journal._reading() as tx:
        return list(map(leasing.unit_of, tx.rows(select(tables.unit).order_by(tables.unit.c.number))))


def state_of(journal: Journal, worker: str) -> WorkerState:
    """The state of a worker who enrolled."""
    return next(state for state in journal.workers() if state.worker == worker)


class Decision(NamedTuple):
    """What stopped a unit, and the votes that count."""

    unit: str
    verdict: str
    right: int
    wrong: int


def decisions_of(journal: Journal) -> list[Decision]:
    """The decision on each unit that stopped."""
    row = tables.unit.c
    columns = (row.id, row.decided, row.right_votes, row.wrong_votes)
    stopped = select(*columns).where(row.decided.is_not(None)).order_by(row.number)
    with journal._reading() as tx:
        return [Decision(*values) for values in tx.connection.execute(stopped)]
