"""Precision and recall of a round: human verdicts on its sample, weighted to all candidates."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.annotation.answers import merge_journal, refused_answers
from ctxr.annotation.artifacts import Answered, read_judgments, read_tasks
from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.open import dataset_identity, read_dataset
from ctxr.datasets.rounds import (
    AUDIT,
    AUDITS,
    CONFLICTS,
    FIGURES,
    LEDGER,
    LOOKED,
    STRATA,
    AuditSample,
    AuditVerdict,
    CandidateRow,
    Round,
    SetConflict,
    base_of,
    folder_of,
    open_base,
    read_figures,
    read_rounds,
    refuse_changed_rounds,
    refuse_unknown,
)
from ctxr.engine.progress import Progress
from ctxr.engine.project import command_in
from ctxr.engine.report import Table, share_with_interval
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import UnfinishedError, UsageError
from ctxr.metrics.agreement import Agreement, cohen, fleiss
from ctxr.metrics.alternative import LEVEL, Preference
from ctxr.metrics.compare import Interval
from ctxr.metrics.consensus import TIE, majority
from ctxr.metrics.stratified import PairVotes, Reliability, Stratum, kappa, reliability
from ctxr.metrics.votes import gather
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.licence import Answers, JudgedPairs, JudgeLicence, license_judge
from ctxr.pipelines.revision.results import audited_counts, conflict_table, entail_figures, entail_table, export_hint
from ctxr.store.artifacts import MANIFEST, Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import DATASET, JUDGMENTS, SERVED, TASKS
from ctxr.store.records import Judgment
from ctxr.store.tables import pretty_json, read_table, write_table


def agreed(one: Agreement) -> str:
    """A coefficient with its number of pairs, or the reason why it is undefined."""
    return (one.reason or "–") if one.value is None else f"{one.value:.3f} on {one.units} pairs"


def reliability_table(revision: Reliability, classifier: Reliability) -> Table:
    """Precision and recall of what the judge calls entailed, without and with what caps left out."""
    measures = {"entailed by the judge, within the caps": revision, "entailed by the judge, all": classifier}
    note = (
        "over all candidates of the round, not the sample alone; recall: of the entailed ones among the candidates; "
        "the intervals take what people decided as right"
    )
    if revision.errors:
        yes, no = (share_with_interval(asdict(one)) for one in revision.errors)
        note = note.rpartition("; ")[0] + (
            f"; corrected for people's errors, which are taken as independent: {yes} % of single votes call a pair entailed that is not, "
            f"and {no} % the reverse"
        )
    if revision.called == classifier.called:
        measures = {"entailed by the judge": revision}
        note += "; no cap left anything out"
    rows = tuple(
        (
            name,
            one.called,
            share_with_interval(asdict(one.precision)),
            share_with_interval(asdict(one.recall)),
            _count(one.entailed),
        )
        for name, one in measures.items()
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
    size = decided + ties + unseen
    if decided == size:
        return f"all {size:,} pairs of the sample were decided"
    others = [f"{count:,} {what}" for count, what in ((ties, "ended in a tie"), (unseen, "were not judged")) if count]
    return ", ".join([f"{decided:,} of {size:,} pairs of the sample were decided", *others])


def _count(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{interval.value:.0f} ({interval.low:.0f}–{interval.high:.0f})"


@dataclass(frozen=True)
class Audited:
    """The human verdicts on a round.

    Attributes:
        looked: the pairs of the sample that people decided. revision: of the labels that were added. classifier: of what it
            calls entailed, caps or not. between: agreement of people among each other on entailed or not, by the name of the
            coefficient. disputed: pairs on which they differ in that.
        with_people: Cohen's kappa of the classifier with what people decided, over all candidates: strata weigh what they hold.
        ties: pairs with tied votes. unseen: pairs of the sample without a vote. waiting: pairs with fewer votes than requested.
        answers: of each person to each pair.
    """

    looked: tuple[AuditVerdict, ...]
    revision: Reliability
    classifier: Reliability
    between: dict[str, Agreement]
    disputed: int
    with_people: Agreement
    ties: int
    unseen: int
    waiting: int
    answers: Answers

    def strata(self) -> list[dict[str, Any]]:
        """Each judged stratum, how many of its pairs were decided, and how many of them are entailed."""
        decided = Counter(one.stratum for one in self.looked)
        entailed = Counter(one.stratum for one in self.looked if one.entailed)
        return [{"stratum": name, "looked": decided[name], "entailed": entailed[name]} for name in sorted(decided)]


@dataclass(frozen=True)
class AuditFigures:
    """What the file of figures of an audit holds; the first eight are those of `Audited`.

    Attributes:
        favours: whether the judge favours its retriever. strata: see `Audited.strata`. entail_at: Entail@K, corrected where it can be.
    """

    revision: Reliability
    classifier: Reliability
    between: dict[str, Agreement]
    disputed: int
    with_people: Agreement
    ties: int
    unseen: int
    waiting: int
    licence: JudgeLicence
    favours: Preference | None
    round: int
    strata: list[dict[str, Any]]
    entail_at: list[dict[str, Any]]


@dataclass(frozen=True)
class AuditInputs(Inputs):
    """What an audit reads: `blocked` workers are not counted."""

    blocked: tuple[str, ...]


class AuditStage(Stage[AuditInputs]):
    """The artifact of the audit of a round."""

    KIND = AUDIT
    options: ReviseLabels

    def __init__(self, options: ReviseLabels, audited: Round) -> None:
        super().__init__(options)
        self.round = audited
        self.folder = options.folder() / folder_of(audited.number)

    def out(self) -> Path:
        """A folder of the project, called after the round."""
        return self.options.workdir / AUDITS / f"{self.round.number:03d}"

    def inputs(self, progress: Progress) -> AuditInputs:
        """The revised labels with what they are made from, and the answers."""
        config, source = self.options, self.options.workdir / JUDGMENTS
        if not (source / MANIFEST).is_file():
            raise _nobody(config, self.round, read_table(self.folder / STRATA, AuditSample))
        blocked = blocked_workers(config.workdir, config.database)
        key = {"round": self.round.number} | {name: getattr(config, name) for name in ("seed", "precision", "epsilon")}
        parents = [
            Parent("revised", DATASET, open_artifact(config.folder()).sha256),
            Parent("judgments", JUDGMENTS, open_artifact(source).content),
        ]
        base = self.base()
        if base is not None:
            parents.append(dataset_identity(base))
        return AuditInputs(parents, key | {"blocked": sha256_of(blocked) if blocked else ""}, blocked)

    def base(self) -> Path | None:
        """The dataset that was revised, if it is still there."""
        base = self.options.dataset or base_of(self.options.folder())
        return base if base is not None and base.exists() else None

    def write(self, inputs: AuditInputs, out: Path, progress: Progress) -> Content:
        """Compare the round with the answers. Raises UnfinishedError where its sample has none."""
        config, revised, current = self.options, self.options.folder(), self.round
        sample = read_table(self.folder / STRATA, AuditSample)
        audited = audited_sample(sample, read_judgments(config.workdir / JUDGMENTS), inputs.blocked)
        if not audited.looked:
            raise _nobody(config, current, sample)
        links = read_table(self.folder / LEDGER, CandidateRow)
        base = self.base()
        content = "" if base is None else open_base(base).content
        dataset = read_dataset(revised)
        sides = {one.id: dataset.split_of(one) or "" for one in dataset.sets}
        side_of = {one.key(): sides[dataset.queries[one.caption].image_set] for one in sample}
        evaluated = [one for one in sample if side_of[one.key()] != "train"]
        splits = sorted({side_of[one.key()] for one in evaluated if one.key() in audited.answers})
        licensing = JudgedPairs(current, evaluated, links, audited.answers)
        figures = AuditFigures(
            **{name: value for name, value in vars(audited).items() if name not in ("looked", "answers")},
            licence=license_judge(config, current, content, licensing, splits),
            favours=JudgedPairs(current, sample, links, audited.answers).preference(config.seed),
            round=current.number,
            strata=audited.strata(),
            entail_at=_corrected(config, self.folder, links, audited),
        )
        write_table(out / LOOKED, audited.looked)
        write_bytes(out / FIGURES, pretty_json(figures))
        counts = {"looked": len(audited.looked), "ties": audited.ties, "unseen": audited.unseen}
        return Content([LOOKED, FIGURES], counts, {})


def audit(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Merge the journal's answers, compare a round with them, and write the result to `revision-audit/` of the project.

    Raises UnfinishedError without a round or answers to its sample, UsageError for an unknown round, DataError where a
    file of the rounds was changed since it was written.
    """
    refuse_changed_rounds(config.folder())
    out = config.folder()
    rounds = read_rounds(out)
    if not rounds:
        raise UnfinishedError(f"{out} holds no round", hint=config.followup("--entail"))
    refuse_unknown(rounds, config.round)
    fitting = [one for one in rounds if config.round == one.number or (not config.round and one.active)]
    if not fitting:
        raise UsageError("every round is undone", hint=f"--round N audits one of them; or {config.followup('--redo')}")
    current = fitting[-1]
    if (config.workdir / TASKS).is_dir() or (config.workdir / JUDGMENTS / MANIFEST).is_file():
        merge_journal(config.workdir, progress, config.database)
    stage = AuditStage(config, current)
    up_to_date = execute(stage, progress).up_to_date
    return replace(_report(config, current, stage.out()), up_to_date=up_to_date)


