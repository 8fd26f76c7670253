"""Small untrained models of natural language inference as transformers writes them, one of each architecture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging

LABELS = ("CONTRADICTION", "Entailment", "neutral")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
BYTES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *LETTERS, *(f"\u0120{letter}" for letter in LETTERS), *"</>"]
PIECES = [("\u2581", -2.0), *((letter, -3.0) for letter in LETTERS)]
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "initializer_range": 0.5,
}  # fmt: skip
BART = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "init_std": 0.5,
}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "decoder_start_token_id": 0}
DEBERTA = {
    **SMALL, "max_position_embeddings": 64, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False, "type_vocab_size": 0, "position_buckets": 16,
}  # fmt: skip


def _of(kind: str) -> tuple[dict[str, Any], Any]:
    """What a config holds, and the tokenizer."""
    if kind == "Bert":
        words = transformers.BertTokenizerFast(vocab={word: row for row, word in enumerate(BERT)})
        return {**SMALL, "max_position_embeddings": 64, "vocab_size": len(BERT)}, words
    if kind in ("Roberta", "Bart"):
        ids = {"vocab_size": len(BYTES), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        make = getattr(transformers, f"{kind}TokenizerFast")
        words = make(vocab={word: row for row, word in enumerate(BYTES)}, merges=[])
        return ids | (BART if kind == "Bart" else {**SMALL, "max_position_embeddings": 66}), words
    if kind == "DebertaV2":
        marks = [(mark, 0.0) for mark in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")]
        words = transformers.DebertaV2TokenizerFast(vocab=[*marks, *PIECES, ("[MASK]", 0.0)], unk_id=3)
        return {**DEBERTA, "vocab_size": 64}, words
    marks = [(mark, 0.0) for mark in ("<pad>", "</s>", "<unk>")]
    return {**T5, "vocab_size": 64, "pad_token_id": 0, "eos_token_id": 1}, transformers.T5TokenizerFast(
        vocab=[*marks, *PIECES], extra_ids=0
    )


KINDS = ("Bert", "Roberta", "DebertaV2", "Bart", "T5")


def make_nli(folder: Path, kind: str = "Bert", labels: Sequence[str] = LABELS, seed: int = 0) -> Path:
    """Write config, weights and tokenizer of an architecture into a new folder."""
    settings, tokenizer = _of(kind)
    config = getattr(transformers, f"{kind}Config")(**settings, id2label=dict(enumerate(labels)))
    logging.disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        if kind == "T5":  # starts with heads so small that all answers are alike
            for weights in model.parameters():
                weights.data.add_(0.3 * torch.randn_like(weights))
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    logging.enable_progress_bar()
    return folder
