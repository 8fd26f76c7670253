"""Published models of natural language inference as judges: do the captions of a picture entail the hypothesis?

Letters: B claims, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ctxr.errors import DataError, and_more
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.hub import hub_folder
from ctxr.models.published import (
    CONFIG,
    careful,
    fingerprint_of,
    is_model_folder,
    quiet,
    read_object,
    require_model_folder,
)
from ctxr.store.hashing import sha256_file

AT_ONCE = 16
"""Claims in one pass, those of like length together."""

LONGEST = 512
"""Tokens of premise and hypothesis together, where a model does not say how many it has positions for."""

_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "*.model", "special_tokens_map.json", "added_tokens.json")
_FILES = (CONFIG, "model*.safetensors*", *_TOKENIZER)


class NliJudge(Judge):
    """A sequence classifier of transformers, whatever its architecture, with a class that its config calls entailment.

    A premise that does not fit is cut at its end; a claim without a premise gets no answer.

    Args:
        source: a folder that transformers wrote, or OWNER/NAME of the hub. device: where it runs.

    Raises UsageError for neither; DataError for a folder whose files are not all there, cannot be read, or hold no such classifier;
    CtxrError for files that cannot be fetched.
    """

    threshold = 0.5
    trained_on = None

    def __init__(self, source: str, device: str = "cpu") -> None:
        here = bool(source) and Path(source).is_dir()
        folder = Path(source) if here else hub_folder("nli", source, is_model_folder, [_FILES])
        require_model_folder(folder)
        self.name = f"nli:{folder.resolve().name if here else source}"
        self.device, self.entailment = "cpu", entailment_class(folder / CONFIG)
        self.model, self.tokenizer = careful(f"judge {self.name!r}", lambda: _pretrained(folder))()
        self.most = _most_tokens(self.model, self.tokenizer)
        claim = Claim("a " * self.most, None, "a")
        if not np.isfinite(careful(f"judge {self.name!r}", lambda: self.probabilities([claim, claim]))()).all():
            raise DataError(f"{folder} holds weights that make no probabilities", hint="fetch the model again")
        files = sorted({file for pattern in (CONFIG, *_TOKENIZER) for file in folder.glob(pattern) if file.is_file()})
        about = json.dumps(["nli", {file.name: sha256_file(file) for file in files}])
        self.fingerprint = fingerprint_of(self.model.state_dict(), about.encode())
        self.device = device
        self.model.to(device)

    @torch.no_grad()
    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 that premise entails hypothesis, NaN where there is no premise."""
        entailed = np.full(len(claims), np.nan, np.float32)
        rows = [row for row, claim in enumerate(claims) if claim.premise.strip()]
        rows.sort(key=lambda row: len(claims[row].premise) + len(claims[row].hypothesis))
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            with quiet():
                tokens = self.tokenizer.pad([self._tokens(claims[row]) for row in part], return_tensors="pt")
            logits = self.model(**tokens.to(self.device)).logits.float()
            shares = logits.softmax(1) if logits.shape[1] > 1 else logits.sigmoid()
            entailed[part] = shares[:, self.entailment].cpu().numpy()
            if advance:
                advance(len(part))
        if advance:
            advance(len(claims) - len(rows))
        return entailed

    def _tokens(self, claim: Claim) -> Any:
        """Tokens of a claim: the premise gives way first, and both where the hypothesis alone is too long."""
        room = self.most - self.tokenizer.num_special_tokens_to_add(pair=True)
        plain = {"split_special_tokens": True}  # "</s>" in a caption is text
        hypothesis = self.tokenizer(claim.hypothesis, add_special_tokens=False, **plain)["input_ids"]
        cut = "only_first" if len(hypothesis) < room else "longest_first"
        return self.tokenizer(claim.premise, claim.hypothesis, truncation=cut, max_length=self.most, **plain)


def entailment_class(config: Path) -> int:
    """The class that a model's config calls entailment, in whatever case. Raises DataError where none or several are called so."""
    labels = read_object(config).get("id2label")
    labels = labels if isinstance(labels, dict) else {}
    names = [str(labels.get(str(row), "")) for row in range(len(labels))]
    rows = [row for row, name in enumerate(names) if name.strip().casefold() == "entailment"]
    if len(rows) != 1:
        raise DataError(
            f"{config}: id2label names {len(rows) or 'no'} class{'es' * (len(rows) > 1)} entailment, but {', '.join(names) or 'nothing'}",
            hint=f'in id2label of {config} write "entailment" for the class that means it, if this is a model of inference',
        )
    return rows[0]


def _pretrained(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, every weight from there."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model, report = AutoModelForSequenceClassification.from_pretrained(
        folder, **local, weights_only=True, dtype=torch.float32, output_loading_info=True
    )
    missing = sorted(key for key in report["missing_keys"] if "position_ids" not in key)
    if missing:
        raise DataError(
            f"{folder} holds no weights for {missing[0]}{and_more(len(missing))}",
            hint="take a model that was fine-tuned for natural language inference",
        )
    tokenizer = AutoTokenizer.from_pretrained(folder, **local)
    if len(tokenizer) > (known := model.get_input_embeddings().num_embeddings):
        raise DataError(f"{folder}: the tokenizer has {len(tokenizer)} tokens, and the model knows {known}")
    return model.eval().requires_grad_(False), tokenizer


def _most_tokens(model: Any, tokenizer: Any) -> int:
    """How many tokens a model reads at once; RoBERTa counts its positions from behind that of padding."""
    places = getattr(model.config, "max_position_embeddings", None) or LONGEST
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return min(places - (0 if padding is None else padding + 1), int(tokenizer.model_max_length))
