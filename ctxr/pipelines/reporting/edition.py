"""What the parts of a page have in common: the chain, its pictures, the data for scripts, and how times and reasons are told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ctxr.data.artifacts import Artifact
from ctxr.pipelines.reporting.chain import Chain
from ctxr.pipelines.reporting.pictures import NONE, Thumbnails
from ctxr.pipelines.talk import Silent, Talk

REASONS = {
    "near_still": ("near-still", "too like the last embedded frame of its shot; never embedded", "luma difference"),
    "too_close": ("too close", "not farther than the threshold from a frame that was chosen before", "distance"),
    "blurry": ("blurry", "BRISQUE / 100 above the limit", "BRISQUE / 100"),
    "too_much_text": ("too much text", "recognised words cover more than the limit", "share of the area"),
    "too_small": ("too small", "the shorter side is below the limit", "pixels"),
    "set_incomplete": ("set incomplete", "chosen, but the shot ended before its set was full", "images in the set"),
    "duplicate": ("duplicate", "equals an earlier photo", ""),
    "too_few_neighbours": ("too few neighbours", "not enough different photos near it", "found"),
    "not_sampled": ("not sampled", "the sample was full before its turn", ""),
    "unreadable": ("unreadable", "no picture", ""),
}
"""Why a frame or photo is in no set: what it is called, what it means, and the unit of the figure behind it."""


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        id: anchor; its template is `<id>.html`, its script `<id>.js`, if there is one.
        title: heading, and name in the navigation.
        make: what the template is given; None leaves the part out.
    """

    id: str
    title: str
    make: Callable[["Edition"], Mapping[str, Any] | None]


@dataclass
class Edition:
    """One page in the making.

    Attributes:
        near: path from the page to the artifact, with `/`, by which whole pictures are opened; "" if there is none.
        talk: hears of what takes long.
        data: what scripts are given, as JSON, by name.
        facts: what was measured, by source and index.
        evaluations: those whose figures the page shows; known once its results are made.
        source_numbers: numbers of sources in `data["sources"]`, by name.
    """

    chain: Chain
    pictures: Thumbnails
    near: str
    talk: Talk = field(default_factory=Silent)
    data: dict[str, Any] = field(default_factory=dict)
    evaluations: tuple[Artifact, ...] = ()

    def __post_init__(self) -> None:
        self.facts = self.chain.facts
        self.facts_by_path = {facts.path: facts for facts in self.facts.values()}
        sources = [unit.source for unit in self.chain.units]
        self.source_numbers = {source.name: number for number, source in enumerate(sources)}
        self.paths = {
            (image.group, image.index): image.path for image in self.chain.images.values() if image.index is not None
        }
        self.data["sources"] = [{"name": source.name, "kind": source.kind} for source in sources]
        self.data["reasons"] = [{"key": key, "name": told[0], "unit": told[2]} for key, told in REASONS.items()]

    def reason_number(self, reason: str) -> int:
        """The number of a reason in `data["reasons"]`; one that is not known here is added, under its own name."""
        known: list[dict[str, str]] = self.data["reasons"]
        for number, one in enumerate(known):
            if one["key"] == reason:
                return number
        known.append({"key": reason, "name": reason.replace("_", " "), "unit": ""})
        return len(known) - 1

    def picture_of(self, source: str, index: int) -> int:
        """The picture of a considered frame or photo: of its set, or where it was measured; NONE if it was never saved."""
        facts = self.facts.get((source, index))
        path = self.paths.get((source, index)) or (facts.path if facts else None)
        return self.pictures.number(path) if path else NONE


def time_code(time: Fraction) -> str:
    """A time in a video as `h:mm:ss.mmm`, rounded to milliseconds.

    >>> time_code(Fraction(321, 50))
    '0:06.420'
    """
    total = round(time * 1000)
    sign, total = ("−" if total < 0 else ""), abs(total)
    minutes, milliseconds = divmod(total, 60_000)
    hours, minutes = divmod(minutes, 60)
    tail = f"{milliseconds // 1000:02}.{milliseconds % 1000:03}"
    return f"{sign}{hours}:{minutes:02}:{tail}" if hours else f"{sign}{minutes}:{tail}"


def exact(time: Fraction) -> str:
    """A time in a video, exactly, as a fraction of seconds.

    >>> exact(Fraction(321, 50))
    '321/50 s'
    """
    return f"{time.numerator}/{time.denominator} s" if time.denominator > 1 else f"{time.numerator} s"
