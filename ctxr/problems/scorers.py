"""Encoders and heads over them: opened to score pictures with texts, and trained."""

import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import foreign_notes
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device, memory_for
from ctxr.models.scorers import ClipScorer, PairScorer, trainable
from ctxr.models.training.checkpoint import (
    CONFIG,
    ENCODER,
    Checkpoint,
    check_head,
    load_head,
    model_fingerprint,
    new_scorer,
    read_checkpoint,
    tuned,
    write_config,
    write_weights,
)
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.models.training.recipe import ScorerRecipe
from ctxr.models.training.scoring import in_bf16
from ctxr.problems import embeddings
from ctxr.problems.embeddings import PictureFiles, Runtime, Source, query_pictures, regions_for
from ctxr.problems.options import TrainOptions
from ctxr.problems.queries import EvalQuery
from ctxr.problems.recipes import list_recipes, read_recipe
from ctxr.problems.runs import NAMED, OpenRun, ScoringOptions, scorers_in
from ctxr.problems.training import UNJUDGED, SeedTrainer, TrainJob
from ctxr.problems.verdicts import PairVerdicts, verdicts_in
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import JUDGMENTS, REGION_FEATURES, RUN, RUNS
from ctxr.store.paths import rooted


@dataclass(frozen=True)
class OpenScorer(OpenRun):
    """A trained run, or a published encoder; weights are read once something is scored.

    Attributes:
        checkpoints: by scorer; None for a published encoder. encoder: below them.
        options: precision, regions and shortlist are those of the run where none were given.
    """

    checkpoints: Mapping[str, Path | None]
    encoder: str
    options: ScoringOptions
    progress: Progress

    @classmethod
    def open(cls, source: Path | str, options: ScoringOptions, progress: Progress) -> Self:
        """A run by its folder, or an encoder by its name.

        Raises UnfinishedError for an unfinished run, DataError for one without checkpoints.
        """
        if isinstance(source, str):
            return cls({source: None}, rooted(source, options.workdir), options, progress)
        manifest = open_artifact(source, RUN, "ctxr train").manifest
        config = rooted(manifest.config | manifest.models.get(NAMED, {}), source / "../..")
        if "encoder" not in config:
            raise UsageError(f"{source} was not trained to score pictures", hint="leave out --problem")
        checkpoints = scorers_in(source)
        if not checkpoints:
            raise DataError(f"{source} holds no checkpoint", hint="train it again: ctxr train")
        precision = str(config["precision"]) if options.precision == "auto" else options.precision
        options = replace(options, regions=options.regions or str(config.get("regions", "")), precision=precision)
        if options.rerank is None:
            by = str(config.get("rerank_by", ""))
            options = replace(options, rerank=int(config.get("rerank", 0)), rerank_by=by)
        return cls(dict(checkpoints), str(config["encoder"]), options, progress)

    @property
    def runtime(self) -> Runtime:
        """Of the options."""
        return Runtime(choose_device(self.options.device), self.options.precision, self.progress)

    def with_regions(self, pictures: PictureFiles) -> PictureFiles:
        """The pictures with their regions, where the encoder looks at any."""
        if not makes_pairs(self.encoder):
            return pictures
        source: Any = find_encoder(self.encoder, self.progress.warn)
        return replace(pictures, regions=regions_for(source, self.options.regions, pictures.workdir))


@dataclass(frozen=True)
class ScoringPlan:
    """How queries are scored.

    Attributes:
        prepare: makes arrays of queries. ranker: the scorer of these, on its device, in evaluation mode (see `load_head`).
        at_once: queries in one pass. bf16: compute in it by autocast.
    """

    prepare: Callable[[Sequence[EvalQuery]], ExampleTable]
    ranker: ClipScorer | PairScorer
    at_once: int
    bf16: bool = False


def prepared(
    source: Source, pictures: PictureFiles, frozen: bool, runtime: Runtime
) -> Callable[[Sequence[EvalQuery]], ExampleTable]:
    """What makes arrays of queries: of a `frozen` encoder's cached vectors, else of its inputs."""
    if not frozen:
        return lambda queries: embeddings.as_inputs(queries, pictures, source, runtime)
    if isinstance(source, CrossSource):
        return lambda queries: embeddings.as_features(queries, pictures, source, runtime)
    device, progress = runtime.device, runtime.progress
    precision = "bf16" if source.rounds and in_bf16(runtime.precision, device) else "fp32"
    encoder = Encoder(source, device, precision, progress.warn)
    return lambda queries: embeddings.as_vectors(queries, pictures, encoder, progress)


def plan_scoring(checkpoint: Path | None, source: Source, pictures: PictureFiles, runtime: Runtime) -> ScoringPlan:
    """How a checkpoint, or the published encoder where there is none, scores queries.

    A cross-encoder without a head over it as it was published computes its pairs again.
    """
    config = None if checkpoint is None else read_checkpoint(checkpoint)
    kept = config is not None and config.shape.head is not None and config.frozen
    frozen = kept or not isinstance(source, CrossSource)
    prepare = prepared(source, pictures, frozen, runtime)
    encoder = None if frozen else source.build()
    if checkpoint is not None:
        ranker = load_head(checkpoint, encoder)
    else:
        ranker = (ClipScorer() if encoder is None else PairScorer(encoder)).eval()
    ranker = ranker.to(runtime.device)
    return ScoringPlan(prepare, ranker, 256) if frozen else ScoringPlan(prepare, ranker, runtime.at_once, runtime.bf16)


