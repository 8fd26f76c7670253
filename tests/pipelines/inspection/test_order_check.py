"""The doctor on the order of frames: a copy that was scrambled is named, by names or by scores; a sound one is not."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UsageError
from ctxr.media.images import encode_jpeg
from ctxr.metrics.compare import Interval
from ctxr.pipelines.inspection.config import Check, Doctor
from ctxr.pipelines.inspection.doctor import run
from ctxr.pipelines.inspection.order_check import (
    AS_TEXT,
    BY_NUMBER,
    _banded,
    check_order,
    moved,
    numbers_of,
)
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import sample_sets

SETS = 24


def write_copy(folder: Path) -> Path:
    """A release of drawn films whose frames cross a power of ten."""
    rng = np.random.default_rng(5)
    valid: dict[str, dict[str, str]] = {}
    for place, drawn in enumerate(sample_sets(rng, SETS, "video")):
        name = f"MSR-VTT-video{place}-shot0_0"
        first = int(rng.integers(2, 9))
        numbers = list(range(first, first + 10))
        files = {
            number: encode_jpeg(render(scene, 64, 64)) for number, scene in zip(numbers, drawn.scenes, strict=True)
        }
        for number, content in files.items():
            (folder / "image-sets" / name).mkdir(parents=True, exist_ok=True)
            (folder / "image-sets" / name / f"img{number}.jpg").write_bytes(content)
        valid[name] = {str(target): "A drawn frame." for target in rng.permutation(10)[:3].tolist()}
    (folder / "valid_data.json").write_text(json.dumps(valid))
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_copy(tmp_path_factory.mktemp("sound") / "release")


def looked(release: Path, work: Path, **more: object) -> dict[str, Check]:
    return {check.name: check for check in run(Doctor(artifact=release, workdir=work, **more)).checks}  # type: ignore[arg-type]


def test_a_sound_release_is_in_order(sound: Path, tmp_path: Path) -> None:
    found = looked(sound, tmp_path)
    assert {check.state for name, check in found.items() if name != "release"} == {"ok"}
    assert found["pictures"].detail == f"all of {SETS} sets are here, every picture decoded"
    assert found["order of frames"].detail == f"numbers ascend in {SETS} of {SETS} sets of video"


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("no picture")])
def test_a_release_that_lacks_a_picture_is_a_problem_and_named(
    damage: Callable[[Path], object], sound: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    file = sorted(copy.rglob("img*.jpg"))[3]
    damage(file)
    found = looked(copy, tmp_path)["pictures"]
    assert found.state == "problem"
    assert re.match(rf"1 of {SETS} sets .*: 1 ", found.detail)
    assert file.parent.name in found.detail
    with pytest.raises(DataError, match=rf"copy .* in 1 set: 1 .*{file.parent.name}"):
        train(Train("clip-zero-shot", copy, changes=("encoder=ctxr-tiny",), workdir=tmp_path))


def test_a_picture_that_was_cut_short_is_a_problem_and_named(sound: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(sound, tmp_path / "copy")
    file = sorted(copy.rglob("img*.jpg"))[-1]
    file.write_bytes(file.read_bytes()[:-40])  # its header is whole
    checks = [check for check in run(Doctor(artifact=copy, workdir=tmp_path)).checks if check.state == "problem"]
    assert [check.name for check in checks] == ["pictures"]
    name = file.relative_to(copy).as_posix()
    assert checks[0].detail.startswith(f"{name} is not a ")
    assert "is truncated" in checks[0].detail
    assert "they were published" in checks[0].cure


def test_sets_that_are_sorted_as_text_are_named_without_looking_at_a_picture(sound: Path) -> None:
    dataset = read_dataset(sound)

    def scrambled(images: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(images, key=lambda name: dataset.images[name].path))

    sets = tuple(msgspec.structs.replace(one, images=scrambled(one.images)) for one in dataset.sets)
    wrong = replace(dataset, sets=sets)
    (order,) = check_order(wrong)
    assert order.state == "problem"
    assert "name as text" in order.detail
    assert "img2 before img10" in order.cure


def scores(file: Path, release: Path, meant: str, seed: int) -> Path:
    """Scores of a model that finds 6 of 10 targets, where these are what the ids name, or moved as `meant` says."""
    rng, dataset, lines = np.random.default_rng(seed), read_dataset(release), []
    for query, image_set, place in dataset.targets():
        numbers = numbers_of(dataset, image_set)
        assert numbers is not None
        target = moved(numbers, place, meant) if meant else place
        values = rng.random(10)
        values[target] += rng.random() < 0.6
        lines += [
            json.dumps({"query": query.id, "candidate": image, "value": float(value)})
            for image, value in zip(image_set.images, values, strict=True)
        ]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("meant", [AS_TEXT, BY_NUMBER])
def test_scores_tell_in_which_order_targets_were_counted(sound: Path, tmp_path: Path, meant: str) -> None:
    file = scores(tmp_path / "model.jsonl", sound, meant, 6)
    found = looked(sound, tmp_path, scores=(str(file),))["targets by model"]
    assert found.state == "problem"
    assert found.detail.endswith(f"the targets look {meant}")


def test_scores_of_a_sound_dataset_accuse_nothing(sound: Path, tmp_path: Path) -> None:
    files = [scores(tmp_path / f"model{seed}.jsonl", sound, "", seed) for seed in range(10)]
    found = looked(sound, tmp_path, scores=tuple(map(str, files)))
    assert {found[f"targets by model{seed}"].state for seed in range(10)} == {"ok"}


def test_scores_of_other_queries_are_told(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "model.jsonl").write_text('{"query": "x", "candidate": "y", "value": 1}\n')
    found = looked(sound, tmp_path, scores=(str(tmp_path / "model.jsonl"),))
    assert found["targets by model"].state == "note"


@pytest.mark.parametrize(
    ("interval", "state"),
    [
        (Interval(0.219, 0.203, 0.236), "ok"),
        (Interval(0.122, 0.109, 0.136), "problem"),
        (Interval(0.17, 0.155, 0.185), "note"),
        (Interval(0.17, 0.1, 0.24), "note"),
    ],
)
def test_accuracy_is_told_beside_the_bands_of_its_encoder(interval: Interval, state: str) -> None:
    (found,) = _banded("clip", "ViT-B-16:openai", "valid", interval)
    assert (found.state, "12.2 % a copy" in found.detail) == (state, True)
    assert list(_banded("clip", "ViT-L-14:openai", "valid", interval)) == []


def test_targets_move_back_to_where_they_were_meant() -> None:
    numbers = [8, 9, 10, 11, 12]
    as_text = sorted(numbers, key=str)
    for index in range(5):  # an index by number was looked up in names sorted as text
        wrong = numbers.index(as_text[index])
        assert moved(numbers, wrong, AS_TEXT) == index
        assert moved(as_text, as_text.index(numbers[index]), BY_NUMBER) == index


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"scores": ("nothing.jsonl",)}, "nothing.jsonl is neither"),
        ({"seed": -1}, "--seed -1"),
        ({"artifact": None, "scores": ("x",)}, "--scores needs"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(
    sound: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run(replace(Doctor(artifact=sound, workdir=tmp_path), **more))
