"""`ctxr eval`: evaluate and compare runs, with confidence intervals and error analysis."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import common_dataset
from ctxr.datasets.open import open_dataset, origin_of
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import UsageError
from ctxr.models.hub import makes_pairs
from ctxr.models.picture_vectors import distances_of, vectors_of
from ctxr.models.tokens import load_tokenizer
from ctxr.pipelines.modelling import notes as beside
from ctxr.pipelines.modelling.classifier_eval import classifiers_of, evaluate_classifiers
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.pipelines.modelling.gallery_eval import evaluate
from ctxr.problems import figures as measuring
from ctxr.problems import results, tables
from ctxr.problems.figures import telling
from ctxr.problems.gallery.scoring import asks_galleries
from ctxr.problems.pair_inputs import REGIONS
from ctxr.problems.questions import SIDES, BenchmarkQuery, EvalSplit, match, questions_of
from ctxr.problems.results import Findings, refuse_same_files, results_name
from ctxr.problems.runs import Run, Scoring, check_name, find_runs, run_folders
from ctxr.store import kinds
from ctxr.store.artifacts import Content, Parent
from ctxr.store.kinds import REGION_FEATURES
from ctxr.store.regions import read_regions

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(config: Eval, progress: Progress | None = None) -> EvalReport:
    """Match scores with targets, measure, compare, and write the artifact.

    Raises UsageError for wrong arguments and unknown runs, DataError naming file:line for scores that do not fit or are not
    complete, UnfinishedError without a dataset or a run, and where what the runs were made on is not found.
    """
    config.check()
    if makes_pairs(config.rerank_by):
        raise UsageError(
            f"--rerank-by {config.rerank_by} scores pairs, and a shortlist needs an encoder of vectors",
            hint="--rerank-by ViT-B-32:openai",
        )
    recalls = config.ks()
    progress = progress or Silent()
    if classifiers := classifiers_of(config):
        return evaluate_classifiers(config, classifiers, progress)
    for source in config.runs:
        check_name(source, config.workdir)
    where = config.dataset or common_dataset(run_folders(config.runs, config.workdir), progress)
    dataset = open_dataset(where, config.workdir, progress)
    if asks_galleries(config.runs, dataset, config.workdir):
        return evaluate(config, dataset, recalls, progress)
    return _evaluate_sets(config, dataset, recalls, progress)


def _evaluate_sets(config: Eval, dataset: "Dataset", recalls: list[int], progress: Progress) -> EvalReport:
    """Figures of runs over sets of images, and the artifact. Raises what `run` says."""
    vectors = vectors_of(dataset, config.encoder, config.device, progress) if config.encoder else None
    questions = questions_of(dataset, distances_of(dataset, vectors))
    wanted = _wanted(questions, config.split)
    scoring = Scoring(dataset, lambda: wanted, config.workdir, config.device, progress, config.regions)
    runs = find_runs(config.runs, scoring)
    names = [run.name for run in runs]
    refuse_same_files(names)
    questions, tokenizer = _counted(questions, runs, config.tokenizer)
    sides, unmatched = match(dataset, questions, runs, config.split, config.partial)
    recalls, pointless = telling(sides, recalls)
    found = _measured(config, sides, recalls, progress)
    people = beside.people(dataset)
    if people is not None:
        found.tables["people"] = people
    found.notes += [
        *dataset.notes,
        *([beside.ALONE] if config.compare and len(runs) == 1 else []),
        *unmatched,
        *pointless,
        *beside.partial_notes(sides),
        *beside.tagged_elsewhere(dataset),
        *beside.leakage_notes(dataset, sides, progress),
        *beside.contamination_notes(dataset, sides, runs),
    ]
    out = config.out or config.workdir / results.RESULTS / results_name(names)
    parents = [origin_of(dataset), *(run.origin for run in runs)]
    if config.regions:
        parents.append(_regions(config))

    def write() -> Content:
        rows = (row for side in sides for row in results.query_results(side))
        files, counts, _ = results.write_findings(out, found, rows, results.files_for_others(sides))
        counts = {"runs": len(runs)} | counts | {side.name: len(side.questions) for side in sides}
        return Content(files, counts, {"tokenizer": {"name": tokenizer}})

    settings = config.key() | {"runs": names}
    up_to_date = results.record(out, kinds.EVALUATION, settings, parents, write, progress)
    return EvalReport(out, dataset.name, tuple(names), up_to_date, found.tables, tuple(found.notes))


def _measured(config: Eval, sides: "Sequence[EvalSplit]", recalls: list[int], progress: Progress) -> "Findings":
    """The figures of every side, and the tables of them."""
    found = Findings()
    with progress.task("figures", len(sides)) as task:
        for side in sides:
            seed = (config.seed, SIDES.index(side.name))
            clusters = measuring.clusters_of(side, measuring.unit_of(side, config.cluster), seed, config.resamples)
            found.figures += measuring.figures(side, clusters, recalls)
            found.correlations += measuring.correlations(side, clusters)
            found.errors += measuring.errors(side)
            found.seeds += measuring.seeds(side)
            if config.compare:
                found.differences += measuring.differences(side, clusters, seed, config.permutations)
            task.advance()
    for side in sides:
        found.tables |= tables.tables_of(side, found, config.cluster)
    return found


def _wanted(questions: "dict[str, BenchmarkQuery]", split: str) -> list[str]:
    """Queries that a model is asked to score: those of the split, else of valid and test, else all."""
    sides = {split} if split else {"valid", "test"}
    return [name for name, one in questions.items() if one.side in sides] or list(questions)


def _counted(
    questions: "dict[str, BenchmarkQuery]", runs: "list[Run]", tokenizer: str
) -> "tuple[dict[str, BenchmarkQuery], str]":
    """The questions with the tokens of the texts that are evaluated, and what counted them."""
    counter = load_tokenizer(tokenizer)
    sides = {questions[name].side for run in runs for one in run.scorers for name in one.values if name in questions}
    texts = {name: one.text for name, one in questions.items() if one.side in sides and one.right}
    lengths = {name: len(one.tokens) for name, one in zip(texts, counter.parse(texts), strict=True)}
    return {name: replace(one, tokens=lengths.get(name, 0)) for name, one in questions.items()}, counter.name


def _regions(config: Eval) -> "Parent":
    """The region features that replace those a run was trained on, as a parent."""
    return Parent(config.regions, REGION_FEATURES, read_regions(config.workdir / REGIONS / config.regions).sha256)
