"""Label Studio: a project for each rater's slot, because its free edition gives a task to one annotator only.

A project is a labelling configuration and a list of tasks; both say nothing that a rater must not see. What is on a task's
page travels in its data, so an export tells whether it was changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from ctxr.annotation.forms import Choice, Field, Pick, Write, without_blanks
from ctxr.annotation.platforms.arrivals import Arrivals, read_list, stored_moment
from ctxr.annotation.platforms.sheets import Sheet, passage_text, raters, sheet
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import DataError
from ctxr.store.tables import UNREADABLE

PLATFORM = "label-studio"

_HINT = "export the project from Label Studio again, in the format JSON"

_STYLE = ".ctxr-grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:8px}"


def export(units: Iterable[Unit], addresses: Mapping[str, str], protocol: Protocol) -> dict[str, bytes]:
    """`rater-1/config.xml` and `rater-1/tasks.json`, and so on for each slot (and each shape of form, where there are more)."""
    projects: dict[tuple[int, tuple[object, ...]], list[Sheet]] = defaultdict(list)
    for unit in units:
        for slot in range(raters(unit, protocol)):
            page = sheet(unit, slot, protocol.seed)
            projects[slot, page.shape].append(page)
    shapes = list(dict.fromkeys(shape for _, shape in projects))
    files: dict[str, bytes] = {}
    for (slot, shape), sheets in projects.items():
        folder = f"rater-{slot + 1}" + (f"-{shapes.index(shape) + 1}" if len(shapes) > 1 else "")
        files[f"{folder}/config.xml"] = config(sheets[0]).encode()
        tasks = [{"data": data(page, addresses)} for page in sheets]
        files[f"{folder}/tasks.json"] = msgspec.json.format(msgspec.json.encode(tasks), indent=1) + b"\n"
    return files


def config(page: Sheet) -> str:
    """The labelling configuration of all sheets of this one's shape."""
    view = Element("View")
    SubElement(view, "Style").text = _STYLE
    SubElement(view, "Header", value=page.form.title)
    for sentence in page.form.instruction:
        SubElement(view, "Header", value=sentence, size="5")
    objects = [f"text_{number}" for number in range(1, len(page.form.passages) + 1)]
    for name, passage in zip(objects, page.form.passages, strict=True):
        SubElement(view, "Header", value=passage.title, size="4")
        SubElement(view, "Text", name=name, value=f"${name}")
    if page.marked:
        SubElement(view, "Header", value="The marked image", size="4")
        objects.append(_image(view, "marked"))
    grid = SubElement(view, "View", className="ctxr-grid")
    for picture in page.pictures:
        cell = SubElement(grid, "View")
        SubElement(cell, "Header", value=f"Image {picture.place}", size="5")
        objects.append(_image(cell, f"image_{picture.place}"))
    for field in page.form.fields:
        _control(view, field, objects[0], len(page.order))
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _image(parent: Element, name: str) -> str:
    SubElement(parent, "Image", name=name, value=f"${name}", zoom="true", zoomControl="true")
    return name


