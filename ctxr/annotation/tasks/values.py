"""Values that come back from a form; texts and ids that tasks share."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import category

from ctxr.annotation.wording import Problem
from ctxr.web.language import N_, _, ngettext, number

ODD_CHARACTERS = Problem(
    "odd_characters", N_("The text contains characters that cannot be shown. Please type it again.")
)

_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")
"""Unicode's categories of controls, formats (such as a change of direction), surrogates, private and unassigned signs."""

_HARMLESS = "\n\r\t\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Line ends, the tab, and what scripts and emoji are written with: joiners, zero-width spaces, marks and isolates of direction."""

Values = Mapping[str, Sequence[str]]
"""Values by the name of their field, as a browser posts them."""


@dataclass(frozen=True)
class Exposure:
    """Earlier descriptions, to detect copies: this worker's `own`, and what `others` wrote about the same set."""

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def odd(text: str) -> bool:
    """Whether a text contains invisible characters or ones that change how others are displayed."""
    return any(sign not in _HARMLESS and category(sign) in _INVISIBLE for sign in text)


def clean(text: str) -> str:
    """A text as it is stored: every run of spaces and line ends is one space."""
    return " ".join(text.split())


def too_long(characters: int, most: int) -> str:
    """What is said of a text with more than `most` characters."""
    sentence = _("Please stay within {most} characters; that is {count}.")
    return sentence.format(most=number(most), count=number(characters))


def shared_after(messages: int) -> str:
    """When the photo of a talk can be shared."""
    return ngettext(
        "The photo can be shared after {count} message.", "The photo can be shared after {count} messages.", messages
    )


def stable_id(prefix: str, *parts: str) -> str:
    """An id that depends on nothing but its parts."""
    return f"{prefix}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def query_of(unit: str, worker: str) -> str:
    """The query that a worker's description in a unit makes."""
    return stable_id("q", unit, worker)
