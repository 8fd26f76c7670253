"""Let simulated people do the tasks of a project about drawn clips: `python -m scripts.rehearse_crowd FOLDER` (docs/tutorial.md).

They open the pages of `ctxr serve` as people do. FOLDER is that of `python -m scripts.draw_clips`, from which they know what is true.
"""

import sys
from pathlib import Path

import numpy as np

from ctxr.annotation.tasks import retrieve
from ctxr.datasets.open import read_dataset
from ctxr.synthetic.crowd import CAREFUL, Page, Person, SimulatedTruth, image_ids, served, work_in_turns
from scripts.draw_clips import draw_clips
from scripts.ending import exit_code

PEOPLE, SEED = 30, 7
RIGHT = 0.85
"""Share of descriptions whose image each of them finds."""


class Colleague(Person):
    """Describes images truly, and mostly finds what others described."""

    def answer(self, page: Page) -> Page | None:
        """Find, or describe; whichever the page asks for."""
        if page.form(retrieve.FIELD) is None:
            return super().answer(page)
        keys = {image: address.rpartition("/")[2] for address, image in self.images(page).items()}
        target = self._truth.written[" ".join(page.quotes[0].split())].target
        others = [image for image in keys if image != target]
        picked = target if self._rng.random() < RIGHT else str(self._rng.choice(others))
        return self.send(page, retrieve.FIELD, [keys[picked]])


def main() -> None:
    """Work until nothing is left to do, and say how much that was."""
    dataset = read_dataset(Path("work/filtered"))
    truth = SimulatedTruth(draw_clips(Path(sys.argv[1])), dataset, image_ids(dataset))
    with served(Path("work"), PEOPLE) as opened:
        people = [
            Colleague(name, CAREFUL, link, truth, np.random.default_rng((SEED, number)))
            for number, (name, link) in enumerate(opened.links.items())
        ]
        answers = work_in_turns(people, lambda _: None)
    print(f"{answers} answers by {PEOPLE} simulated people")


if __name__ == "__main__":
    sys.exit(exit_code(main))
