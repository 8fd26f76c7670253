"""Where scores come from: runs, files, published models; and how a problem's models are made."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import other_datasets
from ctxr.engine.progress import Progress
from ctxr.engine.project import command_in
from ctxr.errors import DryRun, UnfinishedError, UsageError, did_you_mean, some
from ctxr.models.hub import from_root
from ctxr.models.identity import model_identity
from ctxr.models.training.recipe import Recipe
from ctxr.problems.options import TrainOptions
from ctxr.problems.own_model import ARRAY, checked_scores, read_array
from ctxr.problems.queries import pictures_of, queries_of
from ctxr.problems.recipes import list_recipes
from ctxr.store.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.store.atomic import DRY_RUN
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import CLASSIFIERS, MODEL, RUN, RUNS, TRAINED
from ctxr.store.paths import portable
from ctxr.store.records import Record
from ctxr.store.scores import read_scores

SCORES = "scores.jsonl"
"""Table of a run with what its scorers say of validation and test."""

EPOCHS = "epochs.jsonl"
"""Table of a run: each epoch of each seed."""

NAMED = "named"
"""In the models of a run's manifest: what its recipe names;
in the config stands the content of what is named by a place."""

REGIONS = "regions"
"""Folder of a project that holds a folder for each set of region features."""

PLAIN_ENCODERS = ("ctxr-lite", "ctxr-tiny", "auto")
"""Names of encoders that hold no colon."""


@dataclass(frozen=True)
class ScoringOptions:
    """Where and how a model scores.

    Attributes:
        workdir: project folder, where vectors are cached. device: auto, cpu, cuda, cuda:N, mps.
        precision: fp32, bf16, or auto: as a run was trained. regions: name of region features in the project; "" for those a run was
            trained on. rerank: candidates of each query that a cross-encoder rescores, 0 for all; None as a run was validated.
        rerank_by: encoder that makes the shortlist.
    """

    workdir: Path
    device: str = "auto"
    precision: str = "auto"
    regions: str = ""
    rerank: int | None = None
    rerank_by: str = ""


class HistoryRow(Record, frozen=True):
    """Metrics of an epoch of a seed: mean loss of its queries, accuracy on valid 0..1; None where it was not validated."""

    KEY = ("seed", "epoch")

    seed: int
    epoch: int
    loss: float
    accuracy: float | None


class OpenRun(Protocol):
    """A trained run, or a published encoder."""

    def score(self, examples: Any) -> Mapping[str, Any]:
        """Scores of the problem's own examples, by scorer: one, or `NAME/seedN` for each seed."""

    def explain(self, examples: Any) -> Mapping[tuple[str, str], list[list[int]]]:
        """Percent 0..100 that each candidate looks at each, by scorer and query, where the question `explains`."""
        return {}


class Learner(Protocol):
    """How models are trained for a problem."""

    def job(self, options: TrainOptions, recipe: Recipe, progress: Progress) -> Any:
        """The `TrainJob` of a recipe. Raises UsageError for some that make no sense."""

    def open_run(self, source: Path | str, options: ScoringOptions, progress: Progress) -> OpenRun:
        """A run by folder, or an encoder by name. Raises UnfinishedError for an unfinished run."""


@dataclass(frozen=True)
class EvaluatedRun:
    """A row of a table: a model, or several that differ in their seed alone; `origin` is what it is, by content."""

    name: str
    origin: Parent
    artifact: Artifact | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ModelScores:
    """Scores by one model.

    Attributes:
        name: of the run, or `RUN/seedN` where a run has several.
        values: by query and candidate. place: `file:line` of a query's scores, or of one of them; the name where there is no file.
    """

    name: str
    values: dict[str, dict[str, float]]
    place: Callable[[str, str | None], str] = field(compare=False)

    def joined(self, other: "ModelScores") -> "ModelScores":
        """With the scores of further queries."""
        return replace(
            self,
            values=self.values | other.values,
            place=lambda query, candidate: (self if query in self.values else other).place(query, candidate),
        )


@dataclass(frozen=True)
class Run(EvaluatedRun):
    """A run with its scores: one scorer, or one for each seed."""

    scorers: tuple[ModelScores, ...]


