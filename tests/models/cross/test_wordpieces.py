"""Texts become BERT's word pieces, padded with 0, and a bad vocabulary is one sentence."""

from pathlib import Path

import pytest
import torch

from ctxr.errors import DataError
from ctxr.models.cross.encoder import TOKENS
from ctxr.models.cross.wordpieces import make_tokenizer, read_vocabulary, tiny_vocabulary

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "boat", "##s", "sail", "##boat", ",", "cafe"]


def write(path: Path, *pieces: str) -> Path:
    path.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return path


def test_words_are_cut_into_the_longest_known_pieces(tmp_path: Path) -> None:
    tokenize = make_tokenizer(read_vocabulary(write(tmp_path / "vocab.txt", *PIECES)), most=9)
    ids = tokenize(["The sailboats, CAFÉ", "boat zebra", ""])
    wanted = [[2, 4, 7, 8, 6, 9, 10, 3, 0], [2, 5, 1, 3, 0, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0, 0, 0]]
    assert ids.tolist() == wanted
    assert (ids.dtype, tokenize([]).shape) == (torch.int64, (0, 9))


def test_a_long_text_is_cut_before_the_last_separator() -> None:
    ids = make_tokenizer(PIECES)(["the " * 500])
    assert ids.shape == (1, TOKENS)
    assert ids[0].tolist() == [2] + [4] * 118 + [3]


def test_the_pieces_are_those_of_transformers_own_tokenizer(tmp_path: Path) -> None:
    from transformers import BertTokenizer

    pieces = tiny_vocabulary()
    texts = ["Two half-moons — not 3!", "naïve  façade\tof\nUmbrellas", "a" * 101, "日本 ship's №5"]
    theirs = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, do_lower_case=True)
    wanted = theirs(texts, padding="max_length", max_length=TOKENS, truncation=True)["input_ids"]
    assert make_tokenizer(pieces)(texts).tolist() == wanted


def test_the_made_vocabulary_knows_the_worlds_words_and_can_spell_the_others() -> None:
    pieces = tiny_vocabulary()
    assert len(pieces) == len(set(pieces))
    ids = make_tokenizer(pieces)(["a turquoise umbrella", "zyx1 qwertz."])
    assert [pieces[one] for one in ids[0].tolist() if one][1:-1] == ["a", "turquoise", "umbrella"]
    assert 1 not in ids[1]
    assert tiny_vocabulary() == pieces


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (("[CLS]", "[PAD]"), r":1: is '\[CLS\]', wanted \[PAD\]"),
        (("[PAD]", "[UNK]", "[CLS]", "a"), r"lacks \[SEP\]"),
        ((*PIECES, "boat"), ":12: 'boat' was in line 6 already"),
        (("[PAD]", "\udcff"), ".* UTF-8"),
        ((), "no vocabulary"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_one_sentence(
    pieces: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    if pieces:
        content = "\r\n".join([*pieces, ""])  # lines may end as on Windows
        (tmp_path / "vocab.txt").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=rf"vocab.txt(: )?{message}|{message} .*vocab.txt"):
        read_vocabulary(tmp_path / "vocab.txt")
