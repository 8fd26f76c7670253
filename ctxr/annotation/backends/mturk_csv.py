"""Mechanical Turk's batches in the requester's browser: a layout and CSV files out, the results file in.

The layout is one for all units of a shape; `${variables}` are filled from the columns of the batch. One batch holds units with
the same number of votes, because a batch has one number of assignments.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from ctxr.annotation.backends.arrivals import Arrival, Arrivals, People, Refusal, stamp, utc
from ctxr.annotation.backends.pages import fragment
from ctxr.annotation.backends.posted import values_of
from ctxr.annotation.backends.sheets import Sheet, passage_text, raters, sheet
from ctxr.annotation.backends.spreadsheets import markup, neutral, read_csv, restored, shown, write_csv
from ctxr.annotation.forms import Choice, Form, Gallery, Line, Passage, Picture, Write
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import DataError

PLATFORM = "mturk"
"""The same people as through the API: one pseudonym for both."""

BACKEND = "mturk-csv"

COLUMNS = (
    "HITId", "HITTypeId", "Title", "Description", "Keywords", "Reward", "CreationTime", "MaxAssignments",
    "RequesterAnnotation", "AssignmentDurationInSeconds", "AutoApprovalDelayInSeconds", "Expiration",
    "NumberOfSimilarHITs", "LifetimeInSeconds", "AssignmentId", "WorkerId", "AssignmentStatus", "AcceptTime",
    "SubmitTime", "AutoApprovalTime", "ApprovalTime", "RejectionTime", "RequesterFeedback", "WorkTimeInSeconds",
    "LifetimeApprovalRate", "Last30DaysApprovalRate", "Last7DaysApprovalRate",
)  # fmt: skip
"""Of a results file, before those of the input and of the answers."""

_ZONES = {"PST": -8, "PDT": -7, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4}

_DATE = re.compile(r"\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\w{3}) (\d{4})")

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def export(units: Iterable[Unit], addresses: Mapping[str, str], protocol: Protocol) -> dict[str, bytes]:
    """The layouts, and for each the batches with their votes in the name."""
    shapes: dict[tuple[object, ...], list[Sheet]] = defaultdict(list)
    for unit in units:
        one = sheet(unit, 0, protocol.seed)
        shapes[one.shape].append(one)
    files: dict[str, bytes] = {}
    for number, sheets in enumerate(shapes.values(), 1):
        name = f"-{number}" if len(shapes) > 1 else ""
        files[f"layout{name}.html"] = layout(sheets[0]).encode()
        batches: dict[int, list[dict[str, str]]] = defaultdict(list)
        for one in sheets:
            batches[raters(one.unit, protocol)].append(variables(one, addresses))
        for votes, rows in sorted(batches.items()):
            files[f"batch{name}-votes-{votes}.csv"] = write_csv(list(rows[0]), rows)
    return files


def layout(one: Sheet) -> str:
    """The page of all sheets of this one's shape, with `${variables}`."""
    pictures = one.form.gallery.pictures if one.form.gallery else ()
    places = tuple(Picture(f"${{image_{picture.place}}}", picture.place) for picture in pictures)
    marked = (Passage("The marked image", (Line("Image ${marked}"),)),) if one.marked else ()
    texts = tuple(
        Passage(passage.title, (Line(f"${{text_{number}}}"),)) for number, passage in enumerate(one.form.passages, 1)
    )
    form: Form = msgspec.structs.replace(
        one.form,
        gallery=Gallery(places, one.form.gallery.sequence) if one.form.gallery else None,
        passages=(*texts, *marked),
    )
    addresses = {picture.image: f"${{address_{picture.place}}}" for picture in places}
    return fragment(form, addresses, "#image-${marked}{border-color:#1b66c9}" if marked else "")


def variables(one: Sheet, addresses: Mapping[str, str]) -> dict[str, str]:
    """One row of a batch: what is filled into the layout, as markup."""
    row = {"unit": one.unit.id, "seal": one.seal}
    row |= {f"text_{number}": passage_text(passage) for number, passage in enumerate(one.form.passages, 1)}
    for picture in one.form.gallery.pictures if one.form.gallery else ():
        row |= {f"image_{picture.place}": picture.image, f"address_{picture.place}": addresses[picture.image]}
    if one.marked:
        row["marked"] = str(one.marked)
    return {name: markup(value) for name, value in row.items()}


