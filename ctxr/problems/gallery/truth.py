"""The labels of a gallery by source: the drawn truth, rounds with their audits, CxC, ECCV, people.

No source judged every pair, and a pair without a row was not judged: figures are bounds, with the judged share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import published_image
from ctxr.datasets.readers.entailment import THRESHOLD
from ctxr.datasets.readers.relevance import RatedPairs, read_positives
from ctxr.datasets.rounds import LEDGER, STRATA, CandidateRow, stratum_of
from ctxr.datasets.truth import WORKER, CaptionTruth, Pair
from ctxr.errors import DataError, UsageError
from ctxr.metrics.entail_at import PairLabels
from ctxr.metrics.retrieval import Relation, from_pairs, number
from ctxr.metrics.stratified import SampledPairs, Stratum
from ctxr.metrics.votes import Codes, Flags
from ctxr.problems.galleries import GallerySplit
from ctxr.problems.verdicts import UNIT, HumanLabels, decided, rounds_in_force, verdicts_of
from ctxr.store.records import Judgment
from ctxr.store.tables import grouped, read_table


def sampled_of(
    split: GallerySplit, strata: Mapping[Pair, str], labels: Mapping[Pair, bool], people: HumanLabels
) -> SampledPairs | None:
    """The judged pairs of the split with human verdicts; None without an audited stratum."""
    images, captions = split.image_index, split.caption_index
    written = {(split.captions[caption], split.images[image]) for caption, image in split.written}
    pairs = [pair for pair in strata if pair[0] in captions and pair[1] in images and pair not in written]
    code = {name: number for number, name in enumerate(sorted({strata[pair] for pair in pairs}))}
    tallies = np.zeros((len(code), 2))
    for pair, entailed in labels.items():
        stratum = people.strata.get(pair)
        if stratum is not None and stratum.name in code and strata.get(pair) == stratum.name:
            tallies[code[stratum.name]] += (1, entailed)
    if not tallies.any():
        return None
    return SampledPairs(
        np.array([images[image] for _, image in pairs], np.int64),
        np.array([captions[caption] for caption, _ in pairs], np.int64),
        np.array([code[strata[pair]] for pair in pairs], np.int64),
        np.array([int(labels.get(pair, -1)) for pair in pairs], np.int64),
        np.array([pair in people.strata and people.strata[pair].name == strata[pair] for pair in pairs], bool),
        tallies,
    )


TRUTH = "truth.jsonl"

PUBLISHED = {"cxc": "CxC", "eccv": "ECCV"}
"""Ground truths of COCO's test captions, by the first part of their files' names."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of the pairs of a split, by index.

    Attributes:
        entailed: with its source. source: in words. leaked: [I] pictures that the classifier was trained on; None where unknown.
            audit: the strata of pairs that the classifier judged, with the human verdicts on each; none without an audit.
        audited: number of pairs with human verdicts. elsewhere: none of them is of this split.
        sampled: the judged pairs by the strata of an audit.
        asked: places of the pictures that are counted, ascending; None: all.
        by: the source, unless it is the drawn truth or a classifier. only_right: whether the source lists positives only.
    """

    entailed: PairLabels
    source: str
    leaked: Flags | None = None
    audit: tuple[Stratum, ...] = ()
    audited: int = 0
    asked: Codes | None = None
    by: str = ""
    only_right: bool = False
    elsewhere: bool = False
    sampled: SampledPairs | None = None


def labels_of(
    dataset: Dataset,
    split: GallerySplit,
    more: Sequence[Judgment] = (),
    root: Path | None = None,
    people: HumanLabels | None = None,
) -> list[Labels]:
    """Gold labels where the truth of the drawn world lies beside the dataset, and those of a classifier where it judged pairs.

    Args:
        more: judgments beside those of the dataset. root: folder of the rounds, where `more` come from it.
        people: what they said elsewhere of pairs that the classifier judged (`people_of`).

    Raises DataError for a damaged table.
    """
    written, labels, people = _written(split), [], people or HumanLabels()
    truth = None if dataset.root is None else dataset.root / TRUTH
    if truth is not None and truth.is_file():
        holds = ((row.caption, image) for row in read_table(truth, CaptionTruth) for image in row.holds)
        entailed = PairLabels(written, _captions(_indices(split, holds)), "gold")
        labels.append(Labels(entailed, "truth of the drawn world"))
    judgments = [*dataset.judgments, *more]
    calls = verdicts_of(judgments, people).entailed
    if judged := _indices(split, calls):
        positives = _indices(split, (pair for pair, yes in calls.items() if yes))
        entailed = PairLabels(written, _captions(positives), "classifier", judged=_captions(judged))
        workers = sorted({row.worker for row in judgments if row.worker.startswith(WORKER)})
        roots = [one for one in (root, dataset.root) if one is not None]
        by_classifier = Labels(entailed, ", ".join(workers), _leaked(roots, split))
        labels.append(_checked(by_classifier, split, calls, judgments, people, roots=roots))
    return labels


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """Published labels both ways: the captions of pictures, and the pictures of captions."""

    captions: Relation
    images: Relation


def read_truths(folder: Path, split: GallerySplit) -> dict[str, GroundTruth]:
    """The ground truths in a folder, by name; those about no picture of the split are left out.

    Raises UsageError where there is no such folder, DataError for one that holds none, and no table of similarities (`*.csv`)
    either, and for damaged files.
    """
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}", hint="--positives names the folder with the ground truth of CxC or ECCV"
        )
    files = {
        name: (folder / f"{name}_image_to_caption.json", folder / f"{name}_caption_to_image.json") for name in PUBLISHED
    }
    complete = {name: pair for name, pair in files.items() if pair[0].is_file() and pair[1].is_file()}
    if not complete and not next(folder.glob("*.csv"), None):
        raise DataError(
            f"{folder} holds neither {files['cxc'][0].name} nor {files['eccv'][0].name} with its other direction",
            hint="name the folder with the ground truth of eccv_caption",
        )
    coco, truths = coco_indices(split), {}
    for name, (to_caption, to_image) in complete.items():
        captions = number(read_positives(to_caption), coco.images, coco.captions)
        images = number(read_positives(to_image), coco.captions, coco.images)
        if len(captions) and len(images):
            truths[name] = GroundTruth(captions, images)
    return truths


@dataclass(frozen=True)
class CocoIndices:
    """Places of pictures and of captions by their COCO ids."""

    images: Mapping[str, int]
    captions: Mapping[str, int]


def coco_indices(split: GallerySplit) -> CocoIndices:
    """The number in the name of a file is a picture's COCO id, the one that ends a caption's id is that of the caption.

    Only pictures that bear COCO's names count, and captions of such: the numbers of Flickr30K's pictures and sentences, or of an
    album, would be those of others.
    """
    names = enumerate(map(published_image, split.images))
    images = {name: index for index, name in names if name is not None and name.startswith("coco/")}
    coco = set(images.values())
    of_coco = {caption for caption, image in split.written if image in coco}
    captions = enumerate(split.captions)
    return CocoIndices(
        images, {f"coco/{name.rpartition('/')[2]}": index for index, name in captions if index in of_coco}
    )


Places = list[tuple[int, int]]
"""Pairs (picture, caption) by index."""


def _indices(split: GallerySplit, pairs: Iterable[Pair]) -> Places:
    images, captions = split.image_index, split.caption_index
    return [(images[other], captions[one]) for one, other in pairs if one in captions and other in images]


def _captions(pairs: Iterable[tuple[int, int]]) -> Relation:
    table = np.array(list(pairs), np.int64).reshape(-1, 2)
    return from_pairs(table[:, 0], table[:, 1])


def _written(split: GallerySplit) -> Relation:
    return _captions((image, caption) for caption, image in split.written)


def _checked(
    labels: Labels,
    split: GallerySplit,
    calls: Mapping[Pair, bool],
    judgments: Sequence[Judgment],
    people: HumanLabels,
    *,
    roots: Sequence[Path],
) -> Labels:
    """A classifier's labels with what people said of the sample of pairs that it judged, by its strata."""
    strata = {  # of the pairs that active rounds with a sample judged, by the latest such round
        (link.caption, link.image): f"{folder.name} {stratum_of(link)}"
        for folder in rounds_in_force(roots)
        if people.strata and (folder / LEDGER).is_file() and (folder / STRATA).is_file()
        for link in read_table(folder / LEDGER, CandidateRow)
    }
    votes = decided(calls, judgments, people)
    here = [pair for pair in votes if pair[0] in split.caption_index and pair[1] in split.image_index]
    labels = replace(labels, audited=len(here or votes), elsewhere=bool(votes) and not here)
    # all strata of the audited rounds, with the human verdicts on the pairs drawn there; none without verdicts
    seen = grouped((people.strata[pair].name, said) for pair, said in votes.items() if pair in people.strata)
    rounds = {name.partition(" ")[0] for name in seen}
    every = {one.name: one for one in people.strata.values() if one.name.partition(" ")[0] in rounds and one.judged}
    parts = tuple(
        Stratum(one.population, len(seen[name]), sum(seen[name]), one.called) for name, one in sorted(every.items())
    )
    if not parts:
        return labels
    # also of pairs that a cap left out, which are not among the judged
    everyone = decided({**calls, **dict.fromkeys([*strata, *people.strata], False)}, judgments, people)
    return replace(labels, audit=parts, sampled=sampled_of(split, strata, everyone, people))


