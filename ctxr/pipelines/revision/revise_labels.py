"""`ctxr revise-labels`: mine candidates, classify them, and add the entailed ones as a round that can be undone."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.rounds import (
    WORKER,
    Base,
    Round,
    _text,
    base_of,
    folder_of,
    open_base,
    put_in_force,
    read_figures,
    read_rounds,
    refuse_changed,
    refuse_other_base,
    turn,
    written_for,
)
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import chosen
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.metrics.votes import Doubles
from ctxr.models.encoders import DEFAULT_ENCODER, TINY, Encoder, is_here
from ctxr.models.entailment.base import Classifier
from ctxr.pipelines.revision.auditing import audit
from ctxr.pipelines.revision.candidates import MinedGallery, PairMiner, check_by, open_encoder, pools_of
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.decisions import (
    RECIPE,
    ChosenThreshold,
    Premises,
    choose_edge,
    decide,
    decides,
    find_classifier,
    leaked_images,
    on_top,
    open_classifier,
    probabilities,
)
from ctxr.pipelines.revision.inputs import RevisionInput, asked_of, with_distances, without_rejected
from ctxr.pipelines.revision.results import Revised, reported, write
from ctxr.problems.embeddings import PictureFiles
from ctxr.problems.entailment.classifiers import own_fingerprint, own_threshold
from ctxr.problems.queries import contents_of
from ctxr.store.artifacts import MANIFEST, locked, require_ours
from ctxr.store.records import ImageSet


def run(config: ReviseLabels, progress: Progress | None = None, classifier: "Classifier | None" = None) -> ReviseReport:
    """Add, undo, redo or audit a round, or report the plan.

    Args:
        classifier: replaces the one that `config` names.

    Raises UsageError for wrong arguments; UnfinishedError without a dataset, a classifier or answers; DataError for pictures,
    weights or tables that cannot be used, and where the classifier was trained on evaluated pictures.
    """
    progress = progress or Silent()
    config.check()
    if config.undo or config.redo:
        return switch_round(config, progress)
    if config.audit:
        return audit(config, progress)
    if config.entail:
        return revise(config, progress, classifier)
    return plan(config, progress)


def switch_round(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Undo or redo a round. Raises UnfinishedError where nothing was revised."""
    out = config.folder()
    if not read_rounds(out):
        raise UnfinishedError(f"{out} holds no round", hint=config.again("--entail"))
    base = open_project(config, progress)
    with locked(out):
        turned = turn(out, base, config.round, active=config.redo, again=config.again)
    rounds = read_rounds(out)
    facts = {
        "revised": out,
        "round": turned.number,
        "judgments": f"{turned.added:,} links {'count again' if turned.active else 'no longer count'}",
        "active": ", ".join(str(one.number) for one in rounds if one.active) or "none",
        "reverse": config.again(f"--{'undo' if turned.active else 'redo'}", "--round", str(turned.number)),
    }
    return ReviseReport(out, "redone" if turned.active else "undone", turned.number, facts)


