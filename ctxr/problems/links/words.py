"""Words of sentences: their vocabulary, and files of word vectors as GloVe and word2vec write them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError

PAD, UNKNOWN = "<PAD>", "<UNK>"
"""Rows 0 and 1 of a vocabulary."""

_TOKEN = re.compile(r"https?://\S+|[@#]\w+|\w+(?:['’-]\w+)*|[^\w\s]")
_MOST_WIDE, _LINE, _WORD = 4096, 1 << 17, 1 << 12
"""Numbers of a vector, bytes of a line, bytes of a word."""

_HINT = "name a whole, unpacked file of GloVe or word2vec"

Vector = npt.NDArray[np.float32]


def tokens_of(text: str) -> list[str]:
    """Words with their apostrophes and hyphens, addresses, @names, #tags and single signs, in lower case.

    >>> tokens_of("It's @home: a T-shirt!")
    ["it's", '@home', ':', 'a', 't-shirt', '!']
    """
    return _TOKEN.findall(text.lower())


def vocabulary_of(texts: Iterable[str], least: int) -> tuple[str, ...]:
    """The words of texts that occur at least so often, behind `PAD` and `UNKNOWN`."""
    counts = Counter(token for text in texts for token in tokens_of(text))
    return (PAD, UNKNOWN, *sorted(word for word, count in counts.items() if count >= least))


def token_rows(texts: Sequence[str], words: Sequence[str], most: int) -> npt.NDArray[np.int64]:
    """Rows [N, most] in the vocabulary of the first words of each text, 0 behind them; at least one of each."""
    row, tokens = {word: number for number, word in enumerate(words)}, np.zeros((len(texts), most), np.int64)
    for number, text in enumerate(texts):
        own = [row.get(token, 1) for token in tokens_of(text)[:most]] or [1]
        tokens[number, : len(own)] = own
    return tokens


def read_word_vectors(file: Path, words: Iterable[str]) -> tuple[dict[str, Vector], int]:
    """(vectors of those of `words` that a file of GloVe or word2vec holds, their width).

    Raises DataError for a file that is something else, is damaged, or holds none of the words.
    """
    wanted, vectors = {word.encode(): word for word in words}, dict[str, Vector]()
    try:
        with file.open("rb") as opened:
            head = opened.readline(_LINE).split()
            counted = len(head) == 2 and all(field.isdigit() for field in head)
            count, width = (int(field[:9]) for field in head) if counted else (0, len(head) - 1)
            if not 0 < width <= _MOST_WIDE:
                raise DataError(f"{file} holds no word vectors", hint=_HINT)
            start = opened.tell() if counted else 0
            opened.seek(start)
            binary = counted and len(_numbers(opened.readline(_LINE).split()[1:])) != width
            opened.seek(start)
            for name, vector in _binary(opened, file, width, count) if binary else _text(opened, file, width, wanted):
                if name in wanted and not np.isfinite(vectors.setdefault(wanted[name], vector)).all():
                    raise DataError(f"{file}: the vector of {wanted[name]!r} is not finite", hint=_HINT)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from error
    if not vectors:
        raise DataError(f"{file} holds none of the {len(wanted)} words of the sentences", hint=_HINT)
    return vectors, width


def _numbers(fields: Sequence[bytes]) -> Vector:
    try:
        return np.array(fields, "<f4")
    except ValueError:
        return np.zeros(0, "<f4")


def _text(opened: BinaryIO, file: Path, width: int, wanted: Mapping[bytes, str]) -> Iterator[tuple[bytes, Vector]]:
    for number, line in enumerate(iter(lambda: opened.readline(_LINE), b""), 1):
        word, *fields = line.split() or [b""]
        # a word of GloVe may hold blanks: then its first part has too many fields
        if word in wanted and len(fields) <= width:
            if len(vector := _numbers(fields)) != width:
                raise DataError(f"{file}: vector {number} has not {width} numbers", hint=_HINT)
            yield word, vector


def _binary(opened: BinaryIO, file: Path, width: int, count: int) -> Iterator[tuple[bytes, Vector]]:
    at = opened.tell()
    with mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        for number in range(1, count + 1):
            blank = data.find(b" ", at, at + _WORD)
            start, word, at = blank + 1, data[at : max(at, blank)], blank + 1 + 4 * width
            if blank < 0 or at > len(data):
                raise DataError(f"{file} breaks off in vector {number} of {count}", hint=_HINT)
            yield word.lstrip(b"\n"), np.frombuffer(data[start:at], "<f4")
