"""Does premise and picture together beat either alone, and what do masking and each kind of data do? On the drawn world:
`python -m scripts.entailment_proof FOLDER [--pictures 1600] [--seeds 3] [--epochs 2] [--only full,text,image]`.

Several may work in one folder, each on rows of its own, once the world is drawn. A stopped proof goes on, and one that is done only
prints. 0 when premise and picture together have an F0.5 above that of either alone, by intervals of 95 %, 1 when not, 2 when they
were not all compared.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.cli.render import Terminal, show_table
from ctxr.engine.report import Table
from ctxr.errors import CtxrError
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.entailment.pairs import PROBABILITIES
from ctxr.problems.entailment.question import JudgedPair
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import WorldCaptions, write_captions

ROWS: dict[str, tuple[str, ...]] = {
    "full": (),
    "text": ("image=",),
    "image": ("text=", "epochs={twice}"),
    "no-masking": ("masking=0.0",),
    "no-text-data": ("text_data=false",),
    "no-image-data": ("image_data=false",),
    "shared-text": ("text=shared",),
    "scalar-gate": ("scalar_gate=true",),
}
"""The rows of the paper's Table 3 as changes of the recipe, and the scalar gate. A picture's pairs are in
the stream of `full` twice, with and without their premise, so `image`, which has them once, has twice the epochs."""


DRAWS = 2000


@dataclass(frozen=True)
class Row:
    """What the seeds of a row said of the test pairs.

    Attributes:
        found: [seeds, families, 3], pairs rightly called entailed, wrongly called so, and missed. right: [seeds], accuracy.
    """

    found: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, train, evaluate, compare, print."""
    told, start = _parsed(arguments), time.monotonic()
    try:
        pairs = _drawn(told)
        rows = {name: _row(told, name, pairs) for name in told.only}
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    note = f"pairs of picture and premise on {told.test} pictures that nothing was trained or chosen on; means of {told.seeds} seeds"
    lines = [(name, 100 * float(row.right.mean()), *_percents(row), _each(row)) for name, row in rows.items()]
    show_table(
        Table(
            "entailed or not, %",
            ("row", "accuracy", "precision", "recall", "F0.5", "F0.5 of seeds"),
            tuple(lines),
            note,
        )
    )
    differences = {
        name: difference(rows["full"], row) for name, row in rows.items() if "full" in rows and name != "full"
    }
    if differences:
        of = "the same pairs, mean over seeds; intervals of 95 % over families of pictures"
        show_table(Table("F0.5 of full less that of a row, points", ("row", "by", "low", "high"), tuple(
            (name, *(100 * value for value in found)) for name, found in differences.items()
        ), of))  # fmt: skip
    print(f"{time.monotonic() - start:.0f} s")
    return verdict(differences)


def verdict(differences: Mapping[str, tuple[float, float, float]]) -> int:
    """The exit status: 0 when `full` is surely above `text` and `image`, 1 when not, 2 (and said) when one was not compared.

    Args:
        differences: (value, low, high) of `full` less each row.
    """
    missing = [name for name in ("text", "image") if name not in differences]
    if missing:
        print(f"nothing is proved: full was not compared with {' and '.join(missing)}", file=sys.stderr)
        return 2
    return 0 if all(differences[name][1] > 0 for name in ("text", "image")) else 1


def f_half(found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """F0.5 [...] of counts [..., 3] as in `Row`; 0 where nothing is called or there is nothing to find."""
    right, wrong, missed = np.moveaxis(found, -1, 0)
    shares: npt.NDArray[np.float64] = 1.25 * right / np.maximum(1.25 * right + wrong + 0.25 * missed, 1e-12)
    return shares


def difference(full: Row, other: Row, draws: int = DRAWS) -> tuple[float, float, float]:
    """(F0.5 of `full` less that of `other`, low, high): means over seeds, 95 % by drawing the same families again for both."""
    families = full.found.shape[1]
    drawn = np.random.default_rng(0).multinomial(families, np.full(families, 1 / families), size=draws)
    again = [f_half(drawn @ row.found).mean(axis=0) for row in (full, other)]
    low, high = np.quantile(again[0] - again[1], (0.025, 0.975))
    value = f_half(full.found.sum(axis=1)).mean() - f_half(other.found.sum(axis=1)).mean()
    return float(value), float(low), float(high)


def _parsed(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where everything is kept")
    for name, value in (("pictures", 1600), ("valid", 200), ("test", 600), ("seeds", 3), ("epochs", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--say", default="Shows,Before", help="what captions are made of")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default=",".join(ROWS), type=lambda names: names.split(","))
    told = parser.parse_args(arguments)
    strange = sorted({*told.only} - {*ROWS})
    if strange:
        parser.error(f"--only {strange[0]} is no row; rows are {', '.join(ROWS)}")
    return told


def _drawn(told: Namespace) -> Path:
    pairs: Path = told.folder / "world"
    write_captions(
        WorldCaptions(
            pairs, train=0, valid=0, test=told.test, pair_train=told.pictures, pair_valid=told.valid,
            least=2, most=4, hypotheses=6, texts=4, say=tuple(told.say.split(",")), workers=1,
        ),
        Terminal(),
    )  # fmt: skip
    return pairs


def _row(told: Namespace, name: str, pairs: Path) -> Row:
    changes = (f"epochs={told.epochs}", f"lr={told.lr}", *(one.format(twice=2 * told.epochs) for one in ROWS[name]))
    config = Train(
        "entailment-tiny", pairs, name, seeds=told.seeds, changes=changes, workdir=told.folder, device=told.device
    )  # fmt: skip
    train.run(config, Terminal())
    report = evaluate(Eval((name,), pairs, told.folder, split="test", resamples=200, device=told.device), Terminal())
    return row_of([one for one in read_table(report.results / PROBABILITIES, JudgedPair) if one.kind == "both"])


def row_of(judged: Sequence[JudgedPair]) -> Row:
    """The answers of all seeds to the same pairs, by family."""
    families = {name: place for place, name in enumerate(sorted({one.group for one in judged}))}
    seeds = {name: place for place, name in enumerate(sorted({one.run for one in judged}))}
    found = np.zeros((len(seeds), len(families), 3))
    right = np.zeros(len(seeds))
    for one in judged:
        seed, label = seeds[one.run], one.label == 1
        right[seed] += one.entailed == label
        if one.entailed or label:
            found[seed, families[one.group], 0 if one.entailed and label else 1 if one.entailed else 2] += 1
    return Row(found, right * len(seeds) / len(judged))


def _percents(row: Row) -> list[float]:
    """Precision, recall and F0.5, means over seeds."""
    counts = row.found.sum(axis=1)
    right, wrong, missed = counts.T
    shares = (right / np.maximum(right + wrong, 1), right / np.maximum(right + missed, 1), f_half(counts))
    return [100 * float(share.mean()) for share in shares]


def _each(row: Row) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in f_half(row.found.sum(axis=1)))


if __name__ == "__main__":
    sys.exit(main())
