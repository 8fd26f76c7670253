"""The cost of a study: votes, money, hours, the minimum pay, and forecasts from a pilot.

Money is in whole minor units of a currency, US cents unless Prolific is paid in pounds, rounded up at the end.
"""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from ctxr.annotation.records import Answer, Unit
from ctxr.errors import UsageError, plural
from ctxr.store.artifacts import MANIFEST
from ctxr.store.kinds import JUDGMENTS
from ctxr.store.tables import read_table

PLATFORMS = ("local", "prolific")

FORECAST = "forecast.json"
"""File of a plan."""

ASSUMED_SECONDS = {
    "describe": 75.0, "retrieve": 30.0, "dialogue": 300.0, "review": 45.0, "tag": 40.0, "entail": 20.0, "own": 45.0,
}  # fmt: skip
KEPT = 0.735
"""Share of descriptions that are kept: 26.5 % were dropped (ImageCoDe, section 3.3)."""

FLOOR = 800
"""Cents an hour; Prolific's lowest pay is 8 US dollars."""


@dataclass(frozen=True)
class Offer:
    """What a study on Prolific offers.

    Attributes:
        places: submissions that it takes, one bundle each. minutes: estimated time of a bundle.
        pay: of a submission, in minor units of `currency`. total: of all submissions, without fees.
        short: submissions that find fewer units than a bundle has, because workers do not judge pictures they have seen and pools are
            kept apart, or because they come last. fewest: units that one finds.
    """

    places: int
    minutes: int
    pay: int
    currency: str
    total: int
    short: int = 0
    fewest: int = 0

    def __str__(self) -> str:
        each, total = money(self.pay), money(self.total)
        return f"{plural(self.places, 'submission')} of {self.minutes} minutes, {each} {self.currency} each, {total} without fees"

    @property
    def shortage(self) -> str:
        """What is said of submissions that find too few units; empty without any."""
        if not self.short:
            return ""
        return (
            f"{self.short} of {self.places} submissions find fewer units than a bundle has, the fewest {self.fewest}, and are "
            f"paid in full"
        )


@dataclass(frozen=True)
class Forecast:
    """What one task will take.

    Attributes:
        units: pieces of work. votes: answers expected, checks of the workers included; on Prolific, answers offered.
        seconds: median of an answer. measured: answers that the time comes from; 0 = assumed. reward: pay for an answer.
        fee: of the platform. cost: in all. offer: on Prolific, where `reward` is for a submission.
    """

    task: str
    units: int
    votes: float
    seconds: float
    measured: int
    reward: int
    fee: int
    cost: int
    offer: Offer | None = None

    @property
    def hours(self) -> float:
        """Hours of work, of all workers together."""
        return self.votes * self.seconds / 3600

    @property
    def per_hour(self) -> float:
        """Pay an hour at the median time."""
        return pay_per_hour(self.reward, self.offer.minutes * 60 if self.offer else self.seconds)


def expected_votes(accuracy: float, needed: int, most: int, full: float = 0.0) -> float:
    """Votes on average when each is right with probability `accuracy`, counted until decided; a share `full` gets all."""

    @cache
    def more(hits: int, misses: int) -> float:
        if hits >= needed or most - misses < needed:
            return 0.0
        return 1 + accuracy * more(hits + 1, misses) + (1 - accuracy) * more(hits, misses + 1)

    return (1 - full) * more(0, 0) + full * most


def chance_kept(accuracy: float, needed: int, most: int) -> float:
    """Probability that at least `needed` of `most` independent votes are right."""
    return sum(
        math.comb(most, hits) * accuracy**hits * (1 - accuracy) ** (most - hits) for hits in range(needed, most + 1)
    )


def pay_per_hour(cents: float, seconds: float) -> float:
    """Cents an hour for `cents` each `seconds`; infinite for work that takes no time."""
    return cents * 3600 / seconds if seconds > 0 else math.inf


def platform_fee(platform: str, cents: int, percent: float | None = None) -> float:
    """Cents that a platform takes where `cents` are paid: `percent` of them. Raises UsageError for Prolific without `percent`."""
    if percent is not None:
        return cents * percent / 100
    if platform == "prolific":
        raise UsageError(
            "Prolific's fee depends on your account", hint="--fee-percent 33.3   (its cost page says yours)"
        )
    return 0.0


def require_floor(task: str, reward: int, seconds: float, floor: int, option: str, *, currency: str = "USD") -> None:
    """Raises UsageError where a reward, given by `option`, pays less than `floor` minor units an hour at the median time."""
    if pay_per_hour(reward, seconds) < floor - 1e-9:
        raise UsageError(
            f"{task}: {money(reward)} {currency} for {seconds:g} s is {money(pay_per_hour(reward, seconds))} an hour, "
            f"below the floor of {money(floor)}",
            hint=f"{option} {math.ceil(round(floor * seconds / 3600, 9))}",
        )


def money(cents: float) -> str:
    """Cents as an amount."""
    return f"{cents / 100:,.2f}"


PILOT = 20
"""Timed answers that a reliable median needs."""


def answered_work(workdir: Path) -> list[tuple[Unit, Answer]]:
    """Every imported answer with its unit, without checks of workers; empty before the first import."""
    folder = workdir / JUDGMENTS
    if not (folder / MANIFEST).is_file():
        return []
    units = {unit.id: unit for unit in read_table(folder / "units.jsonl", Unit) if unit.purpose == "work"}
    answers = read_table(folder / "answers.jsonl", Answer)
    return [(units[answer.unit], answer) for answer in answers if answer.unit in units]


def median_seconds(task: str, pilot: list[tuple[Unit, Answer]]) -> tuple[float | None, int]:
    """Median seconds of an answer to a task, and the number of timed answers; (None, 0) without any."""
    times = [answer.seconds for unit, answer in pilot if unit.task == task and answer.seconds is not None]
    return (median(times), len(times)) if times else (None, 0)
