"""BLIP as published for retrieval: the text encoder attends to the tokens of an image, and its [CLS] is their pair.

Letters: B queries, K candidates, N images, T tokens, P tokens of an image, D width of a pair.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.blip_files import hub_folder, read_preprocess, read_tokens, stay_inside
from ctxr.models.cross.sources import CrossSource
from ctxr.models.loading import fingerprint
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import careful

TINY = "random:blip-tiny"
"""Untrained weights from a fixed seed, for tests and nothing else."""

_TINY: dict[str, Any] = {
    "text_config": {
        "vocab_size": 512, "hidden_size": 32, "encoder_hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": 1, "sep_token_id": 2, "eos_token_id": 2,
        "initializer_range": 0.2,
    },
    "vision_config": {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
        "patch_size": 16, "initializer_range": 0.2,
    },
    "image_text_hidden_size": 16,
    "initializer_range": 0.2,
}  # fmt: skip
_VOLATILE = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures")
"""What a config says of the file it stood in, not of the model."""


class BlipEncoder(nn.Module):
    """A `PairEncoder` over pixels. An image is looked at once, however many descriptions ask about it.

    Args:
        model: transformers' BlipForImageTextRetrieval.

    Attributes:
        width: D of a pair, the width of the text encoder.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.config.text_config.hidden_size)

    def pairs(self, images: Tensor, texts: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Pair features [B, K, D]; zeros where `mask` is False. Arguments as `PairEncoder.pairs` says, images as pixels."""
        seen = self.model.vision_model(pixel_values=images).last_hidden_state
        query, place = mask.nonzero(as_tuple=True)
        tokens = texts[:, : max(1, int((texts != 0).sum(1).max()))][query]
        image = seen[candidates[query, place]]
        told = self.model.text_encoder(
            input_ids=tokens,
            attention_mask=(tokens != 0).long(),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=image.device),
        ).last_hidden_state[:, 0]
        told = told if told.dtype == torch.float64 else told.float()
        pairs: Tensor = told.new_zeros((*mask.shape, self.width)).index_put((query, place), told)
        return pairs

    def match(self, pairs: Tensor) -> Tensor:
        """Log-odds [B, K] that image and text match, by the published head, from pair features [B, K, D]."""
        # by products of its own: scores of one set lie close together, and autocast would make ties of them
        head = self.model.itm_head
        weight, bias = head.weight[1] - head.weight[0], head.bias[1] - head.bias[0]
        odds: Tensor = (pairs * weight).sum(-1) + bias
        return odds


def is_blip(name: str) -> bool:
    """Whether a name is one that `load_blip` takes."""
    return name.startswith("blip:") or name == TINY


def load_blip(name: str, seed: int = 0) -> CrossSource:
    """The pair encoder of that name.

    Args:
        name: "blip:DIRECTORY", a folder as transformers writes it (config.json, model.safetensors, vocabulary and
            preprocessor_config.json); "blip:OWNER/NAME", such a folder of the hub, fetched once into its cache; or
            "random:blip-tiny".
        seed: of the weights of the last.

    Raises:
        UsageError: a name that is neither.
        DataError: a folder whose files are not all there, cannot be read, or hold another model.
        CtxrError: files that cannot be fetched.
    """
    if name == TINY:
        return _tiny(seed)
    given = name.removeprefix("blip:")
    if not given:
        raise UsageError(f"{name!r} names no folder", hint="blip:DIRECTORY, or blip:OWNER/NAME of the hub")
    folder = Path(given)
    if not folder.is_dir():
        folder = hub_folder(given)
    stay_inside(folder)
    preprocess, (tokenize, words) = read_preprocess(folder), read_tokens(folder)
    return _source(name, careful(f"encoder {name!r}", lambda: _pretrained(folder)), preprocess, tokenize, words)


def _source(
    name: str, build: Callable[[], Any], preprocess: Preprocess, tokenize: Callable[[Sequence[str]], Tensor], words: str
) -> CrossSource:
    model = build()
    config = model.config.to_dict()
    side = config["vision_config"]["image_size"]
    if preprocess.size != (side, side):
        raise DataError(
            f"{name}: pictures are made {preprocess.size} pixels large, and the model looks at {(side, side)}"
        )
    settings = {"config": _plain(config), "words": words}
    return CrossSource(
        name=name,
        fingerprint=fingerprint(model, settings, preprocess),
        width=int(config["text_config"]["hidden_size"]),
        looks_at="pixels",
        features=0,
        build=lambda: BlipEncoder(build()).eval().requires_grad_(False),
        tokenize=tokenize,
        preprocess=preprocess,
    )


def _tiny(seed: int) -> CrossSource:
    def build() -> Any:
        from transformers import BlipConfig, BlipForImageTextRetrieval

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return BlipForImageTextRetrieval(BlipConfig(**_TINY)).eval()

    preprocess = Preprocess((32, 32), (0.5,) * 3, (0.25,) * 3, resize_mode="squash")
    return _source(TINY, build, preprocess, _hashed_words, "hashed")


def _hashed_words(texts: Sequence[str]) -> Tensor:
    """A row of ids for each text, a number for each word that follows from its letters alone."""
    rows = [
        [1, *(3 + int(hashlib.sha256(word.encode()).hexdigest(), 16) % 509 for word in text.lower().split()[:60]), 2]
        for text in texts
    ]
    most = max((len(row) for row in rows), default=2)
    return torch.tensor([row + [0] * (most - len(row)) for row in rows], dtype=torch.int64).reshape(len(rows), most)


def _pretrained(folder: Path) -> Any:
    """The model in a folder, every weight of it from there."""
    from transformers import BlipForImageTextRetrieval

    model, found = BlipForImageTextRetrieval.from_pretrained(
        folder, local_files_only=True, weights_only=True, dtype=torch.float32, output_loading_info=True
    )
    missing = sorted(name for name in found["missing_keys"] if not name.endswith("position_ids"))
    if missing:
        raise DataError(
            f"{folder} holds no weights for {missing[0]} and {len(missing) - 1} more",
            hint="name a model for image-text retrieval (itm): those for captions have no such head",
        )
    return model.eval()


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without what says nothing of the model."""
    kept = {key: value for key, value in config.items() if key not in _VOLATILE}
    plain = {key: _plain(value) if isinstance(value, dict) else value for key, value in kept.items()}
    settings: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return settings
