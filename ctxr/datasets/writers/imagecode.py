"""The layout of the published ImageCoDe release, as its own code reads it.

`train_data.json` and `valid_data.json`: {set: {target position: description}}; `test_data_unlabeled.json`: {set: [description]};
pictures in `image-sets/<set>/imgN.jpg`, whose integer N, and not the text of the name, gives the order. Static sets have
`open-images` in their name: that is how its code tells them from video.
"""

from ctxr.datasets.readers.imagecode import STATIC
from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names
from ctxr.errors import DataError, and_more, plural, some
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Query
from ctxr.store.tables import pretty_json

SET_SIZE = 10
_FILES = {"train": "train_data.json", "valid": "valid_data.json", "test": "test_data_unlabeled.json"}


def write(job: ExportJob) -> ExportResult:
    """Write the release's layout. Raises DataError for a set that is in no split, besides what `Pictures` raises."""
    check_names(job.dataset)
    if other := [one for one in job.dataset.sets if len(one.images) != SET_SIZE]:
        raise DataError(
            f"the set {other[0].id} has {plural(len(other[0].images), 'image')}{and_more(len(other))}: this format has sets of ten",
            hint="choose another format with --to, or sets that were built with --set-size 10",
        )
    tables: dict[str, dict[str, dict[str, str] | list[str]]] = {name: {} for name in _FILES}
    skipped, taken, encoded, named = list[str](), set[str](), 0, 0
    for image_set in job.progress.each("exporting sets", job.dataset.sets):
        split = job.split(image_set)
        if split not in tables:
            raise DataError(
                f"the set {image_set.id} is in none of train, valid and test, which this format needs",
                hint="give its group a split with --splits when the sets are built",
            )
        # the set's name in the release: static sets say so
        name = image_set.id if image_set.ordered or STATIC in image_set.id else f"{STATIC}-{image_set.id}"
        if name.lower() in taken:
            raise DataError(f"two sets would be named {name!r}", hint="give one of the albums another name")
        taken.add(name.lower())
        named += name != image_set.id
        members = job.members(image_set)
        # the place of each image: frame numbers where they are known and rise, else positions
        frames = [image.index for image in members if image.index is not None]
        rising = len(frames) == len(members) and frames == sorted(set(frames))
        for number, image in zip(frames if rising else range(len(members)), members, strict=True):
            encoded += job.pictures.save_jpeg(image, job.out / "image-sets" / name / f"img{number}.jpg")
        queries = job.queries.get(image_set.id, [])
        if split == "test":
            # by hash: the order must not betray the targets
            texts = [job.dataset.text_of(query) for query in queries if query.labels is None]
            tables[split][name] = sorted(texts, key=lambda text: sha256_bytes(text.encode()))
        else:
            tables[split][name] = _labelled(job, queries, skipped)
    for split, file in _FILES.items():
        write_bytes(job.out / file, pretty_json(tables[split]))
    result = ExportResult(_LOAD)
    if skipped:
        result.left_out.append(
            f"{len(skipped)} queries without exactly one target of their own are left out "
            f"(the format holds one description per set and target): {some(skipped)}."
        )
    if encoded:
        result.notes.append(f"{encoded} images were re-encoded because they were not upright JPEG.")
    if named:
        result.notes.append(
            f"{named} static sets carry `{STATIC}-` before their name, by which the released code recognises them."
        )
    return result


def _labelled(job: ExportJob, queries: list[Query], skipped: list[str]) -> dict[str, str]:
    """Descriptions by the position of their target; ids of other queries go to `skipped`."""
    described: dict[int, str] = {}
    for query in queries:
        positions = job.targets.get(query.id, [])
        if query.labels is not None or len(positions) != 1 or positions[0] in described:
            skipped.append(query.id)
            continue
        described[positions[0]] = job.dataset.text_of(query)
    return {str(position): described[position] for position in sorted(described)}


_LOAD = """The layout is that of the ImageCoDe release: `train_data.json` and `valid_data.json` map a set to its descriptions by the
position of the target, `test_data_unlabeled.json` maps a set to descriptions whose targets are kept back. Pictures are in
`image-sets/<set>/imgN.jpg`; sort them by the integer N (`img2` before `img10`): a position counts in that order.
A set without descriptions maps to an empty object or list.
"""
