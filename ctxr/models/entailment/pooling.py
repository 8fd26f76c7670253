"""How an encoder of texts makes one vector of its tokens: by its [CLS], or as the folder of a sentence encoder says."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from ctxr.errors import DataError

CONFIG = "1_Pooling/config.json"
"""Where sentence encoders write it."""

CLS, MEAN = "cls", "mean"

_MODES = {"pooling_mode_cls_token": CLS, "pooling_mode_mean_tokens": MEAN}


def read_pooling(folder: Path) -> str:
    """`cls` or `mean`, as `1_Pooling/config.json` of the folder says; `cls` where it has none.

    Raises DataError for a damaged file, and for another mode or several at once.
    """
    file = folder / CONFIG
    if not file.is_file():
        return CLS
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} is no JSON", hint="bring back the file, or remove it to take [CLS]") from error
    modes = told.items() if isinstance(told, dict) else ()
    chosen = [name for name, on in modes if name.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        named = " and ".join(chosen) or "no mode"
        raise DataError(f"{file} wants {named}", hint=f"ctxr pools by one of {', '.join(_MODES)}")
    return _MODES[chosen[0]]


def pooled(states: Tensor, ids: Tensor, how: str) -> Tensor:
    """One vector [B, D] of each row of states [B, T, D]; `ids` [B, T] are 0 where there is no token."""
    if how == CLS:
        return states[:, 0]
    there = (ids != 0).unsqueeze(-1).to(states.dtype)
    return (states * there).sum(1) / there.sum(1)
