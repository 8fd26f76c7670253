"""`ctxr eval`: evaluate and compare runs, with confidence intervals and error analysis."""

from pathlib import Path
from typing import Any

from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import UsageError
from ctxr.metrics.proportions import LEVEL
from ctxr.models.hub import makes_pairs
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.problems import evaluation_of
from ctxr.problems.evaluation import SIDES, EvalRequest, Evaluation
from ctxr.problems.figures import Columns, Summariser, correct_together
from ctxr.problems.results import RESULTS, results_name
from ctxr.store.artifacts import Content, plain


class EvalStage(Stage):
    """Figures and tables as an artifact of the kind that the problem writes."""

    def __init__(self, options: Eval, evaluation: Evaluation) -> None:
        super().__init__(options)
        self.evaluation, self.KIND = evaluation, evaluation.KIND
        self.folder = options.out or options.workdir / RESULTS / results_name(evaluation.titles)

    def out(self) -> Path:
        """Named after the runs."""
        return self.folder

    def inputs(self, progress: Progress) -> Inputs:
        """Dataset and runs."""
        return Inputs(self.evaluation.parents, key=self.evaluation.key)

    def key(self, inputs: Inputs) -> dict[str, Any]:
        """What the problem says."""
        return plain(inputs.key)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """What was found."""
        return self.evaluation.write(out)


def run(config: Eval, progress: Progress = SILENT) -> EvalReport:
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
    evaluation: Evaluation = evaluation_of(EvalRequest(config, progress))
    measure(evaluation, config, progress)
    stage = EvalStage(config, evaluation)
    up_to_date = execute(stage, progress).up_to_date
    findings = evaluation.findings
    return EvalReport(
        stage.out(), evaluation.dataset, evaluation.names, up_to_date, findings.tables, tuple(findings.notes)
    )


def measure(evaluation: Evaluation, config: Eval, progress: Progress) -> None:
    """Find the figures and differences of every split, and what the problem adds."""
    findings, measured = evaluation.findings, []
    for split in evaluation.splits:
        summary = Summariser(
            split.name,
            evaluation.groups(split),
            (config.seed, SIDES.index(split.name)),
            config.resamples,
            config.permutations,
            evaluation.TOGETHER,
            evaluation.EXACT,
        )
        columns: dict[str, Columns] = {}
        with progress.task(f"figures of {split.name}", len(evaluation.runs)) as task:
            for run in evaluation.runs:
                columns[run.name] = evaluation.columns(split, run, summary)
                task.advance()
        measured.append((split, summary.figures(columns), summary))
        if config.compare:
            findings.differences += summary.differences(evaluation.compared(split, columns), evaluation.single())
    findings.differences = correct_together(findings.differences)
    for split, figures, summary in measured:
        findings.figures += figures
        evaluation.complete(split, figures, summary)
    if (tests := len(findings.differences)) > (1 - LEVEL) * (config.permutations + 1):
        findings.notes.append(
            f"{tests} tests are corrected together, too many for {config.permutations} sign patterns to show any "
            f"difference: --permutations {25 * tests}, or compare fewer runs"
        )
    evaluation.finish()
