"""Models of dialogues and photos: losses and attention against slow versions, towers, runs that learn and that start from runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.models import resnet50

from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.layers import unit
from ctxr.models.resnets import find_tower
from ctxr.models.training.state import save_tensors
from ctxr.pipelines.modelling.config import Eval, RegionsConfig
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.regions import run as regions
from ctxr.problems.dialogue.learner import DialogueSources, OpenDialogues
from ctxr.problems.dialogue.queries import dialogue_queries
from ctxr.problems.dialogue.recipe import DialogueRecipe
from ctxr.problems.dialogue.towers import WordAttention, attended, text_ids
from ctxr.problems.ranked import first_rate
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.two_towers import hinge_loss
from ctxr.synthetic.dialogues import write_dialogues
from tests.problems.test_dialogue import drawn, trained

__all__ = ["drawn"]

TINY = (
    "encoder=ctxr-tiny",
    "frozen=true",
    "text=random:bert-tiny",
    "label_text=aligned:ctxr-tiny",
    "width=16",
    "batch=16",
)


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("hardest", [False, True])
def test_hinge_losses_equal_the_slow_version_with_equal_photos_in_a_step(hardest: bool) -> None:
    scores, own = some(4, 3), torch.tensor([0, 1, 1, 2])
    relevant = functional.one_hot(own, 3).bool()
    relevant[3, 0] = True
    total = 0.0
    for query in range(4):
        image = int(own[query])
        right = float(scores[query, image])
        images = [float(scores[query, one]) for one in range(3) if one != image and not relevant[query, one]]
        queries = [float(scores[one, image]) for one in range(4) if one != query and not relevant[one, image]]
        for wrong in (images, queries):
            short = [max(0.0, 0.2 - right + one) for one in wrong]
            total += max(short, default=0.0) if hardest else sum(short)
    assert float(hinge_loss(scores, own, relevant, 0.2, hardest)) == pytest.approx(total / 4, rel=1e-12)


def slow_attention(words: Tensor, regions: Tensor, sharpness: float) -> float:
    """SCAN t-i AVG of one text and one picture, word by word and region by region (Lee et al., 2018, equations 7 to 9 and 4)."""
    fits = torch.zeros(len(words), len(regions), dtype=torch.float64)
    for region in range(len(regions)):
        column = [max(0.0, float(words[word] @ regions[region])) for word in range(len(words))]
        length = sum(value**2 for value in column) ** 0.5
        for word, value in enumerate(column):
            fits[word, region] = value / max(length, 1e-8)
    total = 0.0
    for word in range(len(words)):
        weights = [float((sharpness * fits[word, region]).exp()) for region in range(len(regions))]
        seen = sum(weight / sum(weights) * regions[region] for region, weight in enumerate(weights))
        total += float(functional.cosine_similarity(words[word], torch.as_tensor(seen), dim=0))
    return total / len(words)


def test_attention_of_words_to_regions_equals_the_loops() -> None:
    words, parts = unit(some(2, 4, 6)), unit(some(3, 5, 6).flip(0))
    words[1, 3], parts[2, 3:] = 0, 0  # what is not there
    found = attended(words, parts, 9.0)
    for text, said in enumerate((4, 3)):
        for picture, seen in enumerate((5, 5, 3)):
            wanted = slow_attention(words[text, :said], parts[picture, :seen], 9.0)
            assert float(found[text, picture]) == pytest.approx(wanted, rel=1e-9)


def test_words_and_regions_that_are_not_there_change_nothing() -> None:
    torch.manual_seed(0)
    model = WordAttention(DialogueRecipe(variant="dialogue-scan", width=8, embedded=4), 3, 9).eval()
    seen, tokens = torch.rand(2, 4, 3 + 5), torch.tensor([[3, 4, 5, 0], [6, 7, 0, 0]])
    with torch.no_grad():
        scores = model.match(model.queries(tokens), model.images(seen))
        padded = model.match(
            model.queries(functional.pad(tokens, (0, 3))), model.images(functional.pad(seen, (0, 0, 0, 2)))
        )
        alone = model.match(model.queries(tokens[1:, :2]), model.images(seen[1:]))
    torch.testing.assert_close(padded, scores)
    torch.testing.assert_close(alone, scores[1:, 1:])


def test_a_text_that_is_read_alone_has_one_end() -> None:
    source = find_text("random:bert-tiny", ClassifierRecipe())
    long, short = "red boat " * 10, "red"
    whole = text_ids(source, [long, short, ""], 128)
    assert whole[1, :4].tolist() == [*whole[0, :2].tolist(), whole[0, 21].tolist(), 0]
    assert (whole[2] != 0).sum() == 2
    torch.testing.assert_close(text_ids(source, [long, short, ""], 5), whole[:, :5])


def test_resnets_are_read_from_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(CtxrError, match="resnet50"):
        find_tower("resnet50", print)
    torch.manual_seed(0)
    made = resnet50(weights=None).eval()
    save_tensors(tmp_path / "own.safetensors", made.state_dict(), {})
    model = find_tower(f"resnet50:{tmp_path / 'own.safetensors'}", print).build()
    pixels = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(made.fc(model.visual(pixels)), made(pixels))
    save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {})
    with pytest.raises(DataError, match="other"):
        find_tower(f"resnet50:{tmp_path / 'other.safetensors'}", print).build()


def recalls(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "epochs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("dialogue", ("temperature=0.05",)),
        ("dialogue", ("photo=labels", "loss=sum-hinge")),
        ("dialogue", ("photo=image", "frozen=false", "loss=max-hinge")),
        ("dialogue-vse", ()),
        ("dialogue-scan", ("regions=cells",)),
    ],
)
def test_every_model_learns_and_says_the_same_when_opened(drawn: Path, recipe: str, changes: tuple[str, ...]) -> None:
    regions(RegionsConfig(drawn / "dialogues", "grid:ctxr-tiny", name="cells", most=9, workdir=drawn, device="cpu"))
    keys: tuple[str, ...] = TINY
    if recipe != "dialogue" or "photo=image" in changes:
        keys = tuple(one for one in keys if not one.startswith("label_text"))
    if recipe != "dialogue":
        keys = tuple(one for one in keys if not one.startswith("text"))
    if recipe == "dialogue-scan":
        keys = ("width=16", "batch=16")
    name = "-".join((recipe, *changes)).replace("=", "-")
    run = trained(drawn, recipe, name, *keys, "lr=1e-3", "epochs=4", *changes)
    losses = recalls(run)
    assert losses[-1] < losses[0]
    opened, data = (
        OpenDialogues.open(run, ScoringOptions(drawn, "cpu"), Silent()),
        open_dataset(drawn / "dialogues", drawn, Silent()),
    )
    part = [one for one in dialogue_queries(data) if one.query.split == "test"]
    (scores,) = opened.rescored(data, part).values()
    kept = [json.loads(line) for line in (run / "recalls.jsonl").read_text().splitlines()]
    assert {row["split"]: row["value"] for row in kept}["test"] == pytest.approx(first_rate(part, scores))
    (again,) = opened.score((data, [part[2].query.query])).values()
    assert list(again[part[2].query.query].values()) == pytest.approx(scores[2].tolist(), rel=1e-4, abs=1e-5)


def test_two_dialogues_with_one_photo_are_no_negatives_of_each_other(drawn: Path) -> None:
    data = open_dataset(drawn / "dialogues", drawn, Silent())
    part = [one for one in dialogue_queries(data) if one.query.split == "train"]
    sources = DialogueSources(
        DialogueRecipe(variant="dialogue-zero-shot", encoder="ctxr-tiny", photo="image"),
        ScoringOptions(drawn),
        Silent(),
    )
    table = sources.table(part, sources.pictures(data, part), ())
    photos = [one.query.images[one.query.targets[0]] for one in part]
    again = next(at for at, photo in enumerate(photos) if photo in photos[:at])
    rows = torch.tensor([photos.index(photos[again]), again])
    images = table.targets.draw(rows).images
    assert images[0] == images[1]
    assert table.targets.among(rows, images[:1].expand(2, 1)).all()


def test_a_run_starts_from_one_of_the_same_shape_and_learns_from_its_words(drawn: Path) -> None:
    keys = ("encoder=ctxr-tiny", "frozen=true", "width=16", "batch=16", "epochs=1")
    trained(drawn, "dialogue-vse", "captions", *keys, "said=all")
    run = trained(drawn, "dialogue-vse", "after", *keys, "start=captions")
    parents = {one["kind"]: one["name"] for one in json.loads((run / "manifest.json").read_text())["parents"]}
    assert parents["run"] == "captions"
    with pytest.raises(UsageError, match="width = 16"):
        trained(drawn, "dialogue-vse", "wider", *keys, "start=captions", "width=8")


def test_an_encoder_that_a_gallery_tuned_is_evaluated_on_dialogues(drawn: Path) -> None:
    trained(drawn, "retrieval-clip", "tuned", "encoder=ctxr-tiny", "epochs=1", "batch=16")
    options: dict[str, Any] = {"resamples": 50, "device": "cpu", "split": "test"}
    report = evaluate(Eval(("tuned", "ctxr-tiny"), drawn / "dialogues", drawn, problem="dialogue", **options))
    assert [row[0] for row in report.tables["test/ranks"].rows] == ["random", "tuned", "ctxr-tiny"]
    assert "TR@1" in str(evaluate(Eval(("tuned",), drawn / "dialogues", drawn, **options)).tables)


def test_captions_without_labels_or_dialogues_are_learned_from(tmp_path: Path) -> None:
    write_dialogues(tmp_path / "dialogues", {"train": 16, "valid": 8}, 0)
    data = open_dataset(tmp_path / "dialogues", tmp_path, Silent())
    towers = {"encoder": "ctxr-tiny", "text": "random:bert-tiny", "label_text": "random:bert-tiny"}
    sources = DialogueSources(DialogueRecipe(frozen=True, **towers), ScoringOptions(tmp_path, "cpu"), Silent())  # type: ignore[arg-type]
    plain = type(data)(**{**vars(data), "payloads": {}})
    part = dialogue_queries(plain)
    table = sources.table(part, sources.pictures(plain, part), ())
    vectors, ids = table.images(torch.arange(4))
    assert vectors.shape == (4, 256)
    assert ((ids != 0).sum(1) == 2).all()
