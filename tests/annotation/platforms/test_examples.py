"""A file of each platform as it really looks, written by hand: spelling, zones, gaps, and things nobody asked for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ctxr.annotation.journal.identities import Visit
from ctxr.annotation.platforms import label_studio, prolific
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks.tag import NOTES
from ctxr.errors import DataError

KEY = bytes(range(32))
PROTOCOL = Protocol()
EXAMPLES = Path(__file__).parent / "examples"

HARBOUR = Unit(
    "u-harbour", "retrieve", "harbour", "harbour", tuple(f"harbour/img{number}" for number in (3, 7, 12, 20)), True, "valid",
    query="q-harbour", texts=("Two boats, and the gull has left the mast.",), text_ids=("t",), truth=("harbour/img12",),
    needed=2, most=3, full=True,
)  # fmt: skip
KITCHEN = Unit(
    "u-kitchen", "tag", "kitchen", "kitchen", ("kitchen/img1", "kitchen/img2"), True, "valid", target="kitchen/img2",
    query="tag/q-kitchen", texts=("=The pan & the <lid> are not on the stove any more.",), labels=tuple(NOTES), needed=2, most=2,
)  # fmt: skip
MARKET = Unit("u-market", "describe", "market", "market", ("market/img1", "market/img2"), True, target="market/img1")
UNITS = {unit.id: unit for unit in (HARBOUR, KITCHEN, MARKET)}
ADDRESSES = {name: f"https://img.example.org/{name}.jpg" for unit in UNITS.values() for name in unit.images}
EXPORTS = [label_studio.ExportedUnits(UNITS, ADDRESSES, PROTOCOL)]


def told(answers: Sequence[Answer]) -> list[tuple[Any, ...]]:
    return [(answer.unit, dict(answer.values), answer.at, answer.seconds) for answer in answers]


def test_an_export_of_a_labelling_project() -> None:
    read = label_studio.read_export(EXAMPLES / "label-studio.json", EXPORTS, KEY)
    *others, (unit, values, *when) = told([row.answer for row in read.rows])
    assert others == [
        ("u-harbour", {"pick": ("harbour/img20",)}, "2026-11-20T09:01:00.000Z", 21.4),
        ("u-kitchen", {"tags": ("temporal", "negation")}, "2026-11-20T09:03:00.500Z", None),
        ("u-kitchen", {"tags": ("none",)}, "2026-11-20T09:04:00.000Z", 8.0),
    ]
    assert (unit, *when) == ("u-market", "2026-11-20T09:05:00.000Z", 33.0)
    assert values["description"][0].startswith("A red awning ")
    assert [row.answer.worker for row in read.rows[:2]] == [pseudonym(KEY, "label-studio", "10")] * 2
    assert [(refusal.code, refusal.where) for refusal in read.refused] == [("nobody", "label-studio.json:3:1006")]


def test_a_page_of_submissions() -> None:
    worker = pseudonym(KEY, "prolific", "5f2d6a8c1b3e4d5f6a7b8c9d")
    stored = [
        Answer("u-harbour", worker, {"pick": ("harbour/img3",)}, HARBOUR.images, 0, "2026-11-20", 9.0, "prolific")
    ]
    told = ("66b1f0c2a4d5e6f708192a3b", "5f2d6a8c1b3e4d5f6a7b8c9d", "66b1efffa4d5e6f708192a00")
    visits = [Visit(*told, worker, "find", 0, datetime(2026, 11, 20, tzinfo=UTC))]
    read = prolific.confirmed_answers(EXAMPLES / "submissions.json", stored, visits, ["66b1efffa4d5e6f708192a00"], KEY)
    assert [row.answer for row in read.rows] == stored
    with pytest.raises(DataError, match=r"submissions\.json:1: .* is of study '66b1efffa4d5e6f708192a00'"):
        prolific.confirmed_answers(EXAMPLES / "submissions.json", stored, visits, ["another"], KEY)
