"""From an encoder's name to a model of open_clip, its preprocessing and its fingerprint."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.hub import cached_weights, fetched_weights, split_name
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import fingerprint_of

DEFAULT_ENCODER = "ViT-B-32:openai"
TINY = "ctxr-tiny"
TINY_FOLDER = Path(__file__).parent / "weights" / TINY
CLIP_THRESHOLD = 0.35
"""The paper's distance (specs C1): Euclidean, on unit vectors of CLIP."""

CONFIG_NAME = "open_clip_config.json"
NOTES_NAME = "ctxr.json"
_SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")


@dataclass(frozen=True)
class EncoderSource:
    """A model that can be built, as often as wanted, always the same.

    Attributes:
        name: resolved: "ViT-B-32:openai", "ctxr-tiny", "local-dir:PATH", "random:ViT-B-32".
        build: makes the model on the CPU, fp32, in evaluation mode.
        config: open_clip's model_cfg.
        tokenize: texts to token ids [N, T].
        threshold: the distance of the selection that fits the model.
    """

    name: str
    build: Callable[[], Any]
    config: Mapping[str, Any]
    tokenize: Callable[[list[str]], Any]
    threshold: float = CLIP_THRESHOLD

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.config["embed_dim"])


def find_source(name: str, warn: Callable[[str], None]) -> EncoderSource:
    """What a name stands for; weights are fetched if they are not on this machine.

    Args:
        name: `arch:pretrained`, "local-dir:PATH", "checkpoint:PATH", "random:ARCH", "ctxr-tiny" or "auto".
        warn: told when `auto` has to do with the small model.

    Raises:
        UsageError: an unknown name, or a folder that is not there.
        DataError: a folder whose files cannot be read.
        CtxrError: weights that cannot be fetched.
    """
    kind, _, rest = name.partition(":")
    if name == "auto":
        try:
            return _pretrained(DEFAULT_ENCODER)
        except CtxrError as error:
            warn(
                f"using {TINY}, because {error.message}: it is a small model trained on drawn scenes, good for trying things "
                f"out; its distances are on a scale of their own. For real work name an encoder, e.g. {DEFAULT_ENCODER}"
            )
            name = TINY
    if name == TINY:
        return _folder(TINY, TINY_FOLDER)
    if kind in ("local-dir", "checkpoint"):
        return _folder(name, Path(rest))
    if kind == "random":
        return _random(rest)
    return _pretrained(name)


def is_here(name: str) -> bool:
    """Whether an encoder can be loaded without asking any host.

    Raises:
        UsageError: an unknown name.
    """
    kind, _, rest = name.partition(":")
    if name in ("auto", TINY) or kind == "random":
        return True
    if kind in ("local-dir", "checkpoint"):
        return (Path(rest) / CONFIG_NAME).is_file()
    return cached_weights(*split_name(name)) is not None


def fingerprint(model: Any, config: Mapping[str, Any], preprocess: Preprocess) -> str:
    """sha256 over all weights, the architecture and the preprocessing.

    It does not depend on the file the weights came from, on the precision or on the device.

    Args:
        model: in fp32.
        config: open_clip's model_cfg.
        preprocess: what is done to a picture first.
    """
    settings = {"model": dict(config), "preprocess": preprocess.describe()}
    return fingerprint_of(model.state_dict(), json.dumps(settings, sort_keys=True).encode())


def _pretrained(name: str) -> EncoderSource:
    import open_clip

    arch, tag = split_name(name)
    weights = open_clip.get_pretrained_cfg(arch, tag)
    config = open_clip.get_model_config(arch)
    # a tag says which activation its weights were trained with, an arch name need not: ViT-B-32:openai wants QuickGELU
    quick = bool(weights.get("quick_gelu", False))
    config["quick_gelu"] = quick or bool(config.get("quick_gelu", False))
    path = fetched_weights(arch, tag)
    settings = {key: weights[key] for key in ("mean", "std", "interpolation", "resize_mode") if key in weights}

    def build() -> Any:
        return open_clip.create_model(
            arch, pretrained=str(path), force_quick_gelu=quick, force_preprocess_cfg=settings, weights_only=True
        )

    return EncoderSource(f"{arch}:{tag}", _careful(f"{arch}:{tag}", build), config, _tokenizer(arch))


