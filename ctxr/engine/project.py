"""Which artifact of the project a verb reads: the one that was named, or the furthest finished one of the chain."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError
from ctxr.store.artifacts import MANIFEST, merge_hint, open_artifact

WORKDIR = Path("work")  # the project folder where none is named
DATASETS = ("revised", "dataset")  # folders with descriptions of sets, furthest along first
SETS = ("filtered", "sets")  # folders with image sets alone
CHAIN = (*DATASETS, *SETS)  # each is made from a later one
DOCUMENTS = "documents"  # of `ctxr build-documents`: the dataset of a project that has no other


_MAKERS = {
    "revised": ("revise-labels",),
    "dataset": ("aggregate",),
    "filtered": ("filter",),
    "sets": ("build-sets", "videos/"),
}


class Latest(NamedTuple):
    """An artifact that was chosen, and sentences about the choice: unfinished ones, and those made from sets that were replaced."""

    path: Path
    notes: list[str]


def latest(workdir: Path, chain: Sequence[str]) -> Latest:
    """The finished artifact in `workdir` that is furthest along `chain` (furthest first).

    Raises UnfinishedError when nothing of the chain is finished, DataError for a damaged manifest.
    """
    names = [name for name in chain if (workdir / name).exists()]
    finished = [open_artifact(workdir / name) for name in names if (workdir / name / MANIFEST).is_file()]
    if finished:
        path = finished[0].path
        notes = [f"{name} is unfinished, so this is about {path.name}" for name in names[: names.index(path.name)]]
        for later, earlier in pairwise(finished):
            if all(parent.sha256 != earlier.sha256 for parent in later.manifest.parents):
                remedy = f"ctxr {later.manifest.verb} makes it again"
                notes.append(f"{later.path.name} was made from other sets than {earlier.path.name} holds now: {remedy}")
        return Latest(path, notes)
    if chain == CHAIN and (workdir / DOCUMENTS / MANIFEST).is_file():
        return Latest(workdir / DOCUMENTS, [])
    first = chain[-1]
    if names:
        maker = command_in(workdir, *_MAKERS.get(names[-1], _MAKERS[first]))
        raise UnfinishedError(
            f"{workdir / names[-1]} has no manifest.json: it is unfinished or not a ctxr artifact",
            hint=merge_hint(workdir / names[-1]) or f"run the command that makes it again: {maker}",
        )
    # a dataset is made of answers, which people give to tasks, which are about sets
    command = command_in(workdir, *_MAKERS[first])
    if first == "dataset" and not any((workdir / name).is_dir() for name in ("judgments", "crowd")):
        if any((workdir / "tasks").glob("*")):
            command += ", once people have answered"
        elif any((workdir / name).is_dir() for name in SETS):
            serve = command_in(workdir, "serve", "--invite", "5")
            command = f"{command_in(workdir, 'export-tasks', 'describe')}, {serve}, then {command}"
        else:
            command = command_in(workdir, *_MAKERS["sets"])
    hint = f"{command}   (or name an artifact: --input, --dataset or an argument, whichever the command has)"
    raise UnfinishedError(f"{workdir} holds no finished {'image sets' if first == 'sets' else first}", hint=hint)


def chosen(named: Path | None, workdir: Path, chain: Sequence[str], progress: Progress) -> Path:
    """`named`, or else the latest artifact of the project, with warnings about the choice. Raises what `latest` raises."""
    if named is not None:
        return named
    path, notes = latest(workdir, chain)
    for note in notes:
        progress.warn(note)
    return path


def project_of(artifact: Path, *names: str) -> Path:
    """The project of an artifact with one of these names; a folder of another name was chosen with --out, and its project is unknown.

    >>> str(project_of(Path("mine/sets"), *SETS)), str(project_of(Path("mine/other"), *SETS))
    ('mine', 'work')
    """
    return artifact.parent if artifact.name in names else WORKDIR


def command_in(workdir: Path, *words: str) -> str:
    """The command in that project.

    >>> command_in(Path("my work"), "filter"), command_in(WORKDIR, "filter")
    ("ctxr filter -w 'my work'", 'ctxr filter')
    """
    return shlex.join(["ctxr", *words, *([] if workdir == WORKDIR else ["-w", str(workdir)])])
