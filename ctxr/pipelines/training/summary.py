"""A run in words and figures."""

from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ctxr.models.training.recipe import ENTAILMENT, IN_BATCH
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.train import SeedResult, TrainReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxr.data.records import Score
    from ctxr.pipelines.training.asked import EvalQuery
    from ctxr.pipelines.training.seed import ScorerJob


def report_on(job: "ScorerJob", up_to_date: bool) -> TrainReport:
    """What the tables of a run say."""
    from ctxr.data.records import Score
    from ctxr.data.tables import read_table
    from ctxr.models.training.checkpoint import read_checkpoint
    from ctxr.pipelines.scoring import checkpoints, scorer_name
    from ctxr.pipelines.training.gallery_rankings import RECALLS, RecallRow, mean_recall
    from ctxr.pipelines.training.history import read_history

    folders = checkpoints(job.out)
    recalls = read_table(job.out / RECALLS, RecallRow) if job.galleries else []
    scores = [] if job.galleries else read_table(job.out / "scores.jsonl", Score)
    history = read_history(job.out)
    seeds = []
    for folder in folders:
        seed, scorer = int(folder.name[4:]), scorer_name(job.out, folder, len(folders))
        own = [row for row in scores if row.scorer == scorer]
        epochs = sum(row.seed == seed for row in history)
        valid, test = (
            mean_recall(recalls, scorer, side) if job.galleries else accuracy(own, job.asked.get(side, []))
            for side in ("valid", "test")
        )
        seeds.append(SeedResult(seed, read_checkpoint(folder).epoch, epochs, valid, test))
    return TrainReport(
        run=job.out.resolve().name,
        folder=job.out,
        variant=job.recipe.variant,
        encoder=job.recipe.encoder,
        dataset=job.dataset,
        queries={side: len(asked) for side, asked in (job.galleries or job.asked).items()},
        seeds=tuple(seeds),
        valid=_mean([one.valid for one in seeds]),
        test=_mean([one.test for one in seeds]),
        up_to_date=up_to_date,
        regions=job.recipe.regions,
        judged_on=_judged_on(job),
    )


def _judged_on(job: "ScorerJob") -> str:
    known = {side for side, asked in job.asked.items() if any(one.target is not None for one in asked)}
    if not job.recipe.learns:
        return ""
    if job.recipe.judged_on_test and "test" in known:
        return "test"
    return "valid" if "valid" in known else ""


def accuracy(scores: "Sequence[Score]", asked: "Sequence[EvalQuery]") -> float | None:
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
        "pairs" if report.variant == ENTAILMENT else "queries": ", ".join(
            f"{count} {side}" for side, count in report.queries.items()
        ),
        "written": str(report.folder),
        **there,
    }


def table(report: TrainReport) -> Table:
    """Accuracy of each seed on the sides that were judged, and their mean with its spread where there are several."""
    sides = [side for side in ("valid", "test") if any(getattr(one, side) is not None for one in report.seeds)]
    rows: list[tuple[Any, ...]] = [
        (str(one.seed), one.epoch, one.epochs, *(_percent(getattr(one, side)) for side in sides))
        for one in report.seeds
    ]
    if len(report.seeds) > 1:
        rows.append(("mean", None, None, *(_percent(getattr(report, side)) for side in sides)))
        rows.append(("s.d.", None, None, *(_spread(report.seeds, side) for side in sides)))
    said = [f"{report.judged_on} chooses the epoch, so it flatters"] if report.judged_on else []
    galleries = report.variant == IN_BATCH
    if galleries:
        said.append("TR and IR at 1, 5, 10")
    elif report.variant != ENTAILMENT:
        said.append("candidates that share the highest score share the hit")
    what = "mean recall, %" if galleries else "accuracy, %"
    return Table(what, ("seed", "epoch", "of", *sides), tuple(rows), "; ".join(said), digits=1)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _mean(shares: "Sequence[float | None]") -> float | None:
    known = [share for share in shares if share is not None]
    return mean(known) if known else None


def _spread(seeds: tuple[SeedResult, ...], side: str) -> float | None:
    shares = [share for one in seeds if (share := getattr(one, side)) is not None]
    return 100 * stdev(shares) if len(shares) > 1 else None
