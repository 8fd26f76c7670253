"""What people decided about images before others see them: a log of the project, and lists that somebody wrote."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """What a decision is about: a set of other images, or of other content, is another one."""
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
    sets, rows = {one.id: one.images for unit in units for one in unit.sets}, {**drop, **keep}
    about = {at: row.images or dict.fromkeys(sets.get(row.id, (row.id,)), "") for at, row in rows.items()}
    named = {image.rpartition("/")[0] for images in about.values() for image in images}
    known = dict[str, str]()  # what each image is of; "" for a photo that is in no set
    for unit in (one for one in units if one.source.name in named):
        video = unit.source.sha256[:16] if unit.source.kind == "video" else ""
        known |= dict.fromkeys(ids_in_ledger(unit), video)
        known |= {image.id: footage_of(image, unit.source) for image in unit.images}
    here = {
        at: [one for one, content in images.items() if one in known and (not content or known[one] in ("", content))]
        for at, images in about.items()
    }
    gone = [at for at, images in here.items() if not images]
    if strange := [at for at in gone if not rows[at].images]:
        name = rows[strange[0]].id
        hint = did_you_mean(name, sets, "an image is SOURCE/imgNUMBER or ALBUM/FILE, a set as in sets.jsonl")
        raise DataError(f"{strange[0]}: no image or set of these sources is called {name!r}", hint=hint)
    if gone:
        warn(f"{plural(len(gone), 'decision')} passed over: their sources are not here, or have other content now")
    rejected, left_out = dict[str, Decision](), dict[str, Decision]()
    for at, row in drop.items():
        (rejected if row.id in about[at] else left_out).update(dict.fromkeys(here[at], row))
    return PersonChoices(rejected, left_out, frozenset(image for at in keep for image in here[at]))
