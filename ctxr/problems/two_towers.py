"""Models with a tower for queries and one for images: how they learn, each query against the others of its step, and how they are opened.

Letters: Q queries, N images, B queries of a step, n images of a step, M vectors of a query, D width, T words, V size of a vocabulary.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.models.encoders import Encoder, EncoderSource, find_source, fingerprint
from ctxr.models.hub import placeless
from ctxr.models.layers import seeded
from ctxr.models.precision import choose_device, device_kind, in_microbatches, memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import read_object
from ctxr.models.scorers import LARGEST_SCALE
from ctxr.models.training.checkpoint import CONFIG, SeedConfig, fill, read_config, write_config
from ctxr.models.training.examples import PositivePairs
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.models.training.recipe import HARDEST, SOFTMAX, Recipe
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import save_tensors
from ctxr.models.words import vocabulary_of
from ctxr.problems.embeddings import Array, PictureFiles, embedded_texts, named_regions, query_pictures
from ctxr.problems.galleries import RECALLS, RecallRow
from ctxr.problems.options import TrainOptions
from ctxr.problems.queries import EvalQuery
from ctxr.problems.ranked import AskedQuery, AskedT, first_rate
from ctxr.problems.runs import ScoringOptions, scorers_in
from ctxr.problems.scorers import OpenScorer, source_of
from ctxr.problems.training import UNJUDGED, SeedTrainer, TrainJob
from ctxr.store.artifacts import Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import REGION_FEATURES, RUN, RUNS
from ctxr.store.regions import RegionFeatures
from ctxr.store.tables import PAYLOADS, grouped, read_table, write_table

WEIGHTS, AT_ONCE = "weights.safetensors", 64
"""File of a seed; queries or images in one pass of scoring."""

IMAGES, QUERIES = 0, 1
"""Towers of a step."""

RecipeT = TypeVar("RecipeT", bound=Recipe)

Inputs = Callable[[Tensor], tuple[Tensor, ...]]
"""Of some rows, what a tower takes."""


class TwoTowers(nn.Module):
    """Vectors of queries and of images, and what a pair of these says: by default what comes in, of images the sum, and their product."""

    def images(self, *inputs: Any, **_: Any) -> Tensor:
        """Of what `TowerSources.images` gives."""
        return torch.stack(inputs).sum(0)

    def queries(self, *inputs: Any, **_: Any) -> Tensor:
        """Of what `TowerSources.inputs` gives."""
        return torch.as_tensor(*inputs)

    def match(self, queries: Tensor, images: Tensor) -> Tensor:
        """[n, N] of queries [n, D] and images [N, D]; of queries [n, M, D] the largest of M."""
        return queries @ images.T if queries.ndim == 2 else (queries @ images.T).amax(1)


@dataclass(frozen=True)
class TowerTable(Generic[AskedT]):
    """Queries and their images as what models take.

    Attributes:
        inputs, images: of some queries and of some images, by row, as the `queries` and `images` of a model take them.
        rows: of each image, by id; equal pictures share one.
    """

    queries: Sequence[AskedT]
    inputs: Inputs
    images: Inputs
    rows: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def targets(self) -> PositivePairs:
        """Rows of the relevant images of each query."""
        asked = enumerate(one.query for one in self.queries)
        pairs = ((row, self.rows[one.images[at]]) for row, one in asked for at in one.targets)
        return PositivePairs.of(pairs, len(self.queries))

    def encoded(self, model: TwoTowers, tower: int, rows: Tensor, device: str) -> Tensor:
        """Vectors of some images [n, D], or of some queries [n, D] or [n, M, D]."""
        encode, inputs = (model.images, self.images) if tower == IMAGES else (model.queries, self.inputs)
        return encode(*(part.to(device) for part in inputs(rows)))

    @torch.no_grad()
    def vectors(self, model: TwoTowers, tower: int, at_once: int, run: TrainingRun) -> Tensor:
        """As `encoded`, of all, float32 on the CPU, by a model in evaluation mode."""

        def encode(part: Tensor) -> Tensor:
            with torch.autocast(device_kind(run.device), torch.bfloat16, enabled=run.bf16):
                return self.encoded(model, tower, part, run.device).float().cpu()

        count = len(self.rows) if tower == IMAGES else len(self.queries)
        return torch.cat(in_microbatches(torch.arange(count), at_once, run.device, encode))

    @torch.no_grad()
    def scores(self, model: TwoTowers, queries: Tensor, images: Tensor) -> list[Array]:
        """What each query says of its candidates, by vectors of all."""
        scores = [np.zeros(0, np.float32)] * len(self.queries)
        for candidates, own in grouped((one.query.images, row) for row, one in enumerate(self.queries)).items():
            gallery = images[[self.rows[image] for image in candidates]]
            for row, values in zip(own, model.match(queries[own], gallery).numpy(), strict=True):
                scores[row] = values
        return scores


def both_ways(scores: Tensor, own: Tensor, relevant: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores [B, K] of each query with images, then of each query's image with queries, and the place [B] of the right one in each row.

    What is relevant beside the own image of a query, and beside the own query of an image, is -inf.

    Args:
        scores: [B, n] of different images. own: [B] which of them each query stands for. relevant: [B, n] which are right for it.
    """
    others = relevant & ~functional.one_hot(own, scores.shape[1]).bool()
    yield scores.masked_fill(others, -torch.inf), own
    same = relevant[:, own].T & ~torch.eye(len(own), dtype=torch.bool, device=own.device)
    yield scores[:, own].T.masked_fill(same, -torch.inf), torch.arange(len(own), device=own.device)


