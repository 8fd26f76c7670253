"""Draw captions that hold for many pictures, and say how many, and how far words alone give a label away:
`python -m scripts.world_captions FOLDER [--train N --valid N --test N --pair-train N --pair-valid N] [--seed N]`.
"""

import re
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from ctxr.datasets.pairs import EntailmentPair
from ctxr.datasets.truth import CaptionTruth
from ctxr.errors import CtxrError
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import WorldCaptions, write_captions

Features = Callable[[EntailmentPair], set[str]]


def words(pair: EntailmentPair) -> set[str]:
    """The words of the hypothesis."""
    return set(re.findall(r"[a-z]+", (pair.hypothesis or "").lower()))


def length(pair: EntailmentPair) -> set[str]:
    """The number of words of the hypothesis, in steps of two."""
    return {str(len((pair.hypothesis or "").split()) // 2)}


def naive_bayes(train: Sequence[EntailmentPair], test: Sequence[EntailmentPair], features: Features) -> float:
    """Accuracy on test of a judge who sees these features of the hypothesis alone, 0..1."""
    sizes = Counter(pair.label for pair in train)
    seen = {
        label: Counter(name for pair in train if pair.label == label for name in features(pair)) for label in (0, 1)
    }
    right = 0
    for pair in test:
        odds = np.log(sizes[1] / sizes[0])
        for name in features(pair):
            odds += np.log((seen[1][name] + 1) / (sizes[1] + 2)) - np.log((seen[0][name] + 1) / (sizes[0] + 2))
        right += (odds > 0) == bool(pair.label)
    return right / len(test)


def overlap(test: Sequence[EntailmentPair]) -> float:
    """Accuracy of the best threshold on the share of the hypothesis' words that the premise has, chosen on test itself."""
    shares = []
    for pair in test:
        premise = set(re.findall(r"[a-z]+", (pair.premise or "").lower()))
        shares.append(len(words(pair) & premise) / max(1, len(words(pair))))
    values, labels = np.array(shares), np.array([pair.label == 1 for pair in test])
    return float(max(((values >= edge) == labels).mean() for edge in np.unique(values)))


def describe(folder: Path) -> Iterable[str]:
    """Lines about the truth of each gallery and about the pairs of each source."""
    rows = read_table(folder / "truth.jsonl", CaptionTruth)
    for gallery in ("train", "valid", "test"):
        told = [row for row in rows if row.gallery == gallery]
        if not told:
            continue
        holds = np.array([len(row.holds) for row in told])
        images = Counter(image for row in told for image in row.holds)
        yield (
            f"{gallery}: {len(told)} captions of {len(images)} pictures; a caption holds for {holds.mean():.1f} (at most "
            f"{holds.max()}), {(holds == 1).mean():.1%} for their own alone; a picture has {len(told) / len(images):.1f} of its "
            f"own and {np.mean(list(images.values())):.1f} that hold"
        )
    pairs = read_table(folder / "pairs.jsonl", EntailmentPair)
    for source in sorted({pair.source for pair in pairs}):
        train, test = ([p for p in pairs if p.source == source and p.split == side] for side in ("train", "test"))
        counted = Counter(f"{pair.split} {pair.relation}" for pair in pairs if pair.source == source)
        yield f"{source}: {', '.join(f'{name} {count}' for name, count in sorted(counted.items()))}"
        if train and test:
            yield (
                f"{source}, accuracy on test: {naive_bayes(train, test, words):.1%} by the hypothesis' words, "
                f"{naive_bayes(train, test, length):.1%} by its length, {overlap(test):.1%} by its overlap with the premise"
            )


def main(arguments: list[str]) -> int:
    """Draw, or take what is there, and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=WorldCaptions.seed)
    sides = ("train", "valid", "test", "pair_train", "pair_valid")
    for name in sides:
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=getattr(WorldCaptions, name), help="pictures"
        )
    options = parser.parse_args(arguments)
    try:
        write_captions(
            WorldCaptions(options.folder, **{name: getattr(options, name) for name in sides}, seed=options.seed)
        )
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    print("\n".join(describe(options.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
