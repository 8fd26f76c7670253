"""BLIP as published for retrieval: files of its folder, and the text encoder that attends to the tokens of an image.

Letters: B queries, K candidates, N images, T tokens, P tokens of an image, D width of a pair.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import fingerprint
from ctxr.models.hub import BLIP_TINY
from ctxr.models.layers import cut, seeded
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import CONFIG, WEIGHTS, careful, load, model_folder, read_object, vocabulary_hash

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
VOCABULARIES = ("tokenizer.json", "vocab.txt")
LONGEST = 120  # tokens of a text that are read, as of the cross-encoders of the paper
WORDS = 30524  # words of the published models, where a config does not say

_SMALL = (CONFIG, PREPROCESSOR, PROCESSOR, *VOCABULARIES, "tokenizer_config.json", "special_tokens_map.json")
_PATTERNS = ((*_SMALL, "model*.safetensors*"), (*_SMALL, WEIGHTS[-1]))
_INTERPOLATIONS = {2: "bilinear", 3: "bicubic", "bilinear": "bilinear", "bicubic": "bicubic"}


def read_preprocess(folder: Path) -> Preprocess:
    """The preprocessing of pictures. Raises DataError for missing or unsupported settings."""
    settings = read_object(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else {}
    if not settings and (folder / PROCESSOR).is_file():
        settings = read_object(folder / PROCESSOR).get("image_processor") or {}
    if not settings:
        raise DataError(f"{folder} holds no {PREPROCESSOR}", hint="put the one of the published model there")
    try:
        size = settings["size"]
        height, width = (size, size) if isinstance(size, int) else (size["height"], size["width"])
        mean, std = (tuple(float(value) for value in settings[f"image_{name}"]) for name in ("mean", "std"))
        interpolation = _INTERPOLATIONS[settings.get("resample", 3)]
        whole = all(settings.get(f"do_{name}", True) for name in ("resize", "rescale", "normalize"))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / PREPROCESSOR} does not say size, mean and std as BLIP has them: {error}") from error
    if not whole or len(mean) != 3 or len(std) != 3 or min(std) <= 0 or min(height, width) < 1:
        raise DataError(f"{folder / PREPROCESSOR} leaves out a step, or has numbers that make no sense")
    return Preprocess((int(height), int(width)), mean, std, interpolation, "squash")


def read_tokenizer(folder: Path) -> Any:
    """A tokenizer of transformers, which reads at most `LONGEST` tokens.

    Raises DataError for a vocabulary that cannot be read or has more words than the model.
    """
    from transformers import BertTokenizerFast

    if not any((folder / name).is_file() for name in VOCABULARIES):
        hint = "put the published vocabulary there"
        raise DataError(f"{folder} holds neither {' nor '.join(VOCABULARIES)}", hint=hint)
    try:
        tokenizer = BertTokenizerFast.from_pretrained(folder, local_files_only=True)
        if tokenizer.pad_token_id != 0:
            raise ValueError(f"padding is token {tokenizer.pad_token_id}, not 0")
        config = read_object(folder / CONFIG).get("text_config") or {}
        size, longest = int(config.get("vocab_size", WORDS)), int(config.get("max_position_embeddings", LONGEST))
        if len(tokenizer) > size:
            raise ValueError(f"it has {len(tokenizer)} words, and the model knows {size}")
        tokenizer.model_max_length = min(LONGEST, longest)
    except Exception as error:  # the library has errors of its own, down to its panics
        raise DataError(f"the vocabulary in {folder} cannot be read: {error}") from error
    return tokenizer


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
# keys of a config that describe its file, not the model
_VOLATILE = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures")


class BlipEncoder(nn.Module):
    """An encoder of pairs for `PairScorer`, over pixels; it encodes an image once for all its descriptions.

    `model`: transformers' BlipForImageTextRetrieval. `width`: D of a pair and of its text encoder.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.config.text_config.hidden_size)

    def pairs(self, images: Tensor, texts: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Pair features [B, K, D]; zeros where `mask` is False. Arguments as in a `Batch`, images as pixels."""
        seen = self.model.vision_model(pixel_values=images).last_hidden_state
        query, candidate = mask.nonzero(as_tuple=True)
        tokens = cut(texts)[query]
        image = seen[candidates[query, candidate]]
        joint = joint_vectors(self.model.text_encoder, tokens, image)
        joint = joint if joint.dtype == torch.float64 else joint.float()
        return joint.new_zeros((*mask.shape, self.width)).index_put((query, candidate), joint)

    def match(self, pairs: Tensor) -> Tensor:
        """Log-odds [B, K] that image and text match, by the published head, from pair features [B, K, D]."""
        # by products of its own: scores of one set lie close together, and autocast would make ties of them
        head = self.model.itm_head
        weight, bias = head.weight[1] - head.weight[0], head.bias[1] - head.bias[0]
        return cast("Tensor", (pairs * weight).sum(-1) + bias)


def joint_vectors(text_encoder: Any, tokens: Tensor, image: Tensor) -> Tensor:
    """The [CLS] [B, D] of texts [B, T] with attention to image tokens [B, P, ...]."""
    states: Tensor = text_encoder(
        input_ids=tokens,
        attention_mask=(tokens != 0).long(),
        encoder_hidden_states=image,
        encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=image.device),
    ).last_hidden_state
    return states[:, 0]


def load_blip(name: str) -> CrossSource:
    """The pair encoder "blip:DIRECTORY", a folder as transformers writes it (config.json, model.safetensors, vocabulary and
    preprocessor_config.json); "blip:OWNER/NAME" of the hub; or "random:blip-tiny".

    Raises UsageError for another name; DataError for files that are missing, damaged, or of another model; CtxrError for files that
    cannot be fetched.
    """
    from transformers import BlipConfig, BlipForImageTextRetrieval

    def hashed(text: str) -> list[int]:
        """A number for each word, by its letters alone."""
        numbers = (int(hashlib.sha256(word.encode()).hexdigest(), 16) % 509 for word in text.lower().split()[:60])
        return [1, *(3 + number for number in numbers), 2]

    if name == BLIP_TINY:
        pixels = Preprocess((32, 32), (0.5,) * 3, (0.25,) * 3, resize_mode="squash")
        untrained = seeded(0)(lambda: BlipForImageTextRetrieval(BlipConfig(**_TINY)).eval())
        return _source(BLIP_TINY, untrained, pixels, lambda texts: [hashed(text) for text in texts], "hashed")
    folder = blip_folder(name.removeprefix("blip:"))
    preprocess, tokenizer = read_preprocess(folder), read_tokenizer(folder)
    hint = "name a model for image-text retrieval (itm): those for captions have no such head"
    build = careful(f"encoder {name!r}")(lambda: load(BlipForImageTextRetrieval, folder, hint))
    return _source(
        name, build, preprocess,
        lambda texts: tokenizer(list(texts), truncation=True)["input_ids"] if texts else [], vocabulary_hash(tokenizer),
    )  # fmt: skip


def blip_folder(named: str) -> Path:
    """The folder of that name, or of "OWNER/NAME". Raises as `load_blip` does."""
    if not named:
        raise UsageError("'blip:' names no folder", hint="blip:DIRECTORY, or blip:OWNER/NAME of the hub")
    return model_folder("blip", named, _PATTERNS, ((PREPROCESSOR, PROCESSOR), VOCABULARIES))


def _source(
    name: str, build: Callable[[], Any], preprocess: Preprocess, ids: Callable[[Sequence[str]], list[list[int]]],
    words: str,
) -> CrossSource:  # fmt: skip
    """The source of what `build` makes. `ids`: a row a text. `words`: hash of the vocabulary."""

    def tokenize(texts: Sequence[str]) -> Tensor:
        """int64 [B, T], filled up with 0 to the longest row, one column at least."""
        rows = ids(texts)
        most = max(map(len, rows), default=1)
        return torch.tensor([row + [0] * (most - len(row)) for row in rows], dtype=torch.int64).reshape(-1, most)

    model = build()
    config = model.config.to_dict()
    pixels = config["vision_config"]["image_size"]
    if preprocess.size != (pixels, pixels):
        wanted = f"and the model looks at {(pixels, pixels)}"
        raise DataError(f"{name}: pictures are made {preprocess.size} pixels large, {wanted}")
    lasting = json.loads(
        json.dumps(config, default=str),
        object_hook=lambda part: {key: value for key, value in part.items() if key not in _VOLATILE},
    )
    return CrossSource(
        name=name,
        fingerprint=fingerprint(model, {"config": lasting, "words": words}, preprocess),
        width=int(config["text_config"]["hidden_size"]),
        looks_at="pixels",
        features=0,
        build=lambda: BlipEncoder(build()).eval().requires_grad_(False),
        tokenize=tokenize,
        preprocess=preprocess,
    )
