"""DenseNet169 of torchvision: features of pictures, and the objects of ImageNet that it names in them."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from torchvision.models import DenseNet169_Weights, densenet169

from ctxr.errors import CtxrError
from ctxr.media.images import Pixels
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import fingerprint_of, read_tensors
from ctxr.models.regions import ROWS, load_state

NAME = "densenet169"

LABELS: tuple[str, ...] = tuple(DenseNet169_Weights.DEFAULT.meta["categories"])
"""Names of the classes of ImageNet."""

_PREPROCESS = Preprocess((256, 256), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear")
_CROP = slice(16, 240)
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
        load_state(model, state, file, "DenseNet169")
        self.fingerprint, self._model, self._device = fingerprint_of(model.state_dict()), model.to(device), device

    def encode_images(self, images: Sequence[Pixels]) -> npt.NDArray[np.float32]:
        """Averages [N, 1664] of the last feature map over 224 x 224 pixels in the middle of 256 x 256."""
        parts = []
        for start in range(0, len(images), ROWS):
            part = _PREPROCESS(images[start : start + ROWS])[:, :, _CROP, _CROP]
            pixels = torch.cat([part, part.new_zeros(ROWS - len(part), *part.shape[1:])]).to(self._device)
            with torch.inference_mode():
                parts.append(functional.relu(self._model.features(pixels)).mean((2, 3))[: len(part)].cpu().numpy())
        return np.concatenate(parts)

    def objects(self, features: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.float32]:
        """Which of `LABELS` are the `most` likeliest ones for features [N, 1664]: 1 or 0, [N, 1000]."""
        with torch.inference_mode():
            scores = self._model.classifier(torch.from_numpy(features).to(self._device)).cpu()
        best = scores.topk(min(most, len(LABELS)), 1).indices
        return np.asarray(torch.zeros_like(scores).scatter_(1, best, 1.0))
