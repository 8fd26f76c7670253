"""A task folder for mteb: the pictures, texts, targets and candidates that it scores, and a module with the task."""

import re
from collections.abc import Iterable
from pathlib import Path

from ctxr.datasets.writers.hf import SPLITS, Columns, Kind, front_matter, write_rows
from ctxr.datasets.writers.job import ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError
from ctxr.store.artifacts import package_versions
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.tables import pretty_json

CONFIGS: dict[str, dict[str, Kind]] = {
    "corpus": {"id": "string", "image": "image"},
    "queries": {"id": "string", "text": "string"},
    "qrels": {"query-id": "string", "corpus-id": "string", "score": "int32"},
    "top_ranked": {"query-id": "string", "corpus-ids": ["string"]},
}
"""What mteb's loader of retrieval reads. The last, the candidates of each query, is left out where they are all pictures of a split."""


def write(job: ExportJob) -> ExportResult:
    """Write a folder for each of `CONFIGS`, of the splits that `ctxr eval` evaluates, valid and test or else all, and the task.

    Raises DataError where no target is known.
    """
    sided = [(job.split(one), one, query) for one in job.dataset.sets for query in job.queries.get(one.id, [])]
    asked = [row for row in sided if row[2].labels is None]
    known = [row for row in asked if job.targets.get(row[2].id)]
    known = [row for row in known if row[0] in ("valid", "test")] or known
    if not known:
        raise DataError(f"{job.dataset.name} has no query whose target is known", hint="name another dataset: --input")
    splits = [split for split in job.by_split() if split in {row[0] for row in known}]
    galleries = len({one.id for _, one, _ in known}) == len(splits)
    configs = list(CONFIGS)[: 3 if galleries else 4]
    for split in splits:
        rows = [row[1:] for row in known if row[0] == split]
        sets = {one.id: one for one, _ in rows}.values()
        images = [job.dataset.images[name] for name in dict.fromkeys(name for one in sets for name in one.images)]
        pictures = ((image, job.pictures.checked(image).read_bytes()) for image in images)
        targets = [(query.id, one.images[place]) for one, query in rows for place in job.targets[query.id]]
        tables: dict[str, Iterable[tuple[Columns, int]]] = {  # rows with about their bytes; a path tells a format
            "corpus": (({"id": one.id, "image": {"bytes": own, "path": f"0{suffix_of(one)}"}}, len(own)) for one, own in pictures),
            "queries": (({"id": query.id, "text": job.dataset.text_of(query)}, 500) for _, query in rows),
            "qrels": (({"query-id": query, "corpus-id": image, "score": 1}, 100) for query, image in targets),
            "top_ranked": (({"query-id": query.id, "corpus-ids": one.images}, 50 * len(one.images)) for one, query in rows),
        }  # fmt: skip
        for config in configs:
            write_rows(job, config, split, CONFIGS[config], tables[config])
    facts = {
        "name": "".join(re.findall(r"[A-Za-z0-9]+", job.dataset.name.title())) or "Sets",
        "type": "Any2AnyRetrieval" if galleries else "Any2AnyReranking",
        "eval_splits": [SPLITS[split] for split in splits],
        # where it changes, mteb takes no earlier result for that of this task
        "revision": sha256_of([sha256_file(one) for config in configs for one in sorted((job.out / config).iterdir())]),
    }
    write_bytes(job.out / "context_task.json", pretty_json(facts))
    write_bytes(job.out / "context_task.py", Path(__file__).with_name("context_task.txt").read_bytes())
    lost = len(asked) - len(known)
    return ExportResult(
        _LOAD,
        [f"{lost} queries of other splits than {' and '.join(splits)}, or without a known target."] if lost else [],
        front_matter=front_matter((config, config, splits) for config in configs),
        software=package_versions("pyarrow"),
    )


_LOAD = """    import sys, mteb                      # version 2
    sys.path.insert(0, "PATH/OF/THIS/FOLDER")
    from context_task import ContextTask
    mteb.evaluate(mteb.get_model("openai/clip-vit-base-patch32"), ContextTask())

`hit_rate_at_1` is the accuracy of `ctxr eval`, but for ties, which mteb breaks by image ids.
"""
