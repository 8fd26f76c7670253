"""Images and texts to unit vectors of one space: encoders of open_clip by name.

A vector does not depend on the other images or texts of a call: every forward pass has the same number of rows, filled up with zeros.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ctxr.errors import CtxrError, DataError, UsageError, did_you_mean
from ctxr.models.hub import DEFAULT_ENCODER, LITE, STAND_INS, TINY, architectures, fetched_weights, split_name
from ctxr.models.precision import (
    choose_device,
    choose_precision,
    cpu_matmul_precision,
    device_kind,
    float32_matmul,
    folded,
    half_the_threads,
    is_memory,
)
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import careful, fingerprint_of, quiet, read_object, refuse_code
from ctxr.store.arrays import stack_vectors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ctxr.models.scorers import ImageTextModel

Warn = Callable[[str], None]

CHEAP = 0.05e12  # parameters of an image tower times pixels
TEXT_ROWS = 8  # texts in one pass: queries come one at a time, and a text costs a fifth of an image


def load_encoder(
    name: str = "auto", device: str = "auto", precision: str = "auto", warn: Warn = lambda _: None
) -> Encoder:
    """The encoder of that name, ready to use.

    Args:
        name: any `arch:pretrained` of open_clip; "local-dir:PATH" or "checkpoint:PATH", a folder with open_clip_config.json and
            safetensors weights; "random:ARCH", untrained; "ctxr-lite", see `lite`; "ctxr-tiny", the small model inside this package;
            "auto", the first of ViT-B-32:openai, ctxr-lite and ctxr-tiny whose weights are here or can be fetched, with a warning
            unless it is the first. A named encoder never falls back.
        device, precision: see `precision.choose_device` and `choose_precision`. warn: called with each warning.

    Raises UsageError for an unknown name, or a device or precision that this machine does not have; DataError for weights or a config
    that cannot be read; CtxrError for weights that cannot be downloaded.
    """
    return Encoder(find_source(name, warn), choose_device(device), precision, warn)


class Encoder:
    """A model of unit vectors of `dim`; `name`, `device` and `precision` are never "auto".

    Attributes:
        fingerprint: sha256 in hex over weights, architecture and preprocessing. image_size: side of its pictures, in pixels.
        rows: images in a pass, to which fewer are padded: multiples of it cost least.
        threshold: Euclidean distance between unit vectors, 0..2, beyond which two images count as different.
    """

    def __init__(self, source: EncoderSource, device: str, precision: str, warn: Warn) -> None:
        model = source.build()
        self._source, self._warn = source, warn
        self._preprocess = Preprocess.from_config(model.visual.preprocess_cfg)
        self.name, self.dim, self.threshold, self.device = source.name, source.width, source.threshold, device
        self.fingerprint = fingerprint(model, source.config, self._preprocess)
        self.image_size = self._preprocess.size[0]
        self._matmul = cpu_matmul_precision() if device == "cpu" else "highest"
        # an encoder of images alone is half the memory: the text tower is loaded again by whoever asks for texts
        self._fine: nn.Module = model.visual
        if device == "cpu":
            self._fine = folded(model.visual, self._preprocess.size)
        self._parameters = sum(weights.numel() for weights in model.visual.parameters())
        del model
        if not source.rounds and precision.endswith("bf16"):
            raise UsageError(
                f"in bf16, distances of {self.name} err by more than its threshold", hint="--precision fp32"
            )
        chosen = "fp32" if not source.rounds and precision == "auto" else precision
        self.precision = choose_precision(chosen, device, self._parameters)
        # on a CPU, ViT-B/32 and ctxr-lite gain nothing from more than 4, which a search fills best; ctxr-tiny gains up to 16
        self.rows = 64 if device != "cpu" else 16 if self.cheap else 4

    @cached_property
    def _rounded(self) -> nn.Module:
        """The image tower in bf16."""
        from torch import nn

        tower = self._fine
        # weight by weight: a copy in fp32 first would cost its memory once more
        own = {id(one): nn.Parameter(one.detach().bfloat16(), requires_grad=False) for one in tower.parameters()}
        return deepcopy(tower, own).bfloat16().to(self.device)

    @cached_property
    def margin(self) -> float:
        """Half-width of the band around a threshold in which a distance must be computed again with `exact=True`.

        0 in fp32. Else twice the largest error of a vector among sixteen made-up pictures: a distance errs by at most the errors of its
        two vectors.
        """
        # the largest error of a distance was 0.53 of this margin on 300 frames of two films for ctxr-tiny in bf16, 0.43 for ViT-B/32
        # on every twelfth frame, and 0.82 on 300 single colours for ctxr-tiny
        if self.precision == "fp32":
            return 0.0
        rough, exact = (self.encode_images(_probes(), exact=fine) for fine in (False, True))
        # at least ten times what distances in fp32 differ by between numbers of rows
        return max(2 * float(np.linalg.norm(rough - exact, axis=1).max()), 1e-5)

    @property
    def cheap(self) -> bool:
        """Whether embedding every frame costs little beside decoding it: on a GPU, and of a small image tower."""
        # an upper bound of its multiply-adds, as if every weight met every pixel: 0.014e12 of ctxr-tiny, 0.23e12 of ctxr-lite, 4.4e12
        # of ViT-B/32
        return self.device != "cpu" or self._parameters * math.prod(self._preprocess.size) < CHEAP

    def encode_images(self, images: Sequence[np.ndarray], exact: bool = False) -> np.ndarray:
        """Float32 [N, dim], L2-normalised, of uint8 RGB arrays [H, W, 3]; a vector does not depend on the other images.

        `exact`: compute in fp32 whatever the precision is; keeps both copies of the image tower in memory. Raises ValueError for an
        array of another type or shape.
        """
        import torch

        rough = self.precision == "bf16" and not exact
        tower, dtype = (self._rounded, torch.bfloat16) if rough else (self._fine.to(self.device), torch.float32)
        parts, done = [], 0
        while done < len(images):
            # the exact copy is mostly asked for single images
            rows = 1 if exact and self.precision == "bf16" else self.rows
            part = images[done : done + rows]
            with half_the_threads() if self.cheap and self.device == "cpu" else nullcontext():
                # filled up with zeros
                pixels = torch.nn.functional.pad(self._preprocess(part), (*[0] * 7, rows - len(part)))
                vectors = self._forward(tower, pixels.to(self.device, dtype), self._matmul)
            if vectors is not None:
                parts.append(vectors[: len(part)])
                done += len(part)
        return stack_vectors(parts, self.dim)

    def encode_texts(self, texts: Sequence[str], rows: int = TEXT_ROWS) -> np.ndarray:
        """Float32 [N, dim], L2-normalised, one row for each text, which is cut to the model's context. Raises CtxrError without a
        tokenizer on this machine.

        Args:
            rows: texts in one pass. Another number rounds vectors differently.
        """
        parts = []
        for start in range(0, len(texts), rows):
            part = list(texts[start : start + rows])
            tokens = self._source.tokenize(part + [""] * (rows - len(part))).to(self.device)
            vectors = self._forward(self._text_model.encode_text, tokens, "highest")
            if vectors is None:
                raise CtxrError(f"no memory left on {self.device} for {rows} texts", hint="use --device cpu")
            parts.append(vectors[: len(part)])
        return stack_vectors(parts, self.dim)

    def describe(self) -> dict[str, object]:
        """What a manifest should keep of the encoder, as plain values."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "precision": self.precision,
            "device": device_kind(self.device),
            "image_size": self.image_size,
            "dim": self.dim,
            "threshold": self.threshold,
            "float32_matmul": self._matmul,
            "preprocess": asdict(self._preprocess),
            "versions": {package: version(package) for package in ("torch", "torchvision", "open_clip_torch")},
        }

    @cached_property
    def _text_model(self) -> ImageTextModel:
        """What encodes texts, without its image tower; in the encoder's precision on a GPU, in fp32 on a CPU."""
        model = self._source.build()
        del model.visual
        # attention with a mask copies its weights once for each token where oneDNN multiplies: bf16 takes 3.3 times as long
        rounded = self.precision == "bf16" and self.device != "cpu"
        return (model.bfloat16() if rounded else model).to(self.device)

    def _forward(self, tower: Callable[[Tensor], Tensor], batch: Tensor, matmul: str) -> np.ndarray | None:
        """Unit vectors of a batch; None after memory ran out: the next batch is half as large."""
        import torch

        try:
            with torch.inference_mode(), float32_matmul(matmul):
                vectors = torch.nn.functional.normalize(tower(batch).float(), dim=-1)
                return np.asarray(vectors.cpu().numpy())
        except (RuntimeError, MemoryError) as error:
            if not is_memory(error):
                raise
            if len(batch) == 1:
                raise CtxrError(f"no memory left on {self.device} for one image", hint="use --device cpu") from error
            self.rows = len(batch) // 2
            self._warn(f"{self.device} ran out of memory: going on with batches of {self.rows}")
            return None


