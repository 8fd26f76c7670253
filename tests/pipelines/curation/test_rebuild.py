"""Recipes: the same frames out of the owner's videos, proven, or each that is not named; and nothing believed of a stranger's recipe."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.rebuilding import RecipeImage
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media import footage as footage_again
from ctxr.media.decoder_process import ChildFrameReader
from ctxr.media.images import encode_jpeg
from ctxr.pipelines.curation import rebuild as rebuild_run
from ctxr.pipelines.curation.config import Verify
from ctxr.pipelines.curation.verify import run as verify
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as write_report
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image, ImageSet
from ctxr.store.tables import read_table
from tests.exports import export, forge, rebuild
from tests.footage import two_shot_clip
from tests.pipelines.curation.test_build_sets import build, same_tree

runner = CliRunner()


def test_a_recipe_holds_everything_but_the_pixels(recipes: Path) -> None:
    assert not [file for file in (recipes / "recipe").rglob("*") if file.suffix in {".jpg", ".png"}]
    rows = read_table(recipes / "recipe" / "images.jsonl", RecipeImage)
    images = {row.id: row for row in read_table(recipes / "sets" / "images.jsonl", Image)}
    assert {row.id: (row.path, row.sha256, row.index, row.time) for row in rows} == {
        row.id: (row.path, row.sha256, row.index, row.time) for row in images.values()
    }
    frames = [row for row in rows if row.index is not None]
    assert {(row.stream, row.decoder) for row in frames} == {(0, "pyav")}
    assert len({row.pixels for row in frames}) == len(frames)
    head = json.loads((recipes / "recipe" / "recipe.json").read_text())
    assert {"av", "libavcodec", "opencv"} <= set(head["software"])
    assert "licence unknown" in (recipes / "recipe" / "README.md").read_text()


def test_the_hash_of_pixels_is_that_of_the_decoded_frame(recipes: Path, footage: Path) -> None:
    import hashlib

    import av

    rows = {row.id: row for row in read_table(recipes / "recipe" / "images.jsonl", RecipeImage)}
    row = next(row for row in rows.values() if row.source == "clip1")
    with av.open(str(footage / "videos" / "clip1.mp4")) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index == row.index:
                assert frame.pts * frame.time_base == row.time
                rgb = frame.to_ndarray(format="rgb24")
                assert rgb.shape == (row.height, row.width, 3)
                break
    assert hashlib.sha256(rgb.tobytes()).hexdigest() == row.pixels


def test_another_owner_gets_the_same_pictures_out_of_files_of_other_names(
    recipe: Path, recipes: Path, elsewhere: Path, tmp_path: Path
) -> None:
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert report.counts["different"] == report.counts["failed"] == 0
    assert same_tree(tmp_path / "out" / "images", recipes / "sets" / "images")
    for table in ("sets.jsonl", "images.jsonl", "sources.jsonl", "splits.jsonl"):
        assert (tmp_path / "out" / table).read_bytes() == (recipes / "sets" / table).read_bytes()
    assert {check.state for check in check_artifact(tmp_path / "out", Silent())} <= {"ok", "note"}
    assert rebuild(recipe, elsewhere, tmp_path / "out").up_to_date
    (tmp_path / "empty").mkdir()
    for look in (lambda empty: rebuild(recipe, empty, tmp_path / "out"), lambda empty: verify(Verify(videos=empty))):
        with pytest.raises(UsageError, match=r"photo in .*empty") as caught:
            look(tmp_path / "empty")
        assert "videos end in" in caught.value.hint
    rebuild(recipe, elsewhere, tmp_path / "again" / "out")
    assert same_tree(tmp_path / "out", tmp_path / "again" / "out")
    # what was rebuilt can be exported and verified like what was built
    export(tmp_path / "out", tmp_path / "imagecode", "imagecode")
    export(recipes / "sets", tmp_path / "imagecode2", "imagecode")
    assert same_tree(tmp_path / "imagecode" / "image-sets", tmp_path / "imagecode2" / "image-sets")
    found = verify(Verify(artifact=tmp_path / "out"))
    assert (found.equal, found.differences, found.unproven) == (found.images, [], [])


def test_each_video_is_decoded_once_and_only_for_what_is_missing(
    recipe: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []
    real = ChildFrameReader

    class CountingReader(real):  # type: ignore[valid-type, misc]
        def read(self, index: int, time: Any) -> Any:
            read.append((self._path.name, index))
            return super().read(index, time)

    monkeypatch.setattr(footage_again, "ChildFrameReader", CountingReader)
    rebuild(recipe, elsewhere, tmp_path / "out")
    for name in {name for name, _ in read}:
        indices = [index for own, index in read if own == name]
        assert indices == sorted(set(indices))
    picture = next((tmp_path / "out" / "images" / "clip0-shot0_0").iterdir())
    picture.write_bytes(b"damaged")
    read.clear()
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert not report.up_to_date
    assert [index for _, index in read] == [int(picture.stem[3:])]


def test_no_source_at_all_is_an_error_that_says_which_option_helps(recipe: Path, footage: Path, tmp_path: Path) -> None:
    two_shot_clip(tmp_path / "videos" / "another.mp4", 77, frames=5)
    with pytest.raises(DataError, match="no image could") as caught:
        rebuild(recipe, tmp_path / "videos", tmp_path / "out")
    assert "--videos DIR" in caught.value.hint
    with pytest.raises(DataError, match=r"14 photos of album .*and 3 more"):
        rebuild(recipe, None, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_frames_that_come_out_otherwise_are_named_with_their_distance(
    recipe: Path, recipes: Path, elsewhere: Path, tmp_path: Path
) -> None:
    rows = read_table(recipe / "images.jsonl", RecipeImage)
    frame = next(row for row in rows if row.index is not None)
    forge(recipe / "images.jsonl", lambda text: text.replace(frame.pixels, "0" * 64))
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert [(row["id"], row["what"]) for row in report.differences] == [(frame.id, "pixels")]
    result = runner.invoke(app, ["verify", str(recipe), "--videos", str(elsewhere), "--json"])
    assert result.exit_code == 5
    (row,) = json.loads(result.stdout)["differences"]
    assert (row["id"], row["what"], row["distance"]) == (frame.id, "pixels", None)
    result = runner.invoke(
        app, ["verify", str(recipe), "--videos", str(elsewhere), "--pictures", str(recipes / "sets"), "--json"]
    )
    assert json.loads(result.stdout)["differences"][0]["distance"] == 0


def test_another_encoder_gives_other_files_of_the_same_frames_and_the_distance_is_told(
    recipe: Path, recipes: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2
    import numpy as np

    from ctxr.media.images import decode_jpeg
    from ctxr.pipelines.curation import verify as verify_run

    def worse(rgb: Any) -> bytes:
        bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
        return bytes(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 60])[1])

    monkeypatch.setattr(verify_run, "encode_jpeg", worse)
    monkeypatch.setattr(rebuild_run, "encode_jpeg", worse)
    found = verify(Verify(artifact=recipes / "sets"))
    frames = [row for row in read_table(recipes / "sets" / "images.jsonl", Image) if row.index is not None]
    assert {row["id"] for row in found.differences} == {row.id for row in frames}
    assert {row["what"] for row in found.differences} == {"saved_file"}
    assert found.equal == found.images - len(frames)
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert report.counts["different"] == len(frames)
    assert {row["what"] for row in report.differences} == {"saved_file"}
    for row in found.differences[:5]:
        image = next(image for image in frames if image.id == row["id"])
        pair = [
            decode_jpeg((top / image.path).read_bytes()).astype(int) for top in (recipes / "sets", tmp_path / "out")
        ]
        assert row["distance"] == np.abs(pair[0] - pair[1]).max() > 0
    again = verify(Verify(artifact=recipe, videos=elsewhere, pictures=recipes / "sets"))
    assert {row["id"]: row["distance"] for row in again.differences} == {
        row["id"]: row["distance"] for row in found.differences
    }


def test_a_saved_picture_that_was_changed_or_removed_is_named(recipes: Path, tmp_path: Path) -> None:
    shutil.copytree(recipes, tmp_path / "own")
    sets = tmp_path / "own" / "sets"
    first, second = sorted((sets / "images" / "clip2-shot0_0").iterdir())[:2]
    first.unlink()
    content = second.read_bytes()
    second.unlink()
    second.write_bytes(content[:-40] + b"\0" * 38 + content[-2:])
    result = runner.invoke(app, ["verify", str(sets)])
    assert result.exit_code == 5
    assert f"clip2/{first.stem}: missing" in result.stdout
    assert f"clip2/{second.stem}: changed" in result.stdout
    assert "2 images changed, 0" in result.stderr


def test_a_recipe_that_would_not_give_its_own_pictures_is_not_written(
    footage: Path, recipes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxr.datasets.writers import recipe as writer

    shutil.copytree(recipes / "sets", tmp_path / "sets")
    with pytest.raises(DataError, match=r"clip0.*every source"):
        export(tmp_path / "sets", tmp_path / "out", "recipe")
    monkeypatch.setattr(writer, "encode_jpeg", lambda rgb: b"another file")
    with pytest.raises(DataError, match="is another file"):
        export(tmp_path / "sets", tmp_path / "out", "recipe", videos=footage)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_killed_rebuild_goes_on_and_ends_in_the_same_bytes(
    recipe: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    seen: list[int] = []
    real = encode_jpeg

    def kill(rgb: Any) -> bytes:
        seen.append(1)
        if len(seen) == 12:
            raise Killed
        return real(rgb)

    with monkeypatch.context() as patched:
        patched.setattr(rebuild_run, "encode_jpeg", kill)
        with pytest.raises(Killed):
            rebuild(recipe, elsewhere, tmp_path / "out")
    with pytest.raises(UnfinishedError, match=r"has no manifest\.json"):
        open_artifact(tmp_path / "out")
    rebuild(recipe, elsewhere, tmp_path / "out")
    rebuild(recipe, elsewhere, tmp_path / "fresh" / "out")
    assert same_tree(tmp_path / "out", tmp_path / "fresh" / "out")


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


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("images.jsonl", ('"path":"images/album/', '"path":"../album/'), "form images/FOLDER/FILE"),
        ("images.jsonl", ('"path":"images/album/', '"path":"/album/x/'), "images/FOLDER/FILE"),
        ("images.jsonl", ('"path":"images/album/', '"path":"images/../'), "images/FOLDER/FILE"),
        ("images.jsonl", ('"path":"images/album/', '"path":"images/.ssh/'), "images/FOLDER/FILE"),
        ("images.jsonl", ('p1.png","sha256', 'p1.sh","sha256'), "images/FOLDER/FILE"),
        ("images.jsonl", ("images/album/p1.png", "images/album/P0.png"), "album/p0.png as well"),
        ("images.jsonl", ('"decoder":"pyav"', '"decoder":"sh"'), "its decoder 'sh' is unknown"),
        ("images.jsonl", ('"time":"', '"time":"1e99999999'), "not a fraction"),
        ("images.jsonl", ('"source":"album"', '"source":"clip0"'), "of another kind"),
        ("images.jsonl", ('"source":"clip1"', '"source":"x"'), "source 'x' .* sources.jsonl"),
        ("images.jsonl", ('"pixels":"', '"pixels":"../'), "is not 64 hex digits"),
        ("images.jsonl", ('"index":', '"index":-'), "is below 0|expected|invalid"),
        ("images.jsonl", ("}\n", "\n"), "images.jsonl:1"),
        ("sets.jsonl", ('"id":"clip0-shot0_0"', '"id":"../x"'), "of a folder"),
        ("sets.jsonl", ('"album/p1.png"', '"album/p77.png"'), "'album/p77.png'.* images.jsonl"),
        ("recipe.json", ('"format": 1', '"format": 2'), "newer than this"),
        ("recipe.json", ("{", "["), "is damaged"),
    ],
)
def test_a_damaged_or_hostile_recipe_is_refused_by_row(
    recipe: Path, elsewhere: Path, tmp_path: Path, table: str, change: tuple[str, str], message: str
) -> None:
    assert change[0] in (recipe / table).read_text()
    forge(recipe / table, lambda text: text.replace(*change))
    with pytest.raises(DataError, match=message):
        rebuild(recipe, elsewhere, tmp_path / "out")
    with pytest.raises(DataError, match=message):
        verify(Verify(artifact=recipe, videos=elsewhere))
    assert not list(tmp_path.glob("out/images/*"))


def test_a_recipe_that_was_edited_or_is_none_is_refused(
    recipe: Path, recipes: Path, elsewhere: Path, tmp_path: Path
) -> None:
    (recipe / "sets.jsonl").write_text("")
    with pytest.raises(DataError, match=r"sets\.jsonl was changed"):
        rebuild(recipe, elsewhere, tmp_path / "out")
    with pytest.raises(UsageError, match="none does not"):
        rebuild(tmp_path / "none", elsewhere, tmp_path / "out")
    with pytest.raises(DataError, match="holds image_sets, not export"):
        rebuild(recipes / "sets", elsewhere, tmp_path / "out")
    export(recipes / "sets", tmp_path / "fo", "fiftyone")
    with pytest.raises(DataError, match="export to fiftyone"):
        rebuild(tmp_path / "fo", elsewhere, tmp_path / "out")
    with pytest.raises(UsageError, match="export to fiftyone"):
        verify(Verify(artifact=tmp_path / "fo"))


def test_rebuilding_does_not_go_where_something_else_is(
    recipe: Path, recipes: Path, elsewhere: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="within one another"):
        rebuild(recipe, elsewhere, recipe / "out")
    shutil.copytree(recipes / "sets", tmp_path / "sets")
    before = sha256_file(tmp_path / "sets" / "manifest.json")
    with pytest.raises(UsageError, match="by ctxr build-sets"):
        rebuild(recipe, elsewhere, tmp_path / "sets")
    assert sha256_file(tmp_path / "sets" / "manifest.json") == before
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="of an artifact"):
        rebuild(recipe, elsewhere, tmp_path / "foreign")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".ctxr").touch()
    (tmp_path / "linked" / "images").symlink_to(tmp_path / "foreign")
    with pytest.raises(UsageError, match="a link to"):
        rebuild(recipe, elsewhere, tmp_path / "linked")
    with pytest.raises(UsageError, match="not a folder"):
        rebuild(recipe, elsewhere / "holiday9.mp4", tmp_path / "out")
