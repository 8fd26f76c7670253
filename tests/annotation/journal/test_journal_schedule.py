"""Random schedules of many workers, step by step against the slow and literal model."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Lease, NotAllowed, NoWork
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.annotation.unit_factory import attention_unit
from ctxr.store.records import ImageSet
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.model import Model, side
from tests.annotation.journal.study import (
    SPLITS,
    START,
    decisions_of,
    described,
    image_sets,
    known,
    retrieved,
    tagged,
    units_of,
    values,
)

PROTOCOLS = [
    Protocol(full_share=0.3, disjoint="partly"),
    Protocol(full_share=0.0, disjoint="wholly", gold_every=3, attention_every=4, block_below=0.6),
    Protocol(full_share=0.5, disjoint="none", qualification=2, gold_every=4, train_most=2),
]
LEASE_FOR = timedelta(minutes=10)


def study(protocol: Protocol, count: int) -> tuple[list[Unit], list[ImageSet]]:
    sets = image_sets(count)
    # sets of photos overlap
    for number in range(0, count - 1, 3):
        shared = (*sets[number].images[:2], *sets[number + 1].images[2:])
        sets[number + 1] = msgspec.structs.replace(sets[number + 1], images=shared)
    units = [described(one, place, SPLITS[number % 3]) for number, one in enumerate(sets) for place in (0, 2)]
    units += [retrieved(one, 1, SPLITS[number % 3], protocol) for number, one in enumerate(sets[:4])]
    units += [tagged(one, 2, SPLITS[number % 3]) for number, one in enumerate(sets[:2])]
    units += [known(one, "qualification") for one in image_sets(3, "qualify")]
    units += [known(one, "gold", place) for one in image_sets(3, "gold") for place in (0, 1)]
    units += [attention_unit(one, protocol) for one in sets[:2]]
    return units, sets


class Schedule:
    """Draws what happens next, lets it happen to the journal and to the model, and compares."""

    def __init__(self, journal: Journal, model: Model, rng: random.Random, workers: int) -> None:
        self.journal, self.model, self.rng = journal, model, rng
        self.now = START
        self.names = [f"w{number}" for number in range(workers)]
        self.skill = {name: rng.choice((0.1, 0.7, 0.95)) for name in self.names}
        self.tokens: list[str] = []
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        worker = self.rng.choice(self.names)
        if worker not in self.model.people:
            self.journal.enrol(worker, "local", self.now)
            self.model.enrol(worker)
        action = self.rng.choices(
            (self.work, self.ask, self.give_back, self.pass_time, self.submit_late, self.vouch, self.block, self.undo),
            (60, 15, 8, 10, 4, 5, 2, 2),
        )[0]
        action(worker)

    def ask(self, worker: str) -> Lease | None:
        expected = self.model.expected(worker, self.now)
        got = self.journal.lease(worker, self.now)
        if isinstance(got, NoWork):
            assert got.reason == expected
            self.counts[got.reason] += 1
            return None
        assert (got.unit.id, got.slot) == expected
        self.model.lease(worker, got.unit.id, got.slot, got.token, self.now)
        self.tokens.append(got.token)
        self.counts[got.unit.purpose] += 1
        return got

    def work(self, worker: str) -> None:
        lease = self.ask(worker)
        if lease is None:
            return
        given = values(lease.unit, self.rng, self.rng.random() < self.skill[worker])
        stored = self.journal.submit(lease.token, worker, given, self.now)
        self.model.submit(lease.token, stored)
        assert self.journal.submit(lease.token, worker, given, self.now) == stored

    def give_back(self, worker: str) -> None:
        lease = self.ask(worker)
        if lease is not None:
            self.journal.give_back(lease.token, self.now)
            next(held for held in self.model.leases if held.token == lease.token).state = "returned"

    def pass_time(self, worker: str) -> None:
        self.now += timedelta(minutes=self.rng.choice((1, 4, 12)))

    def submit_late(self, worker: str) -> None:
        """Whatever was leased, whenever: taken while its place is held, else refused with the reason."""
        if not self.tokens:
            return
        token = self.rng.choice(self.tokens)
        (held,) = [held for held in self.model.leases if held.token == token]
        given = values(held.unit, random.Random(held.token))
        done = [one for unit, one, _ in self.model.answers if (unit.id, one.worker) == (held.unit.id, held.worker)]
        if held.state == "live":
            self.model.submit(held.token, self.journal.submit(held.token, held.worker, given, self.now))
            return
        changed = {**given, "more": ("than asked",)}
        with pytest.raises(NotAllowed, match=r"\.$") as refused:
            self.journal.submit(held.token, held.worker, changed, self.now)
        assert refused.value.reason == ("already_answered" if done else "expired")

    def vouch(self, worker: str) -> None:
        person = self.model.people[worker]
        if person.state != "active":
            self.journal.change(worker, "allowed", "looked at", "test", self.now)
            self.model.change(worker, "active", allowed=True)

    def block(self, worker: str) -> None:
        self.counts["blocks"] += bool(self.journal.done_by(worker))
        self.journal.change(worker, "blocked", "drawn", "test", self.now)
        self.model.change(worker, "blocked")

    def undo(self, worker: str) -> None:
        if self.model.people[worker].before:
            self.journal.change(worker, "undone", "drawn", "test", self.now)
            self.model.undo(worker)

    def compare(self) -> None:
        """The invariants, off the whole journal."""
        journal, model = self.journal, self.model
        assert [unit.id for unit in units_of(journal)] == [unit.id for unit in model.units]
        assert journal.answers() == [answer for _, answer, _ in model.answers]
        assert {one.unit: one.verdict for one in decisions_of(journal)} == model.stopped
        for standing in journal.workers():
            person = model.people[standing.worker]
            assert (standing.pool, standing.state) == (person.pool, person.state)
            assert standing.right + standing.wrong == len(person.known)
            assert standing.answers == journal.done_by(standing.worker)
        for unit in model.units:
            trusted = [person for person in model.people.values() if person.state == "active" and not person.before]
            assert model.served(unit) <= unit.most or len(trusted) < len(model.people)
        for held in model.leases:
            assert held.worker not in held.unit.authors
            assert model.people[held.worker].pool in ("both", side(held.unit)) or side(held.unit) == "any"
        per_task = {
            task: [unit for unit in model.units if unit.task == task and unit.purpose == "work"]
            for task in ("describe", "retrieve", "tag")
        }
        for task, told in journal.progress().items():
            made = [unit for unit in per_task[task] if not any(model.blocked(author) for author in unit.authors)]
            assert told.units == len(made)
            assert told.decided == sum(unit.id in model.stopped for unit in made)
            assert told.answered == sum(model.given(unit) for unit in per_task[task])
            assert told.open == sum(model.open(unit) for unit in per_task[task])
            assert told.leases == sum(len(model.live(unit)) for unit in per_task[task])


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)], indirect=True)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, 7))])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.disjoint)
def test_every_step_of_a_random_schedule_is_what_the_literal_model_says(
    opener: Opener, protocol: Protocol, seed: int
) -> None:
    protocol, steps, workers, count = replace(protocol, seed=seed), *((150, 9, 6) if seed == 1 else (500, 14, 25))
    units, sets = study(protocol, count)
    journal = opener(units, sets, protocol, lease_for=LEASE_FOR)
    model = Model(list(units), {one.id: one for one in sets}, protocol, seed, LEASE_FOR)
    schedule = Schedule(journal, model, random.Random(seed), workers)
    for _ in range(steps):
        schedule.step()
    schedule.compare()
    assert schedule.counts["work"] > 20
    assert schedule.counts["blocks"] > 0
    assert schedule.counts["gold"] > 0 or not protocol.gold_every
    assert schedule.counts["qualification"] > 0 or not protocol.qualification
