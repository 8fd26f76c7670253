"""`ctxr revise-labels`: mine candidates, classify them, and add the entailed ones as a round that can be undone."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from msgspec import structs

from ctxr.datasets.pairs import seen_pictures
from ctxr.datasets.rounds import (
    Base,
    Round,
    Rounds,
    base_of,
    folder_of,
    link_base,
    open_base,
    read_figures,
    read_rounds,
    refuse_changed,
    refuse_other_base,
    text_of,
    to_switch,
    written_for,
)
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import chosen
from ctxr.engine.stage import execute
from ctxr.errors import DataError, UnfinishedError, UsageError, and_more
from ctxr.metrics.votes import Doubles
from ctxr.models.encoders import DEFAULT_ENCODER, TINY, Encoder, is_here
from ctxr.models.entailment.base import Judge
from ctxr.pipelines.revision.auditing import audit
from ctxr.pipelines.revision.candidates import MinedGallery, PairMiner, check_by, open_encoder, pools_of
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.decisions import (
    RECIPE,
    ChosenThreshold,
    Premise,
    choose_threshold,
    decide,
    find_classifier,
    on_top,
    open_classifier,
    probabilities,
)
from ctxr.pipelines.revision.inputs import (
    RevisionInput,
    missing_pictures,
    picture_files,
    revision_input,
    with_distances,
    without_rejected,
)
from ctxr.pipelines.revision.results import Revised, reported, write
from ctxr.problems.entailment.classifiers import own_fingerprint, own_threshold
from ctxr.store.artifacts import MANIFEST
from ctxr.store.hashing import sha256_of
from ctxr.store.records import ImageSet


def run(config: ReviseLabels, progress: Progress | None = None, classifier: Judge | None = None) -> ReviseReport:
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
    with progress.task("reading the labels", None):
        return plan(config, progress)


def switch_round(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Undo or redo a round. Raises UnfinishedError where nothing was revised."""
    out = config.folder()
    if not read_rounds(out):
        raise UnfinishedError(f"{out} holds no round", hint=config.followup("--entail"))
    base = open_project(config, progress)
    number = switch(config, base, config.round, active=config.redo)
    rounds = read_rounds(out)
    switched = rounds[number - 1]
    facts = {
        "revised": out,
        "round": number,
        "judgments": f"{switched.added:,} links {'count again' if switched.active else 'no longer count'}",
        "active": ", ".join(str(one.number) for one in rounds if one.active) or "none",
        "reverse": config.followup(f"--{'undo' if switched.active else 'redo'}", "--round", str(number)),
    }
    return ReviseReport(out, "redone" if switched.active else "undone", number, facts)


def switch(config: ReviseLabels, base: Base, number: int, active: bool) -> int:
    """Undo or redo a round, whose number is returned; none of its files is deleted. Raises what `to_switch` raises."""
    rounds = read_rounds(config.folder())
    number = to_switch(rounds, number, active, config.followup).number
    rounds[number - 1] = structs.replace(rounds[number - 1], active=active)
    execute(Rounds(config, config.folder(), base, lambda _: rounds))
    return number


