"""The published annotation protocol as defaults, adaptive voting, and the seeded order of pictures.

ImageCoDe, section 3: three random targets of each set are described; a training description is kept when one other worker
finds its target, a validation or test description when two of three do.
"""

import hashlib
import hmac
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from babel import Locale, UnknownLocaleError

from ctxr.annotation.records import PUBLISHED, Unit
from ctxr.engine.options import Choices, Options, Range
from ctxr.store.records import SplitName

DISJOINT = ("wholly", "partly", "none")

COUNT = Range(0, math.inf, "a whole number, 0 or more")
POSITIVE = Range(1, math.inf, "a whole number, 1 or more")
SHARE = Range(0, 1, "a share from 0 to 1")


@dataclass(frozen=True)
class StudyNumbers(Options):
    """The numbers of a study, which are published with it."""

    FILE = "protocol"

    targets: Annotated[int, POSITIVE] = 3
    """Random targets described in each set (ImageCoDe: 3)."""
    train_needed: Annotated[int, POSITIVE] = 1
    """Right retrievals that keep a training description (ImageCoDe: 1)."""
    train_most: int = 1
    """Retrievals of a training description at most (ImageCoDe: 1)."""
    eval_needed: Annotated[int, POSITIVE] = 2
    """Right retrievals that keep a validation or test description (ImageCoDe: 2)."""
    eval_most: int = 3
    """Retrievals of a validation or test description at most (ImageCoDe: 3)."""
    full_share: Annotated[float, SHARE] = 0.1
    """Share of validation and test descriptions that get every vote even after they are decided: their figures are unbiased."""
    review_votes: Annotated[int, POSITIVE] = 1
    """Number of third parties who decide whether a dialogue is kept."""
    least_words: Annotated[int, POSITIVE] = PUBLISHED.least_words
    """Minimum number of words in a description; in scripts without spaces, two letters are one."""
    sameness: Annotated[float, SHARE] = PUBLISHED.sameness
    """Share of common word trigrams above which two descriptions count as copies."""
    turns_before_share: Annotated[int, COUNT] = PUBLISHED.turns_before_share
    """Messages of both partners before the photo of a dialogue can be shared (PhotoChat: 5)."""
    language: str = PUBLISHED.language
    """Language of descriptions and messages, as a code such as en, ar or pt-BR."""
    disjoint: Annotated[str, Choices(DISJOINT)] = "partly"
    """Separation of the workers of train from those of validation and test: wholly, partly or none (ImageCoDe: partly)."""
    shared_workers: Annotated[float, SHARE] = 0.2
    """With `partly`, share of the workers who may work on both."""
    qualification: Annotated[int, COUNT] = 0
    """Number of practice questions, with a known answer, that a new worker answers first, and is told whether they were right."""
    qualification_pass: Annotated[float, SHARE] = 0.75
    """Share of qualification questions that must be answered right."""
    gold_every: Annotated[int, COUNT] = 0
    """One hidden check question, with a known answer, per this many retrievals; 0 = none."""
    attention_every: Annotated[int, COUNT] = 0
    """One attention check, which names the image to pick, per this many retrievals; 0 = none."""
    block_below: Annotated[float, SHARE] = 0.5
    """Block a worker whose accuracy on questions with a known answer is below this with a probability of .95."""

    def spelled(self, name: str) -> str:
        """How the file spells a number."""
        return f"{name} = {{}}" if name in StudyNumbers.describe() else super().spelled(name)

    def rules(self) -> Iterator[tuple[str, str]]:
        """A language that there is; questions cannot be all checks, and a description cannot need more votes than it gets."""
        try:
            Locale.parse(self.language, sep="-")
        except (ValueError, UnknownLocaleError):
            yield f"language = {self.language!r} is no language", "a code such as en, ar or pt-BR"
        for name in ("gold_every", "attention_every"):
            if getattr(self, name) == 1:
                yield f"{name} = 1 leaves no room for work", "0 for none, or one in 2 or more"
        for split in ("train", "eval"):
            needed, most = getattr(self, f"{split}_needed"), getattr(self, f"{split}_most")
            if needed > most:
                yield f"{split}_needed = {needed} is more than {split}_most = {most}", f"{split}_most = {needed}"


@dataclass(frozen=True)
class Protocol(StudyNumbers):
    """The numbers of a study, and its seed."""

    seed: Annotated[int, COUNT] = 0
    """Seed of every random choice: targets, image orders, checks, units that get all votes."""

    def votes(self, split: SplitName | None) -> tuple[int, int]:
        """Right votes needed, and votes at most, on a side of the benchmark; no side counts as validation or test."""
        return (self.train_needed, self.train_most) if split == "train" else (self.eval_needed, self.eval_most)

    def work_in(self, bundle: int, task: str) -> int:
        """Units of work among so many answers of a new worker; the others are checks."""
        every = [self.gold_every, self.attention_every] if task == "retrieve" else []
        checks = sum(1 / answers for answers in every if answers)
        return max(1, int((bundle - self.qualification) * (1 - checks)))


Verdict = Literal["open", "accepted", "dropped"]


def verdict(right: int, wrong: int, needed: int, most: int) -> Verdict:
    """What votes say so far: decided as soon as the votes to come cannot change it.

    >>> [verdict(right, wrong, 2, 3) for right, wrong in ((1, 1), (2, 0), (0, 2))]
    ['open', 'accepted', 'dropped']
    """
    if right >= needed:
        return "accepted"
    return "dropped" if most - wrong < needed else "open"


def wanted(unit: Unit, right: int, wrong: int, unknown: int = 0) -> int:
    """How many answers a unit wants in all, given those it has: never more than `unit.most`.

    With a known truth it wants just enough more to be accepted, while that is possible; without one, or with `full`, all.
    """
    if unit.full or not unit.truth:
        return unit.most
    votes = right + wrong + unknown
    if verdict(right, wrong, unit.needed, unit.most) != "open":
        return votes
    return min(unit.most, votes + unit.needed - right)


def raters_of(unit: Unit, protocol: Protocol) -> int:
    """Raters of a unit on platforms that cannot stop early; checks of the worker get as many as an evaluation unit."""
    return unit.most if unit.purpose == "work" else protocol.eval_most


def shown_order(images: Sequence[str], ordered: bool, unit: str, slot: int, seed: int) -> tuple[str, ...]:
    """The images of a unit as the worker in `slot` sees them; of an ordered set, as they are.

    They are sorted by the HMAC of unit, slot and image id under the seed, which no library and no run changes.
    """
    if ordered:
        return tuple(images)
    return tuple(sorted(images, key=lambda image: digest(seed, unit, str(slot), image)))


def digest(seed: int, *words: str) -> bytes:
    """32 pseudo-random bytes that depend only on the seed and the words."""
    return hmac.new(f"ctxr-{seed}".encode(), "\0".join(words).encode(), hashlib.sha256).digest()


def share(seed: int, *words: str) -> float:
    """A number in 0..1, uniform over words: what falls below .1 is a seeded tenth."""
    return int.from_bytes(digest(seed, *words)[:8]) / 2**64
