"""Small untrained ALBERT and T5 as transformers writes them."""

import string
from collections.abc import Collection
from pathlib import Path

import torch
from transformers import AlbertConfig, AlbertModel, AlbertTokenizer, T5Config, T5ForConditionalGeneration, T5Tokenizer

WORDS = [
    "▁",
    *("▁" + word for word in ("no", "yes", "photo", "share", "predict", "intent", "[SEP]")),
    *string.printable[:94],
]


def make_albert(folder: Path) -> Path:
    """Write config, weights and vocabulary into a folder."""
    pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    config = AlbertConfig(
        vocab_size=len(pieces), embedding_size=16, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=48,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AlbertModel(config).save_pretrained(folder)
    AlbertTokenizer(vocab=[(piece, -1.0) for piece in pieces]).save_pretrained(folder)
    return folder


def make_t5(folder: Path, leave_out: Collection[str] = ()) -> Path:
    """Write config, weights and vocabulary into a folder; the vocabulary may lack some words."""
    pieces = [piece for piece in ("<pad>", "</s>", "<unk>", *WORDS) if piece not in leave_out]
    config = T5Config(
        vocab_size=len(pieces), d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    T5Tokenizer(vocab=[(piece, -1.0) for piece in pieces], extra_ids=0).save_pretrained(folder)
    return folder
