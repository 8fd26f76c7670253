"""A round as it is sampled, written and reported."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxr.annotation.task_batch import StatementRow
from ctxr.datasets.rounds import (
    CAPPED,
    CONFLICTS,
    FIGURES,
    JUDGMENTS,
    LEDGER,
    SAMPLE,
    STRATA,
    AuditSample,
    AuditVerdict,
    CandidateRow,
    Decision,
    Direction,
    Reason,
    Round,
    SetConflict,
    folder_of,
    newest_sample,
    read_figures,
    stratum_of,
    write_round,
)
from ctxr.datasets.truth import UNSURE, WORKER
from ctxr.engine.project import command_in
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import plural
from ctxr.metrics.entail_at import KS, Counted, entail_at
from ctxr.metrics.stratified import Sampled, allocate, audited_pairs
from ctxr.metrics.votes import Codes, Doubles, Flags
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.store.records import Judgment
from ctxr.store.tables import encode_row, pretty_json, read_table

if TYPE_CHECKING:
    from ctxr.models.encoders import Encoder
    from ctxr.models.judges.cascade import Cascade, Verdicts
    from ctxr.pipelines.revision.candidates import Candidates
    from ctxr.pipelines.revision.inputs import ChosenThreshold, RevisionInput


def _by_stratum(links: Sequence[CandidateRow]) -> dict[str, list[CandidateRow]]:
    """The candidates of each stratum, by its name."""
    strata: dict[str, list[CandidateRow]] = {}
    for link in links:
        strata.setdefault(stratum_of(link), []).append(link)
    return dict(sorted(strata.items()))


def draw(links: Sequence[CandidateRow], size: int, rng: np.random.Generator) -> list[AuditSample]:
    """About `size` candidates, at least four of each stratum (`allocate`), without any twice."""
    strata = _by_stratum(links)
    names, samples = list(strata), []
    for name, count in zip(names, allocate([len(strata[name]) for name in names], size) if size else [], strict=False):
        links = strata[name]
        chosen = [links[index] for index in sorted(rng.choice(len(links), count, replace=False).tolist())]
        samples += [
            AuditSample(one.image, one.caption, name, one.decision, len(links), count, one.probability, one.rank)
            for one in chosen
        ]
    return samples


RESAMPLES = 1000


def counted(
    pools: Sequence[Candidates], verdicts: Sequence[Codes], top_k: int
) -> tuple[Counted, Doubles, Doubles] | None:
    """Among the first K captions of every picture without unsure ones: how many were written for it, and how many more are entailed, by
    this round or an earlier one; then those that earlier rounds added, and those that they rejected, [I, len(ks)] each.

    None where a gallery has fewer captions, or fewer were mined and decided, than the smallest K.
    """
    pairs = list(zip(pools, verdicts, strict=True))
    ks = tuple(
        k for k in KS if all(k <= min(top_k, len(one.gallery.captions)) - _unsure(one, own) for one, own in pairs)
    )
    if not ks or not pools:
        return None
    parts = [_first(pool, values, ks) for pool, values in pairs]
    written, extra, earlier, rejected = (np.concatenate(column) for column in zip(*parts, strict=True))
    judged = np.tile(np.array(ks, np.float64), (len(written), 1))
    return Counted(written, extra + earlier, judged, ks), earlier, rejected


def _unsure(pool: Candidates, values: Codes) -> int:
    """The most unsure captions that one picture has, of this round and of earlier ones."""
    earlier = np.array([image for image, _ in pool.gallery.unsure], np.int64)
    return int(np.bincount(np.concatenate([earlier, pool.images[values == UNSURE]]), minlength=1).max())


def _first(pool: Candidates, values: Codes, ks: Sequence[int]) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Captions among the first K of each picture without unsure ones, [I, len(ks)] each: written for it, entailed, and added and
    rejected by earlier rounds.

    The mined captions are the best unknown ones, so together with the known ones they contain the first K of all. Ties keep the
    order of mining, after known ones.
    """
    gallery, excluded = pool.gallery, pool.gallery.excluded
    images = np.concatenate([excluded[:, 0], pool.images])
    scores = np.concatenate([pool.known_scores, pool.scores])
    before = [3 * (pair in gallery.earlier) for pair in gallery.given]
    before += [4] * len(gallery.rejected) + [int(UNSURE)] * len(gallery.unsure)
    kinds = np.concatenate([np.array(before, np.int64), np.choose(values + 1, (int(UNSURE), 2, 1))])
    # a pair that was found only for its caption (2) ranks after all that were found for the picture
    mined = np.where(pool.directions == 2, np.iinfo(np.int64).max, pool.ranks)
    ranks = np.concatenate([np.zeros(len(excluded), np.int64), mined])
    order = np.lexsort((ranks, -scores, images))
    order = order[kinds[order] != UNSURE]
    images, kinds = images[order], kinds[order]
    rank = np.arange(len(images)) - np.searchsorted(images, images)
    count = len(gallery.images)
    counts = [[np.bincount(images[(kinds == kind) & (rank < k)], minlength=count) for k in ks] for kind in (0, 1, 3, 4)]
    written, extra, added, rejected = (np.stack(one, axis=1).astype(np.float64) for one in counts)
    return written, extra, added, rejected


