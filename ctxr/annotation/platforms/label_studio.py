"""Label Studio: a project for each rater, as its free edition gives a task to one annotator.

A project is a labelling configuration and a list of tasks. What is on a task's page travels in its data, so an export shows
whether it was changed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from ctxr.annotation.forms import (
    PROBLEM,
    Choice,
    Field,
    Form,
    Mark,
    Order,
    Pick,
    Scale,
    Write,
    mark_place,
    report_fields,
)
from ctxr.annotation.journal.database import micros, stamp
from ctxr.annotation.journal.worker_state import pool_of
from ctxr.annotation.platforms.arrivals import Arrivals, read_list
from ctxr.annotation.protocol import Protocol, raters_of, shown_order
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.errors import DataError
from ctxr.store.tables import UNREADABLE, grouped, pretty_json

PLATFORM = "label-studio"

DAY = 24 * 60 * 60  # seconds: no single answer takes longer

_HINT = "export the project from Label Studio again, in the format JSON"

_STYLE = ".ctxr-grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:8px}"


@dataclass(frozen=True)
class RaterSheet:
    """One unit for one rater. `order` are its images as they are shown; `marked` is the position of the target, from 1."""

    unit: Unit
    slot: int
    order: tuple[str, ...]
    form: Form
    marked: int | None

    def data(self, addresses: Mapping[str, str]) -> dict[str, Any]:
        """The data of a task: unit, slot, texts, addresses of pictures; no image id or right answer."""
        content: dict[str, Any] = {"ctxr_unit": self.unit.id, "ctxr_slot": self.slot}
        for number, passage in enumerate(self.form.passages, 1):
            who = {None: "", 0: "A: ", 1: "B: "}
            lines = ("[the photo is shared]" if one.share else who[one.speaker] + one.text for one in passage.lines)
            content[f"text_{number}"] = "\n".join(lines)
        content |= {f"image_{picture.place}": addresses[picture.image] for picture in self.form.pictures}
        if self.marked:
            content |= {"marked": addresses[self.order[self.marked - 1]], "ctxr_marked": self.marked}
        return content


def sheet_of(unit: Unit, slot: int, seed: int) -> RaterSheet:
    """The unit as the rater in `slot` sees it."""
    order = shown_order(unit.images, unit.ordered, unit.id, slot, seed)
    form = task_of(unit).render(unit, order)
    return RaterSheet(
        unit, slot, order, form, next((picture.place for picture in form.pictures if picture.marked), None)
    )


@dataclass(eq=False)
class Rater:
    """Who gets a project: their pool, and what they see, by unit and slot; `met` are the units, sets
    and pictures that they know then, `load` counts their units by purpose."""

    pool: str
    seats: list[tuple[Unit, int]]
    met: set[str]
    load: Counter[str]


def raters_for(units: Iterable[Unit], protocol: Protocol, contents: Mapping[str, str]) -> list[Rater]:
    """Raters who may answer the units: each sees a unit once, describes one target of a set, judges
    none whose pictures they know, and works on one side of the benchmark unless the protocol lets
    everybody do both. Work is dealt evenly, and checks in proportion to it. `contents`: hashes by image id."""
    raters: list[Rater] = []
    ordered = sorted(units, key=lambda unit: unit.purpose != "work")
    purposes = Counter(unit.purpose for unit in ordered)
    for unit in ordered:
        pool = "any" if protocol.disjoint == "none" else pool_of(unit)
        known = {unit.id}
        if unit.task == "describe":
            known.add(unit.image_set)
        elif task_of(unit).FRESH and unit.purpose != "attention":
            known.update(unit.pictures(contents).values())
        for slot in range(raters_of(unit, protocol)):
            free = [one for one in raters if known.isdisjoint(one.met) and pool in ("any", one.pool)]
            if unit.purpose != "work":
                due = purposes[unit.purpose] / max(1, purposes["work"])
                if not (free := [one for one in free if one.load[unit.purpose] < due * one.load["work"]]):
                    break
            if not free:
                raters += (free := [Rater(pool, [], set(), Counter())])
            rater = min(free, key=lambda one: one.load[unit.purpose])
            rater.load[unit.purpose] += 1
            rater.met |= known
            rater.seats.append((unit, slot))
    return raters


def project_files(
    units: Iterable[Unit], addresses: Mapping[str, str], protocol: Protocol, contents: Mapping[str, str]
) -> dict[str, bytes]:
    """`rater-1/config.xml` and `rater-1/tasks.json`, and so on for each rater (and shape of form).

    `addresses` and `contents` (hashes) of pictures are by image id.
    """
    projects: dict[tuple[int, tuple[object, ...]], list[RaterSheet]] = defaultdict(list)
    for number, rater in enumerate(raters_for(units, protocol, contents), 1):
        # by id, so a check stands anywhere
        for unit, slot in sorted(rater.seats, key=lambda seat: seat[0].id):
            sheet = sheet_of(unit, slot, protocol.seed)
            form = sheet.form
            # what sheets must share to be filled into one configuration: everything but pictures, texts and the mark
            titles = tuple(passage.title for passage in form.passages)
            parts = (form.title, form.instruction, len(form.pictures), sheet.marked is not None, form.fields)
            projects[number, (*parts, titles)].append(sheet)
    shapes = list(dict.fromkeys(shape for _, shape in projects))
    files: dict[str, bytes] = {}
    for (number, shape), sheets in projects.items():
        folder = f"rater-{number}" + (f"-{shapes.index(shape) + 1}" if len(shapes) > 1 else "")
        files[f"{folder}/config.xml"] = _labelling_config(sheets[0]).encode()
        files[f"{folder}/tasks.json"] = pretty_json([{"data": sheet.data(addresses)} for sheet in sheets])
    return files


def _labelling_config(sheet: RaterSheet) -> str:
    """The labelling configuration of all sheets of this one's shape."""
    form, view = sheet.form, Element("View")
    SubElement(view, "Style").text = _STYLE
    SubElement(view, "Header", value=form.title)
    for sentence in form.instruction:
        SubElement(view, "Header", value=sentence, size="5")
    shown = [f"text_{number}" for number in range(1, len(form.passages) + 1)]
    for name, passage in zip(shown, form.passages, strict=True):
        SubElement(view, "Header", value=passage.title, size="4")
        SubElement(view, "Text", name=name, value=f"${name}")
    zoom = {"zoom": "true", "zoomControl": "true"}
    if sheet.marked:
        SubElement(view, "Header", value="The marked image", size="4")
        SubElement(view, "Image", {"name": "marked", "value": "$marked", **zoom})
        shown.append("marked")
    grid = SubElement(view, "View", className="ctxr-grid")
    for picture in form.pictures:
        cell, name = SubElement(grid, "View"), f"image_{picture.place}"
        SubElement(cell, "Header", value=f"Image {picture.place}", size="5")
        SubElement(cell, "Image", {"name": name, "value": f"${name}", **zoom})
        shown.append(name)
    problems = ",".join(word for option in report_fields()[0].options for word in (option.value, option.label))
    shows = {"visibleWhen": "choice-unselected", "whenTagName": PROBLEM, "whenChoiceValue": problems}
    own = SubElement(view, "View", shows)  # what is hidden is not required
    for field in form.asked:
        on = shown[0] if not isinstance(field, Mark) else "marked" if sheet.marked else "image_1"
        _add_control(own if field in form.fields else view, field, on, sheet)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


