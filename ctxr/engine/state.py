"""What a project folder holds: its artifacts, how fresh they are, and which commands made them. Manifests and history alone are read."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from ctxr.engine.history import HISTORY, without_yes
from ctxr.errors import INTERRUPTED, CtxrError
from ctxr.store import kinds
from ctxr.store.artifacts import MANIFEST, MARKER, Artifact, Parent, open_artifact, take_lock
from ctxr.store.paths import relative
from ctxr.store.tables import UNREADABLE

_MADE = (
    kinds.IMAGE_SETS, kinds.TASKS, kinds.JUDGMENTS, kinds.DATASET, kinds.RUN, kinds.CLASSIFIER, kinds.PAIRS, kinds.REGION_FEATURES,
    kinds.EXPORT,
)  # fmt: skip
"""Kinds of parents that are artifacts."""

DECISIONS = "decisions.jsonl"
"""File of a project, to which `ctxr serve --review` adds."""

_ROLES = ("image_sets", "dataset", "recipe")
"""Names of parents that say what they are for, not which folder they were in."""


@dataclass(frozen=True)
class Stored:
    """An artifact of a project.

    Attributes:
        name: its folder, relative to the project's. made: when, in seconds since 1970.
        artifact: None where it is unfinished or damaged; kind, verb and counts are empty then.
        words: the last command that made it, without --yes; empty where the history names none.
        running: whether another process writes it.
        parents: names of those that it was made from, or that stand in their place now.
        stale: why it should be made again; empty for a fresh one.
    """

    path: Path
    name: str
    made: float
    artifact: Artifact | None
    kind: str
    verb: str
    counts: Mapping[str, Any]
    words: tuple[str, ...]
    running: bool
    parents: tuple[str, ...] = ()
    stale: str = ""


@dataclass(frozen=True)
class ProjectState:
    """Everything that decides what comes next in a project.

    Attributes:
        stored: its artifacts, oldest first; those of the last command come last, also where they lie elsewhere.
        finished: those that are finished, by name, parents first.
        page: when its report was written, or 0. broken: the last command, if it was interrupted.
        run_failed: whether the last command that did not fail was before a `ctxr run` that did.
        open: units of each task that want answers; None where that is not known. answered: answers of the journal.
        rejections: of the review of its sets, unless filtered sets were made with all of them.
    """

    workdir: Path
    stored: Sequence[Stored]
    finished: Mapping[str, Stored]
    page: float
    broken: tuple[str, ...]
    run_failed: bool = False
    open: Mapping[str, int] | None = None
    answered: int = 0
    rejections: int = 0

    def made_from(self, one: Stored, *wanted: str) -> list[Stored]:
        """What was made from an artifact: of these kinds, or anything but plans, exports, indexes and regions."""
        children = [child for child in self.finished.values() if one.name in child.parents]
        beside = kinds.PLAN, kinds.EXPORT, kinds.INDEX, kinds.REGION_FEATURES
        return [one for one in children if one.kind in wanted or not (wanted or one.kind in beside)]


def read_state(workdir: Path, touched: Iterable[Path] = ()) -> ProjectState:
    """The state of a project, with artifacts that a command has just `touched`. A damaged one counts as unfinished."""
    lines, last, page = list(_history(workdir)), {path.resolve(): path for path in touched}, workdir / "report.html"
    rows = [(one.get("path"), line.words, one.get("up_to_date")) for line in lines for one in line.artifacts]
    # what found an artifact up to date did not make it
    words = {path: own for path, own, _ in rows} | {path: own for path, own, up_to_date in rows if not up_to_date}
    found = last | {path.resolve(): path for path in artifacts(workdir)}
    stored = [_stored(path, relative(path, workdir), words) for path in found.values() if path.is_dir()]
    stored.sort(key=lambda one: (one.path.resolve() in last, one.made, one.name))
    by_name, order = _with_parents(stored)
    broken = lines[-1].words if lines and lines[-1].exit_code == INTERRUPTED else ()
    finished = {name: by_name[name] for name in order}
    failed = [line.words[:1] for line in takewhile(lambda line: line.exit_code, reversed(lines))]
    shown = page.stat().st_mtime if page.is_file() else 0
    return ProjectState(workdir, [*by_name.values()], finished, shown, broken, ("run",) in failed)


def artifacts(folder: Path, depth: int = 2) -> Iterator[Path]:
    """The artifacts in a project and in its folders of artifacts, such as runs."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in (Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")):
            if (path / MANIFEST).is_file():
                yield path
            elif (path / MARKER).exists():  # unfinished, unless it holds the pictures of a report
                yield from () if path.with_name(f"{path.name}.html").is_file() else (path,)
            elif depth > 1:
                yield from artifacts(path, depth - 1)


