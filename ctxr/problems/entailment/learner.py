"""How models are trained and opened that answer about entailment."""

from pathlib import Path
from typing import ClassVar

from ctxr.engine.progress import Progress
from ctxr.problems import OpenRun, ScoringOptions
from ctxr.problems.entailment.classifiers import open_run
from ctxr.store.kinds import CLASSIFIER, CLASSIFIERS


class EntailmentLearner:
    """Trained runs and published encoders."""

    KIND: ClassVar[str] = CLASSIFIER
    FOLDER: ClassVar[str] = CLASSIFIERS

    def open_run(self, source: Path | str, options: ScoringOptions, progress: Progress) -> OpenRun:
        """See `Learner`."""
        return open_run(source, options, progress)