def source_of(checkpoint: Path | None, encoder: str, progress: Progress) -> Source:
    """The encoder below a checkpoint, with its trained weights where it has any.

    Raises DataError where it was trained over another encoder than `encoder`, or over other weights than it has now.
    """
    source = find_encoder(encoder, progress.warn)
    if checkpoint is None:
        return source
    config = read_checkpoint(checkpoint)
    if (below := config.shape.encoder) != source.name:
        raise DataError(
            f"{checkpoint} was trained over the encoder {below}, not over {source.name}",
            hint=f"train again with --set encoder={below}",
        )
    trained = tuned(source, checkpoint, f"{below} as trained in {checkpoint.parent.name}/{checkpoint.name}")
    if model_fingerprint(trained) != config.fingerprint:
        raise DataError(
            f"{checkpoint} was trained over other weights than {below} has now",
            hint="put the weights back that it was trained with, or train again: ctxr train",
        )
    return trained


def weighted_updates(
    recipe: ScorerRecipe, first: Step[object], second: Callable[[], Step[object] | None], apply: bool
) -> Iterator[Update]:
    """The updates for a step whose queries may be repeated with a weak positive as the target.

    With `weak = "extra-batch"` the second step gets an update of its own at `alpha` times the rate; with "loss-weight" its loss
    counts `alpha` times in the first update. `second` draws the repeated queries; None where there are none.
    """
    separate = recipe.weak == "extra-batch"

    def steps() -> Iterator[tuple[Step[object], float]]:
        yield first, 1.0
        if not separate and (repeated := second()) is not None:
            yield repeated, recipe.alpha

    yield Update(steps(), apply=apply)
    if separate and apply and (repeated := second()) is not None:
        yield Update(((repeated, 1.0),), rate=recipe.alpha)


@dataclass(frozen=True)
class TrainingData:
    """What of a dataset a job learns from and is judged on.

    Attributes:
        queries: by split, whose pictures are read. counts: of what each split is about.
        weak: the weak positives that are learned from. judged_on: split that chooses the epoch, "" where none does.
        slow_validation: images that a validation scores, where that takes long; else 0.
        hashes: of whatever else is learned from.
    """

    queries: Mapping[str, Sequence[EvalQuery]]
    counts: dict[str, int]
    weak: Sequence[object]
    judged_on: str
    slow_validation: int = 0
    hashes: Sequence[str] = ()


@dataclass(frozen=True)
class Learning:
    """An objective over so many examples an epoch; `judged`: whether anything chooses the epoch."""

    objective: Callable[[TrainingRun], Objective[Any, Any]]
    examples: int
    judged: bool


