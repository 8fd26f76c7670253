"""The decision of a round: judges, probabilities in shards for resuming, threshold, caps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.datasets.pairs import EntailmentPair, choosing
from ctxr.datasets.rounds import Base, Reason, Round
from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.metrics.votes import Codes, Doubles
from ctxr.models.encoders import Encoder
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.judges.cascade import Cascade, Limits, Verdicts
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.models.judges.file import FileJudge
from ctxr.pipelines.revision.candidates import Candidates
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import ChosenThreshold
from ctxr.problems.embeddings import cached
from ctxr.store.hashing import sha256_of
from ctxr.store.tables import read_table

SHARD = 256
"""Claims between two writes: the most that a killed run loses."""


class Premise(NamedTuple):
    """A picture as SHA-256 and file, and the captions written for it, joined by blanks; "" and None for a text alone."""

    content: str
    text: str
    file: Path | None


def judge_pools(
    cascade: Cascade,
    limits: Limits,
    pools: Sequence[Candidates],
    premises: Mapping[str, Premise],
    hypotheses: Mapping[str, str],
    *,
    workdir: Path,
    progress: Progress,
) -> list[Verdicts]:
    """The verdicts on the candidates of each pool, with `limits` of the last judge. Results of the same judge are read from the cache.
    Raises DataError for a file that names none of the candidates, and where no candidate gets an answer."""
    claims = []
    for pool in pools:
        for row, column in zip(pool.images.tolist(), pool.captions.tolist(), strict=True):
            image, caption = pool.gallery.images[row], pool.gallery.captions[column]
            content, text, file = premises[image]
            claims.append((content, Claim(text, file, hypotheses[caption], (image, caption))))
    pairs = [claim.pair for _, claim in claims if claim.pair]
    for gaps in filter(None, [judge.gaps(pairs) for judge in cascade.judges if isinstance(judge, FileJudge)]):
        progress.warn(gaps)
    verdicts = _judged(cascade, limits, claims, workdir, "judging candidates", progress=progress)
    if claims and np.isnan(verdicts.probabilities).all():
        last = cascade.judges[-1]
        reply = f": {last.unanswered()}" if isinstance(last, EndpointJudge) else ""
        raise DataError(
            f"{last.name} answers for none of the {len(claims):,} candidates{reply}", hint="another --judge"
        )
    ends = np.cumsum([len(pool) for pool in pools])
    return [verdicts.part(slice(end - len(pool), end)) for pool, end in zip(pools, ends.tolist(), strict=True)]


def _judged(
    cascade: Cascade,
    limits: Limits,
    claims: Sequence[tuple[str, Claim]],
    workdir: Path,
    label: str,
    *,
    progress: Progress,
) -> Verdicts:
    """The verdicts on claims, each with the SHA-256 of its picture."""

    def ask(judge: Judge, rows: Codes) -> Doubles:
        left = [claims[row] for row in rows.tolist()]

        def make(part: slice) -> npt.NDArray[np.float32]:
            batch = [claim for _, claim in left[part]]
            values = np.asarray(judge.probabilities(batch), np.float32)
            if values.shape != (len(batch),) or ((values < 0) | (values > 1)).any():
                raise DataError(f"the judge {judge.name} returns values outside 0..1", hint="choose another --judge")
            return values

        # a file answers by ids, every other judge by content
        ids = [claim.pair or () if isinstance(judge, FileJudge) else () for _, claim in left]
        keys = [
            sha256_of((content, claim.premise, claim.hypothesis, *pair))
            for (content, claim), pair in zip(left, ids, strict=True)
        ]
        origin = {"what": "entailed", "classifier": judge.fingerprint}
        # who is paid is asked once: it resumes by what it wrote down, and shows every reply
        paid = judge.estimate(len(keys)) is not None
        shown, chunk = (Silent(), max(1, len(keys))) if paid else (progress, SHARD)
        with shown.task(label if len(cascade.judges) == 1 else f"{label}: {judge.name}", len(keys)) as task:
            return np.concatenate([np.zeros(0), *cached(workdir, origin, keys, make, task.advance, chunk=chunk)])

    return cascade.decide(ask, len(claims), limits)


def threshold_on_dev(
    config: ReviseLabels, base: Base, dev: Path, cascade: Cascade, *, wanted: float, progress: Progress
) -> ChosenThreshold:
    """The lowest threshold that reaches a precision on the pairs of `dev`. Raises what `choose_threshold` raises."""
    dataset = base.dataset
    pairs = [pair for pair in read_table(dev, EntailmentPair) if pair.split in (None, "valid")]
    images = [dataset.images[name] for name in {pair.image for pair in pairs} if name in dataset.images]
    present = {image.id for image in images if (file := dataset.picture(image)) is not None and file.is_file()} | {None}
    usable = [pair for pair in pairs if pair.hypothesis and pair.kind != "none" and pair.image in present]
    if len(usable) < len(pairs):
        progress.warn(f"{len(pairs) - len(usable)} of {len(pairs)} pairs of dev lack their picture or text: left out")
    if not usable:
        raise DataError(f"{dev} has no dev pair with a picture", hint="--threshold P")
    usable = choosing(usable)
    claims = []
    for pair in usable:
        image = None if pair.image is None else dataset.images[pair.image]
        content, file = ("", None) if image is None else (image.sha256, dataset.picture(image))
        claims.append((content, Claim(pair.premise or "", file, pair.hypothesis or "")))
    verdicts = _judged(cascade, (0.0, 0.0), claims, config.workdir, "judging dev", progress=progress)
    own = (verdicts.judges == len(cascade.judges) - 1) & ~np.isnan(verdicts.probabilities)
    labels = np.array([pair.label == 1 for pair in usable])
    best = threshold_for(labels[own], verdicts.probabilities[own], wanted) if own.any() else None
    if best is None:
        raise DataError(
            f"no threshold of {cascade.name} reaches a precision of {wanted:g} on the {own.sum()} pairs of dev",
            hint="--precision with a lower share, or a better classifier",
        )
    if best.called < FEW_CALLED:
        progress.warn(f"on dev {best.weakness()}")
    low, high = best.precision.low, best.precision.high
    return ChosenThreshold(best.value, "dev", wanted, best.precision.value, best.recall, best.called, low, high)


def decide(pool: Candidates, verdicts: Verdicts, per_image: int, per_caption: int) -> list[Reason | None]:
    """Why each candidate is not added, [N], None where it is: entailed ones are added by descending probability until a picture or a
    caption reaches its cap (0: no cap). Ties are ordered by score, then by position."""
    probability = verdicts.probabilities
    reasons: list[Reason | None] = [
        "below_threshold" if value == 0 else "no_answer" if unknown else "between_thresholds"
        for value, unknown in zip(verdicts.values.tolist(), np.isnan(probability).tolist(), strict=True)
    ]
    images = np.zeros(len(pool.gallery.images), np.int64)
    captions = np.zeros(len(pool.gallery.captions), np.int64)
    entailed = np.flatnonzero(verdicts.values == 1)
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
    settings: Mapping[str, object],
    encoder: Encoder,
    cascade: Cascade,
    *,
    edge: ChosenThreshold,
) -> str:
    """A note that earlier rounds stay active, and how the new one differs from the latest of them, which has these `settings`."""
    last, key = before[-1], config.settings()
    other = {name: was for name, was in settings.items() if was != key.get(name, was)}
    differ = [f"--{name.replace('_', '-')} ({was}, now {key[name]})" for name, was in other.items()]
    renamed, named = last.classifier != cascade.name, bool(other.keys() & JudgeEndpointOptions.describe().keys())
    judged = last.classifier_fingerprint != cascade.fingerprint and (renamed or not named)
    changes = (
        ("--by", last.by, encoder.name, last.by_fingerprint != encoder.fingerprint),
        ("the judge", last.classifier, cascade.name if renamed else f"another {cascade.name}", judged),
        ("the threshold", f"{last.threshold:.6g}", f"{edge.value:.6g}", last.threshold != edge.value),
        ("--unsure", last.unsure_below, config.unsure, last.unsure_below != config.unsure),
    )
    differ += [f"{what} ({was}, now {now})" for what, was, now, changed in changes if changed]
    several = len(before) > 1
    numbers = _listed([str(row.number) for row in before])
    stays = f"rounds {numbers} stay" if several else f"round {numbers} stays"
    why = f"round {last.number} was made on top of others"
    if differ:
        why = f"{_listed(differ)} {'differ' if len(differ) > 1 else 'differs'}"
        why += f" from round {last.number}" if several else ""
    return f"{stays} active; a new round is added, since {why}"


def _listed(words: Sequence[str]) -> str:
    """The words with `and` before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
