"""What a problem says of its datasets, and the section of the report that it fills."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ctxr.datasets.dataset import Dataset
from ctxr.problems.results import QueryResult
from ctxr.store.artifacts import Artifact

DIGITS = 4
"""Digits of a score that a page keeps."""


@dataclass(frozen=True)
class Subject:
    """What datasets of a problem hold, in words.

    Attributes:
        unit: an image set, of: what follows it in a headline. text: a query.
        sets: all sets, and task: what is asked, in the card of an export. formats: of the exports that can hold it.
        similar: whether the images of a set are alike by choice, so that distances tell how hard it is.
        unknown: what a text without known targets is called. legend: how the numbers before texts are read, where it is not plain.
    """

    unit: str = "set"
    of: str = " of images"
    text: str = "description"
    sets: str = "sets of minimally contrastive images"
    task: str = "finding the right image from a contextual text"
    formats: tuple[str, ...] = ("imagecode", "hf", "webdataset", "croissant", "fiftyone", "recipe")
    similar: bool = True
    unknown: str = "the target is hidden"
    legend: str = ""


@dataclass(frozen=True)
class ProblemResults:
    """The evaluations of one problem that a page shows.

    Attributes:
        rows: what each scorer did on each query. scorers: their names in the order of the tables.
        dataset: what was evaluated on, where the page shows it. picture: the number of an image's picture on the page, by image id.
    """

    artifacts: Sequence[Artifact]
    rows: Sequence[QueryResult]
    scorers: Sequence[str]
    dataset: Dataset | None
    picture: Callable[[str], int]


@dataclass(frozen=True)
class View:
    """A section of the report: `templates/ID.html` of a package, and where there are any, `static/ID.js` and `static/ID.css`.

    Attributes:
        id: its anchor. title: its heading. package: by dotted name.
        context: what the template is given, beside `section`. data: what the script finds as `window.ctxr.data[ID]`.
        counted: how much was evaluated, as in `12 documents`; "" where the page counts it otherwise.
    """

    id: str
    title: str
    package: str
    context: Mapping[str, object]
    data: object = None
    counted: str = ""