class RegionValue(msgspec.Struct, frozen=True):
    """The text or the choices of a region, or its place in percent of the picture."""

    text: str | list[str] = ""
    choices: list[str] = []
    x: float | None = None
    y: float | None = None
    width: float | None = None
    height: float | None = None
    rotation: float | None = None


class Result(msgspec.Struct, frozen=True):
    """One region of an annotation; its other fields are ignored."""

    from_name: str = ""
    value: RegionValue = RegionValue()


class Annotation(msgspec.Struct, frozen=True):
    """What one person did with one task; `result`, a list of `Result`, is read by itself: one that cannot be read is refused alone."""

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


@dataclass(frozen=True)
class ExportedUnits:
    """What `ctxr export-tasks` wrote for Label Studio: units and addresses of pictures by id."""

    units: Mapping[str, Unit]
    addresses: Mapping[str, str]
    protocol: Protocol

    def sheet(self, where: str, data: Mapping[str, object]) -> RaterSheet:
        """The sheet that the `data` of a task were. Raises DataError for data that were changed."""
        unit, slot = self.units[str(data["ctxr_unit"])], data.get("ctxr_slot")
        if type(slot) is not int or not 0 <= slot < raters_of(unit, self.protocol):
            raise DataError(f"{where}: ctxr_slot is {slot!r}, and unit {unit.id!r} has no such slot")
        sheet = sheet_of(unit, slot, self.protocol.seed)
        for name, value in sheet.data(self.addresses).items():
            if data.get(name) != value:
                raise DataError(
                    f"{where}: {name} is {str(data.get(name))[:80]!r}, which is not what was exported",
                    hint="export again from Label Studio; --tasks names the folder, if several have the unit",
                )
        return sheet