def plan(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """The plan of `--entail`; nothing is written. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, progress)
    rounds = read_rounds(config.folder())
    asked = asked_of(config, base, [one for one in rounds if one.active])
    check_by(config.by, config.workdir)
    classifier = find_classifier(config)
    asked, rejected = _rejected(config, asked, classifier)
    facts: dict[str, Any] = {
        "dataset": base.path,
        "would evaluate": f"{len(asked.images):,} pictures and {len(asked.captions):,} captions in {len(asked.galleries):,} sets",
        "known": f"{sum(len(one.given) for one in asked.galleries):,} pairs, which are left out",
        **rejected,
        "would classify": candidates(asked.galleries, config.top_k, config.both),
        "retriever": proposer(config),
        "classifier": classifier or f"none yet: {RECIPE}",
        "threshold": threshold(config, classifier),
        "would add": f"pairs at or above it, {_most(config)}",
        "rounds": ", ".join(_told(one) for one in rounds) or "none yet",
        "command": config.entail_command(),
    }
    lost = lost_pictures(base.dataset, asked.images)
    notes = (f"{lost}: --entail needs all of them",) if lost else ()
    return ReviseReport(config.folder(), "planned", 0, facts, notes=notes)


def _rejected(config: ReviseLabels, asked: RevisionInput, classifier: str) -> tuple[RevisionInput, dict[str, str]]:
    """The input without pairs that were rejected before, and a note on these; unchanged where the threshold is not known yet."""
    if not asked.before or not classifier:
        return asked, {}
    edge = config.threshold
    if edge is None:
        edge = inf if config.precision is not None else own_threshold(classifier)[0]
    left = without_rejected(asked, config.folder(), own_fingerprint(classifier), edge)
    if not left.rejected:
        return asked, {}
    told = f"{left.rejected:,} pairs by this classifier in active rounds, which are left out"
    if edge == inf:
        return asked, {"rejected": f"{told} where the threshold is not below that of their round"}
    return left, {"rejected": told}


def candidates(galleries: Sequence[MinedGallery], k: int, both: bool) -> str:
    """The number of pairs to classify, and how it is computed."""
    captions = [one for gallery in galleries for one in _left(gallery, k, 0)]
    pictures = [one for gallery in galleries for one in _left(gallery, k, 1)] if both else []
    total = sum(captions) + sum(pictures)
    told = f"{'up to ' if both else ''}{total:,} candidates: for each picture the {k} best captions of its set without known pairs"
    if both:
        told += ", and as many pictures for each caption; a pair found both ways is classified once"
    fewest = min([*captions, *pictures])
    if fewest < k:
        told += f"; all where fewer are left, here at least {fewest}"
    return told


def proposer(config: ReviseLabels) -> str:
    """The retriever in words; no weights are fetched."""
    if config.by != "auto":
        return config.by
    if is_here(DEFAULT_ENCODER):
        return f"{DEFAULT_ENCODER} (--by auto)"
    return (
        f"{DEFAULT_ENCODER}, or {TINY} where its weights cannot be downloaded (--by auto): they are not on this machine"
    )


def threshold(config: ReviseLabels, classifier: str) -> str:
    """The threshold and how it is chosen."""
    if config.threshold is not None:
        return f"{config.threshold:g}, by --threshold"
    if config.precision is not None:
        return (
            f"the lowest that reaches a precision of {config.precision:g} on dev, by --precision: found with --entail"
        )
    if not classifier:
        return "the classifier's"
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
    return " and ".join(caps) + " (--per-image, --per-caption)" if caps else "without a limit"


def _told(one: Round) -> str:
    state = "" if one.active else ", undone"
    return f"{one.number} ({one.added:,} added by {one.classifier}{state})"


REVISABLE = ("dataset",)
"""Folders of a project that hold labels to revise."""


def open_project(config: ReviseLabels, progress: Progress) -> Base:
    """The dataset that `config` names, or that was revised before, or the project's. A round whose activation was
    interrupted is completed or dropped. Raises DataError where a file of the rounds was changed since it was written."""
    out = config.folder()
    refuse_changed(out)
    before = base_of(out)
    if config.dataset is None and before is not None and not before.exists():
        raise UsageError(
            f"{before}, the dataset that {out} revises, no longer exists",
            hint="ctxr revise-labels DATASET names its new folder",
        )
    base = open_base(config.dataset or before or chosen(None, config.workdir, REVISABLE, progress))
    refuse_other_base(out, base)
    if read_rounds(out) and not (out / MANIFEST).is_file():
        with locked(out):
            put_in_force(out, base, read_rounds(out))
    return base


def revise(config: ReviseLabels, progress: Progress, given: "Classifier | None") -> ReviseReport:
    """Add a round, unless it exists already. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, progress)
    out = config.folder()
    rounds = read_rounds(out)
    classifier = given or open_classifier(config)
    encoder = open_encoder(config.by, config.workdir, config.device, progress)
    asked = asked_of(config, base, [one for one in rounds if one.active])
    leaked = _guard(config, asked, classifier, progress)
    edge = _edge(config, base, classifier, progress)
    for one in rounds:
        if one.decides == decides(config, base, rounds[: one.number - 1], encoder, classifier, edge):
            return _there_already(config, base, one, leaked)
    if asked.before:
        settings = read_figures(out / folder_of(asked.before[-1].number)).get("settings", {})
        progress.note(on_top(config, asked.before, settings, encoder, classifier, edge))
    asked = without_rejected(asked, out, classifier.fingerprint, edge.value)
    if asked.rejected:
        progress.note(f"{asked.rejected:,} pairs that {classifier.name} rejected before are left out")
    _refuse_nothing_left(config, asked)
    require_ours(out)
    with locked(out):
        revised = _revised(config, asked, encoder, classifier, edge, leaked, progress)
        made = write(
            config, revised, len(rounds) + 1, decides(config, base, rounds, encoder, classifier, edge), progress
        )
    return reported(config, made, "added", leaked)


def _refuse_nothing_left(config: ReviseLabels, asked: RevisionInput) -> None:
    """Raises UsageError, before anything is written, where every pair of a picture and a caption of its set is known."""
    if all(len(np.unique(one.known, axis=0)) == len(one.images) * len(one.captions) for one in asked.galleries):
        again = f"a lower --threshold, or {config.again('--undo')}"
        raise UsageError(
            "no pair is left to evaluate: all were given, added or rejected before",
            hint=again if asked.before else "name a dataset whose sets hold more pictures, or another --split",
        )


