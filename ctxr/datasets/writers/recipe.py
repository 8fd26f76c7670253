"""A recipe: everything but the pixels, to share a benchmark whose videos cannot be redistributed.

Each video is decoded once more for the hashes of its frames, and each frame saved again must equal the existing image: a recipe
that does not reproduce its own images is not written.
"""

from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import msgspec

from ctxr.datasets.rebuilding import FORMAT, HEAD, Head, RecipeImage, read_rebuild_recipe
from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names
from ctxr.errors import DataError, and_more
from ctxr.media.footage import SourceLocator, decode_frames, pixels_sha256, software
from ctxr.media.images import JPEG_QUALITY, Pixels, encode_jpeg, read_image
from ctxr.store.artifacts import open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.paths import CACHE, without_folder
from ctxr.store.records import Image, Source, Split
from ctxr.store.tables import UNREADABLE, decode_other, encode_other, pretty_json, write_tables


class _Seen(msgspec.Struct, frozen=True):
    """A frame that was decoded again: when it is, hashes of its pixels and of what they are saved as."""

    time: Fraction
    pixels: str
    saved: str
    stream: int | None


def write(job: ExportJob) -> ExportResult:
    """Write the recipe's tables. Raises DataError when a video is missing or no longer yields the images."""
    check_names(job.dataset)
    sources = {source.name: source for source in job.dataset.sources}
    by_source: dict[str, list[Image]] = defaultdict(list)
    for image in job.dataset.images.values():
        by_source[_source_of(image, sources).name].append(image)
    versions = software()
    seen = _decoded(
        job, {name: sources[name] for name in by_source if sources[name].kind == "video"}, by_source, versions
    )
    rows = [
        _row(job, image, sources[name], seen[name][image.index] if image.index is not None else None)
        for name, images in by_source.items()
        for image in images
    ]
    dataset = job.dataset
    groups = {image.group for image in dataset.images.values()} | {image_set.group for image_set in dataset.sets}
    splits = [Split(group, split) for group, split in dataset.splits.items() if group in groups]
    tables = {name: table for name, table in dataset.tables().items() if table}
    tables |= {"groups": dataset.footage} if dataset.footage else {}
    tables |= {"images": rows, "sets": dataset.sets, "sources": [sources[name] for name in by_source], "splits": splits}
    write_tables(job.out, tables)
    models = open_artifact(job.origin).manifest.models
    if encoder := models.get("encoder"):  # a dataset of aggregated answers names none
        models = models | {"encoder": encoder | {"name": without_folder(encoder["name"])}}
    head = Head(FORMAT, job.dataset.name, versions, JPEG_QUALITY, models)
    write_bytes(job.out / HEAD, pretty_json(head))
    read_rebuild_recipe(job.out)  # what would be refused is not written
    return ExportResult(_LOAD, counts={"sources": len(by_source)})


def _source_of(image: Image, sources: dict[str, Source]) -> Source:
    name = image.id.rpartition("/")[0] or image.group
    if name not in sources:
        raise DataError(
            f"nothing is known of the source {name!r} of {image.id}: without its hash there is no recipe",
            hint="export an artifact that ctxr built from videos and photos",
        )
    return sources[name]


def _row(job: ExportJob, image: Image, source: Source, seen: _Seen | None) -> RecipeImage:
    """A photo, or a frame as it was `seen`."""
    return RecipeImage(
        **msgspec.structs.asdict(image),
        source=source.name,
        source_sha256=image.sha256 if seen is None else source.sha256,
        stream=None if seen is None else seen.stream,
        decoder=None if seen is None else source.decoder or "pyav",
        pixels=pixels_sha256(read_image(job.pictures.checked(image))) if seen is None else seen.pixels,
    )


def _decoded(
    job: ExportJob, videos: dict[str, Source], images: dict[str, list[Image]], versions: dict[str, str]
) -> dict[str, dict[int, _Seen]]:
    """Every frame decoded again, by video and frame number; what an earlier run has seen with the same software is not decoded."""
    memory = _Memory(job.origin, versions)
    seen = {name: memory.load(source) for name, source in videos.items()}
    wanted = defaultdict(list)
    for name, source in videos.items():
        for image in images[name]:
            if image.index not in seen[name] or seen[name][image.index].time != image.time:
                wanted[source].append(image)

    def visit(image: Image, rgb: Pixels, stream: int | None) -> tuple[int, _Seen]:
        if image.index is None or image.time is None:
            raise DataError(f"{image.id} is a frame without number or time")
        return image.index, _Seen(image.time, pixels_sha256(rgb), sha256_bytes(encode_jpeg(rgb)), stream)

    failed = {}
    locator = SourceLocator(job.origin, job.videos, job.progress)
    for video, frames, error in decode_frames(wanted, locator, visit, job.progress, job.workers):
        seen[video.name] |= dict(frames)
        if error:
            failed[video.name] = error
        else:
            memory.store(video, seen[video.name])
    for error in (failed[name] for name in sorted(failed)):
        raise DataError(f"{error.message}{and_more(len(failed))}: a recipe needs every source", hint=error.hint)
    for name in videos:
        for image in images[name]:
            if image.index is not None and seen[name][image.index].saved != image.sha256:
                raise DataError(
                    f"{image.id}: the frame decoded and saved here is another file than the picture in {job.origin}",
                    hint=f"ctxr verify {job.origin} says how far apart they are; build the sets again with what is installed now",
                )
    return seen


class _Memory:
    """Hashes of frames that were decoded again, by content of the video, beside the artifacts: it may be deleted at any time."""

    def __init__(self, artifact: Path, versions: dict[str, str]) -> None:
        self._folder = artifact.resolve().parent / CACHE / "frames" / sha256_of([versions, JPEG_QUALITY])[:16]

    def load(self, source: Source) -> dict[int, _Seen]:
        """What is remembered; nothing where the note cannot be read."""
        try:
            return msgspec.json.decode(self._file(source).read_bytes(), type=dict[int, _Seen], dec_hook=decode_other)
        except (OSError, ValueError, *UNREADABLE):
            return {}

    def store(self, source: Source, seen: dict[int, _Seen]) -> None:
        """Remember the frames of a video."""
        ordered = {index: seen[index] for index in sorted(seen)}
        write_bytes(self._file(source), msgspec.json.encode(ordered, enc_hook=encode_other), durable=False)

    def _file(self, source: Source) -> Path:
        return self._folder / f"{sha256_of([source.sha256, source.decoder])}.json"


_LOAD = """This is a recipe: for each image the frame, the video (by sha256), the exact time, and the hashes of its pixels and its
file, but no pixels. With the videos and photos, rebuild the same images:

    ctxr rebuild THIS/FOLDER --videos VIDEOS --out sets
    ctxr verify  THIS/FOLDER --videos VIDEOS
"""