def plan(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """The plan of `--entail`; nothing is written. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, progress)
    rounds = read_rounds(config.folder())
    inputs = revision_input(config, base, [one for one in rounds if one.active])
    check_by(config.by, config.workdir)
    classifier = find_classifier(config)
    inputs, rejected = _rejected(config, inputs, classifier)
    pictures, captions, galleries = len(inputs.images), len(inputs.captions), len(inputs.galleries)
    facts: dict[str, Any] = {
        "dataset": base.path,
        "would evaluate": f"{pictures:,} pictures and {captions:,} captions in {galleries:,} sets",
        "known": f"{sum(len(gallery.given) for gallery in inputs.galleries):,} pairs, which are left out",
        **rejected,
        "would classify": candidates(inputs.galleries, config.top_k, config.both),
        "retriever": proposer(config),
        "classifier": classifier or f"none yet: {RECIPE}",
        "threshold": threshold(config, classifier),
        "would add": f"pairs at or above it, {_caps(config)}",
        "rounds": ", ".join(_described(one) for one in rounds) or "none yet",
        "command": config.entail_command(),
    }
    missing = missing_pictures(base.dataset, inputs.images)
    notes = (f"{missing}: --entail needs all of them",) if missing else ()
    return ReviseReport(config.folder(), "planned", 0, facts, notes=notes)


def _rejected(config: ReviseLabels, inputs: RevisionInput, classifier: str) -> tuple[RevisionInput, dict[str, str]]:
    """The input without pairs that were rejected before, and a note on these; unchanged where the threshold is not known yet."""
    if not inputs.before or not classifier:
        return inputs, {}
    lowest = config.threshold
    if lowest is None:
        lowest = inf if config.precision is not None else own_threshold(classifier)[0]
    left = without_rejected(inputs, config.folder(), own_fingerprint(classifier), lowest)
    if not left.rejected:
        return inputs, {}
    note = f"{left.rejected:,} pairs by this classifier in active rounds, which are left out"
    if lowest == inf:
        return inputs, {"rejected": f"{note} where the threshold is not below that of their round"}
    return left, {"rejected": note}


def candidates(galleries: Sequence[MinedGallery], k: int, both: bool) -> str:
    """The number of pairs to classify, and how it is computed."""
    counts = [count for gallery in galleries for column in range(1 + both) for count in _left(gallery, k, column)]
    upto, total = "up to " if both else "", sum(counts)
    text = f"{upto}{total:,} candidates: for each picture the {k} best captions of its set without known pairs"
    if both:
        text += ", and as many pictures for each caption; a pair found both ways is classified once"
    if min(counts) < k:
        text += f"; all where fewer are left, here at least {min(counts)}"
    return text


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


def _left(gallery: MinedGallery, k: int, column: int) -> list[int]:
    """How many candidates each picture (column 0) or caption (column 1) of a set has: k at most, known ones left out."""
    own, others = (gallery.images, gallery.captions)[:: 1 - 2 * column]
    counts = Counter(gallery.excluded[:, column].tolist())
    return [min(k, len(others) - counts[index]) for index in range(len(own))]


def _caps(config: ReviseLabels) -> str:
    caps = [
        f"at most {most:,} {what}"
        for most, what in ((config.per_image, "captions to a picture"), (config.per_caption, "pictures to a caption"))
        if most
    ]
    return " and ".join(caps) + " (--per-image, --per-caption)" if caps else "without a limit"


def _described(one: Round) -> str:
    return f"{one.number} ({one.added:,} added by {one.classifier}{'' if one.active else ', undone'})"


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
    base = open_base(config.dataset or before or chosen(None, config.workdir, ("dataset",), progress))
    refuse_other_base(out, base)
    if read_rounds(out) and not (out / MANIFEST).is_file():
        execute(Rounds(config, out, base))
    return base


def revise(config: ReviseLabels, progress: Progress, opened: Judge | None) -> ReviseReport:
    """Add a round, unless it exists already. Raises what `pipelines.revise_labels.run` says."""
    base, out = open_project(config, progress), config.folder()
    rounds = read_rounds(out)
    classifier = opened or open_classifier(config)
    encoder = open_encoder(config.by, config.workdir, config.device, progress)
    inputs = revision_input(config, base, [one for one in rounds if one.active])
    leaked = _guard(config, inputs, classifier, progress)
    chosen_threshold = choose_threshold(config, base, classifier, progress)
    makers = [encoder.fingerprint, encoder.precision, classifier.fingerprint, chosen_threshold.value]

    def decides(before: Sequence[Round]) -> str:
        """Hash of everything that decides a round, including the active rounds before it."""
        return sha256_of([config.key(), base.content, makers, [one.decides for one in before if one.active]])

    for one in rounds:
        if one.decides == decides(rounds[: one.number - 1]):
            if not one.active:
                switch(config, base, one.number, active=True)
            return reported(config, one, "up to date" if one.active else "redone", leaked)
    if inputs.before:
        settings = read_figures(out / folder_of(inputs.before[-1].number)).get("settings", {})
        progress.note(on_top(config, inputs.before, settings, encoder, classifier, edge=chosen_threshold))
    inputs = without_rejected(inputs, out, classifier.fingerprint, chosen_threshold.value)
    if inputs.rejected:
        progress.note(f"{inputs.rejected:,} pairs that {classifier.name} rejected before are left out")
    _refuse_nothing_left(config, inputs)

    def add(progress: Progress) -> list[Round]:
        revised = _revised(config, inputs, encoder, classifier, chosen_threshold, leaked=leaked, progress=progress)
        link_base(out, base, _sets(config, base, encoder, progress), progress)
        return [*rounds, write(config, revised, len(rounds) + 1, decides(rounds))]

    execute(Rounds(config, out, base, add), progress)
    return reported(config, read_rounds(out)[-1], "added", leaked)


def _refuse_nothing_left(config: ReviseLabels, inputs: RevisionInput) -> None:
    """Raises UsageError, before anything is written, where every pair of a picture and a caption of its set is known."""
    if all(
        len(np.unique(gallery.excluded, axis=0)) == len(gallery.images) * len(gallery.captions)
        for gallery in inputs.galleries
    ):
        lower = f"a lower --threshold, or {config.followup('--undo')}"
        raise UsageError(
            "no pair is left to evaluate: all were given, added or rejected before",
            hint=lower if inputs.before else "name a dataset whose sets hold more pictures, or another --split",
        )


def _guard(config: ReviseLabels, inputs: RevisionInput, classifier: Judge, progress: Progress) -> list[str]:
    """Images of the round that the classifier was trained on. Raises DataError where one of them is evaluated on."""
    images = inputs.base.dataset.images
    leaked = seen_pictures([(name, images[name].sha256) for name in inputs.images], classifier.trained_on)
    evaluated = {image for gallery in inputs.galleries if gallery.side != "train" for image in gallery.images}
    wrong = [name for name in leaked if name in evaluated]
    if wrong and not config.allow_leak:
        raise DataError(
            f"{classifier.name} was trained on {len(wrong)} of {len(evaluated)} evaluated pictures, the first is {wrong[0]}",
            hint="train the classifier without them, or --split train, or --allow-leak for figures with and without them",
        )
    if leaked:
        progress.warn(
            f"{classifier.name} classifies pictures that it was trained on: {leaked[0]}{and_more(len(leaked))}"
        )
    return leaked


def _revised(
    config: ReviseLabels,
    inputs: RevisionInput,
    encoder: Encoder | PairMiner,
    classifier: Judge,
    chosen_threshold: ChosenThreshold,
    *,
    leaked: list[str],
    progress: Progress,
) -> Revised:
    dataset, workdir = inputs.base.dataset, config.workdir
    pictures = picture_files(dataset, inputs.images, workdir)
    texts = {name: text_of(dataset, name) for name in inputs.captions}
    pools = pools_of(inputs.galleries, encoder, pictures, texts, config.top_k, both=config.both, progress=progress)
    own = written_for(dataset)
    premises = {
        image: Premise(pictures.contents[image], " ".join(own.get(image, ())), file)
        for image, file in pictures.files.items()
    }
    chances: list[Doubles] = probabilities(classifier, pools, premises, texts, workdir, progress=progress)
    reasons = [
        decide(pool, one, chosen_threshold.value, config.per_image, config.per_caption)
        for pool, one in zip(pools, chances, strict=True)
    ]
    return Revised(
        inputs, tuple(pools), tuple(chances), tuple(reasons), chosen_threshold, encoder, classifier, frozenset(leaked),
        own, texts,
    )  # fmt: skip


def _sets(config: ReviseLabels, base: Base, encoder: Encoder | PairMiner, progress: Progress) -> tuple[ImageSet, ...]:
    """The sets of the dataset, of a release with their distances where there are vectors to measure them by."""
    if base.tables is not None or isinstance(encoder, PairMiner):
        return base.dataset.sets
    return with_distances(base.dataset, encoder, config.workdir, progress)
