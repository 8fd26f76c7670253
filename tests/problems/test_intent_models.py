"""Models that tell when a photo is shared: what they read, learn, and keep."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, T5ForConditionalGeneration

from ctxr.datasets.dialogues import SharedDialogue, dialogues_of
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Train
from ctxr.problems.intent.learner import IntentModel, open_model, read_intent
from ctxr.problems.intent.recipe import IntentRecipe
from ctxr.problems.registry import open_run
from ctxr.problems.runs import ScoringOptions
from ctxr.store.records import Turn
from ctxr.synthetic.dialogues import write_dialogues
from tests.models.bert_folder import make_bert
from tests.models.talk_folders import make_albert, make_t5

Make = Callable[[Path], Path]

TALK = SharedDialogue("train/0", "train", (Turn(1, "hi there"), Turn(0, ""), Turn(1, "a red photo"), Turn(0, "wow")))
ONE_EPOCH = ("lr=1e-3", "epochs=1", "warmup=0", "at_once=0", "batch=16")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_dialogues(folder, {"train": 12, "valid": 4, "test": 4}, 0)
    return folder


def model_of(folder: Path, text: str, variant: str = "intent") -> IntentModel:
    recipe = IntentRecipe(variant=variant, text=text).check()
    return open_model(recipe, [TALK], ScoringOptions(folder, "cpu"), Silent())


@pytest.mark.parametrize("make", [make_bert, make_albert])
def test_turns_stand_between_separators_with_their_speaker(make: Make, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(make(tmp_path / "model"))
    model = model_of(tmp_path, f"bert:{tmp_path / 'model'}")
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    numbers, users = [start], [0]
    for place, turn in enumerate(TALK.turns):
        own = [end] * (place > 0) + tokenizer(turn.text, add_special_tokens=False)["input_ids"]
        numbers, users = numbers + own, users + [turn.user] * len(own)
        assert model.row(TALK.turns[: place + 1]).T.tolist() == [numbers, users]


def test_only_the_last_turn_stands_before_a_photo() -> None:
    assert [due for _, due in TALK.moments] == [False, False, False, True]


def test_the_beginning_is_cut_off_where_a_model_has_no_more_positions(tmp_path: Path) -> None:
    model = model_of(tmp_path, f"bert:{make_albert(tmp_path / 'albert')}")
    long = TALK.turns * 3
    short = model.row(long)
    model.most = 512
    whole = model.row(long)
    assert len(whole) > len(short) == 48
    assert short.tolist() == [whole[0].tolist(), *whole[-47:].tolist()]


def test_t5_weighs_the_first_tokens_of_both_labels(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "t5")
    ours = model_of(tmp_path, f"t5:{folder}", "intent-t5")
    model, tokenizer = T5ForConditionalGeneration.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    (found,) = ours.probabilities([TALK])
    texts, labels = [turn.text for turn in TALK.turns], [tokenizer(word)["input_ids"][0] for word in ("no", "yes")]
    for turn, value in enumerate(found, start=1):
        pieces = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts[:turn]]
        ids = tokenizer("predict share intent:", add_special_tokens=False)["input_ids"]
        for place, own in enumerate(pieces):
            ids = ids + (tokenizer("[SEP]", add_special_tokens=False)["input_ids"] if place else []) + own
        told = model(input_ids=torch.tensor([[*ids, 1]]), decoder_input_ids=torch.tensor([[0]])).logits[0, 0, labels]
        assert value == pytest.approx(float(told.softmax(0)[1].detach()), abs=1e-5)


def test_a_t5_without_a_label_in_its_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "t5", leave_out=("▁no", "▁yes"))
    with pytest.raises(DataError, match="no and yes"):
        model_of(tmp_path, f"t5:{folder}", "intent-t5")


@pytest.mark.parametrize(
    ("recipe", "make"), [("intent-bert", make_bert), ("intent-albert", make_albert), ("intent-t5", make_t5)]
)
def test_a_published_model_learns_and_is_opened_with_the_same_scores(
    recipe: str, make: Make, drawn: Path, tmp_path: Path
) -> None:
    kind = "t5" if make is make_t5 else "bert"
    changes = (*ONE_EPOCH, f"text={kind}:{make(tmp_path / 'model')}")
    report = train.run(Train(recipe, drawn, changes=changes, workdir=tmp_path / "work", device="cpu"))
    (result,) = report.seeds
    assert report.judged_on == "valid"
    assert result.valid is not None
    assert 0 < result.valid <= 1
    dataset = open_dataset(drawn, tmp_path / "work", Silent())
    (scores,) = (
        open_run(report.folder, ScoringOptions(tmp_path / "work", "cpu"), Silent())
        .score((dataset, ["test/0"]))
        .values()
    )
    (talk,) = [one for one in dialogues_of(dataset) if one.query == "test/0"]
    assert [*scores["test/0"]] == [str(turn) for turn in range(1, len(talk.turns) + 1)]


def test_a_run_is_not_opened_over_other_weights(drawn: Path, tmp_path: Path) -> None:
    changes = (*ONE_EPOCH, f"text=bert:{make_bert(tmp_path / 'model')}")
    run = train.run(Train("intent-bert", drawn, changes=changes, workdir=tmp_path / "work", device="cpu")).folder
    make_bert(tmp_path / "model", layers=2)
    with pytest.raises(DataError, match=str(run / "seed0")):
        open_run(run, ScoringOptions(tmp_path, "cpu"), Silent()).score((open_dataset(drawn, tmp_path, Silent()), None))


def test_a_weight_on_turns_before_a_photo_makes_them_likelier(drawn: Path, tmp_path: Path) -> None:
    means = []
    for weight in (1, 20):
        changes = (*ONE_EPOCH, f"positive_weight={weight}")
        run = train.run(Train("intent-tiny", drawn, f"w{weight}", changes=changes, workdir=tmp_path, device="cpu"))
        dataset = open_dataset(drawn, tmp_path, Silent())
        (scores,) = open_run(run.folder, ScoringOptions(tmp_path, "cpu"), Silent()).score((dataset, None)).values()
        means.append(np.mean([value for row in scores.values() for value in row.values()]))
    assert means[1] > means[0] + 0.1


def test_without_valid_the_last_epoch_counts_and_a_half(tmp_path: Path) -> None:
    write_dialogues(tmp_path / "drawn", {"train": 6}, 0)
    changes = (*ONE_EPOCH, "epochs=2")
    run = train.run(Train("intent-tiny", tmp_path / "drawn", changes=changes, workdir=tmp_path, device="cpu"))
    kept = read_intent(run.folder / "seed0")
    assert (kept.epoch, kept.threshold, run.judged_on) == (2, 0.5, "")


@pytest.mark.parametrize(
    ("recipe", "change", "word"),
    [("intent-t5", "text=bert:minilm", "intent-t5"), ("intent-tiny", "text=t5:x", "t5:x"),
        ("intent-bert", "text=random:bert-tiny", "random:bert-tiny"),
     ("intent-bert", "text=bert:nowhere", "nowhere")],
)  # fmt: skip
def test_a_model_that_a_variant_does_not_read_with_is_refused(
    recipe: str, change: str, word: str, drawn: Path, tmp_path: Path
) -> None:
    with pytest.raises(CtxrError, match=word):
        train.run(Train(recipe, drawn, changes=(change,), workdir=tmp_path, device="cpu"))
