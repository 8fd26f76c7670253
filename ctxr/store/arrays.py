"""Embeddings on disk: memory-mapped float32 matrices of unit vectors, and distances."""

import errno
import resource
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ctxr.errors import CtxrError, DataError
from ctxr.store.atomic import disk_errors

_OPEN_FILES = 1 << 17

Vectors = npt.NDArray[np.float32]


def save_vectors(path: Path, vectors: Vectors) -> None:
    """Write vectors [N, D] float32 to an `.npy` file (no pickled objects)."""
    with disk_errors(path), path.open("wb") as stream:
        np.save(stream, np.ascontiguousarray(vectors, dtype=np.float32), allow_pickle=False)


@cache
def _allow_open_files() -> None:
    """As many as the system allows, up to a bound: a memory-mapped array keeps its file open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if resource.RLIM_INFINITY != soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def load_array(path: Path, what: str) -> npt.NDArray[Any]:
    """An array, memory-mapped and read-only. Raises DataError for a missing or wrong file, CtxrError if refused."""
    _allow_open_files()
    try:
        if path.stat().st_size == 0:
            raise ValueError("empty file")
        return cast("npt.NDArray[Any]", np.load(path, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing", hint="run the command that makes this artifact again") from error
    except OSError as error:
        hint = "allow more of them with ulimit -n" if error.errno == errno.EMFILE else "run the same command again"
        raise CtxrError(f"{path} cannot be read: {error.strerror}", hint) from error
    except Exception as error:  # NumPy reads a damaged header with Python's tokenizer, which raises errors of its own
        raise DataError(f"{path} is not {what}: {error}") from error


def load_vectors(path: Path) -> Vectors:
    """Vectors [N, D] float32, memory-mapped and read-only. Raises DataError for anything else."""
    vectors: Vectors = load_array(path, "a matrix of embeddings")
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise DataError(f"{path} holds {vectors.dtype} of shape {vectors.shape}, not float32 [N, D]")
    return vectors


def stack_vectors(rows: Iterable[Vectors], width: int) -> Vectors:
    """Rows [D] or blocks [n, D] stacked to [N, D]; [0, width] when there are none."""
    blocks = [np.atleast_2d(row) for row in rows]
    return np.concatenate(blocks, dtype=np.float32) if blocks else np.zeros((0, width), np.float32)


def pairwise_distances(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Euclidean distances [N, N] of rows, in float64 from differences: 0 for equal rows.

    >>> pairwise_distances(np.array([[1, 0], [0, 1]], np.float32)).round(4).tolist()
    [[0.0, 1.4142], [1.4142, 0.0]]
    """
    wide = np.asarray(vectors, np.float64)
    distances: npt.NDArray[np.float64] = np.sqrt(((wide[:, None, :] - wide[None, :, :]) ** 2).sum(-1))
    return distances


class SetDistances(NamedTuple):
    """The smallest and the mean distance of two images of a set."""

    closest: float
    mean: float


def set_distances(vectors: Vectors) -> SetDistances:
    """Distances of the rows of a set, to six decimals."""
    above = pairwise_distances(vectors)[np.triu_indices(len(vectors), 1)]
    return SetDistances(round(float(above.min()), 6), round(float(above.mean()), 6))


class VectorLog:
    """Vectors that arrive in batches, on disk: memory does not grow with the length of a video."""

    def __init__(self, path: Path) -> None:
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._path = path
            self._stream = path.open("wb")
        self.count = 0
        self._width = 0

    def append(self, vectors: Vectors) -> int:
        """Add vectors [n, D]; returns the row of the first."""
        first = self.count
        with disk_errors(self._path):
            self._stream.write(np.ascontiguousarray(vectors, np.float32).tobytes())
        self.count += len(vectors)
        self._width = vectors.shape[1]
        return first

    def close(self) -> Vectors:
        """All vectors [N, D], memory-mapped; the file stays until `discard`."""
        with disk_errors(self._path):
            self._stream.close()
        if not self.count:
            return np.zeros((0, 0), np.float32)
        return np.memmap(self._path, np.float32, "r", shape=(self.count, self._width))

    def discard(self) -> None:
        """Remove the file."""
        self._stream.close()
        self._path.unlink(missing_ok=True)
