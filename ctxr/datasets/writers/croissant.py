"""Croissant 1.0: JSON Lines, pictures, and a `croissant.json` from which a reader finds and joins them."""

from collections.abc import Mapping
from typing import NamedTuple

from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names, suffix_of
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.tables import encode_row, pretty_json

_TYPES = {str: "sc:Text", int: "sc:Integer", float: "sc:Float"}


class Column(NamedTuple):
    """What a column holds, what that means, and whether it holds several in order."""

    kind: type
    meaning: str
    repeated: bool = False


Columns = dict[str, Column]
"""Columns of a table by name."""

_SET: Columns = {
    "id": Column(str, "Name of the set."),
    "split": Column(str, "Side of the benchmark: train, valid, test or unsplit."),
    "kind": Column(str, "video (ten frames of one shot) or photos (near neighbours)."),
    "file": Column(str, "File name of the video or folder of the album that the set comes from."),
    "shot": Column(int, "Number of the shot in its video."),
    "closest": Column(float, "Smallest distance of two images of the set, between unit vectors, 0 to 2."),
    "mean_distance": Column(float, "Mean distance of two images of the set; smaller is harder."),
    "images": Column(str, "Ids of the images, in order.", repeated=True),
}

_QUERY: Columns = {
    "id": Column(str, "Name of the query."),
    "image_set": Column(str, "The set that is asked about."),
    "split": Column(str, "Side of the benchmark."),
    "texts": Column(str, "What is asked, in order.", repeated=True),
    "targets": Column(int, "Positions of the right images, from 0.", repeated=True),
}

_IMAGE: Columns = {
    "path": Column(str, "The file in this folder."),
    "id": Column(str, "Name of the image: its source, and its frame number or file name."),
    "sha256": Column(str, "Of the file's bytes."),
    "width": Column(int, "Pixels."),
    "height": Column(int, "Pixels."),
    "frame": Column(int, "Number of the frame in its video, from 0."),
    "seconds": Column(str, "Exact time in its video as numerator/denominator seconds."),
    "licence": Column(str, "Licence of the image."),
}


def write(job: ExportJob) -> ExportResult:
    """Write the tables, the pictures in `images/`, and `croissant.json` last."""
    check_names(job.dataset)
    files = {source.name: source.file for source in job.dataset.sources}
    images: list[dict[str, object]] = []
    with job.progress.task("export pictures", len(job.dataset.images)) as task:
        for number, image in enumerate(sorted(job.dataset.images.values(), key=lambda image: image.id)):
            path = f"images/{number:07d}{suffix_of(image)}"
            job.pictures.link(image, job.out / path)
            row = job.image_row(image)
            images.append(row | {"path": path, "frame": row["index"], "seconds": row["time"]})
            task.advance()
    sets, queries = [], []
    for image_set in job.dataset.sets:
        split = job.split(image_set)
        more = {"split": split, "file": files.get(image_set.source, image_set.source)}
        sets.append(job.set_row(image_set) | more | {"images": list(image_set.images)})
        queries += [row | {"split": split} for row in job.query_rows(image_set)]
    tables = {"sets": (_SET, sets), "images": (_IMAGE, images)} | ({"queries": (_QUERY, queries)} if queries else {})
    distribution, records = [], []
    for name, (columns, rows) in tables.items():
        content = b"".join(encode_row({column: row.get(column) for column in columns}) for row in rows)
        write_bytes(job.out / f"{name}.jsonl", content)
        distribution.append(_file(name, content))
        fields = []
        for column, about in columns.items():
            source = {"fileObject": {"@id": f"{name}.jsonl"}, "extract": {"column": column}}
            fields.append(_field(name, column, about.meaning, _TYPES[about.kind], source, repeated=about.repeated))
        records.append(_records(name, "path" if name == "images" else "id", fields))
    kinds = sorted({suffix_of(image) for image in job.dataset.images.values()})
    distribution += [_pictures(kind) for kind in kinds]
    records += [_picture_records(kind) for kind in kinds]
    licence = job.licences.shared(job.dataset.images.values())
    card = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": job.dataset.name,
        "version": "1.0.0",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "description": f"{job.counts.sets} sets of minimally contrastive images ({job.counts.images} images) for finding the right "
        "image from a contextual text. README.md says where they come from and under which licences.",
        **({"license": licence} if licence else {}),
        "distribution": distribution,
        "recordSet": records,
    }
    write_bytes(job.out / "croissant.json", pretty_json(card))
    return ExportResult(_LOAD)


def _file(name: str, content: bytes) -> dict[str, object]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}.jsonl",
        "name": f"{name}.jsonl",
        "contentUrl": f"{name}.jsonl",
        "contentSize": f"{len(content)} B",
        "encodingFormat": "application/jsonlines",
        "sha256": sha256_bytes(content),
    }


def _pictures(suffix: str) -> dict[str, object]:
    kind = suffix.removeprefix(".")
    return {
        "@type": "cr:FileSet",
        "@id": f"files-{kind}",
        "name": f"files-{kind}",
        "encodingFormat": _MEDIA.get(kind, f"image/{kind}"),
        "includes": f"images/*{suffix}",
    }


def _picture_records(suffix: str) -> dict[str, object]:
    """Records of the pictures themselves, by path, which `images` says more of."""
    kind = suffix.removeprefix(".")
    name = f"pictures-{kind}"

    def field(column: str, text: str, data_type: str, what: str) -> dict[str, object]:
        source = {"fileSet": {"@id": f"files-{kind}"}, "extract": {"fileProperty": what}}
        return _field(name, column, text, data_type, source)

    path = field("path", "The file in this folder.", "sc:Text", "fullpath")
    return _records(name, "path", [path, field("image", "The picture.", "sc:ImageObject", "content")])


def _field(
    records: str, column: str, text: str, data_type: str, source: Mapping[str, object], *, repeated: bool = False
) -> dict[str, object]:
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{column}",
        "name": column,
        "description": text,
        "dataType": data_type,
        **({"repeated": True} if repeated else {}),
        "source": source,
    }


def _records(name: str, key: str, fields: list[dict[str, object]]) -> dict[str, object]:
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": {"@id": f"{name}/{key}"},
        "field": fields,
    }


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