def _nobody(config: ReviseLabels, current: Round, sample: Sequence[AuditSample]) -> UnfinishedError:
    """The error of a sample without answers; its hint is the next command."""
    pairs = {(one.image, one.caption) for one in sample}
    tasks = [read_tasks(file.parent) for file in sorted((config.workdir / TASKS).glob(f"*/{MANIFEST}"))]
    exported = [task for task in tasks if any((unit.images[0], *unit.text_ids) in pairs for unit in task.units)]
    hint = f"{export_hint(config, current.number)}   (then {command_in(config.workdir, 'serve', '--invite', '3')})"
    if exported:
        backend = exported[0].backend
        words = ("serve", "--invite", "3") if backend in SERVED else ("import-answers", "--from", backend)
        hint = f"{command_in(config.workdir, *words)}   (its pairs are in {exported[0].path})"
    return UnfinishedError(f"the sample of round {current.number} has no answers yet", hint=hint)


def audited_sample(sample: Sequence[AuditSample], answered: Answered, blocked: Sequence[str]) -> Audited:
    """The human verdicts on a sample, by majority of all votes; tied pairs count as not judged."""
    pairs = {f"entail/{one.image}/{one.caption}": one for one in sample}
    rows = [row for row in answered.judgments if row.query in pairs and row.round == 0 and row.worker not in blocked]
    verdicts, ties = _majority([row for row in rows if row.candidate == ENTAILMENT])
    audited = tuple(
        AuditVerdict(pairs[name].image, pairs[name].caption, pairs[name].stratum, pairs[name].decision, entailed)
        for name, entailed in sorted(verdicts.items())
    )
    answers: dict[tuple[str | int, ...], dict[str, bool]] = {}
    for row in rows:
        if row.candidate == ENTAILMENT:
            answers.setdefault(pairs[row.query].key(), {})[row.worker] = row.value > 0
    strata = {one.stratum: (one.population, one.decision == "added") for one in sample}
    decided = Counter(one.stratum for one in audited)
    positive = Counter(one.stratum for one in audited if one.entailed)
    parts = {
        name: Stratum(population, decided[name], positive[name], called)
        for name, (population, called) in sorted(strata.items())
    }
    codes = {name: code for code, name in enumerate(parts)}
    counted = [
        (codes[pairs[f"entail/{image}/{caption}"].stratum], len(own), sum(own.values()))
        for (image, caption), own in answers.items()
    ]
    cast = PairVotes(*np.array(counted, np.int64).reshape(-1, 3).T)
    of_classifier = [replace(part, called=part.called or name.startswith("capped")) for name, part in parts.items()]
    # answers may be fewer than requested
    votes = Counter(query for query, _ in {(row.query, row.worker) for row in rows})
    waiting = sum(0 < votes[unit.query or ""] < unit.most for unit in answered.units.values())
    return Audited(
        audited, reliability(list(parts.values()), cast), reliability(of_classifier, cast), *_between(rows), kappa(of_classifier), ties,
        len(pairs) - len(verdicts) - ties, waiting, answers,
    )  # fmt: skip


