"""Where scores come from: a trained run of the project, a file that any model wrote, or a model scored as it is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_file, sha256_of
from ctxr.data.records import Query, Score
from ctxr.data.scores import ScoresFile, read_scores
from ctxr.errors import DataError, UnfinishedError, UsageError

RUNS = "runs"
"""Folder of a project that holds a folder for each run."""

KIND = "run"
SCORES = "scores.jsonl"

SCORING = "ctxr.pipelines.scoring"
"""Module whose `scores_of(run folder or model name, dataset, queries)` scores what was not scored yet."""


@dataclass(frozen=True)
class Run:
    """Scores by one name.

    Attributes:
        values: by query, by candidate. place: `file:line` of a query's scores, or of one of them; the name where no file
            holds them. origin: what it is, by content. artifact: of a trained run.
    """

    name: str
    values: dict[str, dict[str, float]]
    place: Callable[[str, str | None], str] = field(compare=False)
    origin: Parent
    artifact: Artifact | None = None


def find_runs(sources: Sequence[str], workdir: Path, dataset: Dataset, queries: Callable[[], list[Query]]) -> list[Run]:
    """The runs that `sources` name, in that order: the name or folder of a run, a file of scores, or a model's name.

    Without sources, every finished run of the project. `queries` is asked for what a model is to score.

    Raises UnfinishedError where there is none, UsageError for a name that is nothing of this or stands twice, DataError as
    `read_scores` does.
    """
    named = list(sources) or _finished(workdir / RUNS)
    if not named:
        raise UnfinishedError(
            f"{workdir / RUNS} holds no finished run", hint="name a file of scores: ctxr eval scores.jsonl"
        )
    runs = [run for source in named for run in _open(source, workdir, dataset, queries)]
    seen: set[str] = set()
    for run in runs:
        if run.name in seen:
            raise UsageError(
                f"two runs are called {run.name!r}", hint="rename one of the files, or give its rows another scorer"
            )
        seen.add(run.name)
    return runs


def run_of(name: str, scores: Iterable[Score]) -> Run:
    """Scores at hand as a run."""
    values: dict[str, dict[str, float]] = {}
    for row in scores:
        values.setdefault(row.query, {})[row.candidate] = row.value
    return Run(name, values, lambda _query, _candidate: name, Parent(name, "scores", sha256_of(values)))


def _finished(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob(f"*/{MANIFEST}"))


def _open(source: str, workdir: Path, dataset: Dataset, queries: Callable[[], list[Query]]) -> list[Run]:
    if not source:
        raise UsageError("a run has an empty name", hint="name a run, a file of scores, or a model")
    inside = workdir / RUNS / source
    folder = inside if inside.is_dir() else Path(source)
    if folder.is_dir():
        return [_trained(folder, dataset, queries)]
    if folder.is_file():
        return _from_file(folder)
    if find_spec(SCORING) is None or folder.suffix in (".jsonl", ".json"):
        raise UsageError(
            f"{source} is neither a run in {workdir / RUNS} nor a file of scores",
            hint="ctxr eval NAME, or a file with lines of query, candidate and value",
        )
    return [run_of(source, _scored(source, dataset, queries()))]


def _trained(folder: Path, dataset: Dataset, queries: Callable[[], list[Query]]) -> Run:
    artifact = open_artifact(folder, KIND)
    name = folder.resolve().name
    origin = Parent(name, KIND, artifact.sha256)
    if not (folder / SCORES).is_file():
        if find_spec(SCORING) is None:
            raise UnfinishedError(f"{folder} holds no {SCORES}", hint="run the command that made it again")
        run = run_of(name, _scored(folder, dataset, queries()))
        return Run(name, run.values, run.place, origin, artifact)
    if SCORES in artifact.changed_files():
        raise DataError(f"{folder / SCORES} was changed since the run was written", hint="restore it, or train again")
    found = read_scores(folder / SCORES)
    if len(found) > 1:
        raise DataError(f"{folder / SCORES} holds {len(found)} scorers", hint=f"ctxr eval {folder / SCORES}")
    (file,) = found.values()
    return Run(name, file.values, file.place, origin, artifact)


def _from_file(path: Path) -> list[Run]:
    digest = sha256_file(path)
    return [_read(scorer or _name_of(path), file, digest) for scorer, file in read_scores(path).items()]


def _read(name: str, file: ScoresFile, digest: str) -> Run:
    return Run(name, file.values, file.place, Parent(name, "scores", digest))


def _name_of(path: Path) -> str:
    """A file called `scores.jsonl` is known by its folder."""
    return path.resolve().parent.name if path.name == SCORES else path.stem


def _scored(source: str | Path, dataset: Dataset, queries: list[Query]) -> list[Score]:
    module: Any = import_module(SCORING)
    scores: list[Score] = module.scores_of(source, dataset, queries)
    return scores
