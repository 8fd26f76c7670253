"""A benchmark of the drawn world: as many queries as asked for, the same by seed, read like any dataset."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import UsageError
from ctxr.media.images import image_size
from ctxr.pipelines.inspection.config import Stats
from ctxr.pipelines.inspection.stats import run
from ctxr.store.artifacts import open_artifact
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.world.statements import TAGS


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset artifact with 8 train, 3 valid and 3 test queries."""
    out = tmp_path_factory.mktemp("world") / "dataset"
    write_benchmark(WorldBenchmark(out, train=8, valid=3, test=3, video=0.5, side=48, workers=1))
    return out


def test_each_side_has_the_queries_that_were_asked_for_about_sets_of_its_own(benchmark: Path) -> None:
    dataset = read_dataset(benchmark)
    sides = [dataset.split_of(image_set) for _, image_set, _ in dataset.targets()]
    assert {side: sides.count(side) for side in ("train", "valid", "test")} == {"train": 8, "valid": 3, "test": 3}
    assert {one.kind for one in dataset.sets} == {"video", "photos"}
    assert all(len(one.images) == 10 and 0 <= (one.closest or 0) < (one.mean_distance or 0) < 2 for one in dataset.sets)
    assert all(one.id.startswith(str(dataset.split_of(one))) for one in dataset.sets)
    first = next(iter(dataset.images.values()))
    file = dataset.picture(first)
    assert file is not None
    assert image_size(file) == (48, 48)


def test_phenomena_are_judged_for_every_description(benchmark: Path) -> None:
    dataset = read_dataset(benchmark)
    labelled = [query for query in dataset.queries.values() if query.labels is not None]
    assert len(labelled) == 14
    assert all(query.labels == TAGS for query in labelled)
    rows = [row for row in dataset.judgments if row.worker == "phenomena"]
    assert len(rows) == 14 * len(TAGS)
    temporal = {row.query.removeprefix("phenomena/") for row in rows if row.candidate == "temporal" and row.value}
    kinds = {one.id: one.kind for one in dataset.sets}
    assert temporal
    assert {kinds[dataset.queries[name].image_set] for name in temporal} == {"video"}


SMALL = WorldBenchmark(train=2, valid=0, test=1, side=32, workers=1)
CAPTIONS = WorldCaptions(train=0, valid=0, test=4, pair_train=3, pair_valid=0, side=24, workers=1)


@pytest.mark.parametrize(("write", "config"), [(write_benchmark, SMALL), (write_captions, CAPTIONS)])
def test_equal_seeds_draw_equal_bytes_whatever_the_workers_and_nothing_is_drawn_again(
    tmp_path: Path, write: Callable[[Any], object], config: Any
) -> None:
    def draw(name: str, **changes: int) -> dict[Path, bytes]:
        out = tmp_path / name
        write(replace(config, out=out, **changes))
        return {file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()}

    one = draw("one")
    stamp = (tmp_path / "one" / "manifest.json").stat().st_mtime_ns
    assert draw("two", workers=2) == draw("one", workers=2) == one
    assert (tmp_path / "one" / "manifest.json").stat().st_mtime_ns == stamp
    other = draw("other", seed=6)
    pictures = {content for path, content in one.items() if path.suffix == ".jpg"}
    assert not pictures & set(other.values())


def test_a_benchmark_can_be_of_photos_alone_and_not_of_more_than_all_videos(tmp_path: Path) -> None:
    write_benchmark(WorldBenchmark(tmp_path / "d", train=2, valid=0, test=0, video=0, side=32, workers=1))
    assert {one.kind for one in read_dataset(tmp_path / "d").sets} == {"photos"}
    with pytest.raises(UsageError, match=r"--video 1.5"):
        write_benchmark(WorldBenchmark(tmp_path / "e", video=1.5))


def test_the_other_verbs_read_it(benchmark: Path) -> None:
    assert open_artifact(benchmark, "dataset").changed_files() == []
    report = run(Stats(benchmark, tokenizer="regex", skip_pictures=True))
    assert {"splits", "language", "distances", "phenomena"} <= set(report.tables)
