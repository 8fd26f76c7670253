"""Which family of encoders a name is of: one that makes vectors apart, or one that looks at image and text together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxr.models.cross.sources import CrossSource
    from ctxr.models.loading import Source

PAIR_ENCODERS = ("blip:", "volta:", "random:blip", "random:vilbert", "random:uniter")
"""What names of encoders of pairs begin with; all others are open_clip's."""


def makes_pairs(name: str) -> bool:
    """Whether an encoder of that name looks at image and text together; else it makes a vector of each."""
    return name.startswith(PAIR_ENCODERS)


def find_encoder(name: str, warn: Callable[[str], None]) -> Source | CrossSource:
    """What a name of either family stands for. Raises what `find_source`, `load_blip` and `load_cross` raise."""
    if not makes_pairs(name):
        from ctxr.models.loading import find_source

        return find_source(name, warn)
    from ctxr.models.blip import is_blip, load_blip

    if is_blip(name):
        return load_blip(name)
    from ctxr.models.cross import load_cross

    return load_cross(name)
