"""What `ctxr eval` asks of a problem: columns of each run and split, and what is beside them."""

from collections.abc import Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import common_dataset, content_of, picture_parents
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import UsageError, plural
from ctxr.metrics.compare import Interval, RatioColumn
from ctxr.metrics.proportions import LEVEL
from ctxr.models.hub import placeless
from ctxr.models.identity import model_identity
from ctxr.problems.figures import Columns, Figure, Summariser, none_had, people_on, percent, resolution
from ctxr.problems.nothing_fits import RankedQueries
from ctxr.problems.options import EvalOptions
from ctxr.problems.results import Findings
from ctxr.problems.runs import (
    REGIONS,
    EvaluatedRun,
    RunSource,
    ScoringOptions,
    check_run_name,
    run_folders,
    run_sources,
)
from ctxr.problems.verdicts import verdict_artifacts
from ctxr.store.artifacts import Content, Parent, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import CLASSIFIER, EVALUATION, MODEL, REGION_FEATURES

NO_SPLIT = "none"
ALL_SPLITS = (*SPLITS, NO_SPLIT)
"""Splits of a benchmark in the order of tables; the last is that of sets without one."""


@dataclass(eq=False)
class EvalRequest:
    """What is to be evaluated, by the `options` of `ctxr eval`."""

    options: EvalOptions
    progress: Progress
    beside: "type[Evaluation[Any, Any]] | None" = None
    """Evaluation of runs of another problem (`Question.BESIDE`)."""
    left_out: Set[str] = frozenset()
    """Queries of the dataset that are not asked, whatever a run scored of them."""

    @cached_property
    def path(self) -> Path:
        """The dataset named, of the runs, or the latest. Raises UsageError for an unknown run."""
        options = self.options
        for source in options.runs:
            check_run_name(source, options.workdir)
        path = options.dataset or common_dataset(run_folders(options.runs, options.workdir), self.progress)
        return chosen(path, options.workdir, CHAIN, self.progress)

    @cached_property
    def origin(self) -> Parent:
        """The dataset by content."""
        return content_of(self.path)

    @cached_property
    def sources(self) -> tuple[RunSource, ...]:
        """The runs that are evaluated, in their order. Raises what `run_sources` raises."""
        named = structs.replace(self.origin, name=self.path.resolve().stem)
        found, name = run_sources(self.options.runs, self.options.workdir, named, self.progress), self.options.name
        if name and (found[0].place is None or found[0].place.is_dir()):
            raise UsageError(f"--name is for a file of scores, not for {found[0].name}", hint="leave out --name")
        return (replace(found[0], name=name, renamed=True),) if name else found

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset, read, without what is `left_out`."""
        dataset = open_dataset(self.path, self.options.workdir, self.progress)
        queries = {name: one for name, one in dataset.queries.items() if name not in self.left_out}
        judgments = tuple(one for one in dataset.judgments if one.query in queries)
        return replace(dataset, queries=queries, judgments=judgments) if self.left_out else dataset

    @property
    def variants(self) -> set[object]:
        """What was trained, of the runs that are folders."""
        folders = [one.place for one in self.sources if one.place is not None and one.place.is_dir()]
        return {open_artifact(folder).manifest.config.get("variant") for folder in folders}

    def parents(self) -> Iterator[Parent]:
        """The dataset, the runs, and what options name or people said beside them, by content."""
        options = self.options
        yield self.origin
        if options.encoder or any(source.looks for source in self.sources):
            yield from picture_parents(self.path, self.origin, options.workdir, self.progress)
        yield from (source.origin for source in self.sources)
        if options.regions:
            regions = open_artifact(options.workdir / REGIONS / options.regions, REGION_FEATURES)
            yield Parent(options.regions, REGION_FEATURES, regions.sha256)
        for name in sorted({one for one in (options.encoder, options.rerank_by) if one}):
            yield Parent(placeless(name), MODEL, model_identity(name, options.workdir))
        for kind, path in (("judgments", options.judgments), ("positives", options.positives)):
            if path is not None and path.is_file():
                yield Parent(kind, kind, sha256_file(path))
            elif path is not None:  # its files are known by their names
                files = sorted([*path.glob("*.json*"), *path.glob("*.csv")])
                yield Parent(kind, kind, sha256_of([(file.name, sha256_file(file)) for file in files]))
        if any(source.origin.kind == CLASSIFIER for source in self.sources):  # people said nothing of their pairs
            return
        places = [path if path.is_dir() else path.parent for path in (options.judgments, self.path) if path is not None]
        for artifact in verdict_artifacts(places, options.workdir):
            name = f"{artifact.path.parent.name}/{artifact.path.name}"
            yield Parent(name, artifact.manifest.kind, artifact.content)

    @property
    def scoring(self) -> ScoringOptions:
        """Where and how models score."""
        options = self.options
        return ScoringOptions(
            options.workdir, options.device, "auto", options.regions, options.rerank, options.rerank_by
        )


class SplitExamples(Sized, Protocol):
    """Examples of a split of the benchmark, as many as it has queries."""

    @property
    def name(self) -> str:
        """Name of the split."""


RowT = TypeVar("RowT")


@dataclass(frozen=True, eq=False)
class SplitRows(Generic[RowT]):
    """Examples of a split as rows."""

    name: str
    rows: Sequence[RowT]

    def __len__(self) -> int:
        return len(self.rows)


SplitT = TypeVar("SplitT", bound=SplitExamples)
ScoredRun = TypeVar("ScoredRun", bound=EvaluatedRun)


class Headline(NamedTuple):
    """What to report first: the split, which is test or else the one that is furthest from training; the measures of `HEADLINE` that are
    known on it, each with a blind guess; and figures by run and measure."""

    split: str
    guesses: dict[str, float | None]
    figures: dict[tuple[str, str], Figure]


class Evaluation(Generic[SplitT, ScoredRun]):
    """Runs on the examples of a problem.

    Attributes:
        PROBLEM: its name in the registry, which manifests of evaluations tell. KIND: of the artifact. TOGETHER: see `Summariser`.
        HEADLINE: measures of the summary, the figure to report first, each with the measure of a blind guess, or its value, and what it is.
        dataset: its name. runs: with their scorers. splits: examples in the order of tables.
        unsure: splits with how many pairs leave their rankings.
        single: runs whose queries are right or wrong outright, for McNemar's test. unit: one of what is drawn again.
    """

    PROBLEM: ClassVar[str]
    KIND: ClassVar[str] = EVALUATION
    TOGETHER: ClassVar[bool] = False
    HEADLINE: ClassVar[Sequence[tuple[str, str | float | None, str]]] = ()

    dataset: str
    runs: Sequence[ScoredRun]
    splits: Sequence[SplitT]
    unsure: Sequence[tuple[str, int]] = ()
    single: Sequence[str] = ()
    unit: str = "cluster"

    def __init__(self, request: EvalRequest) -> None:
        self.request, self.options, self.progress = request, request.options, request.progress
        self.findings = Findings()
        if self.options.nothing_fits and type(self).ranked is Evaluation.ranked:
            raise UsageError(f"--nothing-fits needs rankings, and {self.PROBLEM} makes none", hint="leave it out")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the runs."""
        return tuple(run.name for run in self.runs)

    def groups(self, split: SplitT) -> Sequence[str | int]:
        """What is drawn again as a whole, one for each row of the columns: by default each query by itself."""
        return range(len(split))

    def columns(self, split: SplitT, run: ScoredRun, summary: Summariser) -> Columns:
        """The measures of a run, the mean over its scorers; none where all figures are made in `complete`."""
        return ()

    def ranked(self, split: SplitT, run: ScoredRun) -> RankedQueries | None:
        """What --nothing-fits measures, after the `columns` of the run; only problems that rank candidates have it."""
        return None

    def compared(self, split: SplitT, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """The measures by which runs are tested, by part: by default all that every run has."""
        runs = {run: {measure[2]: column for measure, column in by_measure} for run, by_measure in columns.items()}
        first = next(iter(runs.values()), {})
        shared = [name for name in first if all(name in by_measure for by_measure in runs.values())]
        return {name: {run: by_measure[name] for run, by_measure in runs.items()} for name in shared}

    def reported(self) -> Headline | None:
        """What to report first; None where nothing was measured."""
        headline = {measure: guess for measure, guess, _ in self.HEADLINE}
        own = [one for one in self.findings.figures if (one.view, one.part) == ("overall", "all")]
        if not (known := [one for one in own if one.measure in headline]):
            return None
        split = max((one.split for one in known), key=("train", "valid", NO_SPLIT, "test").index)
        cells = {(one.run, one.measure): one for one in own if one.split == split}
        found = {measure: one.interval.value for (_, measure), one in cells.items()}
        measured = {name: of for name, of in headline.items() if name in found}
        guesses = {name: of if isinstance(of, float) else found.get(str(of)) for name, of in measured.items()}
        return Headline(split, guesses, cells)

    def summary(self) -> Table | None:
        """Each run's headline on test, or the split furthest from training, above people and a blind guess; or None."""
        if (reported := self.reported()) is None:
            return None
        split, guesses, cells = reported
        runs = dict.fromkeys(run for run, measure in cells if measure in guesses)
        found = {key: percent(one.interval) for key, one in cells.items()}
        rows = [(run, *(found.get((run, one), "–") for one in guesses)) for run in runs]
        for name, reached in people_on(self.findings.people, split).items():
            shares = [vars(reached.get(one, Interval(None))) for one in guesses]
            rows.append((name, *map(share_with_interval, shares)))
        blind = ["–" if guess is None else f"{100 * guess:.1f}" for guess in guesses.values()]
        rows += [("chance", *blind)] if {*blind} != {"–"} else []
        lead = next(one for (_, measure), one in cells.items() if measure == next(iter(guesses)))
        first, *more = (f"{measure}: {meant}" for measure, _, meant in self.HEADLINE if measure in guesses)
        drawn = f"the {100 * LEVEL:g} % percentile bootstrap interval over {plural(lead.interval.clusters, self.unit, form=',')}"
        note = "; ".join([f"{first}, n = {lead.queries:,}", *more, f"in %, in brackets {drawn}"])
        shown = [one.interval for (_, measure), one in cells.items() if measure in guesses]
        certain = any(one.low is not None and one.value in (0.0, 1.0) for one in shown)
        note += "; for 0 and 100 the exact interval" * certain + none_had(shown)
        own = [one.interval for (_, measure), one in cells.items() if measure == lead.measure]
        note = "; ".join(filter(None, [note, resolution(split, own, self.findings.differences)]))
        return Table(f"{split}: main results", ("run", *guesses), tuple(rows), note)

    def complete(self, split: SplitT, figures: list[Figure], summariser: Summariser) -> None:
        """Add the tables of a split, and what is no ratio of sums; `figures`: of its columns."""
        rows = tuple((figure.run, figure.part, figure.measure, percent(figure.interval)) for figure in figures)
        self.findings.tables[split.name] = Table(split.name, ("run", "on", "measure", "%"), rows)

    def finish(self) -> None:
        """Add what concerns all splits, the results of queries, and files for other programs."""
        self.findings.rows["tables"] = list(self.findings.tables.values())

    def write(self, out: Path) -> Content:
        """Write the findings, and count runs, rows and queries."""
        content = self.findings.write(out)
        counts = {"runs": len(self.runs)} | content.counts | {split.name: len(split) for split in self.splits}
        return Content(content.files, counts, content.models)
