"""What a round would do, told before anything is computed."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from math import inf
from typing import Any

from ctxr.pipelines.entailing import own_fingerprint, own_threshold
from ctxr.pipelines.revise_labels import ReviseLabels, ReviseReport
from ctxr.pipelines.revising.asked import RevisionInput, asked_of, without_rejected
from ctxr.pipelines.revising.classifiers import RECIPE, find_classifier
from ctxr.pipelines.revising.mining import MinedGallery
from ctxr.pipelines.revising.proposing import check_by
from ctxr.pipelines.revising.records import VERB, Round
from ctxr.pipelines.revising.rounds import read_rounds
from ctxr.pipelines.revising.work import lost_pictures, open_project
from ctxr.pipelines.talk import Talk


def plan(config: ReviseLabels, talk: Talk) -> ReviseReport:
    """What `--entail` would do; nothing is written. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, talk)
    rounds = read_rounds(config.folder())
    asked = asked_of(config, base, [one for one in rounds if one.active])
    check_by(config.by, config.workdir)
    classifier = find_classifier(config)
    asked, rejected = _rejected(config, asked, classifier)
    facts: dict[str, Any] = {
        "dataset": base.path,
        "would look at": f"{len(asked.images):,} pictures and {len(asked.captions):,} captions in {len(asked.galleries):,} sets",
        "given": f"{sum(len(one.given) for one in asked.galleries):,} pairs, which are left out",
        **rejected,
        "would judge": candidates(asked.galleries, config.top_k, config.both),
        "proposed by": proposer(config),
        "classifier": classifier or f"none yet: {RECIPE}",
        "threshold": threshold(config, classifier),
        "would add": f"what reaches it, {_most(config)}",
        "rounds": ", ".join(_told(one) for one in rounds) or "none yet",
        "to do it": typed(config),
    }
    lost = lost_pictures(base.dataset, asked.images)
    notes = (f"{lost}: --entail needs all of them",) if lost else ()
    return ReviseReport(config.folder(), "planned", 0, facts, notes=notes)


def typed(config: ReviseLabels) -> str:
    """The command that does what was planned, with everything that is not as by default."""
    words = ["ctxr", VERB, *([str(config.dataset)] if config.dataset else []), "--entail"]
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in ("dataset", "entail") and value != field.default:
            words += [f"--{field.name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def _rejected(config: ReviseLabels, asked: RevisionInput, classifier: str) -> tuple[RevisionInput, dict[str, str]]:
    """What is asked about without what was rejected before, and what is told of that; whole where the threshold is not known yet."""
    if not asked.before or not classifier:
        return asked, {}
    edge = config.threshold
    if edge is None:
        edge = inf if config.precision is not None else own_threshold(classifier)[0]
    left = without_rejected(asked, config.folder(), own_fingerprint(classifier), edge)
    if not left.rejected:
        return asked, {}
    told = f"{left.rejected:,} pairs by this classifier in rounds in force, which are left out"
    if edge == inf:
        return asked, {"rejected": f"{told} where the threshold comes to that of their round or more"}
    return left, {"rejected": told}


def candidates(galleries: Sequence[MinedGallery], k: int, both: bool) -> str:
    """How many pairs would be judged, and how that number comes about."""
    captions = [one for gallery in galleries for one in _left(gallery, k, 0)]
    pictures = [one for gallery in galleries for one in _left(gallery, k, 1)] if both else []
    total = sum(captions) + sum(pictures)
    told = f"{'up to ' if both else ''}{total:,} candidates: for each picture the {k} captions of its set that fit best of the rest"
    if both:
        told += ", and as many pictures for each caption; what is found both ways is judged once"
    fewest = min([*captions, *pictures])
    if fewest < k:
        told += f"; where fewer are left all of them, here {fewest} at least"
    return told


def proposer(config: ReviseLabels) -> str:
    """The retrieval model in words; no weights are fetched to know it."""
    from ctxr.models.loading import DEFAULT_ENCODER, TINY, is_here

    if config.by != "auto":
        return config.by
    if is_here(DEFAULT_ENCODER):
        return f"{DEFAULT_ENCODER} (--by auto)"
    return f"{DEFAULT_ENCODER}, or {TINY} where its weights cannot be fetched (--by auto): they are not on this machine"


def threshold(config: ReviseLabels, classifier: str) -> str:
    """From which probability on a pair would be added, and who says so."""
    if config.threshold is not None:
        return f"{config.threshold:g}, by --threshold"
    if config.precision is not None:
        return (
            f"the lowest that reaches a precision of {config.precision:g} on dev, by --precision: found with --entail"
        )
    if not classifier:
        return "the classifier's own"
    value, reached = own_threshold(classifier)
    if reached is None:
        return f"{value:.3g}, the classifier's own: no pair of dev chose it"
    return f"{value:.3g}, the classifier's own: chosen on dev in training, with a precision of {reached:.3f} there"


def _left(gallery: MinedGallery, k: int, side: int) -> list[int]:
    """How many candidates each picture (side 0) or caption (side 1) of a set has: k at most, those that are known left out."""
    own, others = (gallery.images, gallery.captions) if side == 0 else (gallery.captions, gallery.images)
    known = Counter(gallery.known[:, side].tolist())
    return [min(k, len(others) - known[place]) for place in range(len(own))]


def _most(config: ReviseLabels) -> str:
    caps = [
        f"at most {most:,} {what}"
        for most, what in ((config.per_image, "captions to a picture"), (config.per_caption, "pictures to a caption"))
        if most
    ]
    return " and ".join(caps) + " (--per-image, --per-caption)" if caps else "without a cap"


def _told(one: Round) -> str:
    state = "" if one.active else ", taken back"
    return f"{one.number} ({one.added:,} added by {one.classifier}{state})"
