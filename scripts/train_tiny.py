"""Train ctxr-tiny on the toy world, judge it on scenes it has not seen, and write it in open_clip's local-dir format.

    python -m scripts.train_tiny --out ctxr/models/weights/ctxr-tiny --steps 1500

The same seed and number of steps give the same weights, bit for bit, on one machine.
"""

import argparse
import hashlib
import json
import logging
import math
import time
from pathlib import Path

import torch
from open_clip.tokenizer import SimpleTokenizer
from safetensors.torch import save_file

from scripts.tiny_judge import accuracy_in_sets, calibrate, retrieval
from scripts.tiny_learner import MODEL, PREPROCESS, SIZE, Batches, Learner, tokenized
from scripts.tiny_pool import make_pool

TEXTS = 6
SAID = 3  # of them are read at each step


def train(steps: int, minutes: float, count: int, seed: int, told: int, *, rate: float) -> Learner:
    """A trained learner.

    Args:
        steps: how many; with 0 as many as `minutes` of wall-clock time allow.
        minutes: see above.
        count: pictures to draw beforehand.
        seed: of pictures, batches and first weights.
        told: captioned pictures in a batch.
        rate: highest learning rate; it rises over the first steps and falls along a cosine.
    """
    start = time.monotonic()
    pool = make_pool(seed, SIZE, count, TEXTS)
    photos = make_pool(seed, SIZE, max(2, count // 8), 0)
    tokenize = SimpleTokenizer(context_length=MODEL["text_cfg"]["context_length"])  # type: ignore[index]
    generator = torch.Generator().manual_seed(seed)
    source = Batches(pool, photos, tokenized(pool.texts, tokenize), generator, told, said=SAID)
    torch.manual_seed(seed)  # open_clip draws its first weights from the global generator
    learner = Learner(rate)
    print(
        f"{len(pool.pictures)} pictures with {TEXTS} captions each drawn in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    start = time.monotonic()
    done, sums = 0, dict.fromkeys(("contrast", "match"), 0.0)
    while True:
        share = done / steps if steps else (time.monotonic() - start) / (60 * minutes)
        if share >= 1:
            return learner
        now = rate * min(1.0, (done + 1) / 60) * 0.5 * (1 + math.cos(math.pi * share))
        losses = learner.step(source.draw(), now, generator)
        done += 1
        sums = {name: sums[name] + value for name, value in losses.items()}
        if done % 50 == 0:
            means = "  ".join(f"{name} {total / 50:.3f}" for name, total in sums.items())
            print(f"step {done}  {time.monotonic() - start:.0f} s  {share:.0%}  {means}", flush=True)
            sums = dict.fromkeys(sums, 0.0)


def write(learner: Learner, out: Path) -> None:
    """The folder that open_clip loads."""
    out.mkdir(parents=True, exist_ok=True)
    config = {"model_cfg": MODEL, "preprocess_cfg": {"size": SIZE, "mode": "RGB", **PREPROCESS}}
    (out / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = out / "open_clip_model.safetensors"
    save_file(learner.weights(), weights, metadata={"format": "pt"})
    weights.chmod(0o644)


def judge(out: Path, seed: int) -> None:
    """Print the held-out figures and write the calibrated threshold beside the weights."""
    from ctxr.models.encoders import load_encoder

    (out / "ctxr.json").unlink(missing_ok=True)
    encoder = load_encoder(f"local-dir:{out}", device="cpu")
    for figure, value in (retrieval(encoder, seed) | accuracy_in_sets(encoder, seed)).items():
        print(f"{figure}: {value:.1%}")
    notes = calibrate(encoder, seed)
    (out / "ctxr.json").write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(notes, indent=2))
    for path in sorted(out.iterdir()):
        print(path.name, path.stat().st_size, "bytes, sha256", hashlib.sha256(path.read_bytes()).hexdigest())


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=0, help="training steps; 0: as many as --minutes allow")
    parser.add_argument("--minutes", type=float, default=20.0, help="wall-clock minutes of training if --steps is 0")
    parser.add_argument("--pictures", type=int, default=60_000, help="pictures drawn beforehand")
    parser.add_argument("--batch", type=int, default=224, help="captioned pictures in a batch")
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn by chance")
    parser.add_argument("--judge", action="store_true", help="train nothing: judge and calibrate what is in --out")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    torch.set_num_threads(1)  # a second thread reads the captions
    torch.set_float32_matmul_precision("medium")
    if not given.judge:
        write(train(given.steps, given.minutes, given.pictures, given.seed, given.batch, rate=given.rate), given.out)
    judge(given.out, given.seed)


if __name__ == "__main__":
    main()
