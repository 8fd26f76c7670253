"""`ctxr agreement`: how far people agree in votes from anywhere, who disagrees with whom, and what the votes decide."""

import base64
import csv
import hashlib
import io
import math
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import sparse

from ctxr.annotation.vote_files import NAMES, NUMBER, Columns, VoteTable, read_votes, votes_in
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import Table
from ctxr.errors import UsageError, plural
from ctxr.metrics.agreement import Level, PairedVotes, cells
from ctxr.metrics.consensus import TIE, DawidSkene, dawid_skene, majority
from ctxr.metrics.votes import Votes
from ctxr.pipelines.inspection.config import AgreementConfig, AgreementReport
from ctxr.problems.results import latex
from ctxr.store.atomic import disk_errors, replace_folder, write_bytes
from ctxr.version import __version__
from ctxr.web.static import SHARED, environment

# votes that all draws of an interval count together: below 1,000 draws for more than 50,000 votes
MOST_WEIGHED = 50_000_000
MOST_CLASSES = 40  # values up to which Dawid and Skene's model is fitted and the coincidence matrix of values is given
# rounds of that model times votes times values, or times cells of all confusion matrices; it is left out below 3 rounds
MOST_FITTED = 150_000_000
# pairs of people that are listed, and a hundredth of the pairs of votes that are counted for them
MOST_PAIRS = 1_000_000
MOST_ROWS = 30  # rows of each table on the page; the files have all
LEAST_COMMON = 5  # items that two people must share to be compared
FEW_ITEMS = 10  # items with two votes below which a note warns of narrow intervals

PAGES, PAGE, PAPER = "ctxr.pipelines.inspection.pages", "agreement.html", "agreement.tex"
FILES = {PAGE, PAPER, *(f"{name}.csv" for name in ("agreement", "people", "pairs", "items", "confusion"))}
"""What the folder holds: the page, the table for a paper, and each table with all its rows."""


def run(config: AgreementConfig, progress: Progress = SILENT, columns: Columns | None = None) -> AgreementReport:
    """Read a file, or take `columns` in its place, measure, and write what was asked for. Raises what `read_votes` raises."""
    path = Path((config.check() if columns is None else config).votes or "votes")
    out = config.out and config.out.resolve()
    if out is not None and out.exists():
        with disk_errors(out):
            others = {file.name for file in out.iterdir()} - FILES
        if others:
            what = f"{config.out} holds {min(others)!r}, which ctxr agreement does not write"
            raise UsageError(what, hint="choose a new or empty folder: --out")
    names = {part: getattr(config, part) for part in NAMES}
    with progress.task(f"reading {path.name}", None):
        table = read_votes(path, names) if columns is None else votes_in(columns, names)
    votes, notes = table.votes, [*table.notes]
    with progress.task("drawing votes again", None):
        tables = {"agreement": _alphas(table, np.random.default_rng(config.seed), notes)}
    with progress.task("comparing people", None):
        tables |= _comparisons(votes, notes)
    named = {"items": votes.unit_names, "people": votes.worker_names, "values": votes.labels}
    counts = {"votes": len(votes), **{what: len(names) for what, names in named.items()}, "missing": table.missing}
    report = AgreementReport(str(path), counts, tables, tuple(notes), config.out)
    if out is not None:
        with progress.task(f"writing {config.out}", None), disk_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
                _write(report, Path(name) / "made")
                replace_folder(Path(name) / "made", out)
    return report


def _alphas(table: VoteTable, rng: np.random.Generator, notes: list[str]) -> Table:
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
    of_items, of_both = map(min, zip(*defined, strict=True))
    crowd = f"{of_both:,} of items and people (crowd), the one to quote for other people"
    note = f"{items.votes:,} votes on {plural(items.units, 'item', form=',')} with two or more; 95 % intervals from {of_items:,} draws of "
    note += f"items and {crowd if paired.crowd > 2 else 'none of people, who are fewer than three'}"
    if items.value is None:
        same = f"every vote{' on items with two or more' if len(table.votes.labels) > 1 else ''} is the same"
        note = f"alpha is undefined: {same if items.units else 'no item has two votes'}"
    elif items.units < FEW_ITEMS:
        notes.append(f"the intervals of alpha are too narrow: fewer than {FEW_ITEMS} items have two votes")
    heads = ("level", "alpha", "low", "high", "crowd low", "crowd high")
    return Table("Krippendorff's alpha", heads, tuple(rows), note)


