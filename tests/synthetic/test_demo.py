"""The demo at its smallest: what it finds agrees with what was drawn."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.synthetic.config import Demo
from ctxr.synthetic.demo import DemoReport, run

runner = CliRunner()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> DemoReport:
    sizes = {"videos": 2, "seconds": 6, "photos": 16, "queries": 24, "pairs": 8, "gallery": 24, "looks": 16}
    return run(Demo(out=tmp_path_factory.mktemp("demo"), **sizes))


def test_blurred_frames_fall_out_and_sharp_ones_stay(shown: DemoReport) -> None:
    assert shown.blurred.recall >= 0.9
    assert shown.blurred.precision >= 0.9


def test_drawn_copies_are_passed_over(shown: DemoReport) -> None:
    assert shown.duplicates.missed == 0
    assert shown.duplicates.false == 0


def test_sets_are_found_before_and_after_filtering(shown: DemoReport) -> None:
    assert shown.built.counts["sets"] >= shown.filtered.counts["sets"] > 0


def test_the_page_shows_the_chain_of_the_demo(shown: DemoReport) -> None:
    page = shown.page.read_text(encoding="utf-8")
    assert f"{shown.filtered.counts['sets']}</span> sets of images" in page
    assert '<span class="crumb here"><b>filtered</b>' in page


def test_the_crowd_works_over_http_and_comes_out_where_the_simulation_put_it(shown: DemoReport) -> None:
    crowd = shown.crowd
    assert crowd.answers > 2 * shown.filtered.counts["sets"]
    assert crowd.kept + crowd.dropped == 2 * shown.filtered.counts["sets"]
    for one in crowd.estimates:
        if one.found is not None:  # twice the half-width of 95 % of draws is four standard deviations
            assert abs(one.found - one.mean) <= one.high - one.low
    assert crowd.estimates[0].found is not None
    assert crowd.accused == 0


def test_every_variant_is_trained_and_judged_on_the_drawn_benchmark(shown: DemoReport) -> None:
    assert shown.models.queries == {"train": 24, "valid": 3, "test": 8}
    assert [tried.run for tried in shown.models.runs] == ["zero-shot", "none", "batch", "module", "temporal", "uniter"]
    assert all(0 <= tried.value <= 1 for tried in shown.models.runs)
    known = [one for one in shown.models.runs if one.low is not None and one.high is not None]
    assert all(one.low <= one.value <= one.high for one in known)  # type: ignore[operator]
    page = shown.models.page.read_text(encoding="utf-8")
    assert all(f">{tried.run}<" in page for tried in shown.models.runs)


def test_labels_are_revised_by_a_classifier_and_checked_by_people(shown: DemoReport) -> None:
    revision = shown.revision
    assert revision.learned == 8
    assert revision.pictures == 2 * 24
    assert revision.answers >= 3 * revision.looked > 0
    assert revision.answers % 3 == 0  # three people look at every pair, whatever side it is on
    assert [one.name for one in revision.reliable] == ["precision", "recall"]
    assert (revision.gain is None) == (not revision.added)
    assert {"as-written", "ctxr-tiny"} <= set(revision.entail_at)
    assert all(0 <= (share.value or 0) <= 1 for share in revision.entail_at.values())
    assert 'id="revision"' in revision.page.read_text(encoding="utf-8")
    assert 'href="../captions/report.html"' in shown.page.read_text(encoding="utf-8")


@pytest.mark.prove
def test_a_second_demo_draws_nothing_and_ends_with_commands_to_try(shown: DemoReport) -> None:
    sizes = "--videos 2 --seconds 6 --photos 16 --queries 24 --pairs 8 --gallery 24 --looks 16"
    result = runner.invoke(app, ["demo", "--out", str(shown.folder), *sizes.split()])
    assert result.exit_code == 0
    assert result.stdout.count("nothing to do") == 2
    assert "ctxr build-sets FOLDER" in result.stdout
    assert f"{shown.page} in a browser" in result.stdout
    assert "Entail@10 by the drawn truth" in result.stdout


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert result.exit_code == 2
    assert "is a file, not a folder" in result.stderr


def test_too_few_pictures_to_revise_labels_are_one_sentence(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "demo"), "--gallery", "5"])
    assert result.exit_code == 2
    assert "error: --gallery 5 is out of range" in result.stderr
    assert "it is at least 24, enough to revise labels" in result.stderr
    assert "--pairs" not in result.stderr
