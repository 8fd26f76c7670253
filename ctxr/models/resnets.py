"""ResNets of torchvision as image towers, with the interface of other encoders."""

from pathlib import Path
from typing import Any

import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import nn
from torchvision import models

from ctxr.errors import CtxrError
from ctxr.models.encoders import EncoderSource, find_source
from ctxr.models.hub import RESNETS
from ctxr.models.published import read_tensors
from ctxr.models.regions import load_torchvision

_WEIGHTS = {"resnet50": models.ResNet50_Weights.IMAGENET1K_V1, "resnet152": models.ResNet152_Weights.IMAGENET1K_V1}
_PREPROCESS = {"size": 224, "mean": IMAGENET_DEFAULT_MEAN, "std": IMAGENET_DEFAULT_STD, "interpolation": "bilinear"}


def resnet_file(name: str) -> Path:
    """The weights of `resnet50`, `resnet152`, or either with `:FILE`; without one those that torchvision left in TORCH_HOME.

    Raises CtxrError where they are not there: nothing is downloaded.
    """
    kind, _, place = name.partition(":")
    file = Path(place or f"{torch.hub.get_dir()}/checkpoints/{Path(_WEIGHTS[kind].url).name}")
    if not file.is_file():
        raise CtxrError(
            f"the weights of torchvision's {kind} are not on this machine: there is no {file}",
            hint=f"--set encoder={kind}:WEIGHTS.pth, or an encoder that is here: --set encoder=ctxr-tiny",
        )
    return file


def find_tower(name: str, warn: Any) -> EncoderSource:
    """An encoder of vectors of pictures. Raises as `find_source` and `resnet_file`; DataError for weights of something else."""
    kind = name.partition(":")[0]
    if kind not in RESNETS:
        return find_source(name, warn)
    file = resnet_file(name)

    def build() -> Any:
        with torch.random.fork_rng(devices=[]):
            tower: Any = getattr(models, kind)(weights=None)
        load_torchvision(tower, read_tensors(file), file, kind)
        tower.fc, tower.preprocess_cfg, tower.image_size = nn.Identity(), _PREPROCESS, (224, 224)
        return nn.ModuleDict({"visual": tower}).eval().requires_grad_(False)

    return EncoderSource(name, build, {"embed_dim": 2048, "tower": kind}, lambda _: torch.zeros(0, 0))
