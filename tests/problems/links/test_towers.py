"""Vocabularies of sentences, and files of word vectors."""

from pathlib import Path

import numpy as np
import pytest

from ctxr.errors import DataError
from ctxr.models.words import PAD, UNKNOWN, token_rows, tokens_of, vocabulary_of
from ctxr.problems.links.learner import first_vectors
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.links.towers import read_word_vectors

VECTORS = {"the": [0.5, -1.0, 2.0], "dog's": [1.5, 0.25, -3.0], "école": [4.0, 5.0, 6.0], ".": [0.0, 1.0, 0.0]}


def glove(words: dict[str, list[float]]) -> bytes:
    return "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in words.items()).encode()


def word2vec(words: dict[str, list[float]], end: bytes = b"\n") -> bytes:
    rows = [word.encode() + b" " + np.array(vector, "<f4").tobytes() + end for word, vector in words.items()]
    return f"{len(words)} 3\n".encode() + b"".join(rows)


FILES = {
    "glove": glove({**VECTORS, ". . .": [9.0, 9.0, 9.0]}),
    "text": f"{len(VECTORS)} 3\n".encode() + glove(VECTORS),
    "binary": word2vec(VECTORS),
    "google": word2vec(VECTORS, b""),
    "twice": glove({**VECTORS, "the ": [7.0, 7.0, 7.0]}),
}


@pytest.mark.parametrize("name", FILES)
def test_word_vectors_are_read_of_every_format_and_only_for_the_words_that_are_wanted(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "words").write_bytes(FILES[name])
    known = read_word_vectors(tmp_path / "words", [PAD, UNKNOWN, "the", "dog's", "école", "cat"])
    expected = {word: VECTORS[word] for word in ("the", "dog's", "école")}
    assert {word: vector.tolist() for word, vector in known.items()} == expected


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "words"),
        (b"the\n", "words"),
        (b"3 0\n", "words"),
        (b"3 99999999999999999999\n", "words"),
        (b"999999999999999999999 3\n" + word2vec(VECTORS)[4:], "vector 5"),
        (word2vec(VECTORS)[:-7], "vector 4 of 4"),
        (b"1 3\n" + b"x" * 9000 + b" 0123456789ab", "vector 1 of 1"),
        (glove({"cat": [1.0, 2.0, 3.0], "the": [1.0, 2.0]}), "vector 2"),
        (b"cat 1 2 3\nthe 1 2 x\n", "vector 2"),
        (glove({"cat": [1.0, 2.0, 3.0]}), "none of the 1"),
        (b"the nan 0 0\n", "'the'"),
        (word2vec({"the": [np.inf, 0.0, 0.0]}), "'the'"),
        (b"\x80\x04cposix\nsystem\n", "words"),
    ],
)
def test_a_file_that_is_damaged_or_something_else_is_one_sentence(content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        read_word_vectors(tmp_path / "words", ["the"])
    assert caught.value.hint


def test_a_vocabulary_holds_frequent_words_and_sentences_are_cut_behind() -> None:
    texts = ["The dog's T-shirt!", "the DOG’S hat, the", "#tag @you https://x.org/a?b=c end"]
    assert tokens_of(texts[2]) == ["#tag", "@you", "https://x.org/a?b=c", "end"]
    words = vocabulary_of(texts[:2], 2)
    assert words == (PAD, UNKNOWN, "the")
    everything = vocabulary_of(texts, 1)
    rows = token_rows(["hat the <PAD> zebra", "", "the the the the the the"], everything, 5)
    named = [[everything[row] for row in line] for line in rows.tolist()]
    assert named == [["hat", "the", *[UNKNOWN] * 3], [UNKNOWN, *[PAD] * 4], ["the"] * 5]


def test_words_outside_the_file_are_drawn_for_a_training_and_nothing_for_objects(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(FILES["binary"])
    words = (PAD, UNKNOWN, "the", "cat")
    learned = first_vectors(words, LinksRecipe(words=str(tmp_path / "words")), 0)
    assert learned[0].tolist() == [0, 0, 0]
    assert learned[2].tolist() == VECTORS["the"]
    assert 0 < float(learned[[1, 3]].abs().max()) <= 0.2
    objects = first_vectors(words, LinksRecipe(variant="links-objects", words=str(tmp_path / "words")), 0)
    assert objects[[0, 1, 3]].abs().max() == 0
    wide = first_vectors(words, LinksRecipe(word_width=7), 3)
    assert wide.shape == (4, 7)
    assert 0.01 < float(wide.abs().max()) <= 0.02
    assert not wide[1].equal(first_vectors(words, LinksRecipe(word_width=7), 4)[1])
