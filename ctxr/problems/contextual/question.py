"""The contextual question: which image of a set does a text mean?"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ctxr.store.kinds import RUN


class Contextual:
    """Sets of similar images."""

    NAME: ClassVar[str] = "contextual"
    LEARNER: ClassVar[str] = "ctxr.problems.contextual.learner:ContextualLearner"

    def owns(self, kind: str, config: Mapping[str, Any]) -> bool:
        """Every other run."""
        return kind == RUN
