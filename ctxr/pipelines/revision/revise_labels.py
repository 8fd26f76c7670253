"""`ctxr revise-labels`: mine candidates, judge them, and add the entailed ones as a round that can be undone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import SETS, chosen
from ctxr.engine.stage import execute
from ctxr.errors import DataError, UnfinishedError, UsageError, and_more, plural
from ctxr.models.encoders import DEFAULT_ENCODER, TINY, Encoder, is_here
from ctxr.models.entailment.base import Judge
from ctxr.models.judges.cascade import Cascade
from ctxr.pipelines.revision.auditing import audit
from ctxr.pipelines.revision.candidates import MinedGallery, check_by, open_encoder, pools_of
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.decisions import (
    ChosenThreshold,
    Premise,
    choose_threshold,
    decide,
    judge_pools,
    on_top,
    open_judges,
)
from ctxr.pipelines.revision.inputs import (
    RevisionInput,
    missing_pictures,
    picture_files,
    revision_input,
    with_distances,
    without_rejected,
)
from ctxr.pipelines.revision.licence import JudgeLicence, read_licence, refusal
from ctxr.pipelines.revision.results import UNLICENSED, Revised, reported, write
from ctxr.problems.gallery.truth import TRUTH
from ctxr.store.artifacts import MANIFEST
from ctxr.store.hashing import sha256_of
from ctxr.store.records import ImageSet


def run(config: ReviseLabels, progress: Progress = SILENT, classifier: Judge | None = None) -> ReviseReport:
    """Add, undo, redo or audit a round, or report the plan.

    Args:
        classifier: the judge, in place of those that `config` names.

    Raises UsageError for wrong arguments; UnfinishedError without a dataset or answers, and where a judge's budget ends; DataError for
    pictures, weights or tables that cannot be used, and where a judge was trained on evaluated pictures.
    """
    config.check()
    if config.undo or config.redo:
        return switch_round(config, progress)
    if config.audit:
        return audit(config, progress)
    if config.entail and not config.dry_run:
        return revise(config, progress, classifier)
    with progress.task("reading the labels", None):
        return plan(config, progress, classifier)


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
        "judgments": f"{switched.added:,} pairs {'count again' if switched.active else 'no longer count'}",
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


def plan(config: ReviseLabels, progress: Progress, opened: Judge | None = None) -> ReviseReport:
    """The plan of `--entail`; nothing is written, and no judge is asked. Raises what `pipelines.revise_labels.run` says."""
    base = open_project(config, progress)
    rounds = read_rounds(config.folder())
    inputs = revision_input(config, base, [one for one in rounds if one.active])
    check_by(config.by, config.workdir)
    command = config.entail_command()
    cascade, config = open_judges(config, progress, opened)
    licence = read_licence(config.workdir, cascade.fingerprint, base.content)
    licensed, edge = licence.threshold if licence else None, None
    if config.precision is None:
        edge = choose_threshold(config, base, cascade, licensed, progress)
    key, force, words = in_force(config, inputs, cascade, licence, edge.value if edge else 1.0)
    judged = words or ("" if licence else refusal(config.workdir, cascade.fingerprint, base.content))
    inputs, rejected = _rejected(config, inputs, cascade, edge)
    pictures, captions, galleries = len(inputs.images), len(inputs.captions), len(inputs.galleries)
    sides = [(gallery, column) for gallery in inputs.galleries for column in range(1 + config.both)]
    counts = [count for gallery, column in sides for count in _left(gallery, config.top_k, column)]
    facts: dict[str, Any] = {
        "dataset": base.path,
        "would evaluate": f"{pictures:,} pictures and {captions:,} captions in {plural(galleries, 'set', form=',')}",
        "known": f"{sum(len(gallery.given) for gallery in inputs.galleries):,} pairs, which are left out",
        **rejected,
        "would judge": candidates(counts, config.top_k, config.both),
        "retriever": proposer(config),
        "judge": cascade.name,
        **dict(_prices(cascade, sum(counts), bool(config.price_in or config.price_out))),
        "threshold": threshold(config, edge, cascade),
        "would add": f"pairs that the {'cascade' if cascade.limits else 'judge'} calls entailed, {_caps(config)}",
        "would count on": ", ".join(sorted(split or "pictures without a split" for split in force))
        or f"nothing without --unlicensed: {UNLICENSED[cascade.toy]}",
        **({"licence": judged} if judged else {}),
        "rounds": ", ".join(_described(one) for one in rounds) or "none yet",
        "command": command,
    }
    missing = missing_pictures(base.dataset, inputs.images)
    notes = [f"{missing}: --entail needs all of them"] if missing else []
    notes += _made(key, rounds, (cascade.fingerprint, bool(words), *((edge.value, edge.unsure) if edge else ())))
    return ReviseReport(config.folder(), "planned", 0, facts, notes=tuple(notes))


def _made(config: ReviseLabels, rounds: Sequence[Round], makers: tuple[Any, ...]) -> Iterator[str]:
    """Notes on rounds that these options and `makers` made; only --entail opens the retriever, which decides a round too."""
    for one in rounds:
        settings = read_figures(config.folder() / folder_of(one.number)).get("settings")
        own = one.classifier_fingerprint, bool(one.licence), one.threshold, one.unsure_below
        if own[: len(makers)] == makers and settings == config.settings() and config.by in ("auto", one.by):
            again = "changes nothing" if one.active else "redoes it"
            yield f"round {one.number} was made with these options: --entail {again}, unless the retriever or earlier rounds changed"


def _prices(cascade: Cascade, claims: int, priced: bool) -> Iterator[tuple[str, str]]:
    """What each judge that is paid would take at most."""
    for judge in cascade.judges:
        if estimate := judge.estimate(claims):
            cost = f"{estimate.cost:.4f}" if priced else "no prices are set (--price-in, --price-out)"
            tokens = f"{estimate.tokens_in:,} tokens sent and {estimate.tokens_out:,} received"
            yield f"price of {judge.name}", f"at most {estimate.requests:,} requests, {tokens}: {cost}"


def _rejected(
    config: ReviseLabels, inputs: RevisionInput, cascade: Cascade, edge: ChosenThreshold | None
) -> tuple[RevisionInput, dict[str, str]]:
    """The input without pairs that were rejected before, and a note on these; unchanged where the threshold is not known yet."""
    left = without_rejected(inputs, config.folder(), cascade.fingerprint, edge.limits if edge else (inf, inf))
    if not left.rejected:
        return inputs, {}
    note = f"{plural(left.rejected, 'pair', form=',')} by this judge in active rounds, left out"
    if edge is None:
        return inputs, {"rejected": f"{note} where the threshold is at least that of their round"}
    return left, {"rejected": note}


def candidates(counts: Sequence[int], k: int, both: bool) -> str:
    """The number of pairs to judge, and how it is computed."""
    upto, total = "up to " if both else "", sum(counts)
    text = f"{upto}{total:,} candidates: for each picture the {k} best captions of its set without known pairs"
    if both:
        text += ", and as many pictures for each caption; a pair found both ways is judged once"
    if min(counts) < k:
        text += f"; all where fewer are left, here at least {min(counts)}"
    return text


def proposer(config: ReviseLabels) -> str:
    """The retriever in words; no weights are fetched."""
    if config.by != "auto":
        return config.by
    if is_here(DEFAULT_ENCODER):
        return f"{DEFAULT_ENCODER} (--by auto)"
    return f"{DEFAULT_ENCODER}, or {TINY} where its weights can be neither found nor downloaded (--by auto)"


def threshold(config: ReviseLabels, edge: ChosenThreshold | None, cascade: Cascade) -> str:
    """The threshold and how it is chosen; of a cascade each judge's."""
    pairs = zip(cascade.judges, cascade.limits, strict=False)
    before = "".join(f"{high:g} of {one.name} (unsure from {low:g} on), then " for one, (low, high) in pairs)
    if edge is None:
        return f"{before}the lowest that reaches a precision of {config.precision:g} on dev (--precision), chosen by --entail"
    words = {"given": "by --threshold or --judge SPEC@", "audit": "by its licence", "classifier": "the judge's own"}
    return f"{before}{edge.value:.3g}, {words[edge.chosen_by]}"


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
    words = {f"{one.pending:,} without a licence": one.pending, "unlicensed": one.unlicensed, "undone": not one.active}
    return f"{one.number} ({', '.join([f'{one.added:,} added by {one.classifier}', *(w for w, so in words.items() if so)])})"


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
    try:
        path = config.dataset or before or chosen(None, config.workdir, ("dataset",), progress)
    except UnfinishedError as error:
        hint = f"{config.followup('PHOTOS')}   (PHOTOS: a folder of photos with captions, or a release such as COCO captions)"
        if any((config.workdir / name).is_dir() for name in (*SETS, "dataset")):
            hint = f"{error.hint.partition('   ')[0]}; or {hint}"
        raise UnfinishedError(error.message, hint=hint) from error
    base = open_base(path)
    refuse_other_base(out, base)
    if read_rounds(out) and not (out / MANIFEST).is_file():
        execute(Rounds(config, out, base))
    return base


