"""`ctxr build-documents`: the constructions, and an artifact that is whole and equal when it is made again."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document, documents_of, is_documents
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.curation.config import BuildDocuments
from ctxr.pipelines.curation.documents import CONSTRUCTIONS, construct, run
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.store.records import Image, ImageSet, Judgment, Kind, Query, Record, SplitName, Text
from ctxr.store.tables import PAYLOADS, Owner, PayloadTable
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.world_dataset import write_world_dataset

WANTED: dict[SplitName, int] = {"train": 12, "valid": 6, "test": 6}


def captioned(
    kind: Kind, size: int, described: int, groups: int = 12, splits: bool = True, captions: int = 2
) -> Dataset:
    """Groups of `size` images, the first `described` odd ones of a video, or the first ones of an album, with captions."""
    images: dict[str, Image] = {}
    sets, texts, queries, judgments = [], {}, {}, []
    for group in range(groups):
        name = f"g{group:02d}"
        ids = tuple(f"{name}/{number}" for number in range(size))
        images |= {one: Image(one, "", "", name, 0, 0) for one in ids}
        sets.append(ImageSet(name, kind, ids, name, name, None, None, None))
        for place in [*range(kind == "video", size, 1 + (kind == "video"))][:described]:
            for number in range(captions):
                key = f"{ids[place]}?{number}"
                texts[key], queries[key] = Text(key, f"text {key}", "w"), Query(key, name, (key,))
                judgments.append(Judgment(key, ids[place], "gold", 1.0))
    sides = {one.id: SPLITS[number % 3] for number, one in enumerate(sets)} if splits else {}
    return Dataset("d", None, tuple(sets), images, texts, queries, tuple(judgments), sides)


ALBUMS, STORIES = captioned("photos", 8, 7, groups=36), captioned("video", 10, 5)


def source(kind: str) -> Dataset:
    return STORIES if kind in ("story-sis", "recipe") else ALBUMS


def owner(text: str) -> str:
    return text.removeprefix("text ").partition("?")[0]


def truth(document: Document) -> np.ndarray:
    return np.array([[float(owner(text) == image) for image in document.images] for text in document.texts])


@pytest.mark.parametrize(
    ("kind", "shape", "links"),
    [("coco", (10, 10), 5), ("story-dii", (5, 5), 5), ("story-sis", (5, 5), 5), ("dii-stress", (50, 5), 5)],
)
def test_every_pair_is_judged_and_a_text_is_linked_to_the_image_it_was_written_for(
    kind: str, shape: tuple[int, int], links: int
) -> None:
    documents = documents_of(construct(source(kind), kind, WANTED, 0))
    assert Counter(one.split for one in documents) == WANTED
    for one in documents:
        assert (one.links.shape, one.links.sum()) == (shape, links)
        np.testing.assert_array_equal(one.links, truth(one))


def test_the_images_of_a_step_are_those_up_to_the_next_described_one() -> None:
    for one in documents_of(construct(STORIES, "recipe", WANTED, 0)):
        assert one.links.shape == (5, 9)
        for text, row in zip(one.texts, one.links, strict=True):
            name, _, place = owner(text).partition("/")
            steps = {f"{name}/{number}" for number in range(int(place), min(int(place) + 2, 10))}
            assert {image for image, linked in zip(one.images, row, strict=True) if linked} == steps


@pytest.mark.parametrize("kind", ["story-dii", "story-sis"])
def test_a_story_is_of_one_album(kind: str) -> None:
    for one in documents_of(construct(source(kind), kind, WANTED, 0)):
        assert len({image.partition("/")[0] for image in one.images}) == 1


def test_a_stress_document_is_a_story_with_captions_of_other_albums() -> None:
    stories, stressed = (documents_of(construct(ALBUMS, kind, WANTED, 3)) for kind in ("story-dii", "dii-stress"))
    for one, other in zip(stories, stressed, strict=True):
        assert ({*one.images}, {*one.texts} <= {*other.texts}) == ({*other.images}, True)
        album = one.images[0].partition("/")[0]
        assert {text for text in other.texts if owner(text).startswith(f"{album}/")} == {*one.texts}


@pytest.mark.parametrize("kind", CONSTRUCTIONS)
def test_the_same_seed_draws_the_same_and_another_one_other_documents(kind: str) -> None:
    first, again, other = (construct(source(kind), kind, WANTED, seed) for seed in (1, 1, 2))
    assert repr(first) == repr(again)
    assert first.texts != other.texts


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("kind", ["coco", "story-dii", "recipe"])
def test_no_image_is_in_two_splits(kind: str, splits: bool) -> None:
    dataset = captioned("video" if kind == "recipe" else "photos", 10, 5, groups=30, splits=splits)
    built = construct(dataset, kind, WANTED, 0)
    sides = {(image, built.split_of(one)) for one in built.sets for image in one.images}
    assert len(sides) == len({image for image, _ in sides})
    assert {side for _, side in sides} == {*SPLITS}
    assert len(built.notes) == (not splits)


class Note(Record, frozen=True):
    id: str


def test_payload_tables_are_kept_for_images_and_belong_to_no_new_set_or_query(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: dict[Owner, list[str]] = {
        "image": [*ALBUMS.images],
        "image_set": ["g00"],
        "query": [*ALBUMS.queries],
        "text": [*ALBUMS.texts],
    }
    for of in ids:
        monkeypatch.setitem(PAYLOADS, f"{of}_notes", PayloadTable(Note, of=of))
    notes = {f"{of}_notes": tuple(map(Note, names)) for of, names in ids.items()}
    built = construct(replace(ALBUMS, payloads=notes), "story-dii", WANTED, 0)
    assert {row.key()[0] for row in built.tables()["image_notes"]} == set(built.images) < set(ALBUMS.images)
    assert [*built.payloads] == ["image_notes"]


def test_places_in_a_document_say_nothing_about_links() -> None:
    documents = documents_of(construct(ALBUMS, "story-dii", {"train": 400}, 0))
    counts = sum(one.links for one in documents)
    assert np.abs(counts / len(documents) - 0.2).max() < 0.08


def test_a_split_gives_no_document_twice_and_says_how_many_it_gives() -> None:
    built = construct(captioned("photos", 5, 5, groups=3, captions=1), "story-dii", {"train": 9, "test": 0}, 0)
    (note,) = built.notes
    assert (len(built.sets), note.startswith("train gives 1 of 9 ")) == (1, True)


def test_photos_of_a_gallery_are_no_album_and_are_dealt_one_by_one() -> None:
    gallery = captioned("photos", 60, 60, groups=1, splits=False)
    with pytest.raises(DataError, match="album of 5 captioned photos") as raised:
        construct(gallery, "story-dii", WANTED, 0)
    assert "coco" in raised.value.hint
    built = construct(gallery, "coco", WANTED, 0)
    dealt = {image: built.split_of(one) for one in built.sets for image in one.images}
    assert Counter(dealt.values()) == {"train": 30, "valid": 15, "test": 15}


def test_documents_are_not_made_of_documents() -> None:
    with pytest.raises(DataError, match="holds documents"):
        construct(construct(ALBUMS, "coco", WANTED, 0), "coco", WANTED, 0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_dataset(tmp_path_factory.mktemp("world") / "world", sets=5)


def recipes(dataset: Path, out: Path, **options: int) -> BuildDocuments:
    return replace(BuildDocuments("recipe", dataset, out=out, train=3, valid=1, test=0), **options)  # type: ignore[arg-type]


def test_equal_runs_are_byte_equal_and_a_second_one_does_nothing(world: Path, tmp_path: Path) -> None:
    report = run(recipes(world, tmp_path / "a"))
    assert (report.up_to_date, report.notes, report.counts["splits"]) == (
        False,
        [],
        {"train": 3, "valid": 1, "test": 0},
    )
    run(recipes(world, tmp_path / "b"))
    assert same_tree(tmp_path / "a", tmp_path / "b")
    assert run(recipes(world, tmp_path / "a")).up_to_date
    assert not run(recipes(world, tmp_path / "a", seed=1)).up_to_date
    assert {check.state for check in check_artifact(tmp_path / "a", Silent())} == {"ok"}


def test_documents_are_the_dataset_of_a_project_without_another(world: Path, tmp_path: Path) -> None:
    run(recipes(world, tmp_path / "documents"))
    dataset = open_dataset(None, tmp_path, Silent())
    assert is_documents(dataset)
    for one in documents_of(dataset):
        assert all((tmp_path / "documents" / dataset.images[name].path).is_file() for name in one.images)
        assert {*one.links.sum(axis=0)} == {1}
    write_world_dataset(tmp_path / "dataset")
    assert not is_documents(open_dataset(None, tmp_path, Silent()))


def test_a_dataset_that_was_edited_is_refused(tmp_path: Path) -> None:
    texts = write_world_dataset(tmp_path / "world", sets=5) / "texts.jsonl"
    texts.write_bytes(texts.read_bytes().replace(b"The", b"A", 1) + b"\n")
    with pytest.raises(DataError, match=r"texts\.jsonl was changed"):
        run(recipes(tmp_path / "world", tmp_path / "documents"))


def test_a_failure_keeps_the_documents_that_were_there(world: Path, tmp_path: Path) -> None:
    run(recipes(world, tmp_path / "documents"))
    with pytest.raises(DataError, match="video set with 5 described images"):
        run(BuildDocuments("story-sis", world, out=tmp_path / "documents"))
    assert run(recipes(world, tmp_path / "documents")).up_to_date


def test_a_picture_that_was_changed_is_named(tmp_path: Path) -> None:
    world = write_world_dataset(tmp_path / "world")
    for picture in (world / "images").rglob("*.jpg"):
        picture.write_bytes(b"changed")
    with pytest.raises(DataError, match=r"img.*was changed"):
        run(recipes(world, tmp_path / "out"))


def test_no_document_is_a_wrong_number_of_documents(world: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no document"):
        run(recipes(world, tmp_path / "out", train=0, valid=0))


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["recipe", "--train", "3", "--valid", "1", "--test", "9"], 0, "test gives 0 of 9 documents"),
        (["coco", "--train", "9", "--valid", "9", "--test", "9"], 3, "15 captioned images"),
        (["stories"], 2, "stories"),
    ],
)
def test_the_command_says_what_it_made_or_why_not(
    world: Path, tmp_path: Path, words: list[str], code: int, shown: str
) -> None:
    done = CliRunner().invoke(app, ["build-documents", *words, "--dataset", str(world), "-w", str(tmp_path)])
    assert (done.exit_code, shown in done.output) == (code, True)
