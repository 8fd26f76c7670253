"""Evaluations of runs that score candidates: which queries are asked, and which were scored."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ctxr.errors import DataError
from ctxr.problems import notes
from ctxr.problems.evaluation import ALL_SPLITS, NO_SPLIT, EvalRequest, Evaluation, SplitT
from ctxr.problems.question import Question, find_learner
from ctxr.problems.runs import Run, Scoring, find_runs
from ctxr.store.records import ImageSet


@dataclass(frozen=True)
class ScoredSplit:
    """Queries of a split, and those of them that some scorer lacks or scored in part."""

    name: str
    queries: Sequence[str]
    lacking: Set[str]


class ScoredEvaluation(Evaluation[SplitT, Run]):
    """Runs that score the candidates of queries;
    `places` has the split, of `ALL_SPLITS`, and the set of each query for an image, by id."""

    TOGETHER: ClassVar[bool] = True

    runs: Sequence[Run]
    places: Mapping[str, tuple[str, ImageSet]]
    notes: list[str]

    def __init__(self, request: EvalRequest, question: Question) -> None:
        super().__init__(request)
        dataset, options = request.dataset, self.options
        sets = {one.id: (dataset.split_of(one) or NO_SPLIT, one) for one in dataset.sets}
        self.places = {one.id: sets[one.image_set] for one in dataset.queries.values() if one.labels is None}
        splits = {options.split} if options.split else {*ALL_SPLITS} if request.left_out else {"valid", "test"}
        wanted = [name for name, (split, _) in self.places.items() if split in splits] or list(self.places)
        learner, left_out = partial(find_learner, question), request.left_out
        scoring = Scoring(dataset, request.origin, wanted, request.scoring, self.progress, learner, left_out)
        self.dataset, self.runs = dataset.name, find_runs(request.sources, scoring, named=bool(options.runs))
        self.scorers = [scorer for run in self.runs for scorer in run.scorers]
        self.notes = []

    def finish(self) -> None:
        """What keeps figures from being taken at their word."""
        notes.add_cautions(self, self.notes)

    def match(self) -> list[ScoredSplit]:
        """The splits that any run scored, or --split; one without scores of some run is left out with a note, if any other remains.

        Raises DataError naming file:line for scores of what is not asked, and, without --partial, for what is missing.
        """
        only = self.options.split
        candidates = {one.id: frozenset(one.images) for one in self.request.dataset.sets}
        for scorer, name in ((one, name) for one in self.scorers for name in one.values):
            if name not in self.places:
                known = name in self.request.dataset.queries
                what = "asks for a label, not for an image" if known else "is not asked"
                ids = (f" (with ids as {query!r} and {own.images[0]!r})" for query, (_, own) in self.places.items())
                raise DataError(
                    f"{scorer.place(name, None)}: query {name!r} {what} in {self.dataset}",
                    hint=f"evaluate on the dataset that was scored: --dataset PATH{next(ids, '')}",
                )
            image_set = self.places[name][1]
            if strange := scorer.values[name].keys() - candidates[image_set.id]:
                raise DataError(
                    f"{scorer.place(name, min(strange))}: {min(strange)!r} is not a candidate of query {name!r} "
                    f"(set {image_set.id!r} has {image_set.images[0]!r} and {len(image_set.images) - 1} more)",
                    hint="candidates are the image ids of the query's set",
                )
        scored = {scorer.name: {self.places[name][0] for name in scorer.values} for scorer in self.scorers}
        chosen = [
            split for split in ALL_SPLITS if only in ("", split) and any(split in splits for splits in scored.values())
        ]
        if not chosen:
            what = f"of {only}" if only else "that is asked"
            hint = "name another --split, or leave it out" if only else "name sets with descriptions: --dataset"
            raise DataError(f"{self.names[0]!r} scores no query {what}", hint=hint)
        strangers = {split: [name for name, splits in scored.items() if split not in splits] for split in chosen}
        shared = [split for split in chosen if not strangers[split]]
        self.notes += [
            f"{split} is left out, as {', '.join(names)} scored nothing of it: name the others, with --split {split}"
            for split, names in strangers.items() if shared and names
        ]  # fmt: skip
        found: list[ScoredSplit] = []
        for split in shared or chosen:
            own = {name: image_set.images for name, (own_split, image_set) in self.places.items() if own_split == split}
            lacking: set[str] = set()
            for scorer in self.scorers:
                unscored = [name for name, images in own.items() if len(scorer.values.get(name, ())) < len(images)]
                if unscored and not self.options.partial:
                    first, values = unscored[0], scorer.values.get(unscored[0], {})
                    lost = next(candidate for candidate in own[first] if candidate not in values)
                    what = f"has no score for its candidate {lost!r}" if values else f"of {split} has no score"
                    more = f", and {len(unscored) - 1} more are incomplete" if len(unscored) > 1 else ""
                    raise DataError(
                        f"{scorer.place(first, None)}: query {first!r} {what}{more}",
                        hint="score the rest, evaluate one split with --split, or leave them out of all runs with --partial",
                    )
                lacking.update(unscored)
            found.append(ScoredSplit(split, list(own), lacking))
        return found
