"""`ctxr regions`: an artifact that can be stopped and read, whoever looked, and what is said about what cannot be used."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.engine import engines
from ctxr.engine.progress import Silent
from ctxr.engine.units import KILLED
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.media.images import Pixels, read_image
from ctxr.models import regions as models
from ctxr.pipelines.modelling import region_shards as regions_run
from ctxr.pipelines.modelling.config import RegionsConfig
from ctxr.pipelines.modelling.regions import run
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.regions import BOX, RegionRow, read_regions
from ctxr.store.tables import read_table, write_table
from tests.models.encoder_folder import make_folder
from tests.pipelines.losing import PoisonedRows
from tests.pipelines.world_dataset import write_world_dataset

Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"grid:local-dir:{make_folder(tmp_path_factory.mktemp('encoder') / 'one')}"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_dataset(tmp_path_factory.mktemp("drawn") / "dataset", sets=2)


@pytest.fixture
def dataset(drawn: Path, tmp_path: Path) -> Path:
    return shutil.copytree(drawn, tmp_path / "work" / "dataset")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def sign_again(dataset: Path) -> None:
    """Write the manifest of a dataset anew, as if its tables had come so."""
    files = sorted(open_artifact(dataset).manifest.files)
    finish(dataset, kind="dataset", verb="test", config={}, parents=[], content=Content(files, {}, {}))


def export_files(dataset: Path, folder: Path, change: Callable[[Arrays], Arrays] = lambda _held: {}) -> Path:
    """A `.npz` for each picture as the detector's exports have it: 4 to 6 boxes, 8 features; the fifth is changed."""
    rng = np.random.default_rng(1)
    for number, (name, image) in enumerate(sorted(read_dataset(dataset).images.items())):
        count = 4 + number % 3
        corner = rng.uniform(0, 20, (count, 2))
        arrays: Arrays = {
            "x": rng.normal(size=(count, 8)).astype(np.float32),
            "bbox": np.concatenate([corner, corner + rng.uniform(1, 20, (count, 2))], 1).astype(np.float32),
            "image_w": image.width,
            "image_h": image.height,
            "num_bbox": count,
        }
        if number == 4:
            arrays = {name: array for name, array in (arrays | change(arrays)).items() if array is not None}
        file = folder / f"{name}.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **arrays)
    return folder


def test_every_picture_has_its_regions_by_content(dataset: Path, encoder: str, tmp_path: Path) -> None:
    report = run(RegionsConfig(extractor=encoder, workdir=tmp_path / "work"))
    regions = read_regions(report.regions)
    images = read_dataset(dataset).images
    contents = [image.sha256 for image in images.values()]
    assert (report.pictures, report.most, report.features) == (len(set(contents)), 10, 64)
    found = regions.of([contents[3], contents[0], contents[3]])
    assert found.dtype == np.float32
    assert found.shape == (3, 10, 64 + BOX)
    grid = models.GridRegions(encoder.removeprefix("grid:"), 36)
    files = [dataset / list(images.values())[place].path for place in (3, 0, 3)]
    np.testing.assert_array_equal(found, np.stack(grid.regions([read_image(file) for file in files])))