def revise(config: ReviseLabels, progress: Progress, opened: Judge | None) -> ReviseReport:
    """Add a round, unless it exists already. Raises what `pipelines.revise_labels.run` says."""
    base, out, typed = open_project(config, progress), config.folder(), config
    rounds = read_rounds(out)
    inputs = revision_input(config, base, [one for one in rounds if one.active])
    cascade, config = open_judges(config, progress, opened)
    encoder = open_encoder(config.by, config.workdir, config.device, progress)
    leaked = _guard(config, inputs, cascade, progress)
    licence = read_licence(config.workdir, cascade.fingerprint, base.content)
    chosen_threshold = choose_threshold(config, base, cascade, licence.threshold if licence else None, progress)
    config, force, licensed = in_force(config, inputs, cascade, licence, chosen_threshold.value)
    if licence and licence.threshold is not None and licence.threshold > chosen_threshold.value:
        progress.note(f"the licence of {cascade.name} holds from {licence.threshold:.3g} on, not at a lower threshold")
    makers = [encoder.fingerprint, encoder.precision, cascade.fingerprint, chosen_threshold.value]
    later = {"unsure": chosen_threshold.unsure, "licensed": sorted(force) if licensed else None}
    makers += [{name: value} for name, value in later.items() if value is not None]

    def decides(before: Sequence[Round]) -> str:
        """Hash of everything that decides a round, including the active rounds before it."""
        return sha256_of([config.key(), base.content, makers, [one.decides for one in before if one.active]])

    for one in rounds:
        if one.decides == decides(rounds[: one.number - 1]):
            if not one.active:
                switch(config, base, one.number, active=True)
            return reported(typed, one, "up to date" if one.active else "redone", cascade, leaked)
    if inputs.before:
        settings = read_figures(out / folder_of(inputs.before[-1].number)).get("settings", {})
        progress.note(on_top(config, inputs.before, settings, encoder, cascade, edge=chosen_threshold))
    inputs = without_rejected(inputs, out, cascade.fingerprint, chosen_threshold.limits)
    if inputs.rejected:
        progress.note(f"{inputs.rejected:,} pairs that {cascade.name} rejected or left unsure before are left out")
    _refuse_nothing_left(config, inputs)

    def add(progress: Progress) -> list[Round]:
        revised = _revised(config, inputs, encoder, cascade, chosen_threshold, leaked=leaked, progress=progress)
        revised = replace(revised, force=force, licence=licensed)
        link_base(out, base, _sets(config, base, encoder, progress), progress)
        return [*rounds, write(config, revised, len(rounds) + 1, decides(rounds))]

    execute(Rounds(config, out, base, add), progress)
    return reported(typed, read_rounds(out)[-1], "added", cascade, leaked)