def _majority(rows: Sequence[Judgment]) -> tuple[dict[str, bool], int]:
    """Whether people call each query's pair entailed; and the number of ties."""
    votes = gather([row.query for row in rows], [row.worker for row in rows], [int(row.value > 0) for row in rows])
    values = dict(zip(map(str, votes.unit_names), majority(votes).tolist(), strict=True))
    verdicts = {name: bool(votes.labels[value]) for name, value in values.items() if value != TIE}
    return verdicts, len(values) - len(verdicts)


def _between(rows: Sequence[Judgment]) -> tuple[dict[str, Agreement], int]:
    """Agreement among people on entailed or not: Fleiss' kappa, and Cohen's where there are just two of them; and how many pairs they
    differ on."""
    chosen = [row for row in rows if row.value > 0]
    if not chosen:
        return {}, 0
    entailed = [row.candidate == ENTAILMENT for row in chosen]
    votes = gather([row.query for row in chosen], [row.worker for row in chosen], entailed)
    verdicts = Counter(query for query, _ in {(row.query, one) for row, one in zip(chosen, entailed, strict=True)})
    two = {"Cohen's kappa": cohen(votes)} if len(votes.worker_names) == 2 else {}
    return {"Fleiss' kappa": fleiss(votes), **two}, sum(count > 1 for count in verdicts.values())