class ScorerJob(TrainJob):
    """Seeds that learn from the queries of a dataset.

    Attributes:
        data: what is learned from it. pictures: of all splits.
        weights: fingerprint of the encoder as it was published. start: run whose fine-tuned encoder is taken, None for the published one.
    """

    checkpoint = staticmethod(read_checkpoint)
    recipe: ScorerRecipe
    data: TrainingData

    def __init__(self, options: TrainOptions, recipe: ScorerRecipe, progress: Progress) -> None:
        """Resolve what is trained, before hours are spent.

        Raises UsageError for options that make no sense, DataError for a dataset that cannot be trained on, UnfinishedError for a start
        or a dataset that is not finished.
        """
        if options.judgments is not None and recipe.weak == "off":
            raise UsageError(
                "--judgments says what is entailed, and the recipe has weak = off", hint="--set weak=extra-batch"
            )
        super().__init__(options, recipe, progress)
        self.runtime = Runtime(self.device, recipe.precision, progress)
        dataset = open_dataset(options.dataset, options.workdir, progress).of_sets(f"variant = {recipe.variant}")
        with progress.task(f"opening {recipe.encoder}", None):
            source = find_encoder(recipe.encoder, progress.warn)
            self.weights = model_fingerprint(source)
        self.recipe = recipe = replace(recipe, encoder=source.name)
        check_head(recipe.shape, source.width, self.device)
        regions = regions_for(source, recipe.regions, options.workdir) if isinstance(source, CrossSource) else None
        self.start = options.workdir / RUNS / recipe.start if recipe.start else None
        if self.start is not None and self.start.resolve() == self.out.resolve():
            raise UsageError(
                f"the run {self.start.name} cannot start from itself: it would be written over",
                hint="give it another --name",
            )
        if self.start is not None and not (self.start / MANIFEST).is_file():
            raise UnfinishedError(
                f"the recipe starts from the run {recipe.start!r}, and {self.start} does not exist or is not finished",
                hint=f"{start_command(options, recipe)}   first, or --set start= for the published encoder",
            )
        self.data = data = self.read(dataset, verdicts_in(dataset, options.judgments, options.workdir))
        self.queries, self.judged_on, self.slow_validation = data.counts, data.judged_on, data.slow_validation
        everything = [query for queries in data.queries.values() for query in queries]
        self.pictures = replace(query_pictures(dataset, everything, options.workdir), regions=regions)
        # texts, targets, payloads and pictures: all that a model receives
        received = sha256_of([everything, sorted(self.pictures.contents.items())])
        self.parents = list(self.origins(dataset, received))
        self.dataset, self.encoder, self.regions = dataset.name, recipe.encoder, recipe.regions

    def origins(self, dataset: Dataset, queries: str) -> Iterator[Parent]:
        """The dataset, whose queries are hashed, and what the recipe names besides."""
        recipe, regions = self.recipe, self.pictures.regions
        learned = parent_of(dataset, sha256_of([queries, *self.data.hashes]) if self.data.hashes else queries)
        yield learned
        if self.start is not None:
            origin = open_artifact(self.start, RUN)
            yield Parent(self.start.name, RUN, origin.sha256)
            for note in foreign_notes(origin, learned):
                self.progress.warn(note)
        if regions is not None:
            yield Parent(recipe.regions, REGION_FEATURES, regions.sha256)
        if recipe.weak != "off":
            yield Parent("weak positives", JUDGMENTS, sha256_of(self.data.weak))

    @abstractmethod
    def read(self, dataset: Dataset, verdicts: PairVerdicts) -> TrainingData:
        """What is learned from. Raises DataError where the dataset has nothing to learn from."""

    @abstractmethod
    def learning(self, source: Source) -> Learning:
        """What is learned over an encoder."""

    def check(self) -> None:
        """Read every picture but those of train, which are read before the first step."""
        if self.recipe.learns:
            others = [query for split, queries in self.data.queries.items() if split != "train" for query in queries]
            self.pictures.of(others).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`; raises DataError too where the start is of another encoder."""
        recipe = self.recipe
        below = None
        if self.start is not None:  # the checkpoint of the same seed, or else of the first
            same = self.start / f"seed{seed}"
            below = same if (same / CONFIG).is_file() else self.start / "seed0"
        source = source_of(below, recipe.encoder, self.progress)
        epoch = 0
        if recipe.learns:
            learning = self.learning(source)
            if not learning.judged:
                self.progress.warn(f"seed {seed}: {UNJUDGED}")
            epoch = train(self.model(source, seed), learning.examples, learning.objective).best or 0

        def save(folder: Path) -> None:
            write_weights(folder, train.weights if recipe.learns else None, None if below is None else below / ENCODER)
            # the published encoder below its own weights alone, as whoever scores with the checkpoint finds it
            fingerprint = model_fingerprint(
                tuned(find_encoder(recipe.encoder, self.progress.warn), folder, source.name)
            )
            config = Checkpoint(
                epoch, self.seed_key(seed), recipe.shape, fingerprint, source.width, not recipe.tunes, seed
            )
            write_config(folder, self.noted(config))

        return save

    def noted(self, config: Checkpoint) -> Checkpoint:
        """With what else decides how a checkpoint scores."""
        return config

    def model(self, source: Source, seed: int) -> ClipScorer | PairScorer:
        """What learns, untrained."""
        recipe, encoder = self.recipe, trainable(source.build) if self.recipe.tunes else None
        with memory_for(
            f"a scorer over {recipe.encoder}", self.device, "use a smaller encoder or head, or --device cpu"
        ):
            return new_scorer(recipe.shape, source.width, encoder, seed).to(self.device)

    def models(self) -> dict[str, object]:
        """The encoder of the first seed."""
        config = read_checkpoint(self.out / "seed0")
        return {"encoder": {"name": config.shape.encoder, "fingerprint": config.fingerprint, "dim": config.width}}

    @property
    def scoring(self) -> ScoringOptions:
        """Where and how checkpoints score."""
        return ScoringOptions(self.pictures.workdir, self.device, self.recipe.precision, self.regions)


def start_command(options: TrainOptions, recipe: ScorerRecipe) -> str:
    """The command that trains the run to start from, by its name, its encoder and the dataset."""
    own, recipes = read_recipe(options.recipe, options.parity, (), lambda _: type(recipe)), list_recipes()
    # a run may be called otherwise than its recipe
    name = next((start for start in (recipe.start, own.start) if start in recipes), "")
    words = ["ctxr", "train", "--recipe", name or "RECIPE"]
    words += [] if name == recipe.start else ["--name", recipe.start]
    words += [] if options.dataset is None else ["--dataset", str(options.dataset)]
    if not name or read_recipe(name, options.parity, (), lambda _: type(recipe)).encoder != recipe.encoder:
        words += ["--set", f"encoder={recipe.encoder}"]
    words += [] if options.workdir == type(options).workdir else ["--workdir", str(options.workdir)]
    return shlex.join(words)
