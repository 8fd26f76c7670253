"""Asking the judges of a round: probabilities in shards for resuming, and the threshold on dev."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.pairs import EntailmentPair, choosing
from ctxr.datasets.rounds import RevisionBase
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, Threshold, threshold_for
from ctxr.metrics.votes import Codes, Doubles
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.judges.cascade import Cascade, Limits, Verdicts
from ctxr.models.judges.file import FileJudge
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.problems.embeddings import cached
from ctxr.store.hashing import sha256_of
from ctxr.store.tables import read_table

SHARD = 256
"""Claims between two writes: the most that a killed run loses."""


def judged(
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
    config: ReviseLabels, base: RevisionBase, dev: Path, cascade: Cascade, *, wanted: float, progress: Progress
) -> Threshold:
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
    verdicts = judged(cascade, (0.0, 0.0), claims, config.workdir, "judging dev", progress=progress)
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
    return best
