"""A run in words and figures."""

from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ctxr.models.training.recipe import ENTAILMENT
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.train import Trained, TrainReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxr.data.records import Score
    from ctxr.pipelines.training.asked import Asked
    from ctxr.pipelines.training.seed import Job


def report_on(job: "Job", up_to_date: bool) -> TrainReport:
    """What the tables of a run say."""
    from ctxr.data.records import Score
    from ctxr.data.tables import read_table
    from ctxr.models.training.checkpoint import read_checkpoint
    from ctxr.pipelines.scoring import checkpoints, scorer_name
    from ctxr.pipelines.training.history import read_history

    folders = checkpoints(job.out)
    scores, history = read_table(job.out / "scores.jsonl", Score), read_history(job.out)
    seeds = []
    for folder in folders:
        seed, scorer = int(folder.name[4:]), scorer_name(job.out, folder, len(folders))
        own = [row for row in scores if row.scorer == scorer]
        epochs = sum(row.seed == seed for row in history)
        valid, test = (accuracy(own, job.asked.get(side, [])) for side in ("valid", "test"))
        seeds.append(Trained(seed, read_checkpoint(folder).epoch, epochs, valid, test))
    return TrainReport(
        run=job.out.resolve().name,
        folder=job.out,
        variant=job.recipe.variant,
        encoder=job.recipe.encoder,
        dataset=job.dataset,
        queries={side: len(asked) for side, asked in job.asked.items()},
        seeds=tuple(seeds),
        valid=_mean([one.valid for one in seeds]),
        test=_mean([one.test for one in seeds]),
        up_to_date=up_to_date,
        regions=job.recipe.regions,
    )


def accuracy(scores: "Sequence[Score]", asked: "Sequence[Asked]") -> float | None:
    """Share 0..1 of queries whose target scores highest; of n candidates that share the top each counts 1/n.

    None where no target is known.
    """
    values: dict[str, dict[str, float]] = {}
    for row in scores:
        values.setdefault(row.query, {})[row.candidate] = row.value
    hits = []
    for one in asked:
        if one.target is not None:
            # by position: a set may hold an image twice
            own = [values[one.query][image] for image in one.images]
            hits.append((own[one.target] == max(own)) / own.count(max(own)))
    return mean(hits) if hits else None


def facts(report: TrainReport) -> dict[str, str]:
    """Names and values, for the top of the result."""
    there = {"already": "trained before: nothing to do"} if report.up_to_date else {}
    return {
        "variant": report.variant,
        "encoder": report.encoder,
        **({"regions": report.regions} if report.regions else {}),
        "dataset": report.dataset,
        "queries": ", ".join(f"{count} {side}" for side, count in report.queries.items()),
        "written": str(report.folder),
        **there,
    }


def table(report: TrainReport) -> Table:
    """Accuracy of each seed, and their mean with its spread where there are several."""
    rows: list[tuple[Any, ...]] = [
        (str(one.seed), one.epoch, one.epochs, _percent(one.valid), _percent(one.test)) for one in report.seeds
    ]
    if len(report.seeds) > 1:
        rows.append(("mean", None, None, _percent(report.valid), _percent(report.test)))
        rows.append(("s.d.", None, None, _spread(report.seeds, "valid"), _spread(report.seeds, "test")))
    note = "valid chooses the epoch, so it flatters"
    if report.variant != ENTAILMENT:
        note += "; candidates that share the highest score share the hit"
    return Table("accuracy, %", ("seed", "epoch", "of", "valid", "test"), tuple(rows), note, digits=1)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _mean(shares: "Sequence[float | None]") -> float | None:
    known = [share for share in shares if share is not None]
    return mean(known) if known else None


def _spread(seeds: tuple[Trained, ...], side: str) -> float | None:
    shares = [share for one in seeds if (share := getattr(one, side)) is not None]
    return 100 * stdev(shares) if len(shares) > 1 else None
