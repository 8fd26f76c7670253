"""Label Studio: one project for each rater, in its documented words, with nothing in it that a rater must not know."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree as SafeTree
from msgspec import structs

from ctxr.annotation.platforms import label_studio
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import TaskName, Unit
from ctxr.errors import DataError
from tests.annotation.platforms.test_examples import ADDRESSES, EXAMPLES, EXPORTS, HARBOUR, KEY, KITCHEN, MARKET

PROTOCOL = Protocol()
ALL = [f"{split}-{name}/{place}" for split in ("train", "valid", "test") for name in range(8) for place in (1, 2)]

TAGS = {
    "View": {"className", "visibleWhen", "whenTagName", "whenChoiceValue"},
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
    files = label_studio.project_files(units, ADDRESSES, PROTOCOL, {})
    return {name: SafeTree.fromstring(content.decode()) for name, content in files.items() if name.endswith(".xml")}


def test_a_rater_has_a_project_of_their_own_and_sees_each_task_once() -> None:
    files = label_studio.project_files([HARBOUR, KITCHEN], ADDRESSES, PROTOCOL, {})
    tasks = {name: json.loads(content) for name, content in files.items() if name.endswith("tasks.json")}
    assert sorted(files) == sorted(
        f"rater-{slot}-{shape}/{name}"
        for slot, shape in ((1, 1), (2, 1), (3, 1), (1, 2), (2, 2))
        for name in ("config.xml", "tasks.json")
    )
    assert {len(listed) for listed in tasks.values()} == {1}
    assert [tasks[f"rater-{slot}-1/tasks.json"][0]["data"]["ctxr_slot"] for slot in (1, 2, 3)] == [0, 1, 2]


def many(task: TaskName, sets: int, each: int, most: int, split: Any = None, **more: Any) -> list[Unit]:
    """Units about sets of two pictures, `each` about every set."""
    return [
        Unit(f"{task}-{split}-{name}-{place}", task, f"{split}-{name}", "g", (f"{split}-{name}/1", f"{split}-{name}/2"), split=split,
             target=f"{split}-{name}/1", texts=("A.",), labels=("one",), most=most, **more)
        for name in range(sets)
        for place in range(each)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "each", "most", "people"), [("describe", 3, 1, 3), ("retrieve", 3, 3, 9), ("tag", 3, 2, 2)]
)
def test_nobody_describes_or_judges_a_set_twice_and_work_is_dealt_evenly(
    task: TaskName, each: int, most: int, people: int
) -> None:
    raters = label_studio.raters_for(many(task, 8, each, most), PROTOCOL, {})
    assert len(raters) == people
    assert {len(rater.seats) for rater in raters} == {8 * each * most // people}
    for rater in raters:
        known = [unit.id if task == "tag" else unit.image_set for unit, _ in rater.seats]
        assert len(set(known)) == len(known)


def test_sets_that_share_a_picture_or_a_copy_of_one_are_judged_by_different_people() -> None:
    one, other, third = many("retrieve", 3, 1, 1)
    assert len(label_studio.raters_for([one, other, third], PROTOCOL, {})) == 1
    shared = structs.replace(other, images=(other.images[0], one.images[0]))
    assert len(label_studio.raters_for([one, shared, third], PROTOCOL, {})) == 2
    assert len(label_studio.raters_for([one, other, third], PROTOCOL, {one.images[0]: "a", other.images[1]: "a"})) == 2
    describe = [structs.replace(unit, task="describe") for unit in (one, shared)]
    assert len(label_studio.raters_for(describe, PROTOCOL, {})) == 1


@pytest.mark.parametrize(("disjoint", "people"), [("partly", 4), ("wholly", 4), ("none", 3)])
def test_sides_of_the_benchmark_have_raters_of_their_own(disjoint: str, people: int) -> None:
    units = [*many("retrieve", 6, 1, 1, "train"), *many("retrieve", 2, 1, 3, "test")]
    raters = label_studio.raters_for(units, Protocol(disjoint=disjoint), {})
    assert len(raters) == people
    if disjoint != "none":
        assert all(len({unit.split for unit, _ in rater.seats}) == 1 for rater in raters)


def test_every_rater_is_checked_and_checks_stand_between_the_work() -> None:
    checks = many("retrieve", 4, 1, 10**6, "valid", purpose="gold", truth=("x",))
    checks = [structs.replace(unit, id=f"retrieve-test-{place}-5") for place, unit in enumerate(checks)]
    units = [*many("retrieve", 4, 1, 3, "test"), *many("retrieve", 8, 1, 1, "train"), *checks]
    raters = label_studio.raters_for(units, PROTOCOL, {})
    # a check for every three units of work, as there are four for twelve
    assert [(rater.load["gold"], -(-rater.load["work"] // 3)) for rater in raters] == [(2, 2), (2, 2), (2, 2), (3, 3)]
    tasks = json.loads(label_studio.project_files(units, dict.fromkeys(ALL, "x"), PROTOCOL, {})["rater-1/tasks.json"])
    names = [task["data"]["ctxr_unit"] for task in tasks]
    assert names == sorted(names)
    assert len(names) == 6


@pytest.mark.parametrize("seconds", [-0.5, 86_401, 1e300])
def test_a_time_below_zero_or_above_a_day_is_refused(seconds: float, tmp_path: Path) -> None:
    path = changed(tmp_path, lambda rows: rows[0]["annotations"][0].update(lead_time=seconds))
    read = label_studio.read_export(path, EXPORTS, KEY)
    assert ("time", "export.json:1:1001") in [(refusal.code, refusal.where) for refusal in read.refused]
    assert "u-harbour" not in [row.answer.unit for row in read.rows]


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


def test_what_is_required_is_hidden_from_a_rater_who_tells_of_a_problem() -> None:
    root, *_ = configs(KITCHEN).values()
    (hidden,) = root.iterfind("View[@visibleWhen='choice-unselected']")
    (told,) = root.iterfind(f"Choices[@name='{hidden.get('whenTagName')}']")
    words = {tag.get(name, "") for tag in told for name in ("alias", "value")}
    assert words == set(hidden.get("whenChoiceValue", "").split(","))
    assert [tag.get("required") for tag in hidden if tag.get("toName")] == ["true"]
    assert [tag.get("name") for tag in root if tag.get("toName")] == ["problem", "comment"]


def test_a_problem_is_read_without_what_stands_beside_it(tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        region = {"from_name": "problem", "to_name": "x", "type": "choices", "value": {"choices": ["broken"]}}
        rows[0]["annotations"][0]["result"].append(region)

    read = label_studio.read_export(changed(tmp_path, change), EXPORTS, KEY)
    assert read.rows[0].answer.values == {"problem": ("broken",)}


def test_the_truth_is_nowhere_in_a_project() -> None:
    unit = Unit(
        "u-1", "retrieve", "s", "g", ("s/one", "s/two"), query="secret-query", texts=("A boat.",), truth=("s/two",),
        authors=("w-secret",), split="test",
    )  # fmt: skip
    files = label_studio.project_files([unit], {"s/one": "https://x/1", "s/two": "https://x/2"}, PROTOCOL, {})
    for name, content in files.items():
        text = content.decode()
        assert not re.search("truth|secret|w-secret|gold", text), name
        assert "s/two" not in text


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
        (
            lambda rows: rows[0]["data"].update(image_1=rows[0]["data"]["image_2"]),
            r"export\.json:1: image_1 is",
        ),
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
        label_studio.read_export(changed(tmp_path, change), EXPORTS, KEY)


@pytest.mark.parametrize("result", [5, [5], [{"from_name": 5}], [{"value": 5}]])
@pytest.mark.parametrize("value", [None, 5, {"choices": 5}, {"choices": None}, {"choices": [3]}, {"text": 5}])
def test_a_result_that_is_none_is_refused_alone(result: Any, value: Any, tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        rows[0]["annotations"][0]["result"][0]["value"] = value
        rows[1]["annotations"][0]["result"] = result

    read = label_studio.read_export(changed(tmp_path, change), EXPORTS, KEY)
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
            label_studio.read_export(path, EXPORTS, KEY)


@pytest.mark.parametrize(
    ("old", "new"), [('"created_at"', '"\xff"'), ('"created_at"', f'"x":{"[" * 9999}{"]" * 9999},"created_at"')]
)
def test_a_row_that_cannot_be_read_is_named(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_bytes((EXAMPLES / "label-studio.json").read_text().replace(old, new).encode("latin-1"))
    with pytest.raises(DataError, match=r"export\.json:(1: |13 is not UTF-8)"):
        label_studio.read_export(path, EXPORTS, KEY)