def _corrected(
    config: ReviseLabels, folder: Path, links: Sequence[CandidateRow], audited: Audited
) -> list[dict[str, Any]]:
    """Entail@K of the round, corrected stratum by stratum; uncorrected where a stratum has no verdicts."""
    figures = read_figures(folder)
    uncorrected: list[dict[str, Any]] = figures["entail_at"]
    ks = [int(row["k"]) for row in uncorrected]
    counts = audited_counts(figures["counted"], ks, links, audited.looked)
    if counts is None:
        return uncorrected
    return entail_figures(counts, np.array(figures["counted"]["leaked"], bool), config.seed)


def people_table(licence: JudgeLicence) -> Table:
    """The alternative annotator test, person by person."""
    heads = ("person left out", "pairs", "judge no worse on", "p", "judge may stand in")
    rows = tuple((*vars(person).values(),) for person in licence.people)
    note = (
        "on each pair, by how many of the others agree with the judge and with the person (none where nobody else answered); p: of the "
        f"hypothesis that the judge is worse by ε = {licence.epsilon:g} or more, corrected by Benjamini and Yekutieli"
    )
    return Table("Alternative annotator test", heads, rows, note)


def licence_facts(
    config: ReviseLabels, current: Round, licence: JudgeLicence, named: Sequence[str] = ()
) -> dict[str, str]:
    """Whether a judge is licensed and why, its threshold, and the next command with the judges as they were `named`."""
    facts = {"licence": f"{'granted' if licence.passed else 'refused'} to {licence.judge}: {licence.reason}"}
    if licence.omega is not None and licence.rho is not None:
        unsure = f"; it is unsure of {licence.unsure:,} more" if licence.unsure else ""
        facts["licence"] += f" (ω {licence.omega:.2f}, ρ {licence.rho:.3f}, on {licence.items:,} pairs{unsure})"
    if licence.threshold is not None:
        facts["threshold"] = f"{licence.threshold:.3g} by the audit, {current.threshold:.3g} in the round"
    if current.pending:
        judges = [word for spec in named for word in ("--judge", spec)]
        free = [] if licence.passed and not current.toy else ["--unlicensed"]
        facts["next"] = config.followup("--entail", *judges, *free)
    return facts


