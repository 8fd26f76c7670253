"""Ten-image sets of a published release: which descriptions also hold for another image of their set."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import SetConflict, open_base
from ctxr.engine.progress import SILENT
from ctxr.errors import DataError, UsageError
from ctxr.models.entailment.base import Claim, Judge
from ctxr.pipelines.revision.candidates import with_spread
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import galleries_of
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.records import ImageSet
from ctxr.store.tables import read_table
from tests.releases import TRAIN, VALID, draw, draw_sets, write_release


@dataclass
class LikesImg9(Judge):
    """Says that whatever is said holds for img9."""

    name: str = "likes-img9"
    fingerprint: str = "9"
    threshold: float = 0.5
    trained_on: frozenset[str] = frozenset()
    premises: tuple[str, ...] = ()

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> np.typing.NDArray[np.float32]:
        self.premises += tuple(claim.premise for claim in claims)
        return np.array([0.9 if claim.image and claim.image.stem == "img9" else 0.1 for claim in claims], np.float32)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = write_release(tmp_path / "release", test=None)
    draw_sets(folder, [*TRAIN, *VALID])
    return folder


def test_descriptions_that_hold_for_another_frame_are_listed_and_judged(release: Path, tmp_path: Path) -> None:
    judge = LikesImg9()
    config = ReviseLabels(release, workdir=tmp_path / "work", entail=True, retriever="hashed")
    report = run(config, classifier=judge)
    before = read_dataset(release)
    also = read_table(tmp_path / "work" / "revised" / "rounds" / "001" / "also.jsonl", SetConflict)
    expected = {
        (query.id, image)
        for query, image_set, place in before.targets()
        for image in image_set.images
        if image.endswith("img9") and image != image_set.images[place]
    }
    assert {(row.caption, row.image) for row in also} == expected
    assert report.tables["also"].rows[0][3] == pytest.approx(0.9)
    assert "toy" not in " ".join(report.tables["also"].columns)
    # an image is held against its own description where it has one
    assert set(judge.premises) >= {"", "A red hat."}
    after = read_dataset(tmp_path / "work" / "revised")
    assert [one.images for one in after.sets] == [one.images for one in before.sets]
    assert (after.texts, after.queries, after.splits) == (before.texts, before.queries, before.splits)
    assert set(before.judgments) < set(after.judgments)
    assert all(0 < (one.closest or 0) < (one.mean_distance or 0) < 2 for one in after.sets)
    run(replace(config, entail=False, undo=True))
    assert set(read_dataset(tmp_path / "work" / "revised").judgments) == set(before.judgments)


def test_a_round_of_a_release_is_up_to_date_by_hashes_alone(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = LikesImg9()
    config = ReviseLabels(release, workdir=tmp_path / "work", entail=True, retriever="hashed")
    both = (config, replace(config, unlicensed=True))
    assert [run(one, classifier=judge).did for one in both] == ["added", "added"]
    monkeypatch.setattr("ctxr.datasets.rounds.read_dataset", None)
    assert [run(one, classifier=judge).did for one in both] == ["up to date", "up to date"]


def test_rounds_of_a_release_whose_pictures_were_exchanged_are_not_up_to_date(release: Path, tmp_path: Path) -> None:
    config = ReviseLabels(release, workdir=tmp_path / "work", entail=True, retriever="hashed")
    content = open_base(release, config.workdir, SILENT).content
    run(config, classifier=LikesImg9())
    first, second, *_ = sorted(release.rglob("*.jpg"))
    first.write_bytes(second.read_bytes())
    assert open_base(release, config.workdir, SILENT).content != content
    with pytest.raises(DataError, match=str(release)):
        run(config, classifier=LikesImg9())


def test_distances_are_those_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.pipelines.revision.candidates.BLOCK", 3)
    vectors = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [float(np.linalg.norm(vectors[i] - vectors[j])) for i in range(8) for j in range(i)]
    image_set = ImageSet("s", "photos", (), "s", "s", None, 0.0, 0.0)
    whole, alone = with_spread(image_set, vectors), with_spread(image_set, vectors[:1])
    assert (whole.closest, whole.mean_distance) == pytest.approx((min(pairs), np.mean(pairs)), abs=1e-5)
    assert (alone.closest, alone.mean_distance) == (0.0, 0.0)


def test_a_picture_alone_leaves_nothing_to_look_at_and_blank_captions_are_none(tmp_path: Path) -> None:
    for name, pictures, told in (("alone", 1, ["A hat.", "A red hat."]), ("blank", 2, ["A hat.", " "])):
        folder = tmp_path / name
        for number in range(pictures):
            draw(folder / "val" / f"{number}.jpg", number)
        images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(pictures)]
        rows = [{"id": number, "image_id": 0, "caption": text} for number, text in enumerate(told)]
        (folder / "captions_val.json").write_text(json.dumps({"images": images, "annotations": rows}))
    judge = LikesImg9()
    config = ReviseLabels(tmp_path / "alone", workdir=tmp_path / "work", entail=True, retriever="hashed")
    with pytest.raises(UsageError, match="no pair is") as caught:
        run(config, classifier=judge)
    assert "more pictures" in caught.value.hint
    assert not (tmp_path / "work" / "revised").exists()
    blank = read_dataset(tmp_path / "blank")
    text = replace(blank, texts={name: msgspec.structs.replace(one, text=" ") for name, one in blank.texts.items()})
    assert galleries_of(text, {}, "all", 0) == []
    assert (
        "2 pictures, 1 candidates"
        in run(replace(config, dataset=tmp_path / "blank"), classifier=judge).facts["evaluated"]
    )


def test_pairs_by_a_toy_are_marked_where_they_are_shown(release: Path, tmp_path: Path) -> None:
    judge = LikesImg9()
    judge.toy = True
    report = run(ReviseLabels(release, workdir=tmp_path / "work", entail=True, retriever="hashed"), classifier=judge)
    assert [head for head in report.tables["also"].columns if "toy" in head] == [report.tables["also"].columns[2]]


def test_a_folder_without_splits_is_told_how_to_get_them(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        draw(photos / f"{number}.jpg", number)
    config = ReviseLabels(photos, workdir=tmp_path / "work", entail=True, retriever="hashed")
    for head, splits in (
        ("file_name,text", ("",) * 4),
        ("file_name,text,split", (",train", ",train", ",test", ",test")),
    ):
        rows = [f"{number}.jpg,A thing {number}.{split}" for number, split in enumerate(splits)]
        (photos / "metadata.csv").write_text("\n".join([head, *rows]))
        planned = run(replace(config, entail=False), classifier=LikesImg9()).facts
        made = run(replace(config, out=tmp_path / f"revised{len(head)}"), classifier=LikesImg9()).facts
        assert [("metadata.csv" in facts.get("splits", "")) for facts in (planned, made)] == [head.count(",") == 1] * 2