def read_export(path: Path, exports: Sequence[ExportedUnits], key: bytes) -> Arrivals:
    """An export in JSON of projects of any of the `exports`, without what was cancelled.

    Raises DataError naming file:task for one that is cut short or was edited.
    """
    arrivals = Arrivals(path, PLATFORM, key)
    for number, task in enumerate(read_list(path, LabelledTask, _HINT), 1):
        where = f"{path}:{number}"
        if "ctxr_unit" not in task.data:
            raise DataError(
                f"{where}: there is no ctxr_unit in its data, so it is not a task of ctxr",
                hint="export the project that tasks.json of ours was imported into, in the format JSON",
            )
        source = next((one for one in exports if str(task.data["ctxr_unit"]) in one.units), None)
        if source is None:
            raise DataError(
                f"{where}: the unit {task.data['ctxr_unit']!r} is in no export of this project",
                hint="import it into the project that it was exported from",
            )
        sheet = source.sheet(where, task.data)
        for annotation in task.annotations:
            if not annotation.was_cancelled:
                _take(arrivals, f"{number}:{annotation.id}", sheet, annotation)
    return arrivals


def _take(arrivals: Arrivals, position: str, sheet: RaterSheet, annotation: Annotation) -> None:
    unit, who = sheet.unit, annotation.completed_by
    identity = who.get("id", who.get("email")) if isinstance(who, dict) else who
    if identity is None:
        arrivals.refuse(position, unit.id, "", "nobody", "The annotation does not say whose it is.")
        return
    worker = arrivals.pseudonym_of(str(identity))
    try:
        results = msgspec.json.decode(annotation.result, type=list[Result])
    except UNREADABLE:
        arrivals.refuse(position, unit.id, worker, "unreadable", "The annotation cannot be read.")
        return
    seconds = annotation.lead_time
    if seconds is not None and not 0 <= seconds <= DAY:
        sentence = f"The annotation took {seconds:g} seconds, which is below 0 or above a day."
        arrivals.refuse(position, unit.id, worker, "time", sentence)
        return
    regions = grouped((row.from_name, row.value) for row in results)
    filled = {field.name: _values(field, regions, sheet) for field in sheet.form.asked}
    try:
        created = datetime.fromisoformat(annotation.created_at)
        at = stamp(micros(created if created.tzinfo else created.replace(tzinfo=UTC)))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{arrivals.path.name}:{position}: {annotation.created_at!r} is not a time",
            hint="import the file as the platform exported it",
        ) from error
    values = sheet.form.without_blanks(filled)
    arrivals.take(position, Answer(unit.id, worker, values, sheet.order, sheet.slot, at, seconds, PLATFORM))


