"""The two halves of a problem, as training, evaluation and report know them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Protocol

from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.store.artifacts import Artifact


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


@dataclass(frozen=True)
class Card:
    """A table of a page; `warning` says what one should not overlook."""

    table: Table
    warning: str = ""


class Question(Protocol):
    """What models are asked, and how answers are evaluated. Needs no torch: enough for files of scores, endpoints and people.

    Attributes:
        LEARNER: the other half, by dotted name. KIND: of its trained models.
        VARIANTS: of recipes for this problem, by which manifests of format 1 are known.
        evaluation: the class of its `Evaluation`, made of an `EvalRequest`.
    """

    LEARNER: ClassVar[str]
    KIND: ClassVar[str]
    VARIANTS: ClassVar[tuple[str, ...]] = ()
    evaluation: ClassVar[type[Any]]

    def explains(self, config: Mapping[str, Any]) -> bool:
        """Whether a model of this config shows what it looks at (`OpenRun.explain`)."""
        return False

    def takes(self, request: Any) -> bool:
        """Whether runs and dataset of a `EvalRequest` are this problem's to evaluate; cheap, and without weights."""

    def cards(self, artifact: Artifact) -> Sequence[Card]:
        """What the report shows of an evaluation without queries."""
        return ()


class OpenRun(Protocol):
    """A trained run, or a published encoder."""

    def score(self, examples: Any) -> Mapping[str, Any]:
        """The scores of the problem's own examples, by scorer: one, or `NAME/seedN` for each seed."""

    def explain(self, examples: Any) -> Mapping[tuple[str, str], list[list[int]]]:
        """Percent 0..100 that each candidate looks at each, by scorer and query, where the question `explains`."""
        return {}


class Learner(Protocol):
    """How models are trained for a problem.

    Attributes:
        Recipe: everything that decides a training.
    """

    Recipe: ClassVar[type[Any]]

    def job(self, options: Any, recipe: Any, progress: Progress) -> Any:
        """The `TrainJob` of a recipe; `options` are those of `ctxr train`. Raises UsageError for some that make no sense."""

    def open_run(self, source: Path | str, options: ScoringOptions, progress: Progress) -> OpenRun:
        """A run by its folder, or a published encoder by its name. Raises UnfinishedError for a run that is not finished."""


def find_learner(question: Question) -> Learner:
    """The other half of a problem."""
    learner: Learner = resolve_name(question.LEARNER)()
    return learner
