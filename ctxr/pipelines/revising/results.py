"""A round as it is written, and what is said of it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ctxr.data.records import ImageSet, Judgment
from ctxr.data.tables import encode_row, read_table
from ctxr.errors import DataError
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.revise_labels import ReviseLabels, ReviseReport
from ctxr.pipelines.revising.deciding import settings_of
from ctxr.pipelines.revising.figures import (
    as_records,
    bands,
    bands_table,
    counted,
    earlier_among,
    entail_figures,
    entail_table,
    rejected_among,
)
from ctxr.pipelines.revising.judging import ADDED, BELOW, CAP_CAPTION, CAP_IMAGE, ChosenThreshold, Verdicts
from ctxr.pipelines.revising.mining import Candidates
from ctxr.pipelines.revising.records import CandidateRow, Direction, Reason, Round, SetConflict
from ctxr.pipelines.revising.rounds import (
    ALSO,
    FIGURES,
    JUDGMENTS,
    LEDGER,
    SAMPLE,
    STRATA,
    Base,
    add_round,
    folder_of,
    newest_sample,
)
from ctxr.pipelines.revising.sampling import as_candidates, draw
from ctxr.pipelines.talk import Talk

REASONS: dict[int, Reason | None] = {
    ADDED: None,
    BELOW: "below_threshold",
    CAP_IMAGE: "cap_image",
    CAP_CAPTION: "cap_caption",
}

DIRECTIONS: dict[int, Direction] = {1: "image", 2: "caption", 3: "both"}

SMALL_SET = 20
"""Pictures up to which a set is one whose descriptions should hold for one picture alone: found otherwise, people look at it."""

SHOWN = 12
"""Descriptions that are shown on the terminal; `also.jsonl` has all."""


@dataclass(frozen=True)
class Revised:
    """Everything that was decided, before it is written; parallel tuples are by gallery.

    Attributes:
        sets: of the dataset, with their distances. worker: whose judgments they become. leaked: images that the classifier was trained on.
        own: captions written for each image. texts: of each caption. positives: images of each caption before this round.
    """

    base: Base
    sets: tuple[ImageSet, ...]
    pools: tuple[Candidates, ...]
    probabilities: tuple[Doubles, ...]
    verdicts: tuple[Verdicts, ...]
    edge: ChosenThreshold
    by: str
    by_fingerprint: str
    classifier: str
    classifier_fingerprint: str
    worker: str
    leaked: frozenset[str]
    own: Mapping[str, list[str]]
    texts: Mapping[str, str]
    positives: Mapping[str, frozenset[str]]

    def links(self) -> Iterator[CandidateRow]:
        """What became of every candidate; a pair of several galleries stands once, as in the first."""
        seen: set[tuple[str, str]] = set()
        for pool, found, verdicts in zip(self.pools, self.probabilities, self.verdicts, strict=True):
            images, captions = pool.gallery.images, pool.gallery.captions
            for row in range(len(pool)):
                image, caption = images[int(pool.images[row])], captions[int(pool.captions[row])]
                if (image, caption) in seen:
                    continue
                seen.add((image, caption))
                verdict = int(verdicts[row])
                yield CandidateRow(
                    image=image,
                    caption=caption,
                    source=self.by,
                    direction=DIRECTIONS[int(pool.directions[row])],
                    rank=int(pool.ranks[row]),
                    score=round(float(pool.scores[row]), 6),
                    probability=round(float(found[row]), 6),
                    decision="added" if verdict == ADDED else "rejected",
                    classifier=self.classifier_fingerprint,
                    reason=REASONS[verdict],
                    leaked=image in self.leaked,
                )

    def also(self, links: list[CandidateRow]) -> list[SetConflict]:
        """Descriptions of small sets that were found to hold for another picture of theirs."""
        small = {one.id: one for one in self.base.dataset.sets if len(one.images) <= SMALL_SET}
        queries = self.base.dataset.queries
        return [
            SetConflict(
                link.caption,
                link.image,
                queries[link.caption].image_set,
                tuple(sorted(self.positives.get(link.caption, ()))),
                self.texts[link.caption],
                link.probability,
            )
            for link in links
            if link.decision == "added" and queries[link.caption].image_set in small
        ]


def write(config: ReviseLabels, revised: Revised, number: int, decides: str, talk: Talk) -> Round:
    """Write a round and put it in force."""
    links = list(revised.links())
    rng = np.random.default_rng((config.seed, number))
    drawn = draw(links, config.sample, rng)
    dataset = revised.base.dataset
    authors = {name: dataset.texts[dataset.queries[name].texts[0]].author for name in revised.texts}
    made = Round(
        number=number,
        active=True,
        by=revised.by,
        by_fingerprint=revised.by_fingerprint,
        classifier=revised.classifier,
        classifier_fingerprint=revised.classifier_fingerprint,
        threshold=revised.edge.value,
        threshold_from=revised.edge.chosen_by,
        images=sum(len(pool.gallery.images) for pool in revised.pools),
        candidates=len(links),
        added=sum(link.decision == "added" for link in links),
        capped=sum(link.reason in ("cap_image", "cap_caption") for link in links),
        leaked=len(revised.leaked),
        decides=decides,
        wanted=revised.edge.wanted,
        precision=revised.edge.precision,
        recall=revised.edge.recall,
        called=revised.edge.called,
        precision_low=revised.edge.precision_low,
        precision_high=revised.edge.precision_high,
    )
    judgments = [
        Judgment(link.caption, link.image, revised.worker, float(link.decision == "added"), round=number)
        for link in links
        if link.reason not in ("cap_image", "cap_caption")
    ]
    sample = as_candidates(drawn, revised.own, revised.texts, authors)
    tables: dict[str, list[Any]] = {
        LEDGER: links, STRATA: drawn, ALSO: revised.also(links), JUDGMENTS: judgments
    }  # fmt: skip
    figures = msgspec.json.format(msgspec.json.encode(_figures(config, revised, links)), indent=1) + b"\n"
    files = {SAMPLE: b"".join(encode_row(one) for one in sample), FIGURES: figures}
    add_round(config.folder(), revised.base, made, tables, files, revised.sets, talk)
    return made


def _figures(config: ReviseLabels, revised: Revised, links: list[CandidateRow]) -> dict[str, Any]:
    entailed = [one >= revised.edge.value for one in revised.probabilities]
    found = counted(revised.pools, entailed, config.top_k)
    told: dict[str, Any] = {"bands": bands(links), "entail_at": [], "edge": asdict(revised.edge)}
    told["settings"] = settings_of(config)
    if found is None:
        return told
    images = [image for pool in revised.pools for image in pool.gallery.images]
    leaked = np.array([image in revised.leaked for image in images], bool)
    told["entail_at"] = as_records(entail_figures(found, leaked, np.random.default_rng(config.seed)))
    earlier = earlier_among(revised.pools, found.ks)
    columns = {"written": found.written, "extra": found.extra, "earlier": earlier, "leaked": leaked}
    columns["rejected"] = rejected_among(revised.pools, found.ks)
    plain = {name: column.astype(int).tolist() for name, column in columns.items()}
    return told | {"counted": plain | {"images": images}}


def reported(config: ReviseLabels, made: Round, did: str, leaked: list[str]) -> ReviseReport:
    """What is said of a round that is there."""
    out, folder = config.folder(), config.folder() / folder_of(made.number)
    tables = {"bands": bands_table(read_figures(folder)["bands"], made.threshold)}
    rows = read_figures(folder)["entail_at"]
    if rows:
        tables["entail"] = entail_table(rows, made.by)
    also = read_table(folder / ALSO, SetConflict)
    if also:
        tables["also"] = _also_table(also)
    facts = {
        "revised": out,
        "round": made.number,
        "looked at": f"{made.images:,} pictures, {made.candidates:,} candidates by {made.by}",
        "added": f"{made.added:,} by {made.classifier}, at a probability of {made.threshold:g} or more{_dev(made)}",
        "left out by a cap": made.capped,
        "trained on": f"{len(leaked)} of the pictures" if leaked else "none of the pictures",
        "for people": f"{export_hint(config, made.number)}, ctxr serve --invite 3, and once they have answered {config.again('--audit')}",
        "take it back": config.again("--undo"),
    }
    notes = () if made.added else (_nothing(made),)
    return ReviseReport(out, did, made.number, facts, tables, notes, leaked=tuple(leaked))


def export_hint(config: ReviseLabels, number: int) -> str:
    """The command that brings the sample of a round to people."""
    command = "ctxr export-tasks entail"
    sample = config.folder() / folder_of(number) / SAMPLE
    newest = newest_sample(config.workdir)
    if newest is not None and newest.resolve() == sample.resolve():
        return command
    return f"{command} --candidates {sample}"


def _nothing(made: Round) -> str:
    return (
        f"nothing was added: none of the candidates reaches a probability of {made.threshold:g}. ctxr eval {made.classifier} says "
        "how well the classifier tells pairs apart; --threshold P takes another limit"
    )


def _dev(made: Round) -> str:
    if made.precision is None or made.recall is None:
        return ""
    if made.called is None or made.precision_low is None or made.precision_high is None:
        return f" (on dev: precision {made.precision:.3f}, recall {made.recall:.3f})"
    between = f"95 %: {made.precision_low:.3f} to {made.precision_high:.3f}, of {made.called:,} called"
    return f" (on dev: precision {made.precision:.3f}, {between}; recall {made.recall:.3f})"


def _also_table(also: list[SetConflict]) -> Table:
    first = sorted(also, key=lambda one: (-one.probability, one.key()))[:SHOWN]
    rows = tuple((one.text, ", ".join(one.images), one.image, one.probability) for one in first)
    heads = ("description", "written for", "also holds for", "probability")
    note = f"{len(also):,} in all, in also.jsonl of the round: to be looked at by people"
    return Table("Descriptions that hold for another picture of their set", heads, rows, note)


def read_figures(folder: Path) -> dict[str, Any]:
    """The figures of a round. Raises DataError where they are damaged."""
    try:
        told: dict[str, Any] = msgspec.json.decode((folder / FIGURES).read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{folder / FIGURES} is missing or damaged", hint="restore it, or revise again") from error
    return told
