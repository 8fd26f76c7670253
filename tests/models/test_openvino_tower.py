"""OpenVINO gives torch's vectors up to rounding, and is chosen where it was measured to be faster."""

import importlib.metadata
import importlib.util
import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ctxr.errors import CtxrError, UsageError
from ctxr.models import openvino_tower
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.openvino_tower import OpenVinoTower, fastest

BROKEN = ("import", "convert", "infer", "wrong", "nan")
"""Ways in which an installed OpenVINO does not work."""

needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="openvino is not installed")


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Encoder:
    return load_encoder(f"local-dir:{folder}", device="cpu", precision="openvino")


@pytest.fixture
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An OpenVINO that breaks in the way of the parameter, on a machine where it would be faster for every tower."""
    plain = OpenVinoTower.__call__

    def fail(*arguments: object, **options: object) -> Any:
        raise ImportError("libopenvino.so: no such file") if request.param == "import" else RuntimeError("no primitive")

    def rough(tower: OpenVinoTower, batch: torch.Tensor) -> torch.Tensor:
        return plain(tower, batch) * (float("nan") if request.param == "nan" else torch.linspace(0.1, 3, 32))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("ctxr.models.encoders.BF16_PARAMETERS", 0)
    monkeypatch.setattr("ctxr.models.precision.BF16_PARAMETERS", 10**9)
    monkeypatch.setattr(openvino_tower, "GAIN", 0)
    if request.param == "import":
        monkeypatch.setattr(openvino_tower, "openvino", fail)
    elif request.param == "convert":
        monkeypatch.setattr("torch.jit.trace", fail)
    elif request.param == "infer":
        monkeypatch.setattr("openvino.InferRequest.infer", fail)
    else:
        monkeypatch.setattr(OpenVinoTower, "__call__", rough)


@needs_openvino
@pytest.mark.parametrize("name", ["small", "ctxr-tiny"])
def test_vectors_are_those_of_torch_up_to_rounding(name: str, folder: Path, pictures: list[np.ndarray]) -> None:
    name = f"local-dir:{folder}" if name == "small" else name
    plain, other = (load_encoder(name, "cpu", precision) for precision in ("fp32", "openvino"))
    expected, vectors = plain.encode_images(pictures), other.encode_images(pictures)
    assert 0 < np.abs(vectors - expected).max() < 1e-5
    assert 0 < other.margin < 1e-3
    np.testing.assert_allclose(other.encode_images(pictures, exact=True), expected, atol=1e-6)


@needs_openvino
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_an_image_alone_has_the_vector_it_has_in_any_batch(
    compiled: Encoder, folder: Path, pictures: list[np.ndarray], rows: int | None
) -> None:
    together = compiled.encode_images(pictures, rows=rows)
    for position in (0, 4, 20):
        alone = compiled.encode_images([pictures[position]], rows=rows)[0]
        np.testing.assert_array_equal(alone, together[position])
    again = load_encoder(f"local-dir:{folder}", device="cpu", precision="openvino")
    np.testing.assert_array_equal(again.encode_images(pictures, rows=rows), together)


@needs_openvino
def test_a_manifest_names_the_engine_and_its_version(compiled: Encoder, encoder: Encoder) -> None:
    described = compiled.describe()
    assert described["precision"] == "openvino"
    assert compiled.precisions()["openvino"] == f"openvino {described['versions']['openvino']}"  # type: ignore[index]
    assert "openvino" not in encoder.describe()["versions"]  # type: ignore[operator]
    assert compiled.fingerprint == encoder.fingerprint


@needs_openvino
def test_openvino_reports_to_nobody(compiled: Encoder) -> None:
    compiled.encode_images([])
    blocked: dict[str, object] = dict(sys.modules)
    assert blocked["openvino_telemetry"] is None
    assert "openvino.tools.ovc.telemetry_stub" in blocked


@needs_openvino
def test_an_engine_that_computes_something_else_is_refused(
    folder: Path, pictures: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(f"local-dir:{folder}", device="cpu", precision="openvino")
    right = encoder._tower
    monkeypatch.setitem(encoder._towers, "openvino", lambda batch: right(batch.flip(-1)))
    with pytest.raises(CtxrError, match="local-dir:") as raised:
        _ = encoder.margin
    assert "--precision fp32" in str(raised.value.hint)


@needs_openvino
@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_auto_stays_with_torch_where_openvino_is_installed_and_does_not_work(
    broken: None, encoder: Encoder, folder: Path, pictures: list[np.ndarray], tmp_path: Path
) -> None:
    other = load_encoder(f"local-dir:{folder}", device="cpu")
    for _ in range(2):
        other.use_fastest()
        assert (other.precision, other.margin) == ("fp32", 0)
    np.testing.assert_allclose(other.encode_images(pictures), encoder.encode_images(pictures), atol=1e-6)
    kept = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert all(row["precision"] == "fp32" and "openvino" not in row["seconds"] for row in kept)


@needs_openvino
def test_a_choice_that_was_kept_and_works_no_longer_is_not_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ctxr.models.encoders.BF16_PARAMETERS", 0)
    monkeypatch.setattr("ctxr.models.encoders.fastest", lambda *arguments: "openvino")
    works, breaks = (load_encoder(f"local-dir:{folder}", device="cpu", precision="fp32") for _ in range(2))
    works.use_fastest()
    monkeypatch.setattr(OpenVinoTower, "__call__", lambda tower, batch: torch.ones(len(batch), 32))
    breaks.use_fastest()
    assert (works.precision, breaks.precision) == ("openvino", "fp32")


@needs_openvino
@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_openvino_that_is_named_and_does_not_work_is_one_sentence(broken: None, folder: Path) -> None:
    other = load_encoder(f"local-dir:{folder}", device="cpu", precision="openvino")
    with pytest.raises(CtxrError, match="OpenVINO") as raised:
        _ = other.margin
    assert (raised.value.exit_code, "--precision fp32" in raised.value.hint) == (1, True)


def uninstall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make OpenVINO a package that is not installed."""

    def version(package: str) -> str:
        if package == "openvino":
            raise PackageNotFoundError(package)
        return importlib.metadata.version(package)

    monkeypatch.setattr("ctxr.models.encoders.version", version)


