"""The journal once more, slow and literal: lists that are searched from end to end, no counters, no indexes, no talks.

It shares records with what it is compared to, and no function.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.store.records import ImageSet


def digest(seed: int, *words: str) -> bytes:
    return hmac.digest(f"ctxr-{seed}".encode(), "\0".join(words).encode(), "sha256")


def sha256_id(prefix: str, *words: str) -> str:
    return prefix + "-" + hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def verdict(right: int, votes: int, needed: int, most: int) -> str:
    """Tries every number of right ones among the votes to come."""
    possible = any(right + more >= needed for more in range(most - votes + 1))
    return "accepted" if right >= needed else "open" if possible else "dropped"


def retrieval_of(unit: Unit, answer: Answer, image_set: ImageSet, protocol: Protocol) -> Unit:
    """Others look for what was described."""
    train = unit.split == "train"
    needed = protocol.train_needed if train else protocol.eval_needed
    most = protocol.train_most if train else protocol.eval_most
    name = sha256_id("retrieve", sha256_id("q", unit.id, answer.worker))
    drawn = int.from_bytes(digest(protocol.seed, "full", name)[:8]) < protocol.full_share * 2**64
    return Unit(
        id=name, task="retrieve", image_set=image_set.id, group=image_set.group, images=image_set.images, split=unit.split,
        truth=(unit.target or "",), authors=(answer.worker,), needed=needed, most=most, full=drawn and most > needed,
    )  # fmt: skip


def shuffle(seed: int, unit: Unit) -> bytes:
    """Seeded chance by which equally served units are ordered."""
    return digest(seed, "serve", unit.id)[:8]


@dataclass
class Held:
    unit: Unit
    worker: str
    slot: int
    token: str
    expires: datetime
    state: str = "live"


@dataclass
class Person:
    pool: str
    qualified: bool
    state: str = "active"
    allowed: bool = False
    known: list[bool] = field(default_factory=list)
    before: list[tuple[str, bool]] = field(default_factory=list)


@dataclass
class Model:
    """What the journal should say."""

    units: list[Unit]
    sets: dict[str, ImageSet]
    protocol: Protocol
    seed: int
    lease_for: timedelta
    people: dict[str, Person] = field(default_factory=dict)
    leases: list[Held] = field(default_factory=list)
    answers: list[tuple[Unit, Answer, bool | None]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def enrol(self, worker: str) -> None:
        free = [unit for unit in self.units if unit.purpose == "work" and side(unit) != "any" and self.open(unit)]
        free = [unit for unit in free if self.served(unit) < self.wanted(unit)]
        work = [side(unit) for unit in free for _ in range(unit.most - self.served(unit))] or ["train", "eval"]
        parts = {pool: max(work.count(pool) / len(work), 0.25) for pool in ("train", "eval") if pool in work}
        shared = {"wholly": 0.0, "partly": self.protocol.shared_workers, "none": 1.0}[self.protocol.disjoint]
        share = {pool: (1 - shared) * part / sum(parts.values()) for pool, part in parts.items()} | {"both": shared}
        there = [person.pool for person in self.people.values()]
        missing = {pool: want * (len(there) + 1) - there.count(pool) for pool, want in share.items() if want > 0}
        pool = max(missing, key=lambda pool: missing[pool])
        self.people.setdefault(worker, Person(pool, self.protocol.qualification == 0))

    def given(self, unit: Unit) -> int:
        return sum(one.id == unit.id for one, _, _ in self.answers)

    def blocked(self, worker: str) -> bool:
        return worker in self.people and self.people[worker].state == "blocked"

    def votes(self, unit: Unit) -> list[bool | None]:
        return [right for one, given, right in self.answers if one.id == unit.id and not self.blocked(given.worker)]

    def open(self, unit: Unit) -> bool:
        return unit.id not in self.stopped and not any(self.blocked(author) for author in unit.authors)

    def live(self, unit: Unit) -> list[Held]:
        return [held for held in self.leases if held.unit.id == unit.id and held.state == "live"]

    def served(self, unit: Unit) -> int:
        return len(self.votes(unit)) + len(self.live(unit))

    def wanted(self, unit: Unit) -> int:
        votes = self.votes(unit)
        if not unit.truth or unit.full:
            return unit.most
        if self.verdict(unit) != "open":
            return len(votes)
        return min(unit.most, len(votes) + unit.needed - votes.count(True))

    def verdict(self, unit: Unit) -> str:
        known = [vote for vote in self.votes(unit) if vote is not None]
        return verdict(known.count(True), len(known), unit.needed, unit.most)

    def reclaim(self, now: datetime) -> None:
        for held in self.leases:
            if held.state == "live" and held.expires <= now:
                held.state = "expired"

    def suits(self, unit: Unit, worker: str, purpose: str) -> bool:
        met = any(who == worker and what in unit.images and how != unit.id for who, what, how in self.seen)
        has = any(one.id == unit.id and given.worker == worker for one, given, _ in self.answers)
        holds = any(held.worker == worker for held in self.live(unit))
        fresh = unit.task == "retrieve" and unit.purpose != "attention"
        return (
            unit.purpose == purpose
            and not has
            and not holds
            and worker not in unit.authors
            and not (fresh and met)
            and (self.people[worker].pool == "both" or side(unit) in ("any", self.people[worker].pool))
        )

    def best(self, worker: str, purpose: str) -> Unit | None:
        free = [
            unit
            for unit in self.units
            if self.open(unit) and self.served(unit) < self.wanted(unit) and self.suits(unit, worker, purpose)
        ]
        begins = {unit.id: unit.task not in ("retrieve", "review") for unit in free}
        return min(free, key=lambda unit: (begins[unit.id], self.served(unit), shuffle(self.seed, unit)), default=None)

    def expected(self, worker: str, now: datetime) -> tuple[str, int] | str:
        """Unit and slot that the worker should get, or the reason for nothing."""
        self.reclaim(now)
        for held in self.leases:
            if held.worker == worker and held.state == "live":
                return held.unit.id, held.slot
        person = self.people[worker]
        unit = None
        if person.state == "active" and not person.qualified and not person.allowed:
            unit = self.best(worker, "qualification")
            if unit is None:
                self.examine(worker)
        if person.state != "active":
            return person.state
        if unit is None:
            unit = self.best(worker, "work")
            if unit is not None and unit.task == "retrieve":
                unit = self.check(worker) or unit
        if unit is None:
            others = [one for one in self.units if self.open(one) and self.live(one)]
            return "wait" if any(self.suits(one, worker, "work") for one in others) else "nothing_left"
        taken = {held.slot for held in self.leases if held.unit.id == unit.id and held.state in ("live", "answered")}
        return unit.id, min(set(range(len(taken) + 1)) - taken)

    def check(self, worker: str) -> Unit | None:
        mine = [one.purpose for one, given, _ in self.answers if given.worker == worker and one.task == "retrieve"]
        done = len(mine) - mine.count("qualification")
        for purpose, block in (("gold", self.protocol.gold_every), ("attention", self.protocol.attention_every)):
            number = sum(one == purpose for one in mine)
            if not block:
                continue
            chance = int.from_bytes(digest(self.seed, "check", worker, purpose, str(number))[:8])
            if done >= number * block + chance % block:
                unit = self.best(worker, purpose)
                if unit is not None:
                    return unit
        return None

    def lease(self, worker: str, unit: str, slot: int, token: str, now: datetime) -> None:
        (one,) = [one for one in self.units if one.id == unit]
        if not any(held.token == token for held in self.leases):
            self.leases.append(Held(one, worker, slot, token, now + self.lease_for))
            self.seen |= {(worker, image, one.id) for image in one.images}

    def submit(self, token: str, answer: Answer) -> None:
        (held,) = [held for held in self.leases if held.token == token]
        held.state = "answered"
        right = answer.values["pick"][0] in held.unit.truth if held.unit.truth else None
        self.answers.append((held.unit, answer, right))
        self.decide(held.unit)
        if held.unit.purpose == "work":
            if held.unit.task == "describe":
                image_set = self.sets[held.unit.image_set]
                self.units.append(retrieval_of(held.unit, answer, image_set, self.protocol))
        elif right is not None:
            self.learn(answer.worker, right)

    def decide(self, unit: Unit) -> None:
        votes = self.votes(unit)
        word = self.verdict(unit)
        full = len(votes) >= unit.most
        if not unit.truth and full:
            self.stopped.setdefault(unit.id, "complete")
        elif unit.truth and word != "open" and (full or not unit.full):
            self.stopped.setdefault(unit.id, word)

    def take_back(self, worker: str) -> None:
        for held in self.leases:
            if held.worker == worker and held.state == "live" and self.blocked(worker):
                held.state = "returned"

    def change(self, worker: str, state: str, allowed: bool = False) -> None:
        """Of a standing; where votes begin or cease to count, their units are decided anew."""
        person = self.people[worker]
        person.before.append((person.state, person.allowed))
        self.set(worker, state, allowed)

    def undo(self, worker: str) -> None:
        self.set(worker, *self.people[worker].before.pop())

    def set(self, worker: str, state: str, allowed: bool) -> None:
        person = self.people[worker]
        counts = "blocked" in (person.state, state)
        person.state, person.allowed = state, allowed
        self.take_back(worker)
        for unit in {one.id: one for one, given, _ in self.answers if given.worker == worker and counts}.values():
            self.stopped.pop(unit.id, None)
            self.decide(unit)

    def learn(self, worker: str, right: bool) -> None:
        person = self.people[worker]
        person.known.append(right)
        if person.allowed or person.state != "active":
            return
        if not person.qualified:
            if len(person.known) >= self.protocol.qualification:
                self.examine(worker)
            return
        rights = sum(person.known)
        if chance_below(rights, len(person.known) - rights, self.protocol.block_below) >= 0.95:
            self.change(worker, "blocked")

    def examine(self, worker: str) -> None:
        person = self.people[worker]
        person.qualified = True
        if sum(person.known) < self.protocol.qualification_pass * len(person.known):
            self.change(worker, "screened_out")


def chance_below(right: int, wrong: int, limit: float, steps: int = 4000) -> float:
    """The area under x^right (1 - x)^wrong left of the limit, of the whole: midpoints, added up."""
    heights = [((place + 0.5) / steps) ** right * (1 - (place + 0.5) / steps) ** wrong for place in range(steps)]
    return sum(heights[: round(limit * steps)]) / sum(heights)


def side(unit: Unit) -> str:
    """The side of a unit's workers, `any` for checks of them."""
    if unit.purpose != "work" or unit.split is None:
        return "any"
    return "train" if unit.split == "train" else "eval"
