"""What holds in a gallery, and who says so: the drawn truth, a classifier's rounds with their audit, CxC and ECCV."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ctxr.data.caption_truth import CaptionTruth
from ctxr.data.dataset import Dataset
from ctxr.data.entailment import published_image
from ctxr.data.readers.entailment import read_positives
from ctxr.data.records import Judgment
from ctxr.data.tables import read_table
from ctxr.data.weak_positives import WORKER, Pair, verdicts
from ctxr.errors import DataError, UsageError
from ctxr.metrics.entail_at import Entailed
from ctxr.metrics.poststratified import Sampled
from ctxr.metrics.relations import Numbered, Relation, number, relate
from ctxr.metrics.stratified import Part
from ctxr.metrics.votes import Codes, Flags
from ctxr.pipelines.evaluating.gallery_audit import HumanLabels, decided, rounds_in_force, rows_of
from ctxr.pipelines.evaluating.gallery_strata import parts_of, sampled_of, strata_of
from ctxr.pipelines.revising.rounds import LEDGER
from ctxr.pipelines.training.gallery_sides import GallerySplit

TRUTH = "truth.jsonl"

PUBLISHED = {"cxc": "CxC", "eccv": "ECCV"}
"""Ground truths of COCO's test captions, by how their files `NAME_image_to_caption.json` and `NAME_caption_to_image.json` begin."""


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of the pairs of a side, by place.

    Attributes:
        entailed: who says so is in it. source: in words. leaked: [I] pictures that the classifier was trained on; None where
            nobody knows. audit: the strata of pairs that the classifier judged, with what people said of each; none where no
            sample was looked at.
        audited: of how many pairs people said something. elsewhere: whether none of them is of this side.
        sampled: the judged pairs by the strata of an audit.
        asked: places of the pictures that are counted, ascending; None: all.
        by: whose labels these are, where that is neither the drawn truth nor a classifier. only_right: they never say no.
    """

    entailed: Entailed
    source: str
    leaked: Flags | None = None
    audit: tuple[Part, ...] = ()
    audited: int = 0
    asked: Codes | None = None
    by: str = ""
    only_right: bool = False
    elsewhere: bool = False
    sampled: Sampled | None = None


class _Link(msgspec.Struct):
    image: str
    leaked: bool = False


def labels_of(
    dataset: Dataset,
    side: GallerySplit,
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
    written = _relation(side.written, turned=True)
    found = []
    truth = None if dataset.root is None else dataset.root / TRUTH
    if truth is not None and truth.is_file():
        held = _places(side, ((row.caption, image) for row in read_table(truth, CaptionTruth) for image in row.holds))
        found.append(Labels(Entailed(written, _relation(held, turned=True), "gold"), "truth of the drawn world"))
    judgments = [*dataset.judgments, *more]
    said = verdicts(judgments)
    judged = _places(side, said)
    if judged:
        held = _places(side, (pair for pair, yes in said.items() if yes))
        entailed = Entailed(written, _relation(held, turned=True), "classifier", judged=_relation(judged, turned=True))
        workers = sorted({row.worker for row in judgments if row.worker.startswith(WORKER)})
        roots = [one for one in (root, dataset.root) if one is not None]
        checked = _checked(side, said, judgments, people or HumanLabels(), roots)
        found.append(Labels(entailed, ", ".join(workers), _leaked(roots, side), **vars(checked)))
    return found


def published(folder: Path, dataset: Dataset, side: GallerySplit) -> dict[str, tuple[Numbered, Numbered]]:
    """The ground truths in a folder, by name: (captions of pictures, pictures of captions); those about no picture here are left out.

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
    there = {name: pair for name, pair in files.items() if pair[0].is_file() and pair[1].is_file()}
    if not there and not next(folder.glob("*.csv"), None):
        raise DataError(
            f"{folder} holds neither {files['cxc'][0].name} nor {files['eccv'][0].name} with its other direction",
            hint="name the folder with the ground truth of eccv_caption",
        )
    images, captions = coco_places(side)
    found = {}
    for name, (to_caption, to_image) in there.items():
        both = number(read_positives(to_caption), images, captions), number(read_positives(to_image), captions, images)
        if len(both[0].relation) and len(both[1].relation):
            found[name] = both
    return found


def coco_places(side: GallerySplit) -> tuple[dict[str, int], dict[str, int]]:
    """Places of pictures and of captions by their COCO ids: the number in the name of a file, and the one that ends a caption's id.

    Only pictures that bear COCO's names count, and captions of such: the numbers of Flickr30K's pictures and sentences, or of an
    album, would be those of others.
    """
    images = {}
    for place, image in enumerate(side.images):
        found = published_image(image)
        if found is not None and found.startswith("coco/"):
            images[found] = place
    coco = set(images.values())
    of_coco = {caption for caption, image in side.written if image in coco}
    return images, {
        f"coco/{caption.rpartition('/')[2]}": place for place, caption in enumerate(side.captions) if place in of_coco
    }


def _places(side: GallerySplit, pairs: Iterable[Pair]) -> list[tuple[int, int]]:
    """(caption, picture) by place, of those that are on the side."""
    images = {image: place for place, image in enumerate(side.images)}
    captions = {caption: place for place, caption in enumerate(side.captions)}
    return [(captions[one], images[other]) for one, other in pairs if one in captions and other in images]


def _relation(pairs: Iterable[tuple[int, int]], turned: bool) -> Relation:
    """Pictures to their captions where `turned`, else captions to their pictures."""
    lists: dict[int, list[int]] = {}
    for caption, image in pairs:
        query, candidate = (image, caption) if turned else (caption, image)
        lists.setdefault(query, []).append(candidate)
    return relate(lists)


@dataclass(frozen=True, eq=False)
class _Checked:
    audit: tuple[Part, ...]
    audited: int
    elsewhere: bool
    sampled: Sampled | None


def _checked(
    side: GallerySplit,
    said: Mapping[Pair, bool],
    judgments: Sequence[Judgment],
    people: HumanLabels,
    roots: Sequence[Path],
) -> _Checked:
    """What people said of the sample of pairs that the classifier judged, by its strata."""
    strata = strata_of(roots) if people.strata else {}
    known = decided(said, judgments, people)
    images, captions = set(side.images), set(side.captions)
    here = {pair: yes for pair, yes in known.items() if pair[0] in captions and pair[1] in images}
    count, elsewhere = len(here or known), bool(known) and not here
    parts = parts_of(known, people)
    if not parts:
        return _Checked((), count, elsewhere, None)
    # also of pairs that a cap left out, which are not among the judged
    everyone = decided({**said, **dict.fromkeys([*strata, *people.strata], False)}, judgments, people)
    return _Checked(parts, count, elsewhere, sampled_of(side, strata, everyone, people))


def _leaked(roots: Sequence[Path], side: GallerySplit) -> Flags | None:
    """Which pictures the ledgers of the rounds in force call trained on; None where no ledger is about any picture here."""
    known: dict[str, bool] = {}
    for folder in rounds_in_force(roots):
        if (folder / LEDGER).is_file():
            for row in rows_of(folder / LEDGER, _Link):
                # another copy of a published picture is known by the published id, a picture of the ledger by its own
                for name in {row.image, published_image(row.image) or row.image}:
                    known[name] = known.get(name, False) or row.leaked
    images = [image if image in known else published_image(image) or image for image in side.images]
    if not known.keys() & set(images):
        return None
    return np.array([known.get(image, False) for image in images])
