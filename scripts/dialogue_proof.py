"""What dialogues say of drawn photos by their pixels, by their labels, and by both (PhotoChat, section 6.2):
`python -m scripts.dialogue_proof FOLDER [--seeds 3] [--epochs 12] [--only both,image,…] [--drawing 1]`.

The dual encoder learns over frozen vectors of ctxr-tiny, and its words start in the space of ctxr-tiny's texts. Settings were chosen on
the drawing 0; figures are of test of another one. A stopped proof goes on, and a finished one only prints. 0 when photos with their labels
have a higher R@1 than either alone, by intervals of 95 %, 1 when not.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ctxr.cli.render import show_table
from ctxr.engine.report import Table
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.synthetic.dialogues import write_dialogues

ROWS: dict[str, tuple[str, ...]] = {
    "both": (),
    "image": ("photo=image",),
    "labels": ("photo=labels",),
    "both-SH": ("loss=sum-hinge",),
    "both-MH": ("loss=max-hinge",),
}
"""Runs by name, with what they change."""

SETTINGS = (
    "encoder=ctxr-tiny",
    "frozen=true",
    "text=aligned:ctxr-tiny",
    "width=64",
    "lr=5e-3",
    "warmup=0.1",
    "batch=32",
    "max_tokens=80",
    "schedule=cosine",
    "patience=0",
)
SOFTMAX = ("temperature=0.1",)
WITH_LABELS = ("label_text=aligned:ctxr-tiny",)
BASELINES = ("dialogue-bm25", "dialogue-labels")
MEASURES = ("R@1", "R@5", "R@10", "sum", "MRR", "chance")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when photos with labels are found more often."""
    parser = ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--drawing", type=int, default=1)
    options = parser.parse_args(arguments)
    drawn, work, names = options.folder / "dialogues", options.folder / "work", options.only.split(",")
    write_dialogues(drawn, {"train": 2000, "valid": 300, "test": 300}, options.drawing)
    for name in names:
        changes = ROWS[name]
        softmax = () if any(one.startswith("loss") for one in changes) else SOFTMAX
        settings = (*SETTINGS, *softmax, *(() if "photo=image" in changes else WITH_LABELS), *changes)
        epochs = f"epochs={options.epochs}"
        trained = train.run(Train("dialogue", drawn, name, options.seeds, changes=(*settings, epochs), workdir=work))
        print(f"{name}: valid {trained.valid}, test {trained.test}", file=sys.stderr)
    for name in BASELINES:
        train.run(Train(name, drawn, workdir=work))
    runs = (*names, *BASELINES, "ctxr-tiny")
    result = evaluate(Eval(runs, drawn, work, split="test", compare=True))
    content = json.loads((result.results / "figures.json").read_text())
    cells = {(row["run"], row["measure"]): row for row in content["figures"] if row["view"] == "overall"}
    rows = [(run, *(_cell(cells[run, measure]) for measure in MEASURES)) for run in runs]
    show_table(Table("Drawn dialogues, %", ("run", *MEASURES), tuple(rows)))
    for name in ("test/seeds", "test/differences"):
        if name in result.tables:
            show_table(result.tables[name])
    tests = {(row["run"], row["against"]): row for row in content["differences"] if row["part"] == "R@1"}
    above = True
    for base in {"image", "labels"} & {*names} if "both" in names else ():
        row, sign = (tests["both", base], 1) if ("both", base) in tests else (tests[base, "both"], -1)
        above &= sign * row["value"] > 0 and row["low"] * row["high"] > 0
    return 0 if above else 1


def _cell(row: dict[str, float]) -> str:
    low = "" if row["low"] is None else f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
    return f"{100 * row['value']:.1f}{low}"


if __name__ == "__main__":
    raise SystemExit(main())
