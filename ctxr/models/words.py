"""Words of texts, as rows of a vocabulary that is made of texts."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

PAD, UNKNOWN = "<PAD>", "<UNK>"
"""Rows 0 and 1 of a vocabulary."""

_TOKEN = re.compile(r"https?://\S+|[@#]\w+|\w+(?:['’-]\w+)*|[^\w\s]")


def tokens_of(text: str) -> list[str]:
    """Words with their apostrophes and hyphens, addresses, @names, #tags and single signs, in lower case.

    >>> tokens_of("It's @home: a T-shirt!")
    ["it's", '@home', ':', 'a', 't-shirt', '!']
    """
    return _TOKEN.findall(text.lower())


def vocabulary_of(texts: Iterable[str], least: int = 1, most: int | None = None) -> tuple[str, ...]:
    """The words of texts that occur at least so often, or the `most` common ones of them, behind `PAD` and `UNKNOWN`."""
    counts = Counter(token for text in texts for token in tokens_of(text))
    return (PAD, UNKNOWN, *sorted(word for word, count in counts.most_common(most) if count >= least))


def token_rows(texts: Sequence[str], words: Sequence[str], most: int) -> npt.NDArray[np.int64]:
    """Rows [N, most] in the vocabulary of the first words of each text, 0 behind them; at least one of each."""
    row, tokens = {word: number for number, word in enumerate(words)}, np.zeros((len(texts), most), np.int64)
    for number, text in enumerate(texts):
        own = [row.get(token, 1) for token in tokens_of(text)[:most]] or [1]
        tokens[number, : len(own)] = own
    return tokens
