"""Queries as arrays for encoders of vectors and for encoders of pairs: cached by content, from frozen encoders or from pixels.

The cache lies in `.ctxr-cache/encoded`, a file for every `CHUNK` rows, so a stopped run resumes. It may be deleted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ctxr.datasets.changes import contents_of, refuse_other
from ctxr.datasets.dataset import Dataset
from ctxr.engine.engines import Engine, ThingsJob, map_things
from ctxr.engine.progress import Progress
from ctxr.engine.units import WorkUnit
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.media.images import Pixels, decoded, read_image
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, EncoderSource
from ctxr.models.entailment.base import TextSource
from ctxr.models.precision import device_kind
from ctxr.models.preprocess import Preprocess
from ctxr.models.training.examples import ExampleTable, Images, PixelTable, PositivePairs, vector_table, with_features
from ctxr.models.training.scoring import features_of, in_bf16
from ctxr.problems.queries import EvalQuery, pictures_of
from ctxr.problems.runs import REGIONS
from ctxr.store.arrays import stack_vectors
from ctxr.store.artifacts import MANIFEST
from ctxr.store.atomic import DRY_RUN, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.paths import CACHE
from ctxr.store.regions import RegionFeatures, read_regions

CHUNK = 512
"""Rows in a file by default: 77 MB of pixels at 224 x 224."""

PAIR_CHUNK = 64
"""Queries in a file of pair features: some minutes of a large encoder on a CPU."""

TEXT_CHUNK = 128
"""Texts in a file of vectors by a text branch."""

Array = npt.NDArray[Any]
Source = EncoderSource | CrossSource


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
        origin: everything else that decides the result, as plain values: weights, preprocessing, precision.
        contents: SHA-256 of each thing. make: the rows of a part of them.
        advance: called with the number of rows of every part.
        chunk: rows in a file, as many as a run that is stopped may lose.

    Raises CtxrError for a disk that does not take a file.
    """
    arrays = []
    for start in range(0, len(contents), chunk):
        part = list(contents[start : start + chunk])
        file = workdir / CACHE / "encoded" / f"{sha256_of([origin, part])}.npy"
        array: Array | None = None
        with suppress(Exception):  # not there, or damaged, of which NumPy says all kinds of things: it is only a memory
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        if array is None or not array.ndim or len(array) != len(part):
            array, content = make(slice(start, start + len(part))), BytesIO()
            np.save(content, array, allow_pickle=False)
            write_bytes(file, content.getvalue(), durable=False)
            if not DRY_RUN.get():
                array = np.load(file, mmap_mode="r", allow_pickle=False)
        advance(len(part))
        arrays.append(array)
    return arrays


@dataclass
class CachedRows(ThingsJob[Path]):
    """Makes files of the cache, as `cached` does. `make`, which can be pickled, gets `at_once` things or fewer, None for a deadly one; it
    returns arrays [n, ...], which are filled up with zeros where they differ in n."""

    workdir: Path
    origin: object
    make: Callable[[Sequence[Any]], Sequence[Array]]
    at_once: int
    deadly: set[str] = field(default_factory=set)

    def __call__(self, unit: WorkUnit) -> Path:
        """The file."""
        contents, make = ["" if one in self.deadly else one for one in unit.stamp], partial(self._block, unit)
        mapped: Any = cached(self.workdir, self.origin, contents, make, lambda _: None, chunk=len(contents))[0]
        return Path(mapped.filename)

    def _block(self, unit: WorkUnit, _rows: slice) -> Array:
        arrays, things = list[Array](), zip(unit.stamp, unit.payload, strict=True)
        living = [None if content in self.deadly else thing for content, thing in things]
        while len(arrays) < len(living):
            if self.stopping.is_set():
                raise CtxrError("stopped")
            arrays += self.make(living[len(arrays) : len(arrays) + self.at_once])
            self.show(unit.name, len(arrays) / len(living))
        block = np.zeros((len(arrays), max(1, *map(len, arrays)), *arrays[0].shape[1:]), np.float32)
        for row, array in enumerate(arrays):
            block[row, : len(array)] = array
        return block

    def alone(self, unit: WorkUnit) -> list[WorkUnit]:
        """A file of each row, called by its content."""
        return [WorkUnit(one, [one], [thing]) for one, thing in zip(unit.stamp, unit.payload, strict=True)]

    def files(
        self, things: Mapping[str, Any], chunk: int, engine: Engine, progress: Progress, label: str
    ) -> list[Path]:
        """The files for things by content, `chunk` of them in each. Threads share one model, which works on one file at a time."""
        rows = [*things]
        parts = [rows[at : at + chunk] for at in range(0, len(rows), chunk)]
        units = [WorkUnit(f"part {at}", part, [things[one] for one in part]) for at, part in enumerate(parts)]
        return map_things(self, units, Engine(workers=1) if engine.name == "threads" else engine, progress, label)