def _there_already(config: ReviseLabels, base: Base, one: Round, leaked: list[str]) -> ReviseReport:
    if one.active:
        return reported(config, one, "up to date", leaked)
    with locked(config.folder()):
        turn(config.folder(), base, one.number, active=True, again=config.again)
    return reported(config, one, "redone", leaked)


def _guard(config: ReviseLabels, asked: RevisionInput, classifier: "Classifier", progress: Progress) -> list[str]:
    """Images of the round that the classifier was trained on. Raises DataError where one of them is evaluated on."""
    dataset = asked.base.dataset
    leaked = leaked_images(dataset, asked.images, classifier.trained_on)
    evaluated = {image for one in asked.galleries if one.side != "train" for image in one.images}
    wrong = [name for name in leaked if name in evaluated]
    if wrong and not config.allow_leak:
        raise DataError(
            f"{classifier.name} was trained on {len(wrong)} of {len(evaluated)} evaluated pictures, the first is {wrong[0]}",
            hint="train the classifier without them, or --split train, or --allow-leak for figures with and without them",
        )
    if leaked:
        more = "" if len(leaked) == 1 else f" and {len(leaked) - 1} more"
        progress.warn(f"{classifier.name} was trained on {leaked[0]}{more}, and classifies them")
    return leaked


def _edge(config: ReviseLabels, base: Base, classifier: "Classifier", progress: Progress) -> ChosenThreshold:
    there = "pairs.jsonl" in (base.tables or {})
    dev = config.dev or (base.path / "pairs.jsonl" if there else None)
    return choose_edge(config.threshold, config.precision, dev, classifier, base.dataset, config.workdir, progress)


def _revised(
    config: ReviseLabels,
    asked: RevisionInput,
    encoder: "Encoder | PairMiner",
    classifier: "Classifier",
    edge: ChosenThreshold,
    leaked: list[str],
    progress: Progress,
) -> Revised:
    dataset = asked.base.dataset
    files = _files(dataset, asked.images)
    pictures = PictureFiles(files, contents_of(dataset, files), config.workdir)
    hypotheses = {name: _text(dataset, name) for name in asked.captions}
    pools = pools_of(asked.galleries, encoder, pictures, hypotheses, config.top_k, config.both, progress)
    own = written_for(dataset)
    premises = Premises({image: " ".join(told) for image, told in own.items()}, files, pictures.contents, hypotheses)
    found: list[Doubles] = probabilities(classifier, pools, premises, config.workdir, progress)
    verdicts = [
        decide(pool, one, edge.value, config.per_image, config.per_caption)
        for pool, one in zip(pools, found, strict=True)
    ]
    return Revised(
        base=asked.base,
        sets=_sets(config, asked.base, encoder, progress),
        pools=tuple(pools),
        probabilities=tuple(found),
        verdicts=tuple(verdicts),
        edge=edge,
        by=encoder.name,
        by_fingerprint=encoder.fingerprint,
        classifier=classifier.name,
        classifier_fingerprint=classifier.fingerprint,
        worker=f"{WORKER}:{classifier.name}",
        leaked=frozenset(leaked),
        own=own,
        texts=hypotheses,
        positives=asked.positives,
    )


def _sets(config: ReviseLabels, base: Base, encoder: "Encoder | PairMiner", progress: Progress) -> tuple[ImageSet, ...]:
    """The sets of the dataset, bare ones with their distances where there are vectors to measure them by."""
    if base.tables is not None or isinstance(encoder, PairMiner):
        return base.dataset.sets
    return with_distances(base.dataset, encoder, config.workdir, progress)


def lost_pictures(dataset: Dataset, images: Sequence[str]) -> str:
    """How many of these pictures are not where they should lie, and the first of them, by its place where it has one; "" for none."""
    places = {image: dataset.picture(dataset.images[image]) for image in images}
    lost = [str(file or image) for image, file in places.items() if file is None or not file.is_file()]
    are = "is" if len(lost) == 1 else "are"
    return (
        f"{len(lost)} of {len(places)} pictures of {dataset.name} {are} not there, the first is {lost[0]}"
        if lost
        else ""
    )


def _files(dataset: Dataset, images: Sequence[str]) -> dict[str, Path]:
    if lost := lost_pictures(dataset, images):
        raise DataError(lost, hint="restore it, or name a dataset that holds its pictures")
    places = {image: dataset.picture(dataset.images[image]) for image in images}
    return {image: file for image, file in places.items() if file is not None}
