"""The files of a BLIP folder: where they are, what they say of pictures and words, and what of them is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.hub import PATIENCE, answers
from ctxr.models.preprocess import Preprocess

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, PREPROCESSOR, PROCESSOR = "config.json", "preprocessor_config.json", "processor_config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
VOCABULARIES = ("tokenizer.json", "vocab.txt")
LONGEST = 120
"""Tokens of a text that are read, as of the cross-encoders of the paper."""

WORDS = 30524
"""Words of the published models, where a config does not say."""

_SMALL = (CONFIG, PREPROCESSOR, PROCESSOR, *VOCABULARIES, "tokenizer_config.json", "special_tokens_map.json")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_INTERPOLATIONS = {2: "bilinear", 3: "bicubic", "bilinear": "bilinear", "bicubic": "bicubic"}


def hub_folder(repository: str) -> Path:
    """The folder of a repository "OWNER/NAME" of the hub in its cache, fetched if it is not there.

    Raises:
        UsageError: no such name, and no folder either.
        CtxrError: the files are not on this machine and cannot be fetched.
    """
    if not _HUB_NAME.fullmatch(repository):
        raise UsageError(f"there is no folder {repository}", hint="blip:DIRECTORY, or blip:OWNER/NAME of the hub")
    import huggingface_hub
    from huggingface_hub.constants import HF_HUB_OFFLINE

    cached = huggingface_hub.try_to_load_from_cache(repository, CONFIG)
    if isinstance(cached, str) and _is_fetched(Path(cached).parent):
        return Path(cached).parent
    hint = f"connect to the network once, or give the folder: blip:DIRECTORY; {repository} is no folder here"
    if HF_HUB_OFFLINE or not answers(huggingface_hub.hf_hub_url(repository, CONFIG), PATIENCE):
        raise CtxrError(
            f"the files of blip:{repository} are not on this machine and their host does not answer", hint=hint
        )
    try:
        folder = Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*_SMALL, "model*.safetensors*"]))
        if not _is_whole(folder):
            folder = Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*_SMALL, WEIGHTS[-1]]))
    except Exception as error:  # whatever the network or the hub's client comes up with
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CtxrError(f"the files of blip:{repository} could not be fetched: {first}", hint=hint) from error
    return folder


def read_preprocess(folder: Path) -> Preprocess:
    """What is done to a picture first. Raises DataError for settings that are missing or that nobody knows here."""
    settings = _json(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else {}
    if not settings and (folder / PROCESSOR).is_file():
        settings = _json(folder / PROCESSOR).get("image_processor") or {}
    if not settings:
        raise DataError(f"{folder} holds no {PREPROCESSOR}", hint="put the one of the published model there")
    try:
        size = settings["size"]
        height, width = (size, size) if isinstance(size, int) else (size["height"], size["width"])
        mean, std = (tuple(float(one) for one in settings[f"image_{name}"]) for name in ("mean", "std"))
        interpolation = _INTERPOLATIONS[settings.get("resample", 3)]
        whole = all(settings.get(f"do_{name}", True) for name in ("resize", "rescale", "normalize"))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / PREPROCESSOR} does not say size, mean and std as BLIP has them: {error}") from error
    if not whole or len(mean) != 3 or len(std) != 3 or min(std) <= 0 or min(height, width) < 1:
        raise DataError(f"{folder / PREPROCESSOR} leaves out a step, or has numbers that make no sense")
    return Preprocess((int(height), int(width)), mean, std, interpolation, "squash")


def read_tokens(folder: Path) -> tuple[Callable[[Sequence[str]], Tensor], str]:
    """(texts to token ids int64 [B, T], 0 where there is none; hash over the vocabulary).

    Raises DataError for a vocabulary that is missing, cannot be read, or has more words than the model.
    """
    import torch
    from transformers import BertTokenizerFast

    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise DataError(
            f"{folder} holds neither {' nor '.join(VOCABULARIES)}", hint="put the published vocabulary there"
        )
    try:
        tokenizer = BertTokenizerFast.from_pretrained(folder, local_files_only=True)
        words = sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()
        if tokenizer.pad_token_id != 0:
            raise ValueError(f"padding is token {tokenizer.pad_token_id}, not 0")
        told = _json(folder / CONFIG).get("text_config") or {}
        known, places = int(told.get("vocab_size", WORDS)), int(told.get("max_position_embeddings", LONGEST))
        if len(tokenizer) > known:
            raise ValueError(f"it has {len(tokenizer)} words, and the model knows {known}")
    except Exception as error:  # the library has errors of its own, down to its panics
        raise DataError(f"the vocabulary in {folder} cannot be read: {error}") from error

    def tokenize(texts: Sequence[str]) -> Tensor:
        if not texts:
            return torch.zeros((0, 1), dtype=torch.int64)
        rows = tokenizer(list(texts), truncation=True, max_length=min(LONGEST, places))["input_ids"]
        most = max(len(row) for row in rows)
        return torch.tensor([row + [0] * (most - len(row)) for row in rows], dtype=torch.int64)

    return tokenize, words


def stay_inside(folder: Path) -> None:
    """Raises DataError where there are no weights, or where a list of their parts leads out of the folder."""
    if not _is_whole(folder):
        raise DataError(
            f"{folder} holds no {CONFIG} with {WEIGHTS[0]} beside it", hint="give a folder that transformers wrote"
        )
    if (folder / WEIGHTS[1]).is_file():
        for name in set(_json(folder / WEIGHTS[1]).get("weight_map", {}).values()):
            if not isinstance(name, str) or Path(name).name != name or name in ("", ".."):
                raise DataError(f"{folder / WEIGHTS[1]} names {name!r}, which leads out of the folder")


def _is_whole(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in WEIGHTS)


def _is_fetched(folder: Path) -> bool:
    """Whether a fetch that may have been cut off left everything that is needed."""
    needed = ((PREPROCESSOR, PROCESSOR), VOCABULARIES)
    return _is_whole(folder) and all(any((folder / name).is_file() for name in names) for names in needed)


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: holds no JSON object")
    return content