def data(page: Sheet, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What a task carries: unit, slot, order, texts, addresses of the pictures; never the right answer."""
    content: dict[str, Any] = {"ctxr_unit": page.unit.id, "ctxr_slot": page.slot, "ctxr_order": list(page.order)}
    content |= {f"text_{number}": passage_text(passage) for number, passage in enumerate(page.form.passages, 1)}
    content |= {f"image_{picture.place}": addresses[picture.image] for picture in page.pictures}
    if page.marked:
        content |= {"marked": addresses[page.order[page.marked - 1]], "ctxr_marked": page.marked}
    return content


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


def answers(
    path: Path, units: Mapping[str, Unit], addresses: Mapping[str, str], protocol: Protocol, key: bytes
) -> Arrivals:
    """An export in the format JSON; cancelled annotations are left out.

    Raises UsageError for a file that is not there; DataError naming file:task for an export that was cut short, a unit of
    another project, or a task whose data is not what was exported.
    """
    arrivals = Arrivals(path, PLATFORM, key)
    for number, task in enumerate(read_list(path, LabelledTask, _HINT), 1):
        where = f"{path}:{number}"
        if "ctxr_unit" not in task.data:
            raise DataError(
                f"{where}: there is no ctxr_unit in its data, so it is not a task of ctxr",
                hint="export the project that tasks.json of ours was imported into, in the format JSON",
            )
        unit = arrivals.unit(units, task.data["ctxr_unit"], number)
        slot = task.data.get("ctxr_slot")
        if type(slot) is not int or not 0 <= slot < raters(unit, protocol):
            raise DataError(f"{where}: ctxr_slot is {slot!r}, and unit {unit.id!r} has no such slot")
        page = sheet(unit, slot, protocol.seed)
        for name, value in data(page, addresses).items():
            if task.data.get(name) != value:
                raise DataError(
                    f"{where}: {name} is {str(task.data.get(name))[:80]!r}, which is not what was exported",
                    hint="export again from Label Studio, into the project that the tasks came from",
                )
        for annotation in task.annotations:
            if not annotation.was_cancelled:
                _take(arrivals, f"{number}:{annotation.id}", page, annotation)
    return arrivals


def _take(arrivals: Arrivals, position: str, page: Sheet, annotation: Annotation) -> None:
    who = annotation.completed_by
    identity = who.get("id", who.get("email")) if isinstance(who, dict) else who
    if identity is None:
        arrivals.refuse(position, page.unit.id, "", "nobody", "The annotation does not say whose it is.")
        return
    worker = arrivals.named(str(identity))
    try:
        results = msgspec.json.decode(annotation.result, type=list[Result])
    except UNREADABLE:
        arrivals.refuse(position, page.unit.id, worker, "unreadable", "The annotation cannot be read.")
        return
    regions = {row.from_name: row.value for row in reversed(results)}
    values = {
        field.name: _values(field, regions.get(field.name, RegionValue()), page.order) for field in page.form.fields
    }
    at, filled = (
        stored_moment(annotation.created_at, f"{arrivals.path.name}:{position}"),
        without_blanks(page.form, values),
    )
    answer = Answer(page.unit.id, worker, filled, page.order, page.slot, at, annotation.lead_time, PLATFORM)
    arrivals.take(position, answer)


def _values(field: Field, region: RegionValue, order: tuple[str, ...]) -> tuple[str, ...]:
    """Values of a field: a text; options by what is stored or read; a picture by its position, which `order` turns into its id."""
    if isinstance(field, Write):
        return (region.text if isinstance(region.text, str) else "\n".join(region.text),)
    chosen = tuple(region.choices)
    if isinstance(field, Pick):
        images = {str(position): image for position, image in enumerate(order, 1)}
        return tuple(images.get(choice, choice) for choice in chosen)
    if isinstance(field, Choice):
        stored = {option.label: option.value for option in field.options}
        offered = [option.value for option in field.options]
        named = {choice if choice in offered else stored.get(choice, choice) for choice in chosen}
        return (*(value for value in offered if value in named), *sorted(named.difference(offered)))
    return chosen


def _control(view: Element, field: Field, on: str, pictures: int) -> None:
    SubElement(view, "Header", value=field.legend, size="4")
    needed = {} if getattr(field, "optional", False) else {"required": "true", "requiredMessage": field.legend}
    shared = {"name": field.name, "toName": on}
    if isinstance(field, Write):
        look = {"rows": "4", "maxSubmissions": "1", "editable": "true"}
        note = {"placeholder": field.note} if field.note else {}
        SubElement(view, "TextArea", {**shared, **look, **note, **needed})
    elif isinstance(field, Pick):
        group = SubElement(view, "Choices", {**shared, "choice": "single-radio", "showInline": "true", **needed})
        for position in range(1, pictures + 1):
            hotkey = {"hotkey": str(position % 10)} if position <= 10 else {}
            SubElement(group, "Choice", {"value": str(position), **hotkey})
    elif isinstance(field, Choice):
        kind = "multiple" if field.several else "single-radio"
        group = SubElement(view, "Choices", {**shared, "choice": kind, **needed})
        for option in field.options:
            choice = SubElement(group, "Choice", value=option.label)
            if option.label != option.value:
                choice.set("alias", option.value)
            if option.note:
                choice.set("hint", option.note)
