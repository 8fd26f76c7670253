"""Documents drawn from captions: what is linked is known, splits share no image, and positions say nothing."""

import math
from collections import Counter

import numpy as np
import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document, documents_of
from ctxr.datasets.splits import SPLITS
from ctxr.errors import DataError
from ctxr.pipelines.curation.documents import CONSTRUCTIONS, construct
from ctxr.store.records import Image, ImageSet, Judgment, Kind, Query, SplitName, Text

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
        sets.append(ImageSet(name, kind, ids, name, name, None, math.nan, math.nan))
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