def _probes() -> list[np.ndarray]:
    """Four pictures with the spectrum of photographs, each with a dark, a faded and a plain copy, which err most."""
    rng = np.random.default_rng(0)
    size = 256
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    frequency[0, 0] = np.inf
    pictures = []
    for _ in range(4):
        noise = np.fft.rfft2(rng.standard_normal((3, size, size))) / frequency
        grain = np.fft.irfft2(noise, s=(size, size)).transpose(1, 2, 0)
        picture = (128 + 52 * grain / grain.std()).clip(0, 255).astype(np.uint8)
        pictures += [picture, picture // 8, picture // 16 + 40, np.full_like(picture, picture[0, 0] // 3)]
    return pictures


TINY_FOLDER = Path(__file__).parent / "weights" / TINY
CLIP_THRESHOLD = 0.35  # the paper's distance: Euclidean, on unit vectors of CLIP

CONFIG_NAME = "open_clip_config.json"
NOTES_NAME = "ctxr.json"
_SUFFIXES = (".safetensors", ".bin", ".pth")
# settings of a tokenizer that a config may contain; transformers takes others too, paths and code among them
_TOKENIZER_KWARGS = {"clean", "language", "strip_sep_token"}


@dataclass(frozen=True)
class EncoderSource:
    """A model that can be built again and again, on the CPU, fp32, in evaluation mode. `config`: open_clip's model_cfg.
    `tokenize`: texts to token ids [N, T]. `rounds`: whether bf16 keeps its distances."""

    name: str
    build: Callable[[], ImageTextModel]
    config: Mapping[str, Any]
    tokenize: Callable[[list[str]], Tensor]
    threshold: float = CLIP_THRESHOLD
    rounds: bool = True

    @property
    def width(self) -> int:
        """Length of the vectors."""
        return int(self.config["embed_dim"])


def find_source(name: str, warn: Warn = lambda _: None) -> EncoderSource:
    """The model of a name, as `load_encoder` takes it and with its errors; may download weights."""
    kind, _, value = name.partition(":")
    if name == "auto":
        missing = list[str]()
        for choice in (DEFAULT_ENCODER, *STAND_INS):
            try:
                source = find_source(choice)
            except CtxrError as error:
                missing.append(error.message)
                continue
            if missing:
                never = f"an encoder that is named, such as {DEFAULT_ENCODER}, never falls back"
                warn(f"{'; '.join(missing)}; ctxr uses {choice} instead: {STAND_INS[choice]} ({never})")
            return source
    if name == LITE:
        return EncoderSource(**resolve_name("ctxr.models.lite:lite_parts")())
    if name == TINY or kind in ("local-dir", "checkpoint"):
        return _folder(name, TINY_FOLDER if name == TINY else Path(value))
    if kind != "random":
        return _pretrained(name)
    import open_clip
    import torch

    arch = value.replace("/", "-")
    config = open_clip.get_model_config(arch)
    if config is None:
        hint = did_you_mean(arch, open_clip.list_models(), "architectures are named like ViT-B-32", most=3)
        raise UsageError(f"unknown architecture {arch!r}", hint=hint)

    def build() -> ImageTextModel:
        torch.manual_seed(0)
        return cast("ImageTextModel", open_clip.create_model(arch, pretrained_text=False))

    return _source(f"random:{arch}", config, build, arch)


def check_encoder_name(name: str) -> None:
    """Raise UsageError for an unknown folder or architecture; fast, as open_clip is not loaded."""
    kind, _, value = name.partition(":")
    if kind in ("local-dir", "checkpoint"):
        _folder(name, Path(value))
    elif name not in ("auto", LITE, TINY):
        arch = (value if kind == "random" else kind).replace("/", "-")
        names = [file.stem for file in architectures().glob("*.json")]
        if names and arch not in names:
            hint = did_you_mean(arch, [*names, LITE, TINY], "names are arch:pretrained, e.g. ViT-B-32:openai", most=3)
            raise UsageError(f"unknown encoder {name!r}", hint=hint)


def fingerprint(model: nn.Module, config: Mapping[str, object], preprocess: Preprocess) -> str:
    """sha256 over the weights (fp32), architecture and preprocessing, whatever their file."""
    settings = {"model": dict(config), "preprocess": asdict(preprocess)}
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

    def build() -> ImageTextModel:
        with undrawn():
            model: ImageTextModel = open_clip.create_model(
                arch, pretrained=str(path), force_quick_gelu=quick, force_preprocess_cfg=settings, weights_only=True
            )
        return model

    return _source(f"{arch}:{tag}", config, build, arch)


def _folder(name: str, folder: Path) -> EncoderSource:
    """A folder in open_clip's local-dir format; ctxr.json beside it may hold the threshold."""
    config_path = folder / CONFIG_NAME
    if not config_path.is_file():
        hint = f"give a folder with {CONFIG_NAME} and a safetensors file"
        raise UsageError(f"encoder {name!r}: there is no {config_path}", hint=hint)
    refuse_code(folder)
    config = read_object(config_path).get("model_cfg")
    if not isinstance(config, dict) or not {"embed_dim", "vision_cfg", "text_cfg"} <= config.keys():
        raise DataError(f"{config_path}: model_cfg needs embed_dim, vision_cfg and text_cfg")
    _stay_inside(config_path, config)
    if not any(path.suffix in _SUFFIXES for path in folder.iterdir()):
        raise DataError(f"{folder}: there is no weights file", hint="put open_clip_model.safetensors into it")
    notes_path, threshold = folder / NOTES_NAME, CLIP_THRESHOLD
    if notes_path.is_file():
        threshold = read_object(notes_path).get("threshold", CLIP_THRESHOLD)
        if not isinstance(threshold, int | float) or not 0 < threshold < 2:
            raise DataError(f"{notes_path}: threshold is {threshold!r}, wanted a distance between 0 and 2")

    def build() -> ImageTextModel:
        import open_clip
        import torch

        with undrawn():
            model: ImageTextModel = open_clip.create_model(f"local-dir:{folder}", weights_only=True)
        # towers of timm refuse pictures of another size than theirs only when they run
        if hasattr(model.visual, "trunk"):
            with torch.no_grad():
                model.eval().visual(torch.zeros(1, 3, *model.visual.image_size))
        return model

    files = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in sorted(folder.iterdir()))
    return _source(name, config, build, f"local-dir:{folder.resolve()}", files=files, threshold=float(threshold))


