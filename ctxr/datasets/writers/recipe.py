"""A recipe: everything but the pixels, to share a benchmark whose videos cannot be redistributed.

Each video is decoded once more for the hashes of its frames, and each frame saved again must equal the existing image: a recipe
that does not reproduce its own images is not written.
"""

from collections import defaultdict

import msgspec

from ctxr.datasets.rebuilding import FORMAT, HEAD, Head, RecipeImage, read_rebuild_recipe
from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names
from ctxr.engine.engines import Engine
from ctxr.errors import DataError, and_more
from ctxr.media.footage import SourceLocator, decode_frames, pixels_sha256, software
from ctxr.media.images import JPEG_QUALITY, Pixels, encode_jpeg, read_image
from ctxr.store.artifacts import open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.paths import without_folder
from ctxr.store.records import Image, Source, Split
from ctxr.store.tables import PAYLOADS, pretty_json, write_tables


def write(job: ExportJob) -> ExportResult:
    """Write the recipe's tables. Raises DataError where a video is missing or has changed."""
    check_names(job.dataset)
    dataset, rows = job.dataset, list[RecipeImage]()
    known, used = {source.name: source for source in dataset.sources}, dict[str, Source]()
    videos: dict[Source, list[Image]] = defaultdict(list)
    for image in dataset.images.values():
        if image.source not in known:
            raise DataError(
                f"nothing is known of the source {image.source!r} of {image.id}: without its hash there is no recipe",
                hint="export an artifact that ctxr built from videos and photos",
            )
        source = used[image.source] = known[image.source]
        if source.kind == "video":
            if image.index is None or image.time is None:
                raise DataError(f"{image.id} is a frame without number or time")
            videos[source].append(image)
        else:
            fields = msgspec.structs.asdict(image) | {"source": source.name, "source_sha256": image.sha256}
            pixels = pixels_sha256(read_image(job.pictures.checked(image)))
            rows.append(RecipeImage(**fields, stream=None, decoder=None, pixels=pixels))
    rows += _decoded(job, videos)
    groups = {image.group for image in dataset.images.values()} | {image_set.group for image_set in dataset.sets}
    splits = [Split(group, split) for group, split in dataset.splits.items() if group in groups]
    tables = {name: table for name, table in dataset.tables().items() if table}
    tables |= {"groups": dataset.footage} if dataset.footage else {}
    tables |= {"images": rows, "sets": dataset.sets, "sources": used.values(), "splits": splits}
    write_tables(job.out, tables)
    models = open_artifact(job.origin).manifest.models
    if encoder := models.get("encoder"):  # a dataset of aggregated answers names none
        models = models | {"encoder": encoder | {"name": without_folder(encoder["name"])}}
    head = Head(FORMAT, dataset.name, software(), JPEG_QUALITY, models)
    write_bytes(job.out / HEAD, pretty_json(head))
    read_rebuild_recipe(job.out)  # what would be refused is not written
    return ExportResult(_LOAD, counts={"sources": len(used)}, kept=PAYLOADS)


def _decoded(job: ExportJob, videos: dict[Source, list[Image]]) -> list[RecipeImage]:
    """Every frame decoded again. Raises DataError for a video that is missing, and a frame that is saved as another file."""
    sources = {source.name: source for source in videos}

    def decoded(image: Image, rgb: Pixels, stream: int | None) -> RecipeImage:
        source = sources[image.source]
        fields = msgspec.structs.asdict(image) | {"source": source.name, "source_sha256": source.sha256}
        fields |= {"sha256": sha256_bytes(encode_jpeg(rgb)), "decoder": source.decoder or "pyav"}
        return RecipeImage(**fields, stream=stream, pixels=pixels_sha256(rgb))

    rows, failed = list[RecipeImage](), dict[str, DataError]()
    locator = SourceLocator(job.origin, job.videos, job.progress)
    for video, frames, error in decode_frames(videos, locator, decoded, job.progress, Engine(workers=job.workers)):
        rows += frames.values()
        if error:
            failed[video.name] = error
    if failed:
        first = failed[min(failed)]
        raise DataError(f"{first.message}{and_more(len(failed))}: a recipe needs every source", hint=first.hint)
    for row in sorted(rows, key=lambda row: row.id):
        if row.sha256 != job.dataset.images[row.id].sha256:
            raise DataError(
                f"{row.id}: the frame decoded and saved here is another file than the picture in {job.origin}",
                hint=f"ctxr verify {job.origin} says how far apart they are; build the sets again with what is installed now",
            )
    return rows


_LOAD = """This is a recipe: for each image the frame, the video (by sha256), the exact time, and the hashes of its pixels and its
file, but no pixels. With the videos and photos, rebuild the same images:

    ctxr rebuild THIS/FOLDER --videos VIDEOS --out sets
    ctxr verify  THIS/FOLDER --videos VIDEOS
"""