@dataclass(frozen=True)
class Scoring:
    """How queries, by id, are scored; `learner` opens models when needed; scores of `left_out` are not taken."""

    dataset: Dataset
    origin: Parent
    queries: Sequence[str]
    options: ScoringOptions
    progress: Progress
    learner: Callable[[], Learner]
    left_out: Set[str] = frozenset()

    def asked(self, scores: ModelScores) -> ModelScores:
        """The scores without those of what is `left_out`."""
        return replace(scores, values={name: row for name, row in scores.values.items() if name not in self.left_out})

    def fits(self, values: Mapping[str, Mapping[str, float]]) -> bool:
        """Whether the dataset asks all of these queries, with these candidates."""
        images = {image_set.id: frozenset(image_set.images) for image_set in self.dataset.sets}
        queries = self.dataset.queries
        return all(name in queries and row.keys() <= images[queries[name].image_set] for name, row in values.items())


@dataclass(frozen=True)
class RunSource:
    """What a run is read from.

    Attributes:
        name: what results are named after: of the folder, the file, or the model. place: of a trained run or a file of scores; None
            for a published model, which `name` names. origin: what it is, by content. renamed: whether `name` outranks that in the file.
    """

    name: str
    place: Path | None
    origin: Parent
    renamed: bool = False

    @property
    def looks(self) -> bool:
        """Whether it may score pictures now: a model, or a run with checkpoints."""
        return self.place is None or (self.place.is_dir() and _can_score(open_artifact(self.place)))


def run_sources(sources: Sequence[str], workdir: Path, dataset: Parent, progress: Progress) -> tuple[RunSource, ...]:
    """What `sources` name, in that order: the name or folder of a run or classifier, a file of scores, or a model's name.

    Without sources, every finished run of the project; one that was made on another dataset than this, and one that was judged on no
    queries, is left out with a warning.

    Raises UnfinishedError where there is none, UsageError for a name that is nothing of this, DataError for scores of a run that were
    changed.
    """
    for source in sources:
        check_run_name(source, workdir)
    named = list(sources) or finished_runs(workdir)
    if not named:
        raise UnfinishedError(
            f"{workdir / RUNS} holds no finished run",
            hint="name a file of scores: ctxr eval scores.jsonl; or a model of yours: ctxr eval --model my_model:score",
        )
    for name in () if sources else tuple(named):
        artifact, why = open_artifact(workdir / RUNS / name, RUN), ""
        again, queries = command_in(workdir, "eval", name), artifact.manifest.counts.get("queries", {})
        if _can_score(artifact) and (others := other_datasets(artifact, dataset)):
            why = f"was made on another dataset ({others[0].name}): {again}   scores it on this one"
        elif not (_has_scores(artifact) or queries.get("valid") or queries.get("test")):
            why = f"was judged on no queries: {again}   scores it on what there is"
        if why:
            progress.warn(f"the run {name} is left out, it {why}")
            named.remove(name)
    if not named:
        raise UnfinishedError(
            f"no run in {workdir / RUNS} has scores for {dataset.name}",
            hint=f"{command_in(workdir, 'eval', 'NAME')}   scores one of them here",
        )
    return tuple(_source(source, workdir) for source in named)


def _source(source: str, workdir: Path) -> RunSource:
    folder, file = trained_folder(source, workdir), Path(source)
    if folder is not None:
        artifact = open_artifact(folder)
        if artifact.changed_files(SCORES):
            raise artifact.changed_error(SCORES)
        name = folder.resolve().name
        return RunSource(name, folder, Parent(name, artifact.manifest.kind, artifact.sha256))
    if file.is_file():
        name = file.stem
        return RunSource(name, file, Parent(name, "scores", sha256_file(file)))
    name = portable(from_root(source), workdir)
    return RunSource(name, None, Parent(name, MODEL, model_identity(source, workdir)))


