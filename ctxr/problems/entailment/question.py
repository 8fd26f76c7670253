"""The question of entailment: does an image with its premise entail a text?"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ctxr.datasets.pairs import EntailmentPair
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import DataError, UsageError
from ctxr.metrics.compare import Interval
from ctxr.metrics.entailment import calibration, quality
from ctxr.models.entailment.recipe import ENTAILMENT, ClassifierRecipe
from ctxr.problems.entailment.pairs import KINDS, PROBABILITIES, find_pairs, open_pairs, refuse_seen
from ctxr.problems.evaluation import EvalRequest, Evaluation, SplitRows
from ctxr.problems.figures import Figure, Summariser
from ctxr.problems.options import TrainOptions
from ctxr.problems.question import ProblemResults, Question, View, find_learner
from ctxr.problems.results import TABLES, read_tables
from ctxr.problems.runs import EvaluatedRun, check_run_name, run_folders
from ctxr.store.artifacts import MANIFEST, Content, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import CLASSIFIER, CLASSIFIER_RESULTS
from ctxr.store.records import Record, SplitName
from ctxr.store.tables import pretty_json, write_table

FIGURES = ("accuracy", "precision", "recall", "F0.5")


class JudgedPair(Record, frozen=True):
    """A classifier's probability that a pair is entailed, 0..1, and whether it counts as that."""

    KEY: ClassVar[tuple[str, ...]] = ("run", "pair")

    run: str
    pair: str
    kind: str
    group: str
    label: int
    probability: float
    entailed: bool


@dataclass(frozen=True)
class ClassifierRun(EvaluatedRun):
    """A seed of a classifier with its probabilities [N] of the same pairs."""

    threshold: float
    probabilities: npt.NDArray[np.float32]