def _leaked(roots: Sequence[Path], split: GallerySplit) -> Flags | None:
    """Pictures that ledgers of active rounds mark as leaked; None where no ledger has any."""
    leaks: dict[str, bool] = {}
    ledgers = [folder / LEDGER for folder in rounds_in_force(roots) if (folder / LEDGER).is_file()]
    for row in chain.from_iterable(read_table(ledger, CandidateRow) for ledger in ledgers):
        # another copy of a published picture is known by the published id, a picture of the ledger by its own
        for name in {row.image, published_image(row.image) or row.image}:
            leaks[name] = leaks.get(name, False) or row.leaked
    images = [image if image in leaks else published_image(image) or image for image in split.images]
    if not leaks.keys() & set(images):
        return None
    return np.array([leaks.get(image, False) for image in images])


def gold_of(
    dataset: Dataset,
    split: GallerySplit,
    truths: Mapping[str, GroundTruth],
    rated: Sequence[RatedPairs],
    more: Sequence[Judgment],
    *,
    people: HumanLabels,
) -> list[Labels]:
    """Labels by ECCV, CxC (`rated`: similarities) and people, of the pictures with labels."""
    labels, coco = [], coco_indices(split)
    for name, title in PUBLISHED.items():
        positives: Places = []
        if name in truths:
            both = truths[name].captions.joined(truths[name].images.turned()).pairs()
            positives += zip(*(column.tolist() for column in both), strict=True)
        rows = [
            ((coco.images[image], coco.captions[caption]), rating)
            for one in rated if name == "cxc" and one.kind == "SITS"
            for caption, image, rating in one.pairs if image in coco.images and caption in coco.captions
        ]  # fmt: skip
        positives += [pair for pair, rating in rows if rating >= THRESHOLD]
        examined = positives + [pair for pair, _ in rows]
        of = "listed or rated" if rows else "listed"
        source = f"{len(set(positives)):,} pairs hold of {len(set(examined)):,} that are {of}"
        labels += _labels(split, positives, examined, source, title, only_right=not rows)
    decisions = human_verdicts(dataset, split, more, people)
    yes = [pair for pair, entailed in decisions.items() if entailed]
    source = f"{len(yes):,} pairs hold of {len(decisions):,} that were judged"
    labels += _labels(split, yes, list(decisions), source, "people")
    return labels


