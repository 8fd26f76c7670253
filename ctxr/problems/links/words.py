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


def read_word_vectors(file: Path, words: Iterable[str]) -> tuple[dict[str, npt.NDArray[np.float32]], int]:
    """(vectors of those of `words` that a file holds, their width): GloVe, or word2vec as text or binary.

    Raises DataError for a file that is none of these, is damaged, or holds none of the words.
    """
    wanted, hint = {word.encode(): word for word in words}, "name a file of GloVe or word2vec, unpacked"
    try:
        with file.open("rb") as opened:
            head = opened.readline(_LINE).split()
            counted = len(head) == 2 and all(field.isdigit() for field in head)
            width = int(head[1][:9]) if counted else len(head) - 1
            if not 0 < width <= _MOST_WIDE:
                raise DataError(f"{file} holds no word vectors", hint=hint)
            start = opened.tell() if counted else 0
            opened.seek(start)
            binary = counted and not _is_row(opened.readline(_LINE), width)
            opened.seek(start)
            rows = _binary(opened, file, width, int(head[0][:18])) if binary else _text(opened, file, width, wanted)
            vectors: dict[str, npt.NDArray[np.float32]] = {}
            for name, vector in rows:
                if name in wanted and wanted[name] not in vectors:
                    vectors[wanted[name]] = np.frombuffer(vector, "<f4")
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}", hint=hint) from error
    for word, values in vectors.items():
        if not np.isfinite(values).all():
            raise DataError(f"{file}: the vector of {word!r} is not finite", hint=hint)
    if not vectors:
        raise DataError(f"{file} holds none of the {len(wanted)} words of the sentences", hint=hint)
    return vectors, width


def _is_row(line: bytes, width: int) -> bool:
    fields = line.split()[1:]
    try:
        return len(np.array(fields, np.float32)) == width
    except ValueError:
        return False


def _text(opened: BinaryIO, file: Path, width: int, wanted: Mapping[bytes, str]) -> Iterator[tuple[bytes, bytes]]:
    for number, line in enumerate(iter(lambda: opened.readline(_LINE), b""), 1):
        word, _, rest = line.strip().partition(b" ")
        # a word of GloVe may hold blanks: then its first part has too many fields
        if word in wanted and len(rest.split()) <= width:
            if not _is_row(line, width):
                raise DataError(f"{file}: vector {number} has not {width} numbers", hint="fetch the file again")
            yield word, np.array(rest.split(), "<f4").tobytes()


def _binary(opened: BinaryIO, file: Path, width: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    at = opened.tell()
    with mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        for number in range(1, count + 1):
            blank = data.find(b" ", at, at + _WORD)
            start, at_word, at = blank + 1, at, blank + 1 + 4 * width
            if blank < 0 or at > len(data):
                raise DataError(f"{file} breaks off in vector {number} of {count}", hint="fetch the file again")
            yield data[at_word:blank].lstrip(b"\n"), data[start:at]
