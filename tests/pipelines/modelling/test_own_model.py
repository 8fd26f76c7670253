"""`ctxr eval` of an own model: a function, or its scores in a file."""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.cli import views
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.engine.report import Table
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.pipelines.modelling.eval import run
from ctxr.problems.own_model import write_model_template
from ctxr.problems.queries import queries_of
from ctxr.store.artifacts import open_artifact
from tests.pipelines.evaluated import write_scores
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import write_release

CALLED = """
from pathlib import Path

def score(texts, pictures):
    with Path("calls").open("a") as stream:
        stream.write("x")
    return [[{value} * place for place in range(len(pictures))] for _ in texts]
"""


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a dataset in work/."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_world_dataset(tmp_path / "work" / "dataset")
    return tmp_path


def evaluate(*model: str, runs: tuple[str, ...] = (), **options: Any) -> EvalReport:
    return run(Eval(model=model, runs=runs, resamples=50, permutations=50, tokenizer="regex", **options))


def calls() -> int:
    return len(Path("calls").read_text())


def test_the_template_is_evaluated_in_one_try(project: Path) -> None:
    write_model_template(Path("first_try.py"))
    typed = CliRunner().invoke(app, ["eval", "--model", "first_try:score", "--json", "--resamples", "50"])
    assert (typed.exit_code, json.loads(typed.stdout)["runs"]) == (0, ["first_try-score"])
    with pytest.raises(UsageError, match=r"first_try\.py"):
        write_model_template(Path("first_try.py"))


@pytest.mark.parametrize(
    ("document", "above"), [("README.md", "## Your own model"), ("docs/own-model.md", "# Your own model")]
)
def test_the_example_of_a_model_runs_as_it_stands(
    document: str, above: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "my_model", raising=False)  # that of the other document
    section = (ROOT / document).read_text(encoding="utf-8").partition(above)[2].partition("\n## Search")[0]
    Path("my_model.py").write_text(section.partition("```python")[2].partition("```")[0])
    write_scores(Path("scores.jsonl"), Path("work/dataset"), lambda _query, place: float(place), ("valid",))
    rows = [json.loads(line).values() for line in Path("scores.jsonl").read_text().splitlines()]
    Path("scores.csv").write_text("\n".join(["query,candidate,value", *(",".join(map(str, row)) for row in rows)]))
    commands = re.findall(r"^    ctxr (eval .*?) +#", section, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        typed = CliRunner().invoke(app, [*command.split(), "--json", "--resamples", "50", "--permutations", "50"])
        assert typed.exit_code == 0


def test_scores_are_kept_as_a_run_until_the_file_of_the_model_changes(project: Path) -> None:
    Path("mine_a.py").write_text(CALLED.format(value=1))
    first = evaluate("mine_a:score")
    sets = {one.image_set for one in queries_of(read_dataset(Path("work/dataset"))) if one.split == "valid"}
    assert (calls(), first.up_to_date, evaluate("mine_a:score").up_to_date, calls()) == (
        len(sets),
        False,
        True,
        len(sets),
    )
    compared = evaluate("mine_a:score", runs=("ctxr-tiny",), compare=True)
    assert (compared.runs, calls()) == (("ctxr-tiny", "mine_a-score"), len(sets))
    assert evaluate(runs=("mine_a-score",)).up_to_date
    Path("mine_a.py").write_text(CALLED.format(value=-1.5))
    assert not evaluate("mine_a:score").up_to_date
    assert calls() == 2 * len(sets)
    assert '"value":-13.5' in Path("work/runs/mine_a-score/scores.jsonl").read_text()
    assert open_artifact(Path("work/runs/mine_a-score")).manifest.counts["queries"] == {"valid": 3}


def test_a_split_may_be_named_and_a_run_of_another_command_is_not_written_over(project: Path) -> None:
    Path("mine_b.py").write_text(CALLED.format(value=1))
    assert "train/accuracy" in evaluate("mine_b:score", split="train", name="mine").tables
    (project / "work" / "runs" / "mine" / "manifest.json").write_text(
        (project / "work" / "runs" / "mine" / "manifest.json").read_text().replace('"verb": "eval"', '"verb": "train"')
    )
    with pytest.raises(UsageError, match="mine"):
        evaluate("mine_b:score", name="mine")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("mine_c", "mine_c names"),
        ("mine_c.py:score", r"mine_c\.py:score: ModuleNotFoundError"),
        ("", "names"),
        ("number_c:score", "score is not"),
        ("exits_c:score", "SystemExit"),
        ("statistics:score", "called statistics"),
        ("msgspec:score", "called msgspec"),
        ("nowhere_c:score", "nowhere_c"),
        ("mine_c:other", "other"),
        ("broken_c:score", r"ValueError: told .*broken_c\.py:2"),
        ("wrong_c:score", r"SyntaxError: .*wrong_c\.py, line 1"),
    ],
)
def test_what_is_no_model_is_told(project: Path, model: str, told: str) -> None:
    Path("mine_c.py").write_text(CALLED.format(value=1))
    Path("broken_c.py").write_text("\nraise ValueError('told')\n")
    Path("wrong_c.py").write_text("def score(:\n")
    Path("number_c.py").write_text("score = 1\n")
    Path("exits_c.py").write_text("import sys\n\nsys.exit(1)\n")
    for library in ("statistics", "msgspec"):
        Path(f"{library}.py").write_text("def score(texts, pictures): ...\n")
    with pytest.raises(UsageError, match=told) as caught:
        evaluate(model)
    assert "my_model" in caught.value.hint


