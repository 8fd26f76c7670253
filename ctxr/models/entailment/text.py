"""The text branch: a BERT-like encoder of transformers, over premise and hypothesis at once or over each apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.blip_files import stay_inside
from ctxr.models.cross.wordpieces import made_vocabulary
from ctxr.models.entailment.aligned import LITTLE, meanings, meant
from ctxr.models.entailment.fresh import PREMISE, paired, spread_of
from ctxr.models.entailment.fusion import FusionBranch
from ctxr.models.entailment.pooling import CLS, read_pooling
from ctxr.models.entailment.pooling import CONFIG as POOLING
from ctxr.models.entailment.sources import Sizes, TextSource
from ctxr.models.entailment.text_branches import BertBranch, LateBranch, leftwards
from ctxr.models.hub import PATIENCE, answers
from ctxr.models.published import careful

TINY = "random:bert-tiny"
"""Untrained weights from a seed."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_FILES = ("config.json", "model.safetensors", "tokenizer*.json", "vocab.txt", "special_tokens_map.json", POOLING)

LATE = "late"
"""What the name of a branch begins with that reads premise and hypothesis each by itself."""

PLACES = 0.1
"""What first positions are of words, in an untrained model."""

SIDES, SHARP = 0.5, 1.4
"""In a model whose words start aligned: what premise and hypothesis differ by, of what words do, and how much more sharply its first
layer looks than by chance."""

LONGEST = 256
"""Word pieces of premise and hypothesis together, where the model has positions for as many."""