def in_force(
    config: ReviseLabels, inputs: RevisionInput, cascade: Cascade, licence: JudgeLicence | None, threshold: float
) -> tuple[ReviseLabels, frozenset[str], str]:
    """(the options, without --unlicensed where that changes nothing; the splits on which a round counts; its licence in words).

    A round counts on train, on the splits of a licence from its threshold on and with its limit of unsure pairs, and everywhere in a
    drawn world; that of the toy only there, but for --unlicensed.
    """
    splits, licensed = frozenset(gallery.side for gallery in inputs.galleries), replace(config, unlicensed=False)
    force, words = frozenset[str]() if cascade.toy else splits & {"train"}, ""
    if TRUTH in (inputs.base.tables or {}):
        return licensed, splits, ""
    if not cascade.toy and licence and (licence.threshold or 0) <= threshold and licence.unsure_below == config.unsure:
        covered = splits & {*licence.splits}
        force, words = force | covered, licence.words if covered else ""
    if force == splits or not config.unlicensed:
        return licensed, force, words
    return config, splits, words


def _refuse_nothing_left(config: ReviseLabels, inputs: RevisionInput) -> None:
    """Raises UsageError, before anything is written, where every pair of a picture and a caption of its set is known."""
    if all(
        len(np.unique(gallery.excluded, axis=0)) == len(gallery.images) * len(gallery.captions)
        for gallery in inputs.galleries
    ):
        lower = f"a lower --threshold, or {config.followup('--undo')}"
        raise UsageError(
            "no pair is left to judge: all were given, added or rejected before",
            hint=lower if inputs.before else "name a dataset whose sets hold more pictures, or another --split",
        )


