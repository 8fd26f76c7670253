"""Label Studio: one project for each rater, in its documented words, with nothing in it that a rater must not know."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree as SafeTree

from ctxr.annotation.platforms import label_studio
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.errors import DataError
from tests.annotation.platforms.test_examples import ADDRESSES, EXAMPLES, HARBOUR, KEY, KITCHEN, MARKET, UNITS

PROTOCOL = Protocol()

TAGS = {
    "View": {"className"},
    "Style": set(),
    "Header": {"value", "size"},
    "Text": {"name", "value"},
    "Image": {"name", "value", "zoom", "zoomControl"},
    "Choices": {"name", "toName", "choice", "showInline", "required", "requiredMessage"},
    "Choice": {"value", "alias", "hotkey", "hint"},
    "TextArea": {
        "name", "toName", "rows", "maxSubmissions", "editable", "placeholder", "required", "requiredMessage",
    },
}  # fmt: skip
"""Tags and attributes of the documentation that are used."""


def configs(*units: Unit) -> dict[str, Element]:
    files = label_studio.project_files(units, ADDRESSES, PROTOCOL)
    return {name: SafeTree.fromstring(content.decode()) for name, content in files.items() if name.endswith(".xml")}


def test_a_rater_has_a_project_of_their_own_and_sees_each_task_once() -> None:
    files = label_studio.project_files([HARBOUR, KITCHEN], ADDRESSES, PROTOCOL)
    tasks = {name: json.loads(content) for name, content in files.items() if name.endswith("tasks.json")}
    assert sorted(files) == sorted(
        f"rater-{slot}-{shape}/{name}"
        for slot, shape in ((1, 1), (2, 1), (3, 1), (1, 2), (2, 2))
        for name in ("config.xml", "tasks.json")
    )
    assert {len(listed) for listed in tasks.values()} == {1}
    assert [tasks[f"rater-{slot}-1/tasks.json"][0]["data"]["ctxr_slot"] for slot in (1, 2, 3)] == [0, 1, 2]


@pytest.mark.parametrize("unit", [HARBOUR, KITCHEN, MARKET])
def test_a_configuration_uses_documented_words_and_names_what_is_there(unit: Unit) -> None:
    data = label_studio.sheet_of(unit, 0, PROTOCOL.seed).data(ADDRESSES)
    for root in configs(unit).values():
        names = {tag.get("name") for tag in root.iter() if tag.tag in ("Text", "Image")}
        for tag in root.iter():
            assert set(tag.keys()) <= TAGS[tag.tag], tag.tag
            assert tag.get("toName") is None or tag.get("toName") in names
            for value in tag.attrib.values():
                assert all(name in data for name in re.findall(r"\$(\w+)", value))


def test_the_truth_is_nowhere_in_a_project() -> None:
    unit = Unit(
        "u-1", "retrieve", "s", "g", ("s/one", "s/two"), query="secret-query", texts=("A boat.",), truth=("s/two",),
        authors=("w-secret",), split="test",
    )  # fmt: skip
    files = label_studio.project_files([unit], {"s/one": "https://x/1", "s/two": "https://x/2"}, PROTOCOL)
    for name, content in files.items():
        text = content.decode()
        assert not re.search("truth|secret|w-secret|gold", text), name
        # each picture is named twice: in the order, and by its address
        assert text.count("s/two") == text.count("s/one")


def changed(tmp_path: Path, change: Any) -> Path:
    rows = json.loads((EXAMPLES / "label-studio.json").read_text())
    change(rows)
    path = tmp_path / "export.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows[1]["data"].update(ctxr_unit="u-other"),
            r"export\.json:2: .*'u-other'",
        ),
        (lambda rows: rows[1]["data"].pop("ctxr_unit"), r"export\.json:2: .*ctxr_unit"),
        (lambda rows: rows[1]["data"].update(text_1="Edited."), r"export\.json:2: text_1 is 'Edited\.'"),
        (lambda rows: rows[0]["data"]["ctxr_order"].reverse(), r"export\.json:1: ctxr_order is"),
        (lambda rows: rows[0]["data"].update(ctxr_slot=3), r"export\.json:1: ctxr_slot is 3"),
        (lambda rows: rows[0]["data"].update(ctxr_slot="0"), r"export\.json:1: ctxr_slot is '0'"),
        (lambda rows: rows[0]["data"].update(ctxr_slot=False), r"export\.json:1: ctxr_slot is False"),
        (lambda rows: rows[2].pop("annotations"), r"export\.json:3: .*annotations"),
        (lambda rows: rows[2]["annotations"][0].update(created_at="soon"), r"'soon' is not"),
        (
            lambda rows: rows[2]["annotations"][0].update(created_at="9999-12-31T23:00:00-08:00"),
            r"'9999-.*' is not",
        ),
    ],
)
def test_what_was_changed_is_refused_with_its_row(change: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        label_studio.read_export(changed(tmp_path, change), UNITS, ADDRESSES, PROTOCOL, KEY)


@pytest.mark.parametrize("result", [5, [5], [{"from_name": 5}], [{"value": 5}]])
@pytest.mark.parametrize("value", [None, 5, {"choices": 5}, {"choices": None}, {"choices": [3]}, {"text": 5}])
def test_a_result_that_is_none_is_refused_alone(result: Any, value: Any, tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        rows[0]["annotations"][0]["result"][0]["value"] = value
        rows[1]["annotations"][0]["result"] = result

    read = label_studio.read_export(changed(tmp_path, change), UNITS, ADDRESSES, PROTOCOL, KEY)
    assert [refusal.where for refusal in read.refused if refusal.code == "unreadable"] == [
        "export.json:1:1001",
        "export.json:2:1003",
    ]
    assert [row.answer.unit for row in read.rows] == ["u-kitchen", "u-market"]


def test_an_export_that_breaks_off_names_the_row(tmp_path: Path) -> None:
    whole = (EXAMPLES / "label-studio.json").read_text()
    path = tmp_path / "export.json"
    third = whole.rindex('"id": 3')
    for end, row in ((10, 1), (third + 20, 3), (len(whole) - 3, 4)):
        path.write_text(whole[:end])
        with pytest.raises(DataError, match=rf"export\.json:{row}: "):
            label_studio.read_export(path, UNITS, ADDRESSES, PROTOCOL, KEY)


@pytest.mark.parametrize(
    ("old", "new"), [('"created_at"', '"\xff"'), ('"created_at"', f'"x":{"[" * 9999}{"]" * 9999},"created_at"')]
)
def test_a_row_that_cannot_be_read_is_named(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_bytes((EXAMPLES / "label-studio.json").read_text().replace(old, new).encode("latin-1"))
    with pytest.raises(DataError, match=r"export\.json:(1: |13 is not UTF-8)"):
        label_studio.read_export(path, UNITS, ADDRESSES, PROTOCOL, KEY)
