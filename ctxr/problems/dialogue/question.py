"""The question of dialogues: which photo does one lead to?"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.photo_labels import THEMES, themes_of
from ctxr.engine.report import Table
from ctxr.metrics.compare import RatioColumn
from ctxr.problems.dialogue.chats import chat_view
from ctxr.problems.dialogue.queries import TalkQuery, labels_of, talk_queries
from ctxr.problems.dialogue.recipe import VARIANTS, DialogueRecipe
from ctxr.problems.evaluation import EvalRequest, SplitRows
from ctxr.problems.figures import Columns, Summariser
from ctxr.problems.question import ProblemResults, Question, Subject, View
from ctxr.problems.ranked import RankedEvaluation
from ctxr.problems.runs import Run, scores_turns
from ctxr.problems.talk_tables import dialogue_tables
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN


class DialogueEvaluation(RankedEvaluation[TalkQuery]):
    """Runs on dialogues that lead to a photo."""

    PROBLEM: ClassVar[str] = "dialogue"
    CLUSTERS: ClassVar[str] = "photos"
    SUMMED = (1, 5, 10)

    def __init__(self, request: EvalRequest) -> None:
        self.labels = labels_of(request.dataset)
        super().__init__(request, Dialogues(), talk_queries(request.dataset))

    def flaws(self, rows: Sequence[TalkQuery]) -> dict[str, int]:
        """Dialogues that a model of the sharer's messages cannot tell apart."""
        return {"have no message of who shared the photo": sum(not one.by_sharer for one in rows)}

    def columns(self, split: SplitRows[TalkQuery], run: Run, summary: Summariser) -> Columns:
        """Every measure, of all photos and by their themes."""
        whole, found = super().columns(split, run, summary), list[tuple[tuple[str, str, str], RatioColumn]]()
        shown = [themes_of(self.labels.get(one.query.images[one.query.targets[0]], ())) for one in split.rows]
        for theme in dict.fromkeys(THEMES.values()):
            rows = np.flatnonzero([theme in own for own in shown])
            of_theme = [RatioColumn(rows, column.values[rows], column.weights[rows]) for _, column in whole]
            found += [
                (("theme", theme, key[2]), one) for (key, _), one in zip(whole, of_theme, strict=True) if len(rows)
            ]
        # of columns of one name the last is compared with other runs
        return [*found, *whole]

    def views(
        self, split: SplitRows[TalkQuery], cells: Mapping[tuple[str, str, str, str], str], lacking: str
    ) -> dict[str, Table]:
        """Figures by theme."""
        measures = list(dict.fromkeys(measure for _, view, _, measure in cells if view == "theme"))
        parts = dict.fromkeys((run, part) for run, view, part, _ in cells if view == "theme")
        rows = tuple((*of, *(cells[of[0], "theme", of[1], measure] for measure in measures)) for of in parts)
        note = f"%; a photo counts for each theme of its labels{lacking}"
        return {"themes": Table(f"{split.name}: by theme of the photo", ("run", "theme", *measures), rows, note)}


class Dialogues(Question):
    """Dialogues before a photo, and the photos of their set."""

    LEARNER: ClassVar[str] = "ctxr.problems.dialogue.learner"
    Recipe: ClassVar[type[DialogueRecipe]] = DialogueRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = DialogueEvaluation
    subject: ClassVar[Subject] = Subject(
        text="dialogue",
        sets="galleries of photos with dialogues in which they are shared",
        task="finding the photo that a dialogue leads to",
        similar=False,
    )

    def asks(self, dataset: Dataset) -> bool:
        """Whether it has dialogues."""
        return bool(dataset.payloads.get("dialogues"))

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset has dialogues, or a run was trained on some, and none to tell when a photo is shared."""
        folders = [one.place for one in request.sources if one.place is not None and one.place.is_dir()]
        variants = {str(open_artifact(folder).manifest.config.get("variant")) for folder in folders}
        turns = any(scores_turns(one) for one in request.sources)
        return not turns and (bool(variants & {*VARIANTS}) or super().takes(request))

    def tables(self, dataset: Dataset) -> Mapping[str, Table]:
        """Turns, moments and themes of each split."""
        return dialogue_tables(dataset)

    def view(self, results: ProblemResults) -> View | None:
        """Dialogues as chats."""
        return chat_view(results)
