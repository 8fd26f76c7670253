"""The half of a problem that trains and scores, as training and evaluation know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ctxr.engine.progress import Progress
from ctxr.models.training.recipe import Recipe
from ctxr.problems.options import TrainOptions


@dataclass(frozen=True)
class ScoringOptions:
    """Where and how a model scores.

    Attributes:
        workdir: project folder, where vectors are cached. device: auto, cpu, cuda, mps.
        precision: fp32, bf16, or auto: as a run was trained. regions: name of region features in the project; "" for those a run was
            trained on. rerank: candidates of each query that a cross-encoder rescores, 0 for all; None as a run was validated.
        rerank_by: encoder that makes the shortlist.
    """

    workdir: Path
    device: str = "auto"
    precision: str = "auto"
    regions: str = ""
    rerank: int | None = None
    rerank_by: str = ""


class OpenRun(Protocol):
    """A trained run, or a published encoder."""

    def score(self, examples: Any) -> Mapping[str, Any]:
        """The scores of the problem's own examples, by scorer: one, or `NAME/seedN` for each seed."""

    def explain(self, examples: Any) -> Mapping[tuple[str, str], list[list[int]]]:
        """Percent 0..100 that each candidate looks at each, by scorer and query, where the question `explains`."""
        return {}


class Learner(Protocol):
    """How models are trained for a problem."""

    def job(self, options: TrainOptions, recipe: Recipe, progress: Progress) -> Any:
        """The `TrainJob` of a recipe. Raises UsageError for some that make no sense."""

    def open_run(self, source: Path | str, options: ScoringOptions, progress: Progress) -> OpenRun:
        """A run by its folder, or a published encoder by its name. Raises UnfinishedError for a run that is not finished."""