def answers(
    path: Path, units: Mapping[str, Unit], addresses: Mapping[str, str], protocol: Protocol, key: bytes
) -> Arrivals:
    """A results file.

    Raises DataError naming file:line for a row that cannot be read, a unit of another export, or an input that is not what
    was exported; naming the column for a file without one that a task's form needs.
    """
    header, rows = read_csv(path)
    _check_header(path, header)
    # only a file that we wrote for review has neutral cells: MTurk's own are taken as they are
    reviewed = any(row.get("Approve") or row.get("Reject") for row in rows.values())
    people, arrivals, refused = People(key, PLATFORM), [], []
    for line, cells in rows.items():
        where = f"{path}:{line}"
        row = {name: restored(cell) for name, cell in cells.items()} if reviewed else cells
        unit = units.get(shown(row.get("Input.unit", "")))
        if unit is None:
            raise DataError(
                f"{where}: the unit {row.get('Input.unit', '')!r} is in no export of this project",
                hint="import it into the project that it was exported from",
            )
        one = sheet(unit, 0, protocol.seed)
        _check_fields(path, header, one)
        _check_input(where, row, variables(one, addresses))
        worker = people.named(row["WorkerId"].strip())
        if row["AssignmentStatus"].strip() == "Rejected":
            refused.append(Refusal(f"{path.name}:{line}", unit.id, worker, "rejected", "The assignment was rejected."))
            continue
        sent = {name.removeprefix("Answer."): cell for name, cell in row.items() if name.startswith("Answer.")}
        values = values_of(one.form, sent)
        at = stamp(java_date(row["SubmitTime"], where))
        answer = Answer(unit.id, worker, values, one.order, 0, at, _seconds(row["WorkTimeInSeconds"]), BACKEND)
        arrivals.append(Arrival(f"{path.name}:{line}", answer))
    return Arrivals(tuple(arrivals), tuple(refused), people.known, (path.name,))


def review(path: Path, taken: Mapping[int, bool]) -> bytes:
    """The results file with `Approve` = X for the rows that were taken, by line, to be uploaded; other rows are left to a
    person, because each rejection needs a reason. Safe to open in a spreadsheet.
    """
    header, rows = read_csv(path)
    columns = [*header, *(name for name in ("Approve", "Reject") if name not in header)]
    marked = [
        {name: neutral(row.get(name, "")) for name in columns} | ({"Approve": "X"} if taken.get(line) else {})
        for line, row in rows.items()
    ]
    return write_csv(columns, marked)


def java_date(text: str, where: str) -> datetime:
    """`Thu Nov 20 10:01:31 PST 2025` as a moment; ISO 8601 is taken as well. Raises DataError naming `where` otherwise."""
    found = _DATE.fullmatch(text.strip())
    try:
        if found is None:
            return utc(datetime.fromisoformat(text.strip()))
        month, day, hour, minute, second, zone, year = found.groups()
        clock = (int(day), int(hour), int(minute), int(second))
        offset = timezone(timedelta(hours=_ZONES[zone]))
        return utc(datetime(int(year), _MONTHS.index(month) + 1, *clock, tzinfo=offset))
    except (ValueError, KeyError, OverflowError) as error:
        raise DataError(f"{where}: SubmitTime {text!r} is no time", hint="do not save it from a spreadsheet") from error


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in (*COLUMNS, "Input.unit", "Input.seal") if name not in header]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(missing)}: it is not the results file of a batch of ours",
            hint="download it from Manage > Review Results > Download CSV",
        )
    if len(set(header)) < len(header):
        raise DataError(f"{path} has a column twice", hint="download it again")


def _check_fields(path: Path, header: list[str], one: Sheet) -> None:
    free = {asked.name for asked in one.form.fields if isinstance(asked, Choice | Write) and asked.optional}
    needed = [f"Answer.{asked.name}" for asked in one.form.fields if asked.name not in free]
    missing = [name for name in needed if not any(f"{column}.".startswith(f"{name}.") for column in header)]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(missing)}, and {one.unit.task} needs {'it' if len(missing) == 1 else 'them'}",
            hint="download it again, and publish the batch with the layout that was exported",
        )


def _check_input(where: str, row: Mapping[str, str], exported: Mapping[str, str]) -> None:
    for name, cell in exported.items():
        if shown(row.get(f"Input.{name}", "")) != shown(cell):
            raise DataError(
                f"{where}: Input.{name} is {row.get(f'Input.{name}', '')[:80]!r}, which is not what was exported",
                hint="download the results again, into the project that the batch was exported from",
            )


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
