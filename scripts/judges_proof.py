"""A cascade against each of its judges at equal cost, and unsure against forced verdicts, on drawn captions whose truth is known:
`python -m scripts.judges_proof cascade FOLDER [--seeds 3]` and `python -m scripts.judges_proof unsure FOLDER [--seeds 3]`.

The cheap judge is the toy that ships with ctxr, and the dear one a simulated expert that errs on one pair of ten and costs
`--price` times as much. Of the same budget as the cascade, the expert alone answers about as many random pairs as it pays for. The
rest of a stopped proof is computed when it is run again.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.cli.render import Terminal, show_table
from ctxr.datasets.changes import contents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import JUDGMENTS, LEDGER, CandidateRow, folder_of
from ctxr.datasets.truth import CaptionTruth, Pair
from ctxr.engine.report import Table
from ctxr.metrics.compare import mean_interval
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run as revise
from ctxr.problems.embeddings import PictureFiles
from ctxr.problems.galleries import gallery_splits
from ctxr.problems.gallery.learner import OpenGallery
from ctxr.problems.queries import pictures_of
from ctxr.problems.runs import ScoringOptions, checkpoints
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import WorldCaptions, write_captions
from scripts.ending import exit_code
from scripts.weak_positive_proof import KS, TRAINING, entailed_shares, known_of, told, truth_of

SAY = ("Shows", "Before")

NOISE = 0.1
"""Share of pairs on which the simulated expert errs; pairs that are too close to call get a coin's verdict."""


def ledger_of(
    options: Namespace, world: Path, name: str, split: str, *judges: str, **changes: Any
) -> list[CandidateRow]:
    """The candidates of a round of its own by some judges."""
    out = options.folder / "rounds" / f"{world.name}-{name}"
    asks = ReviseLabels(
        world,
        entail=True,
        retriever="ctxr-tiny",
        judge=judges,
        split=split,
        out=out,
        workdir=options.folder,
        device="cpu",
    )
    revise(replace(asks, **changes), Terminal())
    return read_table(out / folder_of(1) / LEDGER, CandidateRow)


def write_expert(file: Path, pairs: Iterable[Pair], truth: dict[str, CaptionTruth], rng: np.random.Generator) -> None:
    """Write the expert's verdicts on (image, caption) pairs."""
    rows = []
    for image, caption in pairs:
        known = truth[caption]
        right = rng.random() < 0.5 if image in known.doubtful else (image in known.holds) != (rng.random() < NOISE)
        rows.append(json.dumps({"image": image, "caption": caption, "p": float(right)}))
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")


def quality(ledger: Iterable[CandidateRow], truth: dict[str, CaptionTruth]) -> tuple[float, float, float]:
    """(precision, recall among the candidates, F0.5) in percent of what was added, without pairs that are too close to call."""
    right = added = true = 0
    for row in ledger:
        known = truth[row.caption]
        if row.image not in known.doubtful:
            holds = row.image in known.holds
            right, added, true = (
                right + (holds and row.decision == "added"),
                added + (row.decision == "added"),
                true + holds,
            )
    shares = right / max(added, 1), right / max(true, 1), 1.25 * right / max(added + 0.25 * true, 1e-9)
    return 100 * shares[0], 100 * shares[1], 100 * shares[2]