def contrastive_loss(scores: Tensor, own: Tensor, relevant: Tensor) -> Tensor:
    """Half the cross-entropies `both_ways`, mean over queries (What and where, Eq. 2 and 3, with a minus)."""
    to_image, to_query = (functional.cross_entropy(*one) for one in both_ways(scores, own, relevant))
    return (to_image + to_query) / 2


def hinge_loss(scores: Tensor, own: Tensor, relevant: Tensor, margin: float, hardest: bool) -> Tensor:
    """[margin - right + wrong]+ `both_ways`, mean over queries: of the highest wrong score (VSE++), or summed over all."""
    losses = []
    for table, right in both_ways(scores, own, relevant):
        short = (margin - table.gather(1, right[:, None]) + table).clamp(min=0)
        short = short.masked_fill(functional.one_hot(right, table.shape[1]).bool(), 0.0)
        losses.append((short.amax(1) if hardest else short.sum(1)).mean())
    return losses[0] + losses[1]


class TowersObjective(Objective[tuple[Tensor, Tensor], Tensor]):
    """Queries against the images of their step; of several relevant images one is drawn. Arguments as for `Objective`."""

    SPLITS, AVERAGES = False, True

    train: TowerTable[Any]
    valid: TowerTable[Any] | None

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Queries in random order; a last one that is alone has nothing to be compared with."""
        self._chance = generator
        return [step for step in super().batches(epoch, generator) if len(step) > 1]

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """Queries, and each image that they stand for once."""
        targets = self.train.targets
        images, own = torch.unique(targets.draw(rows, self._chance).images, return_inverse=True)
        facts = (own, targets.among(rows, images.expand(len(rows), -1)))
        yield Update(((Step((images, rows), len(rows), facts), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: tuple[Tensor, Tensor]) -> Tensor:
        """Vectors of images (tower 0) or queries (tower 1)."""
        return self.train.encoded(cast("TwoTowers", model), tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step[tuple[Tensor, Tensor]]) -> Tensor:
        """That of the whole step: by the `loss` of the recipe, where it has any."""
        images, queries = (one.float() for one in encoded)
        scores, recipe = cast("TwoTowers", model).match(queries, images), cast("Any", self.recipe)
        own, relevant = (fact.to(images.device) for fact in step.facts)
        if (kind := getattr(recipe, "loss", SOFTMAX)) == SOFTMAX:
            return contrastive_loss(scores, own, relevant)
        return hinge_loss(scores, own, relevant, recipe.margin, kind == HARDEST)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """R@1 of the validation queries, each among the images of its set."""
        if (table := self.valid) is None:
            return None
        scorer = cast("TwoTowers", model.eval())
        images, queries = (table.vectors(scorer, tower, micro_batch, self.run) for tower in (IMAGES, QUERIES))
        if not all(bool(one.isfinite().all()) for one in (images, queries)):
            raise FloatingPointError(f"the vectors of validation after epoch {epoch} are not finite")
        return first_rate(table.queries, table.scores(scorer, queries, images))

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Keep a learned scale within bounds."""
        if isinstance(scale := getattr(model, "scale", None), nn.Parameter):
            scale.clamp_(max=LARGEST_SCALE)


