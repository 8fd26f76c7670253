"""What docstrings show is what comes out; each example runs here, and only here."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ROOT / "bench" / "out"
"""What benchmarks write, and packages of others that they compare with."""

FILES = [
    file
    for room in ("ctxr", "scripts", "bench")
    for file in sorted((ROOT / room).rglob("*.py"))
    if not file.is_relative_to(INSTALLED)
]
EXAMPLES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): count
    for file in FILES
    if (count := sum(line.lstrip().startswith(">>> ") for line in file.read_text().splitlines()))
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs_and_comes_out_as_it_is_written(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)) == doctest.TestResults(0, EXAMPLES[name])
