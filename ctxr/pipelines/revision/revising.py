"""A round of revised labels: candidates are mined and judged, entailed ones added."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    CandidateRow,
    Decision,
    Direction,
    Reason,
    Round,
    SetConflict,
    folder_of,
    link_base,
    read_figures,
    read_rounds,
    stratum_of,
    write_round,
    written_for,
)
from ctxr.datasets.truth import UNSURE, WORKER
from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress
from ctxr.errors import plural
from ctxr.metrics.entail_at import KS, ExpectedCounts
from ctxr.metrics.stratified import allocate
from ctxr.metrics.votes import Codes, Doubles
from ctxr.models.encoders import Encoder
from ctxr.models.entailment.base import Judge
from ctxr.models.hub import DEFAULT_ENCODER, LITE, TINY, cached_weights, split_name
from ctxr.models.judges.cascade import Cascade, Verdicts
from ctxr.pipelines.revision.candidates import (
    Candidates,
    Premise,
    decide,
    judge_pools,
    open_encoder,
    picture_files,
    pools_of,
    with_distances,
)
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.inputs import (
    ChosenThreshold,
    NewRound,
    RevisionInput,
    Scope,
    choose_threshold,
    missing_pictures,
    open_judges,
    open_project,
    retriever_of,
    revision_input,
    scope_of,
    without_rejected,
)
from ctxr.pipelines.revision.licence import licences, read_licence
from ctxr.pipelines.revision.results import NO_SPLITS, UNLICENSED, entail_figures
from ctxr.store.artifacts import take_manifest
from ctxr.store.records import ImageSet, Judgment
from ctxr.store.tables import encode_row, grouped, pretty_json


def plan(config: ReviseLabels, progress: Progress, opened: Judge | None = None) -> ReviseReport:
    """The plan of `--entail`; nothing is written, and no judge is asked. Raises what `pipelines.revise_labels.run` says."""
    base, rounds = open_project(config, progress), read_rounds(config.folder())
    inputs = revision_input(config, base, [row for row in rounds if row.active])
    by = retriever_of(config, rounds)
    command = config.entail_command()
    cascade, config = open_judges(config, progress, opened)
    licence = read_licence(config.workdir, cascade.fingerprint, base.content)
    edge = None
    if config.precision is None:
        edge = choose_threshold(config, base, cascade, licence.threshold if licence else None, progress)
    every = frozenset(gallery.split for gallery in inputs.galleries)
    scope = scope_of(config, base, every, cascade, licence=licence, by=by, threshold=edge.value if edge else 1.0)
    number, latest = next(licences(config.workdir, cascade.fingerprint, base.content), ("", None))
    refused = ""
    if latest and not latest.passed and licence is None:
        refused = f"refused by the audit of round {number.lstrip('0')}: {latest.reason}"
    left = without_rejected(inputs, config.folder(), cascade.fingerprint, edge.limits if edge else (math.inf, math.inf))
    rejected = (
        f"{plural(left.rejected, 'pair', form=',')} by this judge in active rounds, left out" if left.rejected else ""
    )
    if edge is None:
        rejected += " where the threshold is at least that of their round" if rejected else ""
    else:
        inputs = left
    facts: dict[str, object] = {
        "dataset": base.path,
        **_work_facts(config, inputs, cascade, rejected),
        **_outcome_facts(config, scope, cascade, edge, refused),
        **({"splits": NO_SPLITS} if every == {""} else {}),
        "rounds": ", ".join(_described(row) for row in rounds) or "none yet",
        "command": command,
    }
    missing = missing_pictures(base.dataset, inputs.images)
    notes = [f"{missing}: --entail needs all of them"] if missing else []
    # rounds that these options made; only --entail opens the retriever, which decides a round too
    makers = cascade.fingerprint, bool(scope.licence), *((edge.value, edge.unsure) if edge else ())
    for row in rounds:
        settings = read_figures(config.folder() / folder_of(row.number))["settings"]
        own = row.classifier_fingerprint, bool(row.licence), row.threshold, row.unsure_below
        same = settings == scope.options.settings() and config.retriever in ("auto", row.by)
        if same and own[: len(makers)] == makers:
            effect = "changes nothing" if row.active else "redoes it"
            unless = "unless the retriever or earlier rounds changed"
            notes.append(f"round {row.number} was made with these options: --entail {effect}, {unless}")
    return ReviseReport(config.folder(), "planned", 0, facts, notes=tuple(notes))


def _described(row: Round) -> str:
    words = {
        f"{row.pending:,} pending": row.pending,
        f"judge refused later: {row.refused}": row.refused,
        "unlicensed": row.unlicensed,
        "undone": not row.active,
    }
    marks = [word for word, holds in words.items() if holds]
    return f"{row.number} ({', '.join([f'{row.added:,} added by {row.classifier}', *marks])})"


def _work_facts(config: ReviseLabels, inputs: RevisionInput, cascade: Cascade, rejected: str) -> dict[str, object]:
    """What a round would look at: the pairs to judge, the retriever, the judges, and what each judge that is paid would take at most."""
    pictures, captions, galleries = len(inputs.images), len(inputs.captions), len(inputs.galleries)
    k, both = config.top_k, config.both
    # how many candidates each picture, and with `both` each caption, of a set has: k at most, known ones left out
    counts: list[int] = []
    for gallery in inputs.galleries:
        ends = (gallery.images, gallery.captions)
        for column in range(1 + both):
            known = Counter(gallery.excluded[:, column].tolist())
            counts += [min(k, len(ends[1 - column]) - known[index]) for index in range(len(ends[column]))]
    pairs = f"{'up to ' if both else ''}{sum(counts):,} candidates: for each picture the {k} best captions of its set without known pairs"
    if both:
        pairs += ", and as many pictures for each caption; a pair found both ways is judged once"
    if min(counts) < k:
        pairs += f"; all where fewer are left, here at least {min(counts)}"
    retriever = config.retriever
    if retriever == "auto":  # no weights are fetched
        here = cached_weights(*split_name(DEFAULT_ENCODER)) is not None
        unless = "" if here else f", or {LITE}, or {TINY}: the first whose weights can be found or downloaded"
        retriever = f"{DEFAULT_ENCODER}{unless} (--retriever auto)"
    facts: dict[str, object] = {
        "would evaluate": f"{pictures:,} pictures and {captions:,} captions in {plural(galleries, 'set', form=',')}",
        "known": f"{sum(len(gallery.given) for gallery in inputs.galleries):,} pairs, which are left out",
        **({"rejected": rejected} if rejected else {}),
        "would judge": pairs,
        "retriever": retriever,
        "judge": cascade.name,
    }
    # a caption, and those that were written for a picture
    texts = [len(text.text) for text in inputs.base.dataset.texts.values()]
    usual = sum(texts) / len(texts) * (1 + captions / pictures)
    for judge in cascade.judges:
        estimates = {"about": judge.estimate(sum(counts), usual), "at most": judge.estimate(sum(counts))}
        priced = config.price_in + config.price_out > 0
        prices = [f"{how} {one.in_words(priced)}" for how, one in estimates.items() if one]
        if prices:
            unset = "" if priced else "; no prices are set (--price-in, --price-out)"
            facts[f"price of {judge.name}"] = ", ".join(prices) + unset
    return facts


def _outcome_facts(
    config: ReviseLabels, scope: Scope, cascade: Cascade, edge: ChosenThreshold | None, refused: str
) -> dict[str, object]:
    """What a round would add: the threshold and how it is chosen (of a cascade each judge's), the caps, and where the round counts."""
    judges = zip(cascade.judges, cascade.limits, strict=False)
    limits = "".join(f"{high:g} of {judge.name} (unsure from {low:g} on), then " for judge, (low, high) in judges)
    if edge is None:
        limits += (
            f"the lowest that reaches a precision of {config.precision:g} on dev (--precision), chosen by --entail"
        )
    else:
        words = {"given": "by --threshold or --judge SPEC@", "audit": "by its licence", "classifier": "the judge's own"}
        limits += f"{edge.value:.3g}, {words[edge.chosen_by]}"
    most = {"captions to a picture": config.per_image, "pictures to a caption": config.per_caption}
    caps = " and ".join(f"at most {count:,} {what}" for what, count in most.items() if count)
    caps = f"{caps} (--per-image, --per-caption)" if caps else "without a limit"
    licence = scope.words or refused
    return {
        "threshold": limits,
        "would add": f"pairs that the {'cascade' if cascade.limits else 'judge'} calls entailed, {caps}",
        "would count on": ", ".join(sorted(split or "pictures without a split" for split in scope.splits))
        or f"nothing without --unlicensed: {UNLICENSED[cascade.toy]}",
        **({"licence": licence} if licence else {}),
    }


def make(new: NewRound, rounds: Sequence[Round], progress: Progress) -> Round:
    """Write the files of a round beside those of the earlier ones. Raises what `pipelines.revise_labels.run` says."""
    config, inputs, cascade, dataset = new.scope.options, new.inputs, new.cascade, new.inputs.base.dataset
    encoder = open_encoder(new.by, config.workdir, config.device, progress)
    if inputs.before:
        settings = read_figures(config.folder() / folder_of(inputs.before[-1].number))["settings"]
        progress.note(on_top(config, inputs.before, settings, encoder, cascade, edge=new.threshold))
    if inputs.rejected:
        progress.note(f"{inputs.rejected:,} pairs that {cascade.name} rejected or left unsure before are left out")
    pictures = picture_files(dataset, inputs.images, config.workdir)
    texts = {name: dataset.text_of(dataset.queries[name]) for name in inputs.captions}
    pools = pools_of(inputs.galleries, encoder, pictures, texts, config.top_k, both=config.both, progress=progress)
    own = written_for(dataset)
    premises = {
        image: Premise(pictures.contents[image], " ".join(own.get(image, ())), file)
        for image, file in pictures.files.items()
    }
    limits = new.threshold.limits
    verdicts = judge_pools(cascade, limits, pools, premises, texts, workdir=config.workdir, progress=progress)
    sets: Sequence[ImageSet] = dataset.sets
    if inputs.base.tables is None:  # of a release, with distances where there are vectors to measure them by
        sets = with_distances(dataset, encoder, config.workdir, progress)
    judged = JudgedRound(new, encoder, tuple(pools), tuple(verdicts), own, texts)
    made = judged.write(len(rounds) + 1)
    take_manifest(config.folder())
    link_base(config.folder(), inputs.base, sets, progress)
    return made


def on_top(
    config: ReviseLabels,
    before: Sequence[Round],
    settings: Mapping[str, object],
    encoder: Encoder,
    cascade: Cascade,
    *,
    edge: ChosenThreshold,
) -> str:
    """A note that earlier rounds stay active, and how the new one differs from the latest of them, which has these `settings`."""
    last, key = before[-1], config.settings()
    other = {name: was for name, was in settings.items() if was != key.get(name, was)}
    differ = [f"--{name.replace('_', '-')} ({was}, now {key[name]})" for name, was in other.items()]
    renamed, named = last.classifier != cascade.name, bool(other.keys() & JudgeEndpointOptions.describe().keys())
    judged = last.classifier_fingerprint != cascade.fingerprint and (renamed or not named)
    changes = (
        ("--retriever", last.by, encoder.name, last.by_fingerprint != encoder.fingerprint),
        ("the judge", last.classifier, cascade.name if renamed else f"another {cascade.name}", judged),
        ("the threshold", f"{last.threshold:.6g}", f"{edge.value:.6g}", last.threshold != edge.value),
        ("--unsure", last.unsure_below, config.unsure, last.unsure_below != config.unsure),
    )
    differ += [f"{what} ({was}, now {now})" for what, was, now, changed in changes if changed]
    several = len(before) > 1
    numbers = _listed([str(row.number) for row in before])
    stays = f"rounds {numbers} stay" if several else f"round {numbers} stays"
    why = f"round {last.number} was made on top of others"
    if differ:
        why = f"{_listed(differ)} {'differ' if len(differ) > 1 else 'differs'}"
        why += f" from round {last.number}" if several else ""
    return f"{stays} active; a new round is added, since {why}"


def _listed(words: Sequence[str]) -> str:
    """The words with `and` before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


DIRECTIONS: dict[int, Direction] = {1: "image", 2: "caption", 3: "both"}

DECISIONS: dict[Reason | None, Decision] = {None: "added", "between_thresholds": "unsure", "no_answer": "unsure"}


@dataclass(frozen=True)
class JudgedRound:
    """A round before it is written: pools and verdicts by gallery, the captions written for each image, and the text of each caption."""

    new: NewRound
    encoder: Encoder
    pools: tuple[Candidates, ...]
    verdicts: tuple[Verdicts, ...]
    own: Mapping[str, list[str]]
    texts: Mapping[str, str]

    def links(self) -> Iterator[CandidateRow]:
        """The decision on every candidate; a pair of several galleries is listed once, as in the first."""
        config, seen = self.new.scope.options, set[tuple[str, str]]()
        for pool, verdicts in zip(self.pools, self.verdicts, strict=True):
            reasons = decide(pool, verdicts, config.per_image, config.per_caption)
            images, captions = pool.gallery.images, pool.gallery.captions
            for row in range(len(pool.images)):
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
                    classifier=self.new.cascade.judges[int(verdicts.judges[row])].fingerprint,
                    reason=reasons[row],
                    leaked=image in self.new.leaked,
                )

    def counting(self, links: Sequence[CandidateRow]) -> list[CandidateRow]:
        """The decisions that count: on splits of a licence, on candidates that it covers. A pair without an answer is not judged."""
        queries, scope = self.new.inputs.base.dataset.queries, self.new.scope
        splits = {pool.gallery.id: pool.gallery.split for pool in self.pools}
        audited, covered = scope.licence.splits if scope.licence else (), set[tuple[object, bool]]()
        if scope.licence:
            covered = scope.licence.covered(scope.options.workdir, self.encoder.fingerprint)
        return [
            link
            for link in links
            if (split := splits[queries[link.caption].image_set]) in scope.splits
            and (split not in audited or (link.key(), link.decision == "added") in covered)
            and link.reason != "no_answer"
        ]

    def conflicts(self, links: Sequence[CandidateRow]) -> list[SetConflict]:
        """Descriptions found to hold for another picture of their set of up to 20, for people to check."""
        dataset = self.new.inputs.base.dataset
        small = {image_set.id for image_set in dataset.sets if len(image_set.images) <= 20}
        conflicts = []
        for link in links:
            image_set = dataset.queries[link.caption].image_set
            if link.decision == "added" and link.probability is not None and image_set in small:
                images = tuple(sorted(self.new.inputs.positives.get(link.caption, ())))
                text = self.texts[link.caption]
                conflicts.append(SetConflict(link.caption, link.image, image_set, images, text, link.probability))
        return conflicts

    def figures(self, links: Sequence[CandidateRow]) -> dict[str, Any]:
        """Strata, settings, judges, and Entail@K by the judge with the counts that it is computed from."""
        config, cascade = self.new.scope.options, self.new.cascade
        bands = []
        for name, own in sorted(grouped((stratum_of(link), link) for link in links).items()):
            known = [link.probability for link in own if link.probability is not None]
            bands.append({"stratum": name, "pairs": len(own), "probability": float(np.mean(known)) if known else None})
        figures: dict[str, Any] = {
            "bands": bands, "entail_at": [], "edge": asdict(self.new.threshold), "settings": config.settings(),
            "judges": [], "named": [*config.judge], "leaked": self.new.leaked,
        }  # fmt: skip
        judge_of = np.concatenate([verdicts.judges for verdicts in self.verdicts])
        values = np.concatenate([verdicts.values for verdicts in self.verdicts])
        # how many candidates each judge was asked about, decided, and left unsure
        limits = (*cascade.limits, self.new.threshold.limits)
        for number, (judge, (low, high)) in enumerate(zip(cascade.judges, limits, strict=True)):
            asked, decided = int((judge_of >= number).sum()), values[judge_of == number]
            facts = {"name": judge.name, "fingerprint": judge.fingerprint, "toy": judge.toy, "low": low, "high": high}
            counts = {"entailed": int((decided == 1).sum()), "not": int((decided == 0).sum())}
            figures["judges"].append(facts | {"asked": asked, "unsure": asked - sum(counts.values())} | counts)
        figures["judge_family"] = ", ".join(dict.fromkeys(judge.family for judge in cascade.judges if judge.family))
        # a pair without an answer is not judged, rather than unsure
        read = [np.where(np.isnan(one.probabilities), UNJUDGED, one.values) for one in self.verdicts]
        first = first_captions(self.pools, read, config.top_k)
        if first is None:
            return figures | {"counted": None}
        images = [image for pool in self.pools for image in pool.gallery.images]
        leaked = np.array([image in self.new.leaked for image in images], bool)
        figures["entail_at"] = entail_figures(first.counted, leaked, config.seed)
        columns = {
            "written": first.counted.written, "extra": first.counted.extra, "earlier": first.earlier, "leaked": leaked,
            "rejected": first.rejected,
        }  # fmt: skip
        plain = {name: column.astype(int).tolist() for name, column in columns.items()}
        return figures | {"counted": plain | {"images": images}}

    def write(self, number: int) -> Round:
        """Write the files of the round."""
        new, cascade, config = self.new, self.new.cascade, self.new.scope.options
        dataset, threshold = new.inputs.base.dataset, asdict(new.threshold)
        links = list(self.links())
        counting = self.counting(links)
        samples = draw(links, config.sample, np.random.default_rng((config.seed, number)))
        decisions = Counter(link.decision for link in links)
        added = sum(link.decision == "added" for link in counting)
        current = Round(
            number=number,
            active=True,
            by=self.encoder.name,
            by_fingerprint=self.encoder.fingerprint,
            classifier=cascade.name,
            classifier_fingerprint=cascade.fingerprint,
            threshold=threshold.pop("value"),
            threshold_from=threshold.pop("chosen_by"),
            images=sum(len(pool.gallery.images) for pool in self.pools),
            candidates=len(links),
            added=added,
            capped=sum(link.reason in CAPPED for link in links),
            leaked=len(new.leaked),
            decides=new.decides,
            judges=tuple(judge.fingerprint for judge in cascade.judges) if len(cascade.judges) > 1 else (),
            unsure_below=threshold.pop("unsure"),
            unsure=decisions["unsure"],
            pending=decisions["added"] - added,
            licence=new.scope.words,
            unlicensed=config.unlicensed,
            toy=cascade.toy,
            splits=tuple(sorted({pool.gallery.split for pool in self.pools})),
            **threshold,
        )
        worker, value = f"{WORKER}:{cascade.name}", {"added": 1.0, "rejected": 0.0, "unsure": UNSURE}
        judgments = [
            Judgment(link.caption, link.image, worker, value[link.decision], round=number)
            for link in counting
            if link.reason not in CAPPED
        ]
        tables: dict[str, list[Any]] = {
            LEDGER: links, STRATA: samples, CONFLICTS: self.conflicts(links), JUDGMENTS: judgments
        }  # fmt: skip
        # as `ctxr export-tasks entail` takes it: it does not reveal the classifier's decision
        sample = b""
        for row in sorted(samples, key=lambda row: row.key()):
            author = dataset.texts[dataset.queries[row.caption].texts[0]].author
            own = tuple(self.own.get(row.image, ()))
            sample += encode_row(StatementRow(row.image, row.caption, self.texts[row.caption], own, author))
        files = {SAMPLE: sample, FIGURES: pretty_json(self.figures(links))}
        return write_round(config.folder(), current, tables, files)


def draw(links: Sequence[CandidateRow], size: int, rng: np.random.Generator) -> list[AuditSample]:
    """About `size` candidates, at least four of each stratum (`allocate`), without any twice."""
    strata = sorted(grouped((stratum_of(link), link) for link in links).items())
    counts = allocate([len(own) for _, own in strata], size) if size else []
    return [
        AuditSample(row.image, row.caption, name, row.decision, len(own), count, row.probability, row.rank)
        for (name, own), count in zip(strata, counts, strict=False)
        for row in (own[index] for index in sorted(rng.choice(len(own), count, replace=False).tolist()))
    ]


@dataclass(frozen=True, eq=False)
class FirstCaptions:
    """The first K captions of every picture without unsure ones: how many were written for it, and how many more are entailed, by
    this round or an earlier one; those that earlier rounds added, and those that they rejected, [I, len(ks)] each."""

    counted: ExpectedCounts
    earlier: Doubles
    rejected: Doubles


UNJUDGED = 2
"""Of a pair without an answer, beside the values of a verdict."""


def first_captions(pools: Sequence[Candidates], verdicts: Sequence[Codes], top_k: int) -> FirstCaptions | None:
    """The counts of all pictures; None where a gallery has fewer captions, or fewer were mined and decided, than the smallest K."""
    ks: tuple[int, ...] = KS
    for pool, values in zip(pools, verdicts, strict=True):
        # the most unsure captions that one picture has, of this round and of earlier ones
        earlier = np.array([image for image, _ in pool.gallery.unsure], np.int64)
        unsure = np.bincount(np.concatenate([earlier, pool.images[values == UNSURE]]), minlength=1).max()
        ks = tuple(k for k in ks if k <= min(top_k, len(pool.gallery.captions)) - unsure)
    if not ks or not pools:
        return None
    # The mined captions are the best unknown ones, so together with the known ones they contain the first K of all. Ties keep the
    # order of mining, after known ones.
    parts = []
    for pool, values in zip(pools, verdicts, strict=True):
        gallery, excluded = pool.gallery, pool.gallery.excluded
        images = np.concatenate([excluded[:, 0], pool.images])
        scores = np.concatenate([pool.known_scores, pool.scores])
        before = [3 * (pair in gallery.earlier) for pair in gallery.given]
        before += [4] * len(gallery.rejected) + [int(UNSURE)] * len(gallery.unsure)
        kinds = np.concatenate([np.array(before, np.int64), np.choose(values + 1, (int(UNSURE), 2, 1, 5))])
        # a pair found only for its caption (2) ranks after all found for the picture
        mined = np.where(pool.directions == 2, np.iinfo(np.int64).max, pool.ranks)
        ranks = np.concatenate([np.zeros(len(excluded), np.int64), mined])
        order = np.lexsort((ranks, -scores, images))
        order = order[kinds[order] != UNSURE]
        images, kinds = images[order], kinds[order]
        rank = np.arange(len(images)) - np.searchsorted(images, images)
        # written for the picture, entailed, added and rejected by earlier rounds, and not judged
        counts = [
            np.stack(
                [np.bincount(images[(kinds == kind) & (rank < k)], minlength=len(gallery.images)) for k in ks], axis=1
            )
            for kind in (0, 1, 3, 4, 5)
        ]
        parts.append(np.stack(counts).astype(np.float64))
    written, extra, added, rejected, unjudged = np.concatenate(parts, axis=1)
    return FirstCaptions(ExpectedCounts(written, extra + added, np.array(ks) - unjudged, ks), added, rejected)
