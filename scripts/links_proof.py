"""The table of the unsupervised links (Hessel et al. 2019, Table 2) on documents of the drawn world:
`python -m scripts.links_proof FOLDER [--only story-dii,…] [--seeds 3] [--epochs 5]`.

FOLDER holds what `python -m scripts.world_documents FOLDER` made: documents of each construction. Each recipe is trained on each of
them; settings were chosen on valid, figures are of test. Several may work in one folder, on different constructions. A stopped proof
goes on, and a finished one only prints. 0 when DC, TK and AP have a higher AUC than NoStruct and random, by intervals of 95 %, 1 when
not.
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

CONSTRUCTIONS = ("coco", "story-dii", "story-sis", "dii-stress")
LEARNED: dict[str, tuple[str, ...]] = {"nostruct": (), "dc": (), "tk": ("k=half",), "ap": ()}
"""Rows by name, with changes of their recipes. The zero-shot encoder and `random` stand beside them."""

SETTINGS = ("encoder=ctxr-tiny", "features=", "text=encoder", "width=256", "dropout=0.1", "lr=1e-3", "patience=0")
"""Smaller and faster than published."""

OWN = {"dii-stress": ("negatives=mean",)}
"""With hard negatives, AP and TK stay there at one similarity for all documents: twice the margin."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, compare, print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(CONSTRUCTIONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    rows, beaten = list[tuple[object, ...]](), True
    for construction in options.only.split(","):
        documents, work = options.folder / construction, options.folder / f"work-{construction}"
        for name, changes in LEARNED.items():
            recipe = f"links-{name}"
            settings = (*SETTINGS, *OWN.get(construction, ()), f"epochs={options.epochs}", *changes)
            trained = train.run(Train(recipe, documents, name, options.seeds, changes=settings, workdir=work))
            print(f"{construction} {name}: valid {trained.valid}, test {trained.test}", file=sys.stderr)
        runs = (*LEARNED, "ctxr-tiny")
        result = evaluate(Eval(runs, documents, work, split="test", compare=True))
        content = json.loads((result.results / "figures.json").read_text())
        cells = {(row["run"], row["measure"]): row for row in content["figures"] if row["view"] == "overall"}
        for run in dict.fromkeys(run for run, _ in cells):
            rows.append((construction, run, *(_cell(cells.get((run, measure))) for measure in ("AUC", "p@1", "p@5"))))
        tests = {(row["run"], row["against"]): row for row in content["differences"] if row["part"] == "AUC"}
        for better in ("dc", "tk", "ap"):
            for base in ("nostruct", "random"):
                row, sign = (tests[better, base], 1) if (better, base) in tests else (tests[base, better], -1)
                beaten &= sign * row["value"] > 0 and row["low"] * row["high"] > 0
    show_table(Table("Links in drawn documents, %", ("documents", "run", "AUC", "p@1", "p@5"), tuple(rows)))
    return 0 if beaten else 1


def _cell(row: dict[str, float] | None) -> str:
    if row is None:
        return "–"
    return f"{100 * row['value']:.1f} ({100 * row['low']:.1f}–{100 * row['high']:.1f})"


if __name__ == "__main__":
    sys.exit(main())