def test_a_stopped_run_goes_on_to_the_same_bytes(
    dataset: Path, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions_run, "SHARD", 8)
    looked: list[int] = []
    plain = models.GridRegions.regions

    def look(self: models.GridRegions, images: Any) -> Any:
        looked.append(len(images))
        if len(looked) == 3:
            raise KeyboardInterrupt
        return plain(self, images)

    monkeypatch.setattr(models.GridRegions, "regions", look)
    stopped = RegionsConfig(dataset, encoder, name="one", workdir=tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        run(stopped)
    with pytest.raises(UnfinishedError, match=r"has no manifest\.json"):
        read_regions(stopped.folder())
    run(stopped)
    assert sum(looked) == len(read_regions(stopped.folder()).rows) + 8
    again = RegionsConfig(dataset, encoder, name="one", workdir=tmp_path / "through")
    run(again)
    assert bytes_of(stopped.folder()) == bytes_of(again.folder())
    before = len(looked)
    assert run(again).up_to_date
    assert len(looked) == before


def test_another_name_costs_no_second_look(
    dataset: Path, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(RegionsConfig(dataset, encoder, name="one", workdir=tmp_path / "work"))
    monkeypatch.setattr(models.GridRegions, "regions", lambda _self, _images: pytest.fail("looked again"))
    second = run(RegionsConfig(dataset, encoder, name="two", workdir=tmp_path / "work"))
    assert bytes_of(first.regions) == bytes_of(second.regions)


def test_a_picture_that_cannot_be_read_is_left_out_and_said(dataset: Path, encoder: str, tmp_path: Path) -> None:
    image = sorted(read_dataset(dataset).images.values(), key=lambda one: one.id)[0]
    (dataset / image.path).write_bytes(b"no picture")
    images = [json.loads(line) for line in (dataset / "images.jsonl").read_text().splitlines()]
    for row in images:
        row["sha256"] = sha256_file(dataset / row["path"])
    (dataset / "images.jsonl").write_text("".join(json.dumps(row) + "\n" for row in images))
    sign_again(dataset)
    for _ in range(2):
        report = run(RegionsConfig(dataset, encoder, workdir=tmp_path / "work"))
        assert report.left_out == (image.id,)
    regions = read_regions(report.regions)
    with pytest.raises(DataError, match=sha256_file(dataset / image.path)):
        regions.of([sha256_file(dataset / image.path)])


@pytest.mark.parametrize("engine", ["losing", pytest.param("processes", marks=pytest.mark.prove)])
def test_a_picture_that_kills_its_workers_is_left_out_and_never_read_by_the_command(
    dataset: Path, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(regions_run, "SHARD", 8)
    monkeypatch.setattr(regions_run, "CachedRows", PoisonedRows)
    monkeypatch.setitem(engines.ENGINES, "losing", "tests.pipelines.losing:run_losing")
    poison = next(iter(read_dataset(dataset).images.values()))
    monkeypatch.setenv(PoisonedRows.POISON, poison.sha256)
    read, heard, progress = list[Path](), list[str](), Silent()

    def listed(file: Path) -> Pixels:
        read.append(file)
        return read_image(file)

    monkeypatch.setattr(regions_run, "read_image", listed)
    monkeypatch.setattr(progress, "warn", heard.append)
    names = ("one", "two") if engine == "losing" else ("one",)
    for name in names:
        report = run(RegionsConfig(dataset, encoder, name=name, engine=engine, jobs=1, workdir=tmp_path), progress)
        assert report.left_out == (poison.id,)
    assert [KILLED in line for line in heard if poison.id in line] == [True] * len(names)
    assert dataset / poison.path not in read


def test_features_that_are_no_numbers_are_refused(
    dataset: Path, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = models.GridRegions.regions
    monkeypatch.setattr(
        models.GridRegions, "regions", lambda self, images: [np.full_like(one, np.nan) for one in plain(self, images)]
    )
    with pytest.raises(DataError, match=r"a feature of \w+.*/img\d+ is not finite"):
        run(RegionsConfig(dataset, encoder, workdir=tmp_path / "work"))


def test_files_of_the_bottom_up_detector_become_shares(dataset: Path, tmp_path: Path) -> None:
    folder = export_files(dataset, tmp_path / "features")
    report = run(RegionsConfig(dataset, f"file:{folder}", most=5, workdir=tmp_path / "work"))
    assert (report.most, report.features) == (6, 8)
    images = read_dataset(dataset).images
    regions = read_regions(report.regions)
    for name in sorted(images)[:3]:
        with np.load(folder / f"{name}.npz") as held:
            features, boxes = held["x"][:5], held["bbox"][:5] / 48
        (found,) = regions.of([images[name].sha256])
        count = len(features)
        np.testing.assert_array_equal(found[1 : 1 + count, :8], features)
        np.testing.assert_allclose(found[1 : 1 + count, 8:12], boxes, atol=1e-6)
        sides = boxes[:, 2:] - boxes[:, :2]
        np.testing.assert_allclose(found[1 : 1 + count, 12], sides.prod(1), atol=1e-6)
        np.testing.assert_allclose(found[0, :8], features.mean(0), atol=1e-6)
        assert not found[1 + count :].any()


def test_a_file_may_be_called_by_path_or_content_and_no_link_leads_out(dataset: Path, tmp_path: Path) -> None:
    folder = export_files(dataset, tmp_path / "features")
    first, second, third, *_ = sorted(read_dataset(dataset).images.values(), key=lambda one: one.id)
    (folder / f"{first.id}.npz").rename(folder / f"{first.sha256}.npz")
    by_path = (folder / second.path).with_suffix(".npz")
    by_path.parent.mkdir(parents=True)
    (folder / f"{second.id}.npz").rename(by_path)
    (folder / f"{third.id}.npz").rename(tmp_path / "outside.npz")
    (folder / f"{third.id}.npz").symlink_to(tmp_path / "outside.npz")
    report = run(RegionsConfig(dataset, f"file:{folder}", workdir=tmp_path / "work"))
    assert report.left_out == (third.id,)
    whole = run(RegionsConfig(dataset, f"file:{export_files(dataset, tmp_path / 'all')}", workdir=tmp_path / "whole"))
    contents = [first.sha256, second.sha256]
    ours, theirs = (read_regions(one.regions).of(contents) for one in (report, whole))
    np.testing.assert_array_equal(ours, theirs)


def test_file_names_alone_are_enough_where_no_two_pictures_share_one(dataset: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (dataset / "images.jsonl").read_text().splitlines()]
    folder = export_files(dataset, tmp_path / "features")
    for number, row in enumerate(rows):
        (dataset / row["path"]).rename(dataset / "images" / f"p{number}.jpg")
        (folder / f"{row['id']}.npz").rename(folder / f"p{number}.npz")
        row["path"] = f"images/p{number}.jpg"
    (dataset / "images.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sign_again(dataset)
    assert run(RegionsConfig(dataset, f"file:{folder}", workdir=tmp_path / "work")).pictures == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: {"x": np.zeros((5, 9), np.float32)}, "x has 9 .* 8"),
        (lambda held: {"bbox": held["bbox"][:-1]}, r"x is float32 \(5, 8\) and bbox float32 \(4, 4\)"),
        (lambda held: {"bbox": held["bbox"] + 480}, "48 by 48 pixels"),
        (lambda held: {"x": held["x"] * np.float32("nan")}, "not finite"),
        (lambda held: {"image_w": None}, "of its picture"),
        (lambda held: {"x": np.array([{"no": "features"}], object)}, "readable .npz: Object arrays"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(
    dataset: Path, tmp_path: Path, change: Callable[[Arrays], Arrays], message: str
) -> None:
    folder = export_files(dataset, tmp_path / "features", change)
    with pytest.raises(DataError, match=rf"img\d+\.npz.*{message}"):
        run(RegionsConfig(dataset, f"file:{folder}", workdir=tmp_path / "work"))


def endless_header(shape: str) -> bytes:
    """An .npy of float64 whose header declares a shape, and no numbers."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "member",
    [endless_header("(1000000000000000, 1)"), endless_header("(1" + "0" * 60 + ",)"), endless_header("(" * 60)],
)
def test_a_file_that_declares_more_numbers_than_it_holds_is_refused_by_name(
    dataset: Path, tmp_path: Path, member: bytes
) -> None:
    folder = export_files(dataset, tmp_path / "features")
    file = min(folder.rglob("*.npz"))
    with zipfile.ZipFile(file, "w") as held:
        held.writestr("x.npy", member)
    with pytest.raises(DataError, match=rf"{file.name} .* readable .npz: "):
        run(RegionsConfig(dataset, f"file:{folder}", workdir=tmp_path / "work"))


def test_a_file_that_unpacks_to_too_much_and_a_folder_without_a_fitting_file_are_refused(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions_run, "MOST_BYTES", 100)
    folder = export_files(dataset, tmp_path / "features")
    with pytest.raises(DataError, match=r"\.npz: .* 100 bytes"):
        run(RegionsConfig(dataset, f"file:{folder}", workdir=tmp_path / "work"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no \.npz .* 30 pictures"):
        run(RegionsConfig(dataset, f"file:{tmp_path / 'empty'}", workdir=tmp_path / "work"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extractor": "grid"}, "grid:ENCODER"),
        ({"extractor": "yolo:x"}, "grid:ENCODER"),
        ({"extractor": "file:nowhere"}, "nowhere is not"),
        ({"extractor": "grid:no-such"}, "unknown encoder 'no-such'"),
        ({"most": 0}, "--most 0"),
        ({"name": "../up"}, "a folder name"),
    ],
)
def test_wrong_words_are_one_sentence(dataset: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"workdir": tmp_path / "work", "extractor": "grid:ctxr-tiny"}
    with pytest.raises(UsageError, match=message):
        run(RegionsConfig(dataset, **settings | options))


def test_a_detector_without_weights_says_where_they_belong(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with pytest.raises(CtxrError, match="torchvision's Faster R-CNN"):
        run(RegionsConfig(dataset, "faster-rcnn", workdir=tmp_path / "work"))


def test_a_reader_refuses_arrays_of_another_shape(dataset: Path, encoder: str, tmp_path: Path) -> None:
    folder = run(RegionsConfig(dataset, encoder, workdir=tmp_path / "work")).regions
    rows = read_table(folder / "pictures.jsonl", RegionRow)
    shard = folder / "shards" / "00000.npy"
    block = np.load(shard)
    wrongs: list[tuple[np.ndarray, str]] = [
        (block[..., :-1], r"not float32 \[n, up to 10, 64 \+ 5\]"),
        (np.repeat(block, 2, 1), r"not float32 \[n, up to 10, 64 \+ 5\]"),
        (block.astype(np.float64), "holds float64"),
        (block[:1], "has no row"),
    ]
    for wrong, message in wrongs:
        shard.unlink()
        np.save(shard, wrong)
        with pytest.raises(DataError, match=message):
            read_regions(folder).of([rows[-1].sha256])
    shard.write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(DataError, match="array of regions"):
        read_regions(folder).of([rows[0].sha256])
    shard.unlink()
    with pytest.raises(DataError, match=r"00000\.npy is missing"):
        read_regions(folder).of([rows[0].sha256])
    write_table(folder / "pictures.jsonl", [RegionRow("a" * 64, "x", 0, 0, 11)])
    with pytest.raises(DataError, match="impossible numbers"):
        read_regions(folder)
