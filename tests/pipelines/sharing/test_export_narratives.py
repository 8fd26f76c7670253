"""Datasets of any kind as Localized Narratives: ordered sets as videos, galleries as images, and their traces."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from tests.exports import export


def said(dataset: Dataset) -> list[tuple[str, ...]]:
    """Each query's text, what it is about, and its split."""
    return sorted(
        (dataset.text_of(query), dataset.images[one.images[place]].sha256, dataset.split_of(one) or "")
        for query, one, place in dataset.targets()
    )


def test_sets_of_other_kinds_are_written_too(described: Path, tmp_path: Path) -> None:
    report = export(described, tmp_path / "out", "narratives")
    before, after = read_dataset(described), read_dataset(tmp_path / "out")
    ordered = {one.id for one in before.sets if one.ordered}
    assert ordered
    assert {one.id.partition("/")[2] for one in after.sets if one.ordered} == ordered
    assert said(after) == said(before)
    assert after.payloads == {}
    asked = {query.image_set for query in before.queries.values()}
    assert all(one.ordered for one in before.sets if one.id in asked)
    unasked = len(before.images) - len({image for one in before.sets if one.id in asked for image in one.images})
    others = sum(row.worker != "gold" for row in before.judgments)
    assert [line.partition(" that ")[0].partition(":")[0] for line in report.left_out] == [
        f"{unasked} images",
        f"{others} other judgments",
    ]


@pytest.mark.parametrize("to", ["recipe", "narratives"])
def test_datasets_without_traces_have_no_table_of_them(
    described: Path, exported: Callable[[str], Path], to: str
) -> None:
    assert "traces" not in read_dataset(described).tables()
    assert not [*exported(to).rglob("traces.jsonl")]
    assert b'"t":' not in b"".join(file.read_bytes() for file in exported(to).glob("*narratives.jsonl"))
