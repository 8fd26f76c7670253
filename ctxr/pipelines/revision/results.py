"""What a finished round says: tables of figures, its report, and what an audit corrects."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ctxr.datasets.rounds import (
    CONFLICTS,
    SAMPLE,
    AuditVerdict,
    CandidateRow,
    Round,
    SetConflict,
    folder_of,
    newest_sample,
    read_figures,
    stratum_of,
)
from ctxr.engine.project import command_in
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import plural
from ctxr.metrics.entail_at import ExpectedCounts, entail_at
from ctxr.metrics.stratified import SampledPairs, audited_pairs
from ctxr.metrics.votes import Doubles, Flags
from ctxr.models.judges.cascade import Cascade
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.store.tables import read_table


def audited_counts(
    columns: Mapping[str, Any] | None, ks: Sequence[int], links: Sequence[CandidateRow], audited: Sequence[AuditVerdict]
) -> ExpectedCounts | None:
    """The counts of a round with the human verdicts on its strata; None where the figures of the round count none, and where earlier
    rounds added or rejected some of these: this round's sample does not cover them.
    `columns` are `counted` of the figures, `links` every candidate of the round."""
    if columns is None or np.any(columns["earlier"]) or np.any(columns["rejected"]):
        return None
    written, extra = (np.array(columns[name], np.float64) for name in ("written", "extra"))
    positions = {image: position for position, image in enumerate(columns["images"])}
    unsure: Counter[str] = Counter()
    candidates, ranks_of = [], []
    for link in sorted(links, key=lambda link: link.rank):
        if link.direction == "caption" or link.image not in positions:
            continue
        unsure[link.image] += link.reason == "between_thresholds"
        if link.reason != "between_thresholds":
            candidates.append(link)
            ranks_of.append(link.rank - unsure[link.image])
    entailed = {row.key(): int(row.entailed) for row in audited}
    strata = sorted({stratum_of(link) for link in links})
    code = {name: number for number, name in enumerate(strata)}
    verdicts = np.zeros((len(strata), 2))
    for row in audited:
        verdicts[code[row.stratum]] += (1, row.entailed)
    sampled = SampledPairs(
        np.array([positions[link.image] for link in candidates], np.int64),
        np.zeros(len(candidates), np.int64),
        np.array([code[stratum_of(link)] for link in candidates], np.int64),
        np.array([entailed.get(link.key(), -1) for link in candidates], np.int64),
        np.ones(len(candidates), bool),
        verdicts,
    )
    # the first K are those that were given and the best of the others
    room = np.array(ks) - written
    first = (np.array(ranks_of, np.int64)[:, None] <= room[sampled.images]).astype(np.float64).T
    counts = np.stack([np.bincount(sampled.images, column, len(written)) for column in first], axis=1)
    if not np.array_equal(counts, room):  # a picture of several galleries stands in the ledger once
        return None
    pairs = tuple(audited_pairs(sampled, column, len(written)) for column in first)
    unanswered = first * np.array([link.reason == "no_answer" for link in candidates])
    judged: Doubles = np.stack(
        [k - np.bincount(sampled.images, one, len(written)) for k, one in zip(ks, unanswered, strict=True)]
    )
    return ExpectedCounts(written, extra, judged.T, tuple(ks), pairs)


def entail_figures(counts: ExpectedCounts, leaked: Flags, seed: int) -> list[dict[str, Any]]:
    """Entail@K by the classifier's labels for `figures.json`, corrected where it was audited (`audited_counts`)."""
    rows = entail_at(counts, "classifier", np.random.default_rng(seed), leaked, resamples=1000)
    return [asdict(row) for row in rows]


def entail_table(rows: Sequence[Mapping[str, Any]], by: str) -> Table:
    """Entail@K, as `entail_figures` gives it, as a table: labels of the judge, never of people. Empty columns are left out."""
    leaked, audited = any(row["leaked"] for row in rows), any(row["corrected"]["value"] is not None for row in rows)
    columns = {"value": "by the judge %"}
    columns |= {"without_leaked": "without leaked %"} if leaked else {}
    columns |= {"corrected": "corrected %"} if audited else {}
    shares = ["judged"] * any(row["judged"] < 1 for row in rows) + ["leaked"] * leaked
    heads = ("figure", *columns.values(), *shares)
    shown = tuple(
        (f"E@{row['k']}", *(share_with_interval(row[name]) for name in columns), *(row[name] for name in shares))
        for row in rows
    )
    trained = (
        "leaked: share of the pictures that the judge was trained on"
        if leaked
        else "the judge was not trained on any of these pictures, as far as is known"
    )
    trained += "; captions without an answer are not judged, and count as not entailed" if "judged" in shares else ""
    state = f"{'' if audited else 'not yet '}corrected for the judge's errors by the answers of people (--audit)"
    note = (
        f"of the first K captions of a picture by {by}, the share that was written for it or that the judge calls entailed, "
        f"in this round or an earlier one; {trained}; {state}"
    )
    return Table("Entail@K, automatic labels", heads, shown, note)


