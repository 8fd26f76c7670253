"""Published models of natural language inference and of image-text matching as judges."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ctxr.errors import DataError, UsageError
from ctxr.media.images import read_image
from ctxr.models.blip import load_blip
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.hub import is_blip
from ctxr.models.published import careful, fingerprint_of, load, model_folder, quiet, read_object
from ctxr.store.hashing import sha256_file, sha256_of

# claims in one pass: texts of like length together, and pairs about one picture together
AT_ONCE, PAIRS = 16, 32

# tokens of premise and hypothesis together: how many it must read, and how many where a model does not say
LEAST, LONGEST = 16, 512

# positions of a model that no token may have: RoBERTa counts from behind that of padding
RESERVED = 2

_TEXTS = ("*config.json", "tokenizer.json", "vocab*", "*.model", "merges.txt", "*tokens*.json")


class NliJudge(Judge):
    """A sequence classifier of transformers, from a folder or OWNER/NAME of the hub, with a class that its config calls entailment.

    A premise that does not fit is cut; a claim without a premise gets no answer. Raises UsageError for no folder; DataError for files
    that are missing, damaged, or hold no such classifier; CtxrError for files that cannot be fetched.
    """

    def __init__(self, source: str, device: str = "cpu") -> None:
        folder = nli_folder(source)
        self.name = f"nli:{Path(source).resolve().name}"
        # the class that a model's config calls entailment, in whatever case
        config = folder / "config.json"
        labels = read_object(config).get("id2label")
        names = [str(labels.get(str(row))) for row in range(len(labels))] if isinstance(labels, dict) else []
        rows = [row for row, name in enumerate(names) if name.strip().casefold() == "entailment"]
        if len(rows) != 1:
            raise DataError(
                f"{config} must call one class entailment, and has {', '.join(names) or 'no names'}",
                hint=f"in id2label of {config} write entailment for the class that means it",
            )
        self.entailment, self.device = rows[0], "cpu"
        with careful(self.name):
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            hint = "take a model that was trained for inference"
            self.model: Any = load(AutoModelForSequenceClassification, folder, hint).requires_grad_(False)
            if not any(file for name in _TEXTS[1:4] for file in folder.glob(name)):
                raise DataError(f"{folder} holds no vocabulary", hint="put the files of its tokenizer there")
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            if len(self.tokenizer) > (known := self.model.get_input_embeddings().num_embeddings):
                raise DataError(f"{folder} has a tokenizer of {len(self.tokenizer)} tokens and a model of {known}")
        places = getattr(self.model.config, "max_position_embeddings", None) or LONGEST
        self.most = min(places - RESERVED, int(self.tokenizer.model_max_length))
        if self.most < LEAST:
            raise DataError(f"{folder} reads no more than {self.most} tokens", hint="take another model")
        self.special = re.compile("|".join(map(re.escape, self.tokenizer.all_special_tokens)) or "(?!)")
        longest = [Claim("a " * self.most, None, "a")]
        if not np.isfinite(careful(self.name)(self.probabilities)(longest * 2)).all():
            raise DataError(f"{folder} holds weights that give no probabilities", hint="fetch the model again")
        texts = {file.name: sha256_file(file) for name in _TEXTS for file in folder.glob(name) if file.is_file()}
        self.fingerprint = fingerprint_of(self.model.state_dict(), json.dumps(texts, sort_keys=True).encode())
        self.model.to(device)
        self.device = device

    @torch.no_grad()
    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 that the premise entails the hypothesis, NaN where one is empty."""
        entailed = np.full(len(claims), np.nan, np.float32)
        rows = [row for row, claim in enumerate(claims) if claim.premise.strip() and claim.hypothesis.strip()]
        rows.sort(key=lambda row: len(claims[row].premise) + len(claims[row].hypothesis))
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            with quiet():
                tokens = self.tokenizer.pad([self._tokens(claims[row]) for row in part], return_tensors="pt")
            logits = self.model(**tokens.to(self.device)).logits.float()
            shares = logits.softmax(1) if logits.shape[1] > 1 else logits.sigmoid()
            entailed[part] = shares[:, self.entailment].cpu().numpy()
        return entailed

    def _tokens(self, claim: Claim) -> Any:
        """Tokens of a claim: the premise gives way, and both where the hypothesis alone is too long."""
        premise, hypothesis = (self.special.sub(" ", text) for text in (claim.premise, claim.hypothesis))
        room = self.most - self.tokenizer.num_special_tokens_to_add(pair=True)
        fits = len(self.tokenizer(hypothesis, add_special_tokens=False)["input_ids"]) < room
        cut = "only_first" if fits else "longest_first"
        return self.tokenizer(premise, hypothesis, truncation=cut, max_length=self.most)


def nli_folder(source: str) -> Path:
    """Where the files of a model lie. Raises what `model_folder` raises."""
    return model_folder("nli", source, [[*_TEXTS, "model*.safetensors*"], [*_TEXTS, "pytorch_model.bin"]])


class MatchingJudge(Judge):
    """The matching head of BLIP, over picture and hypothesis. A claim without a picture gets no answer.

    Raises UsageError for a name that is not one of `load_blip`, and what that raises.
    """

    family = "blip"

    def __init__(self, model: str, device: str = "cpu") -> None:
        if not is_blip(model):
            raise UsageError(f"--judge itm:{model} names no BLIP model", hint="--judge itm:blip:DIRECTORY")
        source = load_blip(model)
        self.name = f"itm:{Path(model.partition(':')[2]).resolve().name}"
        self.fingerprint = sha256_of(["itm", source.fingerprint])
        self.tokenize, self.device = source.tokenize, device
        self.preprocess: Any = source.preprocess
        self.model: Any = source.build().to(device)

    @torch.no_grad()
    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 that picture and hypothesis match, NaN where there is no picture."""
        matched = np.full(len(claims), np.nan, np.float32)
        rows = sorted((claim.image, row) for row, claim in enumerate(claims) if claim.image is not None)
        for start in range(0, len(rows), PAIRS):
            files, part = zip(*rows[start : start + PAIRS], strict=True)
            pictures = sorted(set(files))
            pixels = self.preprocess([read_image(file) for file in pictures]).to(self.device)
            tokens = self.tokenize([claims[row].hypothesis for row in part]).to(self.device)
            index = torch.tensor([[pictures.index(file)] for file in files]).to(self.device)
            pairs = self.model.pairs(pixels, tokens, index, torch.ones_like(index, dtype=torch.bool))
            matched[list(part)] = self.model.match(pairs)[:, 0].sigmoid().cpu().numpy()
        return matched