class TowerSources(Generic[AskedT]):
    """Inputs of queries and images, and models over them.

    Attributes:
        asked: all queries of a dataset, or those of some ids. find: the encoder of a name. CUT: changes in how it cuts pictures.
        inputs, images: of queries with a vocabulary, and of pictures without regions, what a model takes, by row.
        weights: fingerprints of the models below. regions: that images are seen as, if any.
        reads_words: whether texts are rows of a vocabulary, of the `vocabulary` of the recipe.
        opened, words: the model that scores, and its vocabulary. seen: vectors of the images that it saw, by their contents.
    """

    asked: Callable[..., list[AskedT]]
    inputs: Callable[..., Inputs]
    images: Callable[..., Inputs]
    find: Callable[..., EncoderSource] = staticmethod(find_source)
    CUT: ClassVar[Mapping[str, Any]] = {}
    source: EncoderSource
    opened: TwoTowers
    words: Sequence[str]
    regions: RegionFeatures | None = None
    reads_words = False

    def __init__(
        self, recipe: Any, options: ScoringOptions, progress: Progress, tuned: EncoderSource | None = None
    ) -> None:
        """`tuned`: in place of the encoder of the recipe. Raises what `named_regions` and `find` raise."""
        self.recipe, self.options, self.progress, self.seen = recipe, options, progress, dict[object, Tensor]()
        self.device, self.weights, named = choose_device(options.device), dict[str, str](), dict(recipe.inputs())
        if "regions" in named:
            self.regions = named_regions(options.regions or recipe.regions, options.workdir, recipe.variant)
        if "encoder" in named:
            self.source = source = tuned or self.find(recipe.encoder, progress.warn)
            self.recipe, model = replace(recipe, encoder=source.name), source.build()
            self.preprocess = replace(Preprocess.from_config(model.visual.preprocess_cfg), **self.CUT)
            self.weights[placeless(source.name)] = fingerprint(model, source.config, self.preprocess)
            self.keep(model.visual)

    def keep(self, tower: nn.Module) -> None:
        """What is needed of the image tower of the encoder as it is."""

    def build(self, words: int) -> TwoTowers:
        """The untrained model, for so many words."""
        return TwoTowers()

    def model(self, words: Sequence[str], seed: int = 0) -> TwoTowers:
        """The untrained model, drawn by `seed`, for a vocabulary."""
        advice = "use a smaller width or encoder"
        with seeded(seed), memory_for(f"a model of {self.recipe.variant}", self.device, advice):
            return self.build(len(words)).to(self.device)

    def open(self, words: Sequence[str] = (), checkpoint: Path | None = None) -> Self:
        """With the model of a checkpoint, by default the untrained one, to score. Raises what `fill` raises."""
        self.words, self.opened = words, self.model(words).eval()
        if checkpoint is not None:
            fill(self.opened, checkpoint / WEIGHTS, f"the model that {checkpoint / CONFIG} describes")
        return self

    def scores(self, dataset: Dataset, queries: Sequence[AskedT]) -> list[Array]:
        """What the open model says of the candidates of each query."""
        run = TrainingRun(self.options.workdir, device=self.device, bf16=in_bf16(self.options.precision, self.device))
        pictures = self.pictures(dataset, queries)
        table, key = self.table(queries, pictures, self.words), tuple(pictures.contents.values())
        if key not in self.seen:
            self.seen[key] = table.vectors(self.opened, IMAGES, AT_ONCE, run)
        return table.scores(self.opened, table.vectors(self.opened, QUERIES, AT_ONCE, run), self.seen[key])

    @cached_property
    def encoder(self) -> Encoder:
        """The `source` as it is."""
        return Encoder(self.source, self.device, "fp32", self.progress.warn)

    def vectors(self, texts: Sequence[str]) -> Array:
        """Unit vectors [N, D] by the `encoder`, kept on the disk."""
        return embedded_texts(texts, self.options.workdir, self.encoder, self.progress)

    def pictures(self, dataset: Dataset, queries: Sequence[AskedT]) -> PictureFiles:
        """Those of queries. Raises what `query_pictures` raises."""
        return query_pictures(dataset, [one.query for one in queries], self.options.workdir)

    def table(self, queries: Sequence[AskedT], pictures: PictureFiles, words: Sequence[str]) -> TowerTable[AskedT]:
        """Queries and their pictures as arrays. Raises DataError for a picture without regions, or one that cannot be read."""
        # one picture may have several ids: the row of the first is that of all
        firsts = {content: row for row, content in reversed([*enumerate(pictures.contents.values())])}
        rows = {image: firsts[content] for image, content in pictures.contents.items()}
        images = self.images(pictures) if self.regions is None else region_rows(self.regions, pictures)
        return TowerTable(queries, self.inputs(queries, words), images, rows)


