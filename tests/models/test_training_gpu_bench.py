"""The GPU's row of `make bench` runs its whole path, here on a CPU and small: nobody may find out on the GPU."""

import torch

from bench.training_gpu import matmul_rate, measure


def test_the_row_of_the_gpu_is_made_on_any_device() -> None:
    (row,) = measure("cpu", "ctxr-tiny", sets=1, steps=1, side=64)
    assert row.seconds > 0
    assert row.met is not None
    assert "10 images" in row.figure
    assert "images a second" in row.note
    assert len(measure("cuda", "ctxr-tiny", sets=1, steps=1, side=64)) == int(torch.cuda.is_available())
    assert 1e6 < matmul_rate("cpu", 64, 2) < 1e16
