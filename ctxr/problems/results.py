"""The artifact `results`: figures, tables to paste, and the formats of other tools."""

import re
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec
import numpy as np

from ctxr.engine.report import Table
from ctxr.errors import DataError, UsageError
from ctxr.problems.figures import Figure, People, RunDifference
from ctxr.store.artifacts import Content
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Record
from ctxr.store.tables import pretty_json, read_value, write_table

MOST_NAMED = 80
"""Characters of a folder's name that may be made of the names of runs."""

_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "†": r"$\dagger$",
    "*": r"$^{*}$", "[": "{[}", "]": "{]}", "|": r"\textbar{}", "\n": " ",
})  # fmt: skip


def latex(name: str, table: Table) -> str:
    """A table in LaTeX, labelled `tab:NAME`; needs the package booktabs."""
    form = "l" + "r" * (len(table.columns) - 1)
    title, note = table.title.translate(_LATEX), (table.note[:1].upper() + table.note[1:]).translate(_LATEX)
    rows = [table.columns, *([table.cell(value) for value in row] for row in table.rows)]
    heads, *body = (" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{title}. {note}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', name)}}}",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        heads,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def trec_ranking(run: str, query: str, candidates: Sequence[str], scores: Sequence[float]) -> Iterator[str]:
    """Lines `query Q0 candidate rank score run` for trec_eval and similar tools, best first.

    trec_eval reads scores and no ranks, and puts the last name of a tie first; so do we. Where scores differ by less than the single
    precision in which it may read them, each is written as the number of different scores below it.
    White space in ids is written as %20, since columns are separated by blanks.
    """
    levels = sorted(set(scores))
    with np.errstate(over="ignore"):
        single = np.array(levels).astype(np.float32)
    if len(np.unique(single)) < len(levels):
        scores = [float(bisect_left(levels, score)) for score in scores]
    present = [row for row in zip(scores, map(_token, candidates), strict=True) if row[0] > -np.inf]
    for rank, (score, candidate) in enumerate(sorted(present, reverse=True), 1):
        yield f"{_token(query)} Q0 {candidate} {rank} {score!r} {_token(run)}\n"


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
    names: dict[str, str] = {}
    for run in runs:
        other = names.setdefault(plain_name(run).lower(), run)
        if other != run:
            raise UsageError(f"the runs {other!r} and {run!r} would write the same files", hint="rename one of them")


def _token(name: str) -> str:
    return re.sub(r"[\s%]", lambda match: quote(match[0]), name)


RESULTS = "results"
PER_QUERY = "per_query.jsonl"
TABLES = "tables.json"
FIGURES = "figures.json"

MOST_SCORES = 30
"""Candidates up to which a row holds all scores; more are in the TREC run."""


class QueryResult(Record, frozen=True):
    """What one run did on one query; a run of several seeds has a row for each, `RUN/seedN`.

    Attributes:
        candidates: image ids in the order of the set, scores: theirs; where there are more than `MOST_SCORES`, none or the first results.
        targets, picks: ids of the right images, and of those with the highest score.
        accuracy: 1 / ties if the target is among the picks, else 0. reciprocal_rank: of the best target, ties shared.
        above: candidates with a higher score than the best target. level: those with its score, itself included.
        tags: phenomena found in the text. tokens: of the text. distance: mean pairwise distance of the set.
    """

    KEY: ClassVar[tuple[str, ...]] = ("run", "query")

    run: str
    query: str
    split: str
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


TURNS = "turns.jsonl"
"""Table of an evaluation: `PredictedTurns` of each scorer and dialogue."""


class PredictedTurns(Record, frozen=True):
    """What a scorer, `RUN/seedN` where there are several seeds, says of a dialogue.

    Attributes:
        values: how sure it is, after each turn (`dialogues.merged`) before the photo, that the photo comes next; it does after the last.
        threshold: from which value on it would share. first: turn, from 1, after which it would share first; None for no turn.
    """

    KEY: ClassVar[tuple[str, ...]] = ("run", "query")

    run: str
    query: str
    split: str
    values: tuple[float, ...]
    threshold: float
    first: int | None


@dataclass
class Findings:
    """What an evaluation found.

    Attributes:
        rows: further rows of `figures.json` by name, in order. tables: that are printed, by name.
        results: what each scorer did on each query. files: for other programs, by name.
        people: what they reach, by part and basis.
    """

    figures: list[Figure] = field(default_factory=list)
    differences: list[RunDifference] = field(default_factory=list)
    rows: dict[str, list[Any]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    results: list[QueryResult] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    people: Mapping[str, People] = field(default_factory=dict)

    def write(self, out: Path) -> Content:
        """Write what was found, with tables in Markdown and LaTeX, in place of earlier files."""
        for folder in ("leaderboard", "trec"):
            with disk_errors(out / folder):
                if (out / folder).is_dir():
                    shutil.rmtree(out / folder)
        count = write_table(out / PER_QUERY, self.results)
        content: dict[str, object] = {}
        found: dict[str, Sequence[Any]] = {"figures": self.figures, "differences": self.differences, **self.rows}
        for name, listed in found.items():
            rows = [asdict(one) for one in listed]
            for row in rows:
                row.update(row.pop("interval", {}))
            content[name] = rows
        content |= {"people": self.tables.get("people"), "crowd": self.people, "notes": self.notes}
        # the summary stands first
        tables = [latex(name, table) for name, table in self.tables.items()]
        files = {
            FIGURES: pretty_json(content).decode(),
            TABLES: pretty_json(self.tables).decode(),
            "results.md": "\n".join(str(table) for table in self.tables.values()),
            "results.tex": "".join(tables[:1]),
            "appendix.tex": "\n".join(tables[1:]),
        } | self.files
        for name, text in files.items():
            write_bytes(out / name, text.encode(), durable=False)
        return Content([PER_QUERY, *files], {"rows": count}, {})


def read_tables(results: Path) -> dict[str, Table]:
    """The tables of an evaluation by name. Raises DataError for a damaged file."""
    return read_value(results / TABLES, dict[str, Table], "run ctxr eval again")


class _WrittenFindings(msgspec.Struct, frozen=True):
    figures: list[dict[str, str | int | float | None]]
    differences: list[dict[str, str | int | float | None]] = []
    tables: list[Table] = []
    people: Table | None = None
    crowd: dict[str, People] = {}


def read_findings(folder: Path) -> Findings:
    """Figures, differences, tables, `people` among them. Raises DataError for a damaged file."""
    file, hint = folder / FIGURES, "run ctxr eval again"
    written = read_value(file, _WrittenFindings, hint)
    try:  # a row holds the fields of its interval
        figures = msgspec.convert([row | {"interval": row} for row in written.figures], list[Figure])
        differences = msgspec.convert([row | {"interval": row} for row in written.differences], list[RunDifference])
    except msgspec.ValidationError as error:
        raise DataError(f"{file} is damaged: {error}", hint=hint) from error
    tables = {str(number): table for number, table in enumerate(written.tables)}
    tables |= {"people": written.people} if written.people else {}
    return Findings(figures, differences, tables=tables, people=written.crowd)
