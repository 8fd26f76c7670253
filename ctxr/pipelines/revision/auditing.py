"""Precision and recall of a round: human verdicts on its sample, weighted to all candidates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.annotation.answers import collected
from ctxr.annotation.artifacts import Answered, read_judgments, read_tasks
from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.rounds import (
    ALSO,
    AUDIT,
    AUDITS,
    FIGURES,
    LEDGER,
    LOOKED,
    STRATA,
    AuditSample,
    AuditVerdict,
    CandidateRow,
    Round,
    SetConflict,
    folder_of,
    read_figures,
    read_rounds,
    refuse_changed,
    refuse_unknown,
)
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import UnfinishedError, UsageError
from ctxr.metrics.agreement import Agreement, cohen, fleiss
from ctxr.metrics.compare import Interval
from ctxr.metrics.consensus import TIE, majority
from ctxr.metrics.stratified import Reliability, Stratum, kappa, reliability
from ctxr.metrics.votes import gather
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.results import audited_counts, entail_figures, entail_table, export_hint
from ctxr.store.artifacts import MANIFEST, Content, Parent, finish, locked, open_artifact, require_ours, take_manifest
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import JUDGMENTS, SERVED, TASKS
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table, write_table


def agreed(one: Agreement) -> str:
    """A coefficient with its number of pairs, or the reason why it is undefined."""
    return (one.reason or "–") if one.value is None else f"{one.value:.3f} on {one.units} pairs"


def reliability_table(revision: Reliability, classifier: Reliability) -> Table:
    """Precision and recall of what was added, and of what the classifier calls entailed where caps left some of that out."""
    each = {"what was added": revision, "what the classifier calls entailed": classifier}
    note = "over all candidates of the round, not the sample alone; recall: of the entailed ones among the candidates"
    if revision.called == classifier.called:
        each = {"what was added": revision}
        note += "; no cap left anything out, so this is all that the classifier calls entailed"
    rows = tuple(
        (
            name,
            one.called,
            share_with_interval(asdict(one.precision)),
            share_with_interval(asdict(one.recall)),
            _count(one.entailed),
        )
        for name, one in each.items()
    )
    heads = ("of", "pairs", "precision %", "recall %", "entailed candidates")
    return Table("Precision and recall of the round, by human judgment", heads, rows, note)


def describe_sample(decided: int, ties: int, unseen: int) -> str:
    """How many pairs of a sample were decided, tied or not judged.

    >>> describe_sample(200, 0, 0)
    'all 200 pairs of the sample were decided'
    >>> describe_sample(190, 10, 0)
    '190 of 200 pairs of the sample were decided, 10 ended in a tie'
    """
    drawn = decided + ties + unseen
    if decided == drawn:
        return f"all {drawn:,} pairs of the sample were decided"
    left = ((ties, "ended in a tie"), (unseen, "were not judged"))
    told_of = [f"{count:,} {what}" for count, what in left if count]
    return ", ".join([f"{decided:,} of {drawn:,} pairs of the sample were decided", *told_of])


def _count(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{interval.value:.0f} ({interval.low:.0f}–{interval.high:.0f})"


def conflict_table(conflicts: Sequence[SetConflict], said: Mapping[tuple[str, str], bool]) -> Table:
    """Descriptions of small sets that hold for another picture by the classifier, with the human verdicts.

    Args:
        said: the human verdicts, by (caption, image).
    """
    looked = [(one, said[one.caption, one.image]) for one in conflicts if (one.caption, one.image) in said]
    looked.sort(key=lambda row: (not row[1], row[0].key()))
    rows = tuple(
        (one.text, ", ".join(one.images), one.image, "yes" if entailed else "no", one.probability)
        for one, entailed in looked
    )
    note = f"{len(looked):,} of the {len(conflicts):,} that the classifier found; a larger --sample shows more of them to people"
    heads = ("description", "written for", "also holds for", "by people", "probability")
    return Table("Descriptions that hold for another picture of their set", heads, rows, note)


@dataclass(frozen=True)
class Audited:
    """The human verdicts on a round.

    Attributes:
        looked: the pairs of the sample that people decided. revision: of the labels that were added. classifier: of what it
            calls entailed, caps or not. between: agreement of people among each other, by the name of the coefficient.
        with_people: Cohen's kappa of the classifier with what people decided, over all candidates: strata weigh what they hold.
        ties: pairs with tied votes.
        unseen: pairs of the sample without a vote. waiting: pairs with fewer votes than requested.
    """

    looked: tuple[AuditVerdict, ...]
    parts: tuple[Stratum, ...]
    revision: Reliability
    classifier: Reliability
    between: dict[str, Agreement]
    with_people: Agreement
    ties: int
    unseen: int
    waiting: int


def audit(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Compare a round with the answers of people, and write the result to `revision-audit/` of the project.

    Raises UnfinishedError without a round or answers to its sample, UsageError for an unknown round, DataError where a
    file of the rounds was changed since it was written.
    """
    out = config.folder()
    refuse_changed(out)
    made = _round(config, out)
    drawn = read_table(out / folder_of(made.number) / STRATA, AuditSample)
    source = _answers(config, made, drawn, progress)
    answered = read_judgments(source)
    found = judged(drawn, answered, blocked_workers(config.workdir, config.database))
    if not found.looked:
        raise _nobody(config, made, drawn)
    corrected = _corrected(config, out / folder_of(made.number), found)
    folder = config.workdir / AUDITS / f"{made.number:03d}"
    _write(folder, config, out, source, made, found, corrected)
    return _report(config, folder, made, found, corrected)


