"""How models are trained and opened that answer about sets of images."""

from pathlib import Path
from typing import ClassVar

from ctxr.engine.progress import Progress
from ctxr.problems import OpenRun, ScoringOptions
from ctxr.problems.scoring import open_run
from ctxr.store.kinds import RUN, RUNS


class ContextualLearner:
    """Trained runs and published encoders."""

    KIND: ClassVar[str] = RUN
    FOLDER: ClassVar[str] = RUNS

    def open_run(self, source: Path | str, options: ScoringOptions, progress: Progress) -> OpenRun:
        """See `Learner`."""
        return open_run(source, options, progress)
