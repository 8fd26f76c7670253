"""How models learn queries of text and mouse trace, each against the others of its step, and how they are opened to score images.

Letters: Q queries, N images, B queries of a step, n images of a step, M vectors of a query, D width.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isqrt
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.metrics.ranking import recall
from ctxr.metrics.traces import cell_shares, word_boxes
from ctxr.models.encoders import Encoder, find_source, fingerprint
from ctxr.models.hub import placeless
from ctxr.models.layers import seeded
from ctxr.models.precision import choose_device, in_microbatches, memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import trainable
from ctxr.models.training.checkpoint import CONFIG, SeedConfig, fill, read_config, write_config
from ctxr.models.training.examples import Images, PositivePairs
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import save_tensors
from ctxr.models.words import vocabulary_of
from ctxr.problems import embeddings
from ctxr.problems.embeddings import CHUNK, Array, PictureFiles, query_pictures
from ctxr.problems.galleries import RECALLS, RecallRow
from ctxr.problems.options import TrainOptions
from ctxr.problems.queries import EvalQuery, queries_of
from ctxr.problems.runs import ScoringOptions, scorers_in
from ctxr.problems.scorers import OpenScorer
from ctxr.problems.traces.patches import LARGEST_SCALE, HeatMaps, PatchEncoder, PatchTower, heat_maps
from ctxr.problems.traces.queries import TracedQuery, rank_counts, traced, traced_queries
from ctxr.problems.traces.recipe import BOTH, DUAL, HEAT, PATCHES, TEXT, TRACE, TracesRecipe
from ctxr.problems.traces.towers import DualEncoder, query_inputs
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.artifacts import Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import REGION_FEATURES, RUN, RUNS
from ctxr.store.tables import grouped, read_table, write_table

WEIGHTS, AT_ONCE = "weights.safetensors", 64
"""File of a seed; queries or images in one pass of scoring."""

SHAPE = (
    *("variant", "encoder", "frozen", "grid", "locations", "positions", "text_layers", "image_layers"),
    *("width", "inner", "heads", "embedded", "pooled", "max_tokens"),
)
"""Keys in which a run has to agree with one that starts from it."""


IMAGES, QUERIES = 0, 1
"""Towers of a step."""

Model = DualEncoder | PatchEncoder | HeatMaps
Inputs = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class TracedTable:
    """Queries and their images as what models take.

    Attributes:
        inputs, images: of some queries and of some images, by row, as the `queries` and `images` of a model take them.
        rows: of each image, by id; equal pictures share one.
    """

    queries: Sequence[TracedQuery]
    inputs: Inputs
    images: Images
    rows: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def targets(self) -> PositivePairs:
        """Rows of the relevant images of each query."""
        asked = enumerate(one.query for one in self.queries)
        pairs = ((row, self.rows[one.images[at]]) for row, one in asked for at in one.targets)
        return PositivePairs.of(pairs, len(self.queries))

    def encoded(self, model: Model, tower: int, rows: Tensor, device: str) -> Tensor:
        """Vectors of some images [n, D], or of some queries [n, D] or [n, M, D]."""
        if tower == IMAGES:
            return model.images(self.images(rows).to(device))
        return model.queries(*(part.to(device) for part in self.inputs(rows)))

    @torch.no_grad()
    def vectors(self, model: Model, tower: int, at_once: int, run: TrainingRun) -> Tensor:
        """As `encoded`, of all, float32 on the CPU, by a model in evaluation mode."""

        def encode(part: Tensor) -> Tensor:
            with torch.autocast(run.device, torch.bfloat16, enabled=run.bf16):
                return self.encoded(model, tower, part, run.device).float().cpu()

        count = len(self.rows) if tower == IMAGES else len(self.queries)
        return torch.cat(in_microbatches(torch.arange(count), at_once, run.device, encode))

    def scores(self, queries: Tensor, images: Tensor) -> list[Array]:
        """What each query says of its candidates, by vectors of all."""
        scores = [np.zeros(0, np.float32)] * len(self.queries)
        for candidates, own in grouped((one.query.images, row) for row, one in enumerate(self.queries)).items():
            gallery = images[[self.rows[image] for image in candidates]]
            for row, values in zip(own, dot_scores(queries[own], gallery).numpy(), strict=True):
                scores[row] = values
        return scores


def dot_scores(queries: Tensor, images: Tensor) -> Tensor:
    """[n, N] of queries [n, D] and images [N, D]; of queries [n, M, D] the largest of M."""
    return queries @ images.T if queries.ndim == 2 else (queries @ images.T).amax(1)


def first_rate(queries: Sequence[TracedQuery], scores: Sequence[Array]) -> float:
    """R@1, 0..1: the share of queries that rank a relevant image first, over all orders of ties."""
    return float(recall(rank_counts(queries, scores), 1).mean())


class StepTargets(NamedTuple):
    """Which of the n images of a step each query stands for, [B], and which are relevant to it, [B, n]."""

    own: Tensor
    relevant: Tensor


def contrastive_loss(scores: Tensor, own: Tensor, relevant: Tensor) -> Tensor:
    """Half the cross-entropies of each query among images, and of each image among queries, mean over queries (Eq. 2 and 3, with a minus).

    What is relevant beside the own image of a query, and beside the own query of an image, is left out.

    Args:
        scores: [B, n] of different images.
    """
    others = relevant & ~functional.one_hot(own, scores.shape[1]).bool()
    to_image = functional.cross_entropy(scores.masked_fill(others, -torch.inf), own)
    same = relevant[:, own].T & ~torch.eye(len(own), dtype=torch.bool, device=own.device)
    rows = torch.arange(len(own), device=own.device)
    to_query = functional.cross_entropy(scores[:, own].T.masked_fill(same, -torch.inf), rows)
    return (to_image + to_query) / 2


class TracesObjective(Objective[StepTargets, Tensor]):
    """Queries against the images of their step; of several relevant images one is drawn. Arguments as for `Objective`."""

    SPLITS = False
    AVERAGES = True

    train: TracedTable
    valid: TracedTable | None

    def __init__(self, recipe: TracesRecipe, train: TracedTable, valid: TracedTable | None, run: TrainingRun) -> None:
        super().__init__(recipe, train, valid, run)
        self._chance = torch.Generator()

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Queries in random order; a last one that is alone has nothing to be compared with."""
        self._chance = generator
        return [step for step in super().batches(epoch, generator) if len(step) > 1]

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """Queries, and each image that they stand for once."""
        targets = self.train.targets
        images, own = torch.unique(targets.draw(rows, self._chance).images, return_inverse=True)
        facts = StepTargets(own, targets.among(rows, images.expand(len(rows), -1)))
        yield Update(((Step((images, rows), len(rows), facts), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: StepTargets) -> Tensor:
        """Vectors of images (tower 0) or queries (tower 1)."""
        return self.train.encoded(cast(Model, model), tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step[StepTargets]) -> Tensor:
        """That of the whole step."""
        images, queries = (one.float() for one in encoded)
        return contrastive_loss(dot_scores(queries, images), *(fact.to(images.device) for fact in step.facts))

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """R@1 of the validation queries, each among the images of its set."""
        if (table := self.valid) is None:
            return None
        scorer = cast(Model, model.eval())
        images, queries = (table.vectors(scorer, tower, micro_batch, self.run) for tower in (IMAGES, QUERIES))
        if not all(bool(one.isfinite().all()) for one in (images, queries)):
            raise FloatingPointError(f"the vectors of validation after epoch {epoch} are not finite")
        return first_rate(table.queries, table.scores(queries, images))

    def after_step(self, model: nn.Module) -> None:
        """Keep a learned scale within bounds."""
        if isinstance(model, PatchEncoder):
            with torch.no_grad():
                model.scale.clamp_(max=LARGEST_SCALE)


class TraceSources:
    """Inputs of queries and images; `weights`: fingerprints of the models below."""

    def __init__(self, recipe: TracesRecipe, options: ScoringOptions, progress: Progress) -> None:
        self.recipe, self.options, self.progress = recipe, options, progress
        self.device, self.weights, self.regions = choose_device(options.device), dict[str, str](), None
        if recipe.variant == DUAL:
            self.regions = embeddings.named_regions(
                options.regions or recipe.regions, options.workdir, "the dual encoder"
            )
            return
        self.source = find_source(recipe.encoder, progress.warn)
        model = self.source.build()
        # boxes are shares of the whole picture, so all of it is seen
        self.preprocess = replace(Preprocess.from_config(model.visual.preprocess_cfg), resize_mode="squash")
        self.weights[placeless(self.source.name)] = fingerprint(model, self.source.config, self.preprocess)
        self.patches = PatchTower(model.visual, recipe.grid)
        with torch.inference_mode():
            self.side = isqrt(self.patches(torch.zeros(1, 3, *self.preprocess.size)).shape[1] - 1)
        self.patches.to(self.device)

    def model(self, words: Sequence[str], seed: int = 0) -> Model:
        """The untrained model, drawn by `seed`, for a vocabulary."""
        recipe = self.recipe
        with seeded(seed), memory_for(f"a model of {recipe.variant}", self.device, "use a smaller width or encoder"):
            made: Model
            if self.regions is not None:
                made = DualEncoder(recipe, self.regions.features, len(words))
            elif recipe.variant == HEAT:
                made = HeatMaps(recipe)
            else:
                made = PatchEncoder(recipe, self.source.width, trainable(self.source.build) if recipe.tunes else None)
            return made.to(self.device)

    def table(self, queries: Sequence[TracedQuery], pictures: PictureFiles, words: Sequence[str]) -> TracedTable:
        """Queries and their pictures as arrays. Raises DataError for a picture without regions, or one that cannot be read."""
        # one picture may have several ids: the row of the first is that of all
        firsts = {content: row for row, content in reversed([*enumerate(pictures.contents.values())])}
        rows = {image: firsts[content] for image, content in pictures.contents.items()}
        return TracedTable(queries, self.inputs(queries, words), self.images(pictures), rows)

    def images(self, pictures: PictureFiles) -> Images:
        """Regions, pixels of encoders that learn, or patches of frozen ones, each computed once for the same weights and precision."""
        contents, regions = list(pictures.contents.values()), self.regions
        if regions is not None:
            regions.check(contents)
            return lambda rows: torch.from_numpy(regions.of([contents[row] for row in rows.tolist()]))
        if self.recipe.tunes:
            return embeddings.pixels_of(pictures, self.preprocess, self.device, self.progress)
        origin = {"what": "patches", "weights": self.weights, "side": self.side}
        with self.progress.task("embedding patches", len(contents)) as task:
            arrays = embeddings.cached(
                pictures.workdir,
                origin,
                contents,
                lambda part: self.patches.encode(pictures.read(part), self.preprocess, self.device),
                task.advance,
            )
        return lambda rows: torch.from_numpy(np.stack([arrays[row // CHUNK][row % CHUNK] for row in rows.tolist()]))

    @cached_property
    def encoder(self) -> Encoder:
        """What reads texts."""
        return Encoder(self.source, self.device, "fp32", self.progress.warn)

    def inputs(
        self, queries: Sequence[TracedQuery], words: Sequence[str], read: Callable[[list[str]], Array] | None = None
    ) -> Inputs:
        """What the `queries` of the model take, by row; `read`: unit vectors of texts, by default kept on the disk."""
        recipe = self.recipe
        if recipe.variant == DUAL:
            columns = query_inputs(queries, words, recipe)
            return lambda rows: tuple(column[rows] for column in columns)
        said = [one.text if recipe.query != TRACE else "" for one in queries]
        phrased = [one.phrased(recipe.phrase) for one in queries]
        # other models read no phrases
        spoken = [one.words if (recipe.variant, recipe.query) == (PATCHES, BOTH) else () for one in phrased]
        known = sorted({"", *said, *(phrase for own in spoken for phrase in own)})
        row = {text: number for number, text in enumerate(known)}
        if recipe.tunes:
            table: Tensor = self.source.tokenize(known)
        else:
            read = read or (
                lambda texts: embeddings.embedded_texts(texts, self.options.workdir, self.encoder, self.progress)
            )
            table = torch.from_numpy(read(known))
        whole = torch.tensor([row[text] for text in said], dtype=torch.int64)
        if recipe.variant == HEAT:
            maps = heat_maps(queries, recipe, self.side)
            return lambda rows: (table[whole[rows]], maps[rows])
        shares = []
        for one in phrased:
            boxes, present = word_boxes(one.points, one.times, recipe.margin, recipe.padding)
            shares.append(torch.from_numpy(cell_shares(boxes, self.side) * present[:, None]).float())
        numbers = [torch.tensor([row[phrase] for phrase in own], dtype=torch.int64) for own in spoken]
        phrases, places = (pad_sequence(own, batch_first=True) for own in (numbers, shares))
        return lambda rows: (table[whole[rows]], table[phrases[rows]], places[rows])


@dataclass(frozen=True)
class TracesCheckpoint(SeedConfig):
    """How to build a trained model.

    Attributes:
        weights: fingerprints of the models below, by name. words: the vocabulary, none for texts of an encoder.
    """

    recipe: TracesRecipe
    weights: dict[str, str]
    words: list[str]


read_traces = partial(read_config, kind=TracesCheckpoint, what="a training on traces")


class TracesJob(TrainJob):
    """Seeds that learn from the queries of `parts`, by split; `words`: the vocabulary, `start`: run whose weights are the first ones."""

    MEASURE, NOTE = "R@1", "each query among the images of its set"
    checkpoint = staticmethod(read_traces)
    recipe: TracesRecipe

    def __init__(self, options: TrainOptions, recipe: TracesRecipe, progress: Progress) -> None:
        """Raises UsageError for options that make no sense, DataError for a dataset that cannot be learned from."""
        super().__init__(options, recipe, progress)
        self.data = dataset = open_dataset(options.dataset, options.workdir, progress)
        own = [one for one in traced_queries(dataset) if one.query.targets]
        self.parts = {name: [one for one in own if (one.query.split or "none") == name] for name in (*SPLITS, "none")}
        # of train only the relevant images are seen
        self.parts["train"] = (
            [replace(one, query=by_targets(one.query)) for one in self.parts["train"]] if recipe.learns else []
        )
        if recipe.learns and len(self.parts["train"]) < 2:
            raise DataError(f"{dataset.name} has too few queries on train to learn from", hint="name another --dataset")
        if recipe.learns and recipe.query != TEXT and not any(len(one.points) for one in self.parts["train"]):
            raise DataError(f"no query of {dataset.name} on train has a trace", hint="--set query=text")
        self.sources = TraceSources(recipe, ScoringOptions(options.workdir, self.device, recipe.precision), progress)
        if recipe.variant != DUAL:
            recipe = replace(recipe, encoder=self.sources.source.name)
        self.recipe, self.weights, self.start = recipe, self.sources.weights, None
        self.words: Sequence[str] = ()
        if recipe.variant == DUAL and recipe.query != TRACE:
            self.words = vocabulary_of((one.text for one in self.parts["train"]), most=recipe.vocabulary)
        if recipe.start:
            self.start = options.workdir / RUNS / recipe.start
            self.words = self.start_of(self.start).words or self.words
        judged = [one for part in self.parts.values() for one in part]
        self.pictures = query_pictures(dataset, [one.query for one in judged], options.workdir)
        # queries of a gallery have the same candidates, which are hashed once
        queries, sets = [replace(one.query, images=()) for one in own], [[one.id, one.images] for one in dataset.sets]
        received = sha256_of([queries, sets, sorted(self.pictures.contents.items())])
        self.parents = [parent_of(dataset, received)]
        if self.start is not None:
            self.parents.append(Parent(recipe.start, RUN, open_artifact(self.start, RUN).sha256))
        if self.sources.regions is not None:
            self.parents.append(Parent(recipe.regions, REGION_FEATURES, self.sources.regions.sha256))
        self.dataset, self.regions = dataset.name, recipe.regions
        self.encoder = "" if recipe.variant == DUAL else recipe.encoder
        self.queries = {name: len(part) for name, part in self.parts.items() if part}
        self.judged_on = "valid" if recipe.learns and self.parts["valid"] else ""

    def check(self) -> None:
        """Read every picture but those of train, or find the regions of all."""
        pictures = replace(self.pictures, regions=self.sources.regions)
        judged = [one.query for name, part in self.parts.items() if name != "train" for one in part]
        (pictures if pictures.regions is not None else pictures.of(judged)).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        recipe, sources, epoch = self.recipe, self.sources, 0
        model = sources.model(self.words, seed)
        if recipe.learns:
            if self.start is not None:
                self.fill_from(self.start, model, seed)
            examples, valid = self.table("train"), self.table("valid") if self.parts["valid"] else None
            if valid is None:
                self.progress.warn(
                    f"seed {seed}: there is nothing on valid to choose an epoch by, so the last epoch counts"
                )
            objective = partial(TracesObjective, recipe, examples, valid)
            epoch = train(model, len(self.parts["train"]), objective).best or 0
        notes = TracesCheckpoint(epoch, self.seed_key(seed), recipe, sources.weights, list(self.words))

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights) if recipe.learns else model.state_dict(), {})
            write_config(folder, notes)

        return save

    def table(self, split: str) -> TracedTable:
        """The queries of a split as arrays, with their images."""
        part = self.parts[split]
        return self.sources.table(part, self.pictures.of([one.query for one in part]), self.words)

    def start_of(self, folder: Path) -> TracesCheckpoint:
        """The first checkpoint of the run that this starts from. Raises UsageError where it is of another shape, or this very run."""
        if folder.resolve() == self.out.resolve():
            raise UsageError(f"the run {folder.name} cannot start from itself", hint="give it another --name")
        open_artifact(folder, RUN, "ctxr train --recipe traces-pretrain")
        notes: TracesCheckpoint = read_traces(folder / "seed0")
        for key in SHAPE:
            theirs, own = getattr(notes.recipe, key), getattr(self.recipe, key)
            if theirs != own:
                wanted = str(theirs).lower() if isinstance(theirs, bool) else theirs
                sentence = f"the run {folder.name} has {key} = {theirs}, and this one, which starts from it, has {own}"
                other = f"--set start=RUN   of the variant {own}"
                raise UsageError(sentence, hint=other if key == "variant" else f"--set {key}={wanted}")
        return notes

    def fill_from(self, start: Path, model: Model, seed: int) -> None:
        """Take the weights of the same seed of a run, or of its first; what that has not stays random."""
        same = start / f"seed{seed}"
        trained = load_file((same if (same / CONFIG).is_file() else start / "seed0") / WEIGHTS)
        try:
            model.load_state_dict({name: trained.get(name, value) for name, value in model.state_dict().items()})
        except RuntimeError as error:
            sentence = f"the run {start.name} was trained over regions or an encoder of another width"
            raise UsageError(sentence, hint="name those that it was trained over") from error

    def write_scores(self) -> list[str]:
        """R@1 of validation and test."""
        opened = OpenTraces(
            dict[str, Path | None](scorers_in(self.out)), self.recipe.encoder, self.sources.options, self.progress
        )
        rows = [
            RecallRow(scorer, split, self.MEASURE, first_rate(self.parts[split], scores))
            for split in ("valid", "test")
            for scorer, scores in opened.rescored(self.data, self.parts[split]).items()
        ]
        write_table(self.out / RECALLS, rows)
        return [RECALLS]

    def results(self) -> list[tuple[float | None, float | None]]:
        """R@1."""
        values = {(row.scorer, row.split): row.value for row in read_table(self.out / RECALLS, RecallRow)}
        return [(values.get((name, "valid")), values.get((name, "test"))) for name in scorers_in(self.out)]

    def models(self) -> dict[str, object]:
        """The models below."""
        return {name: {"name": name, "fingerprint": weights} for name, weights in self.sources.weights.items()}


def by_targets(query: EvalQuery) -> EvalQuery:
    """A query whose candidates are its relevant images."""
    images = tuple(query.images[at] for at in query.targets)
    return replace(query, images=images, targets=tuple(range(len(images))))


@dataclass(frozen=True)
class Opened:
    """A model in evaluation mode with what it was trained over, and vectors of the images that it saw, by their contents."""

    sources: TraceSources
    model: Model
    words: Sequence[str]
    seen: dict[object, Tensor] = field(default_factory=dict)

    def scores(self, dataset: Dataset, queries: Sequence[TracedQuery]) -> list[Array]:
        """Of the candidates of each query."""
        options, device = self.sources.options, self.sources.device
        run = TrainingRun(options.workdir, device=device, bf16=in_bf16(options.precision, device))
        pictures = query_pictures(dataset, [one.query for one in queries], options.workdir)
        table, key = self.sources.table(queries, pictures, self.words), tuple(pictures.contents.values())
        if key not in self.seen:
            self.seen[key] = table.vectors(self.model, IMAGES, AT_ONCE, run)
        return table.scores(table.vectors(self.model, QUERIES, AT_ONCE, run), self.seen[key])


@dataclass(frozen=True)
class OpenTraces(OpenScorer):
    """A run that scores the images of a query, or an encoder as it was published, by heat maps. Vectors of images are kept."""

    opened: dict[str, Opened] = field(default_factory=dict, repr=False, compare=False)

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Scores of some queries or all. Raises DataError for absent or unfit inputs, weights."""
        dataset, asked = examples
        queries = traced(queries_of(dataset, asked))
        return {
            scorer: {
                one.query.query: dict(zip(one.query.images, row.tolist(), strict=True))
                for one, row in zip(queries, scores, strict=True)
            }
            for scorer, scores in self.rescored(dataset, queries).items()
        }

    def rescored(self, dataset: Dataset, queries: Sequence[TracedQuery]) -> dict[str, list[Array]]:
        """Of each query, by scorer, the scores of its candidates in their order. Raises as `score`."""
        scores = {}
        for scorer in self.checkpoints if queries else ():
            if scorer not in self.opened:
                self.opened[scorer] = self.open_model(scorer)
            scores[scorer] = self.opened[scorer].scores(dataset, queries)
        return scores

    def open_model(self, scorer: str) -> Opened:
        """The model of a scorer. Raises DataError for weights that are other ones than it was trained with."""
        if (checkpoint := self.checkpoints[scorer]) is None:
            sources = TraceSources(
                TracesRecipe(variant=HEAT, encoder=self.encoder).check(), self.options, self.progress
            )
            return Opened(sources, sources.model(()).eval(), ())
        notes = read_traces(checkpoint)
        sources = TraceSources(notes.recipe, self.options, self.progress)
        if sources.weights != notes.weights:
            raise DataError(
                f"{checkpoint} was trained over other weights than {', '.join(sources.weights)}",
                hint="put those back that it was trained with, or train again: ctxr train",
            )
        model = sources.model(notes.words)
        fill(model, checkpoint / WEIGHTS, f"the model that {checkpoint / CONFIG} describes")
        return Opened(sources, model.eval(), notes.words)


job, open_run = TracesJob, OpenTraces.open
