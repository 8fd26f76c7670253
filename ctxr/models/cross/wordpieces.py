"""Texts as BERT's word pieces, from a vocabulary on this machine."""

import string
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from torch import Tensor

from ctxr.errors import DataError
from ctxr.models.cross.encoder import TOKENS

# the words of the drawn world (`ctxr.synthetic.world.words`), sorted
WORDS = Path(__file__).resolve().parents[1] / "weights" / "words.txt"

PADDING, UNKNOWN, START, END, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


def read_vocabulary(path: Path) -> list[str]:
    """The word pieces of a `vocab.txt`, one a line, by id. Raises DataError for a file that is missing, not UTF-8, or repeats a piece, and
    without padding at 0, [UNK], [CLS] or [SEP]."""
    try:
        pieces = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        hint = "put bert-base-uncased's vocab.txt beside the weights"
        raise DataError(f"there is no vocabulary {path}", hint=hint) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as UTF-8 text: {error}") from error
    pieces = [piece.removesuffix("\r") for piece in pieces]
    if pieces[0] != PADDING:
        raise DataError(f"{path}:1: is {pieces[0]!r}, wanted {PADDING}: id 0 means that there is no token")
    lines: dict[str, int] = {}
    for line, piece in enumerate(pieces, start=1):
        if lines.setdefault(piece, line) != line:
            raise DataError(f"{path}:{line}: {piece!r} was in line {lines[piece]} already")
    for piece in (UNKNOWN, START, END):
        if piece not in lines:
            raise DataError(f"{path}: lacks {piece}")
    return pieces


def tiny_vocabulary() -> list[str]:
    """A vocabulary for models without one: the toy world's words, every letter, pair of letters, digit and sign."""
    pairs = [first + second for first in string.ascii_lowercase for second in string.ascii_lowercase]
    inside = [*string.ascii_lowercase, *string.digits, *pairs]
    pieces = [PADDING, UNKNOWN, START, END, MASK, *string.punctuation, *inside, *(f"##{piece}" for piece in inside)]
    return list(dict.fromkeys([*pieces, *WORDS.read_text(encoding="utf-8").split()]))


def make_tokenizer(pieces: Sequence[str], most: int = TOKENS) -> Callable[[Sequence[str]], Tensor]:
    """A function from texts to int64 ids [B, most]: [CLS], the pieces, [SEP], then 0; what is too long is cut before [SEP].

    Upper case and accents are dropped, as bert-base-uncased wants it.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing((END, ids[END]), (START, ids[START]))
    tokenizer.enable_truncation(most)
    tokenizer.enable_padding(pad_id=0, pad_token=PADDING, length=most)

    def tokenize(texts: Sequence[str]) -> Tensor:
        rows = [encoded.ids for encoded in tokenizer.encode_batch(list(texts))]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, most)

    return tokenize
