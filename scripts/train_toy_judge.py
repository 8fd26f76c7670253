"""Train the toy judge that ships with ctxr on the drawn world, evaluate it on pictures it has not seen, and copy it to a folder.

    python -m scripts.train_toy_judge WORK --out ctxr/models/weights/toy-judge

WORK keeps the drawn world and the run: a stopped training goes on there.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

from ctxr.cli.render import Terminal, show_table
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import CLASSIFIERS
from ctxr.synthetic.captions import WorldCaptions, write_captions
from scripts.ending import exit_code

NAME = "toy-judge"

FILES = ("config.json", "trained_on.json", "weights.safetensors")


def make(options: Namespace) -> None:
    """Draw, train, evaluate, copy."""
    world = options.work / "world"
    write_captions(
        WorldCaptions(
            world, train=0, valid=0, test=400, pair_train=options.pictures, pair_valid=400, least=1, most=4, hypotheses=6, texts=2,
            say=("Shows", "Before"), seed=options.seed, workers=1,
        ),
        Terminal(),
    )  # fmt: skip
    changes = (f"epochs={options.epochs}",)
    train.run(Train("entailment-tiny", world, NAME, changes=changes, workdir=options.work, device="cpu"), Terminal())
    report = evaluate(Eval((NAME,), world, options.work, split="test", resamples=200, device="cpu"), Terminal())
    show_table(report.tables["test/quality"])
    options.out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        copyfile(options.work / CLASSIFIERS / NAME / "seed0" / name, options.out / name)
        print(name, (options.out / name).stat().st_size, "bytes, sha256", sha256_file(options.out / name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and do it."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    for name, value in (("pictures", 2400), ("epochs", 4), ("seed", 7919)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args(arguments)
    return exit_code(lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())