@dataclass(frozen=True)
class PictureFiles:
    """Pictures of queries, and the SHA-256 of each, by image id;
    `workdir` is where caches lie, `regions` are for a model of regions, `labels` say what is seen for one that reads them."""

    files: Mapping[str, Path]
    contents: Mapping[str, str]
    workdir: Path
    regions: RegionFeatures | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def of(self, queries: Sequence[EvalQuery]) -> "PictureFiles":
        """The pictures of some queries, in the order of their ids."""
        wanted = sorted({image for query in queries for image in query.images})
        contents = {image: self.contents[image] for image in wanted}
        files = {image: self.files[image] for image in wanted} if self.files else {}
        return replace(self, files=files, contents=contents)

    def read(self, part: slice) -> list[Pixels]:
        """Some of them, decoded side by side. Raises DataError for an unreadable or changed one."""
        names = list(self.files)[part]
        rows = [self.files[name] for name in names], [self.contents[name] for name in names]
        return list(decoded(_read_pictures, *rows))

    def check(self, progress: Progress) -> None:
        """Decode each once. Raises DataError for an unreadable one, or one without regions."""
        contents = list(self.contents.values())
        if self.regions is not None:
            self.regions.check(contents)
            return
        files = list(self.files.values())

        def readable(part: slice) -> Array:
            return np.array([True for _ in decoded(_read_pictures, files[part], contents[part])], np.bool_)

        with progress.task("checking pictures", len(contents)) as task:
            cached(self.workdir, {"what": "readable"}, contents, readable, task.advance)


def query_pictures(dataset: Dataset, queries: Sequence[EvalQuery], workdir: Path) -> PictureFiles:
    """The pictures of queries of a dataset. Raises what `pictures_of` and `contents_of` raise."""
    files = pictures_of(dataset, queries)
    return PictureFiles(files, contents_of(dataset, files), workdir)


def _read_pictures(picture: Path, content: str) -> Pixels:
    refuse_other(picture, content)  # what is kept under a content must be of it, whatever the clocks of files say
    try:
        return read_image(picture)
    except DataError as error:
        raise DataError(error.message, hint=error.hint or "restore it, or name a dataset without it") from error


def regions_for(source: CrossSource, name: str, workdir: Path) -> RegionFeatures | None:
    """The region features called `name` in the project, if `source` needs any.

    Raises UsageError where no name is given, UnfinishedError where they are not finished, DataError where they are of another
    width than the encoder was made for.
    """
    if source.looks_at == "pixels":
        return None
    regions = named_regions(name, workdir, source.name)
    if regions.features != source.features:
        raise DataError(
            f"{regions.folder} holds {regions.features} features for each region, and {source.name} needs {source.features}",
            hint="name the regions that the encoder was made for",
        )
    return regions


def named_regions(name: str, workdir: Path, model: str) -> RegionFeatures:
    """The region features called `name` in the project, for a model of that name.

    Raises UsageError where no name is given, UnfinishedError where they are not finished.
    """
    if not name:
        raise UsageError(
            f"{model} needs region features, and none are named",
            hint="ctxr regions   makes them; then --set regions=NAME to train, --regions NAME to evaluate",
        )
    folder = workdir / REGIONS / name
    if not folder.exists():
        existing = sorted(one.parent.name for one in (workdir / REGIONS).glob(f"*/{MANIFEST}"))
        raise UnfinishedError(
            f"the recipe needs the region features {name!r}, and {folder} does not exist",
            hint=f"--set regions={existing[0]}"
            if existing
            else f"ctxr regions --extractor {name}, or ctxr regions; then --set regions=grid",
        )
    return read_regions(folder)