@pytest.mark.parametrize(
    ("model", "hint"),
    [("mine_d.py:score", "leave out .py"), ("mine_d:scor", "mean --model mine_d:score?"), ("mine_d:x", "has score")],
)
def test_a_misspelt_model_gets_a_hint(project: Path, model: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mine_d", raising=False)  # that of another folder
    Path("mine_d.py").write_text(CALLED.format(value=1))
    with pytest.raises(UsageError) as caught:
        evaluate(model)
    assert hint in caught.value.hint


@pytest.mark.parametrize(("given", "hint"), [("mine_e.py", "--model mine_e:score"), ("ctxr-tinny", "mean ctxr-tiny?")])
def test_a_misspelt_run_gets_a_hint(project: Path, given: str, hint: str) -> None:
    Path("mine_e.py").write_text(CALLED.format(value=1))
    with pytest.raises(UsageError) as caught:
        evaluate(runs=(given,))
    assert hint in caught.value.hint


def test_a_csv_without_its_head_is_told(project: Path) -> None:
    for content, told in (
        (b"q,c,0.5\n", "must be query,candidate,value"),
        (b"query,candidate,value\nq,c,x\n", r"a\.csv:2: .*value"),
    ):
        Path("a.csv").write_bytes(content)
        with pytest.raises(DataError, match=told) as caught:
            evaluate(runs=("a.csv",))
        assert "query,candidate,value" in caught.value.hint
        assert "{" not in caught.value.hint


def scored(project: Path, suffix: str) -> Path:
    """The same scores of valid in each form."""
    queries = [one for one in queries_of(read_dataset(Path("work/dataset"))) if one.split == "valid"]
    values = np.random.default_rng(0).random((len(queries), 10)).round(6)
    rows = {one.query: row for one, row in zip(queries, values.tolist(), strict=True)}
    file = write_scores(Path("mine.jsonl"), Path("work/dataset"), lambda query, place: rows[query][place], ("valid",))
    if suffix == ".npy":
        np.save("mine.npy", values)
    if suffix == ".csv":
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        with Path("mine.csv").open("w", encoding="utf-8-sig", newline="") as stream:
            writer = csv.DictWriter(stream, ["value", "query", "candidate"])
            writer.writeheader()
            writer.writerows(lines)
    return file.with_suffix(suffix)


def test_score_files_of_every_form_give_the_same_figures(project: Path) -> None:
    tables = [evaluate(runs=(str(scored(project, form)),)).tables for form in (".jsonl", ".csv", ".npy")]
    assert tables[0] == tables[1] == tables[2]


class Told(Silent):
    """Keeps notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_an_array_says_which_split_its_rows_are_taken_for(project: Path) -> None:
    told = Told()
    run(Eval(runs=(str(scored(project, ".npy")),), resamples=50, tokenizer="regex"), told)
    assert [note for note in told.notes if note.startswith("mine.npy: ") and note.endswith("queries of valid")]


def test_results_of_another_release_are_not_replaced_without_a_word(project: Path) -> None:
    for name, text in (("one", "A car."), ("two", "A bus.")):
        write_release(project / name, valid={"set-shot0_0": {"0": text}})
    write_scores(Path("same.jsonl"), Path("one"), lambda _query, place: float(place), ("valid",))
    told = Told()
    for name in ("one", "one", "two", "two"):
        run(Eval(runs=("same.jsonl",), dataset=Path(name), resamples=50, tokenizer="regex"), told)
    assert [note.partition("(")[2][:7] for note in told.notes if "replacing" in note] == ["dataset"]


def test_two_models_are_compared_below_the_summary(project: Path) -> None:
    scored(project, ".jsonl")
    args = ["eval", "mine.jsonl", "ctxr-tiny", "--resamples", "50", "--permutations", "50"]
    plain, compared = (CliRunner().invoke(app, [*args, *more]).stdout for more in ([], ["--compare"]))
    assert "differences" not in plain
    (table,) = [
        one
        for one in views.evaluation(evaluate(runs=("mine.jsonl", "ctxr-tiny"), compare=True))
        if getattr(one, "title", "") == "valid: differences"
    ]
    assert isinstance(table, Table)
    assert table.columns == ("run", "against", "difference", "Holm")
    assert [row[:2] for row in table.rows] == [("ctxr-tiny", "mine")]
    assert "valid: differences" in compared


def test_an_array_may_have_every_query_of_the_dataset(project: Path) -> None:
    every = queries_of(read_dataset(Path("work/dataset")))
    np.save("all.npy", [[float(place in one.targets) for place in range(10)] for one in every])
    tables = evaluate(runs=("all.npy",)).tables
    assert tables["valid/accuracy"].rows[0][1].startswith("100.0")
    assert "train/accuracy" in tables


@pytest.mark.parametrize(
    ("name", "content", "error", "told"),
    [
        ("a.csv", b"query,candidate,value\nq,c,x\n", DataError, r"a\.csv:2: .*value"),
        ("a.csv", b"query,candidate,value\nq,c,nan\n", DataError, r"a\.csv:2: nan"),
        ("a.csv", b"query,image,value\nq,c,1\n", DataError, r"a\.csv:2: .*image"),
        ("a.csv", b"query,candidate,value\nq,c,1,2\n", DataError, r"a\.csv:2: "),
        ("a.csv", b"query,candidate,value\n\xff,c,1\n", DataError, r"a\.csv:"),
        ("a.csv", b"", DataError, r"a\.csv"),
        ("a.npy", b"no array", DataError, r"a\.npy"),
        ("a.npy", np.zeros((3, 9)), UsageError, r"a\.npy: .*\(3, 9\).*\(3 texts, 10 pictures\)"),
        ("a.npy", np.zeros((5, 10)), UsageError, r"a\.npy: .*\(5, 10\).*\(\d+ texts, 10 pictures\)"),
        ("a.npy", np.full((3, 10), np.inf), UsageError, r"a\.npy: .*inf"),
        ("a.npy", np.array([["x"]]), UsageError, r"a\.npy: .*'x'"),
        ("a.npy", np.array([[{}]], object), DataError, r"a\.npy.*allow_pickle"),
    ],
)
def test_broken_score_files_are_told(project: Path, name: str, content: Any, error: type[Exception], told: str) -> None:
    if isinstance(content, bytes):
        Path(name).write_bytes(content)
    else:
        np.save(name, content)
    with pytest.raises(error, match=told):
        evaluate(runs=(name,))
