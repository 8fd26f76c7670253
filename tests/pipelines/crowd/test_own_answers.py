"""Tasks of one's own, from the file to the table in the dataset."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ctxr
from ctxr.annotation.artifacts import AggregatedAnswers, read_judgments
from ctxr.annotation.records import Answer
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.metrics.agreement import NO_PAIR, NO_VARIATION, alpha, masi_alpha
from ctxr.metrics.votes import gather
from ctxr.pipelines.crowd.own_answers import OwnResults, own_results
from ctxr.store.records import FieldAnswer
from ctxr.store.tables import read_table
from tests.annotation.crowd_units import EVERY_KIND, OWN_ANSWER, TEN, unit
from tests.annotation.platforms import study
from tests.exports import export

ONE = unit(
    "own", id="own-1", image_set="s", images=TEN, target=TEN[3], query="own/q/1", asked=EVERY_KIND, needed=3, most=3
)
TWO = unit("own", id="own-2", image_set="s", images=TEN[:3], asked=EVERY_KIND, needed=3, most=3)


def answered(**said: dict[str, tuple[str, ...]]) -> AggregatedAnswers:
    """Answers by worker, to the second unit where the name ends so."""
    answers = [
        Answer(
            (TWO if name.endswith("2") else ONE).id, f"w-{name[:3]}", {**OWN_ANSWER, "shown": ()} | values, TEN, 0,
            f"2026-01-02T03:04:{place:02d}Z", 9.0, "local",
        )
        for place, (name, values) in enumerate(said.items())
    ]  # fmt: skip
    return AggregatedAnswers(Path(), {ONE.id: ONE, TWO.id: TWO}, answers=tuple(answers))


def by_field(results: OwnResults, name: str = ONE.id) -> dict[str, FieldAnswer]:
    return {row.field: row for row in results.answers if row.unit == name}


def test_each_kind_of_field_comes_to_an_answer_with_its_spread() -> None:
    results = own_results(
        answered(
            ada={"good": ("0",), "spot": ("0.1000,0.1000",), "shown": TEN},
            ben={"good": ("3",), "look": ("a",), "many": ("a",), "spot": ("0.2000,0.9000",), "why": ("first",)},
            cat={"good": ("1",), "rank": ("a", "b", "c"), "area": ("0.0000,0.0000,0.5000,0.5000",)},
        ),
        (), 10, 0,
    )  # fmt: skip
    found = by_field(results)
    assert {name: row.answer for name, row in found.items()} == {
        "look": ("b",),
        "many": ("a", "c"),
        "good": ("1",),
        "spot": ("0.2000,0.9000",),
        "area": ("0.3333,0.0000,0.6667,1.0000",),
        "rank": ("a", "c", "b"),  # a and c are tied: as in the file
        "shown": TEN,
        "why": ("it sits", "first", "it sits"),
    }
    assert (found["good"].mean, found["good"].spread, found["look"].spread) == (1.3333, 1.0, 0.3333)
    assert (found["why"].spread, found["shown"].votes, found["look"].votes) == (None, 1, 3)
    assert (found["look"].query, found["look"].image, found["look"].image_set) == ("q/1", None, "s")
    assert all("w-" not in str(row) for row in results.answers)


def test_a_tie_is_no_answer_and_neither_are_reports_second_looks_and_who_is_blocked() -> None:
    given = answered(ada={"look": ("a",)}, ben={"look": ("b",)}, cat={"look": ("a",)})
    assert by_field(own_results(given, (), 10, 0))["look"].answer == ("a",)
    tied = by_field(own_results(given, ("w-cat",), 10, 0))["look"]
    assert (tied.answer, tied.spread, tied.votes) == ((), None, 2)
    told = [Answer(ONE.id, "w-dan", {"problem": ("cannot_tell",)}, TEN, 0, "2026-01-02T03:05:00Z", 9.0, "local")]
    with_report = replace(given, answers=(*given.answers, *told))
    assert own_results(with_report, (), 10, 0) == own_results(given, (), 10, 0)
    again = unit("repeat", id="again", like="own", of=ONE.id, round=1, asked=EVERY_KIND)
    second = Answer("again", "w-eve", {**OWN_ANSWER}, TEN, 0, "2026-01-02T03:05:00Z", 9.0, "local")
    looked = replace(given, units={**given.units, "again": again}, answers=(*given.answers, second))
    assert own_results(looked, (), 10, 0) == own_results(given, (), 10, 0)


def test_alpha_goes_by_the_kind_of_field() -> None:
    results = own_results(
        answered(
            ada={"look": ("a",), "good": ("-1",), "many": ("a",)},
            ben={"look": ("a",), "good": ("3",), "many": ("a", "b")},
            ada2={"look": ("b",), "good": ("2",), "many": ("c",)},
            ben2={"look": ("c",), "good": ("2",), "many": ("c",)},
        ),
        (), 0, 0,
    )  # fmt: skip
    units, workers = ["1", "1", "2", "2"], ["a", "b", "a", "b"]
    rows = {row["field"]: row for row in results.figures["own"]}
    assert rows["look"]["value"] == pytest.approx(alpha(gather(units, workers, [*"aabc"])).value)
    assert rows["good"]["value"] == pytest.approx(alpha(gather(units, workers, [-1, 3, 2, 2]), "ordinal").value)
    assert rows["many"]["value"] == pytest.approx(masi_alpha(units, workers, [["a"], ["a", "b"], ["c"], ["c"]]).value)
    assert [rows[name]["reason"] for name in ("spot", "shown", "why")] == [NO_VARIATION, NO_PAIR, "–"]
    table = results.tables["own"]
    assert [row[1] for row in table.rows] == [field.name for field in EVERY_KIND.fields]


@pytest.mark.parametrize("about", ["image", "set", "query"])
def test_a_study_with_a_file_goes_the_whole_way(about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = study.make_project(tmp_path, monkeypatch)
    before = read_dataset(work / "dataset")
    done = study.work_locally(work, study.own_file(work, about))
    report = ctxr.aggregate(workdir=work, resamples=20, out=work / "aggregated")
    assert report.holds
    rows = read_table(work / "aggregated" / "own.jsonl", FieldAnswer)
    fields = {row.field for row in rows}
    assert {row.unit for row in rows} == {one.unit.id for one in done}
    assert len(rows) == len(fields) * len({one.unit.id for one in done})
    assert all(row.votes == 3 for row in rows)
    dataset = read_dataset(work / "aggregated")
    subjects = {
        "image": {image for one in before.sets for image in one.images},
        "query": {row.id for row in before.queries.values() if row.labels is None},
        "set": {None},
    }
    assert {row.query if about == "query" else row.image for row in rows} == subjects[about]
    assert len(dataset.payloads["own"]) == len(rows)
    assert {one.id for one in dataset.sets} == {row.image_set for row in rows}
    assert "own" in report.tables
    people = {study.person(one.identity) for one in done}
    out = export(work / "aggregated", work / "out", "webdataset").export
    assert read_table(out / "tables" / "own.jsonl", FieldAnswer) == rows
    files = [file for folder in (out, work / "aggregated") for file in folder.rglob("own.jsonl")]
    assert not [name for file in files for name in people if name in file.read_text(encoding="utf-8")]
    # the command line says what it has come to, and a worker who is blocked counts no more
    blocked = done[0].identity
    runner = CliRunner()
    for words in (["status"], ["workers", "--block", study.person(blocked), "--reason", "x"]):
        ran = runner.invoke(app, [*words, "--workdir", str(work)])
        assert ran.exit_code == 0, ran.output
    ctxr.aggregate(workdir=work, resamples=20, out=work / "aggregated")
    fewer = read_table(work / "aggregated" / "own.jsonl", FieldAnswer)
    answers = read_judgments(work / "judgments").answers
    without = sum(one.worker != study.person(blocked) for one in answers)
    assert sum(row.votes for row in fewer) == without * len(fields)
    # and of whom withdraws nothing is left
    left = study.person(done[-1].identity)
    texts = [text[2:50] for one in answers if one.worker == left for text in one.values["why"]]
    files = [file for name in ("aggregated", "judgments") for file in (work / name).rglob("*.jsonl")]
    assert texts[0] in "".join(file.read_text(encoding="utf-8") for file in files)
    ctxr.workers(workdir=work, withdraw=left)
    ctxr.aggregate(workdir=work, resamples=20, out=work / "aggregated")
    found = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    assert left not in found
    assert not [text for text in texts if text in found]


def test_a_file_is_exported_by_the_command_line_and_again_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = study.make_project(tmp_path, monkeypatch)
    file = study.own_file(work, "image")
    words = ["export-tasks", file, "--input", str(work / "dataset"), "--workdir", str(work), "--json"]
    ran = [CliRunner().invoke(app, words) for _ in range(2)]
    assert [one.exit_code for one in ran] == [0, 0], ran[0].output
    reports = [json.loads(one.stdout) for one in ran]
    assert [report["up_to_date"] for report in reports] == [False, True]
    assert Path(reports[0]["tasks"]).name == "own-image"
    assert reports[0]["votes"] == 3 * reports[0]["units"]
    Path(file).write_text(Path(file).read_text().replace("votes = 3", "votes = 5"))
    again = json.loads(CliRunner().invoke(app, words).stdout)
    assert (again["up_to_date"], again["votes"]) == (False, 5 * again["units"])
    assert json.loads(CliRunner().invoke(app, [*words, "--votes", "2"]).stdout)["votes"] == 2 * again["units"]
    wrong = CliRunner().invoke(app, ["export-tasks", str(tmp_path / "tag.toml"), "--workdir", str(work)])
    assert (wrong.exit_code, "tag.toml" in wrong.output) == (2, True)
