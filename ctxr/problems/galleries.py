"""Galleries: pictures and captions that are searched together, rankings, recall both ways."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.report import Table
from ctxr.errors import DataError, plural
from ctxr.metrics import retrieval
from ctxr.metrics.compare import RatioColumn
from ctxr.metrics.ranking import BLOCK, accuracy, count_ranks, reciprocal_rank, row_blocks, untied
from ctxr.metrics.retrieval import Matrix, QueryScores, Vectors, from_pairs, trec_of_pairs
from ctxr.metrics.votes import Codes, Doubles
from ctxr.problems.figures import Figure, none_had, percent
from ctxr.problems.queries import EvalQuery, by_split, queries_of
from ctxr.problems.results import QueryResult, plain_name, qrel, trec_ranking
from ctxr.problems.verdicts import PairVerdicts
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Record, SplitName
from ctxr.store.tables import grouped

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class GalleryPart:
    """A gallery by its rows of pictures [n] and of captions [m] in the split."""

    name: str
    images: Codes
    captions: Codes


@dataclass(frozen=True)
class GallerySplit:
    """The galleries of one split of the benchmark.

    Attributes:
        split: the split, "" for none. galleries: ids of the image sets.
        images: ids, gallery after gallery. image_galleries: number of the gallery of each.
        captions: ids of the queries. texts: theirs. caption_galleries: number of each's gallery.
        written: (caption, picture) by index, of pictures that a caption was written for; every caption has one.
        weak: the same of other pictures for which a judge found that it holds. unsure: those about which none is sure.
    """

    split: str
    galleries: tuple[str, ...]
    images: tuple[str, ...]
    image_galleries: tuple[int, ...]
    captions: tuple[str, ...]
    texts: tuple[str, ...]
    caption_galleries: tuple[int, ...]
    written: Pairs
    weak: Pairs = ()
    unsure: Pairs = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def name(self) -> str:
        """The split, `none` for galleries without one."""
        return self.split or "none"

    @cached_property
    def parts(self) -> list[GalleryPart]:
        """The galleries, each by its rows of pictures and of captions."""
        galleries, owners = np.array(self.image_galleries), np.array(self.caption_galleries)
        return [
            GalleryPart(name, np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery))
            for gallery, name in enumerate(self.galleries)
        ]

    @cached_property
    def largest(self) -> dict[str, int]:
        """The most captions and the most pictures of a gallery."""
        captions = max(len(part.captions) for part in self.parts)
        return {"caption": captions, "picture": max(len(part.images) for part in self.parts)}

    @cached_property
    def first_owners(self) -> Codes:
        """The picture that each caption was written for, [C]; the first where it was written for several."""
        captions, images = np.array(self.written, np.int64).T
        return np.asarray(images[np.unique(captions, return_index=True)[1]])

    @cached_property
    def image_index(self) -> dict[str, int]:
        """Places of pictures by id."""
        return {image: index for index, image in enumerate(self.images)}

    @cached_property
    def caption_index(self) -> dict[str, int]:
        """Places of captions by id."""
        return {caption: index for index, caption in enumerate(self.captions)}

    def as_query(self) -> EvalQuery:
        """All of its pictures as one query, for functions that collect the pictures of queries."""
        split: SplitName | None = self.split or None  # type: ignore[assignment]
        return EvalQuery(f"{self.split} galleries", "", (), self.images, (), False, split)

    @property
    def sha256(self) -> str:
        """Over captions and what they were written for, and the unsure pairs, if any."""
        unsure = [self.unsure] if self.unsure else []
        return sha256_of([self.galleries, self.images, self.captions, self.texts, self.written, *unsure])

    def condensed(self, scored: Vectors | Matrix) -> QueryScores:
        """Scores of its pictures with its captions, without the unsure pairs."""
        captions, images = np.array(self.unsure, np.int64).reshape(-1, 2).T
        return replace(scored, dropped=from_pairs(images, captions)) if self.unsure else scored


def gallery_splits(dataset: Dataset, verdicts: PairVerdicts | None = None) -> dict[str, GallerySplit]:
    """The galleries of each split in which captions ask for pictures, with all of their pictures.

    Captions that were written for no known picture are left out. Raises DataError for a picture in two galleries of a split.
    """
    verdicts = verdicts or PairVerdicts()
    asked = sorted((one for one in queries_of(dataset) if one.targets), key=lambda one: (one.image_set, one.query))
    splits = {}
    for split, queries in by_split(asked).items():
        sets = {one.image_set: one.images for one in queries}
        galleries = {name: number for number, name in enumerate(sets)}
        images: dict[str, int] = {}
        owners: dict[str, int] = {}
        for name, image in ((name, image) for name, own in sets.items() for image in own):
            if image in images:
                raise DataError(
                    f"the picture {image} is in the gallery {name!r} and in another one, or twice",
                    hint="give it one place, or train on sets that share pictures: --recipe clip-batch --set weak=mask-only",
                )
            images[image], owners[image] = len(images), galleries[name]
        captions = {one.query: number for number, one in enumerate(queries)}
        written = {(row, images[one.images[place]]) for row, one in enumerate(queries) for place in one.targets}
        weak, unsure = (
            {
                (captions[caption], images[image])
                for caption, image in pairs
                if caption in captions and owners.get(image) == galleries[queries[captions[caption]].image_set]
            }
            for pairs in ({pair for pair, entailed in verdicts.entailed.items() if entailed}, verdicts.unsure)
        )
        splits[split] = GallerySplit(
            split,
            tuple(sets),
            tuple(images),
            tuple(owners.values()),
            tuple(captions),
            tuple(one.text for one in queries),
            tuple(galleries[one.image_set] for one in queries),
            tuple(sorted(written)),
            weak=tuple(sorted(weak - written)),
            unsure=tuple(sorted(unsure - written)),
        )
    return splits


RANKINGS, RECALLS = "rankings.jsonl", "recalls.jsonl"

MEAN_RECALL = "mean recall"
RANKED = 30
"""Candidates that are kept of each query: as many as the largest K of Entail@K."""


class QueryRanking(Record, frozen=True):
    """The best candidates of a query, best first, at most `RANKED`, with their scores: cosines, or log-odds of a match.

    `asks` is `image` where a caption asks for pictures, `caption` where a picture asks for captions.
    """

    KEY: ClassVar[tuple[str, ...]] = ("asks", "query", "scorer")

    asks: str
    query: str
    scorer: str
    candidates: tuple[str, ...]
    scores: tuple[float, ...]


class RecallRow(Record, frozen=True):
    """A figure of a scorer on a split, 0..1: `TR@k`, `IR@k`, and their mean over k = 1, 5, 10 as `mean recall`."""

    KEY: ClassVar[tuple[str, ...]] = ("scorer", "split", "measure")

    scorer: str
    split: str
    measure: str
    value: float


def rankings_of(split: GallerySplit, table: Vectors | Matrix, scorer: str) -> list[QueryRanking]:
    """The best candidates of every caption and picture of a gallery, without unsure pairs."""
    rows, written = [], from_pairs(*np.array(split.written, np.int64).T).turned()
    for gallery in split.parts:
        part = split.condensed(table).part(gallery.images, gallery.captions)
        images = [split.images[image] for image in gallery.images.tolist()]
        captions = [split.captions[caption] for caption in gallery.captions.tolist()]
        right = written.part(gallery.images, gallery.captions)
        for asks, scored, queries, candidates, own in (
            ("caption", part, images, captions, right),
            ("image", part.turned(), captions, images, right.turned()),
        ):
            for indices, best, scores in retrieval.top(scored, RANKED, own):
                for query, row, values in zip(indices.tolist(), best.tolist(), scores.tolist(), strict=True):
                    kept = tuple(value for value in values if value > float("-inf"))
                    names = tuple(candidates[one] for one in row[: len(kept)])
                    rows.append(QueryRanking(asks, queries[query], scorer, names, kept))
    return rows


def recalls_of(split: GallerySplit, table: Vectors | Matrix, scorer: str) -> list[RecallRow]:
    """TR and IR of a split; every gallery is searched by itself, and counts as often as it has captions."""
    galleries, owners = np.array(split.image_galleries), split.first_owners
    totals: dict[str, float] = {}
    for captions, means in retrieval.gallery_means(split.condensed(table), galleries, owners):
        means[MEAN_RECALL] = sum(means.values()) / len(means)
        for measure, value in means.items():
            totals[measure] = totals.get(measure, 0.0) + value * captions / len(owners)
    return [RecallRow(scorer, split.split, measure, value) for measure, value in totals.items()]


def caption_results(
    split: GallerySplit, table: Vectors | Matrix, scorer: str, kinds: Mapping[str, str]
) -> Iterator[QueryResult]:
    """The result of each caption as a query for its picture; `kinds`: of image sets, by id."""
    written = from_pairs(*np.array(split.written, np.int64).T)
    for gallery in split.parts:
        images, captions = gallery.images, gallery.captions
        scored = split.condensed(table).part(images, captions).turned()
        relevant = written.part(captions, images)
        for block in row_blocks(len(captions), len(images), BLOCK):
            queries = np.arange(block.start, block.stop)
            targets = relevant.among(queries, len(images))
            scores = untied(scored.rows(queries), targets, scored.ties)
            placed = count_ranks(scores, targets)
            best = scores == scores.max(axis=1, keepdims=True)
            credit, ranks = accuracy(placed), reciprocal_rank(placed)
            for row, caption in enumerate(captions[queries].tolist()):
                yield QueryResult(
                    run=scorer, query=split.captions[caption], split=split.name, image_set=gallery.name,
                    kind=kinds[gallery.name], text=split.texts[caption],
                    targets=tuple(split.images[images[one]] for one in np.flatnonzero(targets[row])),
                    picks=tuple(split.images[images[one]] for one in np.flatnonzero(best[row])),
                    accuracy=float(credit[row]), reciprocal_rank=float(ranks[row]), above=int(placed.above[row]),
                    level=int(placed.level[row]), tokens=len(split.texts[caption].split()),
                )  # fmt: skip


def trec_files(splits: Sequence[GallerySplit], rankings: Sequence[QueryRanking]) -> dict[str, str]:
    """Files for trec_eval by name: `trec/ir` (captions ask), `trec/tr` (pictures ask)."""
    lines: dict[str, list[str]] = {}
    for split in splits:
        for caption, image in split.written:
            ends = split.captions[caption], split.images[image]
            lines.setdefault("trec/ir/qrels.txt", []).append(qrel(*ends))
            lines.setdefault("trec/tr/qrels.txt", []).append(qrel(*ends[::-1]))
    for row in rankings:
        name = f"trec/{'ir' if row.asks == 'image' else 'tr'}/{plain_name(row.scorer)}.txt"
        lines.setdefault(name, []).extend(trec_ranking(row.scorer, row.query, row.candidates, row.scores))
    return {name: "".join(rows) for name, rows in lines.items()}


COCO_TEST = 5000
"""Pictures of COCO's published test split; COCO 1K searches five parts in its order."""


