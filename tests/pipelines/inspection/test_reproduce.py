"""`ctxr reproduce`: verdicts on small releases and evaluations, what it refuses, its page, and the releases that were published."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from typer.testing import CliRunner

import ctxr
from ctxr.cli.app import app
from ctxr.errors import CtxrError, DataError, FindingsError, UsageError
from ctxr.pipelines.inspection import reproduce
from ctxr.pipelines.inspection.config import PAPERS, CellResult, Found, Reproduce
from ctxr.pipelines.inspection.reproduce import run
from tests.datasets.readers.test_photochat import put, row
from tests.pipelines.opened import Open
from tests.releases import TEST, TRAIN, VALID, draw_sets, write_release

SETS = [*TRAIN, *VALID, *TEST]
TABLE = """
[imagecode]
title = "A paper"
release = "its release"

[imagecode.cells]
sets = { at = "Table 1", figure = "sets", value = 4, measure = "sets", whole = 4 }
texts = { at = "Table 1", figure = "texts", value = 9, measure = "descriptions", whole = 4 }
train = { at = "Table 1", figure = "texts of train", value = 3, measure = "descriptions", of = { split = "train" }, whole = 2 }
twice = { at = "text", figure = "both", value = 6.5, within = 0.05, arithmetic = { per = ["sets", "texts", 2] } }
wrong = { at = "text", figure = "sets", value = 5, arithmetic = { same = ["sets"] }, doubtful = "Table 1 prints 4" }
asked = { at = "Table 2", figure = "votes", value = 0.9, within = 0.05, needs = ["votes of people"] }

[imagecode.cells.zero]
at = "Table 3"
figure = "accuracy"
value = 50.0
unit = "%"
within = 0.05
sample = 2
run = "ctxr-tiny"
weights = "ctxr-tiny"
split = "valid"
whole = 2
needs = ["the pictures"]

[imagecode.cells.tuned]
at = "Table 3"
figure = "accuracy"
value = 50.0
unit = "%"
within = 0.05
sample = 2
run = "clip-none"
weights = "ctxr-tiny"
split = "valid"
whole = 2
needs = ["the pictures"]

