"""What people decided about images before others see them: a log of the project, and lists that somebody wrote."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ctxr.errors import DataError, did_you_mean, plural
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Decision, Image, Source
from ctxr.store.scores import typed_lines
from ctxr.store.tables import numbered_lines
from ctxr.store.units import SourceUnit, ids_in_ledger


def footage_of(image: Image, source: Source | None) -> str:
    """What an image is of: 16 digits of the SHA-256 of its video, or of the picture where it is of none."""
    return (source.sha256 if source and source.kind == "video" else image.sha256)[:16]


def matter(row: Decision) -> tuple[str, ...]:
    """What a decision is about: a set whose images are others, or of other content, is another matter."""
    return row.id, *sorted(f"{image} {content}" for image, content in row.images.items())


def counted(rows: Iterable[Decision]) -> dict[tuple[str, ...], Decision]:
    """What counts of decisions in the order of time: of each person the last one; of several people, one rejection suffices."""
    last = {(matter(row), row.person): row for row in rows}
    found = [row for row in last.values() if row.decision != "open"]
    return {matter(row): row for row in sorted(found, key=lambda row: row.decision == "reject")}


def read_decisions(path: Path | None, decision: str) -> dict[str, Decision]:
    """What counts in a file and says `keep` or `reject`, or nothing, by `file:line`; nothing without a file.

    The file is a log, a CSV with these columns, of which `id` is enough, or a text with an id in each line. Raises DataError.
    """
    if path is None:
        return {}
    hint = "name decisions.jsonl, a CSV with a column id, or a text with the id of an image or a set in each line"
    rows = typed_lines(path, Decision, hint)
    if path.suffix.lower() not in (".jsonl", ".json", ".csv"):
        rows = ((number, Decision(text.decode(errors="replace").strip())) for number, text in numbered_lines(path))
    lines = {f"{path}:{number}": row for number, row in rows}
    final = {id(row) for row in counted(lines.values()).values()}
    return {at: row for at, row in lines.items() if id(row) in final and row.decision in ("", decision)}


def decisions_key(rows: Mapping[str, Decision]) -> str:
    """A hash over decisions, whenever and in whatever order they were taken."""
    return sha256_of(sorted((*matter(row), row.reason, row.person) for row in rows.values()))


@dataclass(frozen=True)
class PersonChoices:
    """What people decided about the images of sources, by image id.

    Attributes:
        rejected: in no set, and replaced. left_out: of rejected sets: a set of a video that has one of them is left out, and nothing
            takes its place; photos are in no set. kept: no limit of quality is asked.
    """

    rejected: Mapping[str, Decision] = field(default_factory=dict)
    left_out: Mapping[str, Decision] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


def person_choices(
    drop: Mapping[str, Decision], keep: Mapping[str, Decision], units: Sequence[SourceUnit], warn: Callable[[str], None]
) -> PersonChoices:
    """Decisions applied to the sources of `units`; `warn` hears of those in a log that are about other sources, or other footage of
    the same name. Raises DataError naming file:line for an id in a list that none of them has."""
    by_name = {unit.source.name: unit for unit in units}
    sets = {one.id: one.images for unit in units for one in unit.sets}
    contents = {image.id: footage_of(image, unit.source) for unit in units for image in unit.images}
    gone = 0

    @cache
    def ids(source: str) -> frozenset[str]:
        return frozenset(ids_in_ledger(by_name[source])) if source in by_name else frozenset()

    def is_there(image: str, content: str = "") -> bool:
        source = image.rpartition("/")[0]
        unit = by_name.get(source)
        own = unit.source.sha256[:16] if unit and unit.source.kind == "video" else contents.get(image, content)
        return image in ids(source) and content in ("", own)

    def images(at: str, row: Decision) -> Sequence[str]:
        nonlocal gone
        if row.images:
            found = [image for image, content in row.images.items() if is_there(image, content)]
            gone += not found
            return found
        if row.id not in sets and not is_there(row.id):
            hint = did_you_mean(row.id, sets, "an image is SOURCE/imgNUMBER or ALBUM/FILE, a set as in sets.jsonl")
            raise DataError(f"{at}: no image or set of these sources is called {row.id!r}", hint=hint)
        return sets.get(row.id, (row.id,))

    rejected, left_out = dict[str, Decision](), dict[str, Decision]()
    for at, row in drop.items():
        single = row.id in row.images if row.images else row.id not in sets
        (rejected if single else left_out).update(dict.fromkeys(images(at, row), row))
    kept = frozenset(image for at, row in keep.items() for image in images(at, row))
    if gone:
        warn(f"{plural(gone, 'decision')} passed over: their sources are not here, or have other content now")
    return PersonChoices(rejected, left_out, kept)
