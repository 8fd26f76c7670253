"""`ctxr eval --nothing-fits` in every problem that ranks candidates, against a slow version from the scores themselves."""

import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.documents import documents_of
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT
from ctxr.errors import UsageError
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.problems.entailment.question import PairEvaluation
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.galleries import RANKINGS, QueryRanking, gallery_splits
from ctxr.problems.queries import queries_of
from ctxr.store.artifacts import open_artifact
from ctxr.store.tables import read_table
from ctxr.synthetic.dialogues import write_dialogues
from tests.models.encoder_folder import make_folder
from tests.pipelines.evaluated import at_random, evaluate, release, right_on, write_scores
from tests.problems.links.written import write_documents
from tests.problems.test_traces import write_narratives

Rows = Mapping[str, tuple[Mapping[str, float], Set[str]]]
"""By query, the scores of its candidates and which of them are right."""


def figures(report: EvalReport) -> dict[tuple[str, str], Any]:
    told = json.loads((report.results / "figures.json").read_text())["figures"]
    return {(row["run"], row["measure"]): row["value"] for row in told if row["view"] == "nothing-fits"}


def check(report: EvalReport, split: str, run: str, rows: Rows) -> None:
    """Figures and table are those of the slow version, for the half that the results name."""
    removed = (report.results / "nothing-fits" / f"{split}.txt").read_text().splitlines()
    assert len({*removed}) == len(removed) == len(rows) // 2
    assert rows.keys() >= {*removed}
    whole, lacking, answers = list[float](), list[float](), list[tuple[float, float]]()
    for query, (scores, right) in rows.items():
        if query in removed:
            lacking.append(max(value for name, value in scores.items() if name not in right))
            answers.append((lacking[-1], 0.0))
        else:
            whole.append(max(scores.values()))
            firsts = [name in right for name, value in scores.items() if value == whole[-1]]
            answers.append((whole[-1], float(np.mean(firsts))))
    expected = [float(np.mean([(one > other) + (one == other) / 2 for one in whole for other in lacking]))]
    by_score = {score: [credit for one, credit in answers if one == score] for score in sorted({*dict(answers)})[::-1]}
    evened = [float(np.mean(credits)) for credits in by_score.values() for _ in credits]
    for count in (share * len(rows) for share in (0.25, 0.5, 0.75, 1.0)):
        full = int(count)
        expected.append((sum(evened[:full]) + (count - full) * [*evened, 0.0][full]) / count)
    measures = ("AUROC", "selective@25", "selective@50", "selective@75", "selective@100")
    assert [figures(report)[run, measure] for measure in measures] == pytest.approx(expected)
    table = report.tables[f"{split}/nothing-fits"]
    shown = next(row[1:] for row in table.rows if row[0] == run)
    assert [float(cell.split()[0]) for cell in shown] == pytest.approx([100 * one for one in expected], abs=0.051)
    assert f"{len(rows) // 2} of them" in table.note


def rows_of(dataset: Path, file: Path, wanted: Sequence[str]) -> Rows:
    """What a file of scores says of queries for an image."""
    scores: dict[str, dict[str, float]] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        scores.setdefault(line["query"], {})[line["candidate"]] = line["value"]
    queries = queries_of(read_dataset(dataset), wanted)
    return {one.query: (scores[one.query], {one.images[place] for place in one.targets}) for one in queries}


def test_sets_are_measured_and_the_half_is_that_of_the_seed_for_all_runs(tmp_path: Path) -> None:
    dataset = release(tmp_path / "imagecode")
    files = [
        write_scores(tmp_path / "some.jsonl", dataset, at_random(1)),
        write_scores(tmp_path / "sure.jsonl", dataset, right_on(dataset, lambda _: True)),
    ]
    report = evaluate(dataset, *files, nothing_fits=True, ties="first")
    for file in files:
        known = [one.query for one in queries_of(read_dataset(dataset)) if one.split == "valid" and one.targets]
        check(report, "valid", file.stem, rows_of(dataset, file, known))
    assert figures(report)["sure", "AUROC"] == figures(report)["sure", "selective@50"] == 1.0
    assert figures(report)["sure", "selective@100"] == 0.5
    assert "test/nothing-fits" not in report.tables  # its targets are hidden
    assert evaluate(dataset, *files, nothing_fits=True, ties="first").up_to_date
    alone = [evaluate(dataset, files[0], nothing_fits=True, seed=seed, out=tmp_path / f"{seed}") for seed in range(6)]
    first, again, *others = [(one.results / "nothing-fits" / "valid.txt").read_text() for one in (report, *alone)]
    assert first == again
    assert {*others} != {first}


