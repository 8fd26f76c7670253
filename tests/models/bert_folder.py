"""A small untrained BERT as transformers writes it."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from tests.models.blip_folder import WORDS


def make_bert(folder: Path, layers: int = 1, words: Sequence[str] = WORDS) -> Path:
    """Write config, weights and vocabulary into a folder."""
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=64
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: row for row, word in enumerate(words)}).save_pretrained(folder)
    return folder
