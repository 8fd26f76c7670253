"""How right is what a trained classifier adds? A drawn gallery is revised, and the truth says what holds:
`python -m scripts.revision_proof FOLDER [--classifier full] [--seeds 3] [--thresholds own,0.9]`.

FOLDER is that of `scripts.entailment_proof`, which trained the classifier; nothing of the gallery's pictures was learned from.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.cli.render import Terminal, show_table
from ctxr.datasets.rounds import LEDGER, CandidateRow, folder_of
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.report import Table
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.kinds import CLASSIFIERS
from ctxr.store.records import Image
from ctxr.store.tables import read_table
from scripts.ending import exit_code

GALLERY, OWN, DRAWS = "test", "own", 2000

Counts = npt.NDArray[np.float64]
"""[families, 4]: added and true, added, true among the candidates, true in the gallery. Given and doubtful pairs are in none."""


def counted(ledger: Iterable[CandidateRow], truth: Sequence[CaptionTruth], families: dict[str, str]) -> Counts:
    """The counts of a round."""
    place = {name: number for number, name in enumerate(sorted(set(families.values())))}
    of = {row.caption: row for row in truth}
    found = np.zeros((len(place), 4))
    for row in truth:
        for image in row.holds:
            found[place[families[image]], 3] += image != row.image
    for link in ledger:
        known = of[link.caption]
        if link.image not in known.doubtful:
            true, added = link.image in known.holds, link.decision == "added"
            found[place[families[link.image]], :3] += (true and added, added, true)
    return found


def shares(found: Counts) -> Counts:
    """[..., 3] of counts [..., 4]: precision, recall among the candidates, recall among all that holds."""
    right, added, true, every = np.moveaxis(found, -1, 0)
    return np.stack([right / np.maximum(added, 1), right / np.maximum(true, 1), right / np.maximum(every, 1)], axis=-1)


def told(counts: Counts) -> tuple[str, ...]:
    """Each share in percent with 95 % over families."""
    families = len(counts)
    drawn = np.random.default_rng(0).multinomial(families, np.full(families, 1 / families), size=DRAWS)
    low, high = np.quantile(shares(drawn @ counts), (0.025, 0.975), axis=0)
    value = shares(counts.sum(axis=0))
    return tuple(f"{100 * a:.1f} ({100 * b:.1f} to {100 * c:.1f})" for a, b, c in zip(value, low, high, strict=True))


def prove(options: Namespace) -> None:
    """Revise with every seed at every threshold, and print."""
    world = options.folder / "world"
    truth = [row for row in read_table(world / "truth.jsonl", CaptionTruth) if row.gallery == GALLERY]
    inside = {row.image for row in truth}
    families = {row.id: row.group for row in read_table(world / "images.jsonl", Image) if row.id in inside}
    rows = []
    for seed in range(options.seeds):
        for threshold in options.thresholds:
            out = options.folder / f"revised-{options.classifier}-{seed}-{threshold}"
            asks = ReviseLabels(
                world, entail=True, retriever="ctxr-tiny",
                classifier=str(options.folder / CLASSIFIERS / options.classifier / f"seed{seed}"),
                threshold=None if threshold == OWN else float(threshold), split=GALLERY, out=out, workdir=options.folder, device="cpu",
                top_k=options.top_k,
            )  # fmt: skip
            run(asks, Terminal())
            ledger = read_table(out / folder_of(1) / LEDGER, CandidateRow)
            found = counted(ledger, truth, families)
            right, added, true, every = found.sum(axis=0).astype(int).tolist()
            rows.append((seed, threshold, len(ledger), true, every, added, right, *told(found)))
    columns = (
        "seed", "threshold", "candidates", "of them hold", "hold in all", "added", "of them hold", "precision", "recall of candidates",
        "recall of all",
    )  # fmt: skip
    note = "pairs that were given or are too close to call are left out; 95 % over families of pictures"
    show_table(Table(f"pairs added to {len(families)} pictures, %", columns, tuple(rows), note))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classifier", default="full")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--top-k", type=int, default=30)
    parser.add_argument("--thresholds", default=f"{OWN},0.9", type=lambda text: text.split(","))
    options = parser.parse_args(arguments)
    return exit_code(lambda: prove(options))


if __name__ == "__main__":
    sys.exit(main())
