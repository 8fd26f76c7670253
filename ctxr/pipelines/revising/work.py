"""One revision from end to end: mine, judge, decide, write a round. Each part that takes long is kept as it goes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxr.data.artifacts import MANIFEST, locked, refuse_strangers
from ctxr.data.dataset import Dataset
from ctxr.data.records import ImageSet
from ctxr.errors import DataError, UsageError
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.inputs import chosen
from ctxr.pipelines.revise_labels import ReviseLabels, ReviseReport
from ctxr.pipelines.revising.asked import RevisionInput, asked_of, without_rejected
from ctxr.pipelines.revising.classifiers import open_classifier
from ctxr.pipelines.revising.deciding import decides, on_top
from ctxr.pipelines.revising.distances import with_distances
from ctxr.pipelines.revising.judging import ChosenThreshold, Premises, choose_edge, decide, leaked_images, probabilities
from ctxr.pipelines.revising.mining import open_encoder, pools_of
from ctxr.pipelines.revising.pair_mining import PairMiner
from ctxr.pipelines.revising.records import WORKER, Round
from ctxr.pipelines.revising.results import Revised, read_figures, reported, write
from ctxr.pipelines.revising.rounds import (
    Base,
    base_of,
    folder_of,
    open_base,
    put_in_force,
    read_rounds,
    refuse_changed,
    refuse_other_base,
    turn,
)
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import contents_of
from ctxr.pipelines.training.encoded import PictureFiles

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder
    from ctxr.models.entailment.base import Classifier

REVISABLE = ("dataset",)
"""Folders of a project that hold labels to revise."""


def open_project(config: ReviseLabels, talk: Talk) -> Base:
    """The dataset that `config` names, or that was revised before, or the project's. A round that was stopped while it was put
    in force is in force afterwards, or was never there. Raises DataError where a file of the rounds was changed since it was written."""
    out = config.folder()
    refuse_changed(out)
    before = base_of(out)
    if config.dataset is None and before is not None and not before.exists():
        raise UsageError(
            f"{before}, the dataset that {out} revises, is not there any more",
            hint="ctxr revise-labels DATASET names the folder where it is now",
        )
    base = open_base(config.dataset or before or chosen(None, config.workdir, REVISABLE, talk))
    refuse_other_base(out, base)
    if read_rounds(out) and not (out / MANIFEST).is_file():
        with locked(out):
            put_in_force(out, base, read_rounds(out))
    return base


def revise(config: ReviseLabels, talk: Talk, given: "Classifier | None") -> ReviseReport:
    """Add a round, or say that it is there already. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, talk)
    out = config.folder()
    rounds = read_rounds(out)
    classifier = given or open_classifier(config)
    encoder = open_encoder(config.by, config.workdir, config.device, talk)
    asked = asked_of(config, base, [one for one in rounds if one.active])
    leaked = _guard(config, asked, classifier, talk)
    edge = _edge(config, base, classifier, talk)
    for one in rounds:
        if one.decides == decides(config, base, rounds[: one.number - 1], encoder, classifier, edge):
            return _there_already(config, base, one, leaked)
    if asked.before:
        settings = read_figures(out / folder_of(asked.before[-1].number)).get("settings", {})
        talk.note(on_top(config, asked.before, settings, encoder, classifier, edge))
    asked = without_rejected(asked, out, classifier.fingerprint, edge.value)
    if asked.rejected:
        talk.note(f"{asked.rejected:,} pairs that {classifier.name} rejected before are not looked at again")
    _refuse_nothing_left(config, asked)
    refuse_strangers(out)
    with locked(out):
        revised = _revised(config, asked, encoder, classifier, edge, leaked, talk)
        made = write(config, revised, len(rounds) + 1, decides(config, base, rounds, encoder, classifier, edge), talk)
    return reported(config, made, "added", leaked)


def _refuse_nothing_left(config: ReviseLabels, asked: RevisionInput) -> None:
    """Raises UsageError where every picture with every caption of its set is known, before anything is written."""
    if all(len(np.unique(one.known, axis=0)) == len(one.images) * len(one.captions) for one in asked.galleries):
        again = f"a lower --threshold, or {config.again('--undo')}"
        raise UsageError(
            "there is no pair left to look at: every one was given, added or rejected before",
            hint=again if asked.before else "name a dataset whose sets hold more pictures, or another --split",
        )


def _there_already(config: ReviseLabels, base: Base, one: Round, leaked: list[str]) -> ReviseReport:
    if one.active:
        return reported(config, one, "up to date", leaked)
    with locked(config.folder()):
        turn(config.folder(), base, one.number, active=True, again=config.again)
    return reported(config, one, "in force again", leaked)


def _guard(config: ReviseLabels, asked: RevisionInput, classifier: "Classifier", talk: Talk) -> list[str]:
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
        talk.warn(f"{classifier.name} was trained on {leaked[0]}{more}, and judges what it has seen")
    return leaked


def _edge(config: ReviseLabels, base: Base, classifier: "Classifier", talk: Talk) -> ChosenThreshold:
    there = "pairs.jsonl" in (base.tables or {})
    dev = config.dev or (base.path / "pairs.jsonl" if there else None)
    return choose_edge(config.threshold, config.precision, dev, classifier, base.dataset, config.workdir, talk)


def _revised(
    config: ReviseLabels,
    asked: RevisionInput,
    encoder: "Encoder | PairMiner",
    classifier: "Classifier",
    edge: ChosenThreshold,
    leaked: list[str],
    talk: Talk,
) -> Revised:
    dataset = asked.base.dataset
    files = _files(dataset, asked.images)
    pictures = PictureFiles(files, contents_of(dataset, files), config.workdir)
    hypotheses = {name: _text(dataset, name) for name in asked.captions}
    pools = pools_of(asked.galleries, encoder, pictures, hypotheses, config.top_k, config.both, talk)
    own = written_for(dataset)
    premises = Premises({image: " ".join(told) for image, told in own.items()}, files, pictures.contents, hypotheses)
    found: list[Doubles] = probabilities(classifier, pools, premises, config.workdir, talk)
    verdicts = [
        decide(pool, one, edge.value, config.per_image, config.per_caption)
        for pool, one in zip(pools, found, strict=True)
    ]
    return Revised(
        base=asked.base,
        sets=_sets(config, asked.base, encoder, talk),
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


def _sets(config: ReviseLabels, base: Base, encoder: "Encoder | PairMiner", talk: Talk) -> tuple[ImageSet, ...]:
    """The sets of the dataset, bare ones with their distances where there are vectors to measure them by."""
    if base.tables is not None or isinstance(encoder, PairMiner):
        return base.dataset.sets
    return with_distances(base.dataset, encoder, config.workdir, talk)


def written_for(dataset: Dataset) -> dict[str, list[str]]:
    """The captions that were written for each image, by image, in the order of their ids."""
    found: dict[str, list[str]] = {}
    for row in sorted(dataset.judgments, key=lambda row: row.key()):
        if row.worker == "gold" and row.value > 0 and dataset.queries[row.query].labels is None:
            found.setdefault(row.candidate, []).append(_text(dataset, row.query))
    return found


def _text(dataset: Dataset, query: str) -> str:
    return " ".join(dataset.texts[name].text for name in dataset.queries[query].texts)


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
