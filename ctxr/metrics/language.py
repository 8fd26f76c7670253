"""What descriptions are like, from their tokens (ImageCoDe, section 4.2 and Table 4)."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Parsed:
    """One parsed description.

    Attributes:
        tokens: lower-cased, punctuation included. sentences: how many.
        depths: depth of each sentence's dependency tree; empty without a parser.
    """

    tokens: tuple[str, ...]
    sentences: int
    depths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Language:
    """Figures over descriptions; all means are over descriptions but `mean_depth`, which is over sentences.

    Attributes:
        word_types: different tokens. three_or_more: share of descriptions with at least three sentences, 0..1.
        mean_depth: None without a parser.
    """

    descriptions: int
    mean_length: float
    median_length: float
    longest: int
    word_types: int
    mean_sentences: float
    three_or_more: float
    mean_depth: float | None


def language(parsed: Sequence[Parsed]) -> Language | None:
    """The figures of Table 4; None for no description."""
    if not parsed:
        return None
    lengths = np.array([len(description.tokens) for description in parsed])
    sentences = np.array([description.sentences for description in parsed])
    depths = [depth for description in parsed for depth in description.depths]
    return Language(
        descriptions=len(parsed),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        word_types=len({token for description in parsed for token in description.tokens}),
        mean_sentences=float(sentences.mean()),
        three_or_more=float((sentences >= 3).mean()),
        mean_depth=float(np.mean(depths)) if depths else None,
    )


def tree_depth(heads: Sequence[int]) -> int:
    """Edges on the longest path from a sentence's root downwards; `heads[i]` is the head of token i, the root its own.

    Raises ValueError for heads that are no tree.

    >>> tree_depth([1, 1, 3, 1])  # a <- b -> d -> c
    2
    """
    deepest = 0
    for token in range(len(heads)):
        depth = 0
        while heads[token] != token:
            token, depth = heads[token], depth + 1
            if depth > len(heads):
                raise ValueError("the heads form a cycle")
        deepest = max(deepest, depth)
    return deepest


def mention_share(parsed: Sequence[Parsed], words: Set[str]) -> float | None:
    """Share of descriptions in which at least one of `words` (lower-case) is a token, 0..1; None for no description.

    >>> mention_share([Parsed(("a", "red", "hat"), 1), Parsed(("a", "redhead"), 1)], {"red"})
    0.5
    """
    if not parsed:
        return None
    return sum(not words.isdisjoint(description.tokens) for description in parsed) / len(parsed)