Recalls = dict[str, RatioColumn]
"""Measures of queries, by name; a query is drawn again with the picture that it is, or was written for."""


def recall_columns(
    split: GallerySplit, scores: Vectors | Matrix, recalls: Sequence[int], trec: bool = False
) -> Recalls:
    """`TR@k` and `IR@k` that are not `pointless`, COCO's `1K` ones, with `trec` trec_eval's."""
    condensed, parts = split.condensed(scores), dict[str, list[RatioColumn]]()
    for gallery in split.parts:
        images, owners = gallery.images, split.first_owners[gallery.captions]
        part, own = condensed.part(images, gallery.captions), np.searchsorted(images, owners)
        written = from_pairs(own, np.arange(len(own)))
        if trec:
            for direction, one, relevant, of in (
                ("TR", part, written, images[written.queries]),
                ("IR", part.turned(), written.turned(), owners),
            ):
                for measure, values in trec_of_pairs(one, relevant, recalls, RANKED).items():
                    parts.setdefault(f"TREC {direction} {measure}", []).append(even_column(of, values))
        of_coco = is_coco_test(split.split, [split.images[image] for image in images])
        for folds, name in ((1, ""), (5, "1K ")) if of_coco else ((1, ""),):
            both = retrieval.caption_retrieval(part, own, folds, recalls)
            means = both.means() if len(split.galleries) == 1 else {}
            # pictures come fold by fold, and folds in the order of pictures
            for direction, of, values in (("TR", images[np.unique(own)], both.tr), ("IR", owners, both.ir)):
                for index, k in enumerate(both.ks):
                    if (measure := f"{direction}@{k}") not in pointless(split, both.ks, folds):
                        column = even_column(of, values[:, index], means.get(measure))
                        parts.setdefault(name + measure, []).append(column)
    return {
        measure: listed[0]
        if len(listed) == 1
        else even_column(np.concatenate([one.rows for one in listed]), np.concatenate([one.values for one in listed]))
        for measure, listed in parts.items()
    }


