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
from ctxr.data.records import Score
from ctxr.data.scores import ScoresFile, read_scores
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.talk import Talk

RUNS = "runs"
"""Folder of a project that holds a folder for each run."""

KIND = "run"
MODEL = "model"
"""Kinds of origin beside `scores`, a file: what `ctxr train` made, and a model scored as it is."""

SCORES = "scores.jsonl"

SCORING = "ctxr.pipelines.scoring"
"""Module whose `scores_of` scores what was not scored yet."""


@dataclass(frozen=True)
class Scorer:
    """Scores by one model.

    Attributes:
        name: of the run, or `RUN/seedN` where a run has several.
        values: by query, by candidate. place: `file:line` of a query's scores, or of one of them; the name where no file
            holds them.
    """

    name: str
    values: dict[str, dict[str, float]]
    place: Callable[[str, str | None], str] = field(compare=False)


@dataclass(frozen=True)
class Run:
    """What is one row of a table: a model, or several that differ in their seed alone.

    Attributes:
        scorers: one, or one for each seed. origin: what it is, by content. artifact: of a trained run.
    """

    name: str
    scorers: tuple[Scorer, ...]
    origin: Parent
    artifact: Artifact | None = None


@dataclass(frozen=True)
class Scoring:
    """How what was not scored yet is scored.

    Attributes:
        queries: asked for when something is to be scored: ids. device: where.
        regions: name of region features in the project, for models that look at regions.
    """

    dataset: Dataset
    queries: Callable[[], list[str]]
    workdir: Path
    device: str
    talk: Talk
    regions: str = ""

    def __call__(self, source: str | Path) -> list[Score]:
        """Scores by a run's folder, or a model's name."""
        module: Any = import_module(SCORING)
        machine = module.Machine(device=self.device)
        scores: list[Score] = module.scores_of(
            source, self.dataset, self.queries(), self.workdir, machine, self.talk, self.regions
        )
        return scores


def find_runs(sources: Sequence[str], scoring: Scoring) -> list[Run]:
    """The runs that `sources` name, in that order: the name or folder of a run, a file of scores, or a model's name.

    Without sources, every finished run of the project.

    Raises UnfinishedError where there is none, UsageError for a name that is nothing of this or stands twice, DataError as
    `read_scores` does.
    """
    folder = scoring.workdir / RUNS
    named = list(sources) or sorted(file.parent.name for file in folder.glob(f"*/{MANIFEST}"))
    if not named:
        raise UnfinishedError(f"{folder} holds no finished run", hint="name a file of scores: ctxr eval scores.jsonl")
    runs = [run for source in named for run in _open(source, scoring)]
    seen: set[str] = set()
    for run in runs:
        if run.name in seen:
            raise UsageError(
                f"two runs are called {run.name!r}", hint="rename one of the files, or give its rows another scorer"
            )
        seen.add(run.name)
    return runs


def _open(source: str, scoring: Scoring) -> list[Run]:
    if not source:
        raise UsageError("a run has an empty name", hint="name a run, a file of scores, or a model")
    inside = scoring.workdir / RUNS / source
    folder = inside if inside.is_dir() else Path(source)
    if folder.is_dir():
        return [_trained(folder, scoring)]
    if folder.is_file():
        digest = sha256_file(folder)
        found = read_scores(folder).items()
        return [_of_file(scorer or _name_of(folder), file, digest) for scorer, file in found]
    if find_spec(SCORING) is None or folder.suffix in (".jsonl", ".json"):
        raise UsageError(
            f"{source} is neither a run in {scoring.workdir / RUNS} nor a file of scores",
            hint="ctxr eval NAME, or a file with lines of query, candidate and value",
        )
    scorers = _scorers(source, scoring(source))
    return [Run(source, scorers, Parent(source, MODEL, sha256_of([one.values for one in scorers])))]


def _trained(folder: Path, scoring: Scoring) -> Run:
    """A trained run; what of it was not scored when it was trained is scored now."""
    artifact = open_artifact(folder, KIND)
    name = folder.resolve().name
    origin = Parent(name, KIND, artifact.sha256)
    if SCORES in artifact.changed_files():
        raise DataError(f"{folder / SCORES} was changed since the run was written", hint="restore it, or train again")
    if SCORES not in artifact.manifest.files:
        if find_spec(SCORING) is None:
            raise UnfinishedError(f"{folder} holds no {SCORES}", hint="run the command that made it again")
        return Run(name, _scorers(name, scoring(folder)), origin, artifact)
    files = read_scores(folder / SCORES)
    scorers = tuple(
        Scorer(name if len(files) == 1 else _seed_name(name, scorer), file.values, file.place)
        for scorer, file in sorted(files.items())
    )
    return Run(name, scorers, origin, artifact)


def _seed_name(run: str, scorer: str) -> str:
    """Seeds are called after the folder as it is now."""
    return f"{run}/{scorer.rpartition('/')[2]}"


def _of_file(name: str, file: ScoresFile, digest: str) -> Run:
    return Run(name, (Scorer(name, file.values, file.place),), Parent(name, "scores", digest))


def _name_of(path: Path) -> str:
    """A file called `scores.jsonl` is known by its folder."""
    return path.resolve().parent.name if path.name == SCORES else path.stem


def _scorers(run: str, scores: Iterable[Score]) -> tuple[Scorer, ...]:
    """Scores at hand, by scorer."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in scores:
        found.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
    names = {name: run if len(found) == 1 else _seed_name(run, name) for name in sorted(found)}
    return tuple(Scorer(names[name], found[name], lambda _query, _candidate: run) for name in names)
