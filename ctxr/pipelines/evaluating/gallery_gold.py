"""Gold labels for Entail@K beside the drawn truth: what ECCV and CxC list, and what people answered about pairs.

Neither looked at every pair, and a pair without a row was not looked at: the figures are bounds, with the share that was.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ctxr.data.dataset import Dataset
from ctxr.data.readers.entailment import THRESHOLD, Rated
from ctxr.data.records import Judgment
from ctxr.data.weak_positives import Pair
from ctxr.metrics.entail_at import Entailed
from ctxr.metrics.relations import Numbered, Relation, from_pairs
from ctxr.pipelines.evaluating.gallery_audit import UNIT, HumanLabels, decided
from ctxr.pipelines.evaluating.gallery_truth import PUBLISHED, Labels, coco_places
from ctxr.pipelines.training.gallery_sides import GallerySplit

Places = list[tuple[int, int]]


def gold_of(
    dataset: Dataset,
    side: GallerySplit,
    truths: Mapping[str, tuple[Numbered, Numbered]],
    rated: Sequence[Rated],
    more: Sequence[Judgment],
    people: HumanLabels,
) -> list[Labels]:
    """Labels by ECCV and CxC, and by people, each about the pictures of which they say something.

    Args:
        truths: as `gallery_truth.published`. rated: CxC's similarities. more: judgments beside those of the dataset.
    """
    found = []
    for name, title in PUBLISHED.items():
        held = _listed(*truths[name]) if name in truths else []
        rows = _rated(side, rated) if name == "cxc" else []
        held += [pair for pair, rating in rows if rating >= THRESHOLD]
        looked = held + [pair for pair, _ in rows]
        of = "listed or rated" if rows else "listed"
        source = f"{len(set(held)):,} pairs hold of {len(set(looked)):,} that are {of}"
        found.append(_labels(side, held, looked, source, title, only_right=not rows))
    said = people_said(dataset, side, more, people)
    yes = [pair for pair, entailed in said.items() if entailed]
    found.append(
        _labels(side, yes, list(said), f"{len(yes):,} pairs hold of {len(said):,} that were looked at", "people")
    )
    return [one for one in found if one is not None]


def people_said(
    dataset: Dataset, side: GallerySplit, more: Sequence[Judgment], people: HumanLabels
) -> dict[tuple[int, int], bool]:
    """What people make of pairs (picture, caption) of a side, by place: majorities, and what audits found; ties say nothing."""
    images = {image: place for place, image in enumerate(side.images)}
    captions = {caption: place for place, caption in enumerate(side.captions)}
    judgments = [*dataset.judgments, *more]
    pairs = {(row.query, row.candidate) for row in judgments} | people.looked.keys()
    pairs |= set(_units([*judgments, *people.answers], images, captions))
    about = {(caption, image): True for caption, image in pairs if caption in captions and image in images}
    told = decided(about, judgments, people)
    return {(images[image], captions[caption]): entailed for (caption, image), entailed in told.items()}


def _units(rows: Iterable[Judgment], images: Mapping[str, int], captions: Mapping[str, int]) -> Iterable[Pair]:
    """The pairs that units are about; both ids may hold slashes, so the known ones say where the first ends."""
    for unit in dict.fromkeys(row.query for row in rows if row.query.startswith(UNIT)):
        parts = unit.removeprefix(UNIT).split("/")
        for cut in range(1, len(parts)):
            image, caption = "/".join(parts[:cut]), "/".join(parts[cut:])
            if image in images and caption in captions:
                yield caption, image


def _listed(to_caption: Numbered, to_image: Numbered) -> Places:
    """(picture, caption) of both directions."""
    pairs = to_caption.relation.joined(to_image.relation.turned()).pairs()
    return list(zip(*(column.tolist() for column in pairs), strict=True))


def _rated(side: GallerySplit, rated: Sequence[Rated]) -> list[tuple[tuple[int, int], float]]:
    images, captions = coco_places(side)
    return [
        ((images[image], captions[caption]), rating)
        for one in rated if one.kind == "SITS"
        for caption, image, rating in one.pairs if image in images and caption in captions
    ]  # fmt: skip


def _labels(
    side: GallerySplit, held: Places, looked: Places, source: str, by: str, only_right: bool = False
) -> Labels | None:
    if not looked:
        return None
    written = _relation([(image, caption) for caption, image in side.written])
    judged = _relation(looked)
    return Labels(
        Entailed(written, _relation(held), "gold", judged),
        f"{source}, of {len(judged):,} pictures",
        asked=judged.queries,
        by=by,
        only_right=only_right,
    )


def _relation(pairs: Places) -> Relation:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return from_pairs(table[:, 0], table[:, 1])