def embedded_images(pictures: PictureFiles, encoder: Encoder, progress: Progress) -> Array:
    """Unit vectors [N, D] of all pictures, computed once for each weights and precision."""
    contents = [*pictures.contents.values()]
    origin = {"weights": encoder.fingerprint, "precision": encoder.precision, "what": "image"}
    with progress.task("embedding pictures", len(contents)) as task:
        arrays = cached(
            pictures.workdir, origin, contents, lambda part: encoder.encode_images(pictures.read(part)), task.advance
        )
    return stack_vectors(arrays, encoder.dim)


def embedded_texts(texts: Sequence[str], workdir: Path, encoder: Encoder, progress: Progress) -> Array:
    """Unit vectors [M, D] of texts, each computed once for the same weights and precision."""
    contents = [sha256_bytes(text.encode()) for text in texts]
    origin = {"weights": encoder.fingerprint, "precision": encoder.precision, "what": "text"}
    with progress.task("embedding texts", len(contents)) as task:
        arrays = cached(workdir, origin, contents, lambda part: encoder.encode_texts(texts[part]), task.advance)
    return stack_vectors(arrays, encoder.dim)


def pixels_of(pictures: PictureFiles, preprocess: Preprocess, device: str, progress: Progress) -> Images:
    """Pictures by their place among `pictures`, decoded, resized and cut once."""
    with progress.task("decoding pictures", len(pictures.contents)) as task:
        pixels = cached(
            pictures.workdir,
            {"preprocess": asdict(preprocess)},
            list(pictures.contents.values()),
            lambda part: np.asarray(preprocess.fitted(pictures.read(part)).numpy()),
            task.advance,
        )
    return PixelTable(pixels, preprocess, device)


def examples_of(
    queries: Sequence[EvalQuery],
    pictures: Iterable[str],
    images: Images,
    texts: Array,
    payload: Mapping[str, npt.ArrayLike] | None = None,
) -> ExampleTable:
    """Queries as arrays; `images` has a row per picture (id), `texts` and `payload` per query."""
    row = {image: position for position, image in enumerate(pictures)}
    most = max((len(one.images) for one in queries), default=1)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(one.image_set for one in queries))}
    sizes = torch.tensor([len(one.images) for one in queries], dtype=torch.int64)
    weak, unsure = (
        [(query, row[image]) for query, images in enumerate(listed) for image in images if image in row]
        for listed in ([one.weak for one in queries], [one.unsure for one in queries])
    )
    padded = [[row[image] for image in one.images] + [row[one.images[0]]] * (most - len(one.images)) for one in queries]
    targets = np.zeros((len(queries), most), np.bool_)
    for number, one in enumerate(queries):
        targets[number, list(one.targets)] = True
    return ExampleTable(
        images,
        torch.from_numpy(np.ascontiguousarray(texts)),
        torch.tensor(padded, dtype=torch.int64).reshape(len(queries), most),
        torch.arange(most)[None] < sizes[:, None],
        torch.tensor([one.ordered for one in queries], dtype=torch.bool),
        torch.from_numpy(targets),
        torch.tensor([numbers[one.image_set] for one in queries], dtype=torch.int64),
        payload={name: torch.as_tensor(np.asarray(rows)) for name, rows in (payload or {}).items()},
        entailed=PositivePairs.of(weak, len(queries)) if weak else None,
        unsure=PositivePairs.of(unsure, len(queries)) if unsure else None,
    )


def as_vectors(
    queries: Sequence[EvalQuery], pictures: PictureFiles, encoder: Encoder, progress: Progress
) -> ExampleTable:
    """Queries with unit vectors, each computed once for the same weights and precision."""
    pictures = pictures.of(queries)
    images = vector_table(embedded_images(pictures, encoder, progress))
    texts = embedded_texts([query.text for query in queries], pictures.workdir, encoder, progress)
    return examples_of(queries, pictures.files, images, texts)


