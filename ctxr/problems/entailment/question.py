"""The question of entailment: does an image with its premise entail a text?"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ctxr.store.kinds import CLASSIFIER


class Entailment:
    """Pairs of a premise and a text."""

    NAME: ClassVar[str] = "entailment"
    LEARNER: ClassVar[str] = "ctxr.problems.entailment.learner:EntailmentLearner"

    def owns(self, kind: str, config: Mapping[str, Any]) -> bool:
        """Classifiers."""
        return kind == CLASSIFIER or config.get("variant") == "entailment"
