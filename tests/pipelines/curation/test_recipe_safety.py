"""Nothing is believed of a stranger's recipe, and nothing of a user's is written over."""

import shutil
from pathlib import Path

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.pipelines.curation.config import Verify
from ctxr.pipelines.curation.verify import run as verify
from ctxr.store.hashing import sha256_file
from tests.exports import export, forge, rebuild


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
        ("images.jsonl", ('"index":', '"index":-'), "is below 0|Expected|invalid"),
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
