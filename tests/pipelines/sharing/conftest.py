"""Image sets that the tests of exporting share, plain and with descriptions."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Judgment, Query, Text
from ctxr.store.tables import write_table
from tests.exports import export
from tests.pipelines.curation.test_build_sets import build


@pytest.fixture(scope="session")
def sets(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of three clips and an album: clip0 and the album train, clip1 valid, clip2 test."""
    folder = tmp_path_factory.mktemp("exporting")
    (folder / "splits.csv").write_text("clip0,train\nalbum,train\nclip1,valid\nclip2,test\n")
    build(footage, folder / "sets", sources=(str(footage),), splits=folder / "splits.csv")
    return folder / "sets"


def asked_about(dataset: Dataset) -> Dataset:
    """The dataset with a description of images 3 and 1 of every video set, their targets, and one wrong pick."""
    texts, queries, judgments = {}, {}, []
    for image_set in dataset.sets:
        if image_set.kind == "photos":
            continue
        for position in (3, 1):
            name = f"{image_set.id}?{position}"
            texts[name] = Text(name, f"patch <b>{position}</b> of {image_set.id} | ünïcode", "worker-1")
            queries[name] = Query(name, image_set.id, (name,))
            judgments.append(Judgment(name, image_set.images[position], "gold", 1.0))
            judgments.append(Judgment(name, image_set.images[0], "worker-2", 1.0, seconds=2.5))
    return replace(dataset, texts=texts, queries=queries, judgments=tuple(judgments))


@pytest.fixture(scope="session")
def described(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sets with descriptions, as an artifact."""
    folder = tmp_path_factory.mktemp("described")
    shutil.copytree(sets.parent, folder, dirs_exist_ok=True)
    artifact, dataset = open_artifact(folder / "sets"), open_sets(folder / "sets")
    asked, made = asked_about(dataset), artifact.manifest
    write_table(folder / "sets" / "texts.jsonl", asked.texts.values())
    write_table(folder / "sets" / "queries.jsonl", asked.queries.values())
    write_table(folder / "sets" / "judgments.jsonl", asked.judgments)
    finish(
        folder / "sets",
        kind=made.kind,
        verb=made.verb,
        config=made.config,
        parents=made.parents,
        content=Content([*made.files, "texts.jsonl", "queries.jsonl", "judgments.jsonl"], made.counts, made.models),
    )
    return folder / "sets"


@pytest.fixture(scope="session")
def exported(described: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The described sets in a format, made once: only to be read."""

    @cache
    def folder(to: str) -> Path:
        out = tmp_path_factory.mktemp("exported") / to
        export(described, out, to)
        return out

    return folder
