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
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Image
from ctxr.store.tables import read_table
from tests.exports import export, forge, rebuild
from tests.footage import two_shot_clip
from tests.pipelines.curation.test_build_sets import same_tree

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

    class Counted(real):  # type: ignore[valid-type, misc]
        def read(self, index: int, time: Any) -> Any:
            read.append((self._path.name, index))
            return super().read(index, time)

    monkeypatch.setattr(footage_again, "ChildFrameReader", Counted)
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
