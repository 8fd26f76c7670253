"""The question of intent: after each turn of a dialogue, is a photo shared next?"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import ClassVar

import numpy as np
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.talks import SharedTalk, talks_of
from ctxr.engine.report import Table
from ctxr.errors import UsageError, plural
from ctxr.metrics.compare import RatioColumn, mean_columns
from ctxr.metrics.entailment import best_threshold
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems import notes
from ctxr.problems.evaluation import EvalRequest, SplitRows
from ctxr.problems.figures import Columns, Figure, Measure, Summariser, difference_table, none_had, percent
from ctxr.problems.intent.recipe import HALF, VARIANTS, IntentRecipe
from ctxr.problems.matching import ScoredEvaluation
from ctxr.problems.queries import queries_of
from ctxr.problems.question import Question, find_learner
from ctxr.problems.registry import find_question, problem_of
from ctxr.problems.runs import THRESHOLDS, ModelScores, Run, RunSource, Scoring, find_runs, refuse_twice, scores_turns
from ctxr.problems.turns import TURNS, PredictedTurns
from ctxr.store.artifacts import Content, open_artifact
from ctxr.store.kinds import RUN
from ctxr.store.tables import write_table

LAST = 12
"""The curve has one point for all turns from here on."""

PARTS = {f"{k}": slice(k - 1, k) for k in range(1, LAST)} | {f"{LAST}+": slice(LAST - 1, None), "all": slice(None)}
F1, RIGHT = "F1", "right turn"
HEADS, BOTH = (F1, "precision", "recall", RIGHT), (RIGHT, "right photo", "both")

Rows = SplitRows[SharedTalk]


def as_sets(dataset: Dataset, talks: Sequence[SharedTalk]) -> Dataset:
    """The dataset with a set for each dialogue, whose candidates are the numbers of its turns."""
    old, own = {one.id: one for one in dataset.sets}, [(dataset.queries[one.query], one) for one in talks]
    sets = (structs.replace(old[query.image_set], id=query.id, images=one.numbers) for query, one in own)
    queries = {query.id: structs.replace(query, image_set=query.id) for query, _ in own}
    return replace(dataset, sets=tuple(sets), queries=queries, judgments=())


def measures(called: Flags, asked: Flags) -> dict[Measure, RatioColumn]:
    """By turn and over all, where a run or rule would share after the turns `called` of those that are `asked` [n, T]."""
    rows, found, called = np.arange(len(asked)), dict[Measure, RatioColumn](), called & asked
    due = asked & (asked.cumsum(1) == asked.sum(1, keepdims=True))
    for part, at in PARTS.items():
        hits, said, wanted = (one[:, at].sum(1).astype(float) for one in (called & due, called, due))
        columns = {"precision": (hits, said), "recall": (hits, wanted), F1: (2 * hits, said + wanted)}
        view = "overall" if part == "all" else "position"
        found |= {(view, part, name): RatioColumn(rows, *two) for name, two in columns.items() if two[1].any()}
    right = (called & due).any(1) & (called.sum(1) == 1)
    return found | {("overall", "all", RIGHT): RatioColumn(rows, right.astype(float), np.ones(len(rows)))}


class IntentEvaluation(ScoredEvaluation[Rows]):
    """Runs that score the turns of dialogues, which are their candidates; beside runs that rank photos, also both at once."""

    PROBLEM: ClassVar[str] = "dialogue"  # one section of the report shows turns and photos

    def __init__(self, request: EvalRequest) -> None:
        self.talks, dataset = talks_of(request.dataset), request.dataset
        own = EvalRequest(request.options, request.progress)
        own.path, own.origin, own.dataset = request.path, request.origin, as_sets(dataset, self.talks)
        own.sources = tuple(one for one in request.sources if scores_turns(one))
        if not own.sources:
            names = ", ".join(one.name for one in request.sources)
            raise UsageError(f"{names} score no turns of dialogues", hint="ctxr train --recipe intent-minilm")
        super().__init__(own, Intent())
        by_id, self.rows = {one.query: one for one in self.talks}, list[PredictedTurns]()
        known = {one.name: [by_id[name] for name in one.queries if name not in one.lacking] for one in self.match()}
        self.request, self.splits = request, [SplitRows(name, rows) for name, rows in known.items() if rows]
        self.notes += notes.first_notes(self)
        self.photos = self.photo_runs([one for one in request.sources if one not in own.sources])
        self.thresholds = {scorer.name: self.threshold(run, scorer) for run in self.runs for scorer in run.scorers}
        self.longest, self.right = max(len(one.texts) for one in self.talks), dict[tuple[str, str], Doubles]()
        if lost := len(dataset.payloads["dialogues"]) - len(self.talks):
            self.notes.append(f"{plural(lost, 'dialogue', form=',')} without a photo, or a turn before it, left out")

    def asked(self, rows: Sequence[SharedTalk]) -> Flags:
        """[n, T] the turns that dialogues have."""
        return np.arange(self.longest) < np.array([len(one.texts) for one in rows])[:, None]

    def threshold(self, run: Run, scorer: ModelScores) -> float:
        """What a trained scorer chose on valid; of a file the best on its scores of valid, else a half."""
        if run.artifact is not None:
            kept = {name.rpartition("/")[2]: value for name, value in run.artifact.manifest.counts[THRESHOLDS].items()}
            return float(kept.get(scorer.name.rpartition("/")[2], next(iter(kept.values()))))
        valid = [one for one in self.talks if one.split == "valid" and one.query in scorer.values]
        turns = [(one, turn) for one in valid for turn in one.numbers if turn in scorer.values[one.query]]
        found, why = HALF, "as nothing of valid is scored"
        if turns:
            due = np.array([turn == one.numbers[-1] for one, turn in turns])
            found = best_threshold(due, np.array([scorer.values[one.query][turn] for one, turn in turns]))[0]
            why = "which has the highest F1 on valid"
        self.notes.append(f"{scorer.name} shares from {found:.3g} on, {why}")
        return found

    def photo_runs(self, sources: Sequence[RunSource]) -> list[Run]:
        """Runs that rank photos of the same dialogues. Raises UsageError for one of another problem."""
        general, runs, request = problem_of({}), list[Run](), self.request
        ranks = find_question("dialogue")
        queries = [one.query for split in self.splits for one in split.rows]
        for source in sources:
            folder = source.place if source.place is not None and source.place.is_dir() else None
            asks = problem_of(open_artifact(folder).manifest.config) if folder else ranks
            if type(asks) not in {type(ranks), type(general)}:
                raise UsageError(f"{source.name} does not rank photos of dialogues", hint="leave it out")
            learner = partial(find_learner, asks)
            scoring = Scoring(request.dataset, request.origin, queries, request.scoring, self.progress, learner)
            runs += find_runs([source], scoring)
        refuse_twice([*self.runs, *runs], "rename one of the files, or give its rows another scorer")
        return runs

    def columns(self, split: Rows, run: Run, summary: Summariser) -> Columns:
        """Precision, recall and F1 by turn and over all, and how often a run would first share at the right turn."""
        asked, seeds = self.asked(split.rows), []
        for scorer in run.scorers:
            called, threshold = np.zeros(asked.shape, bool), self.thresholds[scorer.name]
            for row, one in enumerate(split.rows):
                values = tuple(scorer.values[one.query][turn] for turn in one.numbers)
                called[row, : len(values)] = np.array(values) >= threshold
                first = int(called[row].argmax()) + 1 if called[row].any() else None
                self.rows.append(PredictedTurns(scorer.name, one.query, split.name, values, threshold, first))
            seeds.append(measures(called, asked))
        shared = [key for key in seeds[0] if all(key in one for one in seeds)]
        columns = mean_columns([{key: one[key] for key in shared} for one in seeds])
        self.right[split.name, run.name] = columns["overall", "all", RIGHT].values
        return [*columns.items()]

    def constants(self, split: Rows) -> dict[str, Columns]:
        """Sharing after every turn, and the best of `rules` on the number of the turn."""
        turns, valid = np.arange(1, self.longest + 1), [one for one in self.talks if one.split == "valid"]
        rules = {"always": turns > 0} | {f"from turn {k} on": turns >= k for k in turns[1:]}
        rules |= {f"at turn {k}": turns == k for k in turns}
        asked = self.asked(valid or split.rows)
        best = max(rules, key=lambda name: measures(rules[name], asked)["overall", "all", F1].figure or 0)
        self.findings.notes.append(
            f"{split.name}: of all rules on numbers of turns {best!r} has the highest F1 on {'valid' if valid else split.name}"
        )
        return {
            name: [*measures(rules[name], self.asked(split.rows)).items()] for name in dict.fromkeys(("always", best))
        }

    def both(self, split: Rows, run: Run, photos: Run) -> Columns:
        """Right turns, photos that are ranked first, ties shared, and both, of the dialogues whose photos are all scored."""
        found = dict[int, float]()
        for row, one in enumerate(queries_of(self.request.dataset, [one.query for one in split.rows])):
            values = [[own.values.get(one.query, {}).get(image, nan) for image in one.images] for own in photos.scorers]
            best = np.array(values) == np.max(values, 1, keepdims=True)
            if one.targets and best.any(1).all():
                found[row] = float((best[:, one.targets].sum(1) / best.sum(1)).mean())
        rows, photo = np.array([*found], np.int64), np.array([*found.values()])
        turn = self.right[split.name, run.name][rows]
        each = zip(BOTH, (turn, photo, turn * photo), strict=True)
        return [(("overall", "all", name), RatioColumn(rows, own, np.ones(len(rows)))) for name, own in each]

    def complete(self, split: Rows, figures: list[Figure], summary: Summariser) -> None:
        """Runs beside constant rules, by turn, and with each run that ranks photos."""
        name, findings, rules = split.name, self.findings, self.constants(split)
        pairs = {f"{run.name} + {own.name}": self.both(split, run, own) for run in self.runs for own in self.photos}
        pairs = {pair: columns for pair, columns in pairs.items() if len(columns[0][1].rows)}
        findings.figures += (more := summary.figures(rules | pairs))
        cells = {(one.run, one.part, one.measure): percent(one.interval) for one in (*figures, *more)}

        def cell(run: str, part: str, measure: str) -> str:
            return cells.get((run, part, measure), "–")

        asked, runs = self.asked(split.rows), [*self.names, *rules]
        shown = [(run, *(cell(run, "all", head) for head in HEADS)) for run in runs]
        parts = [part for part, at in PARTS.items() if part != "all" and asked[:, at].any()]
        curve = [(part, cell("always", part, "precision"), *(cell(run, part, F1) for run in runs)) for part in parts]
        paired = [(pair, *(cell(pair, "all", head) for head in BOTH)) for pair in pairs]
        drawn = f"%; in brackets {100 * LEVEL:g} % over dialogues drawn again{none_had([one.interval for one in more])}"
        note = (
            f"{drawn}; of {int(asked.sum()) - len(asked):,} turns before another one and {len(asked):,} before the photo; {RIGHT}: "
            "dialogues where it is the first at which a run would share"
        )
        tables = {
            "turns": Table(f"{name}: is a photo shared next?", ("run", *HEADS), tuple(shown), note),
            "position": Table(f"{name}: F1 by turn", ("turn", "photo next", *runs), tuple(curve), drawn),
            "both": Table(f"{name}: right photo at the right turn", ("runs", *BOTH), tuple(paired), drawn),
            "differences": difference_table(name, findings.differences, "dialogues"),
        }
        findings.tables |= {f"{name}/{key}": table for key, table in tables.items() if table and table.rows}

    def finish(self) -> None:
        """With the tables."""
        super().finish()
        self.findings.rows["tables"] = list(self.findings.tables.values())

    def write(self, out: Path) -> Content:
        """With the turns of each dialogue."""
        content = super().write(out)
        write_table(out / TURNS, self.rows)
        return content._replace(files=[*content.files, TURNS])


class Intent(Question):
    """Dialogues, turn by turn."""

    LEARNER: ClassVar[str] = "ctxr.problems.intent.learner"
    Recipe: ClassVar[type[IntentRecipe]] = IntentRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = IntentEvaluation

    def takes(self, request: EvalRequest) -> bool:
        """Whether a run scores turns."""
        return any(scores_turns(one) for one in request.sources)
