"""A round of revised labels, planned or made: candidates are mined and judged, and the entailed ones added."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from ctxr.datasets.rounds import (
    Round,
    folder_of,
    read_figures,
    read_rounds,
    text_of,
    written_for,
)
from ctxr.engine.progress import Progress
from ctxr.errors import plural
from ctxr.models.encoders import DEFAULT_ENCODER, TINY, Encoder, is_here
from ctxr.models.entailment.base import Judge
from ctxr.models.judges.cascade import Cascade
from ctxr.pipelines.revision.candidates import open_encoder, picture_files, pools_of, with_distances
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.decisions import Premise, decide, judge_pools, on_top
from ctxr.pipelines.revision.inputs import (
    ChosenThreshold,
    MinedGallery,
    NewRound,
    RevisionInput,
    check_by,
    in_force,
    missing_pictures,
    open_judges,
    revision_input,
    without_rejected,
)
from ctxr.pipelines.revision.licence import read_licence, refused_by
from ctxr.pipelines.revision.project import open_project
from ctxr.pipelines.revision.results import UNLICENSED, Revised, write
from ctxr.pipelines.revision.threshold import choose_threshold
from ctxr.store.records import ImageSet


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
    judged = words or ("" if licence else refused_by(config.workdir, cascade.fingerprint, base.content))
    inputs, rejected = _rejected(config, inputs, cascade, edge)
    pictures, captions, galleries = len(inputs.images), len(inputs.captions), len(inputs.galleries)
    sides = [(gallery, column) for gallery in inputs.galleries for column in range(1 + config.both)]
    counts = [count for gallery, column in sides for count in _left(gallery, config.top_k, column)]
    facts: dict[str, object] = {
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


def _made(config: ReviseLabels, rounds: Sequence[Round], makers: tuple[object, ...]) -> Iterator[str]:
    """Notes on rounds that these options and `makers` made; only --entail opens the retriever, which decides a round too."""
    for one in rounds:
        settings = read_figures(config.folder() / folder_of(one.number))["settings"]
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


def make(new: NewRound, rounds: Sequence[Round], progress: Progress) -> tuple[Round, Sequence[ImageSet]]:
    """Write the files of a round beside those of the earlier ones; the round, and the sets of the dataset, with their distances.

    Raises what `pipelines.revise_labels.run` says."""
    config, base, out = new.options, new.inputs.base, new.options.folder()
    encoder = open_encoder(new.by, config.workdir, config.device, progress)
    if new.inputs.before:
        settings = read_figures(out / folder_of(new.inputs.before[-1].number))["settings"]
        progress.note(on_top(config, new.inputs.before, settings, encoder, new.cascade, edge=new.threshold))
    if new.inputs.rejected:
        progress.note(
            f"{new.inputs.rejected:,} pairs that {new.cascade.name} rejected or left unsure before are left out"
        )
    revised = _revised(new, encoder, progress)
    sets = base.dataset.sets
    if base.tables is None:  # of a release, with distances where there are vectors to measure them by
        sets = with_distances(base.dataset, encoder, config.workdir, progress)
    return write(config, revised, len(rounds) + 1, new.decides), sets


def _revised(new: NewRound, encoder: Encoder, progress: Progress) -> Revised:
    config, inputs, cascade = new.options, new.inputs, new.cascade
    dataset, workdir = inputs.base.dataset, config.workdir
    pictures = picture_files(dataset, inputs.images, workdir)
    texts = {name: text_of(dataset, name) for name in inputs.captions}
    pools = pools_of(inputs.galleries, encoder, pictures, texts, config.top_k, both=config.both, progress=progress)
    own = written_for(dataset)
    premises = {
        image: Premise(pictures.contents[image], " ".join(own.get(image, ())), file)
        for image, file in pictures.files.items()
    }
    verdicts = judge_pools(cascade, new.threshold.limits, pools, premises, texts, workdir=workdir, progress=progress)
    reasons = [
        decide(pool, one, config.per_image, config.per_caption) for pool, one in zip(pools, verdicts, strict=True)
    ]
    return Revised(
        inputs, tuple(pools), tuple(verdicts), tuple(reasons), new.threshold, encoder, cascade, frozenset(new.leaked),
        own, texts, new.force, new.licence,
    )  # fmt: skip