def test_without_the_option_results_are_what_they_are_without_it(tmp_path: Path) -> None:
    dataset = release(tmp_path / "imagecode")
    file = write_scores(tmp_path / "some.jsonl", dataset, at_random(1))
    plain, asked = (
        evaluate(dataset, file, nothing_fits=nothing, out=tmp_path / str(nothing)) for nothing in (False, True)
    )
    names = {one.name for one in plain.results.rglob("*") if one.is_file()}
    assert {one.name for one in asked.results.rglob("*") if one.is_file()} == names | {"valid.txt"}
    assert (plain.results / "per_query.jsonl").read_bytes() == (asked.results / "per_query.jsonl").read_bytes()
    told = [json.loads((one.results / "figures.json").read_text()) for one in (plain, asked)]
    told[1]["figures"] = [row for row in told[1]["figures"] if row["view"] != "nothing-fits"]
    assert told[0] == told[1]
    assert [open_artifact(one.results).manifest.config["nothing_fits"] for one in (plain, asked)] == [False, True]
    again = evaluate(dataset, file, out=tmp_path / "True")
    assert {one.name for one in again.results.rglob("*") if one.is_file()} == names
    assert (again.results / "figures.json").read_bytes() == (plain.results / "figures.json").read_bytes()


def test_sentences_ask_among_images_that_were_judged(tmp_path: Path) -> None:
    dataset, rng = write_documents(tmp_path / "links" / "documents"), np.random.default_rng(0)
    file, rows = tmp_path / "some.jsonl", dict[str, tuple[dict[str, float], set[str]]]()
    lines = []
    for one in (one for one in documents_of(read_dataset(dataset)) if one.split == "test"):
        for sentence, links in zip(one.sentences, one.links, strict=True):
            scores = {image: round(float(rng.normal()), 1) for image in one.images}
            lines += [{"query": sentence, "candidate": image, "value": value} for image, value in scores.items()]
            if (links == 1).any():
                judged = {
                    name: scores[name] for name, link in zip(one.images, links, strict=True) if not np.isnan(link)
                }
                rows[sentence] = judged, {name for name, link in zip(one.images, links, strict=True) if link == 1}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = evaluate(dataset, file, nothing_fits=True, split="test", workdir=tmp_path)
    check(report, "test", "some", rows)


def test_dialogues_ask_for_their_photos(tmp_path: Path) -> None:
    write_dialogues(tmp_path / "talks", {"test": 21}, seed=0)
    dataset, scores = tmp_path / "talks", at_random(0)
    file = write_scores(
        tmp_path / "some.jsonl", dataset, lambda query, place: round(scores(query, place), 1), ("test",)
    )
    report = evaluate(dataset, file, nothing_fits=True)
    check(report, "test", "some", rows_of(dataset, file, [*read_dataset(dataset).queries]))


def test_of_several_relevant_images_all_are_taken_out(tmp_path: Path) -> None:
    def tied(query: str, place: int) -> float:
        return float((sum(map(ord, query)) * 7 + place * 13) % 5)

    dataset = write_narratives(tmp_path / "traces", gallery=12)
    file = write_scores(tmp_path / "some.jsonl", dataset, tied, ("test",))
    report = evaluate(dataset, file, nothing_fits=True, workdir=tmp_path)
    check(report, "test", "some", rows_of(dataset, file, [one.query for one in queries_of(read_dataset(dataset))]))


def test_captions_of_galleries_ask_for_their_pictures(world: Path, tmp_path: Path) -> None:
    encoder = f"local-dir:{make_folder(tmp_path / 'encoder', 0)}"
    report = evaluate(world, encoder, nothing_fits=True, split="test", workdir=tmp_path / "work", ties="last")
    split, rows = gallery_splits(read_dataset(world))["test"], dict[str, tuple[dict[str, float], set[str]]]()
    for one in read_table(report.results / RANKINGS, QueryRanking):
        if one.asks == "image":
            right = {split.images[image] for caption, image in split.written if split.captions[caption] == one.query}
            rows[one.query] = dict(zip(one.candidates, one.scores, strict=True)), right
    check(report, "test", report.runs[0], rows)


def test_a_problem_that_ranks_nothing_says_so() -> None:
    with pytest.raises(UsageError, match=r"--nothing-fits .* entailment"):
        PairEvaluation(EvalRequest(Eval(nothing_fits=True), SILENT))


@pytest.mark.parametrize(
    ("value", "told"),
    [("NaN", "scores.jsonl:1"), ("1e999", "scores.jsonl:1"), ('"high"', "scores.jsonl:1"), ("0.5", "f/0")],
)
def test_scores_that_do_not_fit_are_refused_by_line(tmp_path: Path, value: str, told: str) -> None:
    dataset = release(tmp_path / "imagecode")
    file = tmp_path / "scores.jsonl"
    file.write_text(f'{{"query": "f/0", "candidate": "x", "value": {value}}}\n')
    line = ["eval", str(file), "--dataset", str(dataset), "--workdir", str(tmp_path), "--nothing-fits"]
    shown = CliRunner().invoke(app, line)
    assert shown.exit_code == 3
    assert told in shown.output.replace("\n", "")
    assert "Traceback" not in shown.output