def favours_text(favours: Preference | None, family: str, by: str) -> str:
    """Whether the judge favours its retriever, in words."""
    if favours is None:
        return "not tested: pairs of the same verdict all rank alike"
    related = "; judge and retriever are of one family" if by.partition(":")[0] in family.split(", ") else ""
    seen = "it may (or people's errors follow the ranks)" if favours.p <= LEVEL else "no sign of it"
    more = f"{abs(favours.difference):.3f} {'lower' if favours.difference < 0 else 'higher'} up to rank {favours.rank:g} than below"
    return f"{seen} (among pairs of the same human verdict its probability is {more}, p {favours.p:.3f}){related}"


def _report(config: ReviseLabels, current: Round, folder: Path) -> ReviseReport:
    of_round = read_figures(config.folder() / folder_of(current.number))
    audited = msgspec.json.decode((folder / FIGURES).read_bytes(), type=AuditFigures)
    looked, corrected = read_table(folder / LOOKED, AuditVerdict), audited.entail_at
    strata = tuple(
        (row["stratum"].replace("added", "entailed"), row["looked"], row["entailed"]) for row in audited.strata
    )
    tables = {
        "strata": Table("Human verdicts", ("stratum", "judged", "entailed"), strata),
        "reliability": reliability_table(audited.revision, audited.classifier),
    }
    if audited.licence.people:
        tables["people"] = people_table(audited.licence)
    conflicts = read_table(config.folder() / folder_of(current.number) / CONFLICTS, SetConflict)
    if conflicts:
        verdicts = {(one.caption, one.image): one.entailed for one in looked}
        tables["also"] = conflict_table(conflicts, verdicts)
    if corrected:
        tables["entail"] = entail_table(corrected, current.by)
    facts = {
        "audit": folder,
        "round": current.number,
        "sample": describe_sample(len(looked), audited.ties, audited.unseen),
        "disputed": f"people disagree on {audited.disputed:,} pairs",
        **{name: agreed(one) for name, one in audited.between.items()},
        "Cohen's kappa, people and judge": f"{agreed(audited.with_people)}, weighted to all candidates",
        **licence_facts(config, current, audited.licence, of_round.get("named", ())),
        "favours the retriever": favours_text(audited.favours, of_round.get("judge_family", ""), current.by),
    }
    if refused := refused_answers(config.workdir / JUDGMENTS):
        facts["refused"] = ", ".join(f"{reason} {number}" for reason, number in refused.items())
    notes = []
    if audited.unseen:
        hint = export_hint(config, current.number)
        notes.append(f"pairs of the sample without an answer: {audited.unseen}; {hint}, unless exported already")
    if audited.waiting:
        notes.append(
            f"pairs with fewer votes than requested: {audited.waiting}; {command_in(config.workdir, 'serve')} collects more, then "
            f"{config.followup('--audit')}"
        )
    if corrected and all(row["corrected"]["value"] is None for row in corrected):
        notes.append(
            "Entail@K is not corrected: a stratum has no verdicts, or earlier rounds added some of the first K captions, which this sample "
            f"does not cover. ctxr eval RUN --judgments {config.folder()} corrects all active rounds together"
        )
    return ReviseReport(folder, "audited", current.number, facts, tables, tuple(notes))
