"""What a finished artifact of image sets would lose by another run: sources, and sets that people were asked about."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ctxr.errors import DataError, plural, some
from ctxr.store.artifacts import Parent
from ctxr.store.kinds import JUDGMENTS, TASKS
from ctxr.store.records import ImageSet, Source
from ctxr.store.tables import read_table
from ctxr.store.units import unit_sources


def gone(artifact: Path, parents: Sequence[Parent]) -> list[Source]:
    """Sources with a unit in the artifact that are not among `parents`; to an album, which is known by its name, photos may be added."""
    now = {(parent.name, parent.kind == "video" and parent.sha256) for parent in parents}
    sources = unit_sources(artifact)
    return [source for source in sources if (source.name, source.kind == "video" and source.sha256) not in now]


def losses(out: Path, parents: Sequence[Parent], workdir: Path, *, other: bool, sources: bool) -> str:
    """What a run takes from the artifact in `out`, in numbers; "" unless it is sets that tasks or answers of the project are about,
    or `sources`.

    `parents` are the sources of the run; `other`: its options pick other sets.
    """
    lost, before = gone(out, parents), unit_sources(out)
    albums = [{row.sha256 for row in rows if row.kind == "photos"} for rows in (before, parents)]
    photos_change = albums[0] != albums[1]  # another album gives photos other neighbours
    sets, names = list[ImageSet](), {source.name for source in lost}
    with suppress(DataError):  # a damaged table is made again
        sets = read_table(out / "sets.jsonl", ImageSet)
    going = {row.id for row in sets if other or row.source in names or (photos_change and row.kind == "photos")}
    tables = (f"{TASKS}/*/sets.jsonl", f"{JUDGMENTS}/sets.jsonl")
    files = {file for folder in (workdir, out.resolve().parent) for table in tables for file in folder.glob(table)}
    in_use = going & {row.id for file in files for row in read_table(file, ImageSet)}
    if not in_use and not (lost and sources):
        return ""
    what = f"{len(lost)} of {plural(len(before), 'source')} ({some(sorted(names))}) and " if lost else ""
    about = f"; tasks or answers are about {len(in_use)} of these sets" if in_use else ""
    return f"{'replaces' if other else 'removes'} {what}{len(going)} of {plural(len(sets), 'set')} in {out}{about}"
