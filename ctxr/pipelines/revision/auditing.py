"""Precision and recall of a round: human verdicts on its sample, weighted to all candidates."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from ctxr.annotation.answers import merge_journal, refused_answers
from ctxr.annotation.artifacts import AggregatedAnswers, read_judgments, read_tasks
from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.lineage import picture_parents
from ctxr.datasets.open import dataset_identity, read_dataset
from ctxr.datasets.rounds import (
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
    Rounds,
    SetConflict,
    base_of,
    counted_judgments,
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
from ctxr.errors import UnfinishedError, UsageError, plural
from ctxr.metrics.agreement import Agreement, cohen, fleiss
from ctxr.metrics.alternative import LEVEL, Preference, preference
from ctxr.metrics.consensus import TIE, majority
from ctxr.metrics.stratified import PairVotes, Reliability, Stratum, kappa, reliability
from ctxr.metrics.votes import Votes, gather
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.licence import TERMS, Answers, JudgedPairs, JudgeLicence, licences, license_judge
from ctxr.pipelines.revision.results import audited_counts, conflict_table, entail_figures, entail_table, export_hint
from ctxr.store.artifacts import MANIFEST, Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import AUDIT, DATASET, JUDGMENTS, SERVED, TASKS
from ctxr.store.records import Judgment
from ctxr.store.tables import pretty_json, read_table, write_table


def agreement_words(found: Agreement) -> str:
    """A coefficient with its number of pairs, or the reason why it is undefined."""
    return (found.reason or "–") if found.value is None else f"{found.value:.3f} on {found.units} pairs"


def reliability_table(revision: Reliability, classifier: Reliability) -> Table:
    """Precision and recall of the judge, without and with what caps left out."""
    measures = {"entailed by the judge, within the caps": revision, "entailed by the judge, all": classifier}
    note = (
        "over all candidates of the round, not the sample alone; recall: of the entailed ones among the candidates; "
        "the intervals take what people decided as right"
    )
    if revision.errors:
        yes, no = (share_with_interval(asdict(rate)) for rate in revision.errors)
        note = note.rpartition("; ")[0] + (
            f"; corrected for people's errors, which are taken as independent: {yes} % of single votes call a pair entailed that is not, "
            f"and {no} % the reverse"
        )
    if revision.called == classifier.called:
        measures = {"entailed by the judge": revision}
        note += "; no cap left anything out"
    rows = []
    for name, found in measures.items():
        count = found.entailed
        span = "–" if count.low is None else f"{count.value:.0f} ({count.low:.0f}–{count.high:.0f})"
        shares = (share_with_interval(asdict(share)) for share in (found.precision, found.recall))
        rows.append((name, found.called, *shares, span))
    heads = ("of", "pairs", "precision %", "recall %", "entailed candidates")
    return Table("Precision and recall of the round, by human judgment", heads, tuple(rows), note)


@dataclass(frozen=True)
class AuditMeasures:
    """What human verdicts on a sample tell of a round.

    Attributes:
        revision: of the labels that were added. classifier: of what it calls entailed, caps or not. between: agreement of people among
            each other on entailed or not, by the name of the coefficient. disputed: pairs on which they differ in that.
        with_people: Cohen's kappa of the classifier with what people decided, over all candidates: strata weigh what they hold.
        ties: pairs with tied votes. unseen: pairs of the sample without a vote. waiting: pairs with fewer votes than requested.
    """

    revision: Reliability
    classifier: Reliability
    between: dict[str, Agreement]
    disputed: int
    with_people: Agreement
    ties: int
    unseen: int
    waiting: int


@dataclass(frozen=True)
class HumanVerdicts(AuditMeasures):
    """The human verdicts on a round: on the pairs of the sample that people decided, and the answer of each person to each pair."""

    looked: tuple[AuditVerdict, ...]
    answers: Answers


@dataclass(frozen=True)
class AuditFigures(AuditMeasures):
    """What the file of figures of an audit holds, also whether the judge favours its retriever, how many pairs of each judged stratum were
    decided and are entailed, and Entail@K, corrected where it can be."""

    licence: JudgeLicence
    favours: Preference | None
    round: int
    strata: list[dict[str, Any]]
    entail_at: list[dict[str, Any]]


@dataclass(frozen=True)
class AuditInputs(Inputs):
    """What an audit reads: `blocked` workers are not counted."""

    blocked: tuple[str, ...]


@dataclass(eq=False)
class AuditStage(Stage[AuditInputs]):
    """The artifact of the audit of a round."""

    KIND = AUDIT
    options: ReviseLabels
    round: Round

    def out(self) -> Path:
        """A folder of the project, called after the round."""
        return self.options.workdir / AUDITS / f"{self.round.number:03d}"

    def inputs(self, progress: Progress) -> AuditInputs:
        """The revised labels with what they are made from, and the answers."""
        config, source = self.options, self.options.workdir / JUDGMENTS
        if not (source / MANIFEST).is_file():
            sample = read_table(config.folder() / folder_of(self.round.number) / STRATA, AuditSample)
            raise _no_answers(config, self.round, sample)
        blocked = blocked_workers(config.workdir, config.database)
        key = {"round": self.round.number} | {name: getattr(config, name) for name in ("seed", "precision", "epsilon")}
        parents = [
            Parent("revised", DATASET, open_artifact(config.folder()).sha256),
            Parent("judgments", JUDGMENTS, open_artifact(source).content),
        ]
        base = self.base()
        if base is not None:
            known = dataset_identity(base)
            parents += [known, *picture_parents(base, known, config.workdir, progress)]
        return AuditInputs(parents, key | {"blocked": sha256_of(blocked) if blocked else ""}, blocked)

    def base(self) -> Path | None:
        """The dataset that was revised, if it is still there."""
        base = self.options.dataset or base_of(self.options.folder())
        return base if base is not None and base.exists() else None

    def write(self, inputs: AuditInputs, out: Path, progress: Progress) -> Content:
        """Compare the round with the answers. Raises UnfinishedError where its sample has none."""
        config, revised, current = self.options, self.options.folder(), self.round
        folder = revised / folder_of(current.number)
        sample = read_table(folder / STRATA, AuditSample)
        audited = audited_sample(sample, read_judgments(config.workdir / JUDGMENTS), inputs.blocked)
        if not audited.looked:
            raise _no_answers(config, current, sample)
        self.announce(progress, pairs=len(sample), looked=len(audited.looked))
        links = read_table(folder / LEDGER, CandidateRow)
        base = self.base()
        content = "" if base is None else open_base(base, config.workdir, progress).content
        dataset = read_dataset(revised)
        of_set = {image_set.id: dataset.split_of(image_set) or "" for image_set in dataset.sets}
        split_of = {row.key(): of_set[dataset.queries[row.caption].image_set] for row in sample}
        evaluated = [row for row in sample if split_of[row.key()] != "train"]
        splits = sorted({split_of[row.key()] for row in evaluated if row.key() in audited.answers})
        outside = [link for link in links if of_set[dataset.queries[link.caption].image_set] != "train"]
        licensing = JudgedPairs(current, evaluated, outside, audited.answers)
        every = JudgedPairs(current, sample, links, audited.answers)
        decided = Counter(row.stratum for row in audited.looked)
        entailed = Counter(row.stratum for row in audited.looked if row.entailed)
        # Entail@K is corrected stratum by stratum, unless a stratum has no verdicts
        made = read_figures(folder)
        terms = {name: made["settings"][name] for name in TERMS}
        entail_at, ks = made["entail_at"], [int(row["k"]) for row in made["entail_at"]]
        if counted := audited_counts(made["counted"], ks, links, audited.looked):
            entail_at = entail_figures(counted, np.array(made["counted"]["leaked"], bool), config.seed)
        figures = AuditFigures(
            **{field.name: getattr(audited, field.name) for field in fields(AuditMeasures)},
            licence=license_judge(config, current, content, licensing, splits, terms=terms),
            favours=preference(
                every.probability, every.ranks, every.entailed, every.weights * every.decided, config.seed
            ),
            round=current.number,
            strata=[{"stratum": name, "looked": decided[name], "entailed": entailed[name]} for name in sorted(decided)],
            entail_at=entail_at,
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
    fitting = [row for row in rounds if config.round == row.number or (not config.round and row.active)]
    if not fitting:
        raise UsageError("every round is undone", hint=f"--round N audits one of them; or {config.followup('--redo')}")
    current = fitting[-1]
    if (config.workdir / TASKS).is_dir() or (config.workdir / JUDGMENTS / MANIFEST).is_file():
        merge_journal(config.workdir, progress, config.database)
    stage = AuditStage(config, current)
    up_to_date = execute(stage, progress).up_to_date
    if apply_refusals(config, stage.base(), current.classifier_fingerprint, progress):
        execute(stage, progress)  # its parent has changed, its figures have not
        current = read_rounds(out)[current.number - 1]
    return replace(_report(config, current, stage.out()), up_to_date=up_to_date)


def apply_refusals(config: ReviseLabels, path: Path | None, judge: str, progress: Progress) -> bool:
    """Make rounds pending where the latest audit refuses a judge's licence, else count them; whether any changed."""
    out, changed = config.folder(), dict[int, Round]()
    licensed = [row for row in read_rounds(out) if row.licence and row.classifier_fingerprint == judge]
    if not licensed or path is None:
        return False
    base = open_base(path, config.workdir, progress)
    tested = (one.reason * (not one.passed) for _, one in licences(config.workdir, judge, base.content) if one.tested)
    reason = next(tested, "")
    for row in licensed:
        refused = structs.replace(row, refused=reason)
        added = sum(one.value > 0 for one in counted_judgments(out, refused, base.dataset))
        changed[row.number] = structs.replace(refused, added=added, pending=row.added + row.pending - added)
    return not execute(Rounds(config, base, changed), progress).up_to_date


