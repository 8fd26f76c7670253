"""The text branch: a BERT-like encoder of transformers, over premise and hypothesis at once or over each apart.

Letters: B claims, T tokens, V words, D width of h^t.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.wordpieces import tiny_vocabulary
from ctxr.models.encoders import find_source
from ctxr.models.entailment.base import PairTokens, TextSource
from ctxr.models.entailment.fusion import FusionBranch, NoCrossAttention
from ctxr.models.entailment.image_branches import LITTLE, PREMISE, paired, spread_of, words_of
from ctxr.models.entailment.recipe import SEED, ClassifierRecipe
from ctxr.models.hub import MINILM, placeless
from ctxr.models.layers import cut, seeded
from ctxr.models.published import careful, fingerprint_of, load, model_folder, vocabulary_hash
from ctxr.models.training import checkpoint
from ctxr.models.wheels import lite_folder

POOLING = "1_Pooling/config.json"  # where sentence encoders write how they pool

CLS, MEAN = "cls", "mean"

_MODES = {"pooling_mode_cls_token": CLS, "pooling_mode_mean_tokens": MEAN}


def read_pooling(folder: Path) -> str:
    """`cls` or `mean`, of `1_Pooling/config.json`, else `cls`. Raises DataError for other modes or a damaged file."""
    file = folder / POOLING
    if not file.is_file():
        return CLS
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON", hint="bring back the file, or remove it to take [CLS]") from error
    modes = settings.items() if isinstance(settings, dict) else ()
    chosen = [name for name, on in modes if name.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        named = " and ".join(chosen) or "no mode"
        raise DataError(f"{file} wants {named}", hint=f"ctxr pools by one of {', '.join(_MODES)}")
    return _MODES[chosen[0]]


def pooled(states: Tensor, ids: Tensor, how: str) -> Tensor:
    """One vector [B, D] of each row of states [B, T, D]; `ids` [B, T]: 0 for no token."""
    if how == CLS:
        return states[:, 0]
    present = (ids != 0).unsqueeze(-1).to(states.dtype)
    return (states * present).sum(1) / present.sum(1)


MIDDLE, SPREAD = 0.6, 6.0
"""Where cosines of texts and words lie, and how far they are drawn apart for random first heads."""


class BertBranch(nn.Module):
    """h^t over "[CLS] premise [SEP] hypothesis [SEP]", pooled as `read_pooling` says."""

    def __init__(self, model: Any, pooling: str = CLS) -> None:
        super().__init__()
        self.model, self.width, self.pooling = model, int(model.config.hidden_size), pooling
        self.typed = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids and types [B, T], 0 where there is none."""
        return pooled(self.states(ids, types), ids, self.pooling)

    def states(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, T, D] of each token."""
        more = {"token_type_ids": types} if self.typed else {}
        return cast("Tensor", self.model(input_ids=ids, attention_mask=(ids != 0).long(), **more).last_hidden_state)


def leftwards(values: Tensor, ids: Tensor) -> Tensor:
    """Values of tokens [B, T], those of padding (id 0) behind all others, otherwise in order."""
    return values.gather(1, (ids == 0).to(torch.uint8).argsort(dim=1, stable=True))


class TextStates(NamedTuple):
    """Unit vectors of texts [B, D] and tokens [B, T, D], and which tokens are words [B, T]."""

    whole: Tensor
    tokens: Tensor
    words: Tensor


class LateBranch(BertBranch):
    """h^t of four similarities of texts that are encoded separately (late interaction, Khattab and Zaharia 2020).

    The cosine of both texts; mean and minimum, over the words of the hypothesis, of the highest cosine with a word of the premise; and
    the mean of the same over the words of the premise. Unlike a product of two vectors this is not symmetric, as entailment is not.
    Each number fills a quarter of h^t.
    """

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids [B, T] and types: 0 the premise, 1 the hypothesis with its own [CLS]."""
        premise, hypothesis = (
            self._read(cut(leftwards(own, own))) for own in (ids * (types == kind) for kind in (0, 1))
        )
        whole = (premise.whole * hypothesis.whole).sum(-1)
        words = hypothesis.words[:, :, None] & premise.words[:, None]
        alike = (hypothesis.tokens @ premise.tokens.transpose(1, 2)).masked_fill(~words, -1.0)
        covered, back = alike.amax(2), alike.amax(1)
        least = covered.masked_fill(~hypothesis.words, 1.0).amin(1)
        # mean over words; 0 where there are none
        means = [
            (values * present).sum(1) / present.sum(1).clamp(min=1)
            for values, present in ((covered, hypothesis.words), (back, premise.words))
        ]
        likenesses = torch.stack([whole, means[0], least, means[1]], 1)
        return (SPREAD * (likenesses - MIDDLE)).repeat_interleave(-(-self.width // 4), 1)[:, : self.width]

    def _read(self, ids: Tensor) -> TextStates:
        states = self.states(ids, torch.zeros_like(ids)).float()
        last = (ids != 0).sum(1, keepdim=True) - 1
        at = torch.arange(ids.shape[1], device=ids.device)
        whole = functional.normalize(pooled(states, ids, self.pooling))
        return TextStates(whole, functional.normalize(states, dim=-1), (at > 0) & (at < last))


TINY = "random:bert-tiny"  # untrained weights from a seed

_FILES = ("config.json", "model.safetensors", "tokenizer*.json", "vocab.txt", "special_tokens_map.json", POOLING)

# what the name of a branch begins with that reads premise and hypothesis each by itself
LATE = "late"

PLACES = 0.1  # what first positions are of words, in an untrained model

SIDES, SHARP = 0.5, 1.4
"""In a model whose words start aligned: what premise and hypothesis differ by, of what words do, and how much more sharply its first
layer looks than by chance."""

# word pieces of premise and hypothesis together, where the model has positions for as many
LONGEST = 256


class SharedBranch(nn.Module):
    """h^t by the layers over words of an image branch, which learns for both (paper, Table 3, without BERT)."""

    def __init__(self, image: FusionBranch) -> None:
        super().__init__()
        # in a list, so that its weights are counted and saved once, with the image branch
        self._image, self.width = [image], image.width

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids and types [B, T], 0 where there is none."""
        model = self._image[0].words
        words = model.embeddings(ids, types)
        mask = torch.zeros_like(ids, dtype=words.dtype).masked_fill(ids == 0, torch.finfo(words.dtype).min)
        for layer in model.encoder.layer:
            if isinstance(layer.crossattention, NoCrossAttention):
                words = layer(words, attention_mask=mask[:, None, None])
        return cast("Tensor", words[:, 0])


def tiny_source(recipe: ClassifierRecipe, encoder: str = "") -> TextSource:
    """An untrained BERT of the recipe's width, with words of `encoder`, if named. Raises what `find_source` raises."""
    pieces = tiny_vocabulary()
    config = {
        "vocab_size": len(pieces), "hidden_size": recipe.width, "num_hidden_layers": recipe.text_layers,
        "num_attention_heads": max(1, recipe.width // 32), "intermediate_size": 2 * recipe.width, "type_vocab_size": 2,
        "max_position_embeddings": PREMISE, "hidden_dropout_prob": recipe.dropout,
        "attention_probs_dropout_prob": recipe.dropout, "initializer_range": spread_of(recipe.width),
    }  # fmt: skip

    def build() -> BertBranch:
        from transformers import BertConfig, BertModel

        with seeded(SEED):
            model = BertModel(BertConfig(**config), add_pooling_layer=False)
        with torch.no_grad():
            # with equal queries and keys each word first attends to its like, also in the premise, which is slow to learn from few data
            model.embeddings.position_embeddings.weight.mul_(PLACES)
            for layer in model.encoder.layer:
                layer.attention.self.key.weight.copy_(layer.attention.self.query.weight)
        if not encoder:
            return BertBranch(model)
        source = find_source(encoder)
        return BertBranch(_comparing(model, words_of(source.build(), source, pieces, recipe.width).meaning))

    name = f"aligned:{encoder}" if encoder else TINY
    own = [checkpoint.model_fingerprint(find_source(encoder))] if encoder else []
    decides = [placeless(name), config, pieces, SEED, *own]
    print_of = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return TextSource(name, print_of, recipe.width, build, paired(pieces, PREMISE))


@torch.no_grad()
def _comparing(model: Any, words: Tensor) -> Any:
    """The model with given word embeddings, a first layer in which each word attends to similar words of the other text and keeps the
    difference, and layers above that gather this for [CLS]."""
    embeddings, (first, *above) = model.embeddings, [layer.attention for layer in model.encoder.layer]
    width = words.shape[1]
    same = torch.eye(width)
    embeddings.word_embeddings.weight.copy_(words)
    direction = functional.normalize(embeddings.token_type_embeddings.weight[0], dim=0)
    embeddings.token_type_embeddings.weight.copy_(torch.stack([direction, -direction]) * (SIDES * width**0.5))
    along = direction[:, None] * direction
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


def bert_folder(name: str) -> Path:
    """The folder of "KIND:DIRECTORY", "KIND:OWNER/NAME" or "KIND:minilm". Raises as `bert_source` does."""
    kind, _, source = name.partition(":")
    if not source:
        raise UsageError(
            f"{name!r} names no folder", hint=f"{kind}:DIRECTORY, {kind}:OWNER/NAME of the hub, or {kind}:{MINILM}"
        )
    return model_folder(kind, str(lite_folder() / MINILM) if source == MINILM else source, [_FILES])


def bert_source(name: str) -> TextSource:
    """The encoder in a folder that transformers wrote (config.json, model.safetensors, a tokenizer), or of the hub.

    "bert:FOLDER" reads premise and hypothesis at once, "late:FOLDER" each apart. Raises UsageError for no folder; DataError for files
    that are missing, damaged, or hold no encoder with padding 0; CtxrError for files that cannot be fetched.
    """
    from transformers import AutoModel, AutoTokenizer

    folder = bert_folder(name)
    separate, pooling = name.startswith(f"{LATE}:"), read_pooling(folder)

    @careful(what := f"text branch {name!r}")
    def build() -> BertBranch:
        model = load(AutoModel, folder, spare=("position_ids", "pooler"))
        if not hasattr(model.config, "hidden_size"):
            raise DataError(f"{folder} holds a {model.config.model_type}, which is not an encoder of texts")
        model.pooler = None  # never used, so its weights must not count in the fingerprint
        return (LateBranch if separate else BertBranch)(model, pooling)

    settings = {"local_files_only": True, "trust_remote_code": False}
    tokenizer: Any = careful(what)(AutoTokenizer.from_pretrained)(folder, **settings)
    if tokenizer.pad_token_id != 0:
        raise DataError(f"{folder}: padding is token {tokenizer.pad_token_id}, not 0", hint="take a BERT-like encoder")
    model, most = build(), min(LONGEST, int(tokenizer.model_max_length))
    config = model.model.config.to_dict() | {"_name_or_path": ""}
    about = json.dumps([config, vocabulary_hash(tokenizer)], sort_keys=True, default=str).encode()

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> PairTokens:
        shape = {"max_length": most, "padding": True, "return_tensors": "pt"}
        texts = list(premises), list(hypotheses)
        if not separate:
            tokens = tokenizer(*texts, truncation="longest_first", return_token_type_ids=True, **shape)
            return PairTokens(tokens["input_ids"], tokens["token_type_ids"])
        first, second = (tokenizer(column, truncation=True, **shape)["input_ids"] for column in texts)
        ids = torch.cat([first, second], dim=1)
        types = torch.cat([torch.zeros_like(first), torch.ones_like(second)], dim=1)
        return PairTokens(leftwards(ids, ids), leftwards(types, ids))

    how = f"{pooling} {LATE if separate else 'at once'}".encode() if separate or pooling != CLS else b""
    fingerprint = fingerprint_of(model.state_dict(), about, how)
    return TextSource(name, fingerprint, model.width, build, tokenize)


AT_ONCE = 16  # claims in one pass, those of like length together


class CachedBranch(nn.Module):
    """Stands for a text branch whose h^t is in the batch: it has no weights and is never called."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width


def frozen_text_source(source: TextSource, device: str = "cpu") -> TextSource:
    """The frozen branch: `tokenize` gives h^t, by an encoder built at first use on `device`."""
    encoders: list[nn.Module] = []

    @torch.no_grad()
    def encode(premises: Sequence[str], hypotheses: Sequence[str]) -> PairTokens:
        if not encoders:
            encoders.append(source.build().to(device).eval())
        hidden = torch.zeros(len(premises), source.width)
        order = sorted(range(len(premises)), key=lambda row: len(premises[row]) + len(hypotheses[row]))
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            ids, types = source.tokenize([premises[row] for row in rows], [hypotheses[row] for row in rows])
            ids = cut(ids)
            hidden[rows] = encoders[0](ids.to(device), types[:, : ids.shape[1]].to(device)).float().cpu()
        return PairTokens(hidden, torch.zeros(len(premises), 1, dtype=torch.int64))

    fingerprint = hashlib.sha256(f"{source.fingerprint} as it is".encode()).hexdigest()
    return TextSource(source.name, fingerprint, source.width, lambda: CachedBranch(source.width), encode, frozen=True)
