"""What words and mouse traces say of pictures that share what they show and differ in where it stands (What and where, tables 2, 5, 6):
`python -m scripts.traces_proof FOLDER [--seeds 3] [--epochs 16] [--only text,trace,…]`.

The dual encoder learns from scratch on drawn narratives, over cells of ctxr-tiny. Settings were chosen on other drawings; figures are of
test. A stopped proof goes on, and a finished one only prints. 0 when text and trace together have a higher R@1 than text,
and the trace alone less than half of that of text and more than chance, by intervals of 95 %, 1 when not.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ctxr.cli.render import show_table
from ctxr.engine.report import Table
from ctxr.pipelines.modelling import regions, train
from ctxr.pipelines.modelling.config import Eval, RegionsConfig, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.synthetic.narratives import write_narratives

ROWS: dict[str, tuple[str, ...]] = {
    "text+trace": (),
    "text": ("query=text",),
    "trace": ("query=trace",),
    "no-image-location": ("locations=false",),
    "no-word-position": ("positions=false",),
    "M-1": ("text_layers=1",),
    "L-1": ("image_layers=1",),
}
"""Runs by name, with what they change."""

SETTINGS = (
    "regions=cells", "width=96", "inner=192", "heads=4", "embedded=96", "pooled=192", "text_layers=2", "image_layers=2", "margin=0.1",
    "padding=0", "dropout=0", "lr=1e-3", "batch=256", "warmup=0.05", "patience=0", "schedule=cosine", "max_tokens=16",
)  # fmt: skip
"""Smaller and faster than published."""

MEASURES = ("R@1", "R@5", "R@10", "MRR")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, train, evaluate, compare, print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=16)
    options = parser.parse_args(arguments)
    drawn, work, names = options.folder / "narratives", options.folder / "work", options.only.split(",")
    write_narratives(drawn, {"train": 3200}, 1, same=32)
    write_narratives(drawn, {"val": 400, "test": 400}, 1, same=4)
    regions.run(RegionsConfig(drawn, "grid:ctxr-tiny", name="cells", most=9, workdir=work))
    for name in names:
        settings = (*SETTINGS, f"epochs={options.epochs}", *ROWS[name])
        trained = train.run(Train("traces", drawn, name, options.seeds, changes=settings, workdir=work))
        print(f"{name}: valid {trained.valid}, test {trained.test}", file=sys.stderr)
    result = evaluate(Eval(tuple(names), drawn, work, split="test", compare=True))
    content = json.loads((result.results / "figures.json").read_text())
    cells = {(row["run"], row["measure"]): row for row in content["figures"] if row["view"] == "overall"}
    rows = [(run, *(_cell(cells[run, measure]) for measure in MEASURES)) for run in names]
    show_table(Table("Drawn narratives, %", ("query", *MEASURES), tuple(rows)))
    for table in result.tables.values():
        show_table(table)
    if {"text+trace", "text", "trace"} - {*names}:
        return 0
    tests = {(row["run"], row["against"]): row for row in content["differences"] if row["part"] == "R@1"}
    above = True
    for better, base in (("text+trace", "text"), ("text", "trace")):
        row, sign = (tests[better, base], 1) if (better, base) in tests else (tests[base, better], -1)
        above &= sign * row["value"] > 0 and row["low"] * row["high"] > 0
    above &= cells["text", "R@1"]["value"] > 2 * cells["trace", "R@1"]["value"]
    return 0 if above and cells["trace", "R@1"]["low"] > cells["trace", "chance"]["value"] else 1


def _cell(row: dict[str, float]) -> str:
    return f"{100 * row['value']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


if __name__ == "__main__":
    raise SystemExit(main())