def pointless(split: GallerySplit, recalls: Sequence[int], folds: int = 1) -> list[str]:
    """The `TR@k` and `IR@k`, k > 1, that can only be 1: no gallery has more than k to find."""
    sizes = {"TR": split.largest["caption"], "IR": split.largest["picture"]}
    return [f"{direction}@{k}" for direction, size in sizes.items() for k in recalls if k > 1 and k * folds >= size]


def pointless_note(split: GallerySplit, recalls: Sequence[int]) -> list[str]:
    """A sentence about the measures left out as `pointless`, if any."""
    if not (measures := pointless(split, recalls)):
        return []
    are, they = ("is", "it") if len(measures) == 1 else ("are", "they")
    sizes = " or ".join(plural(size, what, form=",") for what, size in split.largest.items())
    return [
        f"{split.name}: {', '.join(measures)} {are} left out: no gallery has more than {sizes}, so {they} would be 100.0"
    ]


def is_coco_test(split: str, images: Sequence[str]) -> bool:
    """Whether a gallery is COCO's test split as published: 5,000 pictures of val2014 in Karpathy's order, not by name.

    Parts of the same pictures in another order, and those of the 5,000 of val2017, are other figures than COCO 1K.

    >>> is_coco_test("test", ["test/COCO_val2014_000000391895.jpg"])
    False
    """
    names = [PurePosixPath(image).name for image in images]
    of_coco = all(name.startswith("COCO_val2014_") for name in names)
    return split == "test" and len(names) == COCO_TEST and of_coco and names != sorted(names)


