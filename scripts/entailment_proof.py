"""Does premise and picture together beat either alone, and what do masking and each kind of data do? On the drawn world:
`python -m scripts.entailment_proof FOLDER [--pictures 1200] [--seeds 3] [--epochs 10] [--only full,text,image]`.

It goes on where it was stopped.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from ctxr.cli.render import Terminal, show_table
from ctxr.errors import CtxrError
from ctxr.pipelines import train
from ctxr.pipelines.eval import Eval
from ctxr.pipelines.eval import run as evaluate
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.train import Train
from ctxr.pipelines.world_captions import WorldCaptions, write_captions

ROWS: dict[str, tuple[str, ...]] = {
    "full": (),
    "text": ("image=",),
    "image": ("text=",),
    "no-masking": ("masking=0.0",),
    "no-text-data": ("text_data=false",),
    "no-image-data": ("image_data=false",),
    "shared-text": ("text=shared",),
    "scalar-gate": ("scalar_gate=true",),
}
"""The rows of the paper's Table 3 as changes of the recipe, and the scalar gate."""

FIGURES = ("accuracy", "precision", "recall", "F0.5")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, train, evaluate, print; 0 when premise and picture together have the highest F0.5 of the three."""
    told = _parsed(arguments)
    try:
        pairs = _drawn(told)
        rows = [row for name in told.only for row in _figures(told, name, pairs)]
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    note = f"pairs of picture and premise on {told.test} pictures that nothing was trained or chosen on; intervals of 95 % over pictures"
    show_table(
        Table("entailed or not, drawn world", ("row", "seed", "figure", "value", "low", "high"), tuple(rows), note)
    )
    means = {name: _mean([row[3] for row in rows if row[0] == name and row[2] == "F0.5"]) for name in told.only}
    show_table(Table("F0.5, mean over seeds", ("row", "F0.5"), tuple(means.items())))
    both = means.get("full")
    return 0 if both is None or all(both > means[name] for name in ("text", "image") if name in means) else 1


def _parsed(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where everything is kept")
    for name, value in (("pictures", 1200), ("test", 200), ("seeds", 3), ("epochs", 10), ("width", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=5e-4)
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
            pairs, train=0, valid=0, test=told.test, pair_train=told.pictures, pair_valid=max(20, told.pictures // 8),
            least=1, most=2, hypotheses=6, texts=3, say=tuple(told.say.split(",")),
        ),
        Terminal(),
    )  # fmt: skip
    return pairs


def _figures(
    told: Namespace, name: str, pairs: Path
) -> list[tuple[str, str, str, float | None, float | None, float | None]]:
    changes = (*ROWS[name], f"epochs={told.epochs}", f"width={told.width}", f"lr={told.lr}")
    config = Train(
        "entailment-tiny", pairs, name, seeds=told.seeds, changes=changes, workdir=told.folder, device=told.device
    )  # fmt: skip
    train.run(config, Terminal())
    report = evaluate(Eval((name,), pairs, told.folder, split="test", resamples=2000, device=told.device), Terminal())
    return [
        (name, run.rpartition("/")[2] if "/" in run else "seed0", figure, value, low, high)
        for run, kind, figure, value, low, high, _ in report.tables["test/quality"].rows
        if kind == "both" and figure in FIGURES
    ]


def _mean(values: Sequence[float | None]) -> float:
    return sum(value or 0.0 for value in values) / max(1, len(values))


if __name__ == "__main__":
    sys.exit(main())