def audited_counts(
    columns: Mapping[str, Any] | None, ks: Sequence[int], links: Sequence[CandidateRow], audited: Sequence[AuditVerdict]
) -> Counted | None:
    """The counts of a round with the human verdicts on its strata; None where the figures of the round count none, and where earlier
    rounds added or rejected some of these: this round's sample does not cover them.

    Args:
        columns: `counted` of the figures. links: every candidate of the round.
    """
    if columns is None or np.any(columns["earlier"]) or np.any(columns["rejected"]):
        return None
    written, extra = (np.array(columns[name], np.float64) for name in ("written", "extra"))
    positions = {image: position for position, image in enumerate(columns["images"])}
    unsure: Counter[str] = Counter()
    candidates, places = [], []
    for link in sorted(links, key=lambda link: link.rank):
        if link.direction == "caption" or link.image not in positions:
            continue
        unsure[link.image] += link.decision == "unsure"
        if link.decision != "unsure":
            candidates.append(link)
            places.append(link.rank - unsure[link.image])
    by_pair = {(one.image, one.caption): one for one in audited}
    strata = sorted({stratum_of(link) for link in links})
    code = {name: number for number, name in enumerate(strata)}
    verdicts = np.zeros((len(strata), 2))
    for one in audited:
        verdicts[code[one.stratum]] += (1, one.entailed)
    decided = [by_pair.get((link.image, link.caption)) for link in candidates]
    sampled = Sampled(
        np.array([positions[link.image] for link in candidates], np.int64),
        np.zeros(len(candidates), np.int64),
        np.array([code[stratum_of(link)] for link in candidates], np.int64),
        np.array([-1 if one is None else int(one.entailed) for one in decided], np.int64),
        np.ones(len(candidates), bool),
        verdicts,
    )
    ranks = np.array(places, np.int64)
    # the first K are those that were given and the best of the others
    room = np.array(ks) - written
    first = (ranks[:, None] <= room[sampled.images]).astype(np.float64)
    counts = np.stack(
        [np.bincount(sampled.images, first[:, position], len(written)) for position in range(len(ks))], axis=1
    )
    if not np.array_equal(counts, room):  # a picture of several galleries stands in the ledger once
        return None
    pairs = tuple(audited_pairs(sampled, first[:, position], len(written)) for position in range(len(ks)))
    return Counted(written, extra, np.tile(np.array(ks, np.float64), (len(written), 1)), tuple(ks), pairs)


