"""Entail@K by gold labels that are not complete: ECCV, CxC, and people's answers, with what nobody looked at as bounds."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.metrics.compare import Clusters
from ctxr.metrics.retrieval import Vectors
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run
from ctxr.problems import galleries
from ctxr.problems.galleries import GallerySplit, gallery_splits
from ctxr.problems.gallery import figures as measuring
from ctxr.problems.gallery import figures as similarity
from ctxr.problems.gallery.figures import entailment_table
from ctxr.problems.gallery.truth import Labels, gold_of, human_verdicts, read_truths
from ctxr.problems.verdicts import HumanLabels
from ctxr.store.records import Judgment
from scripts.task_artifact import write_judgments
from tests.models.encoder_folder import make_folder
from tests.pipelines.galleries import draw, truth_of

DATASET = Dataset("coco", None, (), {})


def side_of(pictures: int = 4, each: int = 3) -> GallerySplit:
    """Picture p has the COCO id p, caption c of it the id 100 + c; three captions were written for each."""
    images = tuple(f"test/COCO_val2014_{number:012d}.jpg" for number in range(pictures))
    captions = tuple(f"test/{100 + number}" for number in range(pictures * each))
    written = tuple((caption, caption // each) for caption in range(len(captions)))
    return GallerySplit(
        "test", ("test",), images, (0,) * pictures, captions, captions, (0,) * len(captions), written
    )  # fmt: skip


def vectors_of(ranked: dict[int, list[int]], pictures: int = 4, captions: int = 12) -> Vectors:
    """Scores by which each picture ranks its captions as said, and the others in the order of their numbers."""
    scores = np.zeros((captions, pictures), np.float32)
    for picture in range(pictures):
        first = ranked.get(picture, [])
        order = first + [one for one in range(captions) if one not in first]
        scores[order, picture] = np.arange(captions, 0, -1)
    return Vectors(np.eye(pictures, dtype=np.float32), scores)


def measured(side: GallerySplit, label: Labels, vectors: Vectors) -> tuple[measuring.EntailFigure, galleries.Recalls]:
    counted = measuring.entailed(side, [vectors], label)
    assert counted is not None
    clusters = Clusters(np.arange(len(side.images)), np.random.default_rng(0), 100)
    (told,) = measuring.entailments("run", side, counted, label, (0, 0), clusters=clusters)
    return told, measuring.entail_columns(counted, label)


def say(caption: int, image: int, value: float, side: GallerySplit, worker: str = "ann") -> Judgment:
    return Judgment(f"entail/{side.images[image]}/{side.captions[caption]}", ENTAILMENT, worker, value)


def test_pairs_that_nobody_looked_at_widen_the_bounds_and_are_no_noes() -> None:
    side = side_of()
    # picture 0: of its first ten three are its own, two were looked at (one holds), five nobody has seen
    people = HumanLabels((say(3, 0, 1.0, side), say(4, 0, 0.0, side)))
    (label,) = gold_of(DATASET, side, {}, [], [], people=people)
    told, columns = measured(side, label, vectors_of({}))
    assert (label.by, label.source) == ("people", "1 pairs hold of 2 that were judged, of 1 pictures")
    assert (told.pictures, told.complete) == (1, 0)
    assert told.found.value.value == pytest.approx(4 / 10)
    assert told.found.judged == pytest.approx(5 / 10)
    assert told.most == pytest.approx(9 / 10)
    assert told.of_judged == pytest.approx(4 / 5)
    assert columns == {}
    table = entailment_table("test", [told])
    assert table is not None
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["labels"], row["judged %"], row["at most"], row["of judged"]) == ("people", "50.0", "90.0", "80.0")
    assert "lower bound" in table.note


def test_where_all_of_the_first_ten_were_looked_at_the_figure_is_that_of_people() -> None:
    side = side_of()
    vectors = vectors_of({1: [3, 4, 5, 0, 1, 2, 6, 7, 8, 9]})
    people = HumanLabels(tuple(say(caption, 1, float(caption == 7), side) for caption in (0, 1, 2, 6, 7, 8, 9)))
    (label,) = gold_of(DATASET, side, {}, [], [], people=people)
    told, columns = measured(side, label, vectors)
    assert told.complete == told.pictures == 1
    assert told.found.value.value == told.most == told.of_judged == pytest.approx(4 / 10)
    assert columns["people E@10"].rows.tolist() == [1]
    assert columns["people E@10"].values == pytest.approx([4 / 10])


def test_ties_and_other_units_say_nothing_and_audits_overrule() -> None:
    side = side_of()
    rows = [
        say(3, 0, 1.0, side), say(3, 0, 0.0, side, "bob"), say(4, 0, 1.0, side), say(5, 0, 1.0, side),
        Judgment("entail/else/where", ENTAILMENT, "ann", 1.0), replace_unit(say(6, 0, 1.0, side)),
    ]  # fmt: skip
    audited = (side.captions[5], side.images[0])
    direct = Judgment(side.captions[0], side.images[2], "ann", 0.0, round=1)
    found = human_verdicts(DATASET, side, [direct], HumanLabels(tuple(rows), {audited: False}))
    assert found == {(0, 4): True, (0, 5): False, (2, 0): False}


def replace_unit(row: Judgment) -> Judgment:
    """The same answer to another label, which says nothing of entailment."""
    return Judgment(row.query, "neutral", row.worker, row.value)


def test_eccv_lists_what_holds_and_cxc_also_rates_what_does_not(tmp_path: Path) -> None:
    side = side_of()
    (tmp_path / "eccv_image_to_caption.json").write_text('{"0": [103]}')
    (tmp_path / "eccv_caption_to_image.json").write_text('{"104": [0], "100": [2]}')
    lines = ["caption,image,agg_score,sampling_method", "COCO_val2014:sentid:105,COCO_val2014_000000000000.jpg,4.1,x",
             "COCO_val2014:sentid:106,COCO_val2014_000000000000.jpg,1.0,x"]  # fmt: skip
    (tmp_path / "sits_test.csv").write_text("\n".join(lines) + "\n")
    rated = similarity.read_ratings(tmp_path, Silent())
    labels = gold_of(DATASET, side, read_truths(tmp_path, side), rated, [], people=HumanLabels())
    told = {label.by: measured(side, label, vectors_of({}))[0] for label in labels}
    assert list(told) == ["CxC", "ECCV"]
    assert [int(one) for one in re.findall(r"\d+", told["CxC"].source)] == [1, 2, 1]
    assert told["CxC"].found.value.value == pytest.approx(4 / 10)
    assert told["CxC"].found.judged == pytest.approx(5 / 10)
    assert told["CxC"].most == pytest.approx(9 / 10)
    # both directions: pictures 0 (its own three and two more) and 2 (captions 6, 7, 8 and the first)
    assert told["ECCV"].pictures == 2
    assert told["ECCV"].found.value.value == pytest.approx((5 + 4) / 20)
    assert told["ECCV"].most == 1.0
    # which never says what does not hold, so a share of what was looked at would always be all of it
    assert told["ECCV"].of_judged is None
    assert told["CxC"].of_judged == pytest.approx(4 / 5)


def test_answers_of_a_projects_tasks_are_gold_without_any_round(tmp_path: Path) -> None:
    world = draw(tmp_path / "dataset")
    side = gallery_splits(read_dataset(world))["test"]
    holds = {row.caption: row.holds for row in truth_of(world, "test")}
    shown = side.images[:3]
    rows = [
        Judgment(f"entail/{image}/{caption}", ENTAILMENT, "ann", float(image in holds[caption]))
        for image in shown for caption in side.captions
    ]  # fmt: skip
    write_judgments(tmp_path / "judgments", AggregatedAnswers(root=world, judgments=tuple(rows)))
    encoder = f"local-dir:{make_folder(tmp_path / 'encoder', 0)}"
    report = run(Eval(workdir=tmp_path, out=tmp_path / "results", runs=(encoder,), dataset=world, split="test",
                      resamples=50))  # fmt: skip
    told = json.loads((report.results / "figures.json").read_text())
    by = {(row["by"], row["found"]["k"]): row for row in told["entailed"]}
    mine = by["people", 10]
    assert (mine["pictures"], mine["complete"], mine["found"]["judged"]) == (3, 3, 1.0)
    assert mine["found"]["value"]["value"] == pytest.approx(mine["most"])
    figures = {row["measure"]: row["value"] for row in told["figures"]}
    assert figures["people E@10"] == pytest.approx(mine["most"])
    assert by["gold", 10]["pictures"] == len(side.images)
    assert figures["E@10"] == by["gold", 10]["found"]["value"]["value"]
