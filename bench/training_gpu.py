"""Fine-tuning on a GPU: images per second in bf16, and which share of what the device can multiply that is.

Both are measured in one run: what a step multiplies is counted while it runs, forward and backward, and divided by its time;
the rate of the device is that of one large product of matrices. Pictures come as bytes from memory, as they do in a training.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.table import Row
from ctxr.models.encoders import EncoderSource, find_source
from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import ClipScorer, trainable
from ctxr.models.training.examples import ExampleTable, PixelTable
from ctxr.models.training.loop import Trainer, TrainingRun
from ctxr.problems.contextual.learner import ContextualObjective
from ctxr.problems.contextual.recipe import ContextualRecipe

ENCODER = "random:ViT-B-16"
WANTED = 0.4
"""Share of the device's measured rate that a training should reach."""


def measure(device: str = "cuda", name: str = ENCODER, sets: int = 36, steps: int = 20, side: int = 8192) -> list[Row]:
    """One row for the step of `sets` descriptions, each with ten images of its own; none where there is no GPU.

    Args:
        device: "cuda", or "cpu" to see that it runs. name: of the encoder. steps: that are timed.
        side: of the square matrices by which the rate of the device is measured.
    """
    if device == "cuda" and not torch.cuda.is_available():
        return []
    source = find_source(name, lambda _: None)
    rate = matmul_rate(device, side)
    with TemporaryDirectory() as folder:
        recipe = ContextualRecipe(variant="batch", lr=4e-6, batch=sets, epochs=1, patience=0)
        scorer = ClipScorer(trainable(source.build)).to(device)
        questions = _questions(source, device, sets)
        run = TrainingRun(Path(folder), device=device, bf16=True)
        trainer = Trainer(scorer, ContextualObjective(recipe, questions, None, run))
        rows = torch.arange(sets)
        with FlopCounterMode(display=False) as counter:
            trainer.update(rows, recipe.lr)
        trainer.update(rows, recipe.lr)
        seconds = _seconds(lambda: trainer.update(rows, recipe.lr), device, steps)
    share = counter.get_total_flops() / seconds / rate
    return [
        Row(
            figure=f"a step of fine-tuning {name} in bf16 on {device}: {sets} descriptions, {10 * sets} images",
            seconds=seconds,
            target=f">= {WANTED:.0%} of the device's rate",
            met=share >= WANTED,
            note=f"{10 * sets / seconds:,.0f} images a second; {share:.1%} of {rate / 1e12:,.3g} TFLOP/s measured; "
            f"{counter.get_total_flops() / 1e12:,.3g} TFLOP a step",
        )
    ]


def matmul_rate(device: str, side: int, repeat: int = 10) -> float:
    """Multiplications and additions a second in one bf16 product of two matrices of `side`."""
    one, other = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        one @ other
    return 2 * side**3 / _seconds(lambda: one @ other, device, repeat)


def _seconds(call: Callable[[], object], device: str, repeat: int) -> float:
    """Mean seconds of a call, the device waited for at both ends."""
    _wait(device)
    start = perf_counter()
    for _ in range(repeat):
        call()
    _wait(device)
    return (perf_counter() - start) / repeat


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _questions(source: EncoderSource, device: str, sets: int) -> ExampleTable:
    """One description for each set of ten pictures of noise."""
    preprocess = Preprocess.from_config(source.build().visual.preprocess_cfg)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (10 * sets, 3, *preprocess.size), np.uint8)
    texts = [
        " ".join(rng.choice(("red", "circle", "behind", "a", "small", "dog", "left", "of"), 23)) for _ in range(sets)
    ]
    return ExampleTable(
        PixelTable([pixels], preprocess, device),
        source.tokenize(texts),
        candidates=torch.arange(10 * sets).view(sets, 10),
        mask=torch.ones(sets, 10, dtype=torch.bool),
        ordered=torch.zeros(sets, dtype=torch.bool),
        targets=torch.from_numpy(np.arange(10) == rng.integers(0, 10, (sets, 1))),
        sets=torch.arange(sets),
    )
