"""The artifact `results`: figures, tables to paste, and the formats of other tools."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec
import numpy as np

from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.errors import UsageError
from ctxr.metrics.ranking import accuracy, reciprocal_rank
from ctxr.problems.figures import Correlation, Error, Figure, RunDifference, Seeds
from ctxr.problems.questions import BenchmarkQuery, EvalSplit
from ctxr.store.artifacts import (
    MANIFEST,
    Content,
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    plain,
    require_ours,
    take_manifest,
)
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Record
from ctxr.store.tables import write_table

LEADERBOARD_SIDE = "test"

MOST_NAMED = 80
"""Characters of a folder's name that may be made of the names of runs."""

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
}  # fmt: skip


def markdown(table: Table) -> str:
    """A table in Markdown, its title as a heading, its note below."""
    lines = [f"### {table.title}", "", _row(table.columns), _row(["---", *["---:"] * (len(table.columns) - 1)])]
    lines += [_row([_cell(value, table.digits) for value in row]) for row in table.rows]
    return "\n".join([*lines, "", *([table.note, ""] if table.note else [])])


def latex(table: Table) -> str:
    """A table in LaTeX; needs the package booktabs."""
    form = "l" + "r" * (len(table.columns) - 1)
    body = [[_cell(value, table.digits) for value in row] for row in table.rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(table.title)}. {_tex(table.note)}}}",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        " & ".join(map(_tex, table.columns)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_tex, row)) + r" \\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def leaderboard(run: str, sides: Sequence[EvalSplit]) -> str | None:
    """The picks on test as ImageCoDe's leaderboard takes them, {set: [index, …]}, sets and descriptions in the order of the
    dataset; None where test was not scored as a whole.

    In a tie the first image is picked: the leaderboard knows no shares.
    """
    side = next((one for one in sides if one.name == LEADERBOARD_SIDE and not one.left_out), None)
    if side is None:
        return None
    picks: dict[str, list[int]] = {}
    for one, scores in sorted(_scored(run, side), key=lambda pair: pair[0].number):
        picks.setdefault(one.image_set.id, []).append(int(np.argmax(scores)))
    return json.dumps(picks, ensure_ascii=False, indent=1) + "\n"


def trec_run(run: str, sides: Sequence[EvalSplit]) -> Iterator[str]:
    """The ranking of every question, as `trec_ranking` writes it."""
    for side in sides:
        for one, scores in _scored(run, side):
            yield from trec_ranking(run, one.query, one.candidates, scores)


def trec_ranking(run: str, query: str, candidates: Sequence[str], scores: Sequence[float]) -> Iterator[str]:
    """Lines `query Q0 candidate rank score run` for trec_eval and similar tools, best first, ties by candidate.

    White space in ids is written as %20, since columns are separated by blanks.
    """
    ranked = sorted(zip(scores, candidates, strict=True), key=lambda pair: (-pair[0], pair[1]))
    for rank, (score, candidate) in enumerate(ranked, 1):
        yield f"{_token(query)} Q0 {_token(candidate)} {rank} {score!r} {_token(run)}\n"


def qrels(sides: Sequence[EvalSplit]) -> Iterator[str]:
    """The targets of every question, as `qrel` writes them."""
    for side in sides:
        for one in side.questions:
            for place in one.right:
                yield qrel(one.query, one.candidates[place])


def qrel(query: str, candidate: str) -> str:
    """The line `query 0 candidate 1` of a target that is known."""
    return f"{_token(query)} 0 {_token(candidate)} 1\n"


def plain_name(run: str) -> str:
    """A run's name as that of a file.

    >>> plain_name("ViT-B-32:openai")
    'ViT-B-32-openai'
    """
    return re.sub(r"[^\w.-]+", "-", run).lstrip(".") or "run"


def results_name(runs: Sequence[str]) -> str:
    """What the folder of an evaluation is called: as its runs, or as the first and how many others with a hash of all.

    >>> results_name(["clip-none", "clip-batch"])
    'clip-none-vs-clip-batch'
    """
    names = [plain_name(run) for run in runs]
    whole = "-vs-".join(names)
    if len(whole) <= MOST_NAMED:
        return whole
    return f"{names[0][:MOST_NAMED]}-vs-{len(names) - 1}-others-{sha256_of(names)[:8]}"


def refuse_same_files(runs: Iterable[str]) -> None:
    """Raises UsageError where two runs would write to one file."""
    known: dict[str, str] = {}
    for run in runs:
        other = known.setdefault(plain_name(run).lower(), run)
        if other != run:
            raise UsageError(f"the runs {other!r} and {run!r} would write the same files", hint="rename one of them")


def _scored(run: str, side: EvalSplit) -> Iterator[tuple[BenchmarkQuery, list[float]]]:
    """Every question of a side, its target known or hidden, with a run's scores."""
    for row, one in enumerate(side.questions):
        yield one, side.scores[run][row, : len(one.candidates)].tolist()
    for one in side.hidden:
        yield one, side.hidden_scores[run][one.query]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _cell(value: object, digits: int | None) -> str:
    if isinstance(value, float):
        return f"{value:g}" if digits is None else f"{value:.{digits}f}"
    return "–" if value is None else str(value)


def _tex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _token(name: str) -> str:
    return re.sub(r"[\s%]", lambda found: quote(found[0]), name)


RESULTS = "results"
"""Folder of a project that holds a folder for each evaluation."""
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
    progress: Progress,
) -> bool:
    """Write an evaluation by `write` and its manifest, if exactly this one does not lie in `out` yet; whether it did."""
    require_ours(out)
    _tell_replaced(out, settings, progress)
    ready = finished(out, kind, "eval", settings, parents)
    if ready is not None and not ready.changed_files():
        return True
    with locked(out):
        take_manifest(out)
        files, counts, models = write()
        finish(out, kind=kind, verb="eval", config=settings, parents=parents, content=Content(files, counts, models))
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


def _tell_replaced(out: Path, settings: Mapping[str, Any], progress: Progress) -> None:
    """A word where an evaluation with other settings lies in the folder that is written."""
    if not (out / MANIFEST).is_file():
        return
    before = open_artifact(out).manifest.config
    differ = sorted(name for name in settings if plain(settings).get(name) != before.get(name))
    if differ:
        progress.note(
            f"{out} held an evaluation with other settings ({', '.join(differ)}): it is written again; --out keeps both"
        )


def _flat(one: Any) -> dict[str, Any]:
    """A row with its interval's fields, where it has one, beside the others."""
    row = asdict(one)
    interval: dict[str, Any] = row.pop("interval", {})
    return row | interval
