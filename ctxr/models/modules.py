"""The parts of open_clip's models that are used here, for type checkers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class ImageTower(nn.Module):
    """What embeds pictures in a model of open_clip; `preprocess_cfg` says which pixels it wants."""

    preprocess_cfg: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Parts, which differ by architecture."""


class ImageTextModel(nn.Module):
    """A model of open_clip."""

    visual: ImageTower
    logit_scale: nn.Parameter
    encode_image: Callable[..., Tensor]
    encode_text: Callable[..., Tensor]