def _values(field: Field, regions: Mapping[str, Sequence[RegionValue]], sheet: RaterSheet) -> tuple[str, ...]:
    """Values of a field: a text; places; options by what is stored or read; a picture by its position, which stands for its id."""
    if isinstance(field, Mark):
        return tuple(_place(region, field) for region in regions.get(field.name, ()))
    if isinstance(field, Order):
        options = sheet.form.options(field)
        stored = {option.label: option.value for option in options}
        placed = [regions.get(_place_name(field, place), ()) for place in range(len(options))]
        return tuple(stored.get(one, one) for first in placed for one in (first[0].choices if first else [""]))
    region = next(iter(regions.get(field.name, ())), RegionValue())
    if isinstance(field, Write):
        return (region.text if isinstance(region.text, str) else "\n".join(region.text),)
    chosen = tuple(region.choices)
    if isinstance(field, Pick):
        images = {str(position): image for position, image in enumerate(sheet.order, 1)}
        return tuple(images.get(choice, choice) for choice in chosen)
    if isinstance(field, Choice | Scale):
        stored = {option.label: option.value for option in field.options}
        offered = [option.value for option in field.options]
        named = {choice if choice in offered else stored.get(choice, choice) for choice in chosen}
        return (*(value for value in offered if value in named), *sorted(named.difference(offered)))
    return chosen


def _place(region: RegionValue, field: Mark) -> str:
    sides = (region.x, region.y, region.width, region.height)[: 4 if field.box else 2]
    return mark_place(["" if side is None or region.rotation else side for side in sides])


def _place_name(field: Order, place: int) -> str:
    return f"{field.name}-{place + 1}"


def _add_control(view: Element, field: Field, on: str, sheet: RaterSheet) -> None:
    SubElement(view, "Header", value=field.legend, size="4")
    needed = {} if getattr(field, "optional", False) else {"required": "true", "requiredMessage": field.legend}
    shared, note = {"name": field.name, "toName": on}, getattr(field, "note", "")
    if note and not isinstance(field, Write):
        SubElement(view, "Header", value=note, size="5")
    if isinstance(field, Write):
        look = {"rows": "4", "maxSubmissions": "1", "editable": "true"}
        hint = {"placeholder": note} if note else {}
        SubElement(view, "TextArea", {**shared, **look, **hint, **needed})
    elif isinstance(field, Pick):
        group = SubElement(view, "Choices", {**shared, "choice": "single-radio", "showInline": "true", **needed})
        for position in range(1, len(sheet.order) + 1):
            hotkey = {"hotkey": str(position % 10)} if position <= 10 else {}
            SubElement(group, "Choice", {"value": str(position), **hotkey})
    elif isinstance(field, Mark):
        SubElement(view, "Rectangle", {**shared, "canRotate": "false"}) if field.box else SubElement(
            view, "KeyPoint", shared
        )
    elif isinstance(field, Order):
        options = sheet.form.options(field)
        for place in range(len(options)):
            look = {"name": _place_name(field, place), "layout": "select"}
            SubElement(view, "Header", value=f"{place + 1}", size="5")
            group = SubElement(view, "Choices", {**shared, **look, **needed})
            for option in options:
                SubElement(group, "Choice", {"value": option.label})
    elif isinstance(field, Choice | Scale):
        kind = "multiple" if isinstance(field, Choice) and field.several else "single-radio"
        group = SubElement(view, "Choices", {**shared, "choice": kind, **needed})
        for option in field.options:
            alias = {"alias": option.value} if option.label != option.value else {}
            hint = {"hint": option.note} if option.note else {}
            SubElement(group, "Choice", {"value": option.label, **alias, **hint})
