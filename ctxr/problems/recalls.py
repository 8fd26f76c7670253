"""Recall in galleries, both ways: its columns, all over the same draws of pictures, and its tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np

from ctxr.engine.report import Table
from ctxr.metrics.columns import RatioColumn
from ctxr.metrics.compare import Interval
from ctxr.metrics.retrieval import Matrix, Vectors, caption_retrieval, from_pairs, trec_of_pairs
from ctxr.metrics.votes import Codes, Doubles
from ctxr.problems.figures import Figure
from ctxr.problems.galleries import RANKED, GallerySplit, first_owners
from ctxr.problems.tables import none_had, percent

COCO_TEST = 5000
"""Pictures of COCO's published test side, which is also searched in five parts in its own order: COCO 1K."""


Recalls = dict[str, RatioColumn]
"""Measures of queries, by name; a query is drawn again with the picture that it is, or was written for."""


def recall_columns(
    split: GallerySplit, scores: Vectors | Matrix, recalls: Sequence[int], trec: bool = False
) -> Recalls:
    """`TR@k` and `IR@k`, of COCO's test side also `1K TR@k`, but for those that are `pointless`, with `trec` what trec_eval has."""
    galleries, owners = np.array(split.image_galleries), first_owners(split)
    condensed, parts = split.condensed(scores), dict[str, list[RatioColumn]]()
    for gallery in range(len(split.galleries)):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(galleries[owners] == gallery)
        part, own = condensed.part(images, captions), np.searchsorted(images, owners[captions])
        written = from_pairs(own, np.arange(len(own)))
        ways = (
            ("TR", part, written, images[written.queries]),
            ("IR", part.turned(), written.turned(), owners[captions]),
        )
        for direction, one, right, of in ways if trec else ():
            for measure, values in trec_of_pairs(one, right, recalls, RANKED).items():
                parts.setdefault(f"TREC {direction} {measure}", []).append(even_column(of, values))
        for folds, name in ((1, ""), (5, "1K ")):
            if folds > 1 and not is_coco_test(split.side, [split.images[image] for image in images]):
                continue
            both = caption_retrieval(part, own, folds, recalls)
            queries = np.unique(own)
            means = both.means()
            # pictures come fold by fold, and folds in the order of pictures
            for direction, of, values in (("TR", images[queries], both.tr), ("IR", owners[captions], both.ir)):
                for index, k in enumerate(both.ks):
                    if f"{direction}@{k}" in pointless(split, both.ks, folds):
                        continue
                    value = means[f"{direction}@{k}"] if len(split.galleries) == 1 else None
                    parts.setdefault(f"{name}{direction}@{k}", []).append(even_column(of, values[:, index], value))
    return {measure: _joined(listed) for measure, listed in parts.items()}


def pointless(split: GallerySplit, recalls: Sequence[int], folds: int = 1) -> list[str]:
    """The `TR@k` and `IR@k` that could be nothing but 1, because no part of a gallery has more than k to find; k = 1 always stays."""
    sizes = {"TR": _most(split.caption_galleries), "IR": _most(split.image_galleries)}
    return [f"{direction}@{k}" for direction, size in sizes.items() for k in recalls if k > 1 and k * folds >= size]


def pointless_note(split: GallerySplit, recalls: Sequence[int]) -> list[str]:
    """A sentence about the measures left out as `pointless`, if any."""
    measures = pointless(split, recalls)
    are, they = ("is", "it") if len(measures) == 1 else ("are", "they")
    most = {"caption": _most(split.caption_galleries), "picture": _most(split.image_galleries)}
    sizes = " or ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in most.items())
    left = f"{split.name}: {', '.join(measures)} {are} left out: no gallery has more than {sizes}, so {they} would be 100.0"
    return [left] if measures else []


def _most(galleries: Sequence[int]) -> int:
    return int(np.bincount(galleries).max())