class PairEvaluation(Evaluation[SplitRows[EntailmentPair], ClassifierRun]):
    """Every seed of every classifier on the pairs of one split."""

    PROBLEM: ClassVar[str] = ENTAILMENT
    KIND: ClassVar[str] = CLASSIFIER_RESULTS
    HEADLINE = (
        ("accuracy", "chance", "share of pairs with the right label"),
        ("F0.5", None, "F-measure of the entailed pairs, in which precision weighs more"),
    )

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        options = self.options
        self.pairs = open_pairs(request.path, options.workdir, self.progress)
        self.dataset = self.pairs.name
        splits: list[SplitName] = [name for name in ("test", "valid", "train") if self.pairs.in_split(name)]
        split = options.split or next(iter(splits), "test")
        if not (rows := self.pairs.in_split(split)):
            raise DataError(f"{self.dataset} has no pair in the split {split!r}", hint=f"--split {' or '.join(splits)}")
        self.split = SplitRows(split, rows)
        self.splits = [self.split]
        self.runs = []
        for source in request.sources:
            folder, origin = source.place or Path(), source.origin
            artifact = open_artifact(folder, CLASSIFIER)
            seeds = sorted(folder.glob("seed*"), key=lambda seed: int(seed.name[4:]))
            same = any(parent.sha256 == request.origin.sha256 for parent in artifact.manifest.parents)
            if same and split == "train":
                raise DataError(
                    f"{origin.name} was trained on these very pairs: its accuracy on them is not an estimate for others",
                    hint="--split valid or test, or other pairs",
                )
            chosen_by = split == "valid" and same
            if chosen_by:
                flaw = "these pairs chose its epoch and its threshold, so they flatter it"
                self.findings.notes.append(f"{origin.name}: {flaw}")
            for seed in seeds:
                opened: Any = find_learner(Entailment()).open_run(seed, request.scoring, self.progress)
                judge = opened.classifier
                if not chosen_by:
                    refuse_seen(self.pairs, rows, judge.trained_on, judge.name)
                probabilities = opened.score((self.pairs, rows))[judge.name]
                name = judge.name if len(seeds) > 1 else origin.name
                self.runs.append(ClassifierRun(name, origin, judge.threshold, probabilities, artifact=artifact))

    def groups(self, split: SplitRows[EntailmentPair]) -> list[str]:
        """Pictures, or premises."""
        return [pair.group for pair in split.rows]

    def complete(self, split: SplitRows[EntailmentPair], figures: list[Figure], summary: Summariser) -> None:
        """Accuracy, precision, recall, F0.5 and calibration, by kind of pair."""
        rows, name, options = split.rows, split.name, self.options
        kinds = np.array([pair.kind for pair in rows])
        label = np.array([pair.label == 1 for pair in rows])
        present = sorted(set(kinds.tolist()))
        groups = np.unique([pair.group for pair in rows], return_inverse=True)[1].astype(np.int64)
        shown, sure, bins = list[tuple[Any, ...]](), list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        for run in self.runs:
            called = run.probabilities >= np.float32(run.threshold)
            for kind in ("all", *present) if len(present) > 1 else ("all",):
                own = np.ones(len(rows), bool) if kind == "all" else kinds == kind
                rng = np.random.default_rng(options.seed)
                measured = quality(label[own], called[own], groups[own], rng, resamples=options.resamples)
                for one in FIGURES:
                    figure = getattr(measured, {"F0.5": "f"}.get(one, one))
                    shown.append((run.name, kind, one, figure.value, figure.low, figure.high, measured.pairs))
                shown.append((run.name, kind, "majority", measured.majority, None, None, measured.pairs))
                headline = {"accuracy": measured.accuracy, "F0.5": measured.f}
                headline["chance"] = Interval(measured.majority)  # the best blind guess
                self.findings.figures += [
                    Figure(name, run.name, "overall", kind, one, measured.pairs, interval)
                    for one, interval in headline.items()
                ]
                calibrated = calibration(label[own], run.probabilities[own].astype(np.float64))
                sure.append((run.name, kind, calibrated.error, calibrated.largest, calibrated.brier, run.threshold))
                if kind == "all":
                    bins += [(run.name, *astuple(bin_)) for bin_ in calibrated.bins]
        note = "intervals of 95 % over whole pictures and premises, none where all draws are alike; majority always says the commoner label"
        if len(present) == 1:
            note += f"; all pairs are about {KINDS[present[0]]}"
        meant = "ECE: mean distance of share and probability over 15 bins"
        in_figures = ("run", "pairs", "figure", "value", "low", "high", "of")
        in_sure = ("run", "pairs", "ECE", "largest", "Brier", "threshold")
        in_bins = ("run", "from", "to", "pairs", "said", "entailed", "low", "high")
        self.findings.tables |= {
            f"{name}/quality": Table(f"{name}: entailed or not", in_figures, tuple(shown), note),
            f"{name}/calibration": Table(f"{name}: calibration", in_sure, tuple(sure), meant),
            f"{name}/reliability": Table(f"{name}: reliability, all pairs", in_bins, tuple(bins)),
        }

    def finish(self) -> None:
        """A note where classifiers cannot be compared."""
        if self.options.compare:
            what = "--compare is of runs that retrieve"
            self.findings.notes.append(f"classifiers are not tested against each other: {what}")

    def write(self, out: Path) -> Content:
        """The probabilities, and the tables."""
        write_table(
            out / PROBABILITIES,
            [
                JudgedPair(run.name, pair.id, pair.kind, pair.group, pair.label, p, bool(np.float32(p) >= np.float32(run.threshold)))
                for run in self.runs
                for pair, p in zip(self.split.rows, run.probabilities.tolist(), strict=True)
            ],
        )  # fmt: skip
        write_bytes(out / TABLES, pretty_json(self.findings.tables))
        counts = {"pairs": len(self.split.rows), "runs": len(self.runs), "split": self.split.name}
        return Content([PROBABILITIES, TABLES], counts, {})