def entail_figures(counts: Counted, leaked: Flags, seed: int) -> list[dict[str, Any]]:
    """Entail@K by the classifier's labels as plain values for `figures.json`; corrected where these candidates were audited
    (`audited_counts`)."""
    rows = entail_at(counts, "classifier", np.random.default_rng(seed), leaked, resamples=RESAMPLES)
    return [asdict(row) for row in rows]


def entail_table(rows: Sequence[Mapping[str, Any]], by: str) -> Table:
    """Entail@K, as `entail_figures` gives it, as a table: labels of the judge, never of people. Empty columns are left out."""
    leaked, audited = any(row["leaked"] for row in rows), any(row["corrected"]["value"] is not None for row in rows)
    columns = {"value": "by the judge %"}
    columns |= {"without_leaked": "without leaked %"} if leaked else {}
    columns |= {"corrected": "corrected %"} if audited else {}
    heads = ("figure", *columns.values(), *(["leaked"] if leaked else []))
    shown = tuple(
        (f"E@{row['k']}", *(share_with_interval(row[name]) for name in columns), *([row["leaked"]] if leaked else []))
        for row in rows
    )
    trained = "the judge was not trained on any of these pictures, as far as is known"
    trained = "leaked: share of the pictures that the judge was trained on" if leaked else trained
    state = f"{'' if audited else 'not yet '}corrected for the judge's errors by the answers of people (--audit)"
    note = (
        f"of the first K captions of a picture by {by}, the share that was written for it or that the judge calls entailed, "
        f"in this round or an earlier one; {trained}; {state}"
    )
    return Table("Entail@K, automatic labels", heads, shown, note)


def bands(links: Sequence[CandidateRow]) -> list[dict[str, Any]]:
    """Candidates of each stratum of the audit, with their mean probability; None where the judge gave no answer."""
    rows = []
    for name, own in _by_stratum(links).items():
        known = [link.probability for link in own if link.probability is not None]
        rows.append({"stratum": name, "pairs": len(own), "probability": float(np.mean(known)) if known else None})
    return rows


def bands_table(rows: Sequence[dict[str, Any]], current: Round) -> Table:
    """Strata as a table; a band may hold the threshold between entailed and rejected candidates, and not all of those are added."""
    shown = tuple((row["stratum"].replace("added", "entailed"), row["pairs"], row["probability"]) for row in rows)
    limits = f"from the threshold {current.threshold:.3g} on a candidate counts as entailed"
    limits = "each judge of the cascade decides by its own limits" if current.judges else limits
    note = f"p: bands of probability; {limits}; rank: among the candidates"
    return Table("Decisions on the candidates", ("stratum", "pairs", "mean probability"), shown, note)


DIRECTIONS: dict[int, Direction] = {1: "image", 2: "caption", 3: "both"}

DECISIONS: dict[Reason | None, Decision] = {None: "added", "between_thresholds": "unsure", "no_answer": "unsure"}