def reported(config: ReviseLabels, current: Round, did: str, cascade: Cascade) -> ReviseReport:
    """The report of a finished round."""
    out, folder = config.folder(), config.folder() / folder_of(current.number)
    figures = read_figures(folder)
    leaked = figures["leaked"]
    limits = f"from the threshold {current.threshold:.3g} on a candidate counts as entailed"
    limits = "each judge of the cascade decides by its own limits" if current.judges else limits
    bands = tuple(
        (row["stratum"].replace("added", "entailed"), row["pairs"], row["probability"]) for row in figures["bands"]
    )
    heads = ("stratum", "pairs", "mean probability")
    note = f"p: bands of probability; {limits}; rank: among the candidates"
    tables = {"bands": Table("Decisions on the candidates", heads, bands, note)}
    if figures["entail_at"]:
        tables["entail"] = entail_table(figures["entail_at"], current.by)
    conflicts = read_table(folder / CONFLICTS, SetConflict)
    if conflicts:
        tables["also"] = conflict_table(conflicts, current.toy)
    unknown = f"; unknown for {cascade.unknown}" if cascade.unknown else ""
    limit = "" if current.judges else f", at a probability of {current.threshold:.3g} or more"
    dev = ""
    if current.called is not None:
        dev = (
            f" (on dev: precision {current.precision:.3f}, 95 %: {current.precision_low:.3f} to {current.precision_high:.3f}, "
            f"of {current.called:,} called; recall {current.recall:.3f})"
        )
    pairs = f"{current.added:,}{f' of the {current.added + current.pending:,}' if current.pending else ''} pairs"
    facts = {
        "revised": out,
        "round": current.number,
        "evaluated": f"{current.images:,} pictures, {current.candidates:,} candidates by {current.by}",
        "added": f"{pairs} that {current.classifier} calls entailed{limit}{dev}",
        **{
            f"verdicts of {row['name']}": f"{row['entailed']:,} entailed (p ≥ {row['high']:.3g}), {row['not']:,} not "
            f"(p < {row['low']:.3g}), {row['unsure']:,} unsure, of {row['asked']:,} candidates"
            for row in figures["judges"]
        },
        **_scope_facts(config, current),
        "left out by a cap": current.capped,
        "trained on": f"{len(leaked) or 'none'} of the pictures{unknown}",
        "to audit it": export_hint(config, current.number),
        "after the answers": config.followup("--audit"),
        **({"with a licence": config.entail_command()} if current.pending and not current.toy else {}),
        "undo": config.followup("--undo"),
    }
    notes = [f"{judge.name} is a toy: it was trained on drawn scenes alone" for judge in cascade.judges if judge.toy]
    if not (current.added or current.pending):
        notes.append("no candidate is called entailed: --threshold P sets another limit")
    return ReviseReport(out, did, current.number, facts, tables, tuple(notes), tuple(leaked), did == "up to date")


NO_SPLITS = "none; a column split (train, val, test) in the metadata.csv of a folder makes them; train needs no licence"

UNLICENSED = ("without a licence, pairs count on the split train alone", "a toy is never licensed")
"""Why pairs do not count, by whether the judge is a toy."""


def _scope_facts(config: ReviseLabels, current: Round) -> dict[str, str]:
    """The licence by which a round counts on valid and test, or how to make it count there."""
    if current.unlicensed:
        return {"unlicensed": f"no licence for {current.classifier}: the round counts because of --unlicensed"}
    facts = {"licence": current.licence} if current.licence and not current.refused else {}
    if current.pending:
        why = "outside what people audited" if current.licence else UNLICENSED[current.toy]
        why = f"a later audit refused the judge: {current.refused}" if current.refused else why
        facts["not in force"] = f"{plural(current.pending, 'entailed pair', form=',')}: {why}"
        facts["to count them anyway"] = config.entail_command(unlicensed=True)
    if current.splits == ("",):
        facts["splits"] = NO_SPLITS
    return facts


def export_hint(config: ReviseLabels, number: int) -> str:
    """The command that exports the sample of a round for people."""
    sample, newest = config.folder() / folder_of(number) / SAMPLE, newest_sample(config.workdir)
    is_newest = newest is not None and newest.resolve() == sample.resolve()
    return command_in(config.workdir, "export-tasks", "entail", *(() if is_newest else ("--candidates", str(sample))))


def conflict_table(
    conflicts: Sequence[SetConflict], toy: bool, verdicts: Mapping[tuple[str, str], bool] | None = None
) -> Table:
    """Descriptions of small sets that hold for another picture by the judge: the surest, or those with verdicts."""
    heads = ["description", "written for", f"also holds for{', says a toy' * toy}", "probability"]
    note = f"the surest of {len(conflicts):,}; all are in also.jsonl of the round, for people to check"
    shown = sorted(conflicts, key=lambda row: (-row.probability, row.key()))[:12]
    if verdicts is not None:
        shown = [conflict for conflict in conflicts if conflict.key() in verdicts]
        shown.sort(key=lambda row: (not verdicts[row.caption, row.image], row.key()))
        heads.insert(3, "by people")
        note = f"{len(shown):,} of the {len(conflicts):,} that the judge found; a larger --sample shows more of them to people"
    rows = []
    for row in shown:
        people = [] if verdicts is None else ["yes" if verdicts[row.caption, row.image] else "no"]
        rows.append((row.text, ", ".join(row.images), row.image, *people, row.probability))
    return Table("Descriptions that hold for another picture of their set", tuple(heads), tuple(rows), note)
