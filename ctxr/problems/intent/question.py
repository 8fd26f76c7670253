"""The question of intent: after each turn of a dialogue, is a photo shared next?"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from ctxr.datasets.dialogues import SharedDialogue, dialogues_of
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
from ctxr.problems.own_model import ARRAY
from ctxr.problems.question import Question
from ctxr.problems.results import TURNS, PredictedTurns
from ctxr.problems.runs import ModelScores, Run, RunSource, refuse_twice, scorers_in
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN
from ctxr.store.scores import read_scores
from ctxr.store.tables import encode_row

LAST = 12
"""The curve has one point for all turns from here on."""

PARTS = {f"{k}": slice(k - 1, k) for k in range(1, LAST)} | {f"{LAST}+": slice(LAST - 1, None), "all": slice(None)}
F1, RIGHT = "F1", "right turn"
HEADS, BOTH = (F1, "precision", "recall", RIGHT), (RIGHT, "right photo", "both")


def scores_turns(request: EvalRequest, run: RunSource) -> bool:
    """Whether a run learned to score turns, or is a file of numbers that are no images. Raises what `read_scores` raises."""
    if run.place is None or run.place.is_dir():
        return run.place is not None and open_artifact(run.place).manifest.config.get("variant") in VARIANTS
    if run.place.suffix.lower() == ARRAY:  # of images
        return False
    names = {name for one in read_scores(run.place).values() for row in one.values.values() for name in row}
    return all(map(str.isdecimal, names)) and names.isdisjoint(request.dataset.images)


def measures(called: Flags, asked: Flags) -> dict[Measure, RatioColumn]:
    """By turn and over all, where a run or rule would share after the turns `called` of those that are `asked` [n, T]."""
    rows, found, called = np.arange(len(asked)), dict[Measure, RatioColumn](), called & asked
    due = asked & (asked.cumsum(1) == asked.sum(1, keepdims=True))
    for part, at in PARTS.items():
        hits, said, wanted = (one[:, at].sum(1).astype(float) for one in (called & due, called, due))
        view = "overall" if part == "all" else "position"
        columns = {"precision": (hits, said), "recall": (hits, wanted), F1: (2 * hits, said + wanted)}
        found |= {(view, part, name): RatioColumn(rows, *two) for name, two in columns.items()}
    right = (called & due).any(1) & (called.sum(1) == 1)
    return found | {("overall", "all", RIGHT): RatioColumn(rows, right.astype(float), np.ones(len(rows)))}


def defined(columns: Mapping[Measure, RatioColumn]) -> Columns:
    """Those with a figure: where a run would never share, it has no precision."""
    return [(measure, column) for measure, column in columns.items() if column.weights.any()]


class IntentEvaluation(ScoredEvaluation[SplitRows[SharedDialogue]]):
    """Runs that score the turns of dialogues, which are their candidates; beside runs that rank photos, also both at once."""

    PROBLEM: ClassVar[str] = "dialogue"  # one section of the report shows turns and photos
    HEADLINE = (
        (F1, None, "F-measure of the turns after which a photo is shared"),
        (RIGHT, None, "share of dialogues in which a run would first share at that turn"),
    )

    def __init__(self, request: EvalRequest) -> None:
        dataset, turns, photos = request.dataset, copy(request), copy(request)
        turns.sources = tuple(one for one in request.sources if scores_turns(request, one))
        photos.sources = tuple(one for one in request.sources if one not in turns.sources)
        if request.options.nothing_fits:
            what = "--nothing-fits needs rankings, and intent makes none"
            raise UsageError(what, hint="evaluate the runs that rank photos by themselves")
        if not turns.sources:
            names = ", ".join(one.name for one in photos.sources)
            raise UsageError(f"{names} score no turns of dialogues", hint="ctxr train --recipe intent-minilm")
        self.talks, homes = dialogues_of(dataset), {one.id: one for one in dataset.sets}
        by_id, asked = {one.query: one for one in self.talks}, [dataset.queries[one.query] for one in self.talks]
        queries = {one.id: structs.replace(one, image_set=one.id) for one in asked}
        sets = (structs.replace(homes[one.image_set], id=one.id, images=by_id[one.id].numbers) for one in asked)
        turns.dataset = replace(dataset, sets=tuple(sets), queries=queries)
        self.photos: list[Any] = []
        super().__init__(turns, Intent())
        self.photos += [request.beside(photos)] if request.beside and photos.sources else []
        every = [*self.runs, *(run for one in self.photos for run in one.runs)]
        refuse_twice(every, "rename one of the files, or give its rows another scorer")
        known = {one.name: [by_id[name] for name in one.queries if name not in one.lacking] for one in self.match()}
        self.request, self.splits = request, [SplitRows(name, rows) for name, rows in known.items() if rows]
        self.notes += [*notes.first_notes(self), *(note for one in self.photos for note in one.notes)]
        self.thresholds = {scorer.name: self.threshold(run, scorer) for run in self.runs for scorer in run.scorers}
        self.longest, self.right = max(len(one.turns) for one in self.talks), dict[tuple[str, str], Doubles]()
        self.rows = list[PredictedTurns]()
        if lost := len(dataset.payloads["dialogues"]) - len(self.talks):
            self.notes.append(f"{plural(lost, 'dialogue', form=',')} without a photo, or a turn before it, left out")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the runs, those that rank photos last."""
        return (*super().names, *(name for one in self.photos for name in one.names))

    def asked(self, rows: Sequence[SharedDialogue]) -> Flags:
        """[n, T] the turns that dialogues have."""
        return np.arange(self.longest) < np.array([len(one.turns) for one in rows])[:, None]

    def threshold(self, run: Run, scorer: ModelScores) -> float:
        """What a trained scorer chose on valid; of a file the best on its scores of valid, else a half."""
        if run.artifact is not None:
            config = scorers_in(run.artifact.path)[scorer.name] / "config.json"
            return float(json.loads(config.read_bytes())["threshold"])
        valid = [(one, scorer.values.get(one.query, {})) for one in self.talks if one.split == "valid"]
        turns = [(turn == one.numbers[-1], row[turn]) for one, row in valid for turn in one.numbers if turn in row]
        found, why = HALF, "as nothing of valid is scored"
        if turns:
            due, values = map(np.array, zip(*turns, strict=True))
            found, why = best_threshold(due, values)[0], "which has the highest F1 on valid"
        self.notes.append(f"{scorer.name} shares from {found:.3g} on, {why}")
        return found

    def columns(self, split: SplitRows[SharedDialogue], run: Run, summary: Summariser) -> Columns:
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
        columns = mean_columns(seeds)
        self.right[split.name, run.name] = columns["overall", "all", RIGHT].values
        return defined(columns)

    def constants(self, split: SplitRows[SharedDialogue]) -> dict[str, Columns]:
        """Sharing after every turn, and the rule on the number of the turn with the highest F1 on valid, if there is any."""
        turns, valid = np.arange(1, self.longest + 1), [one for one in self.talks if one.split == "valid"]
        rules = {"always": turns > 0} | {f"from turn {k} on": turns >= k for k in turns[1:]}
        rules |= {f"at turn {k}": turns == k for k in turns}
        chosen, asked = self.asked(valid or split.rows), self.asked(split.rows)
        best = max(rules, key=lambda name: measures(rules[name], chosen)["overall", "all", F1].figure or 0)
        return {name: defined(measures(rules[name], asked)) for name in dict.fromkeys(("always", best))}

    def both(self, split: SplitRows[SharedDialogue], summary: Summariser) -> dict[str, Columns]:
        """Of each run with each that ranks photos: right turns, photos that are ranked first (R@1), and both."""
        found = dict[str, Columns]()
        own = ((one, part) for one in self.photos for part in one.splits if part.name == split.name)
        for ranking, part, photos in ((one, part, run) for one, part in own for run in one.runs):
            firsts = dict(ranking.columns(part, photos, summary))["overall", "all", "R@1"].values
            by_id = dict(zip((one.query.query for one in part.rows), firsts, strict=True))
            rows = np.array([row for row, one in enumerate(split.rows) if one.query in by_id], np.int64)
            photo = np.array([by_id[split.rows[row].query] for row in rows])
            for run in self.runs:
                turn = self.right[split.name, run.name][rows]
                each = zip(BOTH, (turn, photo, turn * photo), strict=True)
                columns = [(("overall", "all", name), RatioColumn(rows, one, np.ones(len(rows)))) for name, one in each]
                found[f"{run.name} + {photos.name}"] = columns
        return found

    def complete(self, split: SplitRows[SharedDialogue], figures: list[Figure], summary: Summariser) -> None:
        """Runs beside constant rules, by turn, and with each run that ranks photos."""
        name, findings, asked = split.name, self.findings, self.asked(split.rows)
        rules, pairs = self.constants(split), self.both(split, summary)
        findings.figures += (more := summary.figures(rules | pairs))
        cells = defaultdict[tuple[str, str, str], str](lambda: "–")
        cells |= {(one.run, one.part, one.measure): percent(one.interval) for one in (*figures, *more)}
        runs, parts = (
            [*(run.name for run in self.runs), *rules],
            [part for part, at in PARTS.items() if asked[:, at].any()][:-1],
        )
        shown = [(run, *(cells[run, "all", head] for head in HEADS)) for run in runs]
        curve = [(part, cells["always", part, "precision"], *(cells[run, part, F1] for run in runs)) for part in parts]
        paired = [(pair, *(cells[pair, "all", head] for head in BOTH)) for pair in pairs]
        drawn = f"%; in brackets the {100 * LEVEL:g} % bootstrap interval over dialogues{none_had([one.interval for one in more])}"
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
        """With the tables, and the turns of each dialogue."""
        super().finish()
        self.findings.rows["tables"] = list(self.findings.tables.values())
        self.findings.files[TURNS] = b"".join(map(encode_row, self.rows)).decode()


class Intent(Question):
    """Dialogues, turn by turn."""

    BESIDE: ClassVar[str] = "dialogue"
    LEARNER: ClassVar[str] = "ctxr.problems.intent.learner"
    Recipe: ClassVar[type[IntentRecipe]] = IntentRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = IntentEvaluation

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset has dialogues, and a run scores their turns."""
        return bool(request.dataset.payloads.get("dialogues")) and any(
            scores_turns(request, one) for one in request.sources
        )
