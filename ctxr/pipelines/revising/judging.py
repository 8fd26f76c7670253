"""What the classifier says of candidates: probabilities in shards that survive a kill, a threshold, decisions within caps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.data.dataset import Dataset
from ctxr.data.entailment import EntailmentPair, choosing, seen_pictures
from ctxr.data.hashing import sha256_of
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.revising.mining import Candidates
from ctxr.pipelines.revising.records import ThresholdFrom
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.caches import cached

if TYPE_CHECKING:
    from ctxr.models.entailment.base import Classifier

SHARD = 256
"""Claims judged between two writes, and the most that a kill costs."""

ADDED, BELOW, CAP_IMAGE, CAP_CAPTION = range(4)
"""Decisions in `decide`."""

Verdicts = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Premises:
    """What is known of pictures before anything is mined.

    Attributes:
        texts: all captions that were written for a picture, joined by blanks, by image. files: of the picture. contents: its
            SHA-256. hypotheses: text of each caption, by query.
    """

    texts: Mapping[str, str]
    files: Mapping[str, Path]
    contents: Mapping[str, str]
    hypotheses: Mapping[str, str]


@dataclass(frozen=True)
class ChosenThreshold:
    """The probability from which on a pair counts as entailed, who chose it, and what it came to on dev: on `called` pairs at or
    above it, with the exact interval of its precision."""

    value: float
    chosen_by: ThresholdFrom
    wanted: float | None = None
    precision: float | None = None
    recall: float | None = None
    called: int | None = None
    precision_low: float | None = None
    precision_high: float | None = None


def probabilities(
    classifier: "Classifier", pools: Sequence[Candidates], premises: Premises, workdir: Path, talk: Talk
) -> list[Doubles]:
    """That each candidate is entailed, [N] in 0..1 for each pool. What was judged before, by the same weights, is not again."""
    asked = [
        (pool.gallery.images[image], pool.gallery.captions[caption])
        for pool in pools
        for image, caption in zip(pool.images.tolist(), pool.captions.tolist(), strict=True)
    ]
    claims = [
        _Claim(
            premises.contents[image], premises.texts.get(image, ""), premises.files[image], premises.hypotheses[caption]
        )
        for image, caption in asked
    ]
    found = _judged(classifier, claims, workdir, "judging candidates", talk)
    return np.split(found, np.cumsum([len(pool) for pool in pools])[:-1]) if pools else []


class _Claim(NamedTuple):
    """SHA-256 and file of a picture with what is written of it, and what they are to entail."""

    content: str
    text: str
    file: Path | None
    hypothesis: str


def _judged(classifier: "Classifier", claims: Sequence[_Claim], workdir: Path, label: str, talk: Talk) -> Doubles:
    from ctxr.models.entailment.base import Claim

    def make(part: slice) -> npt.NDArray[np.float32]:
        asked = [Claim(one.text, one.file, one.hypothesis) for one in claims[part]]
        found = np.asarray(classifier.probabilities(asked), np.float32)
        if found.shape != (len(asked),) or not ((found >= 0) & (found <= 1)).all():
            raise DataError(f"the classifier {classifier.name} gives what is no probability", hint="train it again")
        return found

    made_by = {"what": "entailed", "classifier": classifier.fingerprint}
    keys = [sha256_of((one.content, one.text, one.hypothesis)) for one in claims]
    with talk.progress(label, len(keys)) as task:
        parts = cached(workdir, made_by, keys, make, task.advance, SHARD)
    return np.concatenate([np.zeros(0), *parts])


def choose_edge(
    threshold: float | None,
    wanted: float | None,
    dev: Path | None,
    classifier: "Classifier",
    dataset: Dataset,
    workdir: Path,
    talk: Talk,
) -> ChosenThreshold:
    """The threshold: as given, or the lowest that reaches the `wanted` precision on dev, or the classifier's own.

    Args:
        dev: table of pairs; of those of split valid or none the ones count that choose the threshold in training.

    Raises DataError where dev has no pair whose picture is at hand, or no threshold reaches the precision.
    """
    if threshold is not None:
        return ChosenThreshold(threshold, "given")
    if wanted is None:
        return ChosenThreshold(classifier.threshold, "classifier")
    if dev is None:
        raise DataError(
            f"{dataset.name} has no pairs to choose a threshold on",
            hint="--dev PAIRS.jsonl, or --threshold P, or leave --precision out for the classifier's own",
        )
    pairs = [pair for pair in read_table(dev, EntailmentPair) if pair.split in (None, "valid")]
    usable = [pair for pair in pairs if pair.hypothesis and pair.kind != "none" and _is_at_hand(pair, dataset)]
    if len(usable) < len(pairs):
        talk.warn(f"{len(pairs) - len(usable)} of {len(pairs)} pairs of dev lack their picture or text: left out")
    if not usable:
        raise DataError(f"{dev} has no pair of dev whose picture is at hand", hint="--threshold P")
    usable = choosing(usable)
    claims = []
    for pair in usable:
        image = None if pair.image is None else dataset.images[pair.image]
        content, file = ("", None) if image is None else (image.sha256, dataset.picture(image))
        claims.append(_Claim(content, pair.premise or "", file, pair.hypothesis or ""))
    found = _judged(classifier, claims, workdir, "judging dev", talk)
    best = threshold_for(np.array([pair.label == 1 for pair in usable]), found, wanted)
    if best is None:
        raise DataError(
            f"no threshold of {classifier.name} reaches a precision of {wanted:g} on the {len(usable)} pairs of dev",
            hint="--precision with a lower share, or a better classifier",
        )
    if best.called < FEW_CALLED:
        talk.warn(f"on dev {best.weakness()}")
    low, high = best.precision.low, best.precision.high
    return ChosenThreshold(best.value, "dev", wanted, best.precision.value, best.recall, best.called, low, high)


def _is_at_hand(pair: EntailmentPair, dataset: Dataset) -> bool:
    if pair.image is None:
        return True
    image = dataset.images.get(pair.image)
    file = None if image is None else dataset.picture(image)
    return file is not None and file.is_file()


def decide(pool: Candidates, probability: Doubles, edge: float, per_image: int, per_caption: int) -> Verdicts:
    """What becomes of each candidate, [N] codes: entailed ones are added, the surest first, until a picture or a caption has
    its fill (0: no cap). Equally sure ones by their score, then as they stand."""
    verdicts = np.full(len(pool), BELOW, np.int8)
    images = np.zeros(len(pool.gallery.images), np.int64)
    captions = np.zeros(len(pool.gallery.captions), np.int64)
    entailed = np.flatnonzero(probability >= edge)
    order = entailed[np.lexsort((entailed, -pool.scores[entailed], -probability[entailed]))]
    for row in order.tolist():
        image, caption = int(pool.images[row]), int(pool.captions[row])
        if per_image and images[image] >= per_image:
            verdicts[row] = CAP_IMAGE
        elif per_caption and captions[caption] >= per_caption:
            verdicts[row] = CAP_CAPTION
        else:
            verdicts[row] = ADDED
            images[image] += 1
            captions[caption] += 1
    return verdicts


def leaked_images(dataset: Dataset, images: Sequence[str], trained_on: frozenset[str]) -> list[str]:
    """Those of the images that the classifier was trained on, or chosen by: by id, published id or content."""
    return seen_pictures([(name, dataset.images[name].sha256) for name in images], trained_on)