def test_a_machine_without_openvino_says_how_to_get_it_and_still_decides_exactly(
    folder: Path, encoder: Encoder, pictures: list[np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "openvino").mkdir()  # a folder of that name is not the package
    monkeypatch.syspath_prepend(tmp_path)
    uninstall(monkeypatch)
    assert list(encoder.precisions()) == ["fp32", "bf16"]
    other = load_encoder(f"local-dir:{folder}", device="cpu", precision="openvino")
    np.testing.assert_allclose(other.encode_images(pictures, exact=True), encoder.encode_images(pictures), atol=1e-6)
    with pytest.raises(UsageError, match="precision openvino") as raised:
        other.encode_images(pictures)
    assert "pip install openvino" in str(raised.value.hint)


@needs_openvino
@pytest.mark.parametrize("limit", [0, 10**9])
def test_only_large_towers_change_to_what_was_measured(
    folder: Path, pictures: list[np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("ctxr.models.encoders.BF16_PARAMETERS", limit)
    monkeypatch.setattr(openvino_tower, "GAIN", 0)
    encoder = load_encoder(f"local-dir:{folder}", device="cpu")
    before = encoder.precision
    encoder.use_fastest()
    kept = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert [set(row["seconds"]) >= {before, "openvino"} for row in kept] == [True] * (limit == 0)
    assert [row["precision"] for row in kept] == [encoder.precision] * len(kept)
    assert encoder.precision == before if limit else encoder.encode_images(pictures).shape == (21, 32)


class Machine:
    """Passes that take as many seconds as they are said to, on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        self.now, self.measured = 0.0, 0
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        core = SimpleNamespace(get_property=lambda *names: "a processor")
        package = SimpleNamespace(Core=lambda: core, get_version=lambda: "1")
        monkeypatch.setattr(openvino_tower, "openvino", lambda: package)
        monkeypatch.setattr(openvino_tower, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def choose(self, fingerprint: str = "a", **seconds: float) -> str:
        def run(precision: str) -> int:
            if seconds[precision] < 0:
                raise CtxrError("cannot be converted")
            self.now += seconds[precision]
            self.measured += 1
            return 4

        return fastest(fingerprint, [*seconds], run)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "cache")


@pytest.mark.parametrize(
    ("seconds", "chosen"), [(1.0, "fp32"), (0.9, "fp32"), (0.8, "openvino"), (2.0, "fp32"), (-1, "fp32")]
)
def test_another_engine_is_chosen_where_it_is_faster_by_a_margin(machine: Machine, seconds: float, chosen: str) -> None:
    assert machine.choose(fp32=1.0, openvino=seconds) == chosen


def test_the_choice_is_measured_once_and_its_cache_may_be_damaged_or_deleted(machine: Machine, tmp_path: Path) -> None:
    assert machine.choose(fp32=1.0, openvino=0.5) == "openvino"
    passes = machine.measured
    assert machine.choose(fp32=1.0, openvino=3.0) == "openvino"
    assert machine.measured == passes
    assert machine.choose("b", fp32=1.0, openvino=3.0) == "fp32"
    for content in (b"", b"[]", b'{"precision": "fp16"}', b'{"precision": []}', b"\xff"):
        for file in (tmp_path / "cache").rglob("*.json"):
            file.write_bytes(content)
        assert machine.choose(fp32=1.0, openvino=3.0) == "fp32"
    assert machine.choose(fp32=1.0, openvino=0.5) == "fp32"


def test_a_cache_that_cannot_be_written_costs_only_time(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file")
    assert machine.choose(fp32=1.0, openvino=0.5) == "openvino"
    assert machine.choose(fp32=1.0, openvino=3.0) == "fp32"
