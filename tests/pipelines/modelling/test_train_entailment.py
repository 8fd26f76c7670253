"""`ctxr train --recipe entailment` and `ctxr eval` of what it made: from drawn pairs to a classifier that knows what it saw."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from ctxr.datasets.pairs import EntailmentPair
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.entailment import text
from ctxr.models.entailment.base import Claim
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.training.loop import Trainer
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train, TrainReport
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.entailment.learner import ClassifierJob, claim_rows, dev_threshold, learned, open_classifier
from ctxr.problems.entailment.pairs import EntailmentPairs, open_pairs, refuse_seen
from ctxr.store.artifacts import Parent
from ctxr.store.tables import read_table, write_table
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.pipelines.modelling.training.test_train import Note

SMALL = (
    "text=random:bert-tiny", "image=random:albef-tiny", "width=32", "text_layers=1", "fusion_layers=1", "epochs=2", "batch=16",
    "patience=0", "wanted_precision=0.2",
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs") / "world"
    write_captions(
        WorldCaptions(folder, train=0, valid=0, test=4, pair_train=10, pair_valid=5, hypotheses=4, texts=2, workers=1)
    )
    return folder


@pytest.fixture(scope="module")
def made(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    config = Train("entailment-tiny", world, changes=SMALL, workdir=tmp_path_factory.mktemp("work"), device="cpu")
    train.run(config)
    return config


def pair(premise: str | None, image: str | None) -> EntailmentPair:
    return EntailmentPair("a", premise, "A cat.", image, 1, "entailment", "world", "train", "g")


def claims_of(pairs: EntailmentPairs, said: list[dict[str, Any]]) -> list[Claim]:
    """The claims of rows of probabilities."""
    rows = [next(one for one in pairs.rows if one.id == row["pair"]) for row in said]
    return [Claim(one.premise or "", pairs.files.get(one.image or ""), one.hypothesis or "") for one in rows]


def published(folder: Path, labels: dict[str, tuple[str, ...]]) -> Path:
    """Texts alone with these labels, by side."""
    for side, said in labels.items():
        rows = [f"{row}\tThe {side} cat number {row} sleeps.\tA cat sleeps.\t{one}" for row, one in enumerate(said)]
        (folder / f"rte_{side}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    return folder


def test_one_stream_holds_texts_pictures_and_both() -> None:
    rows = [pair("p", None), pair("p", "i"), pair(None, "i")]
    recipe = ClassifierRecipe()
    text, image, joint = (True, False, False), (False, True, False), (True, True, True)
    found = [(one.premise, one.image, one.theta) for one in learned(rows, recipe)]
    assert found == [("p", None, text), ("", "i", image), ("p", "i", joint), ("", "i", image)]
    assert [one.theta for one in learned(rows, replace(recipe, text_data=False))] == [image, joint, image]
    assert [one.theta for one in learned(rows, replace(recipe, image_data=False))] == [text, joint]
    assert [one.theta for one in learned(rows, replace(recipe, image=""))] == [text, text]
    # without a premise a picture and a picture with one are the same claim: it is learned from once
    assert [one.theta for one in learned(rows, replace(recipe, text=""))] == [image, image]


def test_texts_that_were_published_on_both_sides_are_left_out_of_training(tmp_path: Path) -> None:
    head = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    (tmp_path / "qqp_train.tsv").write_text(
        f"{head}1\t1\t2\tWhy?\tWho?\t1\n2\t3\t4\tHow?\tWhen?\t0\n5\t3\t6\tHow?\tHow so?\t1\n"
    )
    (tmp_path / "qqp_dev.tsv").write_text(f"{head}3\t1\t5\tWhy?\tWhere?\t0\n")
    progress = Note()
    config = Train("entailment-tiny", tmp_path, changes=(*SMALL, "image="), workdir=tmp_path / "work", device="cpu")
    job = ClassifierJob(config, load_recipe("entailment-tiny", "fixed", config.changes), progress)
    assert [pair.premise for pair in job.train] == ["How?", "How?"]
    assert any("1 of 3 training pairs" in one and " qqp/" in one for one in progress.warned)
    (tmp_path / "qqp_dev.tsv").write_text(f"{head}3\t1\t5\tWhy?\tWhere?\t0\n4\t1\t5\tHow?\tWhere?\t0\n")
    with pytest.raises(DataError, match="3 of 3 training pairs"):
        ClassifierJob(config, load_recipe("entailment-tiny", "fixed", config.changes), progress)


def test_a_claim_is_judged_by_the_head_that_there_is_for_it() -> None:
    rows = [pair("p", None), pair("p", "i"), pair(None, "i")]
    for recipe, columns in (
        (ClassifierRecipe(), [0, 2, 1]), (ClassifierRecipe(image=""), [0, 0, 0]), (ClassifierRecipe(text=""), [1, 1, 1])
    ):  # fmt: skip
        assert [one.theta.index(True) for one in claim_rows(rows, recipe)] == columns


def test_a_trained_classifier_says_what_its_evaluation_says(made: Train, world: Path) -> None:
    report = evaluate(Eval(("entailment-tiny",), world, made.workdir, resamples=50, device="cpu"))
    judge = open_classifier(made.workdir / "classifiers" / "entailment-tiny", "cpu")
    pairs = open_pairs(world, Path(), Silent())
    said = [json.loads(line) for line in (report.results / "probabilities.jsonl").read_text().splitlines()]
    assert {row["pair"] for row in said} == {one.id for one in pairs.in_split("test")}
    told = judge.probabilities(claims_of(pairs, said))
    np.testing.assert_allclose(told, [row["probability"] for row in said], atol=1e-5)
    assert told.std() > 0
    figures = {(row[1], row[2]): row[3] for row in report.tables["test/quality"].rows}
    right = [row["entailed"] == bool(row["label"]) for row in said]
    assert figures["all", "accuracy"] == pytest.approx(np.mean(right))
    assert {kind for kind, _ in figures} == {"all", "both", "text"}
    # the threshold reaches the wanted precision on dev
    dev = Eval(
        ("entailment-tiny",), world, made.workdir, split="valid", out=made.workdir / "dev", resamples=50, device="cpu"
    )
    report = evaluate(dev)
    figures = {(row[1], row[2]): row[3] for row in report.tables["valid/quality"].rows}
    assert figures["both", "precision"] >= 0.2
    assert any("flatter it" in note for note in report.notes)


def test_a_stopped_training_goes_on_to_the_same_end(
    made: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Trainer._keep

    def stop(trainer: Trainer[Any], row: object) -> None:
        kept(trainer, row)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_keep", stop)
    with pytest.raises(KeyboardInterrupt):
        train.run(replace(made, workdir=tmp_path))
    monkeypatch.setattr(Trainer, "_keep", kept)
    report: TrainReport = train.run(replace(made, workdir=tmp_path))
    weights = Path("classifiers/entailment-tiny/seed0/weights.safetensors")
    assert (tmp_path / weights).read_bytes() == (made.workdir / weights).read_bytes()
    assert report.seeds[0].epochs == 2


def test_pictures_that_were_learned_from_are_not_judged(made: Train, world: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(world, other)
    for name in ("manifest.json", ".ctxr"):
        (other / name).unlink()
    rows = read_table(other / "pairs.jsonl", EntailmentPair)
    swapped = {"train": "test", "test": "train"}
    write_table(
        other / "pairs.jsonl",
        [msgspec.structs.replace(one, split=swapped.get(one.split or "", one.split)) for one in rows],
    )
    with pytest.raises(DataError, match=r"entailment-tiny/seed0 .* 10 pictures"):
        evaluate(Eval(("entailment-tiny",), other, made.workdir, out=tmp_path / "out", device="cpu"))
    judge = open_classifier(made.workdir / "classifiers" / "entailment-tiny" / "seed0", "cpu")
    assert len(judge.trained_on or ()) == 15


def test_a_published_picture_that_was_saved_again_is_not_judged_by_who_learned_from_it(tmp_path: Path) -> None:
    (file := tmp_path / "a.jpg").write_bytes(b"other bytes")
    rows = (pair("p", "val2017/000000000790.jpg"),)
    pairs = EntailmentPairs(
        "x", rows, {str(rows[0].image): file}, {str(rows[0].image): "0"}, Parent("pairs", "release", "")
    )
    assert pairs.marks(rows) == {"0", "coco/790"}
    with pytest.raises(DataError, match=r" 1 picture .* val2017/"):
        refuse_seen(pairs, rows, {"coco/790"}, "x")
    refuse_seen(pairs, rows, {"coco/791"}, "x")


def test_pairs_about_pictures_of_another_side_are_refused(world: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(world, other)
    for name in ("manifest.json", ".ctxr"):
        (other / name).unlink()
    rows = read_table(other / "pairs.jsonl", EntailmentPair)
    leaking = next(one for one in rows if one.split == "valid" and one.image)
    write_table(other / "pairs.jsonl", [*rows, msgspec.structs.replace(leaking, id="again", split="train")])
    with pytest.raises(DataError, match=r"training pairs .* again"):
        train.run(Train("entailment-tiny", other, changes=SMALL, workdir=tmp_path, device="cpu"))


def test_published_files_are_learned_from_where_they_lie(tmp_path: Path) -> None:
    published(tmp_path, dict.fromkeys(("train", "dev"), ("entailment", "not_entailment") * 12))
    changes = (*SMALL, "image=", "epochs=1")
    config = Train("entailment-tiny", tmp_path, "texts", changes=changes, workdir=tmp_path / "work", device="cpu")
    assert train.run(config).queries == {"train": 24, "valid": 24}
    judge = open_classifier(tmp_path / "work" / "classifiers" / "texts", "cpu")
    alone, joined = judge.probabilities(
        [Claim("A cat.", None, "A cat."), Claim("A cat.", tmp_path / "none.jpg", "A cat.")]
    )
    assert alone == pytest.approx(joined)
    assert judge.trained_on == frozenset()


def test_a_branch_is_left_out_by_an_option_as_by_the_recipe(world: Path, tmp_path: Path) -> None:
    config = Train("entailment-tiny", world, changes=(*SMALL, "epochs=1"), workdir=tmp_path, device="cpu")
    for option, key in (("text_only", "image="), ("image_only", "text=")):
        train.run(replace(config, name="option", text_only=option == "text_only", image_only=option == "image_only"))
        train.run(replace(config, name="key", changes=(*config.changes, key)))
        option_made, key_made = (
            tmp_path / "classifiers" / name / "seed0/weights.safetensors" for name in ("option", "key")
        )
        assert option_made.read_bytes() == key_made.read_bytes()
    with pytest.raises(UsageError, match="cannot be combined"):
        train.run(replace(config, text_only=True, image_only=True))
    with pytest.raises(UsageError, match="is about classifiers"):
        train.run(replace(config, recipe="clip-none", changes=(), text_only=True))


def test_a_text_branch_that_stays_as_it_is_is_asked_once_for_all_seeds(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = text.BertBranch.forward

    def counted(branch: text.BertBranch, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        asked.append(len(ids))
        return ask(branch, ids, types)

    monkeypatch.setattr(text.BertBranch, "forward", counted)
    changes = (*SMALL, "epochs=1", "frozen_text=true")
    config = Train("entailment-tiny", world, seeds=2, changes=changes, workdir=tmp_path, device="cpu")
    train.run(config)
    evaluate(Eval(("entailment-tiny",), world, tmp_path, resamples=10, device="cpu"))
    pairs = open_pairs(world, Path(), Silent())
    assert sum(asked) == len({(one.premise, one.hypothesis) for one in pairs.rows if one.premise})
    # what is told of any other claim is what the evaluation says of those that were kept
    judge = open_classifier(tmp_path / "classifiers" / "entailment-tiny" / "seed1", "cpu")
    said = [
        json.loads(line)
        for line in (tmp_path / "results" / "entailment-tiny" / "probabilities.jsonl").read_text().splitlines()
    ]
    held = [row for row in said if row["run"] == "entailment-tiny/seed1"][:6]
    found = judge.probabilities(claims_of(pairs, held))
    np.testing.assert_allclose(found, [row["probability"] for row in held], atol=1e-5)


def test_a_threshold_on_few_pairs_is_warned_of() -> None:
    for pairs, warned in ((1, True), (40, False)):
        progress = Note()
        label = torch.tensor([0] * 60 + [1] * 40)
        said = np.arange(100) / 128 if pairs == 40 else np.where(np.arange(100) == 99, 1, 0.25)
        job: Any = SimpleNamespace(recipe=ClassifierRecipe(wanted_precision=1.0), progress=progress)
        dev: Any = SimpleNamespace(label=label)
        threshold = dev_threshold(job, dev, said.astype(np.float32), 0)
        assert threshold is not None
        assert (said >= threshold.value).sum() == pairs
        assert threshold.precision.value == 1
        rests = f"{pairs} pair{'s' if pairs > 1 else ''}"
        assert f" on {rests}, recall " in progress.said[0]
        assert any(f"rests on {rests}, fewer than 20" in line for line in progress.warned) == warned


def test_what_is_odd_in_published_files_is_told_and_nothing_at_hand_says_why(tmp_path: Path) -> None:
    head = "index\tsentence1\tsentence2\tlabel\n"
    table = tmp_path / "rte_train.tsv"
    table.write_bytes(
        (head + "1\tcaf\xe9 a\tb\tentailment\n1\tc\td\tmaybe\n1\te\tf\tnot_entailment\n").encode("latin-1")
    )
    progress = Note()
    assert len(open_pairs(table, Path(), progress).rows) == 2
    said = [*progress.said, *progress.warned]
    assert re.fullmatch(r"rte_train\.tsv: 2 .*rte .*3 rows", said[0])
    assert sorted(line.split(":")[0].strip() for line in said[1:]) == [
        "1 row kept, encoding", "1 row kept, same_id", "1 row left out, label",
    ]  # fmt: skip
    table.write_text(head + "1\tc\td\tmaybe\n")
    with pytest.raises(DataError, match=r"rte_train\.tsv:2: 'maybe' .* of rte"):
        open_pairs(table, Path(), progress)
    table.write_text(head)
    with pytest.raises(DataError, match="below its header"):
        open_pairs(table, Path(), progress)
    table.unlink()
    with pytest.raises(DataError, match="file of pairs"):
        open_pairs(tmp_path, Path(), progress)


def test_positives_of_eccv_are_pairs_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "captions").mkdir()
    coco = {"images": [{"id": 1}], "annotations": [{"id": 20, "image_id": 1, "caption": "A cat."}]}
    (tmp_path / "captions" / "captions_val.json").write_text(json.dumps(coco))
    (tmp_path / "eccv_image_to_caption.json").write_text('{"2": [20, 21]}')
    (tmp_path / "eccv_caption_to_image.json").write_text('{"20": [2]}')
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "COCO_val2014_000000000002.jpg").write_bytes(b"jpeg")
    found = open_pairs(tmp_path, Path(), Silent())
    assert {(one.source, one.split, one.image, one.hypothesis, one.label) for one in found.rows} == {
        ("eccv", "test", "coco/2", "A cat.", 1),
    }
    assert found.marks(found.rows) == {"coco/2", found.contents["coco/2"]}
    with pytest.raises(UsageError, match=r"eccv_image_to_caption\.json is only"):
        open_pairs(tmp_path / "eccv_image_to_caption.json", Path(), Silent())


def test_pairs_of_ones_own_may_be_named_by_their_file(world: Path) -> None:
    assert open_pairs(world / "pairs.jsonl", Path(), Silent()) == open_pairs(world, Path(), Silent())


def test_pairs_that_were_learned_from_are_not_judged_even_without_pictures(tmp_path: Path) -> None:
    table = published(tmp_path, {"train": ("entailment", "not_entailment") * 4}) / "rte_train.tsv"
    progress = Note()
    changes = (*SMALL, "epochs=1", "text=random:bert-tiny")
    config = Train("entailment-tiny", table, changes=changes, workdir=tmp_path / "w", text_only=True)
    assert train.run(config, progress).judged_on == ""
    assert any("the last epoch" in text for text in progress.warned)
    with pytest.raises(DataError, match="these very pairs"):
        evaluate(Eval(("entailment-tiny",), table, tmp_path / "w", device="cpu"))


def test_a_name_that_is_nothing_is_told_what_there_is(made: Train, world: Path) -> None:
    for named in (("nosuch",), ("entailment-tiny", "nosuch")):
        with pytest.raises(UsageError, match="a classifier 'nosuch'") as caught:
            evaluate(Eval(named, world, made.workdir, device="cpu"))
        assert "classifiers are entailment-tiny; " in str(caught.value.hint)
    with pytest.raises(UsageError) as caught:
        evaluate(Eval(("entailment-tin",), world, made.workdir, device="cpu"))
    assert "entailment-tiny? " in str(caught.value.hint)


def test_pairs_of_one_kind_are_told_once_with_their_kind(tmp_path: Path) -> None:
    both = ("entailment", "not_entailment") * 4
    pairs = published(tmp_path, dict.fromkeys(("train", "test"), both))
    train.run(Train("entailment-tiny", pairs, "texts", changes=(*SMALL, "image=", "epochs=1"), workdir=tmp_path / "w"))
    tables = evaluate(Eval(("texts",), pairs, tmp_path / "w", resamples=10, device="cpu")).tables
    assert [row[1] for row in tables["test/quality"].rows] == ["all"] * 5
    assert [row[1] for row in tables["test/calibration"].rows] == ["all"]
    assert "about texts alone" in tables["test/quality"].note


def test_pairs_that_all_have_one_label_are_refused_before_training(tmp_path: Path) -> None:
    pairs = published(tmp_path, {"train": ("entailment",) * 4})
    config = Train("entailment-tiny", pairs, changes=(*SMALL, "image="), workdir=tmp_path / "w")
    with pytest.raises(DataError, match=r"all 4 training pairs .* entailed"):
        train.run(config)
    assert {file.name for file in (tmp_path / "w").glob("classifiers/*/*")} <= {".ctxr"}
    published(tmp_path, {"train": ("entailment", "not_entailment"), "dev": ("entailment",) * 3})
    progress = Note()
    train.run(replace(config, changes=(*config.changes, "epochs=1")), progress)
    assert any("3 pairs of valid" in text and "one label" in text for text in progress.warned)


def test_what_cannot_be_opened_is_said(made: Train, world: Path, tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="no finished classifier"):
        open_classifier(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(made.workdir / "classifiers" / "entailment-tiny", copy)
    with pytest.raises(DataError, match=r"copy .* without seed1"):
        open_classifier(copy / "seed1")
    for name, content in (("weights.safetensors", b"nothing"), ("trained_on.json", b"[]")):
        kept = (copy / "seed0" / name).read_bytes()
        (copy / "seed0" / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"seed0/{name} was changed"):
            open_classifier(copy, "cpu")
        (copy / "seed0" / name).write_bytes(kept)
    config = copy / "seed0" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"threshold": 0.01}))
    with pytest.raises(DataError, match=r"seed0/config\.json was changed"):
        evaluate(Eval((str(copy),), world, tmp_path, device="cpu"))
    with pytest.raises(UsageError, match="pairs of entailment"):
        open_pairs(None, tmp_path, Silent())
    with pytest.raises(UsageError, match="answer different questions"):
        evaluate(Eval((str(made.workdir / "classifiers" / "entailment-tiny"), "ctxr-tiny"), workdir=tmp_path))
    with pytest.raises(UsageError, match="unknown key 'mask'"):
        load_recipe("entailment", changes=("mask=1",))