@dataclass(frozen=True)
class Revised:
    """The decisions of a round, before they are written; parallel tuples are by gallery.

    Attributes:
        reasons: see `decide`. leaked: images that a judge was trained on. own: captions written for each image.
        texts: of each caption. force: splits on which the decisions count. licence: see `Round`.
    """

    inputs: RevisionInput
    pools: tuple[Candidates, ...]
    verdicts: tuple[Verdicts, ...]
    reasons: tuple[Sequence[Reason | None], ...]
    threshold: ChosenThreshold
    encoder: Encoder
    cascade: Cascade
    leaked: frozenset[str]
    own: Mapping[str, list[str]]
    texts: Mapping[str, str]
    force: frozenset[str] = frozenset()
    licence: str = ""

    def links(self) -> Iterator[CandidateRow]:
        """The decision on every candidate; a pair of several galleries is listed once, as in the first."""
        seen: set[tuple[str, str]] = set()
        for pool, verdicts, reasons in zip(self.pools, self.verdicts, self.reasons, strict=True):
            images, captions = pool.gallery.images, pool.gallery.captions
            for row in range(len(pool)):
                image, caption = images[int(pool.images[row])], captions[int(pool.captions[row])]
                if (image, caption) in seen:
                    continue
                seen.add((image, caption))
                probability = float(verdicts.probabilities[row])
                yield CandidateRow(
                    image=image,
                    caption=caption,
                    source=self.encoder.name,
                    direction=DIRECTIONS[int(pool.directions[row])],
                    rank=int(pool.ranks[row]),
                    score=round(float(pool.scores[row]), 6),
                    probability=None if math.isnan(probability) else round(probability, 6),
                    decision=DECISIONS.get(reasons[row], "rejected"),
                    classifier=self.cascade.judges[int(verdicts.judges[row])].fingerprint,
                    reason=reasons[row],
                    leaked=image in self.leaked,
                )

    def counting(self, links: Sequence[CandidateRow]) -> list[CandidateRow]:
        """The decisions that count; without an answer a pair of an evaluated split is as if nobody judged it."""
        dataset = self.inputs.base.dataset
        sides = {one.gallery.id: one.gallery.side for one in self.pools if one.gallery.side in self.force}
        side_of = [sides.get(dataset.queries[link.caption].image_set) for link in links]
        return [
            link
            for link, side in zip(links, side_of, strict=True)
            if side == "train" or (side is not None and link.reason != "no_answer")
        ]

    def judges(self) -> list[dict[str, Any]]:
        """Each judge with its limits, how many candidates it was asked about, and how many of these it decided or left unsure."""
        limits = (*self.cascade.limits, self.threshold.limits)
        places, values = (
            np.concatenate([getattr(one, name) for one in self.verdicts]) for name in ("judges", "values")
        )
        rows = []
        for place, (judge, (low, high)) in enumerate(zip(self.cascade.judges, limits, strict=True)):
            asked, own = int((places >= place).sum()), values[places == place]
            facts = {"name": judge.name, "fingerprint": judge.fingerprint, "toy": judge.toy, "low": low, "high": high}
            counts = {"entailed": int((own == 1).sum()), "not": int((own == 0).sum())}
            rows.append(facts | {"asked": asked, "unsure": asked - sum(counts.values())} | counts)
        return rows

    def conflicts(self, links: list[CandidateRow]) -> list[SetConflict]:
        """Descriptions that were found to hold for another picture of their set, for people to check: only in sets of up to 20 should
        they hold for one alone."""
        dataset = self.inputs.base.dataset
        small = {one.id for one in dataset.sets if len(one.images) <= 20}
        conflicts = []
        for link in links:
            image_set = dataset.queries[link.caption].image_set
            if link.decision == "added" and link.probability is not None and image_set in small:
                images = tuple(sorted(self.inputs.positives.get(link.caption, ())))
                text = self.texts[link.caption]
                conflicts.append(SetConflict(link.caption, link.image, image_set, images, text, link.probability))
        return conflicts


