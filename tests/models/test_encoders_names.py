"""What an encoder's name may be, and what is said when it cannot be loaded."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import save_file

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models import hub
from ctxr.models.encoders import load_encoder
from ctxr.models.precision import choose_device, choose_precision
from tests.models.encoder_folder import MODEL, PREPROCESS, make_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "small")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hub, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "can_reach", lambda *_: False)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("ViT-B-32:opena", "unknown encoder 'ViT-B-32:opena'", "ViT-B-32:openai"),
        ("ViT-B32:openai", "unknown encoder 'ViT-B32:openai'", "ViT-B-32:openai"),
        ("ctxr-tny", "unknown encoder 'ctxr-tny'", "ctxr-tiny"),
        ("ViT-B-32", "'ViT-B-32' does not", "ViT-B-32:openai"),
        ("zzzzzzzz", "unknown encoder 'zzzzzzzz'", "names are arch:pretrained"),
        ("random:ViT-B-33", "unknown architecture 'ViT-B-33'", "ViT-B-32"),
        ("local-dir:nowhere", "no nowhere", "open_clip_config.json"),
    ],
)
def test_an_unknown_name_is_a_usage_error_with_the_nearest_ones(name: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_encoder(name)
    assert hint in caught.value.hint


def test_names_are_read_in_any_of_their_spellings() -> None:
    assert hub.split_name("ViT-B/32:OpenAI") == ("ViT-B-32", "openai")
    assert hub.split_name("ViT-B-32:laion2b-s34b-b79k") == ("ViT-B-32", "laion2b_s34b_b79k")


@pytest.mark.usefixtures("offline")
def test_a_named_encoder_never_falls_back() -> None:
    said: list[str] = []
    with pytest.raises(CtxrError, match="ViT-B-16:openai are") as caught:
        load_encoder("ViT-B-16:openai", warn=said.append)
    assert caught.value.exit_code == 1
    assert "local-dir:PATH" in caught.value.hint
    assert said == []
    assert hub.cached_weights(*hub.split_name("ViT-B-16:openai")) is None


@pytest.mark.usefixtures("offline")
def test_auto_takes_the_small_model_with_one_warning_where_there_is_no_other(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    encoder = load_encoder("auto", warn=said.append)
    assert encoder.name == "ctxr-tiny"
    assert len(said) == 1
    assert "on drawn scenes" in said[0]
    assert "101 MB" in caplog.text
    assert "ViT-B-32:openai" in said[0]
    assert capfd.readouterr() == ("", "")
    assert load_encoder("auto").fingerprint == encoder.fingerprint


def test_auto_takes_the_default_where_its_weights_are_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: dict[str, object] = {}
    small: torch.nn.Module = open_clip.create_model(f"local-dir:{folder}")

    def create(arch: str, **settings: object) -> torch.nn.Module:
        built.update(settings, arch=arch)
        return small

    monkeypatch.setattr(hub, "cached_weights", lambda *_: folder / "open_clip_model.safetensors")
    monkeypatch.setattr(open_clip, "create_model", create)
    said: list[str] = []
    assert load_encoder("auto", warn=said.append).name == "ViT-B-32:openai"
    assert said == []
    assert built["arch"] == "ViT-B-32"
    assert built["pretrained"] == str(folder / "open_clip_model.safetensors")
    assert built["weights_only"] is True
    # these weights were trained with QuickGELU, though the architecture's name does not say so
    assert built["force_quick_gelu"] is True


def test_a_host_that_hangs_counts_as_out_of_reach_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over, gone = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> None:
        over.wait(60)
        gone.set()
        raise OSError("gone")

    monkeypatch.setattr(urllib.request, "urlopen", hang)
    assert not hub.can_reach("https://weights.invalid/file", 0.1)
    assert not gone.is_set()
    over.set()


@pytest.mark.parametrize(("code", "there"), [(404, True), (403, False), (502, False)])
def test_only_the_host_itself_counts_as_an_answer(monkeypatch: pytest.MonkeyPatch, code: int, there: bool) -> None:
    def refuse(request: urllib.request.Request, timeout: float) -> None:
        # the empty body is closed at once: an open one would warn when it is collected
        error = urllib.error.HTTPError(request.full_url, code, "no", None, None)  # type: ignore[arg-type]
        error.close()
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    assert hub.can_reach("https://weights.invalid/file", 1.0) is there
    assert not hub.can_reach("file:///etc/hostname", 1.0)


def test_a_random_encoder_is_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(arch: str, **_: object) -> object:
        model = open_clip.CLIP(**MODEL)
        model.visual.preprocess_cfg = {**PREPROCESS, "size": 48}
        return model

    monkeypatch.setattr(open_clip, "create_model", create)
    torch.manual_seed(1)
    assert len({load_encoder("random:ViT-S-32-alt").fingerprint for _ in range(2)}) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "open_clip_config.json").write_text("{"), "readable as JSON"),
        (lambda path: (path / "open_clip_config.json").write_text("[]"), "no JSON object"),
        (lambda path: (path / "open_clip_config.json").write_text("{}"), "model_cfg needs embed_dim"),
        (lambda path: (path / "open_clip_model.safetensors").unlink(), "no weights file"),
        (lambda path: (path / "open_clip_model.safetensors").write_bytes(b"\0" * 40), "cannot be "),
        (lambda path: (path / "ctxr.json").write_text('{"threshold": 7}'), "threshold is 7, wanted a distance"),
        (lambda path: _set_vision(path, {"width": 96}), "cannot be loaded"),
        (lambda path: _set_text(path, {"tokenizer_kwargs": {"bpe_path": "/else"}}), "tokenizer_kwargs is .*wanted"),
        (lambda path: _set_text(path, {"tokenizer_kwargs": [1]}), "tokenizer_kwargs is .*wanted an object"),
        (lambda path: _set_model(path, {"text_cfg": 3}), "text_cfg is"),
        (lambda path: _set_vision(path, {"timm_model_name": "../../else"}), "of the folder"),
        (lambda path: _set_vision(path, {"timm_model_name": "local-dir:/else"}), "of the folder"),
    ],
)
def test_a_damaged_folder_is_bad_data_in_one_sentence(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(DataError, match=message) as caught:
        load_encoder(f"local-dir:{folder}")
    assert "\n" not in caught.value.message


def _set_vision(folder: Path, changes: dict[str, object]) -> None:
    _set_model(folder, {"vision_cfg": {**MODEL["vision_cfg"], **changes}})


def _set_text(folder: Path, changes: dict[str, object]) -> None:
    _set_model(folder, {"text_cfg": {**MODEL["text_cfg"], **changes}})


def _set_model(folder: Path, changes: dict[str, object]) -> None:
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": MODEL | changes}))


def test_a_picture_size_that_a_tower_of_timm_refuses_is_bad_data_in_one_sentence(folder: Path) -> None:
    trunk = {"timm_model_name": "test_vit", "timm_pool": "", "timm_proj": "linear", "image_size": 160}
    model = open_clip.CLIP(**MODEL | {"vision_cfg": trunk})
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    _set_model(folder, {"vision_cfg": trunk})
    assert load_encoder(f"local-dir:{folder}").image_size == 160
    _set_model(folder, {"vision_cfg": trunk | {"image_size": 100}})
    with pytest.raises(DataError, match=r"cannot be loaded: Input height \(100\)"):
        load_encoder(f"local-dir:{folder}")


class _Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.mkdir, (Path(self.target),)

    def __init__(self, target: Path) -> None:
        self.target = str(target)


def test_weights_are_never_unpickled(folder: Path, tmp_path: Path) -> None:
    (folder / "open_clip_model.safetensors").unlink()
    torch.save({"state_dict": _Bomb(tmp_path / "ran")}, folder / "model.pth")
    with pytest.raises(DataError, match="its weights"):
        load_encoder(f"local-dir:{folder}")
    assert not (tmp_path / "ran").exists()


def test_a_folder_carries_its_own_threshold(folder: Path) -> None:
    assert load_encoder(f"local-dir:{folder}").threshold == 0.35
    (folder / "ctxr.json").write_text('{"threshold": 0.21}')
    assert load_encoder(f"local-dir:{folder}").threshold == 0.21


def test_a_device_that_is_not_there_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="device cuda is"):
        choose_device("cuda")
    with pytest.raises(UsageError, match="--device gpu") as caught:
        choose_device("gpu")
    assert caught.value.hint == "did you mean --device cuda?"
    assert choose_device("cpu") == "cpu"


def test_bf16_is_chosen_for_large_models_on_processors_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert choose_precision("auto", "cpu", 88_000_000) == "bf16"
    assert choose_precision("auto", "cpu", 5_000_000) == "fp32"
    assert choose_precision("fp32", "cpu", 88_000_000) == "fp32"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False}, raising=False)
    assert choose_precision("auto", "cpu", 88_000_000) == "fp32"
    assert choose_precision("bf16", "cpu", 5_000_000) == "bf16"
    with pytest.raises(UsageError, match="unknown precision 'int8'"):
        choose_precision("int8", "cpu", 1)
