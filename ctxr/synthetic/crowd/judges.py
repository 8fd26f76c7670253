"""Simulated people who judge whether a picture with its captions entails a sentence, and err as often as they are told to."""

from collections.abc import Mapping

import numpy as np

from ctxr.annotation.tasks import entail
from ctxr.synthetic.crowd.browser import Page
from ctxr.synthetic.crowd.visitor import Visitor
from ctxr.synthetic.world.kinds import Verdict

SAID: Mapping[Verdict, str] = {True: entail.ENTAILMENT, False: entail.CONTRADICTION, None: entail.NEUTRAL}
"""What somebody says who sees that a sentence holds, that it does not, or that it is too close to call."""


class SimulatedJudge(Visitor):
    """Knows of each picture and sentence what is right, and says one of the other answers in a share `wrong` of the cases.

    Args:
        truth: whether a sentence holds, by (image id, sentence); whoever asks for another one gets "cannot be told".
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
        """Look at the picture, read the sentence below its captions, and say what is thought of it."""
        if page.form(entail.FIELD) is None:
            return None
        (image,) = self.images(page).values()
        right = SAID[self._truth.get((image, " ".join(page.quotes[-1].split())))]
        others = [label for label in entail.LABELS if label != right]
        says = str(self._rng.choice(others)) if self._rng.random() < self._wrong else right
        return self.send(page, entail.FIELD, [says])