def cascade(options: Namespace) -> None:
    """The toy alone, then for each pair of its limits the expert alone and both in a cascade at the same cost; a world for each seed."""
    arms: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(options.first, options.first + options.seeds):
        world = options.folder / f"cascade-{seed}"
        write_captions(
            WorldCaptions(world, train=0, valid=0, test=200, pair_train=0, pair_valid=0, least=1, most=4, say=SAY, seed=seed, workers=1),
            Terminal(),
        )  # fmt: skip
        truth, rng = {row.caption: row for row in truth_of(world, "test")}, np.random.default_rng(seed)
        limits: dict[str, Any] = {"threshold": 0.5, "per_image": 0, "per_caption": 0}
        cheap = ledger_of(options, world, "cheap", "test", "toy", **limits)
        arms.setdefault("toy alone", []).append((len(cheap), *quality(cheap, truth)))
        pairs = [(row.image, row.caption) for row in cheap]
        expert = options.folder / f"expert-{seed}.jsonl"
        write_expert(expert, pairs, truth, rng)
        lines, order = expert.read_text(encoding="utf-8").splitlines(), rng.permutation(len(pairs)).tolist()
        for band in options.limits:
            low, high = map(float, band.split("-"))
            both = ledger_of(options, world, f"both-{band}", "test", f"toy@{band}", f"file:{expert}", **limits)
            cost = len(pairs) + options.price * sum(low <= (row.probability or 0) < high for row in cheap)
            paid = order[: cost // options.price]
            some = options.folder / f"some-{seed}-{band}.jsonl"
            some.write_text("\n".join(lines[row] for row in paid) + "\n", encoding="utf-8")
            alone = ledger_of(options, world, f"alone-{band}", "test", f"file:{some}", unsure=0.5, **limits)
            arms.setdefault(f"toy@{band}, then expert", []).append((cost, *quality(both, truth)))
            arms.setdefault(f"expert alone, at the cost of toy@{band}", []).append(
                (options.price * len(paid), *quality(alone, truth))
            )
    rows = [
        (name, *(f"{value:.1f}" for value in np.mean(runs, axis=0)), ", ".join(f"{run[-1]:.1f}" for run in runs))
        for name, runs in arms.items()
    ]
    heads = ("judge", "cost", "precision %", "recall of candidates %", "F0.5 %", "by seed")
    note = f"200 pictures a seed, 30 candidates each; the toy costs 1 a pair, the expert {options.price}; too close to call left out"
    show_table(Table("A cascade and each of its judges at equal cost", heads, tuple(rows), note))


ARMS: dict[str, dict[str, float]] = {
    "forced at 0.5": {"threshold": 0.5},
    "forced at 0.8": {"threshold": 0.8},
    "unsure from 0.5 to 0.8": {"threshold": 0.8, "unsure": 0.5},
}
"""Limits of the toy's verdicts on the train pictures."""


def unsure(options: Namespace) -> None:
    """The same training without weak positives, with forced verdicts, and with unsure ones; Entail@K by the truth of test pictures."""
    world = options.folder / "unsure"
    write_captions(
        WorldCaptions(world, train=options.train, valid=60, test=150, pair_train=0, pair_valid=0, say=SAY, seed=options.world, workers=1),
        Terminal(),
    )  # fmt: skip
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]
    files = pictures_of(dataset, [side.as_query()])
    pictures = PictureFiles(files, contents_of(dataset, files), options.folder)
    families, known = [dataset.images[image].group for image in side.images], known_of(world, side)
    shares: dict[str, np.ndarray] = {}
    rounds: dict[str, str] = {"no weak positives": "–"}
    for arm, limits in {"no weak positives": {}, **ARMS}.items():
        name, weak, judgments = arm.replace(" ", "-"), "off", None
        if limits:
            ledger = ledger_of(options, world, name, "train", "toy", **limits)
            verdicts = [sum(row.decision == decision for row in ledger) for decision in ("added", "unsure", "rejected")]
            weak, rounds[arm] = "extra-batch", " / ".join(map(str, verdicts))
            judgments = options.folder / "rounds" / f"{world.name}-{name}" / folder_of(1) / JUDGMENTS
        report = train(
            Train("retrieval-clip", world, name, options.seeds, judgments=judgments, changes=(*TRAINING, f"weak={weak}"),
                  workdir=options.folder, device="cpu"), Terminal(),
        )  # fmt: skip
        scoring = ScoringOptions(options.folder, "cpu", "fp32", report.regions)
        seeds = []
        for seed in checkpoints(report.folder):
            opened = OpenGallery({arm: seed}, report.encoder, scoring, Terminal())
            seeds.append(entailed_shares(opened.tables(side, opened.with_regions(pictures))[arm], known))
        shares[arm] = np.stack(seeds)
    rows = []
    for arm, values in shares.items():
        cells: list[str] = []
        for place, _ in enumerate(KS):
            gain = (shares["unsure from 0.5 to 0.8"] - values)[:, :, place]
            interval = mean_interval(gain.mean(axis=0), families, np.random.default_rng(0))
            points = 100 * gain.mean(axis=1)
            cells += [
                f"{100 * values[:, :, place].mean():.1f}",
                told(interval),
                ", ".join(f"{point:+.1f}" for point in points),
            ]
        rows.append((arm, rounds[arm], *cells))
    heads = ["verdicts", "added / unsure / rejected"]
    heads += [head for k in KS for head in (f"E@{k} %", f"unsure less this, E@{k}", "by seed")]
    note = f"{options.train} train and 150 test pictures, {options.seeds} seeds; points with 95 % over families of pictures"
    show_table(Table("Unsure against forced verdicts of the toy", tuple(heads), tuple(rows), note))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove and print."""
    proofs: dict[str, Callable[[Namespace], None]] = {"cascade": cascade, "unsure": unsure}
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=proofs)
    parser.add_argument("folder", type=Path)
    for name, value in (("seeds", 3), ("price", 20), ("train", 150), ("world", 11), ("first", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--limits", default="0.1-0.9", type=lambda text: text.split(","), help="of the toy in a cascade"
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    return exit_code(lambda: proofs[options.what](options))


if __name__ == "__main__":
    sys.exit(main())
