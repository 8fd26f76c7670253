"""Mining: the best 30 captions of 100,000 pictures among 100,000 captions, against the floor of the bare products.

python -m bench mining             2,000 pictures against 100,000 captions
python -m bench.mining 100000      as many pictures as given, once
"""

import resource
import sys
from functools import partial

import numpy as np

from bench.table import Row, in_turns, median_seconds
from ctxr.metrics.retrieval import Vectors, top
from ctxr.models.neighbours import best_matches
from ctxr.models.precision import has_bf16_units

CAPTIONS, WIDTH, BEST = 100_000, 512, 30
LIMIT = 2.0
"""Times the bare products that a search may take at most."""


def measure(pictures: int = 2000, repeat: int = 3) -> list[Row]:
    """The search with either engine; its floor is the matrix product that no exact search can do without."""
    import torch

    rng = np.random.default_rng(0)
    asked, pool = (_unit(rng.standard_normal((count, WIDTH)) + 0.3) for count in (pictures, CAPTIONS))
    left, right = torch.from_numpy(asked), torch.from_numpy(pool)
    held = torch.empty((512, CAPTIONS))

    def products() -> None:
        with torch.inference_mode():
            for start in range(0, pictures, 512):
                part = left[start : start + 512]
                torch.mm(part, right.T, out=held[: len(part)])

    rows = []
    for engine in ("bf16", "fp32") if has_bf16_units() else ("fp32",):
        search = partial(best_matches, asked, pool, BEST, coarse=engine == "bf16")
        seconds, floor = in_turns(search, products, repeat=repeat)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        rows.append(
            Row(
                figure=f"best {BEST} of {CAPTIONS:,} x {WIDTH} for {pictures:,}, {engine}",
                seconds=seconds,
                against="products alone, fp32",
                against_seconds=floor,
                target=f"<= {LIMIT:g} x products",
                met=seconds <= LIMIT * floor,
                note=f"100,000 pictures: {seconds * CAPTIONS / pictures / 60:.1f} minutes; at most {peak:,} MiB held",
            )
        )
    few = min(pictures, 512)
    by_rows = median_seconds(lambda: list(top(Vectors(asked[:few], pool), BEST)), 1) * pictures / few
    rows.append(Row(f"the same row by row ({few} rows, scaled)", by_rows))
    return rows


def _unit(vectors: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


if __name__ == "__main__":
    from bench.__main__ import show

    show("mining", measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, repeat=1))