def _random(arch: str) -> EncoderSource:
    import open_clip
    import torch

    arch = arch.replace("/", "-")
    config = open_clip.get_model_config(arch)
    if config is None:
        near = difflib.get_close_matches(arch, open_clip.list_models(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "architectures are named like ViT-B-32"
        raise UsageError(f"unknown architecture {arch!r}", hint=hint)

    def build() -> Any:
        torch.manual_seed(0)
        return open_clip.create_model(arch, pretrained_text=False)

    return EncoderSource(f"random:{arch}", _careful(f"random:{arch}", build), config, _tokenizer(arch))


def _folder(name: str, folder: Path) -> EncoderSource:
    """A folder in open_clip's local-dir format; ctxr.json beside it may hold the threshold."""
    import open_clip

    config_path = folder / CONFIG_NAME
    if not config_path.is_file():
        hint = f"give a folder with {CONFIG_NAME} and a safetensors file"
        raise UsageError(f"encoder {name!r}: there is no {config_path}", hint=hint)
    config = _read_json(config_path).get("model_cfg")
    if not isinstance(config, dict) or not {"embed_dim", "vision_cfg", "text_cfg"} <= config.keys():
        raise DataError(f"{config_path}: model_cfg needs embed_dim, vision_cfg and text_cfg")
    _stay_inside(config_path, config)
    if not any(path.suffix in _SUFFIXES for path in folder.iterdir()):
        raise DataError(f"{folder}: there is no weights file", hint="put open_clip_model.safetensors into it")

    def build() -> Any:
        return open_clip.create_model(f"local-dir:{folder}", weights_only=True)

    return EncoderSource(name, _careful(name, build), config, _tokenizer(f"local-dir:{folder}"), _threshold(folder))


def _threshold(folder: Path) -> float:
    notes_path = folder / NOTES_NAME
    if not notes_path.is_file():
        return CLIP_THRESHOLD
    threshold = _read_json(notes_path).get("threshold", CLIP_THRESHOLD)
    if not isinstance(threshold, int | float) or not 0 < threshold < 2:
        raise DataError(f"{notes_path}: threshold is {threshold!r}, wanted a distance between 0 and 2")
    return float(threshold)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no JSON object")
    return content


def _stay_inside(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse names in a folder's config that would make a library read another folder."""
    for part in ("vision_cfg", "text_cfg"):
        for key, value in config[part].items():
            if key.endswith("_name") and isinstance(value, str):
                pure = PurePosixPath(value.replace("\\", "/"))
                if pure.is_absolute() or ".." in pure.parts or ":" in value:
                    raise DataError(f"{path}: {part}.{key} is {value!r}, which leads out of the folder")


def _tokenizer(model_name: str) -> Callable[[list[str]], Any]:
    """A function that makes the tokenizer when the first text comes: images need none."""
    made: list[Any] = []

    def tokenize(texts: list[str]) -> Any:
        import open_clip

        if not made:
            try:
                with _quiet():
                    made.append(open_clip.get_tokenizer(model_name))
            except Exception as error:
                raise CtxrError(f"the tokenizer of {model_name} cannot be loaded: {error}") from error
        return made[0](texts)

    return tokenize


def _careful(name: str, build: Callable[[], Any]) -> Callable[[], Any]:
    """The same builder, silent, with one kind of error, and with the model in evaluation mode."""

    def careful() -> Any:
        import torch

        try:
            # a model draws its first weights from torch's global generator, even where others replace them
            with _quiet(), torch.random.fork_rng(devices=[]):
                return build().eval().requires_grad_(False)
        except (RuntimeError, ValueError, TypeError, KeyError, OSError, AssertionError, ImportError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise DataError(f"encoder {name!r} cannot be loaded: {first}") from error
        except Exception as error:
            # safetensors and torch's restricted unpickler have error classes of their own
            raise DataError(f"encoder {name!r}: its weights cannot be read: {type(error).__name__}") from error

    return careful


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep open_clip's talk to itself: it logs at the root, and the first line would set up logging for everybody."""
    root = logging.getLogger()
    level, handler = root.level, logging.NullHandler()
    root.addHandler(handler)
    root.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
