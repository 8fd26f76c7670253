"""Figures of `ctxr eval`: they show what figures.json says, in a column of a paper, with equal bytes for equal data."""

import json
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from defusedxml import ElementTree
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT
from ctxr.metrics.compare import Interval
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import measure_splits
from ctxr.problems.drawing import Chart, charts_of, drawn, plot_chart
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.registry import evaluation_of
from ctxr.problems.runs import EPOCHS, HistoryRow
from ctxr.store.artifacts import Content, finish
from ctxr.store.tables import write_table
from tests.pipelines.evaluated import at_random, evaluate, release, right_on, write_scores
from tests.pipelines.world_dataset import write_world_dataset

ENDS = Interval(0.5, 0.4, 0.7)
SVG = "{http://www.w3.org/2000/svg}"


def charts(dataset: Path, *runs: Path | str, **options: Any) -> dict[str, Chart]:
    config = Eval(tuple(map(str, runs)), dataset, dataset.parent / "work", resamples=100, tokenizer="regex", **options)
    evaluation = evaluation_of(EvalRequest(config, SILENT))
    measure_splits(evaluation, config, SILENT)
    return charts_of(evaluation)


def lines_of(chart: Chart) -> list[tuple[list[float], list[float]]]:
    """What is drawn of each row: places and values."""
    bars = [one for one in plot_chart(chart, Figure()).containers if isinstance(one, ErrorbarContainer)]
    return [(list(np.asarray(one.lines[0].get_xdata())), list(np.asarray(one.lines[0].get_ydata()))) for one in bars]


pytestmark = pytest.mark.usefixtures("drawn_figures")


