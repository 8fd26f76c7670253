"""Label Studio: a project for each rater's slot, because its free edition gives a task to one annotator only.

A project is a labelling configuration and a list of tasks; both say nothing that a rater must not see. What is on a task's
page travels in its data, so an export tells whether it was changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from ctxr.annotation.forms import Choice, Field, Pick, Write
from ctxr.annotation.platforms.arrivals import (
    UNREADABLE,
    Arrival,
    Arrivals,
    Pseudonyms,
    Refusal,
    moment,
    read_list,
    stamp,
)
from ctxr.annotation.platforms.sheets import Sheet, passage_text, raters, sheet
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import DataError

PLATFORM = "label-studio"

_HINT = "export the project from Label Studio again, in the format JSON"


def export(units: Iterable[Unit], addresses: Mapping[str, str], protocol: Protocol) -> dict[str, bytes]:
    """`rater-1/config.xml` and `rater-1/tasks.json`, and so on for each slot (and each shape of form, where there are more)."""
    projects: dict[tuple[int, tuple[object, ...]], list[Sheet]] = defaultdict(list)
    for unit in units:
        for slot in range(raters(unit, protocol)):
            one = sheet(unit, slot, protocol.seed)
            projects[slot, one.shape].append(one)
    shapes = list(dict.fromkeys(shape for _, shape in projects))
    files: dict[str, bytes] = {}
    for (slot, shape), sheets in projects.items():
        folder = f"rater-{slot + 1}" + (f"-{shapes.index(shape) + 1}" if len(shapes) > 1 else "")
        files[f"{folder}/config.xml"] = config(sheets[0]).encode()
        tasks = [{"data": data(one, addresses)} for one in sheets]
        files[f"{folder}/tasks.json"] = msgspec.json.format(msgspec.json.encode(tasks), indent=1) + b"\n"
    return files


def config(one: Sheet) -> str:
    """The labelling configuration of all sheets of this one's shape."""
    form = one.form
    view = Element("View")
    SubElement(view, "Style").text = _STYLE
    SubElement(view, "Header", value=form.title)
    for sentence in form.instruction:
        SubElement(view, "Header", value=sentence, size="5")
    objects: list[str] = []
    for number, passage in enumerate(form.passages, 1):
        SubElement(view, "Header", value=passage.title, size="4")
        SubElement(view, "Text", name=f"text_{number}", value=f"$text_{number}")
        objects.append(f"text_{number}")
    if one.marked:
        SubElement(view, "Header", value="The marked image", size="4")
        SubElement(view, "Image", name="marked", value="$marked", zoom="true", zoomControl="true")
        objects.append("marked")
    grid = SubElement(view, "View", className="ctxr-grid")
    for picture in form.gallery.pictures if form.gallery else ():
        cell = SubElement(grid, "View")
        SubElement(cell, "Header", value=f"Image {picture.place}", size="5")
        name = f"image_{picture.place}"
        SubElement(cell, "Image", name=name, value=f"${name}", zoom="true", zoomControl="true")
        objects.append(name)
    for asked in form.fields:
        _control(view, asked, objects[0], len(one.order))
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def data(one: Sheet, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What a task carries: unit, slot, order, texts, addresses of the pictures; never the right answer."""
    found: dict[str, Any] = {"ctxr_unit": one.unit.id, "ctxr_slot": one.slot, "ctxr_order": list(one.order)}
    found |= {f"text_{number}": passage_text(passage) for number, passage in enumerate(one.form.passages, 1)}
    for picture in one.form.gallery.pictures if one.form.gallery else ():
        found[f"image_{picture.place}"] = addresses[picture.image]
    if one.marked:
        found["marked"] = addresses[one.order[one.marked - 1]]
        found["ctxr_marked"] = one.marked
    return found


class RegionValue(msgspec.Struct, frozen=True):
    """The text or the choices of a region."""

    text: str | list[str] = ""
    choices: list[str] = []


class Result(msgspec.Struct, frozen=True):
    """One region of an annotation; what else it holds is left alone."""

    from_name: str = ""
    value: RegionValue = RegionValue()


class Annotation(msgspec.Struct, frozen=True):
    """What one person did with one task; `result` is theirs to send, and so read by itself: a list of `Result`."""

    id: int | str
    created_at: str
    completed_by: int | str | dict[str, Any] | None = None
    was_cancelled: bool = False
    lead_time: float | None = None
    result: msgspec.Raw = msgspec.Raw(b"[]")


class LabelledTask(msgspec.Struct, frozen=True):
    """A task of an export."""

    data: dict[str, Any]
    annotations: list[Annotation]


@dataclass
class _Reading:
    """What is gathered while an export is read."""

    people: Pseudonyms
    rows: list[Arrival] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


def answers(
    path: Path, units: Mapping[str, Unit], addresses: Mapping[str, str], protocol: Protocol, key: bytes
) -> Arrivals:
    """An export in the format JSON; cancelled annotations are left out.

    Raises UsageError for a file that is not there; DataError naming file:task for an export that was cut short, a unit of
    another project, or a task whose data is not what was exported.
    """
    reading = _Reading(Pseudonyms(key, PLATFORM))
    for number, task in enumerate(read_list(path, LabelledTask, _HINT), 1):
        where = f"{path}:{number}"
        if "ctxr_unit" not in task.data:
            raise DataError(
                f"{where}: there is no ctxr_unit in its data, so it is no task of ours",
                hint="export the project that tasks.json of ours was imported into, in the format JSON",
            )
        unit = units.get(str(task.data["ctxr_unit"]))
        if unit is None:
            raise DataError(
                f"{where}: the unit {task.data.get('ctxr_unit')!r} is in no export of this project",
                hint="import it into the project that it was exported from",
            )
        slot = task.data.get("ctxr_slot")
        if type(slot) is not int or not 0 <= slot < raters(unit, protocol):
            raise DataError(f"{where}: ctxr_slot is {slot!r}, and unit {unit.id!r} has no such slot")
        one = sheet(unit, slot, protocol.seed)
        for name, value in data(one, addresses).items():
            if task.data.get(name) != value:
                raise DataError(
                    f"{where}: {name} is {str(task.data.get(name))[:80]!r}, which is not what was exported",
                    hint="export again from Label Studio, into the project that the tasks came from",
                )
        for annotation in task.annotations:
            if not annotation.was_cancelled:
                _take(reading, f"{path.name}:{number}:{annotation.id}", one, annotation)
    return Arrivals(tuple(reading.rows), tuple(reading.refused), reading.people.known, (path.name,))


def _take(reading: _Reading, where: str, one: Sheet, annotation: Annotation) -> None:
    who = annotation.completed_by
    identity = who.get("id", who.get("email")) if isinstance(who, dict) else who
    if identity is None:
        reading.refused.append(Refusal(where, one.unit.id, "", "nobody", "The annotation does not say whose it is."))
        return
    worker = reading.people.named(str(identity))
    try:
        results = msgspec.json.decode(annotation.result, type=list[Result])
    except UNREADABLE:
        reading.refused.append(Refusal(where, one.unit.id, worker, "unreadable", "The annotation cannot be read."))
        return
    values: dict[str, tuple[str, ...]] = {}
    for asked in one.form.fields:
        found = next((row.value for row in results if row.from_name == asked.name), RegionValue())
        values[asked.name] = _values(asked, found, one.order)
    at = stamp(moment(annotation.created_at, where))
    answer = Answer(one.unit.id, worker, values, one.order, one.slot, at, annotation.lead_time, PLATFORM)
    reading.rows.append(Arrival(where, answer))


def _values(asked: Field, given: RegionValue, order: tuple[str, ...]) -> tuple[str, ...]:
    """Values of a field: a text; options by what is stored or read; a picture by its place, which `order` turns into its id."""
    if isinstance(asked, Write):
        return (given.text if isinstance(given.text, str) else "\n".join(given.text),)
    chosen = tuple(given.choices)
    if isinstance(asked, Pick):
        places = {str(place): image for place, image in enumerate(order, 1)}
        return tuple(places.get(one, one) for one in chosen)
    if isinstance(asked, Choice):
        stored = {option.label: option.value for option in asked.options}
        offered = {option.value for option in asked.options}
        named = {one if one in offered else stored.get(one, one) for one in chosen}
        known = tuple(option.value for option in asked.options if option.value in named)
        return known + tuple(sorted(named - set(known)))
    return chosen


def _control(view: Element, asked: Field, on: str, pictures: int) -> None:
    SubElement(view, "Header", value=asked.legend, size="4")
    needed = {"required": "true", "requiredMessage": asked.legend}
    if isinstance(asked, Write):
        area = SubElement(view, "TextArea", name=asked.name, toName=on, rows="4", maxSubmissions="1", editable="true")
        if asked.note:
            area.set("placeholder", asked.note)
        for name, value in needed.items() if not asked.optional else ():
            area.set(name, value)
    elif isinstance(asked, Pick):
        group = SubElement(view, "Choices", name=asked.name, toName=on, choice="single-radio", showInline="true")
        for name, value in needed.items():
            group.set(name, value)
        for place in range(1, pictures + 1):
            choice = SubElement(group, "Choice", value=str(place))
            if place <= 10:
                choice.set("hotkey", str(place % 10))
    elif isinstance(asked, Choice):
        group = SubElement(
            view, "Choices", name=asked.name, toName=on, choice="multiple" if asked.several else "single-radio"
        )
        for name, value in needed.items() if not asked.optional else ():
            group.set(name, value)
        for option in asked.options:
            choice = SubElement(group, "Choice", value=option.label)
            if option.label != option.value:
                choice.set("alias", option.value)
            if option.note:
                choice.set("hint", option.note)


_STYLE = ".ctxr-grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:8px}"