def find_runs(sources: Sequence[RunSource], scoring: Scoring, named: bool = True) -> list[Run]:
    """The scores of runs; what a trained run or a published model did not score yet is scored now. Of runs that were not `named`, one
    that scored what the dataset does not ask is left out with a warning.

    Raises UsageError for two runs of one name, DataError as `read_scores` does, UnfinishedError where none is left.
    """
    runs: list[Run] = []
    for source in sources:
        if source.place is None:
            runs.append(Run(source.name, source.origin, computed_scores(source.name, source.name, scoring)))
        elif source.place.is_dir():
            runs.append(_trained_run(source.place, scoring))
        else:
            found = _from_file(source, source.place, scoring)
            runs += [Run(own.name, structs.replace(source.origin, name=own.name), (own,)) for own in found]
    runs = [replace(run, scorers=tuple(map(scoring.asked, run.scorers))) for run in runs]
    for run in () if named else tuple(runs):
        if not all(scoring.fits(one.values) for one in run.scorers):
            scoring.progress.warn(f"the run {run.name} is left out, it scored what {scoring.dataset.name} does not ask")
            runs.remove(run)
    if not runs:
        score = command_in(scoring.options.workdir, "eval", "NAME")
        raise UnfinishedError(
            f"no run has scores for {scoring.dataset.name}", hint=f"{score}   scores one of them here"
        )
    refuse_twice(runs, "rename one of the files, or give its rows another scorer")
    return runs


def _from_file(source: RunSource, file: Path, scoring: Scoring) -> Iterator[ModelScores]:
    """The scores of a file, by scorer; an array has those of every query by id, or of the queries that are evaluated."""
    if file.suffix.lower() != ARRAY:
        for scorer, scores in read_scores(file).items():
            name = source.name if source.renamed else scorer or source.name
            yield ModelScores(name, scores.values, scores.locate)
        return
    array, values = read_array(file), dict[str, dict[str, float]]()
    asked = queries_of(scoring.dataset, {*scoring.queries})
    queries = asked if array.shape[:1] == (len(asked),) else queries_of(scoring.dataset)
    taken = {one.split or "none" for one in queries}
    if len(taken) < len({*map(scoring.dataset.split_of, scoring.dataset.sets)}):
        scoring.progress.note(f"{file}: the rows are taken for the queries of {', '.join(sorted(taken))}")
    for row in checked_scores(array, queries, str(file)):
        values.setdefault(row.query, {})[row.candidate] = row.value
    yield ModelScores(source.name, values, lambda _query, _candidate: str(file))


def refuse_twice(runs: Sequence[EvaluatedRun], hint: str) -> None:
    """Raises UsageError for two runs of one name."""
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two runs are called {twice!r}", hint=hint)


def check_run_name(source: str, workdir: Path) -> None:
    """Raises UsageError for a name of no run, classifier, file of scores or encoder."""
    if not source:
        raise UsageError("a run has an empty name", hint="name a run, a file of scores, or a model")
    if Path(source).suffix == ".py" and Path(source).is_file():
        raise UsageError(f"{source} is no file of scores", hint=f"ctxr eval --model {Path(source).stem}:score")
    if trained_folder(source, workdir) is not None or Path(source).exists():
        return
    if Path(source).suffix in (".jsonl", ".json", ".csv", ARRAY):
        raise UsageError(
            f"{source} is neither a run in {workdir / RUNS} nor a file of scores",
            hint="ctxr eval NAME, or a file with lines of query, candidate and value",
        )
    if ":" in source or source in PLAIN_ENCODERS:
        return
    names = {folder: finished_runs(workdir, folder) for folder in TRAINED}
    near = did_you_mean(source, [*(name for listed in names.values() for name in listed), *PLAIN_ENCODERS])
    hint = f"{near} " if near else ""
    if source in list_recipes():
        hint = f"ctxr train --recipe {source}   makes it; "
    for folder, listed in names.items():
        missing = "no run is finished yet; " if folder == RUNS else ""
        hint += f"the {folder} are {some(listed, 8)}; " if listed else missing
    raise UsageError(
        f"there is neither {' nor '.join(f'a {kind}' for kind in TRAINED.values())} {source!r} in {workdir}",
        hint=f"{hint}an encoder is named as in ViT-B-32:openai",
    )


def run_folders(sources: Sequence[str], workdir: Path) -> list[Path]:
    """Folders of the named runs, or of every finished one; scores and models have none."""
    folders = (trained_folder(source, workdir) for source in sources or finished_runs(workdir))
    return [folder for folder in folders if folder is not None]


