"""Results in the forms of others: Markdown, LaTeX, the ImageCoDe leaderboard, TREC."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

import numpy as np

from ctxr.data.hashing import sha256_of
from ctxr.errors import UsageError
from ctxr.pipelines.evaluating.matching import EvalSplit
from ctxr.pipelines.evaluating.questions import BenchmarkQuery
from ctxr.pipelines.result_tables import Table

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
    """Lines `query Q0 candidate rank score run` for trec_eval and its kin, best first, equal scores by candidate.

    White space in ids is written as %20, so that columns stay columns.
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
