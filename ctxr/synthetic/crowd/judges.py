"""Simulated workers who judge whether an image with its captions entails a sentence, with a given error rate."""

from collections.abc import Mapping

import numpy as np

from ctxr.annotation.tasks import entail
from ctxr.synthetic.crowd.browser import Page
from ctxr.synthetic.crowd.visitor import Visitor
from ctxr.synthetic.world.kinds import Verdict

SAID: Mapping[Verdict, str] = {True: entail.ENTAILMENT, False: entail.CONTRADICTION, None: entail.NEUTRAL}
"""The label of a true, a false, and an undecidable sentence."""


class SimulatedJudge(Visitor):
    """Gives the true label, and a wrong one with probability `wrong`.

    Args:
        truth: whether a sentence holds, by (image id, sentence); other pairs are "cannot be told".
    """

    def __init__(
        self,
        name: str,
        link: str,
        pictures: Mapping[str, str],
        truth: Mapping[tuple[str, str], Verdict],
        wrong: float,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(name, link, pictures, rng)
        self._truth, self._wrong = truth, wrong

    def answer(self, page: Page) -> Page | None:
        """Judge the sentence below the captions of the image."""
        if page.form(entail.FIELD) is None:
            return None
        (image,) = self.images(page).values()
        right = SAID[self._truth.get((image, " ".join(page.quotes[-1].split())))]
        others = [label for label in entail.LABELS if label != right]
        says = str(self._rng.choice(others)) if self._rng.random() < self._wrong else right
        return self.send(page, entail.FIELD, [says])
