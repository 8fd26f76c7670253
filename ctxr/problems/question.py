"""A problem without torch: what models are asked, how that is evaluated, and how it is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.options import option_name
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.report import Table
from ctxr.errors import UsageError
from ctxr.problems.evaluation import EvalRequest, Evaluation
from ctxr.problems.options import TrainOptions
from ctxr.problems.results import QueryResult
from ctxr.problems.runs import Learner
from ctxr.store.artifacts import Artifact

DIGITS = 4
"""Digits of a score that a page keeps."""

FIRST = 5
"""First results of a run that are kept of a large gallery, and shown on a page, beside the best relevant image."""


@dataclass(frozen=True)
class Subject:
    """Words that describe the datasets of a problem.

    Attributes:
        unit: an image set. of: what follows `unit` in a headline. text: a query.
        sets, task: all sets, and what is asked, in the card of an export. formats: of the exports that can hold it.
        similar: the images of a set are alike by choice; distances then tell how hard it is.
        unknown: name of a text without known targets. legend: what numbers before texts mean.
    """

    unit: str = "set"
    of: str = " of images"
    text: str = "description"
    sets: str = "sets of minimally contrastive images"
    task: str = "finding the right image from a contextual text"
    formats: tuple[str, ...] = ("imagecode", "hf", "webdataset", "croissant", "fiftyone", "recipe", "narratives", "mteb")  # fmt: skip
    similar: bool = True
    unknown: str = "the target is hidden"
    legend: str = ""


@dataclass(frozen=True)
class ProblemResults:
    """Evaluations of a problem on a page; `picture`: number of an image's picture, by image id."""

    artifacts: Sequence[Artifact]
    rows: Sequence[QueryResult]
    scorers: Sequence[str]
    dataset: Dataset | None
    picture: Callable[[str], int]

    def firsts(self, row: QueryResult) -> dict[str, object]:
        """Above, level, and what the page ranks: the `FIRST` images and the best relevant one, with relevance."""
        order = np.argsort(-np.array(row.scores), kind="stable").tolist()
        names = [row.candidates[place] for place in order]
        kept = dict.fromkeys([*names[:FIRST], *[name for name in names if name in row.targets][:1]])
        found = [(name, self.picture(name), name in row.targets) for name in kept]
        return {"above": row.above, "level": row.level, "found": found}


@dataclass(frozen=True)
class View:
    """A section of the report: `templates/ID.html` of a package, and where there are any, `static/ID.js` and `static/ID.css`.

    Attributes:
        id: its anchor. title: its heading. package: by dotted name.
        context: what the template is given, beside `section`. data: what the script finds as `window.ctxr.data[ID]`.
        counted: how much was evaluated, as `12 documents`; "" if the page counts otherwise.
    """

    id: str
    title: str
    package: str
    context: Mapping[str, object]
    data: object = None
    counted: str = ""


class Question(Protocol):
    """What models are asked. Enough for files of scores, endpoints and people.

    Attributes:
        BESIDE: name of a problem whose runs are evaluated beside those of this one, if any.
        LEARNER: the other half, by dotted name. KIND: of its trained models. VARIANTS: of recipes for this problem.
        Recipe: everything that decides a training. evaluation: how answers are evaluated. subject: what datasets of this problem hold.
    """

    BESIDE: ClassVar[str] = ""
    LEARNER: ClassVar[str]
    KIND: ClassVar[str]
    VARIANTS: ClassVar[tuple[str, ...]] = ()
    Recipe: ClassVar[type[Any]]
    evaluation: ClassVar[type[Evaluation[Any, Any]]]
    subject: ClassVar[Subject] = Subject()

    def adapted(self, recipe: Any, options: TrainOptions) -> Any:
        """The recipe as options change it. Raises UsageError for options that it cannot take."""
        for name in ("text_only", "image_only"):
            if getattr(options, name):
                raise UsageError(f"{option_name(name)} is about classifiers", hint="--recipe entailment")
        return recipe

    def learned_from(self, path: Path | None, workdir: Path, progress: Progress) -> Path:
        """Where the dataset lies that a training learns from: at `path`, else in the project."""
        return chosen(path, workdir, CHAIN, progress)

    def explains(self, config: Mapping[str, object]) -> bool:
        """Whether a model of this config shows what it looks at (`OpenRun.explain`)."""
        return False

    def asks(self, dataset: Dataset) -> bool:
        """Whether this is what a dataset asks."""
        return False

    def takes(self, request: EvalRequest) -> bool:
        """Whether a request's runs and dataset are this problem's to evaluate; reads no weights."""
        return self.asks(request.dataset)

    def tables(self, dataset: Dataset) -> Mapping[str, Table]:
        """What `ctxr stats` prints in place of its tables on sets of similar images; empty where those fit."""
        return {}

    def view(self, results: ProblemResults) -> View | None:
        """The section of the report on what was evaluated; None where the browser of queries shows all of it."""
        return None


def find_learner(question: Question) -> Learner:
    """The other half of a problem: a module, or what a class makes."""
    learner: Any = resolve_name(question.LEARNER)
    return cast("Learner", learner() if isinstance(learner, type) else learner)
