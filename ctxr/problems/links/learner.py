"""How models learn which sentence of a document belongs to which image, and how they are opened to score documents."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document, documents_of, is_documents
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.models.densenet import LABELS
from ctxr.models.precision import choose_device, memory_for
from ctxr.models.scorers import trainable
from ctxr.models.training.checkpoint import CONFIG, TRAIN_AGAIN, fill, read_config, write_config
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import save_tensors
from ctxr.problems.embeddings import Array
from ctxr.problems.links.inputs import Sources, first_vectors
from ctxr.problems.links.objective import LinksObjective, mean_auc, unit_vectors
from ctxr.problems.links.recipe import CURVE, CurveRow, LinksRecipe
from ctxr.problems.links.towers import DocumentTowers
from ctxr.problems.links.words import tokens_of, vocabulary_of
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.runs import SCORES, scorers_in
from ctxr.problems.scoring import OpenScorer
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import RUN, RUNS
from ctxr.store.records import Score
from ctxr.store.scores import read_scores, write_scores
from ctxr.store.tables import write_table

WEIGHTS, WORDS = "weights.safetensors", "vocabulary.json"
WHAT = "a training on documents"

AT_ONCE = 256
"""Sentences or images in one pass of scoring."""


@dataclass(frozen=True)
class LinksCheckpoint:
    """How to build trained towers.

    Attributes:
        recipe: the fields of `LinksRecipe`. weights: fingerprints of the models below, by name.
        widths: see `DocumentTowers`. word_width: of word vectors, 0 for none.
        epoch: the one that was chosen, from 1; 0 where nothing was trained. made_by: hash over what decided the training.
    """

    recipe: dict[str, Any]
    weights: dict[str, str]
    widths: list[int]
    word_width: int
    epoch: int
    made_by: str


def read_links(folder: Path) -> LinksCheckpoint:
    """The config of trained towers. Raises DataError where there is none."""
    notes = read_config(folder, LinksCheckpoint, WHAT)
    try:
        LinksRecipe(**notes.recipe).check()
    except (TypeError, UsageError) as error:
        raise DataError(f"{folder / CONFIG} is not a config of {WHAT}", hint=TRAIN_AGAIN) from error
    return notes


def _whole(dataset: Dataset) -> list[Document]:
    """The documents of a dataset that have sentences. Raises DataError where it holds something else."""
    if not is_documents(dataset):
        raise DataError(
            f"{dataset.name} holds no documents of sentences and images", hint="ctxr build-documents   makes some"
        )
    return [one for one in documents_of(dataset) if one.sentences]


class LinksJob(TrainJob):
    """Seeds that learn from documents, whose links are not read.

    Attributes:
        documents: by split. sources: of their inputs. words: of the vocabulary.
    """

    KIND: ClassVar[str] = RUN
    UNIT: ClassVar[str] = "documents"
    MEASURE: ClassVar[str] = "AUC"
    NOTE: ClassVar[str] = "of the links inside a document, mean over documents"

    checkpoint = staticmethod(read_links)
    recipe: LinksRecipe

    def __init__(self, options: Any, recipe: LinksRecipe, progress: Progress) -> None:
        """Resolve what is trained; `options` are those of `ctxr train`.

        Raises UsageError for options that make no sense, DataError for a dataset that cannot be trained on.
        """
        if options.text_only or options.image_only or options.judgments is not None:
            name = (
                "--judgments" if options.judgments is not None else f"--{'text' if options.text_only else 'image'}-only"
            )
            raise UsageError(f"{name} does not apply to the variant {recipe.variant!r}", hint=f"leave {name} out")
        self.device, self.progress = choose_device(options.device), progress
        dataset = self.data = open_dataset(options.dataset, options.workdir, progress)
        self.documents: dict[str, list[Document]] = {}
        for one in _whole(dataset):
            self.documents.setdefault(one.split or "", []).append(one)
        self.documents = {name: self.documents.get(name, []) for name in ("train", "valid", "test")}
        self._require(recipe)
        self.sources = Sources(recipe, ScoringOptions(options.workdir, options.device, recipe.precision), progress)
        if self.sources.source is not None:
            recipe = replace(recipe, encoder=self.sources.source.name)
        self.recipe = recipe
        everything = [one for part in self.documents.values() for one in part]
        self.pictures = self.sources.pictures(everything, dataset)
        content = [[one.id, one.split, one.texts, one.images] for one in everything]
        seen = sha256_of([content, sorted(self.pictures.contents.items())])
        self.parents = [parent_of(dataset, seen), *self.sources.parents()]
        self.words = self._words()
        self.key, self.seeds = {"weights": self.sources.weights}, options.seeds if recipe.learns else 1
        self.out, self.dataset = options.folder(RUNS), dataset.name
        self.encoder = recipe.encoder if recipe.encodes else Path(recipe.features).name
        self.queries = {name: len(part) for name, part in self.documents.items() if part}
        self.judged_on = "valid" if recipe.learns and len(self.documents["valid"]) > 1 else ""

    def _require(self, recipe: LinksRecipe) -> None:
        train, name = self.documents["train"], self.data.name
        if recipe.learns and len(train) < 2:
            raise DataError(
                f"{name} has {len(train)} documents on the train side, and they learn from each other",
                hint="name another --dataset; the recipe links-zero-shot needs no training",
            )
        if not recipe.learns:
            self.documents["train"] = []
            if not self.documents["valid"] and not self.documents["test"]:
                raise DataError(f"{name} has no document on the valid or test side", hint="name another --dataset")

    def _words(self) -> tuple[str, ...]:
        recipe, labels = self.recipe, () if self.recipe.learns else LABELS
        if recipe.text == "encoder":
            return ()
        parts = [self.documents["train"]] if recipe.learns else self.documents.values()
        texts = [text for part in parts for one in part for text in one.texts]
        return vocabulary_of([*texts, *labels], recipe.least_count if recipe.learns else 1)

    def seed_key(self, seed: int) -> str:
        """Recipe, weights, seed and data."""
        parents = sorted(parent.sha256 for parent in self.parents)
        return sha256_of([self.decisive(), self.sources.weights, seed, parents])

    def check(self) -> None:
        """Read every picture but those of train, which are read before the first step."""
        names = {image for split in ("valid", "test") for one in self.documents[split] for image in one.images}
        files, contents = self.pictures.files, self.pictures.contents
        few = {name: file for name, file in files.items() if name in names}
        replace(self.pictures, files=few, contents={name: contents[name] for name in few}).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        recipe, sources, epoch = self.recipe, self.sources, 0
        vectors = first_vectors(self.words, recipe, seed) if self.words else None
        word_width = 0 if vectors is None else vectors.shape[1]
        if vectors is not None and not recipe.learns:
            recipe = replace(recipe, width=word_width, layers=1)
        widths = [recipe.width if vectors is not None else sources.width, sources.width]
        model = new_towers(recipe, widths, vectors, sources, seed).to(self.device)
        if vectors is not None and not recipe.learns:
            model.name_objects(label_vectors(vectors, self.words))
        if recipe.learns:
            epoch = self._train(model, seed, train)
        notes = LinksCheckpoint(asdict(recipe), sources.weights, widths, word_width, epoch, self.seed_key(seed))

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights) if recipe.learns else model.state_dict(), {})
            write_bytes(folder / WORDS, json.dumps(self.words, indent=0).encode() + b"\n")
            if recipe.learns:
                rows = [CurveRow(one.epoch, one.loss, *map(one.figures.get, ("loss", "auc"))) for one in train.epochs]
                write_table(folder / CURVE, rows)
            write_config(folder, notes)

        return save

    def _train(self, model: DocumentTowers, seed: int, train: SeedTrainer) -> int:
        """The best epoch."""
        table = partial(self.sources.table, dataset=self.data, words=self.words)
        valid = table(self.documents["valid"]) if self.judged_on else None
        if valid is None:
            self.progress.warn(f"seed {seed}: valid has no two documents to choose an epoch by, so the last one counts")
        examples = table(self.documents["train"])
        return train(model, len(examples), partial(LinksObjective, self.recipe, examples, valid)).best or 0

    def write_scores(self) -> list[str]:
        """The cosine of every sentence and image of a document."""
        options = ScoringOptions(self.sources.options.workdir, self.device, self.recipe.precision)
        opened = OpenLinks(dict(scorers_in(self.out)), self.recipe.encoder, options, self.progress)
        judged = [one for split in ("valid", "test") for one in self.documents[split]]
        write_scores(self.out / SCORES, opened.rows(self.data, judged))
        return [SCORES]

    def results(self) -> list[tuple[float | None, float | None]]:
        """AUC of the links, mean over documents."""
        scores = read_scores(self.out / SCORES) if (self.out / SCORES).stat().st_size else {}

        def area(scorer: str, split: str) -> float | None:
            values = scores[scorer].values if scorer in scores else {}
            return mean_auc(
                (one, np.array([[values[name][image] for image in one.images] for name in one.sentences]))
                for one in self.documents[split]
            )

        return [(area(name, "valid"), area(name, "test")) for name in scorers_in(self.out)]

    def models(self) -> dict[str, Any]:
        """The models below."""
        return {name: {"name": name, "fingerprint": weights} for name, weights in self.sources.weights.items()}


def new_towers(
    recipe: LinksRecipe, widths: Sequence[int], words: Tensor | None, sources: Sources, seed: int = 0
) -> DocumentTowers:
    """Untrained towers; `seed` decides their first weights. Raises UsageError where vectors of both sides cannot be compared."""
    if not recipe.layers and widths[0] != widths[1]:
        raise UsageError(
            f"layers = 0 leaves vectors of images {widths[1]} wide, and those of sentences are {widths[0]} wide",
            hint=f"--set width={widths[1]}, or --set layers=1",
        )
    with torch.random.fork_rng(devices=[]), memory_for("two towers", sources.device, "use a smaller width"):
        encoder = trainable(sources.source.build) if not recipe.frozen else None
        torch.manual_seed(seed)
        return DocumentTowers(recipe, (widths[0], widths[1]), words, encoder)


def label_vectors(vectors: Tensor, words: Sequence[str]) -> Tensor:
    """Of every class of ImageNet [N, D]: the mean vector of those words of its name that have one, else 0."""
    row = {word: number for number, word in enumerate(words)}
    parts = (vectors[[row[token] for token in tokens_of(label)]] for label in LABELS)
    return torch.stack([part.sum(0) / part.any(1).sum().clamp(min=1) for part in parts])


class OpenLinks(OpenScorer):
    """A run that scores sentences and images of documents, or the cosines of an encoder as it was published."""

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Cosines by scorer, query and candidate, of some queries or of all.

        Raises DataError for pictures, features or weights that do not exist or do not fit.
        """
        dataset, queries = examples
        documents = [one for one in _whole(dataset) if queries is None or not {*one.sentences}.isdisjoint(queries)]
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in self.rows(dataset, documents):
            if queries is None or row.query in queries:
                values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        return values

    def vectors(self, dataset: Dataset, documents: Sequence[Document]) -> list[tuple[Array, Array]]:
        """Unit vectors of the sentences and of the images of each document, by an encoder as it was published."""
        device, (model, sources, words) = choose_device(self.options.device), self._opened(None)
        model, table = model.to(device).eval(), sources.table(documents, dataset, words)
        encode = partial(unit_vectors, model, table, at_once=AT_ONCE, device=device, bf16=False)
        sides = [
            [one.numpy() for one in torch.split(encode(tower, side.rows), side.starts.diff().tolist())]
            for tower, side in enumerate((table.sentences, table.images))
        ]
        return list(zip(*sides, strict=True))

    def rows(self, dataset: Dataset, documents: Sequence[Document]) -> list[Score]:
        """A score for every sentence with every image of its document, by scorer and split."""
        scores, device = [], choose_device(self.options.device)
        bf16 = in_bf16(self.options.precision, device)
        for scorer, checkpoint in self.checkpoints.items():
            model, sources, words = self._opened(checkpoint)
            model = model.to(device).eval()
            for split in dict.fromkeys(one.split for one in documents):
                part = [one for one in documents if one.split == split]
                table = sources.table(part, dataset, words)
                with self.progress.task("scoring", len(part)) as task:
                    for number, one in enumerate(part):
                        # each by itself: what stands beside it must not decide how its numbers round
                        rows = torch.tensor([number])
                        sentences, images = (
                            unit_vectors(
                                model, table, tower, ragged[rows][0], at_once=AT_ONCE, device=device, bf16=bf16
                            )
                            for tower, ragged in enumerate((table.sentences, table.images))
                        )
                        cosines = (sentences @ images.T).tolist()
                        scores += [
                            Score(query, image, scorer, value)
                            for query, row in zip(one.sentences, cosines, strict=True)
                            for image, value in zip(one.images, row, strict=True)
                        ]
                        task.advance(1)
        return scores

    def _opened(self, checkpoint: Path | None) -> tuple[DocumentTowers, Sources, tuple[str, ...]]:
        """Towers, what their inputs come from, and their vocabulary."""
        if checkpoint is None:
            recipe = LinksRecipe(variant="links-zero-shot", encoder=self.encoder, text="encoder", layers=0)
            sources = Sources(recipe, self.options, self.progress)
            return new_towers(recipe, [sources.width] * 2, None, sources), sources, ()
        notes = read_links(checkpoint)
        recipe = LinksRecipe(**notes.recipe)
        sources = Sources(recipe, self.options, self.progress)
        if sources.weights != notes.weights or sources.width != notes.widths[1]:
            raise DataError(
                f"{checkpoint} was trained over other weights or features ({', '.join(notes.weights) or recipe.features})",
                hint="put those back that it was trained with, or train again: ctxr train",
            )
        words = _read_words(checkpoint / WORDS)
        vectors = torch.zeros(len(words), notes.word_width) if words else None
        model = new_towers(recipe, notes.widths, vectors, sources)
        fill(model, checkpoint / WEIGHTS, f"the towers that {checkpoint / CONFIG} describes")
        return model, sources, words


def _read_words(file: Path) -> tuple[str, ...]:
    try:
        words = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DataError(f"{file} is not a list of words", hint=TRAIN_AGAIN)
    return tuple(words)


class LinksLearner:
    """See `Learner`."""

    Recipe: ClassVar[type[LinksRecipe]] = LinksRecipe
    job = LinksJob
    open_run = OpenLinks.open
