"""Words of sentences with their vectors, and the two towers that make unit vectors of sentences and images.

Letters: N sentences or images, T tokens, V words, D width.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import DenseNet169_Weights, densenet169

from ctxr.errors import CtxrError, DataError
from ctxr.media.images import Pixels
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import fingerprint_of, read_tensors
from ctxr.models.regions import ROWS, load_torchvision
from ctxr.models.scorers import ImageTextModel
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.two_towers import WordTower

_MOST_WIDE, _LINE, _WORD = 4096, 1 << 17, 1 << 12
"""Numbers of a vector, bytes of a line, bytes of a word."""

_HINT = "name a whole, unpacked file of GloVe or word2vec"

Vector = npt.NDArray[np.float32]


def read_word_vectors(file: Path, words: Iterable[str]) -> dict[str, Vector]:
    """The vectors, all of one width, of those of `words` that a file of GloVe or word2vec holds.

    Raises DataError for a file that is something else, is damaged, or holds none of the words.
    """
    wanted, vectors = {word.encode(): word for word in words}, dict[str, Vector]()
    try:
        with file.open("rb") as opened:
            head = opened.readline(_LINE).split()
            counted = len(head) == 2 and all(field.isdigit() for field in head)
            count, width = (int(field[:9]) for field in head) if counted else (0, len(head) - 1)
            if not 0 < width <= _MOST_WIDE:
                raise DataError(f"{file} holds no word vectors", hint=_HINT)
            start = opened.tell() if counted else 0
            opened.seek(start)
            binary = counted and len(_numbers(opened.readline(_LINE).split()[1:])) != width
            opened.seek(start)
            for name, vector in _binary(opened, file, width, count) if binary else _text(opened, file, width, wanted):
                if name in wanted and not np.isfinite(vectors.setdefault(wanted[name], vector)).all():
                    raise DataError(f"{file}: the vector of {wanted[name]!r} is not finite", hint=_HINT)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from error
    if not vectors:
        raise DataError(f"{file} holds none of the {len(wanted)} words of the sentences", hint=_HINT)
    return vectors


def _numbers(fields: Sequence[bytes]) -> Vector:
    try:
        return np.array(fields, "<f4")
    except ValueError:
        return np.zeros(0, "<f4")


def _text(opened: BinaryIO, file: Path, width: int, wanted: Mapping[bytes, str]) -> Iterator[tuple[bytes, Vector]]:
    for number, line in enumerate(iter(lambda: opened.readline(_LINE), b""), 1):
        word, *fields = line.split() or [b""]
        # a word of GloVe may hold blanks: then its first part has too many fields
        if word in wanted and len(fields) <= width:
            if len(vector := _numbers(fields)) != width:
                raise DataError(f"{file}: vector {number} has not {width} numbers", hint=_HINT)
            yield word, vector


def _binary(opened: BinaryIO, file: Path, width: int, count: int) -> Iterator[tuple[bytes, Vector]]:
    at = opened.tell()
    with mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        for number in range(1, count + 1):
            blank = data.find(b" ", at, at + _WORD)
            start, word, at = blank + 1, data[at : max(at, blank)], blank + 1 + 4 * width
            if blank < 0 or at > len(data):
                raise DataError(f"{file} breaks off in vector {number} of {count}", hint=_HINT)
            yield word.lstrip(b"\n"), np.frombuffer(data[start:at], "<f4")


SENTENCES, IMAGES = 0, 1
_ANGLE, _CROP = math.radians(20), 0.875
"""The largest rotation of a picture, and the share of its sides that a random crop keeps."""


class DocumentTowers(nn.Module):
    """Sentences and images as unit vectors.

    Args:
        widths: of the vectors that the towers make before they are projected.
        words: first word vectors [V, D], row 0 for no word; None with an encoder of texts.
        encoder: model of open_clip that learns; None where what it makes comes in as vectors.
    """

    def __init__(
        self, recipe: LinksRecipe, widths: tuple[int, int], words: Tensor | None, encoder: ImageTextModel | None = None
    ) -> None:
        super().__init__()
        self.augment, self.image = recipe.augment, None
        self.text: nn.Module | None = None
        if encoder is not None:
            self.image, self.text = encoder.visual, encoder
            del encoder.visual
        layers, width = recipe.layers, recipe.width if words is None else widths[0]
        if words is not None:
            self.text = WordTower(words, width if recipe.learns else 0, recipe.dropout)
        self.projections = nn.ModuleList()
        for inner, count in zip(widths, (0 if words is not None else layers, layers), strict=True):
            parts: list[nn.Module] = [nn.Dropout(recipe.dropout)] if count else []
            for number in range(count):
                parts += [nn.ReLU(), nn.BatchNorm1d(width)] if number else []
                parts.append(nn.Linear(width if number else inner, width))
            self.projections.append(nn.Sequential(*parts))

    def encode(self, tower: int, inputs: Tensor) -> Tensor:
        """[N, D] of what a tower takes: tokens, pixels, or vectors of sentences or images."""
        module: Any = self.image if tower == IMAGES else getattr(self.text, "encode_text", self.text)
        if module is None:
            return inputs
        if tower == IMAGES and self.augment and self.training:
            inputs = augmented(inputs)
        return torch.as_tensor(module(inputs))

    def project(self, tower: int, vectors: Tensor) -> Tensor:
        """Unit vectors [N, D] of what `encode` made."""
        return functional.normalize(self.projections[tower](vectors.float()), dim=-1)


def augmented(pixels: Tensor) -> Tensor:
    """Pictures [N, 3, H, W], each rotated by up to 20 degrees, mirrored half of the time, and cropped at random."""
    angle, mirror, x, y = (2 * torch.rand(4, len(pixels)) - 1).unbind()
    cosine, sine, side = (_ANGLE * angle).cos(), (_ANGLE * angle).sin(), mirror.sign()
    rows = [_CROP * cosine * side, -_CROP * sine, (1 - _CROP) * x, _CROP * sine * side, _CROP * cosine, (1 - _CROP) * y]
    matrices = torch.stack(rows, 1).view(-1, 2, 3).to(pixels)
    grid = functional.affine_grid(matrices, list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


NAME = "densenet169"

LABELS: tuple[str, ...] = tuple(DenseNet169_Weights.DEFAULT.meta["categories"])
_PREPROCESS = Preprocess((256, 256), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear")
_CENTRE = slice(16, 240)
_OLD_NAME = re.compile(r"\.(norm|conv)\.([12])\.")
"""In the published file, which is older than the names that torchvision has now."""


class DenseNet169:
    """The network over `weights`, a .pth or .safetensors; "" for those that an earlier download of torchvision left in TORCH_HOME.

    Raises CtxrError where they are not there: nothing is downloaded; DataError for a file of something else.
    """

    dim, precision = 1664, "fp32"

    def __init__(self, weights: str, device: str) -> None:
        file = Path(weights or f"{torch.hub.get_dir()}/checkpoints/{Path(DenseNet169_Weights.DEFAULT.url).name}")
        if not weights and not file.is_file():
            raise CtxrError(
                f"the weights of torchvision's DenseNet169 are not on this machine: there is no {file}",
                hint=f"--set features={NAME}:WEIGHTS.pth, or --set features= for the image tower of the encoder",
            )
        state = {_OLD_NAME.sub(r".\1\2.", name): value for name, value in read_tensors(file).items()}
        with torch.random.fork_rng(devices=[]):
            model = densenet169(weights=None).eval().requires_grad_(False)
        load_torchvision(model, state, file, "DenseNet169")
        self.fingerprint, self._model, self._device = fingerprint_of(model.state_dict()), model.to(device), device

    def encode_images(self, images: Sequence[Pixels]) -> npt.NDArray[np.float32]:
        """Averages [N, 1664] of the last map over the middle 224 x 224 of 256 x 256 pixels."""
        parts = []
        for start in range(0, len(images), ROWS):
            part = _PREPROCESS(images[start : start + ROWS])[:, :, _CENTRE, _CENTRE]
            pixels = torch.cat([part, part.new_zeros(ROWS - len(part), *part.shape[1:])]).to(self._device)
            with torch.inference_mode():
                parts.append(functional.relu(self._model.features(pixels)).mean((2, 3))[: len(part)].cpu().numpy())
        return np.concatenate(parts)

    def objects(self, features: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.float32]:
        """Which of `LABELS` are the `most` likeliest for features [N, 1664]: 1 or 0, [N, 1000]."""
        with torch.inference_mode():
            scores = self._model.classifier(torch.from_numpy(features).to(self._device)).cpu()
        best = scores.topk(min(most, len(LABELS)), 1).indices
        return np.asarray(torch.zeros_like(scores).scatter_(1, best, 1.0))