def _card(
    name: str, split: str, quality: Sequence[Sequence[Any]], calibrations: Sequence[Sequence[Any]]
) -> dict[str, object]:
    """A table of a page, and what one should not overlook."""
    figures = {(kind, figure): values for run, kind, figure, *values in quality if run == name}
    rows, blind = list[tuple[str, ...]](), list[str]()
    for kind in dict.fromkeys(kind for kind, _ in figures):
        cells = [
            share_with_interval(dict(zip(("value", "low", "high"), figures[kind, one], strict=False)))
            for one in FIGURES
        ]
        accuracy, majority, shown = figures[kind, "accuracy"], figures[kind, "majority"][0], KINDS.get(kind, kind)
        rows.append((shown, f"{accuracy[3]:,}", *cells, f"{100 * majority:.1f}"))
        blind += [shown] if accuracy[0] <= majority else []
    error, _, brier, threshold = next(values for run, kind, *values in calibrations if (run, kind) == (name, "all"))
    warning = f"{name} is right no more often than always giving the commoner answer: {', '.join(blind)}."
    note = (
        f"On pairs with known labels, in brackets 95 % bootstrap intervals over pictures and premises. Threshold {threshold:.3g}, "
        f"expected calibration error {error:.3f}, Brier score {brier:.3f}."
    )
    heads = (f"{name} on {split}, %", "pairs", *FIGURES, "commoner answer")
    table = Table(f"{name} on {split}", heads, tuple(rows), note)
    return {"table": table, "warning": warning if blind else ""}


class Entailment(Question):
    """Pairs of a premise and a text."""

    LEARNER: ClassVar[str] = "ctxr.problems.entailment.learner"
    Recipe: ClassVar[type[ClassifierRecipe]] = ClassifierRecipe
    KIND: ClassVar[str] = CLASSIFIER
    VARIANTS: ClassVar[tuple[str, ...]] = (ENTAILMENT,)
    evaluation = PairEvaluation

    def adapted(self, recipe: ClassifierRecipe, options: TrainOptions) -> ClassifierRecipe:
        """Without one of its branches, where --text-only or --image-only says so."""
        if options.text_only:
            return replace(recipe, image="").check()
        return replace(recipe, text="").check() if options.image_only else recipe

    def learned_from(self, path: Path | None, workdir: Path, progress: Progress) -> Path:
        """Pairs."""
        return find_pairs(path, workdir, progress)

    def takes(self, request: EvalRequest) -> bool:
        """Whether all runs are classifiers. Raises UsageError where some are, or one is nothing."""
        workdir, named = request.options.workdir, request.options.runs
        folders = {name: run_folders([name], workdir) for name in named}
        finished = {name: own[0] for name, own in folders.items() if own and (own[0] / MANIFEST).is_file()}
        kinds = {name: open_artifact(folder).manifest.kind for name, folder in finished.items()}
        others = [name for name in named if kinds.get(name) != CLASSIFIER]
        if 0 < len(others) < len(named):
            for name in others:
                check_run_name(name, workdir)
            problem = "classifiers and models that retrieve answer different questions"
            raise UsageError(problem, hint="evaluate them apart")
        return bool(named) and not others

    def view(self, results: ProblemResults) -> View:
        """Accuracy and calibration of each classifier by kind of pair. Raises DataError for a damaged artifact."""
        edited = [
            f"results/{one.path.name}/{changed[0]}" for one in results.artifacts if (changed := one.changed_files())
        ]
        cards: list[dict[str, object]] = []
        for artifact in results.artifacts:
            split = str(artifact.manifest.counts.get("split"))
            try:
                tables = read_tables(artifact.path)
                quality, calibrations = (tables[f"{split}/{name}"].rows for name in ("quality", "calibration"))
                names = dict.fromkeys(row[0] for row in quality)
                cards += [_card(str(name), split, quality, calibrations) for name in names]
            except (KeyError, TypeError, ValueError, IndexError, StopIteration) as error:
                raise DataError(f"{artifact.path / TABLES} is damaged", hint="run ctxr eval again") from error
        return View("tables", "Tables", __package__, {"cards": cards, "edited": edited})
