"""The index of a gallery: every picture of it as a vector and vectors of its cells, in the order of their ids."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import cv2
import msgspec
import numpy as np
from msgspec import structs
from numpy.lib.format import open_memmap

from ctxr.datasets.changes import contents_of, refuse_other
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import dataset_parents
from ctxr.datasets.open import open_dataset, reader_of
from ctxr.datasets.readers.documents import page_files
from ctxr.engine.engines import Engine, device_of
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen, command_in
from ctxr.engine.stage import SourceInputs, Stage
from ctxr.engine.units import KILLED
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError, plural, some
from ctxr.media.footage import SourceLocator, decode_frames
from ctxr.media.images import Pixels, decoded, encode_jpeg, image_size, read_image
from ctxr.media.sources import find_sources, is_utf8
from ctxr.models.hub import placeless
from ctxr.models.identity import model_identity, resolved_name
from ctxr.pipelines.finding.config import Search
from ctxr.problems.embeddings import Array, CachedRows, named_regions
from ctxr.problems.runs import ScoringOptions, run_folder
from ctxr.problems.traces.learner import OpenTraces
from ctxr.problems.traces.searching import BACKGROUND, SearchModel
from ctxr.store.arrays import load_vectors
from ctxr.store.artifacts import Content, Parent, open_artifact
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import INDEX, PICTURES, RUN
from ctxr.store.memory import Watch, remembered
from ctxr.store.paths import CACHE
from ctxr.store.records import REJECTED, Image
from ctxr.store.tables import grouped, read_table, write_table
from ctxr.store.units import read_unit, unit_sources

IMAGES, VECTORS, CELLS = "images.jsonl", "vectors.npy", "cells.npy"
FRAMES = "frames/{}.jpg"
"""File in the index of a frame that lies nowhere else, by its id."""

SIDE = 640
"""Pixels of the longer side of such a frame, at most."""

CHUNK = 64
"""Pictures that are embedded between two points at which a stopped run can go on."""


@dataclass(frozen=True)
class IndexInputs(SourceInputs[Path]):
    """Where the gallery lies, its `photos` (hashes by name) where it is a mere folder of them, and the model: an encoder or a run."""

    photos: Mapping[str, str] | None
    by: Path | str


@dataclass(eq=False)
class IndexStage(Stage[IndexInputs]):
    """The index as an artifact.

    Attributes:
        resolved: every result of `inputs`. chunks: files of vectors that are not needed once the index is finished.
    """

    KIND = INDEX
    options: Search
    resolved: list[IndexInputs] = field(default_factory=list)
    chunks: set[str] = field(default_factory=set)

    def inputs(self, progress: Progress) -> IndexInputs:
        """The gallery and the model, by their content."""
        options, workdir, photos = self.options, self.options.workdir, None
        try:
            path = chosen(options.gallery, workdir, CHAIN, progress)
        except UnfinishedError as error:
            raise UnfinishedError(error.message, hint="ctxr search PHOTOS searches a folder of photos") from error
        try:
            if reader_of(path).files is page_files:  # photos that somebody wrote about are photos
                raise UsageError(f"{path} holds pages")
            parents = dataset_parents(path, path.resolve().stem, workdir, progress)
        except UsageError:
            if path.is_file():
                raise UsageError(f"{path} is a file", hint="name the folder of the photos, or a dataset") from None
            if not path.is_dir():
                raise
            photos = photos_in(path, workdir, progress)
            parents = [Parent(path.resolve().name, PICTURES, sha256_of(photos))]
        regions, folder = options.regions, run_folder(options.model, workdir)
        if folder is None:
            shown = name = resolved_name(options.model, workdir)
        else:
            run = OpenTraces.open(folder, scoring_of(options), progress)
            parents.append(Parent(folder.name, RUN, open_artifact(folder, RUN).sha256))
            shown, regions = folder.name, run.options.regions
            name = "" if regions else run.encoder
        made_by = [parents[-1].sha256 if folder else "", model_identity(name, workdir) if name else ""]
        key = {"model": placeless(shown), "made_by": sha256_of(made_by)}
        if regions:
            key["regions"] = named_regions(regions, workdir, shown).sha256
        self.resolved.append(IndexInputs(parents, key, path, photos, folder or name))
        return self.resolved[-1]

    def write(self, inputs: IndexInputs, out: Path, progress: Progress) -> Content:
        """Embed the pictures that are new, and write them in order with those that the earlier index of this model holds."""
        files = gallery_pictures(inputs, self.options, progress)
        self.announce(progress, pictures=len(files))
        images = sorted(files, key=lambda image: image.id)
        model = SearchModel(inputs.by, scoring_of(self.options), progress)
        rows, deadly = self._rows(inputs, model, {image.sha256: files[image] for image in images}, progress)
        kept = [image for image in images if image.sha256 in rows]
        if unread := [image for image in images if image.sha256 not in rows]:
            why = _read((unread[0].sha256, files[unread[0]]) if unread[0].sha256 not in deadly else None)
            progress.warn(f"{plural(len(unread), 'picture')} cannot be read: {some(one.id for one in unread)} ({why})")
        if not kept:
            raise DataError(f"{inputs.source} holds no picture that can be read", hint="name another folder of photos")
        write_table(out / IMAGES, kept)
        for part, name in enumerate((VECTORS, CELLS)):
            width = (model.width, model.size - model.width)[part]
            array = open_memmap(out / name, "w+", np.float32, (len(kept), width))
            for row, image in enumerate(kept):
                array[row] = rows[image.sha256][part]
            array.flush()
        frames = {FRAMES.format(image.id): files[image] for image in kept if not image.path}
        for name, file in frames.items():
            link_or_copy(file, out / name)
        counts: dict[str, object] = {"pictures": len(kept), "left_out": [image.id for image in unread]}
        if model.knows:
            fits = model.read(BACKGROUND) @ load_vectors(out / VECTORS).T
            counts["background"] = [round(float(best), 6) for best in sorted(fits.max(1))]
        return Content([IMAGES, VECTORS, CELLS, *frames], counts, {"weights": model.weights_of})

    def _rows(
        self, inputs: IndexInputs, model: SearchModel, files: Mapping[str, Path], progress: Progress
    ) -> tuple[dict[str, tuple[Array, Array]], set[str]]:
        """The vector and cells of each picture by its content, not of those that cannot be read; and those at which workers died."""
        rows = dict[str, tuple[Array, Array]]()
        with suppress(CtxrError):
            earlier = open_artifact(self.out(), INDEX)
            earlier.refuse_changed()
            before = read_index(self.out())
            if not self.other(earlier.manifest, inputs):
                whole = zip(before.images, before.vectors, before.cells, strict=True)
                rows = {image.sha256: (vector, cells) for image, vector, cells in whole if image.sha256 in files}
        missing = [content for content in files if content not in rows]
        job = CachedRows(self.options.workdir, {"what": INDEX, **inputs.key}, partial(_look, model), CHUNK)
        pictures, engine = {one: (one, files[one]) for one in missing}, Engine(self.options.engine, self.options.jobs)
        chunks = job.files(pictures, CHUNK, engine, progress, "embedding pictures")
        self.chunks.update(map(str, chunks))
        for content, row in zip(missing, chain.from_iterable(map(load_vectors, chunks)), strict=True):
            if np.isfinite(row).all():
                rows[content] = row[: model.width], row[model.width :]
        return rows, job.deadly


def scoring_of(options: Search) -> ScoringOptions:
    """Where and how the model computes."""
    return ScoringOptions(options.workdir, device_of(options.engine, options.device), regions=options.regions)


def _read(picture: tuple[str, Path] | None) -> Pixels | str:
    """A picture, by its content and file, or why it cannot be read; None stands for one at which workers died."""
    if picture is None:
        return KILLED
    content, file = picture
    try:
        refuse_other(file, content)
        return read_image(file)
    except DataError as error:
        return error.message


def _look(model: SearchModel, pictures: Sequence[tuple[str, Path] | None]) -> list[Array]:
    block = np.full((len(pictures), model.size), np.nan, np.float32)
    readable = {row: pixels for row, pixels in enumerate(decoded(_read, pictures)) if not isinstance(pixels, str)}
    if readable:
        block[[*readable]] = model.look([*readable.values()], [one[0] for row in readable if (one := pictures[row])])
    return [*block]


def photos_in(folder: Path, workdir: Path, progress: Progress) -> dict[str, str]:
    """SHA-256 of every photo by path, read again where something changed. Raises UsageError for a folder of none."""
    project = workdir.resolve()

    def find(watch: Watch) -> str:
        inside = (file for file in folder.rglob("*") if is_utf8(str(file)))
        watch([folder, *(file for file in inside if not file.resolve().is_relative_to(project))])
        search = find_sources([str(folder)], progress, workdir)
        for remark in search.remarks():
            progress.note(remark)
        albums = [source for source in search.found if source.kind == "photos"]
        build = command_in(workdir, "build-sets", str(folder))
        if not albums:
            raise UsageError(f"{folder} holds videos and no photo", hint=f"{build}; then ctxr search")
        if videos := len(search.found) - len(albums):
            progress.note(f"{plural(videos, 'video')} left out: {build}   embeds their frames")
        rows = [pair for album in albums for pair in zip(album.photos, album.photo_sha256, strict=True)]
        return msgspec.json.encode({file.relative_to(folder).as_posix(): digest for file, digest in rows}).decode()

    return msgspec.json.decode(remembered(workdir, ["gallery", str(folder.resolve())], find), type=dict[str, str])


def gallery_pictures(inputs: IndexInputs, options: Search, progress: Progress) -> dict[Image, Path]:
    """The pictures of a gallery with their files; `path` in its folder, or "" for frames that lie nowhere else."""
    if inputs.photos is not None:
        photos = dict[Image, Path]()
        for name, digest in progress.each("looking at photos", inputs.photos.items()):
            photo = inputs.source / name
            photos[_described(Image(name, name, "", "", 0, 0), photo, digest)] = photo
        return photos
    dataset, folder = open_dataset(inputs.source, options.workdir, progress), gallery_folder(inputs.source)
    shown = (dataset.images[name] for name in {name for one in dataset.sets for name in one.images})
    files = {image.id: file for image in shown if (file := dataset.picture(image)) is not None and file.is_file()}
    contents, pictures = contents_of(dataset, files), frames_of(dataset, options, progress)
    for name, file in files.items():
        path = Path(os.path.relpath(file, folder)).as_posix()
        pictures[structs.replace(dataset.images[name], path=path, sha256=contents[name])] = file
    if not pictures:
        raise DataError(f"{dataset.name} holds no picture", hint="put its pictures where it names them")
    return pictures


def _described(image: Image, file: Path, sha256: str) -> Image:
    width, height = 0, 0
    with suppress(DataError):  # left out where it is read
        width, height = image_size(file)
    return structs.replace(image, sha256=sha256, width=width, height=height)


def frames_of(dataset: Dataset, options: Search, progress: Progress) -> dict[Image, Path]:
    """Frames that were embedded while sets were picked, and are in none; decoded once, to at most `SIDE` pixels a side."""
    root, cache = dataset.root or Path(), options.workdir / CACHE / "frames"
    wanted = [
        (source, Image(name, "", "", source.name, 0, 0, row.index, row.time))
        for source in unit_sources(root)
        for row in read_unit(root, source.name).ledger
        if row.time is not None and row.row is not None and row.reason != REJECTED
        if (name := f"{source.name}/img{row.index}") not in dataset.images
    ]
    files = {image.id: cache / f"{sha256_of([source.sha256, image.index, SIDE])}.jpg" for source, image in wanted}
    lacking = grouped((source, image) for source, image in wanted if not files[image.id].is_file())
    locator, engine = SourceLocator(root, options.videos, progress), Engine(options.engine, options.jobs)
    for _, _, error in decode_frames(lacking, locator, partial(_save_frame, files), progress, engine):
        if error is not None:
            progress.warn(f"{error.message}: its frames that are in no set are left out")
    made = ((image, files[image.id]) for _, image in wanted if files[image.id].is_file())
    return {_described(image, file, sha256_file(file)): file for image, file in made}


def _save_frame(files: Mapping[str, Path], image: Image, pixels: Pixels, _stream: int | None) -> None:
    scale = min(1, SIDE / max(pixels.shape))
    small = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    write_bytes(files[image.id], encode_jpeg(np.asarray(small, np.uint8)), durable=False)


def gallery_folder(gallery: Path) -> Path:
    """The folder in which the pictures of a gallery lie."""
    return gallery if gallery.is_dir() else gallery.parent


@dataclass(frozen=True)
class Index:
    """An open index: vectors [N, D] and cells [N, C * E] of the images."""

    images: list[Image]
    vectors: Array
    cells: Array


def read_index(folder: Path) -> Index:
    """The index in a folder, arrays memory-mapped. Raises DataError for a damaged one."""
    index = Index(read_table(folder / IMAGES, Image), *(load_vectors(folder / name) for name in (VECTORS, CELLS)))
    if not len(index.images) == len(index.vectors) == len(index.cells):
        raise DataError(f"{folder} is damaged: its tables have different lengths", hint="ctxr search makes it again")
    return index