def _stay_inside(path: Path, config: Mapping[str, object]) -> None:
    """Raises DataError for names that leave the folder, and unknown settings of a tokenizer."""
    for part in ("vision_cfg", "text_cfg"):
        settings = config[part]
        if not isinstance(settings, dict):
            raise DataError(f"{path}: {part} is not a JSON object")
        tokenizer = settings.get("tokenizer_kwargs") or {}
        if not isinstance(tokenizer, dict) or tokenizer.keys() - _TOKENIZER_KWARGS:
            wanted = ", ".join(sorted(_TOKENIZER_KWARGS))
            raise DataError(f"{path}: {part}.tokenizer_kwargs is {tokenizer!r}, wanted an object with any of {wanted}")
        for key, value in settings.items():
            if key.endswith("_name") and isinstance(value, str):
                pure = PurePosixPath(value.replace("\\", "/"))
                if pure.is_absolute() or ".." in pure.parts or ":" in value or Path(value).is_dir():
                    raise DataError(f"{path}: {part}.{key} is {value!r}, which leads out of the folder")


@lru_cache(maxsize=4)
def _open_tokenizer(model_name: str, files: tuple[tuple[str, int, int], ...]) -> Callable[[list[str]], Tensor]:
    """The tokenizer of a model, read once in a third of a second. `files`: of its folder, with time and size."""
    import open_clip

    try:
        with quiet():
            return cast("Callable[[list[str]], Tensor]", open_clip.get_tokenizer(model_name))
    except Exception as error:
        raise CtxrError(f"the tokenizer of {model_name} cannot be loaded: {error}") from error


