"""A run in words and figures."""

from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ctxr.models.training.recipe import ENTAILMENT, IN_BATCH, Recipe
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.train import SeedResult, TrainReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxr.data.records import Score
    from ctxr.pipelines.training.asked import EvalQuery


def judged_on(recipe: Recipe, sides: "Mapping[str, Sequence[EvalQuery]]") -> str:
    """The side that chooses the epoch, "" where none does."""
    known = {side for side, asked in sides.items() if any(one.target is not None for one in asked)}
    if not recipe.learns:
        return ""
    if recipe.judged_on_test and "test" in known:
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


def mean_of(shares: "Sequence[float | None]") -> float | None:
    """The mean of those that are known."""
    known = [share for share in shares if share is not None]
    return mean(known) if known else None


def _spread(seeds: tuple[SeedResult, ...], side: str) -> float | None:
    shares = [share for one in seeds if (share := getattr(one, side)) is not None]
    return 100 * stdev(shares) if len(shares) > 1 else None
