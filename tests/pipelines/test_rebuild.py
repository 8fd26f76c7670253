"""Recipes: the same frames out of the owner's videos, proven, or each that is not named; and nothing believed of a stranger's recipe."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.data.artifacts import open_artifact
from ctxr.data.hashing import sha256_file
from ctxr.data.recipes import RecipeImage
from ctxr.data.records import Image, ImageSet
from ctxr.data.tables import read_table
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines import frames_again, rebuild_run
from ctxr.pipelines.check_artifact import check_artifact
from ctxr.pipelines.rebuild import Rebuild, RebuildReport, run
from ctxr.pipelines.talk import Silent
from ctxr.pipelines.verify import Verify
from ctxr.pipelines.verify import run as verify
from tests.footage import two_shot_clip
from tests.pipelines.exporting.conftest import export
from tests.pipelines.exporting.test_export import forge
from tests.pipelines.test_build_sets import build, same_tree

runner = CliRunner()


@pytest.fixture(scope="module")
def made(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with `sets` of the shared footage, and the recipe of them."""
    project = tmp_path_factory.mktemp("recipes")
    build(footage, project / "sets", sources=(str(footage),))
    export(project / "sets", project / "recipe", "recipe")
    return project


@pytest.fixture(scope="module")
def elsewhere(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as another owner keeps them: other names, another order of folders."""
    folder = tmp_path_factory.mktemp("owner")
    for number, clip in enumerate(sorted((footage / "videos").iterdir())):
        shutil.copy(clip, folder / f"holiday{9 - number}.mp4")
    shutil.copytree(footage / "photos" / "album", folder / "deep" / "pictures")
    return folder


@pytest.fixture
def recipe(made: Path, tmp_path: Path) -> Path:
    """A copy of the recipe that came by mail: nothing is remembered beside it."""
    shutil.copytree(made / "recipe", tmp_path / "mail" / "recipe")
    return tmp_path / "mail" / "recipe"


def rebuild(recipe: Path, videos: Path | None, out: Path) -> RebuildReport:
    return run(Rebuild(recipe=recipe, videos=videos, out=out))


def test_a_recipe_holds_everything_but_the_pixels(made: Path) -> None:
    assert not [file for file in (made / "recipe").rglob("*") if file.suffix in {".jpg", ".png"}]
    rows = read_table(made / "recipe" / "images.jsonl", RecipeImage)
    images = {row.id: row for row in read_table(made / "sets" / "images.jsonl", Image)}
    assert {row.id: (row.path, row.sha256, row.index, row.time) for row in rows} == {
        row.id: (row.path, row.sha256, row.index, row.time) for row in images.values()
    }
    frames = [row for row in rows if row.index is not None]
    assert {(row.stream, row.decoder) for row in frames} == {(0, "pyav")}
    assert len({row.pixels for row in frames}) == len(frames)
    head = json.loads((made / "recipe" / "recipe.json").read_text())
    assert {"av", "libavcodec", "opencv"} <= set(head["software"])
    assert "licence unknown" in (made / "recipe" / "README.md").read_text()


def test_the_hash_of_pixels_is_that_of_the_decoded_frame(made: Path, footage: Path) -> None:
    import hashlib

    import av

    rows = {row.id: row for row in read_table(made / "recipe" / "images.jsonl", RecipeImage)}
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
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path
) -> None:
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert report.counts["different"] == report.counts["failed"] == 0
    assert same_tree(tmp_path / "out" / "images", made / "sets" / "images")
    for table in ("sets.jsonl", "images.jsonl", "sources.jsonl", "splits.jsonl"):
        assert (tmp_path / "out" / table).read_bytes() == (made / "sets" / table).read_bytes()
    assert {check.state for check in check_artifact(tmp_path / "out", Silent())} <= {"ok", "note"}
    assert rebuild(recipe, elsewhere, tmp_path / "out").up_to_date
    rebuild(recipe, elsewhere, tmp_path / "again" / "out")
    assert same_tree(tmp_path / "out", tmp_path / "again" / "out")
    # what was rebuilt can be exported and verified like what was built
    export(tmp_path / "out", tmp_path / "imagecode", "imagecode")
    export(made / "sets", tmp_path / "imagecode2", "imagecode")
    assert same_tree(tmp_path / "imagecode" / "image-sets", tmp_path / "imagecode2" / "image-sets")
    found = verify(Verify(artifact=tmp_path / "out"))
    assert (found.equal, found.differences, found.unproven) == (found.images, [], [])


def test_each_video_is_decoded_once_and_only_for_what_is_missing(
    recipe: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []
    real = frames_again.ChildFrameReader

    class Counted(real):  # type: ignore[valid-type, misc]
        def read(self, index: int, time: Any) -> Any:
            read.append((self._locate().name, index))
            return super().read(index, time)

    monkeypatch.setattr(frames_again, "ChildFrameReader", Counted)
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


def test_a_source_that_is_not_there_costs_only_its_sets_and_comes_back(
    recipe: Path, elsewhere: Path, tmp_path: Path
) -> None:
    shutil.copytree(elsewhere, tmp_path / "videos")
    lost = next(file for file in (tmp_path / "videos").glob("*.mp4") if sha256_file(file) == _source(recipe, "clip1"))
    lost.rename(tmp_path / "away.mp4")
    report = rebuild(recipe, tmp_path / "videos", tmp_path / "out")
    assert [failure["source"] for failure in report.failures] == ["clip1"]
    assert "does not hold clip1 (clip1.mp4, sha256" in report.failures[0]["message"]
    assert not [row for row in read_table(tmp_path / "out" / "sets.jsonl", ImageSet) if row.source == "clip1"]
    found = verify(Verify(artifact=recipe, videos=tmp_path / "videos"))
    assert found.differences == []
    assert found.unproven
    assert {name.partition("/")[0] for name in found.unproven} == {"clip1"}
    (tmp_path / "away.mp4").rename(lost)
    whole = rebuild(recipe, tmp_path / "videos", tmp_path / "out")
    assert whole.counts["failed"] == 0
    rebuild(recipe, elsewhere, tmp_path / "fresh" / "out")
    assert same_tree(tmp_path / "out", tmp_path / "fresh" / "out")


def _source(recipe: Path, name: str) -> str:
    rows = read_table(recipe / "images.jsonl", RecipeImage)
    return next(row.source_sha256 for row in rows if row.source == name)


def test_no_source_at_all_is_an_error_that_says_which_option_helps(recipe: Path, footage: Path, tmp_path: Path) -> None:
    two_shot_clip(tmp_path / "videos" / "another.mp4", 77, frames=5)
    with pytest.raises(DataError, match="no image could be made") as caught:
        rebuild(recipe, tmp_path / "videos", tmp_path / "out")
    assert "--videos DIR" in caught.value.hint
    with pytest.raises(DataError, match="14 photos of album are not found.*and 3 more"):
        rebuild(recipe, None, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_frames_that_come_out_otherwise_are_named_with_their_distance(
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path
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
        app, ["verify", str(recipe), "--videos", str(elsewhere), "--pictures", str(made / "sets"), "--json"]
    )
    assert json.loads(result.stdout)["differences"][0]["distance"] == 0


def test_another_encoder_gives_other_files_of_the_same_frames_and_the_distance_is_told(
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2
    import numpy as np

    from ctxr.data.images import decode_jpeg
    from ctxr.pipelines import verify_run

    def worse(rgb: Any) -> bytes:
        bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
        return bytes(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 60])[1])

    monkeypatch.setattr(verify_run, "encode_jpeg", worse)
    monkeypatch.setattr(rebuild_run, "encode_jpeg", worse)
    found = verify(Verify(artifact=made / "sets"))
    frames = [row for row in read_table(made / "sets" / "images.jsonl", Image) if row.index is not None]
    assert {row["id"] for row in found.differences} == {row.id for row in frames}
    assert {row["what"] for row in found.differences} == {"saved_file"}
    assert found.equal == found.images - len(frames)
    report = rebuild(recipe, elsewhere, tmp_path / "out")
    assert report.counts["different"] == len(frames)
    assert {row["what"] for row in report.differences} == {"saved_file"}
    for row in found.differences[:5]:
        image = next(image for image in frames if image.id == row["id"])
        pair = [decode_jpeg((top / image.path).read_bytes()).astype(int) for top in (made / "sets", tmp_path / "out")]
        assert row["distance"] == np.abs(pair[0] - pair[1]).max() > 0
    again = verify(Verify(artifact=recipe, videos=elsewhere, pictures=made / "sets"))
    assert {row["id"]: row["distance"] for row in again.differences} == {
        row["id"]: row["distance"] for row in found.differences
    }


def test_a_saved_picture_that_was_changed_or_removed_is_named(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "own")
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
    assert "2 images differ, 0 could not be compared" in result.stderr


def test_a_recipe_that_would_not_give_its_own_pictures_is_not_written(
    footage: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxr.pipelines.exporting import recipe as writer

    shutil.copytree(made / "sets", tmp_path / "sets")
    with pytest.raises(DataError, match="nobody knows where clip0.*a recipe needs every source"):
        export(tmp_path / "sets", tmp_path / "out", "recipe")
    monkeypatch.setattr(writer, "encode_jpeg", lambda rgb: b"another file")
    with pytest.raises(DataError, match="is another file than the picture"):
        export(tmp_path / "sets", tmp_path / "out", "recipe", videos=footage)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("images.jsonl", ('"path":"images/album/', '"path":"../album/'), "is not of the form images/FOLDER/FILE"),
        ("images.jsonl", ('"path":"images/album/', '"path":"/album/x/'), "is not of the form"),
        ("images.jsonl", ('"path":"images/album/', '"path":"images/../'), "is not of the form"),
        ("images.jsonl", ('"path":"images/album/', '"path":"images/.ssh/'), "is not of the form"),
        ("images.jsonl", ('p1.png","sha256', 'p1.sh","sha256'), "is not of the form"),
        ("images.jsonl", ("images/album/p1.png", "images/album/P0.png"), "is that of album/p0.png as well"),
        ("images.jsonl", ('"decoder":"pyav"', '"decoder":"sh"'), "its decoder 'sh' is unknown"),
        ("images.jsonl", ('"time":"', '"time":"1e99999999'), "is not a fraction"),
        ("images.jsonl", ('"source":"album"', '"source":"clip0"'), "of another kind"),
        ("images.jsonl", ('"source":"clip1"', '"source":"x"'), "its source 'x' is not in sources.jsonl"),
        ("images.jsonl", ('"pixels":"', '"pixels":"../'), "is not 64 hex digits"),
        ("images.jsonl", ('"index":', '"index":-'), "is below 0|Expected|invalid"),
        ("images.jsonl", ("}\n", "\n"), "images.jsonl:1"),
        ("sets.jsonl", ('"id":"clip0-shot0_0"', '"id":"../x"'), "cannot be the name of a folder"),
        ("sets.jsonl", ('"album/p1.png"', '"album/p77.png"'), "which images.jsonl does not have"),
        ("recipe.json", ('"format": 1', '"format": 2'), "newer than this ctxr understands"),
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
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path
) -> None:
    (recipe / "sets.jsonl").write_text("")
    with pytest.raises(DataError, match=r"sets\.jsonl was changed"):
        rebuild(recipe, elsewhere, tmp_path / "out")
    with pytest.raises(UnfinishedError, match="is not there"):
        rebuild(tmp_path / "none", elsewhere, tmp_path / "out")
    with pytest.raises(DataError, match="holds image_sets, not export"):
        rebuild(made / "sets", elsewhere, tmp_path / "out")
    export(made / "sets", tmp_path / "fo", "fiftyone")
    with pytest.raises(DataError, match="is an export to fiftyone, not a recipe"):
        rebuild(tmp_path / "fo", elsewhere, tmp_path / "out")
    with pytest.raises(UsageError, match="is an export to fiftyone"):
        verify(Verify(artifact=tmp_path / "fo"))


def test_rebuilding_does_not_go_where_something_else_is(
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="lie within one another"):
        rebuild(recipe, elsewhere, recipe / "out")
    shutil.copytree(made / "sets", tmp_path / "sets")
    before = sha256_file(tmp_path / "sets" / "manifest.json")
    with pytest.raises(UsageError, match="was made by ctxr build-sets"):
        rebuild(recipe, elsewhere, tmp_path / "sets")
    assert sha256_file(tmp_path / "sets" / "manifest.json") == before
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="which is no part of an artifact"):
        rebuild(recipe, elsewhere, tmp_path / "foreign")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".ctxr").touch()
    (tmp_path / "linked" / "images").symlink_to(tmp_path / "foreign")
    with pytest.raises(UsageError, match="is a link to another folder"):
        rebuild(recipe, elsewhere, tmp_path / "linked")
    with pytest.raises(UsageError, match="is not a folder"):
        rebuild(recipe, elsewhere / "holiday9.mp4", tmp_path / "out")


def test_a_killed_rebuild_goes_on_and_ends_in_the_same_bytes(
    recipe: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    seen: list[int] = []
    real = rebuild_run.encode_jpeg

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


@pytest.mark.prove
@pytest.mark.parametrize("verb", ["rebuild", "export"])
def test_twenty_kills_end_in_the_same_bytes(
    recipe: Path, made: Path, elsewhere: Path, tmp_path: Path, verb: str
) -> None:
    import random

    arguments: dict[str, list[object]] = {
        "rebuild": [recipe, "--videos", elsewhere],
        "export": ["--to", "hf", "--input", made / "sets"],
    }
    command = [sys.executable, "-m", "ctxr", verb, *map(str, arguments[verb])]
    subprocess.run([*command, "--out", str(tmp_path / "whole" / "out")], check=True, capture_output=True)
    rng, alive = random.Random(4), 0
    for number in range(20):
        run_once: Callable[[], Any] = lambda out=tmp_path / f"k{number}" / "out": [*command, "--out", str(out)]  # type: ignore[misc]
        process = subprocess.Popen(run_once(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.3, 2.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            alive += 1
        subprocess.run(run_once(), check=True, capture_output=True)
        assert same_tree(tmp_path / "whole" / "out", tmp_path / f"k{number}" / "out")
    assert alive >= 5
