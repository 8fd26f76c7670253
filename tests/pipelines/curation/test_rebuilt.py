"""What becomes of a rebuilt artifact: reported on, verified, and said when it lacks sets."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.rebuilding import RecipeImage
from ctxr.errors import DataError
from ctxr.pipelines.curation.config import Verify
from ctxr.pipelines.curation.verify import run as verify
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as write_report
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image, ImageSet
from ctxr.store.tables import read_table
from tests.exports import forge, rebuild
from tests.footage import two_shot_clip
from tests.pipelines.curation.test_build_sets import build, same_tree

runner = CliRunner()


def test_a_rebuilt_artifact_is_reported_on_from_its_own_tables(recipe: Path, elsewhere: Path, tmp_path: Path) -> None:
    made = rebuild(recipe, elsewhere, tmp_path / "rebuilt")
    result = runner.invoke(app, ["report", "--input", str(tmp_path / "rebuilt"), "-w", str(tmp_path), "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["sets"], told["pictures"]) == (made.counts["sets"], made.counts["images"])
    assert ["no ledger" in note for note in told["notes"]] == [True]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "holds no ledger" in page
    assert 'id="sets"' in page
    assert 'id="timelines"' not in page
    forge(tmp_path / "rebuilt" / "images.jsonl", lambda text: text.partition("\n")[2])
    with pytest.raises(DataError, match=r"names .* images\.jsonl"):
        write_report(Report(input=tmp_path / "rebuilt", workdir=tmp_path))


def test_a_photo_whose_source_is_gone_or_changed_is_not_proven(footage: Path, elsewhere: Path, tmp_path: Path) -> None:
    shutil.copytree(footage, tmp_path / "footage")
    album = tmp_path / "footage" / "photos" / "album"
    build(tmp_path / "footage", tmp_path / "sets", sources=(str(album),))
    assert verify(Verify(artifact=tmp_path / "sets")).unproven == []
    (album / "p1.png").unlink()
    (album / "p2.png").unlink()  # it may be one file with the picture
    shutil.copy(album / "p3.png", album / "p2.png")
    found = verify(Verify(artifact=tmp_path / "sets"))
    assert found.unproven == ["album/p1.png", "album/p2.png"]
    assert (found.equal, found.differences) == (found.images - 2, [])
    assert list(found.sources) == ["album"]
    assert found.sources["album"].startswith("2 photos of album ")
    assert found.sources["album"].endswith(" album/p1.png")
    # under another name, in another folder: known by content
    assert verify(Verify(artifact=tmp_path / "sets", videos=elsewhere)).unproven == []


def test_a_rebuild_that_lacks_sets_says_how_many_and_ends_with_4(recipe: Path, elsewhere: Path, tmp_path: Path) -> None:
    shutil.copytree(elsewhere, tmp_path / "videos")
    whole = {image.id: image for image in read_table(recipe / "images.jsonl", RecipeImage)}
    (digest,) = {image.source_sha256 for image in whole.values() if image.source == "clip1"}
    next(file for file in (tmp_path / "videos").glob("*.mp4") if sha256_file(file) == digest).unlink()
    report = rebuild(recipe, tmp_path / "videos", tmp_path / "out")
    assert "clip1 (clip1.mp4, sha256" in report.failures[0]["message"]
    assert not [row for row in read_table(tmp_path / "out" / "sets.jsonl", ImageSet) if row.source == "clip1"]
    found = verify(Verify(artifact=recipe, videos=tmp_path / "videos"))
    assert found.differences == []
    assert {name.partition("/")[0] for name in found.unproven} == {"clip1"}
    two_shot_clip(tmp_path / "videos" / "clip1.mp4", 77, frames=5)
    given = ["rebuild", str(recipe), "--videos", str(tmp_path / "videos"), "--out", str(tmp_path / "out")]
    result = runner.invoke(app, given)
    assert result.exit_code == 4
    left = len(read_table(tmp_path / "out" / "images.jsonl", Image))
    assert 0 < left < len(whole)
    assert f"{left} of {len(whole)} images" in " ".join(result.stdout.split())
    told = " ".join(result.stderr.split())
    assert "of the recipe" in told
    assert "--videos DIR with" in told
    told_as_json = runner.invoke(app, [*given, "--json"])
    assert told_as_json.exit_code == 4
    report = json.loads(told_as_json.stdout)
    assert report["counts"]["images_left_out"] == len(whole) - left
    assert report["failures"][0]["reason"] == "changed"
    assert "videos/clip1.mp4 has this name" in report["failures"][0]["message"]
    assert runner.invoke(app, [*given[:3], str(elsewhere), *given[4:]]).exit_code == 0
    rebuild(recipe, elsewhere, tmp_path / "fresh" / "out")
    assert same_tree(tmp_path / "out", tmp_path / "fresh" / "out")