def _answers(config: ReviseLabels, made: Round, drawn: Sequence[AuditSample], progress: Progress) -> Path:
    """The current judgments of the project. Raises UnfinishedError where no sample was exported yet."""
    asked = (config.workdir / TASKS).is_dir() or (config.workdir / JUDGMENTS / MANIFEST).is_file()
    source = collected(config.workdir, progress, config.database) if asked else config.workdir / JUDGMENTS
    if not (source / MANIFEST).is_file():
        raise _nobody(config, made, drawn)
    return source


def _nobody(config: ReviseLabels, made: Round, drawn: Sequence[AuditSample]) -> UnfinishedError:
    """The error of a sample without answers; its hint is the next command."""
    pairs = {(one.image, one.caption) for one in drawn}
    tasks = [read_tasks(file.parent) for file in sorted((config.workdir / TASKS).glob(f"*/{MANIFEST}"))]
    asked = [one for one in tasks if any((unit.images[0], *unit.text_ids) in pairs for unit in one.units)]
    hint = export_hint(config, made.number) + "   (then ctxr serve --invite 3)"
    if asked:
        served = asked[0].backend in SERVED
        hint = f"ctxr {'serve --invite 3' if served else f'import-answers --from {asked[0].backend}'}   (its pairs are in {asked[0].path})"
    return UnfinishedError(f"the sample of round {made.number} has no answers yet", hint=hint)


def _round(config: ReviseLabels, out: Path) -> Round:
    rounds = read_rounds(out)
    fitting = [one for one in rounds if config.round == one.number or (not config.round and one.active)]
    if not rounds:
        raise UnfinishedError(f"{out} holds no round", hint=config.again("--entail"))
    refuse_unknown(rounds, config.round)
    if not fitting:
        raise UsageError("every round is undone", hint=f"--round N audits one of them; or {config.again('--redo')}")
    return fitting[-1]


def judged(drawn: Sequence[AuditSample], answered: Answered, blocked: Sequence[str]) -> Audited:
    """The human verdicts on a sample, by majority of all votes; tied pairs count as not judged."""
    pairs = {f"entail/{one.image}/{one.caption}": one for one in drawn}
    rows = [row for row in answered.judgments if row.query in pairs and row.round == 0 and row.worker not in blocked]
    verdicts, ties = _majority([row for row in rows if row.candidate == ENTAILMENT])
    looked = tuple(
        AuditVerdict(one.image, one.caption, one.stratum, one.decision, entailed)
        for name, entailed in sorted(verdicts.items())
        for one in (pairs[name],)
    )
    parts = _parts(drawn, looked)
    of_classifier = [replace(part, called=part.called or name.startswith("capped")) for name, part in parts.items()]
    return Audited(
        looked,
        tuple(of_classifier),
        reliability(list(parts.values())),
        reliability(of_classifier),
        _between(rows),
        kappa(of_classifier),
        ties,
        len(pairs) - len(verdicts) - ties,
        _waiting(answered, rows),
    )


def _waiting(answered: Answered, rows: Sequence[Judgment]) -> int:
    """Pairs with fewer answers than requested."""
    votes = Counter(query for query, _ in {(row.query, row.worker) for row in rows})
    return sum(0 < votes[unit.query or ""] < unit.most for unit in answered.units.values())


def _majority(rows: Sequence[Judgment]) -> tuple[dict[str, bool], int]:
    """Whether people call each query's pair entailed; and the number of ties."""
    if not rows:
        return {}, 0
    votes = gather([row.query for row in rows], [row.worker for row in rows], [int(row.value > 0) for row in rows])
    values = majority(votes).tolist()
    named = zip(votes.unit_names, values, strict=True)
    found = {str(name): bool(votes.labels[value]) for name, value in named if value != TIE}
    return found, sum(value == TIE for value in values)