def write(config: ReviseLabels, revised: Revised, number: int, decides: str) -> Round:
    """Write the files of a round."""
    links = list(revised.links())
    counting = revised.counting(links)
    samples = draw(links, config.sample, np.random.default_rng((config.seed, number)))
    dataset, threshold, cascade = revised.inputs.base.dataset, asdict(revised.threshold), revised.cascade
    texts, own = revised.texts, revised.own
    authors = {name: dataset.texts[dataset.queries[name].texts[0]].author for name in texts}
    decisions = Counter(link.decision for link in links)
    added = sum(link.decision == "added" for link in counting)
    current = Round(
        number=number,
        active=True,
        by=revised.encoder.name,
        by_fingerprint=revised.encoder.fingerprint,
        classifier=cascade.name,
        classifier_fingerprint=cascade.fingerprint,
        threshold=threshold.pop("value"),
        threshold_from=threshold.pop("chosen_by"),
        images=sum(len(pool.gallery.images) for pool in revised.pools),
        candidates=len(links),
        added=added,
        capped=sum(link.reason in CAPPED for link in links),
        leaked=len(revised.leaked),
        decides=decides,
        judges=tuple(one.fingerprint for one in cascade.judges) if len(cascade.judges) > 1 else (),
        unsure_below=threshold.pop("unsure"),
        unsure=decisions["unsure"],
        pending=decisions["added"] - added,
        licence=revised.licence,
        unlicensed=config.unlicensed,
        toy=cascade.toy,
        **threshold,
    )
    worker, value = f"{WORKER}:{cascade.name}", {"added": 1.0, "rejected": 0.0, "unsure": UNSURE}
    judgments = [
        Judgment(link.caption, link.image, worker, value[link.decision], round=number)
        for link in counting
        if link.reason not in CAPPED
    ]
    tables: dict[str, list[Any]] = {
        LEDGER: links,
        STRATA: samples,
        CONFLICTS: revised.conflicts(links),
        JUDGMENTS: judgments,
    }
    # as `ctxr export-tasks entail` takes it: it does not reveal the classifier's decision
    sample = [
        StatementRow(one.image, one.caption, texts[one.caption], tuple(own.get(one.image, ())), authors[one.caption])
        for one in sorted(samples, key=lambda one: one.key())
    ]
    figures = pretty_json(_figures(config, revised, links))
    files = {SAMPLE: b"".join(encode_row(one) for one in sample), FIGURES: figures}
    return write_round(config.folder(), current, tables, files)


def _figures(config: ReviseLabels, revised: Revised, links: list[CandidateRow]) -> dict[str, Any]:
    counts = counted(revised.pools, [one.values for one in revised.verdicts], config.top_k)
    figures: dict[str, Any] = {"bands": bands(links), "entail_at": [], "edge": asdict(revised.threshold)}
    figures |= {"settings": config.settings(), "judges": revised.judges(), "named": [*config.judge]}
    figures["judge_family"] = ", ".join(dict.fromkeys(one.family for one in revised.cascade.judges if one.family))
    if counts is None:
        return figures | {"counted": None}
    first, earlier, rejected = counts
    images = [image for pool in revised.pools for image in pool.gallery.images]
    leaked = np.array([image in revised.leaked for image in images], bool)
    figures["entail_at"] = entail_figures(first, leaked, config.seed)
    columns = {
        "written": first.written, "extra": first.extra, "earlier": earlier, "leaked": leaked, "rejected": rejected
    }  # fmt: skip
    plain = {name: column.astype(int).tolist() for name, column in columns.items()}
    return figures | {"counted": plain | {"images": images}}


def reported(config: ReviseLabels, current: Round, did: str, cascade: Cascade, leaked: list[str]) -> ReviseReport:
    """The report of a finished round."""
    out, folder = config.folder(), config.folder() / folder_of(current.number)
    figures = read_figures(folder)
    tables = {"bands": bands_table(figures["bands"], current)}
    if figures["entail_at"]:
        tables["entail"] = entail_table(figures["entail_at"], current.by)
    conflicts = read_table(folder / CONFLICTS, SetConflict)
    if conflicts:
        tables["also"] = conflict_table(conflicts)
    unknown = f"; unknown for {cascade.unknown}" if cascade.unknown else ""
    limit = "" if current.judges else f", at a probability of {current.threshold:.3g} or more"
    pairs = f"{current.added:,}{f' of the {current.added + current.pending:,}' if current.pending else ''} pairs"
    facts = {
        "revised": out,
        "round": current.number,
        "evaluated": f"{current.images:,} pictures, {current.candidates:,} candidates by {current.by}",
        "added": f"{pairs} that {current.classifier} calls entailed{limit}{_dev(current)}",
        **{f"verdicts of {row['name']}": _verdicts(row) for row in figures["judges"]},
        **_force(config, current),
        "left out by a cap": current.capped,
        "trained on": f"{len(leaked) or 'none'} of the pictures{unknown}",
        "to audit it": export_hint(config, current.number),
        "ask three people": command_in(config.workdir, "serve", "--invite", "3"),
        "after the answers": config.followup("--audit"),
        **({"with a licence": config.entail_command()} if current.pending and not current.toy else {}),
        "undo": config.followup("--undo"),
    }
    toys = tuple(f"{one.name} is a toy: it was trained on drawn scenes alone" for one in cascade.judges if one.toy)
    notes = (
        toys
        if current.added or current.pending
        else (*toys, "no candidate is called entailed: --threshold P sets another limit")
    )
    return ReviseReport(out, did, current.number, facts, tables, notes, tuple(leaked), did == "up to date")


