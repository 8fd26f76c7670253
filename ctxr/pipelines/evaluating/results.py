"""The artifact `results`: what every run did on every query, the figures, tables to paste, and files for other programs."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ctxr.data.artifacts import (
    MANIFEST,
    Content,
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    plain,
    refuse_strangers,
    take_manifest,
)
from ctxr.data.atomic import disk_errors, write_bytes
from ctxr.data.records import Record
from ctxr.data.tables import write_table
from ctxr.metrics.ranking import accuracy, reciprocal_rank
from ctxr.pipelines.evaluating.comparing import RunDifference
from ctxr.pipelines.evaluating.matching import EvalSplit
from ctxr.pipelines.evaluating.measuring import Correlation, Error, Figure, Seeds
from ctxr.pipelines.evaluating.outside import latex, leaderboard, markdown, plain_name, qrels, trec_run
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Talk

RESULTS = "results"
"""Folder of a project that holds a folder for each evaluation."""

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


def query_results(side: EvalSplit) -> Iterator[QueryResult]:
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


@dataclass
class Findings:
    """What an evaluation of retrieval found; `more` are further rows of `figures.json` by name."""

    figures: list[Figure] = field(default_factory=list)
    differences: list[RunDifference] = field(default_factory=list)
    more: dict[str, Sequence[Any]] = field(default_factory=dict)
    correlations: list[Correlation] = field(default_factory=list)
    errors: list[Error] = field(default_factory=list)
    seeds: list[Seeds] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def files(self) -> dict[str, str]:
        """The figures as JSON, and the tables as Markdown and LaTeX."""
        rows: dict[str, Sequence[Any]] = {"figures": self.figures, "differences": self.differences, **self.more}
        rows |= {"correlations": self.correlations, "errors": self.errors, "seeds": self.seeds}
        told: dict[str, Any] = {name: [_flat(one) for one in listed] for name, listed in rows.items()}
        told |= {"people": asdict(self.tables["people"]) if "people" in self.tables else None, "notes": self.notes}
        return {
            FIGURES: msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n",
            "results.md": "\n".join(markdown(table) for table in self.tables.values()),
            "results.tex": "\n".join(latex(table) for table in self.tables.values()),
        }


def record(
    out: Path,
    kind: str,
    settings: Mapping[str, Any],
    parents: Sequence[Parent],
    write: Callable[[], Content],
    talk: Talk,
) -> bool:
    """Write an evaluation by `write` and its manifest, if exactly this one does not lie in `out` yet; whether it did."""
    refuse_strangers(out)
    _tell_replaced(out, settings, talk)
    ready = finished(out, kind, "eval", settings, parents)
    if ready is not None and not ready.changed_files():
        return True
    with locked(out):
        take_manifest(out)
        files, counts, models = write()
        finish(out, kind=kind, verb="eval", config=settings, parents=parents, counts=counts, models=models, files=files)
    return False


def write_findings(out: Path, found: Findings, rows: Iterable[QueryResult], files: Mapping[str, str]) -> Content:
    """Write what was found, a row for each query, and files for other programs; what an earlier evaluation left of these goes."""
    for folder in ("leaderboard", "trec"):
        with disk_errors(out / folder):
            if (out / folder).is_dir():
                shutil.rmtree(out / folder)
    count = write_table(out / PER_QUERY, rows)
    contents = found.files() | dict(files)
    for name, content in contents.items():
        write_bytes(out / name, content.encode(), durable=False)
    return Content([PER_QUERY, *contents], {"rows": count}, {})


def files_for_others(sides: Sequence[EvalSplit]) -> dict[str, str]:
    """Targets and rankings for trec_eval, and picks for the leaderboard, by name."""
    files = {}
    if any(side.questions for side in sides):
        files["trec/qrels.txt"] = "".join(qrels(sides))
    for run in sides[0].scorers:
        files[f"trec/{plain_name(run)}.txt"] = "".join(trec_run(run, sides))
        picked = leaderboard(run, sides)
        if picked is not None:
            files[f"leaderboard/{plain_name(run)}.json"] = picked
    return files


def _tell_replaced(out: Path, settings: Mapping[str, Any], talk: Talk) -> None:
    """A word where an evaluation with other settings lies in the folder that is written."""
    if not (out / MANIFEST).is_file():
        return
    before = open_artifact(out).manifest.config
    differ = sorted(name for name in settings if plain(settings).get(name) != before.get(name))
    if differ:
        talk.note(
            f"{out} held an evaluation with other settings ({', '.join(differ)}): it is written again; --out keeps both"
        )


def _flat(one: Any) -> dict[str, Any]:
    """A row with its interval's fields, where it has one, beside the others."""
    row = asdict(one)
    interval: dict[str, Any] = row.pop("interval", {})
    return row | interval