def _labels(
    split: GallerySplit, positives: Places, examined: Places, source: str, by: str, *, only_right: bool = False
) -> list[Labels]:
    """Labels limited to the examined pictures; none where none was examined."""
    if not examined:
        return []
    judged = _captions(examined)
    entailed = PairLabels(_written(split), _captions(positives), "gold", judged)
    source = f"{source}, of {len(judged):,} pictures"
    return [Labels(entailed, source, asked=judged.queries, by=by, only_right=only_right)]


def human_verdicts(
    dataset: Dataset, split: GallerySplit, more: Sequence[Judgment], people: HumanLabels
) -> dict[tuple[int, int], bool]:
    """The human verdicts on pairs (picture, caption) of a split, by index: majorities and audits, without ties."""
    images, captions = split.image_index, split.caption_index
    judgments = [*dataset.judgments, *more]
    pairs = {(row.query, row.candidate) for row in judgments} | people.looked.keys()
    for unit in {row.query for row in (*judgments, *people.answers) if row.query.startswith(UNIT)}:
        # both ids may hold slashes, so the known ones say where the first ends
        parts = unit.removeprefix(UNIT).split("/")
        pairs |= {("/".join(parts[cut:]), "/".join(parts[:cut])) for cut in range(1, len(parts))}
    about = {(caption, image): True for caption, image in pairs if caption in captions and image in images}
    majorities = decided(about, judgments, people)
    return {(images[image], captions[caption]): entailed for (caption, image), entailed in majorities.items()}
