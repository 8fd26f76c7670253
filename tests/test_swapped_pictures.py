"""A picture that was swapped decides: what was made by looking at it is made again, or the artifact that lists it is refused."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from scripts.golden import model_stub
from tests.counted_run import counted_run
from tests.pipelines.documents import write_documents

LINES = {
    "eval": "eval ctxr-tiny -w work --dataset DATASET --split valid --resamples 50",
    "train": "train -w work --dataset DATASET --recipe clip-batch --set encoder=ctxr-tiny --set epochs=1 --set batch=5",
    "listen": "listen DATASET -w work --endpoint ENDPOINT --model stub --limit 3",
    "regions": "regions DATASET -w work --extractor grid:ctxr-tiny",
    "export": "export --to links -w work --input DATASET",
    "export-tasks": "export-tasks describe -w work --input DATASET --protocol protocol.toml",
    "pairs": "pairs DATASET -w work",
    "build-documents": "build-documents recipe --dataset DATASET -w work --train 2 --valid 2 --test 2",
}
"""Verbs that look at pictures."""

DRAWN = {"export": "documents"}
"""What is read by a line, if not image sets."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of image sets and documents, and each as a release with its pictures."""
    root = tmp_path_factory.mktemp("drawn")
    write_benchmark(WorldBenchmark(root / "sets", train=5, valid=2, test=3, video=0.5, side=48, workers=1))
    write_documents(root / "documents", 6)
    for name, form in (("sets", "imagecode"), ("documents", "links")):
        with pytest.raises(SystemExit):
            app(["export", "--to", form, "--input", str(root / name), "--out", str(root / f"{name}-release")])
        for file in (root / f"{name}-release").glob("*manifest.json"):
            file.unlink()
        (root / f"{name}-release" / ".ctxr").unlink()
    return root


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with model_stub() as address:
        yield address


def swap(dataset: Path) -> None:
    """Exchange the contents of two pictures of the set that is asked about first."""
    read = read_dataset(dataset)
    with_queries = {query.image_set for query in read.queries.values()}
    one = next(one for one in read.sets if one.id in with_queries and read.split_of(one) in ("valid", "test"))
    first, second = (read.picture(read.images[image]) for image in one.images[:2])
    assert first is not None
    assert second is not None
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)


@pytest.mark.parametrize("kind", ["", pytest.param("-release", marks=pytest.mark.prove)])
@pytest.mark.parametrize("verb", LINES)
def test_a_swapped_picture_is_not_up_to_date(
    verb: str, kind: str, drawn: Path, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("protocol.toml").write_text('targets = 1\ndisjoint = "none"\n', encoding="utf-8")
    shutil.copytree(drawn / f"{DRAWN.get(verb, 'sets')}{kind}", "dataset")
    words = shlex.split(LINES[verb].replace("DATASET", "dataset").replace("ENDPOINT", endpoint))

    def run() -> tuple[int, Any]:
        done = counted_run(words)
        return done.code, done.document.get("up_to_date")

    assert [run(), run()] == [(0, False), (0, True)]
    swap(Path("dataset"))
    assert run() == ((0, False) if kind else (3, None))
