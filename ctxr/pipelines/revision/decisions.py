"""The decision of a round: classifier, probabilities in shards for resuming, threshold, caps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import EntailmentPair, choosing
from ctxr.datasets.rounds import Base, Reason, Round, ThresholdFrom
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError, UsageError, did_you_mean
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.metrics.votes import Doubles
from ctxr.models.encoders import Encoder
from ctxr.models.entailment.base import Claim, Judge
from ctxr.pipelines.revision.candidates import Candidates, PairMiner
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.problems.embeddings import cached
from ctxr.problems.entailment import classifiers
from ctxr.problems.entailment.pairs import classifiers_in
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import CLASSIFIERS
from ctxr.store.tables import read_table

RECIPE = "ctxr train --recipe entailment"


def find_classifier(config: ReviseLabels) -> str:
    """The folder of the classifier; "" where none was named and the project has none.

    Raises UsageError where it has several, or none of the name.
    """
    home, finished = config.workdir / CLASSIFIERS, classifiers_in(config.workdir)
    if config.classifier:
        inside = home / config.classifier
        if not inside.is_dir() and not Path(config.classifier).is_dir():
            names = (
                f"the classifiers are {', '.join(finished)}" if finished else f"no classifier is finished yet: {RECIPE}"
            )
            raise UsageError(
                f"there is no classifier {config.classifier!r} in {config.workdir}",
                hint=f"{did_you_mean(config.classifier, finished)} {names}".strip(),
            )
        return str(inside) if inside.is_dir() else config.classifier
    if len(finished) > 1:
        raise UsageError(
            f"{config.workdir} holds {len(finished)} classifiers of entailment: {', '.join(finished)}",
            hint=f"--classifier {finished[0]}",
        )
    return str(home / finished[0]) if finished else ""


def open_classifier(config: ReviseLabels) -> "Judge":
    """The classifier of a configuration. Raises as `classifiers.open_classifier`, and UnfinishedError without one."""
    named = find_classifier(config)
    if not named:
        raise UnfinishedError(f"{config.workdir} holds no classifier of entailment", hint=RECIPE)
    return classifiers.open_classifier(named, config.device)


SHARD = 256
"""Claims between two writes: the most that a killed run loses."""


@dataclass(frozen=True)
class ChosenThreshold:
    """The lowest probability of a pair that counts as entailed, how it was chosen, and its precision and recall on dev: on `called`
    pairs at or above it, with the exact interval of its precision."""

    value: float
    chosen_by: ThresholdFrom
    wanted: float | None = None
    precision: float | None = None
    recall: float | None = None
    called: int | None = None
    precision_low: float | None = None
    precision_high: float | None = None


class Premise(NamedTuple):
    """A picture as SHA-256 and file, and the captions written for it, joined by blanks; "" and None for a text alone."""

    content: str
    text: str
    file: Path | None


def probabilities(
    classifier: "Judge",
    pools: Sequence[Candidates],
    premises: Mapping[str, Premise],
    hypotheses: Mapping[str, str],
    workdir: Path,
    *,
    progress: Progress,
) -> list[Doubles]:
    """The probability that each candidate is entailed, [N] for each pool. Results of the same weights are read from the cache.

    Args:
        premises: by image. hypotheses: text of each caption, by query.
    """
    claims = [
        (premises[pool.gallery.images[image]], hypotheses[pool.gallery.captions[caption]])
        for pool in pools
        for image, caption in zip(pool.images.tolist(), pool.captions.tolist(), strict=True)
    ]
    judged = _judged(classifier, claims, workdir, "judging candidates", progress)
    return np.split(judged, np.cumsum([len(pool) for pool in pools])[:-1]) if pools else []


def _judged(
    classifier: "Judge", claims: Sequence[tuple[Premise, str]], workdir: Path, label: str, progress: Progress
) -> Doubles:
    def make(part: slice) -> npt.NDArray[np.float32]:
        batch = [Claim(premise.text, premise.file, hypothesis) for premise, hypothesis in claims[part]]
        values = np.asarray(classifier.probabilities(batch), np.float32)
        if values.shape != (len(batch),) or not ((values >= 0) & (values <= 1)).all():
            raise DataError(f"the classifier {classifier.name} returns values outside 0..1", hint="train it again")
        return values

    origin = {"what": "entailed", "classifier": classifier.fingerprint}
    keys = [sha256_of((premise.content, premise.text, hypothesis)) for premise, hypothesis in claims]
    with progress.task(label, len(keys)) as task:
        parts = cached(workdir, origin, keys, make, task.advance, chunk=SHARD)
    return np.concatenate([np.zeros(0), *parts])


def choose_threshold(config: ReviseLabels, base: Base, classifier: "Judge", progress: Progress) -> ChosenThreshold:
    """The threshold: as given, or the lowest that reaches the precision wanted on dev, or the classifier's.

    Of dev, pairs of split valid or without a split that also choose the threshold in training are used. Raises DataError where
    the pictures of all dev pairs are missing, or no threshold reaches the precision.
    """
    dataset, wanted = base.dataset, config.precision
    if config.threshold is not None:
        return ChosenThreshold(config.threshold, "given")
    if wanted is None:
        return ChosenThreshold(classifier.threshold, "classifier")
    dev = config.dev or (base.path / "pairs.jsonl" if "pairs.jsonl" in (base.tables or {}) else None)
    if dev is None:
        raise DataError(
            f"{dataset.name} has no pairs to choose a threshold on",
            hint="--dev PAIRS.jsonl, or --threshold P, or leave --precision out for the classifier's own",
        )
    pairs = [pair for pair in read_table(dev, EntailmentPair) if pair.split in (None, "valid")]
    usable = [pair for pair in pairs if pair.hypothesis and pair.kind != "none" and _has_picture(pair, dataset)]
    if len(usable) < len(pairs):
        progress.warn(f"{len(pairs) - len(usable)} of {len(pairs)} pairs of dev lack their picture or text: left out")
    if not usable:
        raise DataError(f"{dev} has no dev pair with a picture", hint="--threshold P")
    usable = choosing(usable)
    claims = []
    for pair in usable:
        image = None if pair.image is None else dataset.images[pair.image]
        content, file = ("", None) if image is None else (image.sha256, dataset.picture(image))
        claims.append((Premise(content, pair.premise or "", file), pair.hypothesis or ""))
    judged = _judged(classifier, claims, config.workdir, "judging dev", progress)
    best = threshold_for(np.array([pair.label == 1 for pair in usable]), judged, wanted)
    if best is None:
        raise DataError(
            f"no threshold of {classifier.name} reaches a precision of {wanted:g} on the {len(usable)} pairs of dev",
            hint="--precision with a lower share, or a better classifier",
        )
    if best.called < FEW_CALLED:
        progress.warn(f"on dev {best.weakness()}")
    low, high = best.precision.low, best.precision.high
    return ChosenThreshold(best.value, "dev", wanted, best.precision.value, best.recall, best.called, low, high)


def _has_picture(pair: EntailmentPair, dataset: Dataset) -> bool:
    if pair.image is None:
        return True
    image = dataset.images.get(pair.image)
    file = None if image is None else dataset.picture(image)
    return file is not None and file.is_file()


def decide(
    pool: Candidates, probability: Doubles, edge: float, per_image: int, per_caption: int
) -> list[Reason | None]:
    """Why each candidate is rejected, [N], None where it is added: entailed ones are added by descending probability until a
    picture or a caption reaches its cap (0: no cap). Ties are ordered by score, then by position."""
    reasons: list[Reason | None] = ["below_threshold"] * len(pool)
    images = np.zeros(len(pool.gallery.images), np.int64)
    captions = np.zeros(len(pool.gallery.captions), np.int64)
    entailed = np.flatnonzero(probability >= edge)
    order = entailed[np.lexsort((entailed, -pool.scores[entailed], -probability[entailed]))]
    for row in order.tolist():
        image, caption = int(pool.images[row]), int(pool.captions[row])
        if per_image and images[image] >= per_image:
            reasons[row] = "cap_image"
        elif per_caption and captions[caption] >= per_caption:
            reasons[row] = "cap_caption"
        else:
            reasons[row] = None
            images[image] += 1
            captions[caption] += 1
    return reasons


def on_top(
    config: ReviseLabels,
    before: Sequence[Round],
    settings: Mapping[str, Any],
    encoder: "Encoder | PairMiner",
    classifier: "Judge",
    *,
    edge: ChosenThreshold,
) -> str:
    """A note that earlier rounds stay active, and how the new one differs from the latest of them.

    Args:
        settings: the key of the latest; empty in older rounds.
    """
    last, key = before[-1], config.key()
    differ = [
        f"--{name.replace('_', '-')} ({was}, now {key[name]})" for name, was in settings.items() if was != key[name]
    ]
    changes = (
        ("--by", last.by, encoder.name, last.by_fingerprint != encoder.fingerprint),
        ("the classifier", last.classifier, classifier.name, last.classifier_fingerprint != classifier.fingerprint),
        ("the threshold", f"{last.threshold:.6g}", f"{edge.value:.6g}", last.threshold != edge.value),
    )
    differ += [f"{what} ({was}, now {now})" for what, was, now, other in changes if other]
    several = len(before) > 1
    numbers = _listed([str(one.number) for one in before])
    stays = f"rounds {numbers} stay" if several else f"round {numbers} stays"
    why = f"round {last.number} was made on top of others"
    if differ:
        why = f"{_listed(differ)} {'differ' if len(differ) > 1 else 'differs'}"
        why += f" from round {last.number}" if several else ""
    return f"{stays} active; a new round is added, since {why}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