def region_rows(regions: RegionFeatures, pictures: PictureFiles) -> Inputs:
    """Regions [n, R, F + BOX] of pictures. Raises DataError for one without."""
    contents = list(pictures.contents.values())
    regions.check(contents)
    return lambda rows: (torch.from_numpy(regions.of([contents[row] for row in rows.tolist()])),)


@dataclass(frozen=True)
class TowersCheckpoint(SeedConfig, Generic[RecipeT]):
    """How to build a trained model; `weights`: fingerprints of the models below, by name; `words`: the vocabulary, if any."""

    recipe: RecipeT
    weights: dict[str, str]
    words: list[str]


class TowersJob(TrainJob):
    """Seeds that learn from the queries of `parts`, by split; `words`: the vocabulary, `start`: run whose weights are the first ones.

    Attributes:
        SHAPE: keys in which a run has to agree with one that starts from it. OPEN: how runs of the problem are opened.
    """

    MEASURE, NOTE = "R@1", "each query among the images of its set"
    SHAPE: ClassVar[Sequence[str]]
    OPEN: ClassVar[type["OpenTowers"]]
    recipe: Any

    def __init__(self, options: TrainOptions, recipe: Any, progress: Progress) -> None:
        """Raises UsageError for options that make no sense, DataError for a dataset that cannot be learned from."""
        super().__init__(options, recipe, progress)
        self.data = dataset = open_dataset(options.dataset, options.workdir, progress)
        own = [one for one in self.OPEN.SOURCES.asked(dataset) if one.query.targets]
        self.parts = {name: [one for one in own if (one.query.split or "none") == name] for name in (*SPLITS, "none")}
        # of train only the relevant images are seen
        self.parts["train"] = [by_targets(one) for one in self.parts["train"]] if recipe.learns else []
        if recipe.learns and len(self.parts["train"]) < 2:
            splits = ", ".join(name for name, part in self.parts.items() if part) or "none"
            what = f"{dataset.name} has too few queries on train to learn from (splits: {splits})"
            raise DataError(what, hint="name another --dataset")
        scoring = ScoringOptions(options.workdir, self.device, recipe.precision)
        self.sources = self.OPEN.SOURCES(recipe, scoring, progress)
        self.recipe, self.weights, self.start = self.sources.recipe, self.sources.weights, None
        recipe, read = self.recipe, (one.text for one in self.parts["train"])
        self.words = [*vocabulary_of(read, most=recipe.vocabulary)] if self.sources.reads_words else []
        if recipe.start:
            self.start = options.workdir / RUNS / recipe.start
            self.words = self.start_of(self.start).words or self.words
        self.pictures = self.sources.pictures(dataset, [one for part in self.parts.values() for one in part])
        # queries of a gallery have the same candidates, which are hashed once
        queries, sets = [without_candidates(one.query) for one in own], [[one.id, one.images] for one in dataset.sets]
        labels = [sorted(self.pictures.labels.items())] if self.pictures.labels else []
        received = sha256_of([queries, sets, sorted(self.pictures.contents.items()), *labels])
        self.parents = [parent_of(dataset, received)]
        if self.start is not None:
            self.parents.append(Parent(recipe.start, RUN, open_artifact(self.start, RUN).sha256))
        if self.sources.regions is not None:
            self.parents.append(Parent(recipe.regions, REGION_FEATURES, self.sources.regions.sha256))
        self.dataset, self.regions = dataset.name, recipe.regions
        self.encoder = recipe.encoder if "encoder" in dict(recipe.inputs()) else ""
        self.queries = {name: len(part) for name, part in self.parts.items() if part}
        self.judged_on = "valid" if recipe.learns and self.parts["valid"] else ""

    def check(self) -> None:
        """Read every picture but those of train, or find the regions of all."""
        pictures = replace(self.pictures, regions=self.sources.regions)
        judged = [one.query for name, part in self.parts.items() if name != "train" for one in part]
        if pictures.files:
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
                self.progress.warn(f"seed {seed}: {UNJUDGED}")
            objective = partial(TowersObjective, recipe, examples, valid)
            epoch = train(model, len(self.parts["train"]), objective).best or 0
        notes = TowersCheckpoint(epoch, self.seed_key(seed), recipe, sources.weights, self.words)

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights) if recipe.learns else model.state_dict(), {})
            write_config(folder, notes)

        return save

    def table(self, split: str) -> TowerTable[Any]:
        """The queries of a split as arrays, with their images."""
        part = self.parts[split]
        return self.sources.table(part, self.pictures.of([one.query for one in part]), self.words)

    def start_of(self, folder: Path) -> TowersCheckpoint[Any]:
        """The first checkpoint of the run that this starts from. Raises UsageError where it is of another shape, or this very run."""
        if folder.resolve() == self.out.resolve():
            raise UsageError(f"the run {folder.name} cannot start from itself", hint="give it another --name")
        open_artifact(folder, RUN, f"ctxr train --name {folder.name}")
        notes = self.OPEN.notes(folder / "seed0")
        for key in self.SHAPE:
            theirs, own = getattr(notes.recipe, key), getattr(self.recipe, key)
            if theirs != own:
                wanted = str(theirs).lower() if isinstance(theirs, bool) else theirs
                sentence = f"the run {folder.name} has {key} = {theirs}, and this one, which starts from it, has {own}"
                other = f"--set start=RUN   of the variant {own}"
                raise UsageError(sentence, hint=other if key == "variant" else f"--set {key}={wanted}")
        return notes

    def fill_from(self, start: Path, model: nn.Module, seed: int) -> None:
        """Take the weights of a run's same seed, or its first; what it lacks stays random."""
        same = start / f"seed{seed}"
        trained = load_file((same if (same / CONFIG).is_file() else start / "seed0") / WEIGHTS)
        try:
            model.load_state_dict({name: trained.get(name, value) for name, value in model.state_dict().items()})
        except RuntimeError as error:
            sentence = f"the run {start.name} was trained over regions or an encoder of another width"
            raise UsageError(sentence, hint="name those that it was trained over") from error

    def write_scores(self) -> list[str]:
        """R@1 of validation and test."""
        checkpoints = dict[str, Path | None](scorers_in(self.out))
        opened = self.OPEN(checkpoints, self.recipe.encoder, self.sources.options, self.progress)
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


