"""The five variants on a drawn benchmark, one after another, in one table: `python -m scripts.context_proof FOLDER [--seeds N]`.

It draws the benchmark, trains fine-tuning without context, + ContextBatch, + ContextModule and + TemporalEmbeddings over ctxr-tiny,
scores it as it is, puts all five in one table, compares each with the one before it on the test side, and says how long it took.
"""

import sys
import time
from argparse import ArgumentParser
from pathlib import Path

from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.train import run as train
from ctxr.store.artifacts import open_artifact
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark

TUNED = ("lr=5e-4", "batch=72", "epochs=2", "schedule=cosine", "warmup=0.1", "precision=bf16")
HEADS = (
    "lr=1e-3", "weight_decay=0.01", "batch=72", "epochs=3", "schedule=cosine", "warmup=0.1", "layers=1", "inner=64",
    "start=batch", "start_at_cosine=true",
)  # fmt: skip
VARIANTS = {
    "zero-shot": (),
    "none": (*TUNED, "shared_distractors=true"),
    "batch": TUNED,
    "module": HEADS,
    "temporal": HEADS,
}
"""What a drawn world needs otherwise than photographs: the encoder is small and far from what it is tuned for, and a head over
vectors that were fitted to the same queries learns little unless they are many and were seen once or twice (docs/experiments.md)."""

STEPS = (("zero-shot", "none"), ("none", "batch"), ("batch", "module"), ("module", "temporal"))


def main(arguments: list[str]) -> int:
    """Print the tables; 0 when everything was trained."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--valid", type=int, default=500)
    parser.add_argument("--test", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.monotonic()

    def told(what: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {what}", flush=True)

    try:
        drawn = WorldBenchmark(options.folder / "dataset", options.train, options.valid, options.test, targets=10)
        write_benchmark(drawn, Silent())
        counts = open_artifact(drawn.out).manifest.counts
        told(f"drawn: {counts}")
        for name, changes in VARIANTS.items():
            changed = ("encoder=ctxr-tiny", *changes)
            report = train(
                Train(f"clip-{name}", drawn.out, name, seeds=options.seeds, changes=changed, workdir=options.folder)
            )
            told(f"{name}: valid {report.valid:.1%}, test {report.test:.1%}, {report.seeds}")
        whole = options.folder / "results" / "all"
        evaluate(Eval(tuple(VARIANTS), drawn.out, options.folder, whole, split="test"), Silent())
        print((whole / "results.md").read_text(encoding="utf-8"))
        for pair in STEPS:
            out = options.folder / "results" / "-".join(pair)
            evaluate(Eval(pair, drawn.out, options.folder, out, split="test", compare=True), Silent())
            print((out / "results.md").read_text(encoding="utf-8"))
        told("all")
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
