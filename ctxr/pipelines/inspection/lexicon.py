"""Word lists of ctxr, and how many descriptions use a word of them (ImageCoDe, section 4.3)."""

from collections.abc import Sequence
from pathlib import Path

from ctxr.metrics.language import ParsedText


def load_lexicon(name: str) -> list[list[str]]:
    """The things that a word list of ctxr names: one a line with all its forms, lower-case, separated by spaces; `#` before a comment."""
    lines = (Path(__file__).parent / "lexicons" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


def mentions(parsed: Sequence[ParsedText], lexicon: list[list[str]]) -> list[bool]:
    """Whether each description has a token of a lexicon."""
    words = {word for forms in lexicon for word in forms}
    return [not words.isdisjoint(description.tokens) for description in parsed]


def mention_percent(parsed: Sequence[ParsedText], lexicon: list[list[str]]) -> float | None:
    """Percent of descriptions with a token of a lexicon; None without descriptions."""
    return 100 * (sum(mentions(parsed, lexicon)) / len(parsed)) if parsed else None
