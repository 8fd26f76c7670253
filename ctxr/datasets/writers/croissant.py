"""Croissant 1.0: JSON Lines, pictures, and a `croissant.json` by which readers join them."""

from collections.abc import Mapping

from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names, suffix_of
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.tables import encode_row, pretty_json

TEXT, INTEGER, FLOAT = "sc:Text", "sc:Integer", "sc:Float"


_REPEATED = ("images", "texts", "targets")
"""Columns that hold several, in order."""

Columns = dict[str, tuple[str, str]]
"""Columns of a table by name: what one holds, and what that means."""

_SET: Columns = {
    "id": (TEXT, "Name of the set."),
    "split": (TEXT, "Side of the benchmark: train, valid, test or unsplit."),
    "kind": (TEXT, "video (ten frames of one shot) or photos (near neighbours)."),
    "file": (TEXT, "File name of the video or folder of the album that the set comes from."),
    "shot": (INTEGER, "Number of the shot in its video."),
    "closest": (FLOAT, "Smallest distance of two images of the set, between unit vectors, 0 to 2."),
    "mean_distance": (FLOAT, "Mean distance of two images of the set; smaller is harder."),
    "images": (TEXT, "Ids of the images, in order."),
}

_QUERY: Columns = {
    "id": (TEXT, "Name of the query."),
    "image_set": (TEXT, "The set that is asked about."),
    "split": (TEXT, "Side of the benchmark."),
    "texts": (TEXT, "What is asked, in order."),
    "targets": (INTEGER, "Positions of the right images, from 0."),
}

_IMAGE: Columns = {
    "path": (TEXT, "The file in this folder."),
    "id": (TEXT, "Name of the image: its source, and its frame number or file name."),
    "sha256": (TEXT, "Of the file's bytes."),
    "width": (INTEGER, "Pixels."),
    "height": (INTEGER, "Pixels."),
    "frame": (INTEGER, "Number of the frame in its video, from 0."),
    "seconds": (TEXT, "Exact time in its video as numerator/denominator seconds."),
    "licence": (TEXT, "Licence of the image."),
}

_PICTURE: Columns = {"path": _IMAGE["path"], "image": ("sc:ImageObject", "The picture.")}


def write(job: ExportJob) -> ExportResult:
    """Write the tables, the pictures in `images/`, and `croissant.json` last."""
    check_names(job.dataset)
    files = {source.name: source.file for source in job.dataset.sources}
    images: list[dict[str, object]] = []
    by_id = sorted(job.dataset.images.values(), key=lambda image: image.id)
    for number, image in enumerate(job.progress.each("exporting pictures", by_id)):
        path = f"images/{number:07d}{suffix_of(image)}"
        link_or_copy(job.pictures.checked(image), job.out / path)
        row = job.image_row(image)
        images.append(row | {"path": path, "frame": row["index"], "seconds": row["time"]})
    sets, queries = [], []
    for image_set in job.dataset.sets:
        split = job.split(image_set)
        more = {"split": split, "file": files.get(image_set.source, image_set.source)}
        sets.append(job.set_row(image_set) | more | {"images": list(image_set.images)})
        queries += [row | {"split": split} for row in job.query_rows(image_set)]
    tables = {"sets": (_SET, sets), "images": (_IMAGE, images)} | ({"queries": (_QUERY, queries)} if queries else {})
    distribution, records = [], []
    for table, (columns, rows) in tables.items():
        name = f"{table}.jsonl"
        content = b"".join(encode_row({column: row.get(column) for column in columns}) for row in rows)
        write_bytes(job.out / name, content)
        about = {"contentSize": f"{len(content)} B", "encodingFormat": "application/jsonlines"}
        place = {"@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name}
        distribution.append(place | about | {"sha256": sha256_bytes(content)})
        sources = {column: {"fileObject": {"@id": name}, "extract": {"column": column}} for column in columns}
        records.append(_records(table, "path" if table == "images" else "id", columns, sources))
    for suffix in sorted({suffix_of(image) for image in job.dataset.images.values()}):
        kind = suffix.removeprefix(".")
        about = {"encodingFormat": _MEDIA.get(kind, f"image/{kind}"), "includes": f"images/*{suffix}"}
        files_of_kind = {"@id": f"files-{kind}"}
        distribution.append({"@type": "cr:FileSet", **files_of_kind, "name": f"files-{kind}"} | about)
        sources = {
            column: {"fileSet": files_of_kind, "extract": {"fileProperty": what}}
            for column, what in (("path", "fullpath"), ("image", "content"))
        }
        records.append(_records(f"pictures-{kind}", "path", _PICTURE, sources))
    card = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": job.dataset.name,
        "version": "1.0.0",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "description": f"{job.counts.sets} sets of minimally contrastive images ({job.counts.images} images) for finding the right "
        "image from a contextual text. README.md says where they come from and under which licences.",
        **({"license": job.shared_licence} if job.shared_licence else {}),
        "distribution": distribution,
        "recordSet": records,
    }
    write_bytes(job.out / "croissant.json", pretty_json(card))
    return ExportResult(_LOAD)


def _records(name: str, key: str, columns: Columns, sources: Mapping[str, object]) -> dict[str, object]:
    """A record set of columns, each from its source."""
    fields = [
        {"@type": "cr:Field", "@id": f"{name}/{column}", "name": column, "description": meaning}
        | {"dataType": kind}
        | ({"repeated": True} if column in _REPEATED else {})
        | {"source": sources[column]}
        for column, (kind, meaning) in columns.items()
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "key": {"@id": f"{name}/{key}"}, "field": fields}


_MEDIA = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "tif": "image/tiff"}

_TERMS = (
    "@language", "@vocab", "citeAs", "column", "conformsTo", "cr", "rai", "data", "dataType", "dct",
    "equivalentProperty", "examples", "extract", "field", "fileProperty", "fileObject", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references",
    "regex", "repeated", "replace", "samplingRate", "sc", "separator", "source", "subField", "transform",
)  # fmt: skip
_ELSEWHERE: dict[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
}
_CONTEXT = {term: _ELSEWHERE.get(term, f"cr:{term}") for term in _TERMS}
"""The context that the standard recommends, word for word: readers compare it."""

_LOAD = """    import mlcroissant
    dataset = mlcroissant.Dataset("PATH/OF/THIS/FOLDER/croissant.json")
    for record in dataset.records("sets"): ...

`sets` names the ids of its images, `images` says which file each is, and `pictures-jpg` (one such per kind of file) gives the pictures
by their path.
"""
