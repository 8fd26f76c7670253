"""`ctxr eval --nothing-fits`: whether scores tell that the right candidate of a query is missing, in every problem that ranks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.selective import COVERAGES, BestScores, best_scores, draw_removed, selective
from ctxr.metrics.votes import Codes, Doubles, Flags
from ctxr.problems.figures import Figure, Summariser, none_had, percent
from ctxr.problems.results import Findings
from ctxr.problems.runs import ModelScores, Run

VIEW, MEASURES = "nothing-fits", ("AUROC", *(f"selective@{100 * share:g}" for share in COVERAGES))


class RankedQueries(NamedTuple):
    """The N queries of a split with known right candidates, by id, group and rank in a run, whatever --ties says."""

    queries: Sequence[str]
    rows: Codes
    scorers: Sequence[BestScores]


def rank_queries(
    run: Run, asked: Iterable[tuple[int, str, Sequence[str], Collection[int], Collection[int]]]
) -> RankedQueries | None:
    """Queries as the scores of a run rank them, None without any; each is given as row of the groups, id, candidates, and places of the
    candidates that are right and of those that leave the ranking."""
    if not (tables := [*asked]):
        return None
    rows, queries, *more = zip(*tables, strict=True)

    def blocks(scorer: ModelScores) -> Iterator[tuple[Doubles, Flags]]:
        for query, candidates, right, unsure in zip(queries, *more, strict=True):
            scores = np.array([scorer.values[query][name] for name in candidates])
            scores[[*unsure]] = -np.inf
            yield scores[None], np.isin(np.arange(len(scores)), [*right])[None]

    return RankedQueries(queries, np.array(rows), [best_scores(blocks(one)) for one in run.scorers])


def add_nothing_fits(findings: Findings, runs: Mapping[str, RankedQueries], summary: Summariser) -> None:
    """Add figures and a table of a split, and a file of the queries that lost their right candidates, the same for all runs."""
    name, queries = summary.split, next(iter(runs.values())).queries
    rng = np.random.default_rng((*summary.seed, 1))  # not the stream of the intervals
    removed = draw_removed([scorer for run in runs.values() for scorer in run.scorers], rng)
    lost = [queries[row] for row in np.flatnonzero(removed).tolist()]
    findings.files[f"{VIEW}/{name}.txt"] = "".join(f"{query}\n" for query in lost)
    figures = {run: selective(one.scorers, removed, one.rows, summary.clusters) for run, one in runs.items()}
    findings.figures += [
        Figure(name, run, VIEW, "all", measure, len(queries), interval)
        for run, intervals in figures.items()
        for measure, interval in zip(MEASURES, intervals, strict=True)
    ]
    rows = tuple((run, *map(percent, intervals)) for run, intervals in figures.items())
    lacking = none_had([interval for intervals in figures.values() for interval in intervals])
    note = (
        f"%, of {plural(len(queries), 'query', 'queries', ',')}, {len(lost):,} of them without their right candidates. AUROC of the "
        "highest score: 50 is a guess. selective@C: accuracy on the C % of queries with the highest scores, where any answer is wrong if "
        f"nothing fits. Ties in expectation. In brackets the {100 * LEVEL:g} % bootstrap interval over clusters{lacking}"
    )
    findings.tables[f"{name}/{VIEW}"] = Table(f"{name}: nothing fits", ("run", *MEASURES), rows, note)