def _guard(config: ReviseLabels, inputs: RevisionInput, cascade: Cascade, progress: Progress) -> list[str]:
    """Images of the round that a judge was trained on. Raises DataError where one of them is evaluated on."""
    images = inputs.base.dataset.images
    if cascade.unknown:
        progress.note(f"what {cascade.unknown} was trained on is unknown and may include these pictures")
    leaked = seen_pictures([(name, images[name].sha256) for name in inputs.images], cascade.trained_on)
    evaluated = {image for gallery in inputs.galleries if gallery.side != "train" for image in gallery.images}
    wrong = [name for name in leaked if name in evaluated]
    if wrong and not config.allow_leak:
        raise DataError(
            f"{cascade.name}: trained on {len(wrong)} of {len(evaluated)} evaluated pictures, the first is {wrong[0]}",
            hint="train the judge without them, or --split train, or --allow-leak for figures with and without them",
        )
    if leaked:
        progress.warn(f"{cascade.name}: trained on pictures that it is to judge: {leaked[0]}{and_more(len(leaked))}")
    return leaked


def _revised(
    config: ReviseLabels,
    inputs: RevisionInput,
    encoder: Encoder,
    cascade: Cascade,
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
    limits = chosen_threshold.limits
    verdicts = judge_pools(cascade, limits, pools, premises, texts, workdir=workdir, progress=progress)
    reasons = [
        decide(pool, one, config.per_image, config.per_caption) for pool, one in zip(pools, verdicts, strict=True)
    ]
    return Revised(
        inputs, tuple(pools), tuple(verdicts), tuple(reasons), chosen_threshold, encoder, cascade, frozenset(leaked),
        own, texts,
    )  # fmt: skip


def _sets(config: ReviseLabels, base: Base, encoder: Encoder, progress: Progress) -> tuple[ImageSet, ...]:
    """The sets of the dataset, of a release with their distances where there are vectors to measure them by."""
    if base.tables is not None:
        return base.dataset.sets
    return with_distances(base.dataset, encoder, config.workdir, progress)
