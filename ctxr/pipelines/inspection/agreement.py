"""`ctxr agreement`: how far people agree in votes from anywhere, who disagrees with whom, and what the votes decide."""

import base64
import csv
import hashlib
import io
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from scipy import sparse

from ctxr.annotation.vote_files import NUMBER, VoteTable, read_votes
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.agreement import Level, PairedVotes, cells
from ctxr.metrics.consensus import TIE, DawidSkene, dawid_skene, majority
from ctxr.metrics.votes import Votes
from ctxr.pipelines.inspection.config import AgreementConfig, AgreementReport
from ctxr.problems.results import latex
from ctxr.store.atomic import write_bytes
from ctxr.version import __version__
from ctxr.web.static import SHARED, environment

MOST_WEIGHED = 50_000_000
"""Votes that all draws of an interval count together: fewer than 1,000 draws where there are more than 50,000 votes."""

MOST_CLASSES = 40
"""Values up to which Dawid and Skene's model is fitted, and the table of what is taken for what is made."""

MOST_FITTED = 150_000_000
"""Votes times values times rounds of Dawid and Skene's model, and cells of all tables times rounds; it is left out below 3 rounds."""

MOST_PAIRS = 1_000_000
"""Pairs of people that are listed, and a hundredth of the pairs of votes that are counted for them."""

_STYLES = ((SHARED, "colours.css"), ("ctxr.pipelines.inspection.pages", "agreement.css"))

MOST_ROWS = 30
"""Rows of each table on the page; the files have all."""

LEAST_COMMON = 5
"""Items that two people must share to be compared, unless no two share as many."""


def run(config: AgreementConfig, progress: Progress = SILENT) -> AgreementReport:
    """Read, measure, and write what was asked for. Raises what `read_votes` raises."""
    path = Path(config.check().votes or "")
    with progress.task(f"reading {path.name}", None):
        table = read_votes(path, config.columns())
    return measure(str(path), table, config, progress)


def measure(name: str, table: VoteTable, config: AgreementConfig, progress: Progress = SILENT) -> AgreementReport:
    """The figures of votes, and with `config.out` their files."""
    votes, notes, kinds = table.votes, [*table.notes], len(table.votes.labels)
    with progress.task("drawing votes again", None):
        tables = {"agreement": _alphas(table, np.random.default_rng(config.seed))}
    with progress.task("comparing people", None):
        fitted = _fitted(votes, notes)
        exact = "; only equal values agree" if table.numeric else ""
        tables |= {"people": _people(votes, fitted, exact), "pairs": _pairs(votes, notes, exact)}
        tables["items"] = _items(votes, fitted, exact)
        if kinds <= MOST_CLASSES:
            tables["confusion"] = _confusion(votes)
    counts = {
        "votes": len(votes), "items": len(votes.unit_names), "people": len(votes.worker_names), "values": kinds,
        "missing": table.missing,
    }  # fmt: skip
    report = AgreementReport(name, counts, tables, tuple(notes), config.out)
    if config.out is not None:
        with progress.task(f"writing {config.out}", None):
            _write(report, config.out)
    return report


