"""Models of natural language inference of five architectures, and folders that hold none."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ctxr.errors import DataError, UsageError
from ctxr.models.entailment.base import Claim
from ctxr.models.judges.nli import NliJudge
from tests.models.judges.nli_folder import KINDS, LABELS, make_nli
from tests.models.test_published_code import change, pickled

CLAIMS = [
    Claim("a dog runs over grass", None, "a dog runs"),
    Claim("two men", None, "a cat sleeps on a chair"),
    Claim("a red ball", None, "it is a ball"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_any_architecture_says_what_transformers_says_of_each_claim(kind: str, tmp_path: Path) -> None:
    folder = make_nli(tmp_path / "nli", kind)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    wanted = []
    for claim in CLAIMS:
        with torch.no_grad():
            logits = model(**tokenizer(claim.premise, claim.hypothesis, return_tensors="pt")).logits
        wanted.append(float(logits.softmax(1)[0, LABELS.index("Entailment")]))
    judge = NliJudge(str(folder))
    assert np.ptp(wanted) > 1e-4
    np.testing.assert_allclose(judge.probabilities(CLAIMS), wanted, atol=1e-5)
    assert (judge.name, judge.threshold, judge.trained_on) == ("nli:nli", 0.5, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_premise_that_is_too_long_is_cut_and_its_hypothesis_is_read_whole(kind: str, tmp_path: Path) -> None:
    judge = NliJudge(str(make_nli(tmp_path / "nli", kind)))
    long = "b " * judge.most
    of_premise = [Claim(long + more, None, "a dog") for more in ("", "c d e")]
    of_hypothesis = [Claim(long, None, f"a dog{more}") for more in ("", " c d e")]
    for claims, differ in ((of_premise, False), (of_hypothesis, True)):
        first, second = judge.probabilities(claims)
        assert (abs(first - second) > 1e-6) == differ
    both = judge.probabilities([Claim("b " * 9, None, long), Claim(long, None, long)])
    assert ((both >= 0) & (both <= 1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_the_tokenizer_in_a_caption_are_text(kind: str, tmp_path: Path) -> None:
    judge = NliJudge(str(make_nli(tmp_path / "nli", kind)))
    marks = judge.tokenizer.all_special_tokens
    first, second = (" ".join(["a dog", *words, "b"]) for words in (marks, [" "] * len(marks)))
    said = judge.probabilities([Claim(first, None, first), Claim(second, None, second)])
    assert said[0] == pytest.approx(said[1], rel=1e-5)


@pytest.mark.parametrize(
    ("labels", "row"), [(("not_entailment", " entailment"), 1), (("entailment", "b", "c"), 0), (("Entailment",), 0)]
)
def test_the_class_is_found_by_its_name(labels: tuple[str, ...], row: int, tmp_path: Path) -> None:
    judge = NliJudge(str(make_nli(tmp_path / "nli", labels=labels)))
    tokens = judge.tokenizer(CLAIMS[0].premise, CLAIMS[0].hypothesis, return_tensors="pt")
    logits = judge.model(**tokens).logits[0]
    shares = logits.softmax(0) if len(labels) > 1 else logits.sigmoid()
    assert judge.probabilities(CLAIMS[:1])[0] == pytest.approx(float(shares[row]), abs=1e-6)


def write_weights(folder: Path, make: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Put other weights in the place of a folder's."""
    save_file(make(load_file(folder / "model.safetensors")), folder / "model.safetensors", metadata={"format": "pt"})


def labelled(*labels: str) -> Callable[[Path], None]:
    """What gives a model's classes other names."""
    return lambda folder: change(folder / "config.json", {"id2label": dict(enumerate(labels))})


def without_vocabulary(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def damaged(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"{}")


def in_config(**values: Any) -> Callable[[Path], None]:
    """What writes values into the config."""
    return lambda folder: change(folder / "config.json", values)


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "numbered labels": (labelled("LABEL_0", "LABEL_1", "LABEL_2"), "LABEL_0, LABEL_1, LABEL_2"),
    "entailment is not among them": (labelled("not_entailment", "neutral", "x"), "not_entailment, neutral"),
    "two of them": (labelled("Entailment", "ENTAILMENT", "x"), "Entailment, ENTAILMENT"),
    "gaps": (in_config(id2label={"0": "a", "7": "entailment"}), r"config\.json"),
    "a list": (in_config(id2label=["a", "entailment"]), r"config\.json"),
    "code": (in_config(auto_map={"AutoModel": "planted.Model"}), "auto_map"),
    "no classifier": (
        partial(write_weights, make=lambda held: {name: held[name] for name in held if "classifier" not in name}),
        r"classifier\.bias",
    ),
    "another shape": (in_config(max_position_embeddings=100), r"\(64, 32\), wanted \(100, 32\)"),
    "no numbers": (partial(write_weights, make=lambda held: {name: held[name] * torch.nan for name in held}), "nli"),
    "a pickle": (pickled, "UnpicklingError"),
    "no vocabulary": (without_vocabulary, "vocabulary"),
    "no room": (lambda folder: change(folder / "tokenizer_config.json", {"model_max_length": 3}), " 3 tokens"),
    "another architecture": (in_config(model_type="clip"), "CLIPConfig"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors"),
    "damaged": (damaged, "weights cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_model_of_inference_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    spoil, names = WRONG[case]
    folder = make_nli(tmp_path / "nli")
    spoil(folder)
    with pytest.raises(DataError, match=names) as caught:
        NliJudge(str(folder))
    assert "\n" not in caught.value.message
    assert case != "numbered labels" or str(folder / "config.json") in caught.value.hint
    with pytest.raises(UsageError, match="no folder"):
        NliJudge(str(tmp_path / "none"))
