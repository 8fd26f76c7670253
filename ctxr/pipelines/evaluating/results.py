"""The artifact `results`: what every run did on every query, the figures, tables to paste, and files for other programs."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ctxr.data.artifacts import Artifact, Parent, finish, take_manifest
from ctxr.data.atomic import disk_errors, write_bytes
from ctxr.data.records import Record
from ctxr.data.tables import write_table
from ctxr.metrics.ranking import accuracy, reciprocal_rank
from ctxr.pipelines.evaluating.comparing import Difference
from ctxr.pipelines.evaluating.matching import Side
from ctxr.pipelines.evaluating.measuring import Correlation, Error, Figure, Seeds
from ctxr.pipelines.evaluating.outside import latex, leaderboard, markdown, plain_name, qrels, trec_run
from ctxr.pipelines.result_tables import Table

KIND = "results"
PER_QUERY = "per_query.jsonl"
FIGURES = "figures.json"

MOST_SCORES = 30
"""Candidates up to which a row holds all scores; those of a gallery are in the TREC run."""


class QueryResult(Record, frozen=True):
    """What one run did on one query; a run of several seeds has a row for each, `RUN/seedN`.

    Attributes:
        candidates: image ids in the order of the set, scores: theirs; both empty where there are more than `MOST_SCORES`.
        targets, picks: ids of the right images, and of those with the highest score, several in a tie.
        accuracy: 1 / ties if the target is among the picks, else 0. reciprocal_rank: of the best target, ties shared.
        above: candidates with a higher score than the best target. level: those with its score, itself included.
        tags: phenomena found in the text. tokens: of the text. distance: mean pairwise distance of the set.
    """

    KEY: ClassVar[tuple[str, ...]] = ("run", "query")

    run: str
    query: str
    side: str
    image_set: str
    kind: str
    text: str
    targets: tuple[str, ...]
    picks: tuple[str, ...]
    accuracy: float
    reciprocal_rank: float
    above: int
    level: int
    tokens: int
    candidates: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    tags: tuple[str, ...] = ()
    distance: float | None = None


def query_results(side: Side) -> Iterator[QueryResult]:
    """A row for each scorer and question of a side."""
    for run in side.scorers:
        found, scores = side.places(run), side.scores[run]
        credit, ranks = accuracy(found), reciprocal_rank(found)
        tops = scores.max(axis=1, initial=float("-inf"))
        for row, one in enumerate(side.questions):
            given = scores[row, : len(one.candidates)].tolist()
            few = len(given) <= MOST_SCORES
            yield QueryResult(
                run=run,
                query=one.query,
                side=side.name,
                image_set=one.image_set.id,
                kind=one.image_set.kind,
                text=one.text,
                targets=tuple(one.candidates[place] for place in one.right),
                picks=tuple(name for name, value in zip(one.candidates, given, strict=True) if value == tops[row]),
                accuracy=float(credit[row]),
                reciprocal_rank=float(ranks[row]),
                above=int(found.above[row]),
                level=int(found.level[row]),
                tokens=one.tokens,
                candidates=one.candidates if few else (),
                scores=tuple(given) if few else (),
                tags=tuple(sorted(one.found)),
                distance=one.distance,
            )


def write_results(
    out: Path,
    config: Mapping[str, Any],
    parents: Sequence[Parent],
    sides: Sequence[Side],
    measured: tuple[Sequence[Figure], Sequence[Difference], Sequence[Correlation], Sequence[Error], Sequence[Seeds]],
    tables: Mapping[str, Table],
    notes: Sequence[str],
    tokenizer: str,
) -> Artifact:
    """Write the artifact; what an earlier evaluation left in the folder goes."""
    take_manifest(out)
    for folder in ("leaderboard", "trec"):
        with disk_errors(out / folder):
            if (out / folder).is_dir():
                shutil.rmtree(out / folder)
    rows = write_table(out / PER_QUERY, [row for side in sides for row in query_results(side)])
    figures, differences, correlations, errors, seeds = measured
    told = {
        "figures": [_flat(asdict(one)) for one in figures],
        "differences": [_flat(asdict(one)) for one in differences],
        "correlations": [_flat(asdict(one)) for one in correlations],
        "errors": [asdict(one) for one in errors],
        "seeds": [asdict(one) for one in seeds],
        "people": asdict(tables["people"]) if "people" in tables else None,
        "notes": list(notes),
    }
    files = {FIGURES: msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n"}
    files["results.md"] = "\n".join(markdown(table) for table in tables.values())
    files["results.tex"] = "\n".join(latex(table) for table in tables.values())
    if any(side.questions for side in sides):
        files["trec/qrels.txt"] = "".join(qrels(sides))
    for run in sides[0].scorers:
        files[f"trec/{plain_name(run)}.txt"] = "".join(trec_run(run, sides))
        picked = leaderboard(run, sides)
        if picked is not None:
            files[f"leaderboard/{plain_name(run)}.json"] = picked
    for name, content in files.items():
        write_bytes(out / name, content.encode(), durable=False)
    counts = {"runs": len(sides[0].runs), "rows": rows}
    counts |= {side.name: len(side.questions) for side in sides}
    return finish(
        out, kind=KIND, verb="eval", config=config, parents=parents, counts=counts,
        models={"tokenizer": {"name": tokenizer}}, files=[PER_QUERY, *files],
    )  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its interval's fields beside the others."""
    interval: dict[str, Any] = row.pop("interval")
    return row | interval