def finished_runs(workdir: Path, home: str = RUNS) -> list[str]:
    """Names of a project's finished runs, or of other trained models (`TRAINED`), by folder."""
    folders = sorted(file.parent for file in (workdir / home).glob(f"*/{MANIFEST}"))
    return [one.name for one in folders if home == RUNS or open_artifact(one).manifest.kind == TRAINED[home]]


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints of a run, by seed."""
    folders = [file.parent for file in folder.glob("seed*/config.json") if file.parent.name[4:].isdigit()]
    return sorted(folders, key=lambda seed: int(seed.name[4:]))


def scorers_in(run: Path) -> dict[str, Path]:
    """Checkpoints of a run by scorer: the run's name, or `NAME/seedN` where there are several."""
    name, seeds = run.resolve().name, checkpoints(run)
    return {name if len(seeds) == 1 else f"{name}/{seed.name}": seed for seed in seeds}


def run_folder(source: str, workdir: Path) -> Path | None:
    """The folder of a run by its name in the project, or by its path; None for anything else."""
    return next((folder for folder in (workdir / RUNS / source, Path(source)) if source and folder.is_dir()), None)


def trained_folder(source: str, workdir: Path) -> Path | None:
    """The folder of a run or classifier by its name in the project, or by its path; None for anything else."""
    classifier = workdir / CLASSIFIERS / source
    return classifier if source and (classifier / MANIFEST).is_file() else run_folder(source, workdir)


def _trained_run(folder: Path, scoring: Scoring) -> Run:
    """A trained run; what of it was not scored when it was trained is scored now."""
    artifact = open_artifact(folder, RUN)
    name, changed = folder.resolve().name, artifact.changed_files()
    origin = Parent(name, RUN, artifact.sha256)
    if not _can_score(artifact):
        return Run(name, origin, _stored(folder), artifact=artifact)
    kept: Sequence[ModelScores] = ()
    regions = scoring.options.regions in ("", artifact.manifest.config.get("regions", ""))
    if regions and _has_scores(artifact) and not other_datasets(artifact, scoring.origin):
        stored = tuple(map(scoring.asked, _stored(folder)))
        kept = stored if all(scoring.fits(one.values) for one in stored) else ()
    lacking = [query for query in scoring.queries if not kept or any(query not in one.values for one in kept)]
    if not lacking:
        if changed:
            what = artifact.changed_error(changed[0]).message
            scoring.progress.warn(f"{what}; its stored scores are whole and count")
        return Run(name, origin, tuple(kept), artifact=artifact)
    artifact.refuse_changed()
    by_name = {one.name: one for one in kept}
    computed = computed_scores(name, folder, replace(scoring, queries=lacking))
    scorers = tuple(by_name[one.name].joined(one) if one.name in by_name else one for one in computed)
    return Run(name, origin, scorers, artifact=artifact)


def _stored(folder: Path) -> tuple[ModelScores, ...]:
    files = read_scores(folder / SCORES)
    names = _names(folder.resolve().name, files)
    return tuple(ModelScores(name, files[scorer].values, files[scorer].locate) for scorer, name in names.items())


def computed_scores(run: str, source: str | Path, scoring: Scoring) -> tuple[ModelScores, ...]:
    """What a run's folder, or a model by its name, says now of the queries."""
    opened = scoring.learner().open_run(source, scoring.options, scoring.progress)
    if DRY_RUN.get():  # the long work begins
        asked = queries_of(scoring.dataset, {*scoring.queries}) if isinstance(source, str) else ()
        pictures = pictures_of(scoring.dataset, asked)
        raise DryRun(plan={"queries": len(scoring.queries), "pictures": len(pictures) or None})
    scores = opened.score((scoring.dataset, scoring.queries))
    return tuple(
        ModelScores(name, {query: dict(row) for query, row in scores[scorer].items()}, lambda _query, _candidate: run)
        for scorer, name in _names(run, scores).items()
    )


def _names(run: str, scorers: Collection[str]) -> dict[str, str]:
    """What the scorers of a run are called: seeds after its folder as it is now."""
    return {name: run if len(scorers) == 1 else f"{run}/{name.rpartition('/')[2]}" for name in sorted(scorers)}


def _can_score(artifact: Artifact) -> bool:
    """Whether a run holds checkpoints that can be asked for what it did not score."""
    return artifact.manifest.verb == "train" and any(artifact.path.glob("seed*/config.json"))


def _has_scores(artifact: Artifact) -> bool:
    entry = artifact.manifest.files.get(SCORES)
    return entry is not None and entry.bytes > 0
