"""The artifact `dataset`: what was kept, with its pictures, so that it stands on its own."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.annotation.records import Dialogue
from ctxr.annotation.tasks.verify import KEEP
from ctxr.data.artifacts import MANIFEST
from ctxr.data.atomic import disk_errors, link_or_copy
from ctxr.data.records import Facts, Image, Judgment, Query, Record, Source, Split, SplitName, Text
from ctxr.data.tables import read_table, write_table
from ctxr.errors import DataError
from ctxr.pipelines.aggregating.acceptance import Acceptance
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.tasks_artifact import Answered

R = TypeVar("R", bound=Record)


def kept_queries(
    answered: Answered, decisions: Mapping[str, Acceptance], labels: Sequence[Judgment], blocked: Collection[str]
) -> dict[str, Query]:
    """Descriptions that were kept, dialogues that a third party kept, and the label queries about these and about others."""
    known = known_queries(answered)
    written = {query.id for query in answered.queries}
    asked = {decision.query: decision for decision in decisions.values()}
    good = {row.query.removeprefix("verify/") for row in labels if row.candidate == KEEP and row.value > 0}
    kept = {one.id for one in kept_dialogues(answered, good, blocked)}
    for name, query in known.items():
        # what was written elsewhere is dropped by votes alone, never for want of them
        if query.labels is None and (asked[name].reason is None if name in asked else name not in written):
            kept.add(name)
    texts = {text for name in kept for text in known[name].texts}
    fallen = {text for name in known.keys() - kept if known[name].labels is None for text in known[name].texts} - texts
    return {name: query for name, query in known.items() if name in kept or _goes_along(query, fallen)}


def known_queries(answered: Answered) -> dict[str, Query]:
    """Queries that answers made, and those from elsewhere that units asked about, by id."""
    known = {query.id: query for query in answered.queries}
    for unit in answered.units.values():
        if unit.purpose == "work" and unit.task in ("retrieve", "tag") and unit.query is not None:
            name = unit.query.removeprefix("tag/")
            known.setdefault(name, Query(name, unit.image_set, unit.text_ids))
    return known


def _goes_along(query: Query, fallen: Collection[str]) -> bool:
    """Whether labels are kept: unless the text that they are about fell."""
    return query.labels is not None and not any(text in fallen for text in query.texts)


def kept_dialogues(answered: Answered, good: Collection[str], blocked: Collection[str]) -> list[Dialogue]:
    """Dialogues that were verified, and that nobody on the block list took part in."""
    return [one for one in answered.dialogues if one.id in good and not set(one.workers) & set(blocked)]


def judgments_of(
    answered: Answered,
    kept: Mapping[str, Query],
    decisions: Mapping[str, Acceptance],
    labels: Sequence[Judgment],
    rule: str,
) -> list[Judgment]:
    """All votes on what was kept, its targets as `gold`, and what the votes came to, as worker `aggregate:<rule>`."""
    rows = [row for row in answered.judgments if row.query in kept]
    gold = {unit.query: unit.truth[0] for unit in answered.units.values() if unit.query and unit.truth}
    gold |= {
        unit.query.removeprefix("tag/"): unit.target
        for unit in answered.units.values()
        if unit.task == "tag" and unit.query and unit.target
    }
    named = {row.query for row in rows if row.worker == "gold"}
    rows += [Judgment(name, gold[name], "gold", 1.0) for name in kept if name in gold and name not in named]
    for decision in decisions.values():
        if decision.query in kept and decision.reason is None:
            votes = f"{decision.right}of{decision.right + decision.wrong}"
            target = answered.units[decision.unit].truth[0]
            rows.append(Judgment(decision.query, target, f"aggregate:{rule}@{votes}", 1.0))
    return rows + [row for row in labels if row.query in kept]


def write_dataset(
    out: Path,
    answered: Answered,
    kept: Mapping[str, Query],
    judgments: Sequence[Judgment],
    dialogues: Sequence[Dialogue],
    talk: Talk,
) -> tuple[list[str], dict[str, int]]:
    """Write tables and pictures of what was kept into `out`; returns the tables' names and how many rows each has.

    Pictures are hard links where the file system can. Raises DataError for a picture that is gone.
    """
    root = answered.root
    texts = _texts(answered, kept)
    usable = {name: query for name, query in kept.items() if all(text in texts for text in query.texts)}
    used = {query.image_set for query in usable.values()}
    sets = [one for one in answered.sets.values() if one.id in used]
    images = _pictures(answered, sorted({name for one in sets for name in one.images}))
    groups = {one.group for one in sets}
    # in this order, so that a killed run leaves no picture that no table knows
    _remove_stale(out, {image.path for image in images})
    write_table(out / "images.jsonl", images)
    with talk.progress("pictures", len(images)) as task:
        for image in images:
            if image.path:
                _link(root / image.path, out / image.path, image.id)
            task.advance()
    paths = {image.path for image in images}
    rows = {
        "sets.jsonl": write_table(out / "sets.jsonl", sets),
        "images.jsonl": write_table(out / "images.jsonl", images),
        "texts.jsonl": write_table(
            out / "texts.jsonl", [texts[name] for name in {name for query in usable.values() for name in query.texts}]
        ),
        "queries.jsonl": write_table(out / "queries.jsonl", usable.values()),
        "judgments.jsonl": write_table(out / "judgments.jsonl", [row for row in judgments if row.query in usable]),
        "dialogues.jsonl": write_table(out / "dialogues.jsonl", dialogues),
        "splits.jsonl": write_table(
            out / "splits.jsonl", [Split(group, side) for group, side in _splits(answered).items() if group in groups]
        ),
        "sources.jsonl": write_table(
            out / "sources.jsonl", _rows(root, "sources.jsonl", Source, {one.source for one in sets})
        ),
        "facts.jsonl": write_table(
            out / "facts.jsonl", [row for row in _rows(root, "facts.jsonl", Facts, None) if row.path in paths]
        ),
    }
    return list(rows), {name.removesuffix(".jsonl"): count for name, count in rows.items()}


def _pictures(answered: Answered, names: Sequence[str]) -> list[Image]:
    """Rows of pictures: those that people saw, and the others of their sets, which the artifact that they lie in tells of.

    Raises DataError for one that nothing tells of.
    """
    known = dict(answered.images)
    for root in _homes(answered):
        way = root.relative_to(answered.root)
        for image in _rows(root, "images.jsonl", Image, None):
            known.setdefault(image.id, msgspec.structs.replace(image, path=(way / image.path).as_posix()))
    lost = [name for name in names if name not in known]
    if lost:
        raise DataError(
            f"{lost[0]} is in a set of which people saw other pictures alone, and nothing below {answered.root} tells of it",
            hint="export the tasks again from an artifact that holds the whole sets",
        )
    return [known[name] for name in names]


def _homes(answered: Answered) -> list[Path]:
    """The folders of artifacts that the pictures lie in: the root itself, or below it where several were put under one."""
    ways = {parent for image in answered.images.values() for parent in Path(image.path).parents}
    return sorted(answered.root / way for way in ways if (answered.root / way / MANIFEST).is_file())


def _texts(answered: Answered, kept: Mapping[str, Query]) -> dict[str, Text]:
    """Texts by id: those written here, and those of a dataset that was judged again, out of the units that showed them."""
    found = {text.id: text for text in answered.texts}
    for unit in answered.units.values():
        for place, name in enumerate(unit.text_ids):
            if name not in found and unit.statement is None:
                found[name] = Text(name, unit.texts[place], unit.authors[0] if unit.authors else "unknown", place)
            elif name not in found and unit.statement is not None:
                found[name] = Text(name, unit.statement, unit.authors[0] if unit.authors else "unknown")
    return found


def _splits(answered: Answered) -> dict[str, SplitName]:
    return {unit.group: unit.split for unit in answered.units.values() if unit.split is not None}


def _rows(root: Path, name: str, record: type[R], wanted: Collection[str] | None) -> list[R]:
    if not (root / MANIFEST).is_file() or not (root / name).is_file():
        return []
    return [row for row in read_table(root / name, record) if wanted is None or row.key()[0] in wanted]


def _remove_stale(out: Path, wanted: Collection[str]) -> None:
    """Remove the pictures of an earlier run that are not `wanted` any more."""
    if not (out / "images.jsonl").is_file():
        return
    with disk_errors(out):
        for image in read_table(out / "images.jsonl", Image):
            picture = out / image.path
            if image.path in wanted or not picture.resolve().is_relative_to(out.resolve()):
                continue
            picture.unlink(missing_ok=True)
            for folder in picture.parents:
                if folder == out or not folder.is_dir() or any(folder.iterdir()):
                    break
                folder.rmdir()


def _link(original: Path, copy: Path, image: str) -> None:
    if not original.is_file():
        raise DataError(
            f"the picture of {image} is gone: {original}", hint="restore the image sets, or build and filter them again"
        )
    link_or_copy(original, copy)