def _alphas(table: VoteTable, rng: np.random.Generator) -> Table:
    levels: tuple[Level, ...] = ("nominal", "ordinal", "interval") if table.numeric else ("nominal",)
    draws = int(np.clip(MOST_WEIGHED // len(table.votes), 100, 1000))
    rows, defined = [], []
    for level in levels:
        paired = PairedVotes(table.votes, level)
        items = paired.drawn(rng, draws)
        # two people drawn again are mostly one person twice
        both = paired.drawn(rng, draws if paired.crowd > 2 else 0, workers=True)
        rows.append((level, items.value, items.low, items.high, both.low, both.high))
        defined.append((items.resamples, both.resamples))
    reason = f"; undefined: {items.reason}" if items.reason else ""
    of_items, of_both = map(min, zip(*defined, strict=True))
    crowd = f"{of_both:,} of items and people (crowd), the one to quote for other people"
    heads = ("level", "alpha", "low", "high", "crowd low", "crowd high")
    note = (
        f"{items.votes:,} votes on {plural(items.units, 'item', form=',')} with two or more; 95 % intervals from {of_items:,} draws of "
        f"items and {crowd if paired.crowd > 2 else 'none of people, who are fewer than three'}{reason}"
    )
    return Table("Krippendorff's alpha", heads, tuple(rows), note)


def _fitted(votes: Votes, notes: list[str]) -> DawidSkene | None:
    """Dawid and Skene's model; None, and a note that says why, where it tells nothing or takes too long."""
    kinds, several = len(votes.labels), np.bincount(votes.units)[votes.units] > 1
    rounds = min(500, MOST_FITTED // max(len(votes) * kinds, len(votes.worker_names) * kinds**2))
    reason = "fewer than three people share items" if len(np.unique(votes.workers[several])) < 3 else ""
    if not reason and (kinds > MOST_CLASSES or rounds < 3):
        reason = "there are too many values" if kinds > MOST_CLASSES else "there are too many votes or people"
    if reason:
        notes.append(f"Dawid and Skene's model is left out: {reason}")
        return None
    fitted = dawid_skene(votes, smoothing=1 / kinds, tolerance=1e-6, rounds=rounds)
    if len(fitted.history) == rounds:
        notes.append(f"Dawid and Skene's model did not converge in {plural(rounds, 'round')}")
    return fitted


def _people(votes: Votes, fitted: DawidSkene | None, exact: str) -> Table:
    """Each person, who agrees least first."""
    size, crowd = len(votes.unit_names), len(votes.worker_names)
    on_item = np.bincount(votes.units, minlength=size)[votes.units] - 1
    keys = votes.units * np.int64(len(votes.labels)) + votes.values
    _, inverse, same = np.unique(keys, return_inverse=True, return_counts=True)
    alike, met, given = (
        np.bincount(votes.workers, weights, crowd) for weights in (same[inverse] - 1, on_item, np.ones(len(votes)))
    )
    skill = (fitted.confusion.diagonal(axis1=1, axis2=2) @ fitted.prior).tolist() if fitted else [None] * crowd
    rows = [
        (str(name), int(count), a / m if m else None, able)
        for name, count, a, m, able in zip(votes.worker_names, given, alike.tolist(), met.tolist(), skill, strict=True)
    ]
    rows.sort(key=lambda row: (row[2] is None, row[2], row[0]))
    note = "agrees: share of the votes of others on the same items that are equal; accuracy: estimated by Dawid and Skene's model"
    return Table("People", ("person", "votes", "agrees", "accuracy"), tuple(rows), note + exact)


def _pairs(votes: Votes, notes: list[str], exact: str) -> Table:
    """Every two people who share items, who agree least first."""
    size, crowd = len(votes.unit_names), len(votes.worker_names)
    counts = np.bincount(votes.units)
    met = int((counts * (counts - 1)).sum()) // 2
    heads = ("person", "other", "items", "agree")
    if min(met, crowd * (crowd - 1) // 2) > MOST_PAIRS or met > 100 * MOST_PAIRS:
        notes.append("pairs of people are left out: there are too many")
        return Table("Who disagrees with whom", heads, (), "left out")
    ones, cell = np.ones(len(votes), np.int32), cells(votes.units, size, votes.values, len(votes.labels))
    judged = sparse.csr_array((ones, (votes.workers, votes.units)), shape=(crowd, size))
    said = sparse.csr_array((ones, (votes.workers, cell.of_votes)), shape=(crowd, len(cell.units)))
    common, equal = sparse.triu(judged @ judged.T, 1).tocoo(), (said @ said.T).tocsr()
    least = min(LEAST_COMMON, int(common.data.max(initial=0)))
    names = votes.worker_names
    enough = common.data >= least
    one, other, count = (part[enough] for part in (common.row, common.col, common.data))
    share = np.asarray(equal[one, other]).ravel() / count
    rows = [*zip(names[one].tolist(), names[other].tolist(), count.tolist(), share.tolist(), strict=True)]
    rows.sort(key=lambda row: (row[3], -row[2]))
    return Table("Who disagrees with whom", heads, tuple(rows), f"on at least {plural(least, 'item')}{exact}")


def _items(votes: Votes, fitted: DawidSkene | None, exact: str) -> Table:
    """Each item, the most disputed first."""
    size = len(votes.unit_names)
    most, counts = majority(votes), np.bincount(votes.units, minlength=size)
    table = sparse.csr_array((np.ones(len(votes)), (votes.units, votes.values)), shape=(size, len(votes.labels)))
    top = table.max(axis=1).toarray().ravel() / counts
    likely = fitted.posterior.argmax(axis=1) if fitted else None
    sure = fitted.posterior.max(axis=1) if fitted else None
    words = [_word(label) for label in votes.labels.tolist()]
    rows = [
        (
            str(votes.unit_names[item]),
            int(counts[item]),
            "tie" if most[item] == TIE else words[most[item]],
            float(top[item]),
            words[likely[item]] if likely is not None else None,
            float(sure[item]) if sure is not None else None,
        )
        for item in np.lexsort((-counts, sure if sure is not None else top, top))
    ]
    heads = ("item", "votes", "majority", "share", "Dawid–Skene", "probability")
    note = (
        "share: of the commonest value; probability: of the value by Dawid and Skene's model, "
        "which gives each person beforehand, for each true value, one vote spread evenly over all values; "
        "it is too high for items that are hard for everybody"
    )
    return Table("Items", heads, tuple(rows), note + exact)


def _confusion(votes: Votes) -> Table:
    """How often one person says the row and another the column on one item, as Krippendorff counts coincidences."""
    size, kinds = len(votes.unit_names), len(votes.labels)
    table = sparse.csr_array((np.ones(len(votes)), (votes.units, votes.values)), shape=(size, kinds))
    counts = np.bincount(votes.units, minlength=size)
    weights = np.divide(1.0, counts - 1, out=np.zeros(size), where=counts > 1)
    scaled = sparse.diags_array(weights) @ table
    met = (table.T @ scaled).toarray() - np.diag(np.asarray(scaled.sum(axis=0)).ravel())
    words = [_word(label) for label in votes.labels.tolist()]
    rows = tuple((word, *map(float, row)) for word, row in zip(words, met, strict=True))
    note = "pairs of votes of different people on one item; an item with m votes counts m"
    return Table("Values given to the same item", ("value", *words), rows, note, digits=1)


def _word(label: object) -> str:
    """A value as it was given: 3 and not 3.0."""
    return str(label).removesuffix(".0") if isinstance(label, float) else str(label)


def _write(report: AgreementReport, out: Path) -> None:
    """The page, the table for a paper, and all rows as CSV."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in report.tables.items():
        write_bytes(out / f"{name}.csv", _csv(table.columns, table.rows))
    write_bytes(out / "agreement.tex", latex("agreement", report.tables["agreement"]).encode())
    write_bytes(out / "agreement.html", _page(report))


def _page(report: AgreementReport) -> bytes:
    """A page that loads nothing."""
    style = "".join((files(package) / "static" / name).read_text("utf-8") for package, name in _STYLES)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = environment(_STYLES[1][0]).get_template("agreement.html")
    confusion = report.tables.get("confusion")
    cells_of = np.array([row[1:] for row in confusion.rows], float) if confusion else np.zeros((0, 0))
    most = float((cells_of - np.diag(np.diag(cells_of))).max(initial=0))
    drawn = [number for row in report.tables["agreement"].rows for number in row[1:] if number is not None]
    least = math.floor(5 * min([-0.2, *drawn])) / 5
    return page.render(
        report=report, name=Path(report.source).name, least=least, most=most, rows=MOST_ROWS, style=style, digest=digest,
        version=__version__,
    ).encode("utf-8", "replace")  # fmt: skip


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([*map(_inert, row)] for row in [columns, *rows])
    return text.getvalue().encode()


def _inert(cell: object) -> object:
    """A cell that a spreadsheet does not run as a formula."""
    return (
        f"'{cell}"
        if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") and not NUMBER.fullmatch(cell)
        else cell
    )
