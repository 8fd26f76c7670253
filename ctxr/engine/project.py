"""Which artifact of the project a verb reads: the one that was named, or the furthest finished one of the chain."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError
from ctxr.store.artifacts import MANIFEST, merge_hint, open_artifact

WORKDIR = Path("work")
"""The project folder where none is named."""

DATASETS = ("revised", "dataset")
"""Folders of a project that hold descriptions with their sets, furthest along first."""

SETS = ("filtered", "sets")
"""Those that hold image sets alone."""

CHAIN = (*DATASETS, *SETS)
"""All of them: each is made from one further down."""

DOCUMENTS = "documents"
"""Folder of what `ctxr build-documents` writes: the dataset of a project that has no other."""


def latest(workdir: Path, chain: Sequence[str]) -> tuple[Path, list[str]]:
    """The finished artifact in `workdir` that is furthest along `chain` (furthest first), and what is worth knowing about
    the choice, in words without places: what was passed over as unfinished, and what was made from sets that are no more.

    Raises UnfinishedError when nothing of the chain is finished, DataError for a damaged manifest.
    """
    names = [name for name in chain if (workdir / name).exists()]
    finished = [open_artifact(workdir / name) for name in names if (workdir / name / MANIFEST).is_file()]
    if not finished and chain == CHAIN and (workdir / DOCUMENTS / MANIFEST).is_file():
        return workdir / DOCUMENTS, []
    if not finished:
        raise _nothing(workdir, names, chain[-1])
    path = finished[0].path
    unfinished = names[: names.index(path.name)]
    notes = [f"{name} is unfinished, so this is about {path.name}" for name in unfinished]
    for later, earlier in pairwise(finished):
        if all(parent.sha256 != earlier.sha256 for parent in later.manifest.parents):
            remedy = f"ctxr {later.manifest.verb} makes it again"
            notes.append(f"{later.path.name} was made from other sets than {earlier.path.name} holds now: {remedy}")
    return path, notes


def chosen(named: Path | None, workdir: Path, chain: Sequence[str], progress: Progress) -> Path:
    """`named`, or else the latest artifact of the project, with warnings about the choice. Raises what `latest` raises."""
    if named is not None:
        return named
    path, notes = latest(workdir, chain)
    for note in notes:
        progress.warn(note)
    return path


def command_in(workdir: Path, *words: str) -> str:
    """The command in that project.

    >>> command_in(Path("my work"), "filter"), command_in(WORKDIR, "filter")
    ("ctxr filter -w 'my work'", 'ctxr filter')
    """
    return shlex.join(["ctxr", *words, *([] if workdir == WORKDIR else ["-w", str(workdir)])])


def _nothing(workdir: Path, names: Sequence[str], first: str) -> UnfinishedError:
    if names:
        maker = command_in(workdir, *_MAKERS.get(names[-1], _MAKERS[first]))
        return UnfinishedError(
            f"{workdir / names[-1]} has no manifest.json: it is unfinished or not a ctxr artifact",
            hint=merge_hint(workdir / names[-1]) or f"run the command that makes it again: {maker}",
        )
    what = "image sets" if first == "sets" else first
    return UnfinishedError(
        f"{workdir} holds no finished {what}",
        hint=f"{_next(workdir, first)}   (or name an artifact: --input, --dataset or an argument, whichever the command has)",
    )


def _next(workdir: Path, wanted: str) -> str:
    """The next command on the way to what is wanted: a dataset is made of answers, answers are given to tasks, those are about sets."""
    if wanted != "dataset" or any((workdir / name).is_dir() for name in ("judgments", "crowd")):
        return command_in(workdir, *_MAKERS[wanted])
    aggregate = command_in(workdir, *_MAKERS["dataset"])
    if any((workdir / "tasks").glob("*")):
        return f"{aggregate}, once people have answered"
    if any((workdir / name).is_dir() for name in SETS):
        describe, serve = ("export-tasks", "describe"), ("serve", "--invite", "5")
        return f"{command_in(workdir, *describe)}, {command_in(workdir, *serve)}, then {aggregate}"
    return command_in(workdir, *_MAKERS["sets"])


_MAKERS = {"dataset": ("aggregate",), "filtered": ("filter",), "sets": ("build-sets", "videos/")}
"""Commands that make the folders of the chain."""