def is_coco_test(split: str, images: Sequence[str]) -> bool:
    """Whether a gallery is COCO's test side as published: 5,000 pictures of val2014 in Karpathy's order, which is no order of names.

    Parts of the same pictures in another order, and those of the 5,000 of val2017, are other figures than COCO 1K.

    >>> is_coco_test("test", ["test/COCO_val2014_000000391895.jpg"])
    False
    """
    names = [PurePosixPath(image).name for image in images]
    of_coco = all(name.startswith("COCO_val2014_") for name in names)
    return split == "test" and len(names) == COCO_TEST and of_coco and names != sorted(names)


def for_accuracy(split: GallerySplit, rows: Sequence[Figure]) -> list[Figure]:
    """IR@1 once more as the accuracy of a caption that asks for its picture, and that of a blind guess, as sets have them."""
    size = float(np.mean(1 / np.bincount(split.image_galleries)[list(split.caption_galleries)]))
    own = [replace(row, measure="accuracy") for row in rows if row.measure == "IR@1"]
    return [one for row in own for one in (row, replace(row, measure="chance", interval=Interval(size)))]


def _joined(columns: Sequence[RatioColumn]) -> RatioColumn:
    if len(columns) == 1:
        return columns[0]
    return even_column(
        np.concatenate([column.rows for column in columns]), np.concatenate([column.values for column in columns])
    )


def even_column(images: Codes, values: Doubles, value: float | None = None) -> RatioColumn:
    """A column whose queries count alike; each is drawn again with its picture."""
    return RatioColumn(images, values, np.ones(len(values)), value)


SEED_NOTE = "mean of TR and IR over the k that are printed; every other figure of such a run is the mean over its seeds"


def printed_recall(columns: Recalls) -> float:
    """The mean that `SEED_NOTE` explains."""
    return float(np.mean([one.values.mean() for name, one in columns.items() if name[:3] in ("TR@", "IR@")]))


_ASKED = "TR: a picture asks for its captions, IR: a caption for its picture"


def recall_tables(
    split: GallerySplit, figures: Sequence[Figure], by: str, sources: Mapping[str, str]
) -> dict[str, Table]:
    """Recall both ways, in five folds where it is COCO's test side, and by each of `sources`, further ground truths by a short name.

    Args:
        by: what is drawn again.
    """
    own = [figure for figure in figures if figure.side == split.name]
    counts = {"caption": len(split.captions), "picture": len(split.images)}
    size = " of ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
    galleries = f" in {len(split.galleries)} galleries, each searched by itself" if len(split.galleries) > 1 else ""
    interval = f"in brackets 95 % over {by}s drawn again"
    titles = {"": ("recall", "recall", f"{size}{galleries}. {_ASKED}; {interval}")}
    titles["TREC"] = ("trec", f"MAP@{RANKED}, P@k and nDCG@k", f"as trec_eval defines them; {_ASKED}; {interval}")
    titles["1K"] = (
        "1k",
        "COCO 1K, recall in five folds",
        f"COCO's {COCO_TEST:,} test pictures in five parts, in the published order, means over them; {interval}",
    )
    for key, name in sources.items():
        titles[name] = (key, f"by {name}", f"queries about which {name} says something; {_ASKED}; {interval}")
    tables = {}
    for prefix, (key, title, note) in titles.items():
        measures = [
            name for name in dict.fromkeys(question.measure for question in own) if _prefix(name, titles) == prefix
        ]
        if measures:
            cells = {(question.run, question.measure): percent(question.interval) for question in own}
            runs = dict.fromkeys(question.run for question in own)
            heads = ("run", *(name.removeprefix(prefix).strip() for name in measures))
            rows = tuple((run, *(cells[run, name] for name in measures)) for run in runs)
            lacking = none_had([question.interval for question in own if question.measure in measures])
            tables[key] = Table(f"{split.name}: {title}, %", heads, rows, note + lacking)
    return tables


def _prefix(measure: str, known: Collection[str]) -> str:
    """What a measure's name begins with, other than its direction."""
    head = measure.partition(" ")[0]
    return head if head in known else "" if head[:3] in ("TR@", "IR@") else "other"
