"""Trainings of an encoder or of a head over one, whatever the candidates of a query are."""

import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import foreign_notes
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.families import find_encoder
from ctxr.models.precision import choose_device, memory_for
from ctxr.models.scorers import ClipScorer, trainable
from ctxr.models.training.checkpoint import (
    ENCODER,
    Checkpoint,
    check_head,
    fingerprint_of,
    new_scorer,
    read_checkpoint,
    tuned,
    width_of,
    write_config,
    write_weights,
)
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import Objective, TrainingRun
from ctxr.models.training.recipe import Recipe, ScorerRecipe
from ctxr.problems.embeddings import picture_files
from ctxr.problems.human_labels import Verdicts
from ctxr.problems.pair_inputs import Source, regions_for
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.queries import EvalQuery, sha256_of_queries
from ctxr.problems.recipes import list_recipes, read_recipe
from ctxr.problems.runs import scorers_in
from ctxr.problems.scoring import source_of
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.problems.weak_positives import verdicts_in
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import JUDGMENTS, MODEL, REGION_FEATURES, RUN, RUNS


class ScorerJob(TrainJob):
    """Seeds that learn from the queries of a dataset.

    Attributes:
        asked: queries by split, whose pictures are read. pictures: of all splits.
        weights: fingerprint of the encoder as it was published. start: run whose fine-tuned encoder is taken, None for the published one.
    """

    KIND: ClassVar[str] = RUN

    checkpoint = staticmethod(read_checkpoint)
    recipe: ScorerRecipe
    asked: dict[str, list[EvalQuery]]

    def __init__(self, options: Any, recipe: ScorerRecipe, progress: Progress) -> None:
        """Resolve what is trained, before hours are spent; `options` are those of `ctxr train`.

        Raises UsageError for options that make no sense, DataError for a dataset that cannot be trained on, UnfinishedError for a start
        or a dataset that is not finished.
        """
        if options.text_only or options.image_only:
            raise UsageError("--text-only and --image-only are about classifiers", hint="--recipe entailment")
        if options.judgments is not None and recipe.weak == "off":
            raise UsageError(
                "--judgments says what is entailed, and the recipe has weak = off", hint="--set weak=extra-batch"
            )
        self.device, self.progress = choose_device(options.device), progress
        dataset = open_dataset(options.dataset, options.workdir, progress).of_sets(f"variant = {recipe.variant}")
        with progress.task(f"opening {recipe.encoder}", None):
            source = find_encoder(recipe.encoder, progress.warn)
            self.weights = fingerprint_of(source)
        self.recipe = recipe = replace(recipe, encoder=source.name)
        check_head(recipe, width_of(source), self.device)
        regions = regions_for(source, recipe.regions, options.workdir) if isinstance(source, CrossSource) else None
        self.out = options.folder(RUNS)
        self.start = _start(options, recipe, self.out)
        weak = self.read(dataset, verdicts_in(dataset, options.judgments, options.workdir))
        everything = [query for queries in self.asked.values() for query in queries]
        self.pictures = replace(picture_files(dataset, everything, options.workdir), regions=regions)
        self.parents = list(self._parents(dataset, sha256_of_queries(everything, self.pictures.contents), weak))
        self.key = {"weights": self.weights}
        self.seeds = options.seeds if recipe.learns else 1
        self.dataset, self.encoder = dataset.name, recipe.encoder

    def _parents(self, dataset: Dataset, queries: str, weak: Any) -> Iterator[Parent]:
        """The dataset, and what the recipe names besides; `queries` and `weak` are hashed."""
        recipe, regions = self.recipe, self.pictures.regions
        yield parent_of(dataset, self.content_key(queries))
        if self.start is not None:
            origin = open_artifact(self.start, RUN)
            yield Parent(self.start.name, RUN, origin.sha256)
            for note in foreign_notes(origin, dataset):
                self.progress.warn(note)
        if regions is not None:
            yield Parent(recipe.regions, REGION_FEATURES, regions.sha256)
        if recipe.rerank:
            retriever = find_encoder(recipe.rerank_by, self.progress.warn)
            yield Parent(recipe.rerank_by, MODEL, fingerprint_of(retriever))
        if recipe.weak != "off":
            yield Parent("weak positives", JUDGMENTS, sha256_of(weak))

    @abstractmethod
    def read(self, dataset: Dataset, verdicts: Verdicts) -> Any:
        """Set `asked` and what else is learned from; the weak positives, as they are hashed.

        Raises DataError where the dataset has nothing to learn from.
        """

    @abstractmethod
    def examples(self, source: Source) -> tuple[ExampleTable, ExampleTable | None]:
        """(examples to train on, examples to choose the epoch by or None)."""

    @abstractmethod
    def objective(self, source: Source, train: Any, valid: Any) -> Callable[[TrainingRun], Objective]:
        """What is learned from them."""

    def content_key(self, sha256: str) -> str:
        """What the dataset is known by, of a hash over its queries and pictures."""
        return sha256

    def check(self) -> None:
        """Read every picture but those of train, which are read before the first step."""
        if self.recipe.learns:
            others = [query for split, queries in self.asked.items() if split != "train" for query in queries]
            self.pictures.of(others).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`; raises DataError too where the start is of another encoder."""
        recipe = self.recipe
        below = None
        if self.start is not None:  # the checkpoint of the same seed, or else of the first
            same = self.start / f"seed{seed}"
            below = same if (same / "config.json").is_file() else self.start / "seed0"
        source = source_of(below, recipe.encoder, self.progress)
        epoch = self._train(source, seed, train) if recipe.learns else 0
        own = {field.name for field in fields(Checkpoint)} & asdict(recipe).keys()
        kept = {name: getattr(recipe, name) for name in own}

        def save(folder: Path) -> None:
            write_weights(folder, train.weights if recipe.learns else None, None if below is None else below / ENCODER)
            # the published encoder below its own weights alone, as whoever scores with the checkpoint finds it
            fingerprint = fingerprint_of(tuned(find_encoder(recipe.encoder, self.progress.warn), folder, source.name))
            width, made_by = width_of(source), self.seed_key(seed)
            write_config(folder, Checkpoint(**kept, fingerprint=fingerprint, width=width, epoch=epoch, made_by=made_by))

        return save

    def _train(self, source: Source, seed: int, train: SeedTrainer) -> int:
        """The best epoch."""
        examples, valid = self.examples(source)
        if valid is None:
            self.progress.warn(
                f"seed {seed}: there is nothing on valid to choose an epoch by, so the last epoch counts"
            )
        model = self._model(source, seed)
        return train(model, len(examples), self.objective(source, examples, valid)).best or 0

    def _model(self, source: Source, seed: int) -> nn.Module:
        recipe, encoder = self.recipe, trainable(source.build) if self.recipe.tunes else None
        with memory_for(
            f"a scorer over {recipe.encoder}", self.device, "use a smaller encoder or head, or --device cpu"
        ):
            scorer: nn.Module = new_scorer(recipe, width_of(source), encoder, seed).to(self.device)
        if recipe.start_at_cosine:
            if not isinstance(scorer, ClipScorer):
                raise UsageError(f"{recipe.encoder} scores no cosine to start at", hint="--set start_at_cosine=false")
            published: Any = source.build()
            scorer.start_at_cosine(float(published.logit_scale.exp()))
        return scorer

    def models(self) -> dict[str, Any]:
        """The encoder of the first seed."""
        notes = read_checkpoint(self.out / "seed0")
        return {"encoder": {"name": notes.encoder, "fingerprint": notes.fingerprint, "dim": notes.width}}

    @property
    def scoring(self) -> ScoringOptions:
        """Where and how checkpoints score."""
        recipe = self.recipe
        return ScoringOptions(
            self.pictures.workdir, self.device, recipe.precision, recipe.regions, recipe.rerank, recipe.rerank_by
        )

    @property
    def scorers(self) -> list[str]:
        """Names of the scorers, by seed."""
        return list(scorers_in(self.out))


def _start(options: Any, recipe: ScorerRecipe, out: Path) -> Path | None:
    """The run that a recipe starts from; None for the encoder as it was published."""
    if not recipe.start:
        return None
    folder: Path = options.workdir / RUNS / recipe.start
    if folder.resolve() == out.resolve():
        raise UsageError(
            f"the run {folder.name} cannot start from itself: it would be written over", hint="give it another --name"
        )
    if not (folder / MANIFEST).is_file():
        raise UnfinishedError(
            f"the recipe starts from the run {recipe.start!r}, and {folder} does not exist or is not finished",
            hint=f"{start_command(options, recipe)}   first, or --set start= for the encoder as it was published",
        )
    return folder


def start_command(options: Any, recipe: Recipe) -> str:
    """The command that trains a run which the recipe can start from: of its name, its encoder, and the same dataset."""

    def read(name: str) -> Any:
        return read_recipe(name, options.parity, (), lambda _: type(recipe))

    # a run may be called otherwise than its recipe
    name = next((start for start in (recipe.start, read(options.recipe).start) if start in list_recipes()), "")
    words = ["ctxr", "train", "--recipe", name or "RECIPE"]
    words += [] if name == recipe.start else ["--name", recipe.start]
    words += [] if options.dataset is None else ["--dataset", str(options.dataset)]
    if not name or read(name).encoder != recipe.encoder:
        words += ["--set", f"encoder={recipe.encoder}"]
    words += [] if options.workdir == type(options).workdir else ["--workdir", str(options.workdir)]
    return shlex.join(words)