def texts_of(svg: bytes) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A dataset with a crowd."""
    dataset = write_world_dataset(tmp_path / "dataset", sets=12)
    crowd = {"low": 0.6, "high": 0.9, "crowd_low": 0.5, "crowd_high": 0.95}
    accuracy = {"kind": "valid", "basis": "first votes", "value": 0.8, "votes": 8, **crowd, "sets": {"value": None}}
    alpha = {"kind": "video", "level": "nominal", "on": "image ids", "value": 0.7, "low": 0.6, "high": 0.75}
    accuracies = [
        accuracy,
        *({**accuracy, "kind": "video", "basis": basis} for basis in ("all votes", "accepted only")),
    ]
    agreement = [{**alpha, "basis": "all votes"}, {**alpha, "basis": "accepted only", "value": 0.9, "low": None}]
    (dataset / "figures.json").write_text(json.dumps({"accuracy": accuracies, "agreement": agreement}))
    return dataset


def test_charts_hold_the_figures_of_the_evaluation(world: Path, tmp_path: Path) -> None:
    files = [
        write_scores(tmp_path / f"{name}.jsonl", world, at_random(seed), ("train",)) for seed, name in enumerate("ab")
    ]
    found = charts(world, *files, split="train")
    assert set(found) == {"accuracy", "position", "length", "agreement"}
    report = evaluate(world, *files, split="train", resamples=100)
    told = json.loads((report.results / "figures.json").read_text())["figures"]
    for name, view in (("position", "position"), ("length", "length"), ("accuracy", "overall")):
        rows = [one for one in told if (one["view"], one["measure"]) == (view, "accuracy")]
        rows = [one for one in rows if view != "overall" or one["part"] == "all"]
        values = [(one.value, one.low, one.high) for one in found[name].cells.values()]
        assert values == [(one["value"], one["low"], one["high"]) for one in rows]
    dataset = read_dataset(world)
    asked = Counter(place for _, one, place in dataset.targets() if dataset.split_of(one) == "train")
    assert {*found["position"].cells} == {(run, str(place)) for run in "ab" for place in asked}
    assert [row[:2] for row in report.tables["train/position"].rows] == [
        (str(place), asked[place]) for place in sorted(asked)
    ]
    people = found["accuracy"].lines["people (valid, first votes)"]
    assert (people.value, people.low, people.high) == (0.8, 0.5, 0.95)
    assert found["accuracy"].lines["chance"].value == pytest.approx(0.1)
    alphas = {place: one.value for (_, place), one in found["agreement"].cells.items()}
    assert alphas == {"video, all votes": 0.7, "video, accepted only": 0.9}


def test_what_is_drawn_is_what_a_chart_holds() -> None:
    cells = {("a", "0"): ENDS, ("a", "1"): Interval(0.25), ("b", "1"): Interval(1.0, 0.9, 1.0)}
    (_, first), (_, second) = lines_of(Chart("accuracy", cells, "position"))
    assert first == [50.0, 25.0]
    assert np.isnan(second[0])
    assert second[1] == 100.0
    ((values, places),) = lines_of(Chart("alpha", {("", "x"): ENDS, ("", "y"): Interval(0.25)}, scale=1))
    assert (values, places) == ([0.5, 0.25], [0.0, 1.0])
    axes = plot_chart(Chart("alpha", {("", "x"): ENDS}, scale=1), Figure())
    band = plot_chart(Chart("accuracy", {("", "x"): ENDS}, lines={"people": ENDS}), Figure())
    assert [one.get_title("right").partition(":")[0] for one in (axes, band)] == ["bars", "bars and band"]
    (bars,) = (one.lines[2][0] for one in axes.containers if isinstance(one, ErrorbarContainer))
    assert bars.get_segments()[0][:, 0].tolist() == pytest.approx([0.4, 0.7])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["x"]


def test_the_curve_of_a_run_has_the_mean_of_its_seeds(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "work" / "runs" / "tuned"
    write_scores(run / "scores.jsonl", world, right_on(world, lambda name: True), ("valid",))
    rows = [HistoryRow(seed, epoch, 1.0, (seed + epoch) / 10) for seed in (0, 1) for epoch in (1, 2, 3)]
    write_table(run / EPOCHS, [*rows, HistoryRow(1, 4, 1.0, None)])
    content = Content(
        ["scores.jsonl", EPOCHS], {"measure": "accuracy", "judged_on": "valid", "queries": {"valid": 4}}, {}
    )
    finish(run, kind="run", verb="train", config={"variant": "none"}, parents=[], content=content)
    chart = charts(world, "tuned")["learning"]
    assert chart.measure == "accuracy on valid, %"
    found: Any = {epoch: (one.value, one.low, one.high) for (_, epoch), one in chart.cells.items()}
    assert found == {
        str(epoch): pytest.approx((epoch / 10 + 0.05, epoch / 10, epoch / 10 + 0.1)) for epoch in (1, 2, 3)
    }


def test_a_figure_without_data_is_not_written(tmp_path: Path) -> None:
    dataset = release(tmp_path / "imagecode")
    report = evaluate(dataset, write_scores(tmp_path / "a.jsonl", dataset, at_random(0)))
    names = {name for name in report.files if name.startswith("figures/")}
    assert {name.removesuffix(".svg") for name in names if name.endswith(".svg")} == {
        "figures/accuracy", "figures/position", "figures/length", "figures/agreement"
    }  # fmt: skip
    assert {Path(name).stem for name in names if name.endswith(".pdf")} == {Path(name).stem for name in names}
    assert all((report.results / name).is_file() for name in names)
    assert "people (valid)" in texts_of((report.results / "figures/accuracy.svg").read_bytes())


def test_figures_fit_a_column_and_keep_their_fonts() -> None:
    files = drawn({"one": Chart("accuracy on test, %", {("", "a run"): ENDS}, lines={"chance": Interval(0.1)})})
    width = float(re.fullmatch(r"([\d.]+)pt", ElementTree.fromstring(files["figures/one.svg"]).attrib["width"])[1])  # type: ignore[index]
    assert width / 72 * 2.54 == pytest.approx(8)
    assert {"a run", "accuracy on test, %", "chance", "bars: 95 % bootstrap intervals"} <= set(
        texts_of(files["figures/one.svg"])
    )
    pdf = files["figures/one.pdf"]
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", pdf)
    assert box
    assert float(box[1]) / 72 * 2.54 == pytest.approx(8)
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf
    assert b"CreationDate" not in pdf


def test_six_rows_differ_in_colour_marker_and_dashes_each_by_itself() -> None:
    cells = {(f"run{number}", place): ENDS for number in range(8) for place in "01"}
    axes = plot_chart(Chart("accuracy", cells, "position"), figure := Figure())
    lines = [one.lines[0] for one in axes.containers if isinstance(one, ErrorbarContainer)]
    assert len({line.get_color() for line in lines}) == 6
    assert len({line.get_marker() for line in lines}) == 6
    assert len({str(line._dash_pattern) for line in lines}) == 6  # type: ignore[attr-defined]
    assert figure.legends[0].get_title().get_text().split()[-1] == "8"


def test_names_of_any_kind_are_drawn_as_they_are(recwarn: pytest.WarningsRecorder) -> None:
    names = ["$\\foo$", "_hidden", "a" * 200, "<b>&amp;", "日本", "line\nbreak\x00", "", "%s {0}", "]]>", "\\textbf{x}"]
    rows = {
        "across": {(name, place): ENDS for name in names for place in names},
        "": {("", name): ENDS for name in names},
    }
    files = drawn({kind or "below": Chart("accuracy", cells, kind) for kind, cells in rows.items()})
    told = texts_of(files["figures/below.svg"])
    assert {"$\\foo$", " _hidden", "<b>&amp;", "日本", "line?break?", "%s {0}", "]]>", "\\textbf{x}"} <= set(told) | {
        text.strip() for text in told
    }
    assert max(map(len, told)) < 40
    assert not list(recwarn)


SCRIPT = """
import hashlib
from ctxr.metrics.compare import Interval
from ctxr.problems.drawing import Chart, drawn
cells = {(run, place): Interval(0.5, 0.4, 0.7) for run in "abc" for place in "0123"}
files = drawn({"one": Chart("accuracy, %", cells, "position", {"chance": Interval(0.1)}), "two": Chart("alpha", cells)})
print(*(hashlib.sha256(content).hexdigest() for content in files.values()))
"""


def test_equal_data_give_equal_bytes_whatever_the_process_and_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "matplotlibrc"
    settings.write_text("font.size: 20\nlines.linewidth: 5\nsavefig.dpi: 30\nsavefig.bbox: tight\ntext.usetex: True\n")
    told = set()
    for seed, rc in (("1", None), ("2", settings)):
        given = {"PYTHONHASHSEED": seed, "PATH": "", "HOME": str(tmp_path / seed), "PYTHONPATH": ":".join(sys.path)}
        given |= {"MATPLOTLIBRC": str(rc)} if rc else {}
        told.add(subprocess.run([sys.executable, "-c", SCRIPT], env=given, capture_output=True, check=True).stdout)
    assert len(told) == 1


def test_the_settings_of_the_user_are_left_alone() -> None:
    with mpl.rc_context({"font.size": 17.0}), warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn({"one": Chart("accuracy", {("", "a"): ENDS})})
        assert mpl.rcParams["font.size"] == 17.0
