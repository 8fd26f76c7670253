"""Small sets and units for the tests of the crowd."""

from collections.abc import Mapping
from typing import Any

from ctxr.annotation.forms import Choice, Mark, Option, Order, Scale, Write
from ctxr.annotation.records import Answer, OwnQuestions, Unit
from ctxr.datasets.dataset import Dataset
from ctxr.store.records import Image, ImageSet, Judgment, Query, SplitName, Text

TEN = tuple(f"clip/img{place}" for place in range(10))

WORDS = (Option("a", "Alpha"), Option("b", "Beta", "the second"), Option("c", "Gamma"))
EVERY_KIND = OwnQuestions(
    "Look at the cat",
    ("Say what you see.",),
    (
        Choice("look", "Which is it?", WORDS),
        Choice("many", "Which are there?", WORDS, several=True, optional=True, note="none is an answer, too"),
        Scale("good", "How good?", -1, 3, "bad", "good"),
        Mark("spot", "Where is its nose?"),
        Mark("area", "Where is it?", box=True, note="all of it"),
        Order("rank", "Which comes first?", WORDS),
        Order("shown", "Which picture is best?", optional=True),
        Write("why", "Why?", most_characters=40, optional=True),
    ),
)
OWN_ANSWER: dict[str, tuple[str, ...]] = {
    "look": ("b",),
    "many": ("a", "c"),
    "good": ("-1",),
    "spot": ("0.2500,1.0000",),
    "area": ("0.3333,0.0000,0.6667,1.0000",),
    "rank": ("c", "a", "b"),
    "shown": TEN[::-1],
    "why": ("it sits",),
}
"""An answer to each of them."""


def image_set(name: str = "clip-shot0_0", kind: str = "video", group: str = "clip") -> ImageSet:
    images = tuple(f"{name}/img{place}" for place in range(10))
    return ImageSet(name, kind, images, group, group, 0 if kind == "video" else None, 0.2, 0.4)


def dataset(
    *sets: ImageSet, splits: dict[str, SplitName] | None = None, described: bool = False, author: str = "w-author"
) -> Dataset:
    """Sets with, when `described`, one description of each set's fourth image."""
    images = {name: Image(name, f"images/{name}.jpg", "", one.group, 64, 48) for one in sets for name in one.images}
    made = Dataset("made", None, sets, images, splits=splits or {})
    if described:
        for one in sets:
            text = Text(f"{one.id}/3", f"the fourth thing of {one.id} is seen here", author)
            made.texts[text.id] = text
            made.queries[text.id] = Query(text.id, one.id, (text.id,))
        judgments = tuple(Judgment(f"{one.id}/3", one.images[3], "gold", 1.0) for one in sets)
        made = Dataset("made", None, sets, images, made.texts, made.queries, judgments, splits or {})
    return made


def unit(task: str, **more: Any) -> Unit:
    given: dict[str, Any] = {
        "id": f"{task}-1",
        "image_set": "clip-shot0_0",
        "group": "clip",
        "images": TEN,
        "ordered": True,
    }
    return Unit(**given | {"task": task} | more)


def answer(
    one: Unit, worker: str = "w-anna", values: Mapping[str, tuple[str, ...]] | None = None, **more: tuple[str, ...]
) -> Answer:
    return Answer(one.id, worker, {**(values or {}), **more}, one.images, 0, "2026-01-02T03:04:05Z", 12.5, "local")
