"""Write tests/old_project, a small finished project of format 1, anew: `python -m scripts.old_project`.

It is there so that what an earlier version wrote still opens: writing it with a later one defeats that, unless a format is left
behind on purpose. The gallery run, the replies of an endpoint and the answers of a crowd were added later, by hand with the same
early code (`tests/test_old_project.py`): this script does not make them.
`COMMANDS` are also what tests run on it again, to hear that nothing is to be done.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "old_project"

COMMANDS = (
    "build-sets dataset/images -w . --encoder ctxr-tiny --set-size 4",
    "filter -w . --min-size 16",
    "export --to recipe -w . --input filtered",
    "train --recipe clip-zero-shot --dataset benchmark -w . --set encoder=ctxr-tiny",
    "train --recipe blip-module --dataset benchmark -w . --set encoder=random:blip-tiny --set start= --set epochs=1 --set layers=1"
    " --set heads=2 --set inner=8 --set batch=4",
    "eval clip-zero-shot blip-module --dataset benchmark -w . --compare --resamples 20 --permutations 20",
    "train --recipe entailment-tiny --dataset dataset -w . --image-only --set image=random:albef-tiny --set width=32"
    " --set text_layers=1 --set fusion_layers=1 --set epochs=1 --set wanted_precision=0.1",
    "eval entailment-tiny --dataset dataset -w . --resamples 20",
    "revise-labels dataset -w . --entail --by ctxr-tiny --sample 4 --top-k 4",
    "export-tasks entail -w .",
)
"""What makes the project out of its drawn pictures, in its folder."""


def main() -> int:
    """Draw, run, and leave out what is only a cache."""
    shutil.rmtree(TARGET, ignore_errors=True)
    write_captions(
        WorldCaptions(
            TARGET / "dataset", train=4, valid=0, test=6, pair_train=6, pair_valid=4, least=1, most=2, hypotheses=4, texts=2,
            side=32, workers=1,
        )
    )  # fmt: skip
    write_benchmark(WorldBenchmark(TARGET / "benchmark", train=2, valid=1, test=2, targets=10, side=32, workers=1))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for line in COMMANDS:
        subprocess.run([sys.executable, "-m", "ctxr", *shlex.split(line)], cwd=TARGET, env=environment, check=True)
    shutil.rmtree(TARGET / ".ctxr-cache")
    return 0


if __name__ == "__main__":
    sys.exit(main())
