"""`ctxr.evaluate`: the figures of `ctxr eval` for arrays of scores and functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctxr.api.benchmark import Benchmark, load
from ctxr.api.verbs import Warnings, WarningsAndBars, hinted
from ctxr.engine.options import convert
from ctxr.engine.project import CHAIN, project_of
from ctxr.engine.report import SUMMARY, Table
from ctxr.errors import UsageError, and_more, did_you_mean
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import measure_splits
from ctxr.problems.drawing import Chart, plot_chart
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.figures import Figure
from ctxr.problems.own_model import checked_scores, model_scores
from ctxr.problems.queries import EvalQuery
from ctxr.problems.registry import evaluation_of
from ctxr.store.scores import write_scores


@hinted()
def evaluate(
    benchmark: Benchmark | str | Path, models: Mapping[str, Any], *names: str, progress: bool = False, **options: Any
) -> "Results":
    """Figures of models on a benchmark, as `ctxr eval` finds them; nothing is kept.

    Args:
        models: by name, each a function, called with the texts and the pictures of a set at a time, that returns an array [texts,
            pictures]; or scores: an array [queries, candidates] in the order of the benchmark, or a dict of rows by id.
        names: of runs, files of scores and encoders, such as "ctxr-tiny", evaluated beside them. options: further ones of `ctxr.eval`.

    Raises UsageError for scores of another shape or that are not finite, and what `ctxr.eval` raises.
    """
    asked = benchmark if isinstance(benchmark, Benchmark) else load(benchmark)
    if not isinstance(models, Mapping) or not all(isinstance(name, str) for name in models):
        hint = 'ctxr.evaluate(benchmark, {"mine": scores}); of an encoder, run or file: ctxr.evaluate(benchmark, {}, "ctxr-tiny")'
        raise UsageError("models are given by name", hint=hint)
    if not (models or names) or "runs" in options:
        raise UsageError("no model is named", hint='ctxr.evaluate(benchmark, {"mine": scores}, "ctxr-tiny")')
    if not any(one.text for one in asked.rows):
        raise UsageError(f"{asked.path} has no query to evaluate models on", hint="load a dataset with descriptions")
    shown, project = WarningsAndBars() if progress else Warnings(), project_of(asked.path, *CHAIN)
    split = "".join(asked.splits) if len(asked.splits) == 1 else ""
    # a slice lacks queries, and a run may lack some
    usual = {"dataset": asked.path, "workdir": project, "split": split, "partial": True}
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.jsonl") for number in range(len(models))]
        for file, (name, model) in zip(files, models.items(), strict=True):
            if isinstance(model, str | Path):
                hint = f"give the function itself; runs, files and encoders: ctxr.evaluate(benchmark, {{}}, {str(model)!r})"
                raise UsageError(f"{name}: {str(model)!r} is a name, not scores or a function", hint=hint)
            if callable(model):
                write_scores(file, model_scores(name, model, asked.dataset, asked.rows, shown))
                continue
            parts = _by_query(name, model, asked) if isinstance(model, Mapping) else [(model, asked.rows)]
            write_scores(file, [row for values, queries in parts for row in checked_scores(values, queries, name)])
        given = {"compare": len(files) + len(names) > 1, **usual, **options, "runs": [*files, *names]}
        config = Eval(**convert(Eval, given, "ctxr.evaluate()")).check()
        every = {name for name, one in asked.dataset.queries.items() if one.labels is None}
        evaluation = evaluation_of(EvalRequest(config, shown, left_out=every - {one.query for one in asked.rows}))
        measure_splits(evaluation, config, shown)
    found = evaluation.findings
    return Results(found.tables, tuple(found.notes), tuple(found.figures))


def _by_query(name: str, model: Mapping[str, Any], asked: Benchmark) -> list[tuple[Any, Sequence[EvalQuery]]]:
    """The row of each query of a dict. Raises UsageError for a query that is not in the dataset, and one without a row."""
    hint = "ids are those of ctxr.load: {one.id: scores for one in benchmark}"
    if strange := [query for query in model if query not in asked.dataset.queries]:
        raise UsageError(f"{name}: query {strange[0]!r} is not asked in {asked.path}", hint=hint)
    if lost := [one.query for one in asked.rows if one.query not in model]:
        raise UsageError(f"{name}: no scores for query {lost[0]!r}{and_more(len(lost))}", hint=hint)
    return [([model[one.query]], [one]) for one in asked.rows]


@dataclass(frozen=True)
class Results:
    """What models find on a benchmark.

    Attributes:
        tables: by name, `SPLIT/TABLE`; they print as Markdown. notes: what a reader of the figures must know.
        figures: every measure of every model on every part of a split, with its interval, 0..1.
    """

    tables: dict[str, Table]
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self.notes])

    def table(self, name: str = "", split: str = "") -> Table:
        """A table: by default the summary, or the first of a split, test or the last. Raises UsageError without one."""
        if not name and not split and SUMMARY in self.tables:
            return self.tables[SUMMARY]
        split = split or "".join([one.partition("/")[0] for one in self.tables if "/" in one][-1:])
        found = f"{split}/{name}" if name else next((one for one in self.tables if one.startswith(f"{split}/")), split)
        if found not in self.tables:
            hint = did_you_mean(found, self.tables, f"tables are {', '.join(self.tables)}")
            raise UsageError(f"there is no table {found!r}", hint=hint)
        return self.tables[found]

    def compare(self, split: str = "") -> Table:
        """The differences of every two models, with intervals and p-values. Raises UsageError where there is one model alone."""
        if len({one.run for one in self.figures}) < 2:
            raise UsageError("one model alone was evaluated", hint="give two models or more")
        return self.table("differences", split)

    def plot(self, measure: str = "", split: str = "") -> Any:
        """Axes of matplotlib with each model and its 95 % interval, as `ctxr eval` draws them; by default of the first measure of
        `table()`, on the last split. Raises UsageError where nothing was measured.
        """
        if not measure and SUMMARY in self.tables:
            measure = self.tables[SUMMARY].columns[1]
        chosen = [one for one in self.figures if measure in ("", one.measure) and split in ("", one.split)]
        if not chosen:
            known = dict.fromkeys(one.measure for one in self.figures)
            hint = f"measures are {', '.join(known)}; .plot().figure.savefig('accuracy.png') writes a file"
            raise UsageError(f"nothing was measured as {measure or 'a figure'} on {split or 'any split'}", hint=hint)
        first = next(one for one in chosen if one.split == chosen[-1].split)
        rows = [one for one in chosen if replace(one, run="", interval=first.interval) == replace(first, run="")]
        from matplotlib import pyplot

        cells = {("", one.run): one.interval for one in rows}
        return plot_chart(Chart(f"{first.measure} on {first.split}, %", cells), pyplot.figure())
