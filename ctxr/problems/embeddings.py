"""Queries as arrays for encoders of vectors: cached by content, from frozen encoders or from pixels.

The cache lies in `.ctxr-cache/encoded`, a file for every `CHUNK` rows, so a stopped run resumes. It may be deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.datasets.changes import contents_of, refuse_other
from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.media.images import Pixels, decoded, read_image, troubles
from ctxr.models.encoders import Encoder
from ctxr.models.preprocess import Preprocess
from ctxr.models.training.examples import ExampleTable, Images, PixelTable, PositivePairs, VectorTable
from ctxr.problems.queries import EvalQuery, pictures_of
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.paths import CACHE
from ctxr.store.regions import RegionFeatures

CHUNK = 512
"""Rows in a file by default: 77 MB of pixels at 224 x 224."""

Array = npt.NDArray[Any]


def cached(
    workdir: Path,
    origin: object,
    contents: Sequence[str],
    make: Callable[[slice], Array],
    advance: Callable[[float], None],
    *,
    chunk: int = CHUNK,
) -> list[Array]:
    """Arrays of up to `chunk` rows each, memory-mapped, a row for each of `contents`.

    Args:
        workdir: project folder.
        origin: everything else that decides the result, as plain values: weights, preprocessing, precision.
        contents: SHA-256 of each thing.
        make: the rows of a part of them.
        advance: called with the rows of every part.
        chunk: rows in a file, as many as a run that is stopped may lose.

    Raises CtxrError for a disk that does not take a file.
    """
    arrays = []
    for start in range(0, len(contents), chunk):
        part = list(contents[start : start + chunk])
        file = workdir / CACHE / "encoded" / f"{sha256_of([origin, part])}.npy"
        array = _read(file, len(part))
        if array is None:
            content = BytesIO()
            np.save(content, make(slice(start, start + len(part))), allow_pickle=False)
            write_bytes(file, content.getvalue(), durable=False)
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        advance(len(part))
        arrays.append(array)
    return arrays


def _read(file: Path, rows: int) -> Array | None:
    try:
        array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception:  # not there, or damaged, of which NumPy says all kinds of things: it is only a memory
        return None
    return array if array.ndim and len(array) == rows else None


@dataclass(frozen=True)
class PictureFiles:
    """Pictures of queries.

    Attributes:
        files: by image id. contents: SHA-256 of each, by image id.
        workdir: project folder, where caches lie.
        regions: of the pictures, for a model of regions.
    """

    files: Mapping[str, Path]
    contents: Mapping[str, str]
    workdir: Path
    regions: RegionFeatures | None = None

    def of(self, queries: Sequence[EvalQuery]) -> "PictureFiles":
        """The pictures of some queries, in the order of their ids."""
        wanted = sorted({image for query in queries for image in query.images})
        return replace(
            self,
            files={image: self.files[image] for image in wanted},
            contents={image: self.contents[image] for image in wanted},
        )

    def read(self, part: slice) -> list[Pixels]:
        """Some of them, decoded side by side. Raises DataError for one that cannot be read or is of another content."""
        names = list(self.files)[part]
        return decoded(_read_pictures, [self.files[name] for name in names], [self.contents[name] for name in names])

    def check(self, progress: Progress) -> None:
        """Raises DataError where one cannot be read, or lacks the regions that the model needs; each is decoded once."""
        contents = list(self.contents.values())
        if self.regions is not None:
            self.regions.check(contents)
            return
        files = list(self.files.values())

        def readable(part: slice) -> Array:
            problems = list(troubles(_read_pictures, files[part], contents[part]))
            for trouble in filter(None, problems):
                raise trouble
            return np.ones(len(problems), np.bool_)

        with progress.task("checking pictures", len(contents)) as task:
            cached(self.workdir, {"what": "readable"}, contents, readable, task.advance)


def query_pictures(dataset: Dataset, queries: Sequence[EvalQuery], workdir: Path) -> PictureFiles:
    """The pictures of queries of a dataset. Raises what `pictures_of` and `contents_of` raise."""
    files = pictures_of(dataset, queries)
    return PictureFiles(files, contents_of(dataset, files), workdir)


def as_vectors(
    queries: Sequence[EvalQuery], pictures: PictureFiles, encoder: Encoder, progress: Progress
) -> ExampleTable:
    """Queries with unit vectors of their images and texts; each is computed once for the same weights and precision."""
    pictures = pictures.of(queries)
    images = VectorTable(embedded_images(pictures, encoder, progress))
    texts = embedded_texts([query.text for query in queries], pictures.workdir, encoder, progress)
    return questions_with(queries, pictures, images, texts)


def embedded_images(pictures: PictureFiles, encoder: Encoder, progress: Progress) -> Array:
    """Unit vectors [N, D] of all pictures, each computed once for the same weights and precision."""
    contents, origin = [*pictures.contents.values()], _origin("image", encoder)
    with progress.task("embedding pictures", len(contents)) as task:
        arrays = cached(
            pictures.workdir, origin, contents, lambda part: encoder.encode_images(pictures.read(part)), task.advance
        )
    return np.concatenate([np.zeros((0, encoder.dim), np.float32), *arrays])


def embedded_texts(texts: Sequence[str], workdir: Path, encoder: Encoder, progress: Progress) -> Array:
    """Unit vectors [M, D] of texts, each computed once for the same weights and precision."""
    contents, origin = [sha256_bytes(text.encode()) for text in texts], _origin("text", encoder)
    with progress.task("embedding texts", len(contents)) as task:
        arrays = cached(workdir, origin, contents, lambda part: encoder.encode_texts(texts[part]), task.advance)
    return np.concatenate([np.zeros((0, encoder.dim), np.float32), *arrays])


def _origin(what: str, encoder: Encoder) -> dict[str, str]:
    return {"weights": encoder.fingerprint, "precision": encoder.precision, "what": what}


def pixels_of(pictures: PictureFiles, preprocess: Preprocess, device: str, progress: Progress) -> Images:
    """Pictures by their place among `pictures`, decoded, resized and cut once."""
    with progress.task("decoding pictures", len(pictures.contents)) as task:
        pixels = cached(
            pictures.workdir,
            {"preprocess": preprocess.describe()},
            list(pictures.contents.values()),
            lambda part: np.asarray(preprocess.fitted(pictures.read(part)).numpy()),
            task.advance,
        )
    return PixelTable(pixels, preprocess, device)


def questions_with(queries: Sequence[EvalQuery], pictures: PictureFiles, images: Images, texts: Array) -> ExampleTable:
    """Queries as arrays; `images` has a row for each of `pictures`, `texts` one for each query."""
    row = {image: position for position, image in enumerate(pictures.files)}
    most = max((len(one.images) for one in queries), default=1)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(one.image_set for one in queries))}

    def column(value: Callable[[EvalQuery], object], kind: type) -> Array:
        return np.array([value(query) for query in queries], kind)

    weak, unsure = (
        [(query, row[image]) for query, images in enumerate(listed) for image in images if image in row]
        for listed in ([one.weak for one in queries], [one.unsure for one in queries])
    )
    padded = [[row[image] for image in one.images] + [row[one.images[0]]] * (most - len(one.images)) for one in queries]
    targets = np.zeros((len(queries), most), np.bool_)
    for number, one in enumerate(queries):
        targets[number, list(one.targets)] = True
    columns = {
        "texts": texts,
        "candidates": np.array(padded, np.int64).reshape(len(queries), most),
        "mask": np.arange(most)[None] < column(lambda one: len(one.images), np.int64)[:, None],
        "ordered": column(lambda one: one.ordered, np.bool_),
        "targets": targets,
        "sets": column(lambda one: numbers[one.image_set], np.int64),
    }
    table = ExampleTable.of(images, columns, weak)
    return replace(table, unsure=PositivePairs.of(unsure, len(queries))) if unsure else table


def _read_pictures(picture: Path, content: str) -> Pixels:
    refuse_other(picture, content)  # what is kept under a content must be of it, whatever the clocks of files say
    try:
        return read_image(picture)
    except DataError as error:
        raise DataError(error.message, hint=error.hint or "restore it, or name a dataset without it") from error
