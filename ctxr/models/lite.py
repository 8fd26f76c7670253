"""ctxr-lite: EfficientNet-lite0 and all-MiniLM-L6-v2 of the package index in one space, without training on photos.

An image is [√(1-λ) f, √λ c]: f are the unit features of the network; c is a unit vector in the space of MiniLM. A text is [0, t], and
its product with an image is √λ c·t. c adds two unit vectors: the names of the 1,000 classes, weighted by their probabilities, and the
features mapped by a ridge regression from the rows of the classifier to these names.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import EfficientNet_B0_Weights
from transformers import AutoModel, AutoTokenizer

from ctxr.models.hub import LITE, MINILM
from ctxr.models.published import careful, check_shapes, load, read_tensors
from ctxr.models.wheels import NETWORK_FILE, lite_folder
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of

SHARE = 0.2
"""λ: of the squared distance between images, what the vectors c decide."""

THRESHOLD = 0.3
"""Measured with `python -m bench.lite` (docs/models.md)."""

_RIDGE, _PROMPT = 100.0, "a photo of a {}"
_LABELS: tuple[str, ...] = tuple(EfficientNet_B0_Weights.DEFAULT.meta["categories"])
_NAMES = sha256_of([_PROMPT, *_LABELS, _RIDGE])
_FEATURES, _WORDS = 1280, 384
_LENGTHS = (32, 128)
"""Word pieces of a pass: a text takes the shortest that holds it, cut after the last."""

_PREPROCESS = {
    "size": 224, "mean": (127 / 255,) * 3, "std": (128 / 255,) * 3, "interpolation": "bicubic", "resize_mode": "shortest"
}  # fmt: skip
_CONFIG = {"embed_dim": _FEATURES + _WORDS, "share": SHARE, "names": _NAMES, "lengths": _LENGTHS}


class LitePictures(nn.Module):
    """Unit vectors [N, 1664] of pixels [N, 3, 224, 224]."""

    preprocess_cfg = _PREPROCESS
    image_size = (224, 224)
    names: Tensor
    regression: Tensor

    def __init__(self, trunk: Any, names: Tensor, regression: Tensor) -> None:
        super().__init__()
        self.trunk = trunk
        # they follow from the weights, whose fingerprint is the same on all machines
        self.register_buffer("names", names, persistent=False)
        self.register_buffer("regression", regression, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """[√(1-λ) f, √λ c] of each picture."""
        return self.embedded(self.trunk.forward_head(self.trunk.forward_features(pixels), pre_logits=True))

    def embedded(self, features: Tensor) -> Tensor:
        """[√(1-λ) f, √λ c] of features [N, 1280] of pictures, or of cells of their last map."""
        named = self.trunk.classifier(features).softmax(-1) @ self.names
        seen = functional.normalize(named) + functional.normalize(features @ self.regression)
        parts = (1 - SHARE) ** 0.5 * functional.normalize(features), SHARE**0.5 * functional.normalize(seen)
        return torch.cat(parts, 1)


class LiteModel(nn.Module):
    """Both towers, as open_clip calls them."""

    def __init__(self, visual: LitePictures, text: Any) -> None:
        super().__init__()
        self.visual, self.text = visual, text
        # sentence-transformers scales cosines by 20 where it learns from them
        self.logit_scale = nn.Parameter(torch.tensor(20 / SHARE**0.5).log())

    def encode_text(self, text: Tensor, normalize: bool = False) -> Tensor:
        """Unit vectors [N, 1664] of word pieces [N, T], 0 where there is none; also without `normalize`."""
        lengths, meaning = (text != 0).sum(1, keepdim=True), text.new_zeros(len(text), _WORDS, dtype=torch.float32)
        for shorter, most in zip((0, *_LENGTHS), _LENGTHS, strict=False):
            own = (lengths > shorter) & (lengths <= most)
            if own.any():
                mask = (ids := text[:, :most] * own) != 0
                states = self.text(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
                meaning = torch.where(own, (states * mask[:, :, None]).sum(1), meaning)
        # the direction of the mean over word pieces is that of their sum
        return torch.cat([meaning.new_zeros(len(text), _FEATURES), functional.normalize(meaning)], 1)


def lite_parts() -> dict[str, Any]:
    """The fields of the encoder's `EncoderSource`; it is downloaded if it is not on this machine. Raises CtxrError where it cannot be."""
    folder = lite_folder()
    what, space = f"encoder {LITE}", folder.with_name(f"{LITE}-{_NAMES[:16]}.safetensors")
    if not space.is_file():
        write_bytes(space, save(careful(what)(_space)(folder)))

    build = careful(what)(lambda: _build(folder, read_tensors(space)).requires_grad_(False))
    parts = {"name": LITE, "build": build, "tokenize": partial(_tokenize, folder), "rounds": False}
    return parts | {"config": _CONFIG, "threshold": THRESHOLD}


def _build(folder: Path, space: dict[str, Tensor]) -> LiteModel:
    trunk = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    file, own = folder / NETWORK_FILE, trunk.state_dict()
    # the names of the authors differ, the order is the same
    state = dict(zip(own, read_tensors(file).values(), strict=True))
    check_shapes(state, own, file)
    trunk.load_state_dict(state)
    words = load(AutoModel, folder / MINILM, spare=("position_ids", "pooler"))
    words.pooler = None
    return LiteModel(LitePictures(trunk, **space), words).eval()


@torch.no_grad()
def _space(folder: Path) -> dict[str, Tensor]:
    """Names of the classes in MiniLM's space, less their mean, and the regression from the classifier's rows, less their mean."""
    model = _build(folder, {"names": torch.zeros(0), "regression": torch.zeros(0)})
    named = [_PROMPT.format(label) for label in _LABELS]
    parts = [model.encode_text(_tokenize(folder, named[at : at + 50])) for at in range(0, len(named), 50)]
    names, rows = torch.cat(parts)[:, _FEATURES:].double(), model.visual.trunk.classifier.weight.double()
    names, rows = names - names.mean(0), rows - rows.mean(0)
    ridge = rows.T @ rows + _RIDGE * torch.eye(_FEATURES, dtype=torch.float64)
    regression = torch.linalg.solve(ridge, rows.T @ names)
    return {"names": names.float(), "regression": regression.float().contiguous()}


@cache
def _tokenizer(folder: Path) -> Any:
    settings = {"local_files_only": True, "trust_remote_code": False}
    return careful(f"encoder {LITE}")(AutoTokenizer.from_pretrained)(folder / MINILM, **settings)


def _tokenize(folder: Path, texts: list[str]) -> Tensor:
    shape = {"padding": "max_length", "truncation": True, "max_length": _LENGTHS[-1]}
    ids: Tensor = _tokenizer(folder)(texts, return_tensors="pt", **shape)["input_ids"]
    return ids
