"""Options of `ctxr demo`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """Configuration of `ctxr demo`; a field's text is its help."""

    out: Path = Path("demo")
    """Folder for the drawn world, the artifacts and the report."""
    seed: int = 7
    """Seed of the world; another seed draws another one."""
    videos: int = 7
    """Videos to draw; seven show every format once."""
    seconds: float = 12.0
    """Length of each video."""
    photos: int = 30
    """Photos in each of the two albums."""
    queries: int = 480
    """Drawn queries that the models are trained on; an eighth as many choose the epoch, and a third as many judge."""
    pairs: int = 240
    """Drawn pictures that the entailment classifier learns from; a quarter as many choose epoch and threshold."""
    gallery: int = 60
    """Drawn pictures whose captions are revised, on train and again on test."""
    looks: int = 60
    """Pairs of the revision that simulated people look at; a few more where there are many strata."""