def _verdicts(row: Mapping[str, Any]) -> str:
    """What a judge said of the candidates that it was asked about, and its limits."""
    decided = f"{row['entailed']:,} entailed (p ≥ {row['high']:.3g}), {row['not']:,} not (p < {row['low']:.3g})"
    return f"{decided}, {row['unsure']:,} unsure, of {row['asked']:,} candidates"


UNLICENSED = ("without a licence, pairs count on the split train alone", "a toy is never licensed")
"""Why pairs do not count, by whether the judge is a toy."""


def _force(config: ReviseLabels, current: Round) -> dict[str, str]:
    """Why a round counts where others are evaluated, or what puts it in force there."""
    if current.unlicensed:
        return {"unlicensed": f"no licence for {current.classifier}: the round is in force by --unlicensed"}
    if current.licence:
        return {"licence": current.licence}
    if not current.pending:
        return {}
    return {
        "not in force": f"{plural(current.pending, 'entailed pair', form=',')}: {UNLICENSED[current.toy]}",
        "to count them anyway": config.entail_command(unlicensed=True),
    }


def export_hint(config: ReviseLabels, number: int) -> str:
    """The command that exports the sample of a round for people."""
    command = command_in(config.workdir, "export-tasks", "entail")
    sample = config.folder() / folder_of(number) / SAMPLE
    newest = newest_sample(config.workdir)
    if newest is not None and newest.resolve() == sample.resolve():
        return command
    return command_in(config.workdir, "export-tasks", "entail", "--candidates", str(sample))


def _dev(current: Round) -> str:
    if current.precision is None or current.recall is None:
        return ""
    if current.called is None or current.precision_low is None or current.precision_high is None:
        return f" (on dev: precision {current.precision:.3f}, recall {current.recall:.3f})"
    between = f"95 %: {current.precision_low:.3f} to {current.precision_high:.3f}, of {current.called:,} called"
    return f" (on dev: precision {current.precision:.3f}, {between}; recall {current.recall:.3f})"


def conflict_table(conflicts: Sequence[SetConflict], verdicts: Mapping[tuple[str, str], bool] | None = None) -> Table:
    """Descriptions of small sets that hold for another picture by the judge: the surest ones, or those that people judged.

    Args:
        verdicts: those of people, by (caption, image).
    """
    heads = ["description", "written for", "also holds for", "probability"]
    note = f"the surest of {len(conflicts):,}; all are in also.jsonl of the round, for people to check"
    shown = sorted(conflicts, key=lambda one: (-one.probability, one.key()))[:12]
    people: list[list[str]] = [[] for _ in shown]
    if verdicts is not None:
        shown = [conflict for conflict in conflicts if conflict.key() in verdicts]
        shown.sort(key=lambda one: (not verdicts[one.caption, one.image], one.key()))
        people = [["yes" if verdicts[one.caption, one.image] else "no"] for one in shown]
        heads.insert(3, "by people")
        note = f"{len(shown):,} of the {len(conflicts):,} that the judge found; a larger --sample shows more of them to people"
    rows = tuple(
        (one.text, ", ".join(one.images), one.image, *verdict, one.probability)
        for one, verdict in zip(shown, people, strict=True)
    )
    return Table("Descriptions that hold for another picture of their set", tuple(heads), rows, note)