def _no_answers(config: ReviseLabels, current: Round, sample: Sequence[AuditSample]) -> UnfinishedError:
    """The error of a sample without answers; its hint is the next command."""
    pairs = {row.key() for row in sample}
    tasks = [read_tasks(file.parent) for file in sorted((config.workdir / TASKS).glob(f"*/{MANIFEST}"))]
    exported = [task for task in tasks if any((unit.images[0], *unit.text_ids) in pairs for unit in task.units)]
    hint = f"{export_hint(config, current.number)}   (then {command_in(config.workdir, 'serve', '--invite', '3')})"
    if exported:
        backend = exported[0].backend
        words = ("serve", "--invite", "3") if backend in SERVED else ("import-answers", "--from", backend)
        hint = f"{command_in(config.workdir, *words)}   (its pairs are in {exported[0].path})"
    return UnfinishedError(f"the sample of round {current.number} has no answers yet", hint=hint)


def audited_sample(sample: Sequence[AuditSample], answered: AggregatedAnswers, blocked: Sequence[str]) -> HumanVerdicts:
    """The human verdicts on a sample, by majority of all votes; tied pairs count as not judged."""
    pairs = {f"entail/{row.image}/{row.caption}": row for row in sample}
    rows = [row for row in answered.judgments if row.query in pairs and row.round == 0 and row.worker not in blocked]
    verdicts = [row for row in rows if row.candidate == ENTAILMENT]
    votes = _votes(verdicts, [int(row.value > 0) for row in verdicts])
    values = dict(zip(map(str, votes.unit_names), majority(votes).tolist(), strict=True))
    decisions = tuple(
        AuditVerdict(row.image, row.caption, row.stratum, row.decision, bool(votes.labels[value]))
        for row, value in ((pairs[name], value) for name, value in values.items() if value != TIE)
    )
    answers: dict[tuple[str | int, ...], dict[str, bool]] = {}
    for verdict in verdicts:
        answers.setdefault(pairs[verdict.query].key(), {})[verdict.worker] = verdict.value > 0
    strata = {row.stratum: (row.population, row.decision == "added") for row in sample}
    decided = Counter(row.stratum for row in decisions)
    positive = Counter(row.stratum for row in decisions if row.entailed)
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
    # what people say of entailed or not, whichever of the other two answers they give
    chosen = [row for row in rows if row.value > 0]
    said = [(row.query, row.candidate == ENTAILMENT) for row in chosen]
    both = _votes(chosen, [entailed for _, entailed in said])
    between = {"Fleiss' kappa": fleiss(both)} if chosen else {}
    if len(both.worker_names) == 2:
        between["Cohen's kappa"] = cohen(both)
    answered_by = Counter(query for query, _ in {(row.query, row.worker) for row in rows})
    return HumanVerdicts(
        revision=reliability(list(parts.values()), cast),
        classifier=reliability(of_classifier, cast),
        between=between,
        disputed=sum(count > 1 for count in Counter(query for query, _ in set(said)).values()),
        with_people=kappa(of_classifier),
        ties=len(values) - len(decisions),
        unseen=len(pairs) - len(values),
        # answers may be fewer than requested
        waiting=sum(0 < answered_by[unit.query or ""] < unit.most for unit in answered.units.values()),
        looked=decisions,
        answers=answers,
    )


