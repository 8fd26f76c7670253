"""Encoders of either family by name: those that make vectors apart, and those that look at image and text together."""

from collections.abc import Callable

from ctxr.models.blip import is_blip, load_blip
from ctxr.models.cross.sources import CrossSource, load_cross
from ctxr.models.encoders import EncoderSource, find_source
from ctxr.models.hub import makes_pairs


def find_encoder(name: str, warn: Callable[[str], None]) -> EncoderSource | CrossSource:
    """What a name of either family stands for. Raises what `find_source`, `load_blip` and `load_cross` raise."""
    if not makes_pairs(name):
        return find_source(name, warn)
    return load_blip(name) if is_blip(name) else load_cross(name)
