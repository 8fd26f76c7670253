"""Whether a small model tells when a photo is shared, on drawn dialogues:
`python -m scripts.intent_proof FOLDER [--recipe intent-minilm] [--dialogues 2000] [--seeds 3] [--drawing 1]`.

A model that reads every turn once is trained from three seeds and compared with the best rule that looks at the number of the turn
alone. Settings were chosen on the drawing 7; figures are of test. 0 when its F1 is higher, by intervals of 95 %, 1 when not.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ctxr.cli.render import show_table
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.synthetic.dialogues import write_dialogues


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, train, evaluate, print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipe", default="intent-minilm")
    parser.add_argument("--dialogues", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--drawing", type=int, default=1)
    options = parser.parse_args(arguments)
    drawn, work, others = (
        options.folder / f"drawn{options.drawing}",
        options.folder / "work",
        options.dialogues * 3 // 20,
    )
    write_dialogues(drawn, {"train": options.dialogues, "valid": others, "test": others}, options.drawing)
    name = f"{options.recipe}-{options.drawing}"
    train.run(Train(options.recipe, drawn, name, options.seeds, workdir=work))
    result = evaluate(Eval((name,), drawn, work, split="test"))
    for table in result.tables.values():
        show_table(table)
    figures = json.loads((result.results / "figures.json").read_text())["figures"]
    f1 = {row["run"]: row for row in figures if (row["view"], row["measure"]) == ("overall", "F1")}
    return 0 if f1.pop(name)["low"] > max(row["high"] for row in f1.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