def _parts(drawn: Sequence[AuditSample], looked: Sequence[AuditVerdict]) -> dict[str, Stratum]:
    """The strata with their human verdicts, by name."""
    sizes = {one.stratum: (one.population, one.decision == "added") for one in drawn}
    seen = Counter(one.stratum for one in looked)
    positive = Counter(one.stratum for one in looked if one.entailed)
    return {
        name: Stratum(population, seen[name], positive[name], called)
        for name, (population, called) in sorted(sizes.items())
    }


def _between(rows: Sequence[Judgment]) -> dict[str, Agreement]:
    """Agreement among people on the three answers: Fleiss' kappa, and Cohen's where there are just two of them."""
    chosen = [row for row in rows if row.value > 0]
    if not chosen:
        return {}
    votes = gather([row.query for row in chosen], [row.worker for row in chosen], [row.candidate for row in chosen])
    found = {"Fleiss' kappa": fleiss(votes)}
    if len(votes.worker_names) == 2:
        found["Cohen's kappa"] = cohen(votes)
    return found


def _corrected(config: ReviseLabels, folder: Path, found: Audited) -> list[dict[str, Any]]:
    """Entail@K of the round, corrected stratum by stratum; uncorrected where a stratum has no verdicts."""
    figures = read_figures(folder)
    told_before: list[dict[str, Any]] = figures["entail_at"]
    ks = [int(row["k"]) for row in told_before]
    counts = audited_counts(figures.get("counted") or {}, ks, read_table(folder / LEDGER, CandidateRow), found.looked)
    if counts is None:
        return told_before
    leaked = np.array(figures["counted"]["leaked"], bool)
    return entail_figures(counts, leaked, config.seed)


def _write(
    folder: Path,
    config: ReviseLabels,
    revised: Path,
    source: Path,
    made: Round,
    found: Audited,
    corrected: list[dict[str, Any]],
) -> None:
    parents = [
        Parent("revised", "dataset", open_artifact(revised).sha256),
        Parent("judgments", JUDGMENTS, open_artifact(source).sha256),
    ]
    told = {name: value for name, value in asdict(found).items() if name not in ("looked", "parts")}
    told |= {"round": made.number, "strata": _strata(found), "entail_at": corrected}
    require_ours(folder)
    with locked(folder):
        take_manifest(folder)
        write_table(folder / LOOKED, found.looked)
        write_bytes(folder / FIGURES, msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
        finish(
            folder,
            kind=AUDIT,
            verb="revise-labels",
            config={"round": made.number, "seed": config.seed},
            parents=parents,
            content=Content(
                [LOOKED, FIGURES], {"looked": len(found.looked), "ties": found.ties, "unseen": found.unseen}, {}
            ),
        )


def _strata(found: Audited) -> list[dict[str, Any]]:
    seen = sorted({one.stratum for one in found.looked})
    rows = []
    for name in seen:
        held = [one for one in found.looked if one.stratum == name]
        rows.append({"stratum": name, "looked": len(held), "entailed": sum(one.entailed for one in held)})
    return rows


def _report(
    config: ReviseLabels, folder: Path, made: Round, found: Audited, corrected: list[dict[str, Any]]
) -> ReviseReport:
    strata = tuple((row["stratum"], row["looked"], row["entailed"]) for row in _strata(found))
    tables = {
        "strata": Table("Human verdicts", ("stratum", "judged", "entailed"), strata),
        "reliability": reliability_table(found.revision, found.classifier),
    }
    conflicts = read_table(config.folder() / folder_of(made.number) / ALSO, SetConflict)
    if conflicts:
        tables["also"] = conflict_table(conflicts, {(one.caption, one.image): one.entailed for one in found.looked})
    if corrected:
        tables["entail"] = entail_table(corrected, made.by)
    agreement = {name: agreed(one) for name, one in found.between.items()}
    facts = {
        "audit": folder,
        "round": made.number,
        "sample": describe_sample(len(found.looked), found.ties, found.unseen),
        **agreement,
        "Cohen's kappa, people and classifier": f"{agreed(found.with_people)}, weighted to all candidates",
    }
    notes = []
    if found.unseen:
        hint = export_hint(config, made.number)
        notes.append(f"{found.unseen} pairs of the sample were not judged: {hint}, unless they are exported already")
    if found.waiting:
        notes.append(
            f"{found.waiting} pairs have fewer votes than requested: ctxr serve collects more, then run ctxr revise-labels --audit again"
        )
    if corrected and all(row["corrected"]["value"] is None for row in corrected):
        notes.append(
            "Entail@K is not corrected: a stratum has no verdicts, or earlier rounds added some of the first K captions, which this sample "
            f"does not cover. ctxr eval RUN --judgments {config.folder()} corrects all active rounds together"
        )
    return ReviseReport(folder, "audited", made.number, facts, tables, tuple(notes))