def by_targets(asked: AskedT) -> AskedT:
    """A query whose candidates are its relevant images."""
    query, images = asked.query, tuple(asked.query.images[at] for at in asked.query.targets)
    return replace(asked, query=replace(query, images=images, targets=tuple(range(len(images)))))


def without_candidates(query: EvalQuery) -> EvalQuery:
    """What belongs to a query alone, to be hashed."""
    own = {name: rows for name, rows in query.payload.items() if PAYLOADS[name].of in ("query", "text")}
    return replace(query, images=(), payload=own)


@dataclass(frozen=True)
class OpenTowers(OpenScorer):
    """A run that scores the images of a query, or an encoder, as it was published or as a run of another problem tuned it.

    Attributes:
        RECIPE: of the problem. PUBLISHED: its values for encoders. opened: by scorer.
    """

    RECIPE: ClassVar[Any]
    PUBLISHED: ClassVar[Mapping[str, str]]
    SOURCES: ClassVar[type[TowerSources[Any]]]
    opened: dict[str, TowerSources[Any]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def notes(cls, checkpoint: Path) -> TowersCheckpoint[Any]:
        """How to build the model of a checkpoint. Raises DataError for one of another problem."""
        kind: Any = TowersCheckpoint
        return read_config(checkpoint, kind[cls.RECIPE], "a training of two towers")

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Scores of some queries or all. Raises DataError for absent or unfit inputs, weights."""
        dataset, wanted = examples
        queries = self.SOURCES.asked(dataset, wanted)
        return {
            scorer: {
                one.query.query: dict(zip(one.query.images, row.tolist(), strict=True))
                for one, row in zip(queries, scores, strict=True)
            }
            for scorer, scores in self.rescored(dataset, queries).items()
        }

    def rescored(self, dataset: Dataset, queries: Sequence[AskedQuery]) -> dict[str, list[Array]]:
        """Of each query, by scorer, the scores of its candidates in order. Raises as `score`."""
        scores = {}
        for scorer in self.checkpoints if queries else ():
            if scorer not in self.opened:
                self.opened[scorer] = self.open_model(scorer)
            scores[scorer] = self.opened[scorer].scores(dataset, queries)
        return scores

    def open_model(self, scorer: str) -> TowerSources[Any]:
        """The model of a scorer. Raises DataError for weights other than those of its training."""
        checkpoint, options, progress = self.checkpoints[scorer], self.options, self.progress
        if checkpoint is None or "recipe" not in read_object(checkpoint / CONFIG):
            tuned: Any = checkpoint and source_of(checkpoint, self.encoder, progress)
            recipe = self.RECIPE(**self.PUBLISHED, encoder=self.encoder).check()
            return self.SOURCES(recipe, options, progress, tuned).open()
        notes = self.notes(checkpoint)
        sources = self.SOURCES(notes.recipe, options, progress)
        if sources.weights != notes.weights:
            raise DataError(
                f"{checkpoint} was trained over other weights than {', '.join(sources.weights)}",
                hint="put those back that it was trained with, or train again: ctxr train",
            )
        return sources.open(notes.words, checkpoint)


class WordTower(nn.Module):
    """Word vectors [V, D] under dropout of dimensions, then a GRU's last state (width 0: a sum)."""

    def __init__(self, words: Tensor, width: int, dropout: float) -> None:
        super().__init__()
        self.words, self.dropout = nn.Embedding(len(words), words.shape[1], padding_idx=0, _weight=words), dropout
        self.gru = nn.GRU(words.shape[1], width, batch_first=True) if width else None

    def forward(self, tokens: Tensor) -> Tensor:
        """[N, width] of rows of words [N, T], 0 behind the last of each."""
        lengths = (tokens > 0).sum(1)
        words = self.words(tokens[:, : int(lengths.max())])
        if self.gru is None:
            return torch.as_tensor(words.sum(1))
        words = words * functional.dropout(torch.ones_like(words[:, :1]), self.dropout, self.training)
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return torch.as_tensor(self.gru(packed)[1][0])
