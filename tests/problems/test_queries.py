"""What models are asked about a dataset: every text, every relevant image, and what belongs to a query in payload tables."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.problems.queries import queries_of
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import SET_KINDS, SetKind
from ctxr.store.records import Dialogue, Image, ImageSet, Judgment, Query, Record, Text, Turn
from ctxr.store.tables import PAYLOADS, Owner, PayloadTable

IMAGES = ("film/img1", "film/img2", "film/img3")
TALK = Dialogue(
    "q", "unit", "film/img2", ("ann", "ben"), (Turn(1, "A red one?"), Turn(0, "Yes."), Turn(0, "", True)), 2
)


def dataset() -> Dataset:
    texts = [Text("q/0", "A red one?", "ben", 0), Text("q/1", "Yes.", "ann", 1)]
    return Dataset(
        name="talks",
        root=None,
        sets=(ImageSet("film", "video", IMAGES, "film", "film", 0, 0.1, 0.2),),
        images={name: Image(name, "", "", "film", 0, 0, place) for place, name in enumerate(IMAGES)},
        texts={text.id: text for text in texts},
        queries={"p": Query("p", "film", ("q/1",)), "q": Query("q", "film", ("q/0", "q/1"))},
        judgments=tuple(
            Judgment("q", image, "gold", value) for image, value in zip(IMAGES, (1.0, 0.0, 1.0), strict=True)
        ),
        payloads={"dialogues": (TALK,)},
    )


def test_a_query_keeps_its_texts_with_authors_and_every_relevant_image() -> None:
    bare, full = queries_of(dataset())
    assert (bare.texts[0].author, bare.targets, bare.target, bare.payload) == ("ann", (), None, {})
    assert [(text.author, text.order, text.text) for text in full.texts] == [
        ("ben", 0, "A red one?"),
        ("ann", 1, "Yes."),
    ]
    assert (full.text, full.targets, full.ordered) == ("A red one? Yes.", (0, 2), True)
    assert full.payload == {"dialogues": [TALK]}
    assert hash(full) == hash(replace(full, payload={}))


class Note(Record, frozen=True):
    KEY = ("id",)
    id: str


def test_a_query_gets_the_rows_of_its_texts_its_images_and_its_set(monkeypatch: pytest.MonkeyPatch) -> None:
    owners: dict[Owner, tuple[str, ...]] = {
        "text": ("q/0", "q/1", "z"),
        "image": IMAGES[1:],
        "image_set": ("film", "z"),
    }
    for of in owners:
        monkeypatch.setitem(PAYLOADS, f"{of}s", PayloadTable(Note, of=of))
    bare, full = queries_of(replace(dataset(), payloads={f"{of}s": (*map(Note, ids),) for of, ids in owners.items()}))
    assert full.payload == {
        "texts": [Note("q/0"), Note("q/1")],
        "images": [Note(image) for image in IMAGES[1:]],
        "image_sets": [Note("film")],
    }
    assert bare.payload == {**full.payload, "texts": [Note("q/1")]}


def test_the_only_target_of_a_query_with_several_is_refused() -> None:
    with pytest.raises(DataError, match="'q' has 2 relevant images") as caught:
        _ = queries_of(dataset(), {"q"})[0].target
    assert caught.value.hint


def change_author(one: Dataset) -> Dataset:
    return replace(one, texts=one.texts | {"q/0": msgspec.structs.replace(one.texts["q/0"], author="eve")})


def reject(one: Dataset) -> Dataset:
    return replace(one, judgments=one.judgments[:1])


def talk_on(one: Dataset) -> Dataset:
    longer = msgspec.structs.replace(TALK, turns=(*TALK.turns, Turn(1, "Nice.")))
    return replace(one, payloads={"dialogues": (longer,)})


@pytest.mark.parametrize("change", [change_author, reject, talk_on])
def test_the_hash_of_queries_covers_texts_targets_and_payload(change: Callable[[Dataset], Dataset]) -> None:
    one = dataset()
    assert sha256_of(queries_of(one)) == sha256_of(queries_of(dataset()))
    assert sha256_of(queries_of(change(one))) != sha256_of(queries_of(one))


def test_a_new_kind_of_sets_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SET_KINDS, "keyframes", SetKind(ordered=True))
    one = dataset()
    one = replace(one, sets=(msgspec.structs.replace(one.sets[0], kind="keyframes"),))
    assert all(query.ordered for query in queries_of(one))
    assert not queries_of(replace(one, sets=(msgspec.structs.replace(one.sets[0], kind="photos"),)))[0].ordered