class _Line(msgspec.Struct):
    """A line of the history, as far as it is read here."""

    words: tuple[str, ...]
    exit_code: int
    artifacts: list[dict[str, Any]]


def _history(workdir: Path) -> Iterator[_Line]:
    with suppress(OSError), (workdir / HISTORY).open("rb") as stream:
        for text in stream:
            with suppress(*UNREADABLE):  # the end of a line may be missing
                line = msgspec.json.decode(text, type=_Line)
                yield msgspec.structs.replace(line, words=without_yes(line.words))


def _stored(path: Path, name: str, words: Mapping[Any, tuple[str, ...]]) -> Stored:
    artifact, running = None, False
    with suppress(CtxrError, OSError):
        artifact = open_artifact(path)
    if artifact is None:
        with suppress(CtxrError, OSError), (path / MARKER).open() as stream:
            running = not take_lock(stream, shared=True)
    made = (path / MANIFEST if artifact else path).stat().st_mtime
    said = (artifact.manifest.kind, artifact.manifest.verb, artifact.manifest.counts) if artifact else ("", "", {})
    return Stored(path, name, made, artifact, *said, words.get(name, ()), running)


def _with_parents(stored: Sequence[Stored]) -> tuple[dict[str, Stored], list[str]]:
    """The artifacts by name with their parents, and why they are stale; and the finished ones, parents first."""
    by_name, done = {one.name: one for one in stored}, [(one, one.artifact) for one in stored if one.artifact]
    by_content = {sha: one.name for one, artifact in done for sha in (artifact.content, artifact.sha256)}
    made_of = {one.name: [row for row in artifact.manifest.parents if row.kind in _MADE] for one, artifact in done}
    known = {name: {by_content.get(row.sha256, name) for row in rows} - {name} for name, rows in made_of.items()}
    for name, row in [(name, row) for name, rows in made_of.items() for row in rows if row.sha256 not in by_content]:
        if now := _in_place_of(row, by_name[name], stored, known):
            known[name] |= {now} & known.keys()
            by_name[name] = replace(by_name[name], stale=f"{now} was made again")
    order = list(TopologicalSorter(known).static_order())
    for name in order:
        stale = [parent for parent in sorted(known[name]) if by_name[parent].stale]
        why = by_name[name].stale or (f"{stale[0]} is stale" if stale else "")
        by_name[name] = replace(by_name[name], parents=tuple(sorted(known[name])), stale=why)
    return by_name, order


def _in_place_of(parent: Parent, one: Stored, stored: Sequence[Stored], known: Mapping[str, Collection[str]]) -> str:
    """What a command would read for a parent not found by content: an artifact it named, or of the project; or ""."""
    for word in one.words:
        with suppress(CtxrError, OSError):
            named = open_artifact(Path(word))
            if named.manifest.kind == parent.kind and named.path.resolve() != one.path.resolve():
                own = next((other.name for other in stored if other.path.resolve() == named.path.resolve()), word)
                return own if named.sha256 != parent.sha256 else ""

    def comes_from(other: str) -> bool:
        return other == one.name or any(map(comes_from, known.get(other, ())))

    fitting = [other for other in reversed(stored) if other.kind == parent.kind and not comes_from(other.name)]
    called = [other.name for other in fitting if other.path.name in (parent.name, *one.words)]
    return next(iter(called or [other.name for other in fitting if parent.name in _ROLES]), "")
