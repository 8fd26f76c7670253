"""Whether weak positives raise Entail@K: the same training with and without them on drawn captions, several seeds of each:
`python -m scripts.weak_positive_proof FOLDER [--seeds 3] [--weak extra-batch,mask-only] [--set KEY=VALUE ...]
[--recipe retrieval-clip] [--classifier RUN [--threshold P]] [--say Shows,Before]`.

Weak positives are the true ones of the train gallery, or what a classifier added to it in a round of its own; Entail@K is told by the
truth of the test gallery. A stopped proof goes on.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ctxr.datasets.changes import contents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import JUDGMENTS, folder_of
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import CtxrError
from ctxr.metrics.compare import Interval, mean_interval
from ctxr.metrics.entail_at import PairLabels, count
from ctxr.metrics.retrieval import QueryScores, relate
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run as revise
from ctxr.problems.embeddings import PictureFiles
from ctxr.problems.galleries import GallerySplit, gallery_splits, recalls_of
from ctxr.problems.gallery.learner import OpenGallery
from ctxr.problems.queries import pictures_of
from ctxr.problems.runs import ScoringOptions, checkpoints
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table, write_table
from ctxr.synthetic.captions import PREDICATES, WorldCaptions, write_captions

KS = (10, 30)
WORKER = "entailment-truth"
TRAINING = ("encoder=ctxr-tiny", "batch=96", "at_once=96", "lr=1e-4", "epochs=2", "patience=0", "precision=fp32")


class Spoken(Silent):
    """Says on stdout what each epoch came to."""

    def note(self, text: str) -> None:
        """A line at once."""
        print(text, flush=True)


def truth_of(world: Path, gallery: str) -> list[CaptionTruth]:
    """What holds in a gallery of the drawn world."""
    return [row for row in read_table(world / "truth.jsonl", CaptionTruth) if row.gallery == gallery]


def write_weak(world: Path, table: Path) -> int:
    """The true pairs of the train gallery that nobody wrote down, as judgments of a later round; how many."""
    rows = truth_of(world, "train")
    extra = [(row.caption, image) for row in rows for image in row.holds if image != row.image]
    return write_table(table, [Judgment(caption, image, WORKER, 1.0, round=1) for caption, image in extra])


def write_round(options: Namespace, world: Path, progress: Progress) -> Path:
    """The judgments of a classifier's round about the train gallery; how right they are is printed."""
    asks = ReviseLabels(
        world, entail=True, retriever="ctxr-tiny", classifier=str(options.classifier), threshold=options.threshold, split="train",
        out=options.folder / "revised", workdir=options.folder, device="cpu",
    )  # fmt: skip
    revise(asks, progress)
    table: Path = asks.folder() / folder_of(1) / JUDGMENTS
    truth = {row.caption: row for row in truth_of(world, "train")}
    added = [row for row in read_table(table, Judgment) if row.value > 0]
    true = sum(row.candidate in truth[row.query].holds for row in added)
    doubtful = sum(row.candidate in truth[row.query].doubtful for row in added)
    every = sum(len(row.holds) - 1 for row in truth.values())
    print(f"{len(added)} weak positives: {true} hold, {doubtful} are too close to call; {every} hold in all")
    return table


def known_of(world: Path, side: GallerySplit) -> PairLabels:
    """What holds in a gallery."""
    images = {image: place for place, image in enumerate(side.images)}
    captions = {caption: place for place, caption in enumerate(side.captions)}
    written: dict[int, list[int]] = {}
    extra: dict[int, list[int]] = {}
    for caption, image in side.written:
        written.setdefault(image, []).append(caption)
    for row in truth_of(world, side.split):
        for name in row.holds:
            extra.setdefault(images[name], []).append(captions[row.caption])
    return PairLabels(relate(written), relate(extra), "gold")


def entailed_shares(found: QueryScores, known: PairLabels) -> np.ndarray:
    """Entail@K of each picture, [I, len(KS)]."""
    counted = count(found, known, ks=KS)
    shares: np.ndarray = (counted.written + counted.extra) / np.array(KS)
    return shares


def told(interval: Interval) -> str:
    """Percent with its interval."""
    low, high = (0.0 if one is None else 100 * one for one in (interval.low, interval.high))
    return f"{100 * (interval.value or 0):+.2f} ({low:+.2f} to {high:+.2f})"


def prove(options: Namespace, progress: Progress) -> int:
    """Train, measure, print; 1 where an interval of Entail@K's difference holds 0 or less."""
    world, work = options.folder / "dataset", options.folder
    write_captions(
        WorldCaptions(world, train=options.train, valid=options.valid, test=150, pair_train=0, pair_valid=0, workers=1,
                      say=tuple(options.say.split(","))),
        progress,
    )  # fmt: skip
    if options.classifier is None:
        weak = work / "weak.jsonl"
        print(f"{write_weak(world, weak)} weak positives")
    else:
        weak = write_round(options, world, progress)
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]
    files = pictures_of(dataset, [side.as_query()])
    pictures = PictureFiles(files, contents_of(dataset, files), work)
    families = [dataset.images[image].group for image in side.images]
    known, arms = known_of(world, side), ["off", *options.weak.split(",")]
    shares: dict[str, list[np.ndarray]] = {}
    for arm in arms:
        changes = (*TRAINING, *options.changes, f"weak={arm}")
        asks = Train(options.recipe, world, arm, options.seeds, judgments=None if arm == "off" else weak,
                     changes=changes, workdir=work, device="cpu")  # fmt: skip
        report = run(asks, progress)
        for seed in checkpoints(report.folder):
            scoring = ScoringOptions(work, "cpu", "fp32", report.regions)
            opened = OpenGallery({arm: seed}, report.encoder, scoring, progress)
            found = opened.tables(side, opened.with_regions(pictures))[arm]
            shares.setdefault(arm, []).append(entailed_shares(found, known))
            recall = {row.measure: f"{100 * row.value:.1f}" for row in recalls_of(side, found, arm)}
            means = ", ".join(
                f"E@{k} {100 * value:.1f}" for k, value in zip(KS, shares[arm][-1].mean(axis=0), strict=True)
            )
            print(f"{arm} {seed.name}: {means}; {recall}", flush=True)
    return _compare(shares, arms, families)


def _compare(shares: dict[str, list[np.ndarray]], arms: Sequence[str], families: Sequence[str]) -> int:
    raised = True
    for arm in arms[1:]:
        differences = np.stack(shares[arm]) - np.stack(shares["off"])
        for place, k in enumerate(KS):
            interval = mean_interval(differences[:, :, place].mean(axis=0), families, np.random.default_rng(0))
            each = ", ".join(f"{100 * value:+.2f}" for value in differences[:, :, place].mean(axis=1))
            print(f"{arm} less off, E@{k}: {told(interval)} points, 95 % over families of pictures; seeds {each}")
            raised = raised and (interval.low or 0.0) > 0
    return 0 if raised else 1


def main(arguments: list[str]) -> int:
    """Prove and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, default=150)
    parser.add_argument("--valid", type=int, default=60, help="pictures that choose the epoch; 0 takes the last one")
    parser.add_argument("--recipe", default="retrieval-clip", help="retrieval-blip and so on for encoders of pairs")
    parser.add_argument("--weak", default="extra-batch")
    parser.add_argument(
        "--classifier", type=Path, help="folder of a trained one, which then says what is a weak positive"
    )
    parser.add_argument("--threshold", type=float, help="of its probability; else its own")
    parser.add_argument("--say", default=",".join(PREDICATES), help="what captions are made of")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    try:
        return prove(parser.parse_args(arguments), Spoken())
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