def even_column(images: Codes, values: Doubles, value: float | None = None) -> RatioColumn:
    """A column whose queries count alike; each is drawn again with its picture."""
    return RatioColumn(images, values, np.ones(len(values)), value)


SEED_NOTE = "mean of TR and IR over the k that are printed; every other figure of such a run is the mean over its seeds"


_ASKED = "TR: a picture asks for its captions, IR: a caption for its picture"


def recall_tables(
    split: GallerySplit, figures: Sequence[Figure], by: str, sources: Mapping[str, str]
) -> dict[str, Table]:
    """Recall both ways, in five folds on COCO's test split, and by each of `sources` of truth; `by` is resampled."""
    own = [figure for figure in figures if figure.split == split.name]
    size = f"{plural(len(split.captions), 'caption', form=',')} of {plural(len(split.images), 'picture', form=',')}"
    galleries = f" in {len(split.galleries)} galleries, each searched by itself" if len(split.galleries) > 1 else ""
    interval = f"in brackets the 95 % bootstrap interval over {by}s"
    coco = f"COCO's {COCO_TEST:,} test pictures in five parts, in the published order, means over them; {interval}"
    titles = {
        "": ("recall", "recall", f"{size}{galleries}. {_ASKED}; {interval}"),
        "TREC": ("trec", f"MAP@{RANKED}, P@k and nDCG@k", f"as trec_eval defines them; {_ASKED}; {interval}"),
        "1K": ("1k", "COCO 1K, recall in five folds", coco),
    }
    for key, name in sources.items():
        titles[name] = (key, f"by {name}", f"queries about which {name} says something; {_ASKED}; {interval}")
    begun = [(figure.measure.partition(" ")[0], figure) for figure in own]
    by_prefix = grouped(("" if head[:3] in ("TR@", "IR@") else head, one) for head, one in begun)
    tables = {}
    for prefix, (key, title, note) in titles.items():
        if shown := by_prefix.get(prefix):
            cells = {(figure.run, figure.measure): percent(figure.interval) for figure in shown}
            measures = dict.fromkeys(figure.measure for figure in shown)
            heads = ("run", *(name.removeprefix(prefix).strip() for name in measures))
            runs = dict.fromkeys(figure.run for figure in own)
            rows = tuple((run, *(cells[run, name] for name in measures)) for run in runs)
            lacking = none_had([figure.interval for figure in shown])
            tables[key] = Table(f"{split.name}: {title}, %", heads, rows, note + lacking)
    return tables
