"""Word lists that ship with ctxr: one entry a line, its forms separated by spaces, `#` before a comment."""

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "lexicons"

NAMES = ("body_parts", "colours")


@dataclass(frozen=True)
class Lexicon:
    """A list of words.

    Attributes:
        entries: how many things it names. words: every form, lower-case.
    """

    name: str
    entries: int
    words: frozenset[str]


def load_lexicon(name: str) -> Lexicon:
    """One of `NAMES`."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return Lexicon(name, len(entries), frozenset(word for entry in entries for word in entry))
