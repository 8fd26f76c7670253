"""`ctxr.load`: a benchmark as a sequence of queries, whose pictures are read on access."""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import numpy as np
from PIL import Image as Pillow

from ctxr.api.verbs import Warnings, hinted
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.project import CHAIN, DOCUMENTS, WORKDIR, chosen
from ctxr.engine.report import VerbReport
from ctxr.errors import DataError, UsageError, plural
from ctxr.media.images import read_image, thumbnail
from ctxr.problems.queries import EvalQuery, queries_of
from ctxr.store.artifacts import MANIFEST, MARKER
from ctxr.store.records import SPLIT_WORDS

SHOWN, MOST_PICTURES, SIDE = 3, 12, 96
"""In a notebook: queries, pictures of each, and pixels of their longer sides."""


@hinted()
def load(place: str | Path | VerbReport = WORKDIR) -> "Benchmark":
    """The benchmark at `place`: a project (its furthest finished artifact), an artifact, what a verb reported, or anything published
    that ctxr reads, such as an ImageCoDe release. Raises UsageError where there is none, UnfinishedError for an artifact that is not
    finished, DataError for a damaged one."""
    if not isinstance(place, str | Path | VerbReport):
        raise UsageError(f"ctxr.load() takes a path or a report, not {place!r}", hint='ctxr.load("work")')
    path = place.place if isinstance(place, VerbReport) else Path(place)
    if path is None:
        raise UsageError(f"{type(place).__name__} names no artifact", hint="load the folder of the dataset")
    made = [path / name / file for name in (*CHAIN, DOCUMENTS) for file in (MANIFEST, MARKER)]
    if path == WORKDIR or any(file.is_file() for file in made):
        path = chosen(None, path, CHAIN, Warnings())
    dataset = read_dataset(path)
    rows = queries_of(dataset) or [
        EvalQuery(one.id, one.id, (), one.images, (), one.ordered, dataset.split_of(one)) for one in dataset.sets
    ]
    return Benchmark(path, dataset, tuple(rows))


@dataclass(frozen=True)
class Pictures(Sequence[Pillow.Image]):
    """Candidate images in the order of their set, as upright RGB pictures of PIL; each is read when it is indexed.

    `ids` are theirs, and `paths` their files, None where only texts are available.
    """

    ids: tuple[str, ...]
    paths: tuple[Path | None, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        """The picture at an index, or those of a slice. Raises DataError for one that is missing or cannot be read."""
        if isinstance(index, slice):
            return Pictures(self.ids[index], self.paths[index])
        path = self.paths[index]
        if path is None:
            raise DataError(f"the picture {self.ids[index]!r} is not available: the dataset names it and has no file")
        return Pillow.fromarray(read_image(path))


@dataclass(frozen=True)
class Example:
    """A description, and the images among which it means one.

    Attributes:
        id: of the query; of the image set where nothing is described yet, and the text is "". split: train, valid, test or none.
        targets: positions of the right images, rising; empty where they are not known.
    """

    id: str
    text: str
    split: str
    image_set: str
    images: Pictures
    targets: tuple[int, ...]

    @property
    def target(self) -> int | None:
        """Position of the right image; None where it is not known, or where there are several."""
        return self.targets[0] if len(self.targets) == 1 else None


@dataclass(frozen=True, eq=False, repr=False)
class Benchmark(Sequence[Example]):
    """Queries for images, by id; `benchmark["valid"]` has a split's, and a slice some of them.

    Attributes:
        path: where it was read from. dataset, rows: what was read, and the queries; private.
    """

    path: Path
    dataset: Dataset
    rows: tuple[EvalQuery, ...]

    @property
    def splits(self) -> dict[str, int]:
        """How many queries each split has; "none" are those of sets without one."""
        return dict(Counter(row.split or "none" for row in self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice | str) -> "Benchmark": ...
    def __getitem__(self, index: int | slice | str) -> "Example | Benchmark":
        """A query by its position, or a part by a slice or the name of a split. Raises UsageError for a split that it has not."""
        if isinstance(index, str):
            split, has = SPLIT_WORDS.get(index, index), ", ".join(self.splits)
            if split not in self.splits:
                raise UsageError(f"{self.path} has no query in {index!r}", hint=f"splits are {has or 'empty'}")
            return replace(self, rows=tuple(row for row in self.rows if (row.split or "none") == split))
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        row = self.rows[index]
        images = Pictures(row.images, tuple(self.dataset.picture(self.dataset.images[image]) for image in row.images))
        return Example(row.query, row.text, row.split or "none", row.image_set, images, row.targets)

    def __repr__(self) -> str:
        parts = ", ".join(f"{split} {count}" for split, count in self.splits.items())
        sets = plural(len({row.image_set for row in self.rows}), "set")
        return f"Benchmark({str(self.path)!r}: {plural(len(self), 'query', 'queries')} about {sets}; {parts})"

    def _repr_html_(self) -> str:
        """The first queries with small pictures, the right ones framed."""
        shown = [f"<p>{escape(repr(self))}</p>"]
        for one in self[:SHOWN]:
            shown.append(f"<p><b>{escape(one.id)}</b> {escape(one.text)}<br>")
            for place in sorted({*range(len(one.images))[:MOST_PICTURES], *one.targets}):
                path, frame = one.images.paths[place], "3px solid green" if place in one.targets else "none"
                with suppress(DataError):  # missing or damaged
                    content = b64encode(thumbnail(path or Path(), SIDE)).decode()
                    shown.append(f'<img src="data:image/jpeg;base64,{content}" style="border:{frame}">')
        return "\n".join(shown)

    def _columns(self) -> dict[str, list[Any]]:
        names = ("id", "split", "image_set", "text", "target", "targets")
        columns = {name: [getattr(one, name) for one in self] for name in names}
        return columns | {"images": [[path and str(path) for path in one.images.paths] for one in self]}

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each query; `images` has the paths of its candidates. Raises UsageError without pandas."""
        return optional("pandas").DataFrame(self._columns())

    def to_hf(self) -> Any:
        """A `datasets.Dataset` with a row for each query, whose pictures are decoded on access. Raises UsageError without datasets."""
        hf = optional("datasets")
        text, number = hf.Value("string"), hf.Value("int64")
        kinds = dict.fromkeys(("id", "split", "image_set", "text"), text) | {"target": number, "targets": [number]}
        return hf.Dataset.from_dict(self._columns(), features=hf.Features(kinds | {"images": [hf.Image()]}))

    def to_torch(self, transform: Callable[[Pillow.Image], Any] = np.asarray) -> Any:
        """A map-style dataset for torch's DataLoader: see `TorchItems`."""
        return TorchItems(self, transform)


@dataclass(frozen=True)
class TorchItems:
    """A map-style dataset of `id`, `text`, `target` (-1 where it is unknown or there are several) and `images`, what `transform` makes
    of each picture as one array [K, …], which a DataLoader makes tensors of; pictures are read where items are, in its workers. Where
    sizes differ, `transform` makes them equal."""

    benchmark: Benchmark
    transform: Callable[[Pillow.Image], Any]

    def __len__(self) -> int:
        return len(self.benchmark)

    def __getitem__(self, index: int) -> dict[str, Any]:
        one = self.benchmark[index]
        images = np.stack([np.asarray(self.transform(picture)) for picture in one.images])
        return {"id": one.id, "text": one.text, "target": -1 if one.target is None else one.target, "images": images}


@hinted()
def optional(package: str) -> Any:
    """A package that ctxr does not require. Raises UsageError where it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise UsageError(f"{package} is not installed", hint=f"pip install {package.partition('.')[0]}") from error
