"""`ctxr shortcuts`: shortcuts that are there are found with exit code 5; without one it stays quiet."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.errors import UsageError
from ctxr.pipelines.inspection.config import Shortcuts
from ctxr.pipelines.inspection.shortcuts import run
from ctxr.store.artifacts import Content, finish
from ctxr.store.records import Facts
from ctxr.store.tables import write_table
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import write_release

runner = CliRunner()


def write_pictured(folder: Path, blur_target: bool, sets: int = 25) -> Path:
    """A release of train sets with one target each, spread evenly; the target's picture blurred or like the others."""
    rng = np.random.default_rng(11)
    targets = {f"video-clip{number}-shot0_0": number % 10 for number in range(sets)}
    write_release(
        folder, train={name: {str(at): "It is that one."} for name, at in targets.items()}, valid=None, test=None
    )
    for name, target in targets.items():
        (folder / "image-sets" / name).mkdir(parents=True)
        for place in range(10):
            pixels = rng.integers(0, 255, (24, 24, 3)).astype(np.uint8)
            if blur_target and place == target:
                pixels = np.asarray(cv2.blur(pixels, (5, 5)))
            Image.fromarray(pixels).save(folder / "image-sets" / name / f"img{place}.png")
    return folder


def test_blurred_targets_are_found_by_sharpness_and_by_file_size(tmp_path: Path) -> None:
    result = runner.invoke(app, ["shortcuts", str(write_pictured(tmp_path, blur_target=True)), "--json"])
    assert result.exit_code == 5
    report = json.loads(result.stdout)
    flagged = {one["rule"]: one for one in report["verdicts"] if one["flagged"]}
    assert set(flagged) == {"blurriest image (Laplacian)", "smallest file"}
    assert flagged["smallest file"]["accuracy"] == 1.0
    assert flagged["smallest file"]["low"] > flagged["smallest file"]["chance"] == pytest.approx(0.1)
    assert "2 shortcuts above chance" in result.stderr


def test_targets_like_the_others_are_not_flagged(tmp_path: Path) -> None:
    result = runner.invoke(app, ["shortcuts", str(write_pictured(tmp_path, blur_target=False))])
    assert result.exit_code == 0
    assert "above chance" not in result.stdout
    assert "BRISQUE was not" in result.stdout


def test_a_habit_learnt_on_train_is_found_on_valid(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    weights = [0.05] * 4 + [0.55] + [0.05] * 5

    def sets(side: str) -> dict[str, dict[str, str]]:
        return {f"video-{side}{n}-shot0_0": {str(rng.choice(10, p=weights)): "That one."} for n in range(80)}

    report = run(Shortcuts(dataset=write_release(tmp_path, train=sets("a"), valid=sets("b"), test=None)))
    flagged = {one.rule: one for one in report.verdicts if one.flagged}
    assert flagged.keys() == {"commonest position", "position by length", "texts alone, linear model"}
    assert flagged["commonest position"].queries == 80
    assert report.learnt == "learnt on train"


def test_first_and_last_are_rules_for_videos_and_the_anchor_for_photos(tmp_path: Path) -> None:
    report = run(Shortcuts(dataset=write_world_dataset(tmp_path / "dataset", sets=4), skip_pictures=True))
    parts = {one.rule: set[str]() for one in report.verdicts}
    for one in report.verdicts:
        parts[one.rule].add(one.part)
    assert parts["first image of the set"] == parts["last image of the set"] == {"video"}
    assert parts["anchor (first image)"] == {"photos"}
    assert parts["commonest position"] == {"all", "video", "photos"}
    assert "nearest to the" in runner.invoke(app, ["shortcuts", "--help"]).stdout


def write_gallery(folder: Path, photos: int, asked: int) -> Path:
    images = [{"id": number, "file_name": f"{number:03}.jpg"} for number in range(photos)]
    told = [{"id": row, "image_id": row % asked, "caption": "a " + "b " * (row % 7)} for row in range(5 * asked)]
    folder.mkdir(exist_ok=True)
    (folder / "captions_x.json").write_text(json.dumps({"images": images, "annotations": told}))
    return folder


def test_a_gallery_has_no_first_image_and_asking_for_all_leaves_no_rule(tmp_path: Path) -> None:
    some = run(Shortcuts(dataset=write_gallery(tmp_path / "some", photos=30, asked=20)))
    assert not some.verdicts
    assert any("in 1 set: a gallery" in line and " 20 images " in line for line in some.missing)
    assert any("BRISQUE was not" in line for line in some.missing)
    every = run(Shortcuts(dataset=write_gallery(tmp_path / "all", photos=8, asked=8)))
    assert not every.verdicts
    assert any("is a target" in line for line in every.missing)


def test_pictures_need_not_be_opened(tmp_path: Path) -> None:
    report = run(Shortcuts(dataset=write_pictured(tmp_path, blur_target=True), skip_pictures=True))
    assert not any(one.flagged for one in report.verdicts)
    assert any("file size" in line for line in report.missing)


def test_without_targets_there_is_nothing_to_try(tmp_path: Path) -> None:
    result = runner.invoke(app, ["shortcuts", str(write_release(tmp_path, train=None, valid=None))])
    assert result.exit_code == 0
    assert "no target is" in result.stdout


def test_a_worker_who_named_no_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"target is .*'nobody'") as error:
        run(Shortcuts(dataset=write_release(tmp_path), worker="nobody"))
    assert "--worker gold" in error.value.hint


def test_measured_brisque_is_a_rule_and_the_toy_world_has_no_shortcut(tmp_path: Path) -> None:
    folder = write_world_dataset(tmp_path / "dataset", sets=8)
    images = [json.loads(line) for line in (folder / "images.jsonl").read_text().splitlines()]
    rng = np.random.default_rng(1)
    facts = [
        Facts(image["group"], place, image["path"], image["sha256"], 48, 48, brisque=float(rng.random()))
        for place, image in enumerate(images)
    ]
    write_table(folder / "facts.jsonl", facts)
    files = [file.name for file in folder.glob("*.jsonl")]
    finish(folder, kind="dataset", verb="test", config={}, parents=[], content=Content(files, {}, {}))
    result = runner.invoke(app, ["shortcuts", "-w", str(tmp_path), "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert {one["part"] for one in report["verdicts"]} == {"all", "video", "photos"}
    assert {"least distorted (BRISQUE)", "most distorted (BRISQUE)"} <= {one["rule"] for one in report["verdicts"]}
    (missing,) = report["missing"]
    assert "--encoder" in missing


def test_a_model_that_sees_images_alone_learns_from_the_vectors_of_an_encoder_or_of_the_sets(tmp_path: Path) -> None:
    release = write_pictured(tmp_path / "release", blur_target=True, sets=60)
    report = run(Shortcuts(dataset=release, encoder="ctxr-tiny"))
    (found,) = [one for one in report.verdicts if one.rule == "images alone, linear model"]
    assert found.flagged
    assert found.accuracy > 0.5
    # a fifth of the sets teaches the first fold that is tried
    assert found.sets == 48


def test_the_published_release_has_a_habit_of_positions(real_files: Path) -> None:
    report = run(Shortcuts(dataset=real_files / "imagecode"))
    flagged = {(one.rule, one.part): one for one in report.verdicts if one.flagged}
    assert ("commonest position", "video") in flagged
    assert ("commonest position", "photos") not in flagged
    assert flagged["commonest position", "all"].queries == 2302
