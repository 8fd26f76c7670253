"""What `ctxr eval` asks of a problem: columns of each run on each split, and what is shown beside them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import common_dataset
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.metrics.columns import RatioColumn
from ctxr.problems.figures import Columns, Figure, Summariser
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.results import Findings, QueryResult, write_findings
from ctxr.problems.runs import AnyRun, check_name, run_folders
from ctxr.problems.tables import percent
from ctxr.store.artifacts import Content, Parent
from ctxr.store.kinds import EVALUATION

NO_SPLIT = "none"
SIDES = (*SPLITS, NO_SPLIT)
"""Splits of a benchmark in the order of tables; the last is that of sets without one."""


class EvalRequest:
    """What is to be evaluated, by the `options` of `ctxr eval`."""

    def __init__(self, options: Any, progress: Progress) -> None:
        self.options, self.progress = options, progress

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset that is named, or that the runs have in common. Raises UsageError for a name that is nothing."""
        options = self.options
        for source in options.runs:
            check_name(source, options.workdir)
        path = options.dataset or common_dataset(run_folders(options.runs, options.workdir), self.progress)
        return open_dataset(path, options.workdir, self.progress)

    @property
    def scoring(self) -> ScoringOptions:
        """Where and how models score."""
        options = self.options
        return ScoringOptions(
            options.workdir, options.device, "auto", options.regions, options.rerank, options.rerank_by
        )


class Evaluation(ABC):
    """Runs on the examples of a problem.

    Attributes:
        KIND: of the artifact. TOGETHER, EXACT: see `Summariser`.
        unsure: splits with how many pairs leave their rankings.
        dataset: its name. runs: with their scorers. splits: examples in the order of tables. parents: what decides the result.
    """

    KIND: ClassVar[str] = EVALUATION
    TOGETHER: ClassVar[bool] = False
    EXACT: ClassVar[bool] = False

    unsure: Sequence[tuple[str, int]] = ()
    dataset: str
    runs: Sequence[AnyRun]
    splits: Sequence[Any]
    parents: Sequence[Parent]

    def __init__(self, request: EvalRequest) -> None:
        self.request, self.options, self.progress = request, request.options, request.progress
        self.findings = Findings()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the runs."""
        return tuple(run.name for run in self.runs)

    @property
    def titles(self) -> tuple[str, ...]:
        """What the folder of the results is named after."""
        return self.names

    @property
    def key(self) -> Mapping[str, Any]:
        """Everything beside the parents that decides the result."""
        return {**self.options.key(), "runs": list(self.names)}

    def groups(self, split: Any) -> Sequence[Any]:
        """What is drawn again as a whole, one for each row of the columns: by default each query by itself."""
        return range(len(split))

    @abstractmethod
    def columns(self, split: Any, run: Any, summary: Summariser) -> Columns:
        """The measures of a run, the mean over its scorers."""

    def compared(self, split: Any, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """The measures by which runs are tested, by part: by default all that every run has."""
        runs = {run: {measure[2]: column for measure, column in by_measure} for run, by_measure in columns.items()}
        first = next(iter(runs.values()), {})
        shared = [name for name in first if all(name in by_measure for by_measure in runs.values())]
        return {name: {run: by_measure[name] for run, by_measure in runs.items()} for name in shared}

    def single(self) -> Sequence[str]:
        """Runs whose queries are right or wrong outright, for McNemar's test."""
        return ()

    def complete(self, split: Any, figures: list[Figure], summariser: Summariser) -> None:
        """Add the tables of a split, and what is no ratio of sums, to the findings; `figures` are those of its columns."""
        rows = tuple((figure.run, figure.part, figure.measure, percent(figure.interval)) for figure in figures)
        self.findings.tables[split.name] = Table(split.name, ("run", "on", "measure", "%"), rows)

    def finish(self) -> None:
        """Add what concerns all splits."""
        self.findings.rows["tables"] = list(self.findings.tables.values())

    def rows(self) -> Iterable[QueryResult]:
        """What each scorer did on each query."""
        return ()

    def files(self) -> Mapping[str, str]:
        """Files for other programs."""
        return {}

    def write(self, out: Path) -> Content:
        """Write the findings, and count runs, rows and queries."""
        content = write_findings(out, self.findings, self.rows(), self.files())
        counts = {"runs": len(self.runs)} | content.counts | {split.name: len(split) for split in self.splits}
        return Content(content.files, counts, content.models)
