"""Options of `ctxr demo`."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ctxr.engine.options import Options, Range, Seed


@dataclass(frozen=True)
class Demo(Options):
    """Options of `ctxr demo`; a field's text is its help."""

    COMMAND: ClassVar[str] = "demo"

    out: Path = Path("demo")
    """Folder for the drawn world, the artifacts and the report."""
    seed: Seed = 7
    """Seed of the world."""
    videos: int = 7
    """Videos to draw; seven cover every format once."""
    seconds: float = 12.0
    """Length of each video."""
    photos: int = 30
    """Photos in each of the two albums."""
    queries: Annotated[int, Range(24, math.inf, "at least 24, enough to train and evaluate")] = 480
    """Training queries to draw; an eighth as many for validation, and a third as many for testing."""
    pairs: Annotated[int, Range(8, math.inf, "at least 8, enough to revise labels")] = 240
    """Training images of the entailment classifier to draw; a quarter as many choose epoch and threshold."""
    gallery: Annotated[int, Range(24, math.inf, "at least 24, enough to revise labels")] = 60
    """Images whose captions are revised, on train and again on test."""
    looks: Annotated[int, Range(1, math.inf, "at least 1")] = 60
    """Pairs of the revision that simulated people audit; a few more if there are many strata."""
