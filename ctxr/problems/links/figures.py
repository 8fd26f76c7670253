"""What is measured of runs over documents: links found, how alike methods are, and what explains their AUC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from ctxr.datasets.documents import Document
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.columns import RatioColumn
from ctxr.metrics.links import auc, explained, precision_at, spread
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.similarity import spearman
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.figures import Figure
from ctxr.problems.tables import none_had, percent
from ctxr.store.records import Record

AUC, CHANCE, RANDOM = "AUC", "chance", "random"
"""Measures, and the scorer that gives every pair the same score: AUC 0.5, and p@C as dense as links are."""

COMPONENTS = 20
"""Of the content of documents."""


@dataclass(frozen=True, eq=False)
class DocumentSplit:
    """D documents of a split, scored by all runs.

    Attributes:
        scores: [n, m] of each document, by scorer. left_out: documents that some scorer did not score completely, with `--partial`.
    """

    name: str
    documents: tuple[Document, ...]
    scores: Mapping[str, Sequence[Doubles]]
    left_out: int

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def counted(self) -> Flags:
        """[D] documents with a link and a pair that is judged to be none."""
        return np.array([bool((one.links == 1).any() and (one.links == 0).any()) for one in self.documents], bool)

    @property
    def skipped(self) -> str:
        """How many documents count, and why others do not."""
        unjudged = sum(bool(np.isnan(one.links).all()) for one in self.documents)
        alike = len(self) - int(self.counted.sum()) - unjudged
        why = [f"{alike:,} with no link, or links alone, are skipped"] if alike else []
        why += [f"{unjudged:,} without a judged pair are skipped"] if unjudged else []
        return "; ".join(
            [f"{int(self.counted.sum()):,} of {plural(len(self), 'document', 'documents', ',')} count", *why]
        )


def columns_of(split: DocumentSplit, scorer: str, ks: Sequence[int]) -> dict[str, RatioColumn]:
    """AUC, p@C, and the share of links among the judged pairs of each document; those that are not `counted` have no weight."""
    names = (AUC, *(f"p@{k}" for k in ks), CHANCE)
    values = np.zeros((len(split), len(names)))
    for row in np.flatnonzero(split.counted).tolist():
        scores, links = split.scores[scorer][row], split.documents[row].links
        values[row] = auc(scores, links), *(precision_at(scores, links, k) for k in ks), np.nanmean(links)
    weights = split.counted.astype(np.float64)
    return {name: RatioColumn(np.arange(len(split)), values[:, place], weights) for place, name in enumerate(names)}


def links_table(split: DocumentSplit, figures: Sequence[Figure], units: str) -> Table:
    """AUC and p@C of each run, below those of random scores."""
    cells = {(figure.run, figure.measure): figure.interval for figure in figures}
    runs, names = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    names.remove(CHANCE)
    chance = percent(cells[runs[0], CHANCE])
    rows = [(RANDOM, *("50.0" if name == AUC else chance for name in names))]
    rows += [(run, *(percent(cells[run, name]) for name in names)) for run in runs]
    note = (
        f"%, means over documents, of judged pairs alone: {split.skipped}. In brackets {100 * LEVEL:g} % over {units} "
        f"drawn again{none_had(list(cells.values()))}. p@C: share of links among the C highest scores, ties share their places; "
        "random: the expectation of scores without sense"
    )
    return Table(f"{split.name}: links found", ("run", *names), tuple(rows), note)


def spearman_table(split: DocumentSplit, aucs: Mapping[str, Doubles]) -> Table | None:
    """Whether two runs find the same documents hard; None for a single run. `aucs` of the counted documents, by run."""
    rows = tuple(
        (run, against, rho if (rho := spearman(aucs[run], aucs[against])) is None else f"{rho:+.3f}")
        for against, run in combinations(aucs, 2)
    )
    note = f"Spearman's rho of the AUC of {plural(int(split.counted.sum()), 'document', 'documents', ',')}"
    return Table(f"{split.name}: methods alike", ("run", "against", "rho"), rows, note) if rows else None


def explained_table(
    split: str, aucs: Mapping[str, Doubles], vectors: Sequence[tuple[Doubles, Doubles]], encoder: str, without: int
) -> Table:
    """How much of AUC the spread and the content of documents explain.

    Args:
        aucs: [D] by run. vectors: of the images and of the sentences of each document. without: documents without all pictures.
    """
    spreads = np.array([[spread(images), spread(texts)] for images, texts in vectors])
    content = _components(np.array([np.concatenate([one.mean(axis=0) for one in pair]) for pair in vectors]))
    both = np.hstack([spreads, content])
    rows = tuple((run, *_shares(values, spreads), *_shares(values, both)) for run, values in aucs.items())
    lacking = f" ({plural(without, 'document', 'documents', ',')} without all pictures left out)" if without else ""
    note = (
        f"R² in % of least squares on {plural(len(vectors), 'document', 'documents', ',')}{lacking}, and adjusted for the number "
        f"of columns. Spread: of images and of sentences, 2 columns; content: mean vectors of both, "
        f"{plural(content.shape[1], 'principal component')}; by {encoder}. –: as many coefficients as documents, or AUC does not vary"
    )
    heads = ("run", "spread", "adjusted", "spread + content", "adjusted ")
    return Table(f"{split}: what explains AUC", heads, rows, note)


def _shares(values: Doubles, columns: Doubles) -> tuple[str, str]:
    share = explained(values, columns)
    if share is None:
        return "–", "–"
    count, width = columns.shape
    return f"{100 * share:.1f}", f"{100 * (1 - (1 - share) * (count - 1) / (count - width - 1)):.1f}"


def _components(table: Doubles) -> Doubles:
    """Rows [D, W] on their first principal components, `COMPONENTS` at most."""
    left, sizes, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    rank = int((sizes > 1e-6 * max(1.0, sizes.max(initial=0.0))).sum())
    return np.asarray((left * sizes)[:, : min(rank, COMPONENTS)], np.float64)


class CurveEpoch(Record, frozen=True):
    """An epoch of a training: mean loss of training and validation, and AUC of validation where links are known."""

    KEY = ("epoch",)

    epoch: int
    loss: float
    valid_loss: float | None = None
    valid_auc: float | None = None


def curve_table(run: str, seeds: Mapping[str, Sequence[CurveEpoch]]) -> Table | None:
    """Validation loss, which chooses the epoch without a label, beside AUC; None where no epoch has both."""
    shown = {
        seed: {row.epoch: row for row in rows if None not in (row.valid_loss, row.valid_auc)}
        for seed, rows in seeds.items()
    }
    shown = {seed: rows for seed, rows in shown.items() if rows}
    if not shown:
        return None
    cells, rhos = dict[tuple[str, int], tuple[str, str]](), list[str]()
    for seed, rows in shown.items():
        losses, aucs = (np.array([getattr(row, name) for row in rows.values()]) for name in ("valid_loss", "valid_auc"))
        cells |= {(seed, epoch): (f"{x:.4f}", f"{100 * y:.1f}") for epoch, x, y in zip(rows, losses, aucs, strict=True)}
        rho = spearman(losses, aucs)
        rhos.append(f"{seed} {'–' if rho is None else f'{rho:+.3f}'}")
    epochs = sorted({epoch for _, epoch in cells})
    table = tuple(
        (epoch, *(cell for seed in shown for cell in cells.get((seed, epoch), (None, None)))) for epoch in epochs
    )
    heads = ("epoch", *(f"{what}, {seed}" for seed in shown for what in ("loss", "AUC %")))
    note = f"on the validation documents; Spearman's rho of loss and AUC over epochs: {', '.join(rhos)}"
    return Table(f"{run}: validation loss against AUC", heads, table, note)
