"""`ctxr eval`: evaluate and compare runs, with confidence intervals and error analysis."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ctxr.datasets.lineage import dataset_parents, remember_dataset
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.report import SUMMARY
from ctxr.engine.stage import Inputs, SourceInputs, Stage, execute
from ctxr.errors import UsageError
from ctxr.metrics.proportions import LEVEL
from ctxr.models.hub import makes_pairs
from ctxr.models.identity import model_identity
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.problems.drawing import charts_of, drawn
from ctxr.problems.evaluation import ALL_SPLITS, NO_SPLIT, EvalRequest, Evaluation, ScoredRun, SplitT
from ctxr.problems.figures import Columns, Summariser, correct_together
from ctxr.problems.nothing_fits import RankedQueries, add_nothing_fits
from ctxr.problems.own_model import ScoreFunction, find_model, model_scores
from ctxr.problems.queries import pictures_of, queries_of
from ctxr.problems.registry import evaluation_of, find_question, problems
from ctxr.problems.results import RESULTS, plain_name, read_tables, results_name
from ctxr.problems.runs import SCORES
from ctxr.store.artifacts import MANIFEST, Content, Manifest, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EVALUATION, MODEL, RELEASE, RUN, RUNS
from ctxr.store.scores import write_scores


@dataclass(eq=False)
class OwnModelStage(Stage[SourceInputs[ScoreFunction]]):
    """The scores of --model as a run: of the valid and test queries of a dataset, or of --split, or of all where there is neither."""

    KIND = RUN
    options: Eval
    model: str
    dataset: Path

    def out(self) -> Path:
        """Named after the model."""
        return self.options.workdir / RUNS / (self.options.name or plain_name(self.model))

    def inputs(self, progress: Progress) -> SourceInputs[ScoreFunction]:
        """The dataset with its pictures, and the file of the model. Raises UsageError for a run that another command made."""
        if (self.out() / MANIFEST).is_file() and open_artifact(self.out()).manifest.verb != self.options.COMMAND:
            raise UsageError(f"{self.out()} is a run of another command", hint="choose another --name")
        function, file = find_model(self.model)
        parents = dataset_parents(self.dataset, self.dataset.resolve().stem, self.options.workdir, progress)
        parents.append(Parent(self.model, MODEL, sha256_file(file)))
        return SourceInputs(parents, {"model": self.model, "split": self.options.split}, function)

    def write(self, inputs: SourceInputs[ScoreFunction], out: Path, progress: Progress) -> Content:
        """Score set by set."""
        dataset = open_dataset(self.dataset, self.options.workdir, progress)
        splits, every = {self.options.split} if self.options.split else {"valid", "test"}, queries_of(dataset)
        queries = [one for one in every if (one.split or NO_SPLIT) in splits] or every
        self.announce(progress, queries=len(queries), pictures=len(pictures_of(dataset, queries)))
        write_scores(out / SCORES, model_scores(self.model, inputs.source, dataset, queries, progress))
        return Content([SCORES], {"queries": dict(Counter(one.split or NO_SPLIT for one in queries))}, {})


def with_own_models(config: Eval, progress: Progress) -> Eval:
    """The options with a run in the place of each --model, which is scored now unless it was."""
    if not config.model:
        return config
    named = EvalRequest(config, progress).path if config.runs else config.dataset
    dataset, runs = chosen(named, config.workdir, CHAIN, progress), [*config.runs]
    for model in config.model:
        stage = OwnModelStage(config, model, dataset)
        execute(stage, progress)
        remember_dataset(stage.out(), dataset)
        runs.append(stage.out().name)
    return replace(config, dataset=dataset, runs=tuple(runs), model=(), name=None)


class EvalStage(Stage[Inputs]):
    """Figures and tables as an artifact of the kind that the problem writes."""

    options: Eval

    def __init__(self, options: Eval, progress: Progress) -> None:
        super().__init__(options)
        self.request = EvalRequest(options, progress)
        named = [find_question(options.problem)] if options.problem else []
        # a problem with results of a kind of its own knows its runs without the dataset
        special = (one for one in problems().values() if one.evaluation.KIND != EVALUATION and one.takes(self.request))
        self.KIND = next((one.evaluation.KIND for one in named or special), EVALUATION)

    def out(self) -> Path:
        """Named after the runs."""
        names = [source.name for source in self.request.sources]
        return self.options.out or self.options.workdir / RESULTS / results_name(names)

    def inputs(self, progress: Progress) -> Inputs:
        """Dataset and runs, and the models that the options name, by content."""
        options, runs = self.options, [(source.name, source.origin.sha256) for source in self.request.sources]
        named = {"encoder": options.encoder, "rerank_by": options.rerank_by}
        models = {option: model_identity(name, options.workdir) for option, name in named.items() if name}
        return Inputs([*self.request.parents()], {**options.key(), **models, "runs": runs})

    def other(self, earlier: Manifest, inputs: Inputs) -> list[str]:
        """Runs are another setting where others are named, not where one was made again; so is another release."""
        before, now = ([name for name, _ in runs] for runs in (earlier.config.get("runs", ()), inputs.key["runs"]))
        released = RELEASE in (inputs.parents[0].kind, *(one.kind for one in earlier.parents))
        moved = released and inputs.parents[0].sha256 not in {one.sha256 for one in earlier.parents}
        found = ["dataset"] * moved + super().other(earlier, inputs)
        return [name for name in found if name != "runs" or before != now]

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """What was found."""
        evaluation = evaluation_of(self.request)
        self.announce(progress, runs=len(evaluation.runs), queries=sum(map(len, evaluation.splits)))
        measure_splits(evaluation, self.options, progress)
        content, findings = evaluation.write(out), evaluation.findings
        figures = drawn(charts_of(evaluation))
        for name, image in figures.items():
            write_bytes(out / name, image, durable=False)
        report = {
            "problem": evaluation.PROBLEM,
            "dataset": evaluation.dataset,
            "names": list(evaluation.names),
            "notes": findings.notes,
        }
        # a file of scores may hold several runs
        runs = dict.fromkeys(run.origin for run in evaluation.runs)
        known = {run.sha256 for run in runs}
        parents = [*(parent for parent in inputs.parents if parent.sha256 not in known), *runs]
        files = [*content.files, *figures]
        return content._replace(files=files, counts=content.counts | report, parents=parents)


def run(config: Eval, progress: Progress = SILENT) -> EvalReport:
    """Match, measure, compare, write. Raises DataError naming file:line, UnfinishedError without a dataset or a run."""
    config.check()
    if makes_pairs(config.rerank_by):
        raise UsageError(
            f"--rerank-by {config.rerank_by} scores pairs, and a shortlist needs an encoder of vectors",
            hint="--rerank-by ViT-B-32:openai",
        )
    stage = EvalStage(with_own_models(config, progress), progress)
    up_to_date = execute(stage, progress).up_to_date
    results = stage.out()
    manifest, tables = open_artifact(results).manifest, read_tables(results)
    counts, files = manifest.counts, tuple(manifest.files)
    names, notes = (tuple(counts[name]) for name in ("names", "notes"))
    return EvalReport(results, counts["dataset"], names, up_to_date, tables, notes, files, config.full)


def measure_splits(evaluation: Evaluation[SplitT, ScoredRun], config: Eval, progress: Progress) -> None:
    """Find the figures and differences of every split, and what the problem adds."""
    findings, measured = evaluation.findings, []
    for split in evaluation.splits:
        seed, draws = (config.seed, ALL_SPLITS.index(split.name)), (config.resamples, config.permutations)
        summary = Summariser(split.name, evaluation.groups(split), seed, *draws, evaluation.TOGETHER)
        columns, ranked = dict[str, Columns](), dict[str, RankedQueries]()
        for run in progress.each(f"figures of {split.name}", evaluation.runs):
            columns[run.name] = evaluation.columns(split, run, summary)
            if config.nothing_fits and (own := evaluation.ranked(split, run)):
                ranked[run.name] = own
        measured.append((split, summary.figures(columns), summary, ranked))
        if config.compare:
            findings.differences += summary.differences(evaluation.compared(split, columns), evaluation.single)
    findings.differences = correct_together(findings.differences)
    for split, figures, summary, ranked in measured:
        findings.figures += figures
        evaluation.complete(split, figures, summary)
        if ranked:
            add_nothing_fits(findings, ranked, summary)
    if (table := evaluation.summary()) is not None:
        findings.tables = {SUMMARY: table, **findings.tables}
    if (tests := len(findings.differences)) > (1 - LEVEL) * (config.permutations + 1):
        findings.notes.append(
            f"{tests} tests are corrected together, too many for {config.permutations} sign patterns to show any "
            f"difference: --permutations {25 * tests}, or compare fewer runs"
        )
    evaluation.finish()