def _fitted(votes: Votes, notes: list[str]) -> DawidSkene | None:
    """Dawid and Skene's model; None, and a note that says why, where it tells nothing or takes too long."""
    kinds, several = len(votes.labels), np.bincount(votes.units)[votes.units] > 1
    rounds = min(500, MOST_FITTED // max(len(votes) * kinds, len(votes.worker_names) * kinds**2))
    reason = "there are too many votes or people" if rounds < 3 else ""
    reason = "there are too many values" if kinds > MOST_CLASSES else reason
    if np.count_nonzero(np.bincount(votes.workers[several])) < 3:
        reason = "fewer than three people share items"
    if reason:
        notes.append(f"Dawid and Skene's model is left out: {reason}")
        return None
    fitted = dawid_skene(votes, smoothing=1 / kinds, tolerance=1e-6, rounds=rounds)
    if len(fitted.history) == rounds:
        notes.append(f"Dawid and Skene's model did not converge in {plural(rounds, 'round')}")
    return fitted


def _comparisons(votes: Votes, notes: list[str]) -> dict[str, Table]:
    """The tables of people, pairs, items, and, of few values, coincidences."""
    fitted, cell = _fitted(votes, notes), cells(votes.units, len(votes.unit_names), votes.values, len(votes.labels))
    # votes by item and value [U, V], by person and item [W, U], and by person and what was said of an item [W, C]
    shape, ones = (len(votes.unit_names), len(votes.labels)), np.ones(len(votes), np.int64)
    said = sparse.csr_array((np.bincount(cell.of_votes), (cell.units, cell.values)), shape=shape)
    judged, chose = (sparse.csr_array((ones, (votes.workers, what))) for what in (votes.units, cell.of_votes))
    given, sizes = judged.sum(axis=1), said.sum(axis=1)
    # each person's votes beside those of others on the same items, and how many of these are equal
    met, alike = judged @ sizes - given, chose @ said.data - given
    skill = (fitted.confusion.diagonal(axis1=1, axis2=2) @ fitted.prior).tolist() if fitted else [None] * len(given)
    agrees = [one / of if of else None for one, of in zip(alike.tolist(), met.tolist(), strict=True)]
    people = zip(map(str, votes.worker_names), given.tolist(), agrees, skill, strict=True)
    rows = tuple(sorted(people, key=lambda row: (row[2] is None, row[2], row[0])))
    note = "agrees: share of others' votes on the same items with an equal value; accuracy: by Dawid and Skene's model"
    tables = {"people": Table("People", ("person", "votes", "agrees", "accuracy"), rows, note)}
    tables |= {"pairs": _pairs(votes, judged, chose, notes), "items": _items(votes, said, fitted)}
    if len(votes.labels) <= MOST_CLASSES:
        scaled = sparse.diags_array((sizes > 1) / np.maximum(sizes - 1, 1)) @ said
        coincidences = (said.T @ scaled).toarray() - np.diag(scaled.sum(axis=0))
        words = _words(votes.labels)
        rows = tuple((word, *row) for word, row in zip(words, coincidences.tolist(), strict=True))
        note = "pairs of votes of different people on one item, weighted so that an item's pairs add up to the number of its votes"
        tables["confusion"] = Table("Values given to the same item", ("value", *words), rows, note, digits=1)
    return tables


def _pairs(votes: Votes, judged: sparse.csr_array, chose: sparse.csr_array, notes: list[str]) -> Table:
    """Every two people who share items, who agree least first."""
    title, heads, (crowd, _) = "Who disagrees with whom", ("person", "other", "items", "agree"), judged.shape
    sizes = judged.sum(axis=0)
    met = int((sizes * (sizes - 1)).sum()) // 2
    if min(met, crowd * (crowd - 1) // 2) > MOST_PAIRS or met > 100 * MOST_PAIRS:
        notes.append("pairs of people are left out: there are too many")
        return Table(title, heads, (), "left out")
    common, equal = sparse.triu(judged @ judged.T, 1).tocoo(), (chose @ chose.T).tocsr()
    one, other, count = (part[common.data >= LEAST_COMMON] for part in (common.row, common.col, common.data))
    if not count.size:
        notes.append(f"pairs of people are left out: no two share {LEAST_COMMON} items")
    columns = votes.worker_names[one], votes.worker_names[other], count, np.asarray(equal[one, other]).ravel() / count
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True), key=lambda row: (row[3], -row[2]))
    return Table(title, heads, tuple(rows), f"agree: share of equal values, on at least {LEAST_COMMON} items")