class SharedBranch(nn.Module):
    """h^t by the layers over words of an image branch, which learns for both (paper, Table 3, without BERT)."""

    def __init__(self, image: FusionBranch) -> None:
        super().__init__()
        # in a list, so that its weights are counted and saved once, with the image branch
        self._image, self.width = [image], image.width

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids and types [B, T], 0 where there is none."""
        return self._image[0].words.read(ids, types)[:, 0]


def tiny_source(sizes: Sizes, encoder: str = "") -> TextSource:
    """An untrained BERT, as wide as the image branch that it stands beside; its words start as an encoder has them, if one is named.

    Raises what `find_source` raises.
    """
    pieces = made_vocabulary()
    config = {
        "vocab_size": len(pieces), "hidden_size": sizes.width, "num_hidden_layers": sizes.text_layers,
        "num_attention_heads": max(1, sizes.width // 32), "intermediate_size": 2 * sizes.width, "type_vocab_size": 2,
        "max_position_embeddings": PREMISE, "hidden_dropout_prob": sizes.dropout,
        "attention_probs_dropout_prob": sizes.dropout, "initializer_range": spread_of(sizes.width),
    }  # fmt: skip

    def build() -> BertBranch:
        from transformers import BertConfig, BertModel

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sizes.seed)
            model = _looking_alike(BertModel(BertConfig(**config), add_pooling_layer=False))
        return BertBranch(_comparing(model, meanings(encoder, pieces, sizes.width)) if encoder else model)

    name = f"aligned:{encoder}" if encoder else TINY
    decides = [name, config, pieces, sizes.seed, *([meant(encoder)] if encoder else [])]
    print_of = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return TextSource(name, print_of, sizes.width, build, paired(pieces, PREMISE))


@torch.no_grad()
def _looking_alike(model: Any) -> Any:
    """The model with keys that begin as its queries and places that say little: each word first looks at its like, in the
    premise too, which from nothing and with little data is very long in coming."""
    model.embeddings.position_embeddings.weight.mul_(PLACES)
    for layer in model.encoder.layer:
        own = layer.attention.self
        own.key.weight.copy_(own.query.weight)
    return model


@torch.no_grad()
def _comparing(model: Any, words: Tensor) -> Any:
    """The model with words that mean something from the start, a first layer that asks whether each has its like on the other side
    (it looks there, at what is alike, and keeps what that does not explain), and layers above that gather this for [CLS]."""
    embeddings, (first, *above) = model.embeddings, [layer.attention for layer in model.encoder.layer]
    width = words.shape[1]
    same = torch.eye(width)
    embeddings.word_embeddings.weight.copy_(words)
    side = functional.normalize(embeddings.token_type_embeddings.weight[0], dim=0)
    embeddings.token_type_embeddings.weight.copy_(torch.stack([side, -side]) * (SIDES * width**0.5))
    along = side[:, None] * side
    first.self.query.weight.mul_(SHARP)  # its keys follow it, so this counts twice
    for attention in above:
        attention.self.query.weight.mul_(LITTLE).add_(along)
    for attention in (first, *above):
        attention.self.key.weight.copy_(attention.self.query.weight @ (same - 2 * along))
        attention.self.value.weight.copy_(same)
        attention.output.dense.weight.copy_(-same if attention is first else same)
    for layer in model.encoder.layer:
        layer.output.dense.weight.mul_(LITTLE)
    return model


def bert_source(name: str) -> TextSource:
    """The encoder in a folder that transformers wrote (config.json, model.safetensors, a tokenizer), or of the hub.

    Args:
        name: "bert:FOLDER" reads premise and hypothesis at once, "late:FOLDER" each apart.

    Raises:
        UsageError: no folder.
        DataError: a folder whose files are not all there, cannot be read, or hold no encoder with padding 0.
        CtxrError: files that cannot be fetched.
    """
    kind, _, given = name.partition(":")
    if not given:
        raise UsageError(f"{name!r} names no folder", hint=f"{kind}:DIRECTORY, or {kind}:OWNER/NAME of the hub")
    folder = Path(given) if Path(given).is_dir() else _fetched(given)
    stay_inside(folder)
    apart, pooling = kind == LATE, read_pooling(folder)
    branch = LateBranch if apart else BertBranch
    told = f"text branch {name!r}"
    build = careful(told, lambda: branch(_pretrained(folder), pooling))
    tokenize, words = careful(told, lambda: _tokenizer(folder, apart))()
    model = build()
    digest = hashlib.sha256(json.dumps([model.model.config.to_dict(), words], sort_keys=True, default=str).encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(f"{key} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    if apart or pooling != CLS:
        digest.update(f"{pooling} {LATE if apart else 'at once'}".encode())
    return TextSource(name, digest.hexdigest(), model.width, build, tokenize)


def _fetched(repository: str) -> Path:
    """The folder of a repository of the hub in its cache, fetched if it is not there."""
    import huggingface_hub
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if not _HUB_NAME.fullmatch(repository):
        raise UsageError(f"there is no folder {repository}", hint="bert:DIRECTORY, or bert:OWNER/NAME of the hub")
    cached = huggingface_hub.try_to_load_from_cache(repository, "model.safetensors")
    if isinstance(cached, str):
        return Path(cached).parent
    hint = "connect to the network once, or give the folder: bert:DIRECTORY, for a recipe --set text=bert:DIRECTORY"
    if HF_HUB_OFFLINE or not answers(huggingface_hub.hf_hub_url(repository, "config.json"), PATIENCE):
        raise CtxrError(f"bert:{repository} is not on this machine and its host does not answer", hint=hint)
    try:
        return Path(huggingface_hub.snapshot_download(repository, allow_patterns=list(_FILES)))
    except Exception as error:  # whatever the network or the hub's client comes up with
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CtxrError(f"the files of bert:{repository} could not be fetched: {first}", hint=hint) from error


def _pretrained(folder: Path) -> Any:
    from transformers import AutoModel

    model, found = AutoModel.from_pretrained(
        folder, local_files_only=True, weights_only=True, trust_remote_code=False, dtype=torch.float32,
        output_loading_info=True,
    )  # fmt: skip
    missing = sorted(key for key in found["missing_keys"] if "pooler" not in key and "position_ids" not in key)
    if missing:
        raise DataError(f"{folder} holds no weights for {missing[0]} and {len(missing) - 1} more")
    if not hasattr(model.config, "hidden_size"):
        raise DataError(f"{folder} holds a {model.config.model_type}, which is no encoder of texts")
    model.pooler = None  # its weights would be told apart by nothing: [CLS] itself is looked at
    return model


def _tokenizer(
    folder: Path, apart: bool = False
) -> tuple[Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor]], str]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if tokenizer.pad_token_id != 0:
        raise DataError(f"{folder}: padding is token {tokenizer.pad_token_id}, not 0", hint="take a BERT-like encoder")
    most = min(LONGEST, int(tokenizer.model_max_length))
    words = hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor]:
        told = tokenizer(
            list(premises), list(hypotheses), truncation="longest_first", max_length=most, padding=True,
            return_token_type_ids=True, return_tensors="pt",
        )  # fmt: skip
        return told["input_ids"], told["token_type_ids"]

    def tokenize_apart(premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor]:
        first, second = (
            tokenizer(list(texts), truncation=True, max_length=most, padding=True, return_tensors="pt")["input_ids"]
            for texts in (premises, hypotheses)
        )
        ids = torch.cat([first, second], dim=1)
        types = torch.cat([torch.zeros_like(first), torch.ones_like(second)], dim=1)
        return leftwards(ids, ids), leftwards(types, ids)

    return tokenize_apart if apart else tokenize, words
