"""What a named model is, by content."""

from pathlib import Path

import pytest

from ctxr.models import identity
from ctxr.models.identity import model_identity


@pytest.mark.parametrize(("kind", "by_files"), [("random", False), ("local-dir", True), ("nli", True)])
def test_only_names_of_places_are_known_by_the_files_there(
    kind: str, by_files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "ViT-B-32"
    folder.mkdir()
    weights = folder / "model.safetensors"
    weights.write_bytes(b"one")
    before = model_identity(f"{kind}:ViT-B-32", tmp_path / "work")
    weights.write_bytes(b"other")
    assert (model_identity(f"{kind}:ViT-B-32", tmp_path / "work") != before) == by_files


def test_a_model_is_the_same_wherever_its_files_lie(tmp_path: Path) -> None:
    for place in ("here", "there"):
        (tmp_path / place / "model").mkdir(parents=True)
        (tmp_path / place / "model" / "config.json").write_text("{}")
    here, there = (model_identity(f"local-dir:{tmp_path / place / 'model'}", tmp_path) for place in ("here", "there"))
    assert here == there


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("random:ViT-B-32", ["torch", "open_clip_torch"]),
        ("random:ViT-B-16-SigLIP", ["torch", "open_clip_torch", "timm", "transformers"]),
        ("random:bert-tiny", ["torch", "transformers"]),
        ("random:blip-tiny", ["torch", "transformers"]),
        ("random:vilbert-tiny", ["torch"]),
    ],
)
def test_an_untrained_model_is_known_by_the_packages_that_make_it(
    name: str, packages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = dict.fromkeys(packages, "1")
    monkeypatch.setattr(identity, "version", versions.pop)
    model_identity(name, tmp_path)
    assert versions == {}