[imagecode.cells.other]
at = "Table 3"
figure = "accuracy"
value = 50.0
unit = "%"
within = 0.05
sample = 2
run = "clip-none"
weights = "ViT-B-16:openai"
split = "valid"
whole = 2
needs = ["the weights"]
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table of figures in place of the published ones."""
    file = tmp_path / "table.toml"
    file.write_text(TABLE)
    monkeypatch.setattr(reproduce, "TABLE", file)


def verdicts(tmp_path: Path, data: str = "data") -> dict[str, CellResult]:
    report = run(Reproduce(("imagecode",), tmp_path / data if data else None, tmp_path / "work"))
    return {cell.name: cell for cell in report.cells}


def test_each_cell_gets_its_verdict_from_data_arithmetic_or_what_is_lacking(table: None, tmp_path: Path) -> None:
    write_release(tmp_path / "data" / "imagecode")
    found = verdicts(tmp_path)
    texts = sum(len(own) for sets in (TRAIN, VALID, TEST) for own in sets.values())
    assert {name: (cell.state, cell.found and cell.found.value) for name, cell in found.items()} == {
        "sets": ("reproduced", 4), "texts": ("off", texts), "train": ("reproduced", 3), "twice": ("reproduced", 6.5),
        "wrong": ("off", 4), "asked": ("needs", None), "zero": ("needs", None), "tuned": ("needs", None), "other": ("needs", None),
    }  # fmt: skip
    assert [one.found.by for one in found.values() if one.found] == ["data", "data", "data", "arithmetic", "arithmetic"]
    report = run(Reproduce(("imagecode",), tmp_path / "data", tmp_path / "work"))
    assert report.up_to_date
    assert isinstance(report.finding, FindingsError)
    assert "imagecode texts" in str(report.finding)
    assert "wrong" not in str(report.finding)


def test_without_data_only_arithmetic_runs(table: None, tmp_path: Path) -> None:
    found = verdicts(tmp_path, "")
    assert {name for name, cell in found.items() if cell.state != "needs"} == {"twice", "wrong"}
    assert found["sets"].needs == ("its release",)
    assert run(Reproduce(("imagecode",), None, tmp_path / "work")).finding is None


def test_a_part_of_a_release_is_shown_and_settles_nothing(table: None, tmp_path: Path) -> None:
    write_release(tmp_path / "data", test=None)
    found = verdicts(tmp_path)
    assert (found["sets"].state, found["sets"].found) == ("needs", Found(3, 3, where="data"))
    assert "3 of 4" in found["sets"].verdict
    assert found["train"].state == "reproduced"
    # the largest part counts, and a complete one before a larger one
    write_release(tmp_path / "more" / "a", test=None)
    write_release(tmp_path / "more" / "b")
    further = {"MSR-VTT-videoTest_video8-shot0_0": {"1": "A hat."}}
    write_release(tmp_path / "more" / "c", valid=VALID | further)
    assert verdicts(tmp_path, "more")["sets"].found == Found(4, 4, where="b")
    shutil.rmtree(tmp_path / "more" / "b")
    assert verdicts(tmp_path, "more")["sets"].state == "off"


def test_evaluations_of_the_project_count_with_their_weights_and_release(table: None, tmp_path: Path) -> None:
    draw_sets(write_release(tmp_path / "data"), SETS)
    work, release = tmp_path / "work", tmp_path / "data"
    with pytest.warns(ctxr.CtxrWarning):
        ctxr.train(recipe="clip-none", dataset=release, workdir=work, set=["encoder=ctxr-tiny", "epochs=1", "batch=2"])
    for name in ("ctxr-tiny", "clip-none"):
        ctxr.eval([name], dataset=release, workdir=work, split="valid", resamples=50)
    found = verdicts(tmp_path)
    for name, run_name in (("zero", "ctxr-tiny"), ("tuned", "clip-none")):
        cell = found[name]
        figures = json.loads((work / "results" / run_name / "figures.json").read_text())["figures"]
        (accuracy,) = [
            one["value"]
            for one in figures
            if (one["view"], one["part"], one["measure"]) == ("overall", "all", "accuracy")
        ]
        assert cell.found
        assert (cell.found.value, cell.found.by) == (100 * accuracy, "evaluation")
        assert cell.found.where == f"results/{run_name}"
        assert cell.state == "reproduced"  # two queries: everything lies within the sampling of 50 %
    assert found["other"].state == "needs"
    # another release is not what was evaluated
    write_release(tmp_path / "elsewhere", train=None)
    assert verdicts(tmp_path, "elsewhere")["zero"].state == "needs"


def test_evaluations_of_dialogues_are_found_by_the_names_of_published_measures(tmp_path: Path) -> None:
    rows = [row(number, f"p{number}", labels="Dog" if number else "Man") for number in range(12)]
    for split in ("train", "dev", "test"):
        put(tmp_path / "data", f"{split}/{split}.json", rows)
    release, work = tmp_path / "data", tmp_path / "work"
    with pytest.warns(ctxr.CtxrWarning):
        ctxr.train(recipe="dialogue-bm25", dataset=release, workdir=work)
    ctxr.eval(["dialogue-bm25"], dataset=release, workdir=work, recall="1,5,10", resamples=50)
    cells = {one.name: one for one in run(Reproduce(("photochat",), release, work)).cells}
    for name in ("bm25-r1", "bm25-r5", "bm25-r10"):
        found = cells[name].found
        assert (found and (found.by, found.items), cells[name].state) == (("evaluation", 12), "needs"), name


@pytest.mark.parametrize(
    ("papers", "content", "error", "named"),
    [
        (("imagcode",), VALID, UsageError, "imagcode"),
        (("imagecode",), None, UsageError, "data"),
        (("what-where",), VALID, UsageError, "data"),
        (("imagecode",), '{"MSR-VTT-a-shot0_0": {"0"', DataError, r"valid_data\.json"),
        (("imagecode",), {"MSR-VTT-a-shot0_0": {"12": "A hat."}}, DataError, "12"),
    ],
)
def test_bad_input_is_one_sentence_with_a_hint(
    papers: tuple[str, ...], content: object, error: type[CtxrError], named: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "data" / "valid_data.json").write_text(text)
    with pytest.raises(error, match=named) as raised:
        run(Reproduce(papers, tmp_path / "data", tmp_path / "work"))
    assert raised.value.hint


def test_a_paper_is_suggested_and_a_folder_must_exist(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["reproduce", "photchat", "-w", str(tmp_path)])
    assert (shown.exit_code, "photochat" in shown.output) == (2, True)
    shown = CliRunner().invoke(app, ["reproduce", "--data", str(tmp_path / "none"), "-w", str(tmp_path)])
    assert (shown.exit_code, "none" in shown.output) == (2, True)


def test_a_cell_that_is_off_exits_with_5_unless_the_print_contradicts_itself(table: None, tmp_path: Path) -> None:
    write_release(tmp_path / "data")
    line = ["reproduce", "imagecode", "-w", str(tmp_path / "work"), "--json"]
    shown = CliRunner().invoke(app, line)
    assert (shown.exit_code, json.loads(shown.stdout)["counts"]["off"]) == (0, 1)
    shown = CliRunner().invoke(app, [*line, "--data", str(tmp_path / "data")])
    assert shown.exit_code == 5
    assert Counter(cell["state"] for cell in json.loads(shown.stdout)["cells"]) == {
        "needs": 4,
        "reproduced": 3,
        "off": 2,
    }
    shown = CliRunner().invoke(app, [*line[:-1], "--data", str(tmp_path / "data")])
    assert shown.exit_code == 5
    assert "off by -2" in shown.output
    assert "votes of people" in shown.output


def test_the_page_is_accessible_in_both_themes_and_fits_a_phone(show: Open, tmp_path: Path) -> None:
    write_release(tmp_path / "data")
    report = run(Reproduce((), tmp_path / "data", tmp_path / "work"))
    for theme, width in (("dark", 1280), ("light", 390)):
        opened = show(report.folder / "cells.html", theme, width)
        assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.tab.locator(".wall a").count() == len(report.cells)
        found = Axe(AXE_SCRIPT).run(opened.tab)
        assert found.violations_count == 0, found.generate_report()
        cell = next(one for one in report.cells if one.state == "off")
        opened.tab.locator(f'.wall a[href="#{cell.paper}-{cell.name}"]').click()
        assert opened.tab.locator("tr:target").inner_text().count(cell.cell.shown(cell.cell.value))


def test_equal_runs_write_equal_bytes(tmp_path: Path) -> None:
    pages = [run(Reproduce((), None, tmp_path / name)).folder for name in ("one", "two")]
    for name in ("cells.json", "cells.html", "manifest.json"):
        assert len({(page / name).read_bytes() for page in pages}) == 1


def test_figures_of_published_files_are_reproduced(real_files: Path, tmp_path: Path) -> None:
    needed = ("imagecode/valid_data.json", "imagecode/annotator_split_valid.json", "photochat/dev.json")
    if not all((real_files / name).is_file() for name in needed):
        pytest.skip(f"no real files of ImageCoDe and PhotoChat in {real_files}: set CTXR_REAL_DATA")
    report = run(Reproduce((), real_files, tmp_path / "work"))
    cells = {(cell.paper, cell.name): cell for cell in report.cells}
    assert report.finding is None
    assert report.counts["reproduced from data"] + report.counts["reproduced by arithmetic"] >= 30
    assert {cell.paper for cell in report.cells if cell.state == "reproduced"} == {*PAPERS}
    valid = json.loads((real_files / "imagecode" / "valid_data.json").read_text())
    writers = json.loads((real_files / "imagecode" / "annotator_split_valid.json").read_text())
    written = Counter(writer for own in writers.values() for writer in own.values())
    dev = json.loads((real_files / "photochat" / "dev.json").read_text())
    people = {"Woman", "Man", "Girl", "Boy", "Human body", "Face"}
    about = [next(part[2] for part in parts if part[0] == "img") for parts in dev.values()]
    labels = [{*one.rpartition("photo:")[2].replace(", ", ",").strip().split(",")} for one in about]
    counted = {
        ("imagecode", "descriptions-valid"): sum(map(len, valid.values())),
        ("imagecode", "seen-writers"): written["train_worker"],
        ("imagecode", "unseen-writers"): written["unseen_worker"],
        ("photochat", "dialogues-dev"): len(dev),
        ("photochat", "people-dev"): sum(bool(own & people) for own in labels),
        ("photochat", "animals-dev"): sum("Animal" in own for own in labels),
    }
    for key, count in counted.items():
        found = cells[key].found
        assert found
        assert (cells[key].state, found.by, found.value) == ("reproduced", "data", count)
    part = cells["imagecode", "descriptions-train"]
    assert (part.state, part.found is None) == ("needs", False)
