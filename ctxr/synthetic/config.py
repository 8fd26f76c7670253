"""Options of `ctxr demo`."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ctxr.engine.options import Options, Range, Seed

Count = Annotated[int, Range(0, math.inf, "a whole number, 0 or more")]


@dataclass(frozen=True)
class Demo(Options):
    """Options of `ctxr demo`; a field's text is its help."""

    COMMAND: ClassVar[str] = "demo"

    out: Path = Path("demo")
    """Folder for the drawn world, the artifacts and the report."""
    seed: Seed = 7
    """Seed of the world."""
    videos: Count = 7
    """Videos to draw; seven cover every format once."""
    seconds: Annotated[float, Range(0, math.inf, "seconds above 0", above=True)] = 6.0
    """Length of each video."""
    photos: Count = 30
    """Photos in each of the two albums."""
    queries: Annotated[int, Range(24, math.inf, "at least 24, enough to evaluate")] = 240
    """Descriptions to draw on which the bundled encoder is tested."""
    pairs: Annotated[int, Range(8, math.inf, "at least 8, enough to train on")] = 240
    """Training images of the entailment classifier to draw; a quarter as many choose epoch and threshold."""
    gallery: Annotated[int, Range(24, math.inf, "at least 24, enough to evaluate")] = 60
    """Images to draw on which the classifier is tested."""

    @property
    def workdir(self) -> Path:
        """The project that the demo makes."""
        return self.out / "work"
