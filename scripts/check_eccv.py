"""Hold our retrieval figures against ECCV Caption's own, on its own ground truth: `python -m scripts.check_eccv [--coco-1k]`.

It needs `pip install --target FOLDER eccv_caption` and FOLDER on PYTHONPATH (MIT; the ground truth of COCO, CxC and ECCV lies in
it); without it this says so and stops. Random and good rankings of all 5,000 pictures and 25,000 captions are compared. COCO 1K
takes minutes in the package and is asked for by `--coco-1k`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.datasets.readers.relevance import read_positives
from ctxr.metrics.retrieval import KS, Relation, Vectors, caption_retrieval, number, retrieved

WIDTH = 16
"""Length of the made-up vectors; wide enough that no two scores are equal."""


def folder() -> Path | None:
    """Where the package's ground truth lies; None where it is not installed."""
    found = find_spec("eccv_caption")
    return None if found is None or found.origin is None else Path(found.origin).parent / "data"


@dataclass(frozen=True, eq=False)
class Truth:
    """COCO's test pictures and captions in the publisher's order, and what is right by each ground truth.

    Attributes:
        images, captions: COCO ids. owners: [C] the picture of each caption.
        right: ("coco" | "cxc" | "eccv", "i2t" | "t2i") to which candidates are right.
    """

    images: list[int]
    captions: list[int]
    owners: np.ndarray
    right: dict[tuple[str, str], Relation]


def read_truth(data: Path) -> Truth:
    """The package's ground truth, read by our reader."""
    ordered = np.load(data / "coco_test_ids.npy", allow_pickle=False).tolist()
    owner = json.loads((data / "original_caption_to_image.json").read_text())
    images = list(dict.fromkeys(owner[str(caption)][0] for caption in ordered))
    pictures = {f"coco/{image}": place for place, image in enumerate(images)}
    texts = {f"coco/{caption}": place for place, caption in enumerate(ordered)}
    right = {}
    for ours, theirs in (("coco", "original"), ("cxc", "cxc"), ("eccv", "eccv")):
        right[ours, "i2t"] = _all(data / f"{theirs}_image_to_caption.json", pictures, texts)
        right[ours, "t2i"] = _all(data / f"{theirs}_caption_to_image.json", texts, pictures)
    owners = np.array([pictures[f"coco/{owner[str(caption)][0]}"] for caption in ordered])
    return Truth(images, ordered, owners, right)


def made_up(truth: Truth, quality: float, seed: int) -> Vectors:
    """Vectors of pictures and captions; a caption's is that of its picture times `quality`, plus chance."""
    rng = np.random.default_rng(seed)
    pictures = rng.standard_normal((len(truth.images), WIDTH))
    texts = quality * pictures[truth.owners] + rng.standard_normal((len(truth.captions), WIDTH))
    return Vectors(pictures.astype(np.float32), texts.astype(np.float32))


def rankings(scored: Vectors, queries: list[int], candidates: list[int]) -> dict[int, np.ndarray]:
    """All candidates of each query, best first, as COCO ids."""
    ids = np.array(candidates, np.int32)
    found: dict[int, np.ndarray] = {}
    for start in range(0, len(queries), 250):
        asked = np.arange(start, min(start + 250, len(queries)))
        order = np.argsort(-scored.rows(asked), axis=1, kind="stable")
        found |= {queries[query]: ids[row] for query, row in zip(asked.tolist(), order, strict=True)}
    return found


def ours(truth: Truth, scored: Vectors, coco_1k: bool) -> dict[str, float]:
    """Our figures under the package's names, with the direction behind."""
    found: dict[str, float] = {}
    for (name, direction), right in truth.right.items():
        part = scored if direction == "i2t" else scored.turned()
        asked = retrieved(part, right)
        recalls = dict(zip(asked.ks, asked.recalls.mean(axis=0), strict=True))
        named = {f"{'coco_5k' if name == 'coco' else name}_r{k}": recalls[k] for k in KS}
        if name == "eccv":
            named = {"eccv_r1": recalls[1], "eccv_rprecision": asked.r_precision.mean()}
            named["eccv_map_at_r"] = asked.map_at_r.mean()
        found |= {f"{key} {direction}": float(value) for key, value in named.items()}
    if coco_1k:
        means = caption_retrieval(scored, truth.owners, folds=5).means()
        found |= {
            f"coco_1k_r{k} {way}": means[f"{name}@{k}"] for k in KS for way, name in (("i2t", "TR"), ("t2i", "IR"))
        }
    return found


def theirs(truth: Truth, scored: Vectors, coco_1k: bool) -> dict[str, float]:
    """The package's own figures."""
    metrics: Any = import_module("eccv_caption").Metrics()
    asked = ["coco_5k_recalls", "cxc_recalls", "eccv_r1", "eccv_map_at_r", "eccv_rprecision"]
    i2t = rankings(scored, truth.images, truth.captions)
    t2i = rankings(scored.turned(), truth.captions, truth.images)
    # of the COCO ids the package compares, plain numbers are several times faster than NumPy's
    short = {} if coco_1k else {"i2t": _cut(i2t), "t2i": _cut(t2i)}
    found: Mapping[str, Mapping[str, float]] = metrics.compute_all_metrics(
        short.get("i2t", i2t), short.get("t2i", t2i),
        target_metrics=tuple(asked + ["coco_1k_recalls"] * coco_1k), Ks=list(KS), verbose=False,
    )  # fmt: skip
    return {f"{name} {way}": float(value) for name, both in found.items() for way, value in both.items()}


def compare(truth: Truth, quality: float, seed: int, coco_1k: bool) -> Iterator[tuple[str, float, float]]:
    """Each figure, ours and theirs. Raises KeyError where one is not told by both."""
    scored = made_up(truth, quality, seed)
    mine, other = ours(truth, scored, coco_1k), theirs(truth, scored, coco_1k)
    for name in sorted({*mine, *other}):
        yield name, mine[name], other[name]


def main(arguments: list[str]) -> int:
    """Print every figure; 1 where one differs."""
    data = folder()
    if data is None:
        print("eccv_caption is not installed: pip install --target FOLDER eccv_caption, and PYTHONPATH=FOLDER")
        return 0
    truth = read_truth(data)
    wrong = 0
    for name, quality in (("random", 0.0), ("good", 1.0)):
        for figure, mine, other in compare(truth, quality, 0, "--coco-1k" in arguments):
            differs = abs(mine - other) > 1e-9
            wrong += differs
            print(f"{name} {figure}: {mine:.6f} {'differs from' if differs else 'equals'} {other:.6f}")
    return int(wrong > 0)


def _all(file: Path, queries: dict[str, int], candidates: dict[str, int]) -> Relation:
    positives = read_positives(file)
    found = number(positives, queries, candidates)
    unasked = sum(map(len, positives.values())) - len(found.candidates) - int(found.absent.sum())
    if unasked:
        raise SystemExit(f"{file.name}: {unasked} pairs are about no test picture or caption")
    return found


def _cut(listed: dict[int, np.ndarray]) -> dict[int, list[int]]:
    """The first 200 of each list: no query has more right candidates."""
    return {query: ids[:200].tolist() for query, ids in listed.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
