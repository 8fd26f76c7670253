"""What was computed once of a picture or a text, by its content: pixels as a model sees them, and their vectors.

It lies in `.ctxr-cache/encoded`, a file for every `CHUNK` of them, so that a stopped run goes on, and may be deleted.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.data.atomic import write_bytes
from ctxr.data.hashing import sha256_of
from ctxr.data.whereabouts import CACHE

CHUNK = 512
"""Rows in a file, where nobody says otherwise: 77 MB of pixels at 224 x 224."""

Array = npt.NDArray[Any]


def cached(
    workdir: Path,
    made_by: object,
    contents: Sequence[str],
    make: Callable[[slice], Array],
    advance: Callable[[float], None],
    chunk: int = CHUNK,
) -> list[Array]:
    """Arrays of up to `chunk` rows each, memory-mapped, a row for each of `contents`.

    Args:
        workdir: project folder.
        made_by: whatever else decides the result, as plain values: weights, preprocessing, precision.
        contents: SHA-256 of each thing.
        make: the rows of a part of them.
        advance: told of every part.
        chunk: rows in a file, as many as a run that is stopped may lose.

    Raises CtxrError for a disk that does not take a file.
    """
    arrays = []
    for start in range(0, len(contents), chunk):
        part = list(contents[start : start + chunk])
        file = workdir / CACHE / "encoded" / f"{sha256_of([made_by, part])}.npy"
        array = _read(file, len(part))
        if array is None:
            array = _kept(file, make(slice(start, start + len(part))))
        advance(len(part))
        arrays.append(array)
    return arrays


def _kept(file: Path, array: Array) -> Array:
    content = BytesIO()
    np.save(content, array, allow_pickle=False)
    write_bytes(file, content.getvalue(), durable=False)
    kept: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    return kept


def _read(file: Path, rows: int) -> Array | None:
    try:
        array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception:  # not there, or damaged, of which NumPy says all kinds of things: it is only a memory
        return None
    return array if array.ndim and len(array) == rows else None
