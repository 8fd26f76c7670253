"""The question of galleries: pictures and captions retrieve each other."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ctxr.store.kinds import RUN


class Gallery:
    """Galleries of photos."""

    NAME: ClassVar[str] = "gallery"
    LEARNER: ClassVar[str] = "ctxr.problems.gallery.learner:GalleryLearner"

    def owns(self, kind: str, config: Mapping[str, Any]) -> bool:
        """Runs whose batches were their own galleries."""
        return kind == RUN and config.get("variant") == "in-batch"