def _items(votes: Votes, said: sparse.csr_array, fitted: DawidSkene | None) -> Table:
    """Each item, the most disputed first."""
    sizes, most, likely = said.sum(axis=1), majority(votes), np.full(len(votes.unit_names), None)
    top, sure = np.maximum.reduceat(said.data, said.indptr[:-1]) / sizes, likely
    if fitted is not None:
        likely = np.array(_words(votes.labels[fitted.posterior.argmax(axis=1)]), object)
        sure = fitted.posterior.max(axis=1)
    common = np.where(most == TIE, "tie", np.array(_words(votes.labels[most]), object))
    order = np.lexsort((-sizes, sure.astype(np.float64), top))
    columns = (column[order].tolist() for column in (votes.unit_names, sizes, common, top, likely, sure))
    note = (
        "share: of the commonest value; probability: of the value by Dawid and Skene's model, "
        "which gives each person beforehand, for each true value, one vote spread evenly over all values; "
        "it is too high for items that are hard for everybody"
    )
    heads = ("item", "votes", "majority", "share", "Dawid–Skene", "probability")
    return Table("Items", heads, tuple(zip(*columns, strict=True)), note)


def _words(labels: np.ndarray) -> list[str]:
    """Values as they were given: 3 and not 3.0."""
    return [str(one).removesuffix(".0") if isinstance(one, float) else one for one in labels.tolist()]


def _write(report: AgreementReport, folder: Path) -> None:
    """The page, the table for a paper, and all rows as CSV, where text that a spreadsheet would run as a formula has a ' before it."""
    for name, table in report.tables.items():
        text = io.StringIO()
        csv.writer(text).writerows([*map(_inert, row)] for row in (table.columns, *table.rows))
        write_bytes(folder / f"{name}.csv", text.getvalue().encode())
    write_bytes(folder / PAPER, latex("agreement", report.tables["agreement"]).encode())
    write_bytes(folder / PAGE, _page(report))


def _inert(cell: object) -> object:
    runs = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if runs else cell


def _page(report: AgreementReport) -> bytes:
    """A page that loads nothing."""
    styles = ((SHARED, "colours.css"), (PAGES, "report.css"), (PAGES, "agreement.css"))
    style = "".join((files(package) / "static" / name).read_text("utf-8") for package, name in styles)
    rows = report.tables["confusion"].rows if "confusion" in report.tables else ()
    apart = (cell for place, row in enumerate(rows, 1) for cell in (*row[1:place], *row[place + 1 :]))
    numbers = (number for row in report.tables["agreement"].rows for number in row[1:] if number is not None)
    page = environment(PAGES).get_template(PAGE).render(
        report=report, name=Path(report.source).name, rows=MOST_ROWS, style=style, version=__version__,
        digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        least=math.floor(5 * min(-0.2, *numbers, 0)) / 5, most=max(apart, default=0) or 1,
    )  # fmt: skip
    return page.encode("utf-8", "replace")