@dataclass(frozen=True)
class Runtime:
    """Where encoders compute: on `device`, cpu, cuda or mps, in `precision`, fp32, bf16 or auto."""

    device: str
    precision: str
    progress: Progress

    @property
    def bf16(self) -> bool:
        """Whether encoders of pairs and encoders that learn compute in it by autocast."""
        return in_bf16(self.precision, self.device)

    @property
    def at_once(self) -> int:
        """Queries in one pass of an encoder of pairs that does not learn."""
        return 4 if self.device == "cpu" else 16


def as_inputs(queries: Sequence[EvalQuery], pictures: PictureFiles, source: Source, runtime: Runtime) -> ExampleTable:
    """Queries with tokens, and with the pixels or regions of their images."""
    pictures = pictures.of(queries)
    tokens = source.tokenize([query.text for query in queries]).numpy()
    return examples_of(queries, pictures.files, image_inputs(pictures, source, runtime), tokens)


def image_inputs(pictures: PictureFiles, source: Source, runtime: Runtime) -> Images:
    """Inputs of an encoder, by index of picture: pixels, cut once, or regions, read when asked."""
    preprocess = (
        source.preprocess
        if isinstance(source, CrossSource)
        else Preprocess.from_config(source.build().visual.preprocess_cfg)
    )
    if preprocess is not None:
        return pixels_of(pictures, preprocess, runtime.device, runtime.progress)
    contents, regions = list(pictures.contents.values()), pictures.regions
    if regions is None:
        raise ValueError("the encoder needs regions")
    regions.check(contents)  # a picture without regions is named before hours are spent
    return lambda rows: torch.from_numpy(regions.of([contents[row] for row in rows.tolist()]))


def as_features(
    queries: Sequence[EvalQuery], pictures: PictureFiles, source: CrossSource, runtime: Runtime
) -> ExampleTable:
    """Queries with the features of each of their pairs by the encoder as it is.

    They are computed once for the same pictures, text, weights, preprocessing and precision.
    """
    device, bf16 = runtime.device, runtime.bf16
    order = sorted(range(len(queries)), key=lambda index: (queries[index].image_set, index))
    by_set = [queries[index] for index in order]
    questions = as_inputs(by_set, pictures, source, runtime)
    most = questions.candidates.shape[1]
    regions = None if pictures.regions is None else pictures.regions.sha256
    origin = {"what": "pairs", "weights": source.fingerprint, "bf16": bf16, "most": most, "regions": regions}
    contents = [sha256_of([one.text, [pictures.contents[image] for image in one.images]]) for one in by_set]
    encoder = source.build().to(device)
    features = partial(features_of, encoder, questions, at_once=runtime.at_once, device=device, bf16=bf16)
    with runtime.progress.task("encoding pairs", len(queries)) as task:
        arrays = cached(
            pictures.workdir,
            origin,
            contents,
            lambda part: features(range(part.start, part.stop)),
            task.advance,
            chunk=PAIR_CHUNK,
        )
    whole = np.concatenate(arrays) if arrays else np.zeros((0, most, source.width), np.float32)
    return with_features(questions, np.argsort(np.array(order, np.int64)), whole)


def frozen_texts(
    source: TextSource, pairs: Sequence[tuple[str, str]], workdir: Path, device: str, progress: Progress
) -> Array:
    """float32 [N, D] of premises with their hypotheses, by a frozen text branch; computed once."""

    def ask(part: slice) -> Array:
        premises, hypotheses = zip(*pairs[part], strict=True)
        return source.tokenize(premises, hypotheses).ids.numpy()

    with progress.task("reading texts", len(pairs)) as task:
        origin, contents = {"text": source.fingerprint, "device": device_kind(device)}, list(map(sha256_of, pairs))
        return stack_vectors(cached(workdir, origin, contents, ask, task.advance, chunk=TEXT_CHUNK), source.width)
