"""Let simulated people judge all exported pairs of a project over HTTP: `python -m scripts.rehearse_audit PROJECT`.

The project holds a dataset of `scripts.world_captions`, whose truth they know.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ctxr.annotation.tasks import entail
from ctxr.datasets.open import read_dataset
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import Progress, Silent
from ctxr.store.records import Text
from ctxr.store.tables import read_table
from ctxr.synthetic.crowd import Page, Visitor, image_ids, served, work_in_turns
from ctxr.synthetic.world.predicates import Verdict

PEOPLE = 3
"""Who come: each pair is judged by as many."""

WRONG = 0.05
"""Share of answers in which each of them errs."""

SAID: Mapping[Verdict, str] = {True: entail.ENTAILMENT, False: entail.CONTRADICTION, None: entail.NEUTRAL}
"""The label of a true, a false, and an undecidable sentence."""


class SimulatedJudge(Visitor):
    """Gives the true label, and a wrong one with probability `WRONG`.

    Args:
        truth: whether a sentence holds, by (image id, sentence); other pairs are "cannot be told".
    """

    def __init__(
        self,
        name: str,
        link: str,
        pictures: Mapping[str, str],
        truth: Mapping[tuple[str, str], Verdict],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(name, link, pictures, rng)
        self._truth = truth

    def answer(self, page: Page) -> Page | None:
        """Judge the sentence that stands above the captions of the image."""
        if page.form(entail.FIELD) is None:
            return None
        (image,) = self.images(page).values()
        correct = SAID[self._truth.get((image, " ".join(page.quotes[0].split())))]
        others = [label for label in entail.LABELS if label != correct]
        says = str(self._rng.choice(others)) if self._rng.random() < WRONG else correct
        return self.send(page, entail.FIELD, [says])


def rehearse_audit(workdir: Path, dataset: Path, seed: int, progress: Progress) -> int:
    """Let people judge all exported pairs of a project over HTTP; returns how many answers they gave.

    Args:
        dataset: of `world_captions`, whose truth they know.

    Raises CtxrError when the server cannot be started.
    """
    pictures, truth = image_ids(read_dataset(dataset)), truth_of(dataset)
    with served(workdir, PEOPLE) as opened:
        people = [
            SimulatedJudge(name, link, pictures, truth, np.random.default_rng((seed, number)))
            for number, (name, link) in enumerate(opened.links.items())
        ]
        with progress.task("answers", PEOPLE * opened.waiting.get("entail", 0)) as task:
            answers = work_in_turns(people, task.advance)
    return answers


def truth_of(dataset: Path) -> dict[tuple[str, str], Verdict]:
    """Of each picture and caption of a drawn dataset, by (image id, text), whether the caption holds."""
    texts = {row.id: " ".join(row.text.split()) for row in read_table(dataset / "texts.jsonl", Text)}
    rows = read_table(dataset / "truth.jsonl", CaptionTruth)
    images: dict[str, set[str]] = {}
    for row in rows:
        images.setdefault(row.gallery, set()).add(row.image)
    verdicts: dict[tuple[str, str], Verdict] = {}
    # a text may be that of several captions: the later of these loops decide
    for row in rows:
        verdicts |= {(image, texts[row.caption]): False for image in images[row.gallery]}
    for row in rows:
        verdicts |= {(image, texts[row.caption]): None for image in row.doubtful}
        verdicts |= {(image, texts[row.caption]): True for image in row.holds}
    return verdicts


if __name__ == "__main__":
    project = Path(sys.argv[1])
    rehearse_audit(project, project / "dataset", 7, Silent())
