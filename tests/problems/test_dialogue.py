"""Which photo a dialogue leads to: BM25 and figures against slow versions, what queries read, what asks for dialogues."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import UsageError
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.train import run as train
from ctxr.problems.dialogue.queries import bm25_scores, dialogue_queries, object_labels
from ctxr.problems.dialogue.recipe import DialogueRecipe
from ctxr.problems.registry import question_about
from ctxr.problems.results import PER_QUERY, QueryResult
from ctxr.store.tables import read_table
from ctxr.synthetic.dialogues import write_dialogues


def literal_bm25(documents: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    texts = [re.findall("[a-z0-9]+", text.lower()) for text in documents]
    average = sum(map(len, texts)) / len(texts)
    found = []
    for text in texts:
        total = 0.0
        for word in re.findall("[a-z0-9]+", query.lower()):
            holding = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            count = Counter(text)[word]
            total += idf * count / (count + k1 * (1 - b + b * len(text) / average))
        found.append(total)
    return found


def test_bm25_is_the_textbook_one() -> None:
    documents = ["Dress, Man", "Baked goods, Cake, cake", "", "Man", "man, Tea"]
    queries = ["A MAN with cake and cake!", "tea?", "nothing here", ""]
    wanted = [literal_bm25(documents, query) for query in queries]
    np.testing.assert_allclose(bm25_scores(documents, queries), wanted, rtol=1e-5)
    assert wanted[0][1] > wanted[0][3] > wanted[0][0] > 0
    assert not bm25_scores(["", ""], ["man"]).any()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_dialogues(folder / "dialogues", {"train": 48, "valid": 16, "test": 24}, 3)
    return folder


def trained(folder: Path, recipe: str, name: str, *changes: str) -> Path:
    options = Train(recipe, folder / "dialogues", name, workdir=folder, device="cpu", changes=changes)
    return train(options).folder


def evaluated(folder: Path, *runs: str, **options: Any) -> Any:
    return evaluate(Eval(runs, folder / "dialogues", folder, resamples=50, permutations=50, device="cpu", **options))


def figures(report: Any, **wanted: str) -> dict[str, float]:
    rows = json.loads((report.results / "figures.json").read_text())["figures"]
    return {row["measure"]: row["value"] for row in rows if wanted.items() <= row.items()}


def test_nothing_that_follows_the_photo_is_read(drawn: Path) -> None:
    data = open_dataset(drawn / "dialogues", drawn, Silent())
    released = json.loads((drawn / "dialogues" / "test" / "test.json").read_text())
    asked = {one.query.query: one for one in dialogue_queries(data)}
    for row in released:
        turns, query = row["dialogue"], asked[f"test/{row['dialogue_id']}"]
        shared = next(at for at, turn in enumerate(turns) if turn["share_photo"])
        before = [turn for turn in turns[:shared] if turn["message"]]
        assert query.said == tuple(turn["message"] for turn in before)
        own = [turn["message"] for turn in before if turn["user_id"] == turns[shared]["user_id"]]
        assert query.by_sharer == tuple(own)
        assert query.text == " ".join(query.said)
    assert not any("photo has your" in " ".join(labels) for labels in object_labels(data).values())


def test_captions_are_read_whole(drawn: Path) -> None:
    data = open_dataset(drawn / "dialogues", drawn, Silent())
    data = type(data)(**{**vars(data), "payloads": {}})
    one = dialogue_queries(data)[0]
    assert one.said == one.by_sharer == tuple(text.text for text in one.query.texts)


def test_a_dataset_with_dialogues_asks_for_photos_and_no_gallery_takes_it_too(drawn: Path) -> None:
    data = open_dataset(drawn / "dialogues", drawn, Silent())
    assert type(question_about(data)).__name__ == "Dialogues"
    report = evaluated(drawn, "ctxr-tiny", split="test")
    ranks = report.tables["test/ranks"]
    assert ranks.columns == ("run", "R@1", "R@5", "R@10", "sum", "MRR")
    assert ranks.rows[0][:2] == ("random", f"{100 / 24:.1f}")


def slow_ranks(scores: Mapping[str, float], target: str) -> dict[str, float]:
    """R@k and MRR, mean over all places among those level with the target."""
    above = sum(value > scores[target] for value in scores.values())
    level = sum(value == scores[target] for value in scores.values())
    places = range(above + 1, above + level + 1)
    recalls = {f"R@{k}": sum(place <= k for place in places) / level for k in (1, 5, 10)}
    return {**recalls, "sum": sum(recalls.values()), "MRR": sum(1 / place for place in places) / level}


def test_figures_equal_the_slow_version(drawn: Path) -> None:
    trained(drawn, "dialogue-bm25", "words")
    data = open_dataset(drawn / "dialogues", drawn, Silent())
    labels, asked = object_labels(data), [one for one in dialogue_queries(data) if one.query.split == "test"]
    each = []
    for one in asked:
        images = one.query.images
        documents = [", ".join(labels.get(image, ())) for image in images]
        values = [round(value, 5) for value in literal_bm25(documents, one.text)]
        each.append(slow_ranks(dict(zip(images, values, strict=True)), images[one.query.targets[0]]))
    report = evaluated(drawn, "words", split="test")
    whole = figures(report, view="overall", run="words")
    for measure in each[0]:
        assert whole[measure] == pytest.approx(np.mean([one[measure] for one in each]), abs=1e-9)
    results = read_table(report.results / PER_QUERY, QueryResult)
    assert len(results) == 24
    assert all(len(row.candidates) == 24 for row in results)
    assert figures(evaluated(drawn, "words", split="test", ties="first"), view="overall")["R@1"] > whole["R@1"]


def test_labels_alone_need_no_pictures(drawn: Path, tmp_path: Path) -> None:
    write_dialogues(tmp_path / "dialogues", {"valid": 8}, 3)
    for photo in (tmp_path / "dialogues" / "photos").iterdir():
        photo.unlink()
    for recipe, changes in (("dialogue-bm25", ()), ("dialogue-labels", ("encoder=ctxr-tiny",))):
        trained(tmp_path, recipe, recipe, *changes)
    report = evaluated(tmp_path, "dialogue-bm25", "dialogue-labels")
    assert [row[0] for row in report.tables["valid/ranks"].rows] == ["random", "dialogue-bm25", "dialogue-labels"]


def test_fields_that_a_variant_does_not_read_are_refused() -> None:
    for changes, named in (
        ({"variant": "dialogue-bm25", "photo": "image"}, "photo"),
        ({"variant": "dialogue-vse", "text": "bert:minilm"}, "text"),
        ({"text": "late:minilm"}, "late:minilm"),
        ({"encoder": "blip:folder"}, "blip:folder"),
        ({"encoder": "ctxr-lite"}, "ctxr-lite"),
        ({"batch": 1}, "batch = 1"),
    ):
        with pytest.raises(UsageError, match=named):
            DialogueRecipe(**changes).check()


def test_bm25_finds_the_known_share_of_the_real_dev_photos(real_files: Path, tmp_path: Path) -> None:
    copy = real_files / "photochat" / "dev.json"
    train(Train("dialogue-bm25", copy, workdir=tmp_path, device="cpu"))
    for ties, wanted in (
        ("expected", (9.5, 18.5, 24.1)), ("first", (14.8, 30.4, 47.6)), ("last", (7.8, 16.0, 21.9))
    ):  # fmt: skip
        options = Eval(("dialogue-bm25",), copy, tmp_path, resamples=10, ties=ties, device="cpu")
        found = figures(evaluate(options), view="overall", run="dialogue-bm25")
        assert [100 * found[f"R@{k}"] for k in (1, 5, 10)] == pytest.approx(wanted, abs=0.06)