# functions of tensors, and of torch.nn.init, that fill with random values
_DRAWS = ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_")


def undrawn() -> AbstractContextManager[object]:
    """Skips random first values, which take longer than reading the weights that replace them."""
    from torch.overrides import TorchFunctionMode

    class SkipDraws(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., object], types: object, args: Any = (), kwargs: Any = None
        ) -> object:
            if getattr(func, "__name__", "") in _DRAWS:
                return args[0] if args else kwargs["tensor"]
            return func(*args, **(kwargs or {}))

    return SkipDraws()


def _source(
    name: str, config: Mapping[str, Any], build: Callable[[], ImageTextModel], tokenizer: str, *,
    files: tuple[tuple[str, int, int], ...] = (), threshold: float = CLIP_THRESHOLD,
) -> EncoderSource:  # fmt: skip
    """The source of what `build` makes; its tokenizer is opened for the first text."""

    def ready() -> ImageTextModel:
        model = build().eval().requires_grad_(False)
        if getattr(model.visual, "output_tokens", False):  # CoCa's pictures also give tokens, for its captions
            model.visual.output_tokens = False
        return model

    make = careful(f"encoder {name!r}")(ready)
    return EncoderSource(name, make, config, lambda texts: _open_tokenizer(tokenizer, files)(texts), threshold)
