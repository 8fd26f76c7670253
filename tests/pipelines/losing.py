"""An engine whose workers die at what a job says kills them, and a job of rows with such a picture."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ctxr.engine.units import Job, Results, WorkUnit
from ctxr.problems.embeddings import CachedRows


def run_losing(job: Job[Any], units: Sequence[WorkUnit], workers: int) -> Results[WorkUnit, Any]:
    """What an engine does with a job that `kills` its workers, in this process."""
    for unit in units:
        yield unit, job.lost(unit) if getattr(job, "kills", lambda _: False)(unit) else job(unit)


@dataclass
class PoisonedRows(CachedRows):
    """A picture ends the process that looks at it: the one of this content, which a child process is told by its environment."""

    POISON: ClassVar = "CTXR_TEST_POISON"

    def kills(self, unit: WorkUnit) -> bool:
        return os.environ[self.POISON] in {*unit.stamp} - self.deadly

    def __call__(self, unit: WorkUnit) -> Path:
        if self.kills(unit):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(unit)