def _votes(rows: Sequence[Judgment], values: Sequence[int]) -> Votes:
    return gather([row.query for row in rows], [row.worker for row in rows], values)


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
    if current.refused:
        facts["not in force"] = f"{plural(current.pending, 'entailed pair', form=',')} of round {current.number}"
    if current.pending:
        # the licence holds for such a round alone
        below = None if "@" in "".join(named[-1:]) else licence.unsure_below
        audited = ReviseLabels(out=config.out, workdir=config.workdir, judge=tuple(named), unsure=below)
        free = current.toy or not licence.passed
        facts["with this licence"] = audited.command_line("--entail", **licence.terms, unlicensed=free)
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
        tables["people"] = Table(
            "Alternative annotator test",
            ("person left out", "pairs", "judge no worse on", "p", "judge may stand in"),
            tuple((*vars(person).values(),) for person in audited.licence.people),
            "judge and person are compared, pair by pair, by the number of other people who agree with either; p: of the hypothesis "
            f"that the judge is worse by ε = {audited.licence.epsilon:g} or more, corrected by Benjamini and Yekutieli",
        )
    conflicts = read_table(config.folder() / folder_of(current.number) / CONFLICTS, SetConflict)
    if conflicts:
        verdicts = {(row.caption, row.image): row.entailed for row in looked}
        tables["also"] = conflict_table(conflicts, current.toy, verdicts)
    if corrected:
        tables["entail"] = entail_table(corrected, current.by)
    size = len(looked) + audited.ties + audited.unseen
    sample = f"all {size:,} pairs of the sample were decided"
    if size > len(looked):
        sample = f"{len(looked):,} of {size:,} pairs of the sample were decided"
        others = {"ended in a tie": audited.ties, "were not judged": audited.unseen}
        sample += "".join(f", {count:,} {what}" for what, count in others.items() if count)
    facts = {
        "audit": folder,
        "round": current.number,
        "sample": sample,
        "disputed": f"people disagree on {audited.disputed:,} pairs",
        **{name: agreement_words(found) for name, found in audited.between.items()},
        "Cohen's kappa, people and judge": f"{agreement_words(audited.with_people)}, weighted to all candidates",
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
