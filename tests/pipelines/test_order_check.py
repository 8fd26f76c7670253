"""The doctor on the order of frames: a copy that was scrambled is named, by names, by looks or by scores; a sound one is not."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.data.embeddings import pairwise_distances
from ctxr.data.images import encode_jpeg
from ctxr.data.readers import read_dataset
from ctxr.data.world import render, sample_sets
from ctxr.errors import UsageError
from ctxr.metrics.compare import Interval
from ctxr.metrics.orders import arch_test, displaced, neighbour_test, seam_test
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.check_artifact import Check
from ctxr.pipelines.doctor import Doctor, run
from ctxr.pipelines.order_check import _check_numbers, _check_targets, judged, numbers_of
from ctxr.pipelines.order_check_scores import AS_TEXT, BY_NUMBER, _banded, moved

runner = CliRunner()
SETS = 24

Order = Callable[[int], npt.NDArray[np.int64]]


def walk(rng: np.random.Generator, order: Order | None = None) -> Doubles:
    """Distances of ten frames that drift away from the first, in another order if one is given."""
    steps = (rng.standard_normal((10, 16)).cumsum(axis=0) + 0.5 * rng.standard_normal((10, 16))).astype(np.float32)
    return np.asarray(pairwise_distances(steps if order is None else steps[order(10)]), np.float64)


def turned(rng: np.random.Generator) -> Order:
    """The order of ten frames that crossed a power of ten and were sorted as text."""
    return lambda count: np.roll(np.arange(count), int(rng.integers(1, count)))


def test_a_sound_order_is_hardly_ever_accused() -> None:
    states = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        states.append(judged([walk(rng) for _ in range(20)], "made up", rng).state)
    assert "problem" not in states
    assert states.count("note") <= 6


def test_tests_on_orders_without_meaning_hold_their_level() -> None:
    rng = np.random.default_rng(1)
    neighbours, seams = [], []
    for _ in range(200):
        sets = [np.asarray(pairwise_distances(rng.standard_normal((6, 4), np.float32))) for _ in range(8)]
        neighbours.append(neighbour_test(sets, rng, 99).p)
        seams.append(seam_test(sets, rng, 99))
    for found in (neighbours, seams):
        assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10


def test_shuffled_sets_look_shuffled_and_are_counted() -> None:
    rng = np.random.default_rng(2)
    found = judged([walk(rng, rng.permutation) for _ in range(40)], "made up", rng)
    assert (found.state, "look shuffled" in found.detail) == ("problem", True)


def test_some_sets_out_of_order_are_counted_and_noted() -> None:
    rng = np.random.default_rng(7)
    orders: list[Callable[[], Order]] = [lambda: rng.permutation, lambda: turned(rng)]
    for make in orders:
        half = [walk(rng, make() if number % 2 else None) for number in range(200)]
        assert 70 <= displaced(half) <= 140
        assert judged(half, "made up", rng).state == "note"


def test_sets_that_start_in_the_middle_are_told_from_shuffled_ones() -> None:
    rng = np.random.default_rng(3)
    found = judged([walk(rng, turned(rng)) for _ in range(30)], "made up", rng)
    assert found.state == "problem"
    assert "put together the wrong way round" in found.detail


def test_too_few_sets_accuse_nobody() -> None:
    rng = np.random.default_rng(4)
    assert judged([walk(rng, rng.permutation) for _ in range(5)], "made up", rng).state == "ok"
    assert neighbour_test([np.zeros((4, 4))], rng, 19).p == 1.0


def between(points: npt.NDArray[np.float64]) -> Doubles:
    """Distances of points, with a little noise."""
    return np.asarray(pairwise_distances(points.astype(np.float32)), np.float64)


def alike(rng: np.random.Generator) -> Doubles:
    return np.zeros((10, 10))


def scattered(rng: np.random.Generator) -> Doubles:
    return between(rng.standard_normal((10, 5)))


def flickering(rng: np.random.Generator) -> Doubles:
    return between(rng.standard_normal((10, 1)))


def panned_and_returned(rng: np.random.Generator) -> Doubles:
    there_and_back = np.array([0, 1, 2, 3, 4, 5, 4, 3, 2, 1])[:, None] * rng.standard_normal(16)
    return between(there_and_back + 0.3 * rng.standard_normal((10, 16)))


def turned_round_once(rng: np.random.Generator) -> Doubles:
    angles = 2 * np.pi * (np.arange(10) / 10 + rng.random())
    return between(np.c_[np.cos(angles), np.sin(angles), 0.1 * rng.standard_normal((10, 14))])


def shown_twice(rng: np.random.Generator) -> Doubles:
    """A scene, another one, and the first again."""
    first, last = sorted(1 + rng.permutation(9)[:2])
    other = (np.arange(10) >= first) & (np.arange(10) < last)
    return between(other[:, None] + 0.1 * rng.standard_normal((10, 16)))


@pytest.mark.parametrize("draw", [alike, scattered, flickering, panned_and_returned, turned_round_once, shown_twice])
def test_an_order_that_cannot_be_seen_is_noted_and_not_accused(draw: Callable[[np.random.Generator], Doubles]) -> None:
    states = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        states.append(judged([draw(rng) for _ in range(25)], "made up", rng).state)
    assert "problem" not in states
    assert "note" in states


def test_what_accuses_is_found_in_every_scrambled_copy() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        orders: list[Callable[[], Order]] = [lambda: rng.permutation, lambda: turned(rng)]  # noqa: B023
        for make in orders:
            assert judged([walk(rng, make()) for _ in range(25)], "made up", rng).state == "problem"


def test_points_without_structure_seldom_bend_like_an_arch() -> None:
    rng = np.random.default_rng(6)
    found = [arch_test([scattered(rng) for _ in range(8)], rng, 99) for _ in range(200)]
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10


def write_copy(folder: Path, renamed: bool = False) -> Path:
    """A release of drawn films whose frames cross a power of ten; `renamed` numbers them anew after sorting them as text."""
    rng = np.random.default_rng(5)
    valid: dict[str, dict[str, str]] = {}
    for place, drawn in enumerate(sample_sets(rng, SETS, "video")):
        name = f"MSR-VTT-video{place}-shot0_0"
        first = int(rng.integers(2, 9))
        numbers = list(range(first, first + 10))
        files = {
            number: encode_jpeg(render(scene, 64, 64)) for number, scene in zip(numbers, drawn.scenes, strict=True)
        }
        if renamed:
            files = dict(enumerate(files[number] for number in sorted(numbers, key=str)))
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
    return {check.name: check for check in run(Doctor(artifact=release, workdir=work, **more))}  # type: ignore[arg-type]


def test_a_sound_release_is_in_order_and_its_vectors_are_kept(sound: Path, tmp_path: Path) -> None:
    found = looked(sound, tmp_path)
    assert {check.state for check in found.values()} == {"ok"}
    assert found["order of frames"].detail == f"numbers ascend in {SETS} of {SETS} sets of video"
    assert found["targets"].detail.startswith(f"{3 * SETS} targets stand")
    kept = list((tmp_path / ".ctxr-cache" / "encoded").iterdir())
    assert kept
    assert looked(sound, tmp_path) == found


def test_a_copy_that_was_numbered_anew_after_a_sort_as_text_is_seen_by_its_frames(tmp_path: Path) -> None:
    copy = write_copy(tmp_path / "copy", renamed=True)
    found = looked(copy, tmp_path)
    assert found["order of frames"].state == "ok"  # names tell nothing any more
    assert found["frames in time"].state == "problem"
    done = runner.invoke(app, ["doctor", str(copy), "--workdir", str(tmp_path)])
    assert done.exit_code == 5


def test_sets_that_are_sorted_as_text_are_named_without_looking_at_a_picture(sound: Path) -> None:
    dataset = read_dataset(sound)

    def scrambled(images: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(images, key=lambda name: dataset.images[name].path))

    sets = tuple(msgspec.structs.replace(one, images=scrambled(one.images)) for one in dataset.sets)
    wrong = replace(dataset, sets=sets)
    numbers = {one.id: found for one in wrong.sets if (found := numbers_of(wrong, one)) is not None}
    order = _check_numbers(wrong, numbers)
    assert order.state == "problem"
    assert "sorted by name as text" in order.detail
    assert "img2 before img10" in order.cure
    (targets,) = _check_targets(wrong, numbers)
    assert (targets.state, "by number and another one in their set" in targets.detail) == ("problem", True)


def test_a_release_without_pictures_says_what_could_not_be_looked_at(sound: Path, tmp_path: Path) -> None:
    shutil.copy(sound / "valid_data.json", tmp_path / "valid_data.json")
    found = looked(tmp_path, tmp_path / "work")
    assert found["frames in time"] == Check(
        "frames in time", "note", "no pictures here: only numbers and targets could be looked at"
    )
    assert {check.state for check in found.values()} == {"note"}


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
    found = looked(sound, tmp_path, scores=(str(file),), encoder="")["targets by model"]
    assert found.state == "problem"
    assert found.detail.endswith(f"the targets look {meant}")


def test_scores_of_a_sound_dataset_accuse_nothing(sound: Path, tmp_path: Path) -> None:
    for seed in range(10):
        file = scores(tmp_path / "model.jsonl", sound, "", seed)
        found = looked(sound, tmp_path, scores=(str(file),), encoder="")
        assert found["targets by model"].state == "ok"


def test_scores_of_other_queries_are_told(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "model.jsonl").write_text('{"query": "x", "candidate": "y", "value": 1}\n')
    found = looked(sound, tmp_path, scores=(str(tmp_path / "model.jsonl"),), encoder="")
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
    assert (found.state, "12.2 % a copy with frames sorted as text" in found.detail) == (state, True)
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
        ({"encoder": "no-such-model"}, "no-such-model"),
        ({"scores": ("nothing.jsonl",)}, "nothing.jsonl is neither"),
        ({"seed": -1}, "--seed -1 is out of range"),
        ({"artifact": None, "scores": ("x",)}, "--scores needs the dataset"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(
    sound: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run(replace(Doctor(artifact=sound, workdir=tmp_path), **more))
