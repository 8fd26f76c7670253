"""`ctxr eval`: figures that can be counted by hand, comparison, files for other programs, and refusals."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from typer.testing import CliRunner

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import Round
from ctxr.datasets.truth import UNSURE, WORKER
from ctxr.engine.report import Table
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.metrics.compare import Clusters, Interval
from ctxr.metrics.proportions import LEVEL, holm
from ctxr.metrics.ranking import ALL_OF_SET
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run as run_eval
from ctxr.problems import runs
from ctxr.problems.contextual.learner import OpenSets
from ctxr.problems.figures import RunDifference, difference, mark_changed
from ctxr.problems.notes import ALONE, IN_MIXTURES
from ctxr.problems.results import QueryResult, latex
from ctxr.store.artifacts import Content, Parent, finish, open_artifact
from ctxr.store.records import Judgment, Score
from ctxr.store.scores import write_scores as write_table_of_scores
from ctxr.store.tables import read_table, write_table
from scripts.task_artifact import write_judgments
from tests.pipelines.evaluated import (
    FILM,
    PHOTOS,
    STREET,
    TEST,
    Value,
    at_random,
    evaluate,
    evaluated_project,
    release,
    right_on,
    target_of,
    trec_eval,
    write_scores,
)
from tests.pipelines.report_artifacts import project
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import annotation_yaml, write_release

ROUND = Round(1, True, "by", "f", "x", "f", 0.5, "given", 1, 1, 1, 0, 0, "d")


def cells(table: Table) -> dict[Any, tuple[Any, ...]]:
    """Rows by their first cell."""
    return {row[0]: row[1:] for row in table.rows}


def share(cell: str) -> float:
    """The figure before the brackets."""
    return float(cell.split()[0])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return release(tmp_path / "imagecode")


def test_accuracy_is_counted_by_kind_and_ties_share_it(dataset: Path) -> None:
    def value(query: str, place: int) -> float:
        if query == f"{STREET}/0":
            return float(place < 4)  # the target and three others
        return right_on(dataset, lambda name: name != f"{FILM}/3")(query, place)

    report = evaluate(dataset, write_scores(dataset.parent / "tied.jsonl", dataset, value))
    table = report.tables["valid/accuracy"]
    assert table.columns == ("run", "all", "video", "static", ALL_OF_SET, "MRR", "R@5")
    # a tie of four, one of two wrong, one right: three sets
    assert [share(cell) for cell in cells(table)["tied"][:4]] == [56.2, 41.7, 100.0, 41.7]
    assert cells(table)["tied"][4] == pytest.approx((1 / 5 + 1 + (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4 + 1) / 4)
    assert "all: 4 queries in 3 sets, chance 10.0 %" in table.note


def revised(dataset: Path, judgments: list[Judgment], *rounds: Round) -> Path:
    """A dataset with further judgments, and the rounds they are of."""
    files = [*open_artifact(dataset).manifest.files, "rounds.jsonl"]
    rows = [*read_table(dataset / "judgments.jsonl", Judgment), *judgments]
    (dataset / "judgments.jsonl").unlink()
    write_table(dataset / "judgments.jsonl", rows)
    write_table(dataset / "rounds.jsonl", rounds)
    content = Content(files, {}, {})
    finish(dataset, kind="dataset", verb="revise-labels", config={}, parents=[], content=content)
    return dataset


def test_unsure_candidates_leave_the_ranking_of_their_set(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "dataset")
    world, targets = read_dataset(dataset), target_of(read_dataset(dataset))
    valid = {one.id: one.images for one in world.sets if world.split_of(one) == "valid"}
    missed = next(name for name in targets if world.queries[name].image_set in valid)
    pick, other = ((targets[missed] + step) % 10 for step in (1, 2))

    def value(query: str, place: int) -> float:
        return 2.0 if (query, place) == (missed, pick) else float(place == targets[query])

    images = valid[world.queries[missed].image_set]
    file = write_scores(tmp_path / "a.jsonl", dataset, value, ("valid",))
    before = evaluate(dataset, file, out=tmp_path / "before")
    doubts = [Judgment(missed, images[place], f"{WORKER}:x", UNSURE, round=1) for place in (pick, other)]
    after = evaluate(revised(dataset, doubts), file, out=tmp_path / "after", trec=True)
    assert [share(cells(one.tables["valid/accuracy"])["a"][0]) for one in (before, after)] == [66.7, 100.0]
    rows = {row.query: row for row in read_table(after.results / "per_query.jsonl", QueryResult)}
    assert rows[missed].picks == rows[missed].targets
    assert (rows[missed].above, len(rows[missed].scores)) == (0, 10)
    listed = (after.results / "trec" / "a.txt").read_text().splitlines()
    assert {line.split()[2] for line in listed if line.startswith(f"{missed} ")} == {*images} - {
        images[pick],
        images[other],
    }
    assert "unsure of 2 pairs" in after.tables["valid/accuracy"].note
    # people overrule the judge
    verdict = Judgment(f"entail/{images[pick]}/{missed}", ENTAILMENT, "ann", 0.0)
    write_judgments(tmp_path / "work" / "judgments", AggregatedAnswers(root=dataset, judgments=(verdict,)))
    again = evaluate(dataset, file, out=tmp_path / "after")
    assert not again.up_to_date
    assert "unsure of 1 pair," in again.tables["valid/accuracy"].note
    assert share(cells(again.tables["valid/accuracy"])["a"][0]) == 66.7


def test_figures_on_labels_without_a_licence_say_so_wherever_they_are_pasted(tmp_path: Path) -> None:
    shown: Round = structs.replace(ROUND, number=2, classifier="toy-judge", toy=True, unlicensed=True)
    dataset = revised(
        write_world_dataset(tmp_path / "dataset"), [], structs.replace(ROUND, active=False, toy=True), shown
    )
    report = evaluate(dataset, write_scores(tmp_path / "a.jsonl", dataset, at_random(0), ("valid",)))
    (said,) = (note for note in report.notes if "toy-judge" in note)
    assert "round 2" in said
    assert "--unlicensed" in said
    assert all(said in table.note for name, table in report.tables.items() if name != "people")
    pasted = "".join((report.results / name).read_text() for name in ("results.tex", "appendix.tex"))
    assert pasted.count("toy-judge, a toy") == pasted.count(r"\begin{table}")
    assert said in json.loads((report.results / "figures.json").read_text())["notes"]


def test_views_have_the_bases_of_the_paper(dataset: Path) -> None:
    value = right_on(dataset, lambda name: name != f"{FILM}/3")
    tables = evaluate(dataset, write_scores(dataset.parent / "a.jsonl", dataset, value)).tables
    phenomena = cells(tables["valid/phenomena"])
    assert phenomena["negation"][:2] == (3, 1)
    assert [share(cell) for cell in phenomena["negation"][2:]] == [0.0, 100.0]
    assert [share(cell) for cell in phenomena["quantities"][2:]] == [100.0, 50.0]
    writers = cells(tables["valid/writers"])
    assert {name: (row[0], share(row[2])) for name, row in writers.items()} == {
        "seen in train": (1, 0.0),
        "unseen": (3, 100.0),
    }
    assert {name: row[0] for name, row in cells(tables["valid/source"]).items()} == {"MSR-VTT": 3, "open-images": 1}
    assert sum(row[0] for row in cells(tables["valid/length"]).values()) == 4
    assert cells(tables["people"])["valid"][0] == "90.9"
    wrong = cells(tables["valid/errors"])
    assert wrong[1][1] == 100.0
    assert sum(row[1] for row in wrong.values()) == pytest.approx(100)
    assert sum(row[0] for row in wrong.values()) == pytest.approx(100)


def test_the_phenomena_of_the_release_stand_on_200_and_on_1002_rows(tmp_path: Path) -> None:
    names = [f"MSR-VTT-videoTest_video{number}-shot0_0" for number in range(1010)]
    valid = {name: {"1": f"Text {name} 1."} for name in names}
    write_release(tmp_path / "release", valid=valid, test=None)
    rows = [(name, 1, "neg,s" if place % 2 else "") for place, name in enumerate(names)]
    (tmp_path / "release" / "manual_annotation_valid.yaml").write_text(annotation_yaml(rows))
    file = write_scores(tmp_path / "a.jsonl", tmp_path / "release", at_random(0), ("valid",))
    rows_of = [row[:3] for row in evaluate(tmp_path / "release", file).tables["valid/phenomena"].rows]
    assert ("negation", 200, 100) in rows_of
    assert ("negation", 1002, 501) in rows_of
    assert [row for row in rows_of if row[0] == "spatial"] == [("spatial", 200, 100)]


def test_every_two_runs_are_compared(dataset: Path) -> None:
    files = [
        write_scores(dataset.parent / "a.jsonl", dataset, right_on(dataset, lambda name: False)),
        write_scores(dataset.parent / "b.jsonl", dataset, right_on(dataset, lambda name: True)),
        write_scores(dataset.parent / "c.jsonl", dataset, right_on(dataset, lambda name: name.startswith(PHOTOS))),
    ]
    report = evaluate(dataset, *files, compare=True)
    rows = {row[:3]: row[3:] for row in report.tables["valid/differences"].rows}
    assert rows["a", "all", None] == (4, "0.0 (0.0–70.8)", None, None, None, None, None)
    assert rows["b", "all", "a"][:4] == (4, "100.0 (29.2–100.0)", "+100.0 (–)", "0.250")
    assert rows["c", "all", "a"][2].startswith("+25.0 (")
    assert rows["c", "video", "a"] == (3, "0.0 (0.0–84.2)", "+0.0 (–)", "1.000", "1.000", "1.000", "1.000")
    assert rows["c", "all", "b"][2].startswith("-75.0 (")
    # one family: what two splits print of three pairs in every part
    told = json.loads((report.results / "figures.json").read_bytes())["differences"]
    assert {row["split"] for row in told} == {"valid"}
    assert {(row["run"], row["against"]) for row in told} == {("b", "a"), ("c", "a"), ("c", "b")}
    assert [row["corrected"] for row in told] == holm([row["permutation"] for row in told])
    assert [row["mcnemar_corrected"] for row in told] == holm([row["mcnemar"] for row in told])
    assert cells(report.tables["valid/accuracy"]).keys() == {"a", "b", "c"}
    assert report.results.name == "a-vs-b-vs-c"
    assert "valid/differences" not in evaluate(dataset, *files).tables


def test_tables_can_be_pasted_and_groups_drawn_again(dataset: Path) -> None:
    file = write_scores(dataset.parent / "a_1.jsonl", dataset, at_random(0), ("train", "valid"))
    report = evaluate(dataset, file, cluster="group")
    assert [*report.tables][:2] == ["summary", "train/accuracy"]
    assert "in 3 groups" in report.tables["valid/accuracy"].note
    # what a model was trained on is not known
    assert any("what a_1 was" in note for note in report.notes)
    assert IN_MIXTURES in report.notes
    assert f"| run | all | video | static | {ALL_OF_SET} | MRR | R@5 |" in (report.results / "results.md").read_text()
    tex = (report.results / "appendix.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") > 4
    assert r"a\_1 &" in tex
    (own,) = re.findall(r"\\label\{(.*?)\}", (report.results / "results.tex").read_text())
    others = re.findall(r"\\label\{(.*?)\}", tex)
    assert [own, *others] == [f"tab:{name.replace('/', '-')}" for name in report.tables]


@pytest.mark.parametrize(("cluster", "unit"), [("set", "sets"), ("group", "groups")])
def test_the_caption_of_the_results_says_what_its_figures_are(dataset: Path, cluster: str, unit: str) -> None:
    files = [
        write_scores(dataset.parent / "a.jsonl", dataset, right_on(dataset, lambda name: False)),
        write_scores(dataset.parent / "b.jsonl", dataset, right_on(dataset, lambda name: name != f"{FILM}/3")),
    ]
    results = evaluate(dataset, *files, compare=True, cluster=cluster).results
    told = json.loads((results / "figures.json").read_text())["figures"]
    accuracy = next(
        row
        for row in told
        if [row[name] for name in ("run", "view", "part", "measure")] == ["a", "overall", "all", "accuracy"]
    )
    (caption,) = re.findall(r"\\caption\{(.*)\}", (results / "results.tex").read_text())
    assert all(f"{measure}: share" in caption.lower() for measure in ("accuracy", ALL_OF_SET))
    assert f"n = {accuracy['queries']};" in caption
    assert r"95 \% percentile bootstrap" in caption
    assert f" {accuracy['clusters']} {unit};" in caption
    # a right on no query, b with fewer clusters than an interval needs
    assert (accuracy["value"], accuracy["low"]) == (0.0, 0.0)
    assert "for 0 and 100" in caption
    assert "no interval, fewer" in caption


def test_no_two_columns_of_a_table_have_one_name(dataset: Path) -> None:
    files = [write_scores(dataset.parent / f"{name}.jsonl", dataset, at_random(seed)) for seed, name in enumerate("ab")]
    results = evaluate(dataset, *files, compare=True).results
    pasted = "".join((results / name).read_text() for name in ("results.tex", "appendix.tex"))
    heads = [[head.strip(" \\") for head in line.split("&")] for line in re.findall(r"\\toprule\n(.*)", pasted)]
    assert any("McNemar" in head for head in heads)
    assert [head for head in heads if len({*head}) < len(head)] == []


@pytest.mark.parametrize("name", ["a_1", "100 % & #1", "[x]", "~^\\{}$", "-- | <b>", "*", "a\nb"])
def test_latex_is_well_formed_whatever_runs_are_called(name: str) -> None:
    rows = ((name, "50.0 (40.0–60.0)"), ("chance", "10.0"))
    tex = latex(name, Table(name, ("run", "accuracy"), rows, f"note on {name}"))
    plain = re.sub(r"\\[\\&%$#_{}]", "", tex)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == plain.count("%") == plain.count("#") == 0
    body = tex.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].splitlines()
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [1, 1]
    assert all(line.endswith(r" \\") and not line.startswith("[") for line in body)
    assert re.findall(r"\\(begin|end)\{(\w+)\}", tex) == [
        ("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table")
    ]  # fmt: skip


def test_the_summary_names_the_files_to_paste(dataset: Path) -> None:
    file = write_scores(dataset.parent / "a.jsonl", dataset, at_random(0))
    given = ["eval", str(file), "--dataset", str(dataset), "-w", str(dataset.parent / "work"), "--resamples", "100"]
    for _ in range(2):  # also where nothing is done
        told = " ".join(CliRunner().invoke(app, given).stdout.split())
        assert "results.tex" in told
        assert "appendix.tex" in told
        assert "figures/accuracy.svg and .pdf" in told


def test_a_handful_of_sets_gives_no_interval_and_the_table_says_why(dataset: Path) -> None:
    good = write_scores(dataset.parent / "good.jsonl", dataset, right_on(dataset, lambda name: name != f"{FILM}/3"))
    report = evaluate(dataset, good, write_scores(dataset.parent / "tied.jsonl", dataset, lambda *_: 0.0), compare=True)
    table = report.tables["valid/accuracy"]
    assert cells(table)["good"][0] == "75.0 (–)"
    assert "(–): no interval, fewer than 5 clusters" in table.note
    rows = json.loads((report.results / "figures.json").read_text())["figures"]
    accuracies = [row for row in rows if (row["run"], row["measure"], row["part"]) == ("good", "accuracy", "all")]
    assert [(row["value"], row["low"], row["high"], row["clusters"]) for row in accuracies] == [(0.75, None, None, 3)]
    compared = report.tables["valid/differences"]
    assert [row[8] for row in compared.rows if row[:2] == ("tied", "all")] == ["–"]
    assert "good 4 of 4)" in compared.note


def test_every_row_of_every_run_is_in_the_artifact(dataset: Path) -> None:
    file = write_scores(dataset.parent / "a.jsonl", dataset, right_on(dataset, lambda name: name != f"{FILM}/3"))
    report = evaluate(dataset, file)
    artifact = open_artifact(report.results, "results")
    assert not artifact.changed_files()
    rows = {row.query: row for row in read_table(report.results / "per_query.jsonl", QueryResult)}
    assert {name: row.accuracy for name, row in rows.items()} == {
        f"{FILM}/3": 0.0, f"{FILM}/4": 1.0, f"{STREET}/0": 1.0, f"{PHOTOS}/9": 1.0
    }  # fmt: skip
    missed = rows[f"{FILM}/3"]
    assert (missed.targets, missed.picks) == ((missed.candidates[3],), (missed.candidates[4],))
    assert missed.scores[4] == 1.0
    assert (missed.above, missed.level, missed.reciprocal_rank) == (4, 1, 0.2)
    assert missed.tags == ("negation", "visibility")
    told = json.loads((report.results / "figures.json").read_text())
    found = {(one["view"], one["part"], one["measure"]): one for one in told["figures"]}
    assert found["overall", "all", "accuracy"]["value"] == 0.75
    assert found["overall", "all", "accuracy"]["clusters"] == 3


def test_what_an_earlier_evaluation_left_goes(dataset: Path) -> None:
    out = dataset.parent / "out"
    evaluate(dataset, write_scores(dataset.parent / "a.jsonl", dataset, at_random(1)), out=out)
    evaluate(dataset, write_scores(dataset.parent / "b.jsonl", dataset, at_random(1)), out=out)
    assert sorted(file.name for file in (out / "leaderboard").iterdir()) == ["b.json"]


def test_the_leaderboard_keeps_the_order_of_the_file(dataset: Path) -> None:
    picks = {"YouCook-video2-shot1_1/0?": 7, "YouCook-video2-shot1_1/1?": 0, "MSR-VTT-videoTest_video7-shot2_1/0?": 5}
    file = write_scores(dataset.parent / "a.jsonl", dataset, lambda query, place: float(place == picks.get(query, 0)))
    report = evaluate(dataset, file)
    told = json.loads((report.results / "leaderboard" / "a.json").read_text(), object_pairs_hook=list)
    assert told == [("YouCook-video2-shot1_1", [7, 0]), ("MSR-VTT-videoTest_video7-shot2_1", [5])]
    assert [name for name, _ in told] == list(TEST)
    assert any("the targets of 3 queries are hidden" in note for note in report.notes)


def test_trec_files_hold_every_candidate_in_its_order(dataset: Path) -> None:
    file = write_scores(dataset.parent / "a b.jsonl", dataset, lambda query, place: float(place % 3))
    results = evaluate(dataset, file).results
    lines = [line.split() for line in (results / "trec" / "a-b.txt").read_text().splitlines()]
    assert len(lines) == 70
    assert {tuple(line[1:2] + line[5:]) for line in lines} == {("Q0", "a%20b")}
    for query in {line[0] for line in lines}:  # ties as trec_eval orders them
        own = [line for line in lines if line[0] == query]
        assert own == sorted(own, key=lambda line: (float(line[4]), line[2].encode()), reverse=True)
        assert [int(line[3]) for line in own] == list(range(1, 11))
    qrels = (results / "trec" / "qrels.txt").read_text().splitlines()
    targets = {query.id: one.images[place] for query, one, place in read_dataset(dataset).targets()}
    asked = {f"{FILM}/3", f"{FILM}/4", f"{STREET}/0", f"{PHOTOS}/9"}
    assert sorted(qrels) == sorted(f"{query} 0 {targets[query]} 1" for query in asked)


@pytest.mark.parametrize("step", [1.0, 1e-12])
def test_trec_eval_finds_in_our_files_what_we_print(dataset: Path, step: float) -> None:
    # no ties, but differences that single precision does not show
    file = write_scores(
        dataset.parent / "a.jsonl", dataset, lambda query, place: 1 + step * (7 * place % 10), ("valid",)
    )
    results = evaluate(dataset, file, trec=True, recall="3").results
    figures = json.loads((results / "figures.json").read_bytes())["figures"]
    ours = {row["measure"]: row["value"] for row in figures if (row["view"], row["part"]) == ("overall", "all")}
    for name, value in trec_eval(results / "trec", "a", 3).items():
        assert ours[name] == pytest.approx(value)


def test_a_file_is_called_as_it_is_or_as_the_option_says(dataset: Path) -> None:
    (dataset.parent / "mine").mkdir()
    file = write_scores(dataset.parent / "mine" / "scores.jsonl", dataset, at_random(0), ("valid",))
    assert evaluate(dataset, file).runs == ("scores",)
    report = evaluate(dataset, file, name="first try")
    assert (report.runs, report.results.name) == (("first try",), "first-try")
    with pytest.raises(UsageError, match="--name"):
        evaluate(dataset, file, file, name="two")
    with pytest.raises(UsageError, match="--name"):
        evaluate(dataset, "ctxr-tiny", name="tiny")


def test_an_encoder_of_other_weights_than_the_picker_is_asked_for_where_there_is_none(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "dataset")
    before, models = open_artifact(dataset).manifest, {"encoder": {"name": "ViT-B-32:openai"}}
    content = Content([*before.files], before.counts, models)
    finish(dataset, kind="dataset", verb="aggregate", config={}, parents=[], content=content)
    file = write_scores(tmp_path / "mine.jsonl", dataset, at_random(0), ("valid",))
    (note,) = [one for one in evaluate(dataset, file, split="valid").notes if "by design" in one]
    assert " ViT-B-16-SigLIP:webli " in note
    report = evaluate(dataset, file, "ctxr-tiny", split="valid")
    assert [one for one in report.notes if "by design" in one] == []


@pytest.mark.parametrize("ties", ["first", "last"])
def test_trec_eval_finds_ties_broken_as_we_print_them(dataset: Path, ties: str) -> None:
    file = write_scores(dataset.parent / "a.jsonl", dataset, lambda *_: 0.5, ("valid",))
    results = evaluate(dataset, file, trec=True, recall="3", ties=ties).results
    figures = json.loads((results / "figures.json").read_bytes())["figures"]
    ours = {row["measure"]: row["value"] for row in figures if (row["view"], row["part"]) == ("overall", "all")}
    assert ours["recall@3"] == float(ties == "first")
    for name, value in trec_eval(results / "trec", "a", 3).items():
        assert ours[name] == pytest.approx(value)


def test_a_difference_is_starred_where_it_is_significant_and_so_in_latex() -> None:
    row = RunDifference("test", "all", "b", "a", 9, Interval(0.25, 0.125, 0.375), 0.01, 0.049, None, None)
    shown = [difference(row), difference(replace(row, corrected=0.051))]
    assert shown == ["+25.0 (+12.5 to +37.5)*", "+25.0 (+12.5 to +37.5)"]
    tex = latex("t", Table("t", ("run", "difference"), (("b †", shown[0]),), ""))
    assert r"b $\dagger$ & +25.0 (+12.5 to +37.5)$^{*}$" in tex


def test_more_tests_than_the_draws_can_tell_are_said(dataset: Path) -> None:
    files = [
        write_scores(dataset.parent / f"{name}.jsonl", dataset, at_random(place)) for place, name in enumerate("abc")
    ]
    enough, few = (evaluate(dataset, *files, compare=True, permutations=count) for count in (5000, 20))
    assert set(few.notes) - set(enough.notes)


def test_a_run_is_marked_once_the_judgments_under_it_changed(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "dataset")
    trained(dataset, "base", {"base": at_random(0)}, source=dataset)
    file = write_scores(tmp_path / "other.jsonl", dataset, at_random(1), ("valid",))
    as_made = evaluate(dataset, "base", file, split="valid")
    assert cells(as_made.tables["valid/accuracy"]).keys() == {"base", "other"}
    before = open_artifact(dataset).manifest
    content = Content([*before.files], before.counts, {})
    finish(dataset, kind="dataset", verb="revise-labels", config={"round": 1}, parents=[], content=content)
    changed = evaluate(dataset, "base", file, split="valid")
    assert not changed.up_to_date
    assert cells(changed.tables["valid/accuracy"]).keys() == {"base †", "other"}
    assert changed.tables["valid/source"].columns[3:] == ("base †", "other")


def trained(
    dataset: Path,
    name: str,
    seeds: dict[str, Value],
    variant: str = "batch",
    lost: str = "",
    source: Path | None = None,
) -> Path:
    """A run of the project with scores of valid by each seed, trained on `source`, else on some other dataset; a file of it is `lost`
    since."""
    folder, read = dataset.parent / "work" / "runs" / name, read_dataset(dataset)
    rows = [
        Score(query.id, image, scorer, value(query.id, place))
        for scorer, value in seeds.items()
        for query, one, _ in read.targets()
        if read.split_of(one) == "valid"
        for place, image in enumerate(one.images)
    ]
    write_table_of_scores(folder / "scores.jsonl", rows)
    parents = [Parent("elsewhere", "dataset", "ab" * 32 if source is None else open_artifact(source).sha256)]
    files = ["scores.jsonl"]
    if lost:
        (folder / lost).parent.mkdir(parents=True)
        (folder / lost).parent.joinpath("config.json").write_text("{}")
        (folder / lost).write_bytes(b"weights")
        files.append(lost)
    finish(
        folder, kind="run", verb="train", config={"variant": variant}, parents=parents, content=Content(files, {}, {})
    )
    if lost:
        (folder / lost).unlink()
    return folder


def test_a_run_of_the_project_is_found_by_name_and_its_training_is_looked_at(dataset: Path) -> None:
    folder = trained(dataset, "base", {"base": lambda query, place: float(place)})
    trained(dataset, "as-it-is", {"as-it-is": at_random(0)}, variant="zero-shot")
    report = evaluate(dataset, "base", "as-it-is", split="valid")
    assert report.runs == ("base", "as-it-is")
    assert not any("epoch of base, as-it-is" in note or "epoch of as-it-is" in note for note in report.notes)
    shutil.rmtree(folder.parent / "as-it-is")
    report = evaluate(dataset, split="valid")
    assert report.runs == ("base",)
    assert report.results == dataset.parent / "work" / "results" / "base"
    assert any(note.startswith("base: ") and "(elsewhere)" in note for note in report.notes)
    assert any("epoch of base" in note for note in report.notes)
    assert share(cells(report.tables["valid/accuracy"])["base †"][2]) == 100.0
    with (folder / "scores.jsonl").open("a") as stream:
        stream.write("\n")
    with pytest.raises(DataError, match=r"scores\.jsonl was changed"):
        evaluate(dataset, "base", split="valid")


def test_several_seeds_are_one_run_whose_figures_are_their_means(dataset: Path) -> None:
    good, bad = right_on(dataset, lambda name: True), right_on(dataset, lambda name: name.startswith(PHOTOS))
    trained(dataset, "deep", {"deep/seed0": good, "deep/seed1": bad})
    other = write_scores(dataset.parent / "other.jsonl", dataset, bad, ("valid",))
    report = evaluate(dataset, other, "deep", compare=True)
    assert share(cells(report.tables["valid/accuracy"])["deep †"][0]) == 62.5
    assert cells(report.tables["valid/seeds"])["deep †"] == (2, "62.5 ± 53.0", "100.0, 25.0")
    assert cells(report.tables["valid/errors"])[1][2] == 100.0
    rows = {row[:2]: row[3:] for row in report.tables["valid/differences"].rows}
    assert rows["deep †", "all"][2].startswith("+37.5 (")
    assert rows["deep †", "all"][5:] == ("–", "–")
    names = {row.run for row in read_table(report.results / "per_query.jsonl", QueryResult)}
    assert names == {"other", "deep/seed0", "deep/seed1"}
    assert sorted(file.name for file in (report.results / "trec").iterdir()) == [
        "deep-seed0.txt", "deep-seed1.txt", "other.txt", "qrels.txt"
    ]  # fmt: skip


def test_a_model_is_scored_as_it_is_on_the_queries_that_are_asked(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def score(opened: OpenSets, examples: tuple[Any, list[str]]) -> dict[str, dict[str, dict[str, float]]]:
        read, queries = examples
        asked.extend(queries)
        sets = {one.id: one.images for one in read.sets}
        return {opened.encoder: {name: dict.fromkeys(sets[read.queries[name].image_set], 0.0) for name in queries}}

    monkeypatch.setattr(OpenSets, "score", score)
    monkeypatch.setattr(runs, "model_identity", lambda name, workdir: name)
    report = evaluate(dataset, "ViT:tiny", split="valid")
    assert asked == [f"{FILM}/3", f"{FILM}/4", f"{STREET}/0", f"{PHOTOS}/9"]
    assert share(cells(report.tables["valid/accuracy"])["ViT:tiny"][0]) == 10.0
    assert report.results.name == "ViT-tiny"


def test_our_own_dataset_brings_its_crowd_its_certificate_and_its_distances(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "dataset", sets=6)
    queries = [query.id for query in read_dataset(dataset).queries.values() if query.labels is None]
    accuracy = {
        "kind": "all", "basis": "first votes", "value": 0.875, "right": 7, "votes": 8, "workers": 3, "low": 0.5, "high": 0.9,
        "crowd_low": 0.8, "crowd_high": 0.95, "sets": {"value": 0.75, "low": 0.5, "high": 0.9},
    }  # fmt: skip
    agreement = {"kind": "all", "basis": "first votes", "level": "nominal", "on": "image ids", "value": 0.7}
    (dataset / "figures.json").write_text(json.dumps({"accuracy": [accuracy], "agreement": [agreement]}))
    (dataset / "certificate.json").write_text(json.dumps({"queries": {queries[0]: {"describer": "unseen_worker"}}}))
    file = write_scores(tmp_path / "a.jsonl", dataset, at_random(3), ("train", "valid"))
    report = evaluate(dataset, file)
    assert report.tables["people"].rows == (("all, first votes", 8, "87.5 (80.0–95.0)", "75.0 (50.0–90.0)", 0.7),)
    summary = report.tables["summary"]
    assert summary.columns == ("run", "accuracy", ALL_OF_SET)
    assert summary.title.startswith("valid")
    assert cells(summary)["people (all, first votes)"] == ("87.5 (80.0–95.0)", "75.0 (50.0–90.0)")
    assert cells(summary)["a"][0] == cells(report.tables["valid/accuracy"])["a"][0]
    assert cells(summary)["chance"][0] == "10.0"
    parted = {name for name in report.tables if name.endswith("/writers")}
    assert len(parted) == 1
    assert any(name.endswith("/phenomena") for name in report.tables)
    assert "train/accuracy" in report.tables
    (dataset / "figures.json").write_text('{"accuracy": 3}')
    with pytest.raises(DataError, match=r"figures\.json is damaged"):
        evaluate(dataset, file, seed=1)
    (dataset / "certificate.json").write_text("[1]")
    with pytest.raises(DataError, match=r"certificate\.json is damaged"):
        evaluate(dataset, file, seed=1)


def edited(file: Path, edit: Any) -> Path:
    """The file with other lines."""
    file.write_text("\n".join(edit(file.read_text().splitlines())) + "\n")
    return file


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda lines: [*lines, lines[0].replace(FILM, "nowhere")], r"a\.jsonl:71: query 'nowhere/3' .*imagecode"),
        (lambda lines: [*lines, lines[0].replace('"candidate": "', '"candidate": "x')], r"a\.jsonl:71: 'x.*' .*candidate"),
        (lambda lines: lines[:-1], r"a\.jsonl:61: query '.*shot2_1/0\?' .*candidate"),
        (lambda lines: lines[10:], r"a\.jsonl: query '.*/3' of valid"),
        (lambda lines: [*lines[:3], *lines[4:13], *lines[14:]], r"a\.jsonl:1: .* and 1 more are incomplete"),
        (lambda lines: [*lines, lines[4]], r"a\.jsonl:71: .* stand in line 5 already"),
        (lambda lines: [json.dumps({"query": f"phenomena/{FILM}/3", "candidate": "negation", "value": 1.0})], "for a label"),
    ],
)  # fmt: skip
def test_scores_that_do_not_fit_are_refused_with_their_line(dataset: Path, edit: Any, told: str) -> None:
    file = edited(write_scores(dataset.parent / "a.jsonl", dataset, lambda query, place: 0.5 + place), edit)
    with pytest.raises(DataError, match=told):
        evaluate(dataset, file)


def test_a_side_that_one_run_never_scored_is_left_out_of_all_and_told(dataset: Path) -> None:
    whole = write_scores(dataset.parent / "whole.jsonl", dataset, at_random(0))
    valid = write_scores(dataset.parent / "heard.jsonl", dataset, at_random(1), ("valid",))
    report = evaluate(dataset, whole, valid)
    assert "valid/accuracy" in report.tables
    assert any(note.startswith("test is ") and "heard" in note and "--split test" in note for note in report.notes)
    with pytest.raises(DataError, match="'heard' scores no"):
        evaluate(dataset, valid, split="train")


def test_partial_leaves_out_of_all_runs_what_one_lacks_and_says_how_many(dataset: Path) -> None:
    whole = write_scores(dataset.parent / "whole.jsonl", dataset, right_on(dataset, lambda name: name != f"{FILM}/3"))
    part = edited(write_scores(dataset.parent / "part.jsonl", dataset, at_random(0)), lambda lines: lines[1:-1])
    report = evaluate(dataset, whole, part, partial=True)
    assert share(cells(report.tables["valid/accuracy"])["whole"][0]) == 100.0
    assert "all: 3 queries" in report.tables["valid/accuracy"].note
    assert any("valid: 1 of 4 queries" in note and note.endswith("(--partial)") for note in report.notes)
    assert not (report.results / "leaderboard").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"split": "dev"}, "--split dev"),
        ({"cluster": "shot"}, "--cluster shot"),
        ({"resamples": 0}, "--resamples 0"),
        ({"recall": "1,x"}, "--recall '1,x'"),
    ],
)
def test_wrong_arguments_are_refused(dataset: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        evaluate(dataset, "a.jsonl", **options)


def test_what_is_no_run_is_refused(dataset: Path) -> None:
    with pytest.raises(UnfinishedError, match="no finished run"):
        evaluate(dataset)
    with pytest.raises(UsageError, match=r"nothing\.jsonl is neither"):
        evaluate(dataset, "nothing.jsonl")
    with pytest.raises(UsageError, match=r"nothing\.jsonl is neither"):
        run_eval(Eval(("nothing.jsonl",), None, dataset.parent / "work"))
    (dataset.parent / "work" / "runs" / "half").mkdir(parents=True)
    with pytest.raises(UnfinishedError, match=r"half .*manifest\.json"):
        evaluate(dataset, "half")
    trained(dataset, "base", {"base": at_random(0)}, lost="seed0/encoder.safetensors")
    with pytest.raises(UnfinishedError, match=": base on elsewhere") as caught:
        run_eval(Eval(("base",), workdir=dataset.parent / "work"))
    assert caught.value.hint == "--dataset PATH   names its folder"
    with pytest.raises(DataError, match=r"base/seed0/encoder\.safetensors was removed"):
        evaluate(dataset, "base", split="train")


def test_a_mistyped_run_is_answered_with_the_runs_there_are_and_a_recipe_with_its_command(dataset: Path) -> None:
    trained(dataset, "clip-batch", {"clip-batch": at_random(0)})
    with pytest.raises(UsageError, match=r"a classifier 'clip-bach' in ") as caught:
        evaluate(dataset, "clip-bach")
    assert "clip-batch? " in caught.value.hint
    with pytest.raises(UsageError, match="a classifier 'clip-module'") as caught:
        evaluate(dataset, "clip-module")
    assert caught.value.hint.startswith("ctxr train --recipe clip-module   ")


def test_only_names_of_runs_are_marked() -> None:
    table = Table("t", ("run", "all"), (("all", "all"), ("other", "all")), "")
    assert mark_changed(table, {"all"}).rows == (("all †", "all"), ("other", "all"))
    assert mark_changed(Table("t", ("part", "all"), (("all", 1),), ""), {"all"}).columns == ("part", "all †")


def test_one_run_cannot_be_compared_and_a_recall_of_every_candidate_is_no_figure(dataset: Path) -> None:
    report = evaluate(
        dataset, write_scores(dataset.parent / "a.jsonl", dataset, at_random(0)), compare=True, recall="5,10,20"
    )
    assert ALONE in report.notes
    assert any(note.startswith("R@10, R@20 ") and " 10 images" in note for note in report.notes)
    assert report.tables["valid/accuracy"].columns[-2:] == ("MRR", "R@5")


def test_comparisons_of_other_runs_have_folders_of_their_own(dataset: Path) -> None:
    files = [write_scores(dataset.parent / f"{name}.jsonl", dataset, at_random(0)) for name in ("a", "b", "c" * 90)]
    named = [evaluate(dataset, *some, compare=True).results.name for some in (files[:2], files[1::-1], files)]
    assert named[:2] == ["a-vs-b", "b-vs-a"]
    assert named[2].startswith("a-vs-2-others-")


def test_files_that_exchange_their_names_are_evaluated_again(dataset: Path) -> None:
    one, two, aside = (dataset.parent / f"{name}.jsonl" for name in ("a", "b", "c"))
    write_scores(one, dataset, at_random(0))
    write_scores(two, dataset, right_on(dataset, lambda _: True))
    before = cells(evaluate(dataset, one, two).tables["valid/accuracy"])
    for old, new in ((one, aside), (two, one), (aside, two)):
        old.rename(new)
    report = evaluate(dataset, one, two)
    after = cells(report.tables["valid/accuracy"])
    assert (report.up_to_date, after["a"][4], after["b"][4]) == (False, before["b"][4], before["a"][4])
    assert before["a"][4] < before["b"][4] == 1


def test_two_runs_of_one_name_are_refused(dataset: Path) -> None:
    one = write_scores(dataset.parent / "x" / "a.jsonl", dataset, at_random(0))
    two = write_scores(dataset.parent / "y" / "a.jsonl", dataset, at_random(1))
    with pytest.raises(UsageError, match="called 'a'"):
        evaluate(dataset, one, two)
    three = write_scores(dataset.parent / "y" / "A.jsonl", dataset, at_random(1), scorer="A")
    with pytest.raises(UsageError, match="the same files"):
        evaluate(dataset, one, three)


def test_in_a_gallery_captions_of_one_picture_stand_or_fall_together(tmp_path: Path) -> None:
    pictures = [{"id": number, "file_name": f"{number}.jpg", "width": 9, "height": 9} for number in range(40)]
    captions = [
        {"id": 2 * number + place, "image_id": number, "caption": f"Picture {number}, {'a' * place}."}
        for number in range(40)
        for place in range(2)
    ]
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco" / "captions_val.json").write_text(json.dumps({"images": pictures, "annotations": captions}))

    targets = target_of(read_dataset(tmp_path / "coco"))

    def value(query: str, place: int) -> float:
        return -abs(place - targets[query] - 0.6)  # the picture after the right one, then the right one

    report = evaluate(tmp_path / "coco", write_scores(tmp_path / "a.jsonl", tmp_path / "coco", value), recall="1,2,5")
    table = report.tables["valid/accuracy"]
    assert table.columns == ("run", "all", "MRR", "R@1", "R@2", "R@5")
    assert cells(table)["a"][2:] == ("2.5", "100.0", "100.0")
    assert "80 queries in 40 targets, chance 2.5 %" in table.note
    rows = read_table(report.results / "per_query.jsonl", QueryResult)
    assert {(row.candidates, row.scores, len(row.picks)) for row in rows} == {((), (), 1)}


def test_hidden_targets_alone_give_the_files_and_no_figure(dataset: Path) -> None:
    report = evaluate(dataset, write_scores(dataset.parent / "a.jsonl", dataset, at_random(0), ("test",)), compare=True)
    assert set(report.tables) == {"people"}
    assert (report.results / "leaderboard" / "a.json").is_file()
    assert not (report.results / "trec" / "qrels.txt").exists()


def test_whole_sets_are_what_is_drawn_again_for_all_of_set_accuracy(tmp_path: Path) -> None:
    dataset = evaluated_project(project(tmp_path / "work", videos=6, sets=8, photos=30), runs=1) / "dataset"
    (results,) = (dataset.parent / "results").iterdir()
    figures = json.loads((results / "figures.json").read_text())["figures"]
    (row,) = (one for one in figures if (one["part"], one["measure"]) == ("all", ALL_OF_SET))
    right: dict[str, float] = {}
    for one in read_table(results / "per_query.jsonl", QueryResult):
        right[one.image_set] = right.get(one.image_set, 1.0) * one.accuracy
    names = [one.id for one in read_dataset(dataset).sets]
    values = np.array([right[name] for name in names])
    assert (row["queries"], row["value"]) == (len(names), pytest.approx(values.mean()))
    assert 0 < row["value"] < next(one["value"] for one in figures if one["measure"] == "accuracy")
    of_query = [one.image_set for one in read_dataset(dataset).queries.values() if one.labels is None]
    drawn = Clusters(of_query, np.random.default_rng((0, 2)), 200)
    weights = drawn.weights[:, [drawn.codes[of_query.index(name)] for name in names]].astype(float)
    ends = np.quantile(weights @ values / len(names), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    assert (row["low"], row["high"]) == pytest.approx(tuple(ends))


def test_the_command_prints_a_summary_and_json(dataset: Path) -> None:
    file = write_scores(dataset.parent / "a.jsonl", dataset, at_random(0))
    words = ["eval", str(file), "--dataset", str(dataset), "-w", str(dataset.parent / "work"), "--resamples", "50"]
    shown = CliRunner().invoke(app, [*words, "--tokenizer", "regex"])
    assert shown.exit_code == 0
    assert "valid: accuracy" not in shown.stdout
    assert "valid: accuracy" in CliRunner().invoke(app, [*words, "--tokenizer", "regex", "--full"]).stdout
    summary = shown.stdout.partition("notes")[0].splitlines()
    assert max(map(len, summary)) <= 80
    assert [line.split()[1] for line in summary if line.startswith("│")] == ["a", "people", "chance"]
    told = json.loads(CliRunner().invoke(app, [*words, "--tokenizer", "regex", "--json"]).stdout)
    assert told["up_to_date"] is True
    assert told["tables"]["valid/accuracy"]["rows"][0][0] == "a"
