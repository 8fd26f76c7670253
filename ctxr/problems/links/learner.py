"""How models learn which sentence of a document belongs to which image, and how they are opened to score documents."""

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
from ctxr.errors import DataError, UsageError, and_more
from ctxr.models.densenet import LABELS, NAME, DenseNet169
from ctxr.models.encoders import Encoder, find_source
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device, memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import read_object
from ctxr.models.scorers import trainable
from ctxr.models.training.checkpoint import CONFIG, TRAIN_AGAIN, fill, fingerprint_of, read_config, write_config
from ctxr.models.training.examples import Images, VectorTable
from ctxr.models.training.scoring import in_bf16, resolved
from ctxr.models.training.state import save_tensors
from ctxr.problems.embeddings import Array, PictureFiles, cached, embedded, picture_files, pixels_of
from ctxr.problems.links.objective import DocumentTable, LinksObjective, mean_auc
from ctxr.problems.links.recipe import CURVE, CurveRow, LinksRecipe
from ctxr.problems.links.towers import DocumentTowers
from ctxr.problems.links.words import read_word_vectors, token_rows, tokens_of, vocabulary_of
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.queries import EvalQuery
from ctxr.problems.runs import SCORES, scorers_in
from ctxr.problems.scoring import OpenScorer
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.arrays import load_array
from ctxr.store.artifacts import Parent
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import RUN, RUNS
from ctxr.store.records import Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table, write_table

WEIGHTS = "weights.safetensors"

AT_ONCE = 256
"""Sentences or images in one pass of scoring."""


class FeatureMatrix:
    """Features of images [N, D] in FILE.npy, and the row of each image in FILE.json beside it.

    Raises DataError for a file that holds something else.
    """

    def __init__(self, file: Path) -> None:
        self.files = file, file.with_suffix(".json")
        if not file.is_file():
            raise DataError(
                f"{file} is missing", hint="--set features=FILE.npy to train, --regions FILE.npy to evaluate"
            )
        self.values, self.rows = load_array(file, "a matrix of features"), read_object(self.files[1])
        if len(shape := self.values.shape) != 2 or self.values.dtype.kind not in "fiu":
            raise DataError(f"{file} is {self.values.dtype} {shape}, wanted a row of numbers for each image")
        if wrong := [name for name, row in self.rows.items() if type(row) is not int or not 0 <= row < shape[0]]:
            raise DataError(f"{self.files[1]}: {wrong[0]!r} has the row {self.rows[wrong[0]]!r} of {shape[0]}")

    def indices(self, images: Sequence[str]) -> list[int]:
        """The row of each image. Raises DataError for an image without features."""
        if lost := [image for image in images if image not in self.rows]:
            raise DataError(
                f"{self.files[1]} has no features of the image {lost[0]!r}{and_more(len(lost))}",
                hint="add its row, or --set features= for the image tower of the encoder",
            )
        return [self.rows[image] for image in images]

    def of(self, images: Sequence[str]) -> Array:
        """float32 [n, D]. Raises DataError for an image without features, or with some that are no numbers."""
        values = np.asarray(self.values[self.indices(images)], np.float32)
        if not (finite := np.isfinite(values).all(1)).all():
            raise DataError(f"{self.files[0]}: the features of {images[int(finite.argmin())]!r} are not finite")
        return values


class Sources:
    """What the inputs of documents come from, opened once; `options.regions` names other features than those of the recipe.

    Attributes:
        weights: fingerprints of the models among them, by name. width: of the vectors of images.
    """

    def __init__(self, recipe: LinksRecipe, options: ScoringOptions, progress: Progress) -> None:
        self.recipe, self.options, self.progress = recipe, options, progress
        self.device, features = choose_device(options.device), recipe.features and (options.regions or recipe.features)
        kind, _, weights = features.partition(":")
        self.net = DenseNet169(weights, self.device) if kind == NAME else None
        self.matrix = FeatureMatrix(Path(features)) if features and self.net is None else None
        self.source: Any = None
        if not features or recipe.text == "encoder":
            if makes_pairs(recipe.encoder):
                raise UsageError(f"{recipe.encoder} makes no vectors", hint="--set encoder=ViT-B-32:openai")
            self.source = find_source(recipe.encoder, progress.warn)
        self.weights = {} if self.net is None else {NAME: self.net.fingerprint}
        self.weights |= {} if self.source is None else {self.source.name: fingerprint_of(self.source)}
        of_net = DenseNet169.dim if recipe.learns else len(LABELS)
        self.width = int(self.matrix.values.shape[1]) if self.matrix else of_net if self.net else self.source.dim

    def pictures(self, documents: Sequence[Document], dataset: Dataset) -> PictureFiles:
        """The pictures of documents, none where features come from a matrix. Raises DataError for an image without either."""
        if self.matrix is not None:
            self.matrix.indices([image for one in documents for image in one.images])
            return PictureFiles({}, {}, self.options.workdir)
        queries = [EvalQuery(one.id, one.id, "", one.images, None, False, one.split) for one in documents]
        return picture_files(dataset, queries, self.options.workdir)

    def table(self, documents: Sequence[Document], dataset: Dataset, words: Sequence[str]) -> DocumentTable:
        """Documents as arrays. Raises what `pictures` raises."""
        pictures, texts = self.pictures(documents, dataset), [text for one in documents for text in one.texts]
        images = sorted({image for one in documents for image in one.images})
        row = {image: number for number, image in enumerate(images)}
        # one picture may have several ids
        same = {image: pictures.contents.get(image) or dataset.images[image].sha256 or image for image in images}
        marks = [[*(f"text {text}" for text in one.texts), *(same[image] for image in one.images)] for one in documents]
        number = {mark: number for number, mark in enumerate(dict.fromkeys(mark for own in marks for mark in own))}
        sentences, vectors = self._inputs(texts, images, pictures, words)
        return DocumentTable(
            documents,
            sentences,
            vectors,
            torch.split(torch.arange(len(texts)), [len(one.texts) for one in documents]),
            [torch.tensor([row[image] for image in one.images]) for one in documents],
            [torch.tensor([number[mark] for mark in own]) for own in marks],
        )

    def _inputs(
        self, texts: list[str], images: list[str], pictures: PictureFiles, words: Sequence[str]
    ) -> tuple[Tensor, Images]:
        """Tokens or vectors of sentences; pixels or vectors of images."""
        recipe, progress, source = self.recipe, self.progress, self.source
        if recipe.text == "gru":
            tokens, texts = torch.from_numpy(token_rows(texts, words, recipe.max_tokens)), []
        if not recipe.frozen:
            preprocess = Preprocess.from_config(source.build().visual.preprocess_cfg)
            pixels = pixels_of(pictures, preprocess, self.device, progress)
            return source.tokenize(texts) if texts else tokens, pixels
        if source is not None:
            own = replace(pictures, files={}, contents={}) if self.net or self.matrix else pictures
            encoder = Encoder(source, self.device, resolved(self.options.precision, self.device), progress.warn)
            vectors, sentences = embedded(own, texts, encoder, progress)
        if self.net is not None:
            vectors = self._features(self.net, pictures)
        elif self.matrix is not None:
            vectors = self.matrix.of(images)
        return torch.from_numpy(sentences) if texts else tokens, VectorTable(vectors)

    def _features(self, net: DenseNet169, pictures: PictureFiles) -> Array:
        contents, origin = list(pictures.contents.values()), {"weights": net.fingerprint, "what": NAME}
        with self.progress.task("embedding pictures", len(contents)) as task:
            make = cached(
                pictures.workdir, origin, contents, lambda part: net.encode_images(pictures.read(part)), task.advance
            )
        features = np.concatenate(make)
        return features if self.recipe.learns else net.objects(features, self.recipe.objects)

    def towers(self, widths: Sequence[int], words: Tensor | None, seed: int = 0) -> DocumentTowers:
        """Untrained towers; `seed` decides their first weights. Raises UsageError where vectors of both sides cannot be compared."""
        if not self.recipe.layers and widths[0] != widths[1]:
            raise UsageError(
                f"layers = 0 leaves vectors of images {widths[1]} wide, and those of sentences are {widths[0]} wide",
                hint=f"--set width={widths[1]}, or --set layers=1",
            )
        with torch.random.fork_rng(devices=[]), memory_for("two towers", self.device, "use a smaller width"):
            encoder = None if self.recipe.frozen else trainable(self.source.build)
            torch.manual_seed(seed)
            return DocumentTowers(self.recipe, (widths[0], widths[1]), words, encoder).to(self.device)


def first_vectors(words: Sequence[str], recipe: LinksRecipe, seed: int) -> Tensor:
    """Word vectors [V, D] before training: of a file, and for other words U(-.2, .2), or 0 where nothing is learned."""
    vectors, width = read_word_vectors(Path(recipe.words), words) if recipe.words else ({}, recipe.word_width)
    table = 0.4 * torch.rand(len(words), width, generator=torch.Generator().manual_seed(seed)) - 0.2
    table *= recipe.learns
    for row, word in enumerate(words):
        if word in vectors:
            table[row] = torch.from_numpy(vectors[word].copy())
    table[0] = 0
    return table


def label_vectors(vectors: Tensor, words: Sequence[str]) -> Tensor:
    """Of every class of ImageNet [N, D]: the mean vector of those words of its name that have one, else 0."""
    row = {word: number for number, word in enumerate(words)}
    parts = (vectors[[row[token] for token in tokens_of(label)]] for label in LABELS)
    return torch.stack([part.sum(0) / part.any(1).sum().clamp(min=1) for part in parts])


@dataclass(frozen=True)
class LinksCheckpoint:
    """How to build trained towers.

    Attributes:
        recipe: the fields of `LinksRecipe`. weights: fingerprints of the models below, by name.
        widths: of the vectors of sentences and images before they are projected, and of word vectors.
        epoch: the one that was chosen, from 1; 0 where nothing was trained. made_by: hash over what decided the training.
        words: the vocabulary, none for texts of an encoder.
    """

    recipe: dict[str, Any]
    weights: dict[str, str]
    widths: list[int]
    epoch: int
    made_by: str
    words: list[str]


def read_links(folder: Path) -> LinksCheckpoint:
    """The config of trained towers. Raises DataError where there is none."""
    notes = read_config(folder, LinksCheckpoint, "a training on documents")
    try:
        LinksRecipe(**notes.recipe).check()
    except (TypeError, UsageError) as error:
        raise DataError(f"{folder / CONFIG} is not a config of a training on documents", hint=TRAIN_AGAIN) from error
    return notes


def whole_documents(dataset: Dataset) -> list[Document]:
    """The documents of a dataset that have sentences. Raises DataError where it holds something else."""
    if not is_documents(dataset):
        raise DataError(f"{dataset.name} holds no documents", hint="ctxr build-documents   makes some")
    return [one for one in documents_of(dataset) if one.sentences]


class LinksJob(TrainJob):
    """Seeds that learn from documents, whose links are not read.

    Attributes:
        documents: by split. sources: of their inputs. pictures: of all of them. words: of the vocabulary.
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
        others = {
            "--text-only": options.text_only,
            "--image-only": options.image_only,
            "--judgments": options.judgments,
        }
        for name in filter(others.get, others):
            raise UsageError(f"{name} does not apply to the variant {recipe.variant!r}", hint=f"leave {name} out")
        self.progress, self.device, self.out = progress, choose_device(options.device), options.folder(RUNS)
        self.data = dataset = open_dataset(options.dataset, options.workdir, progress)
        everything = whole_documents(dataset)
        self.documents = {name: [one for one in everything if one.split == name] for name in ("train", "valid", "test")}
        self._require(recipe)
        everything = [one for part in self.documents.values() for one in part]
        self.sources = Sources(recipe, ScoringOptions(options.workdir, options.device, recipe.precision), progress)
        self.encoder = Path(recipe.features).name
        if self.sources.source is not None:
            self.encoder = self.sources.source.name
            recipe = replace(recipe, encoder=self.encoder)
        self.recipe, self.pictures = recipe, self.sources.pictures(everything, dataset)
        content = [[one.id, one.split, one.texts, one.images] for one in everything]
        self.parents = [parent_of(dataset, sha256_of([content, sorted(self.pictures.contents.items())]))]
        if self.sources.matrix is not None:
            files = self.sources.matrix.files
            self.parents.append(Parent(files[0].name, "features", sha256_of([sha256_file(file) for file in files])))
        if recipe.words:
            self.parents.append(Parent(Path(recipe.words).name, "words", sha256_file(Path(recipe.words))))
        texts = [text for one in self.documents["train"] or everything for text in one.texts]
        labels, least = ((), recipe.least_count) if recipe.learns else (LABELS, 1)
        self.words = vocabulary_of([*texts, *labels], least) if recipe.text == "gru" else ()
        if len(self.words) == 2:
            raise DataError(f"{dataset.name} has no word {least} times on train", hint="--set least_count=1")
        self.key, self.seeds = {"weights": self.sources.weights}, options.seeds if recipe.learns else 1
        self.dataset, self.queries = dataset.name, {name: len(part) for name, part in self.documents.items() if part}
        self.judged_on = "valid" if recipe.learns and len(self.documents["valid"]) > 1 else ""

    def _require(self, recipe: LinksRecipe) -> None:
        if recipe.learns and len(self.documents["train"]) < 2:
            raise DataError(
                f"{self.data.name} has {len(self.documents['train'])} documents on the train side, and learning compares them",
                hint="name another --dataset; the recipe links-zero-shot needs no training",
            )
        if not recipe.learns:
            self.documents["train"] = []
            if not self.documents["valid"] and not self.documents["test"]:
                raise DataError(f"{self.data.name} has no document on valid or test", hint="name another --dataset")
        if recipe.words and not Path(recipe.words).is_file():
            raise UsageError(f"there is no file {recipe.words} of word vectors", hint="--set words=FILE")

    def seed_key(self, seed: int) -> str:
        """Recipe, weights, seed and data."""
        parents = sorted(parent.sha256 for parent in self.parents)
        return sha256_of([self.decisive(), self.sources.weights, seed, parents])

    def check(self) -> None:
        """Read every picture but those of train, which are read before the first step."""
        judged: list[Any] = [*self.documents["valid"], *self.documents["test"]]
        if self.sources.matrix is None:
            self.pictures.of(judged).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        sources, recipe, epoch = self.sources, self.recipe, 0
        vectors = first_vectors(self.words, recipe, seed) if self.words else None
        word_width = 0 if vectors is None else vectors.shape[1]
        if vectors is not None and not recipe.learns:
            sources.recipe = recipe = replace(recipe, width=word_width)
        widths = [recipe.width if word_width else sources.source.dim, sources.width, word_width]
        model = sources.towers(widths, vectors, seed)
        if vectors is not None and not recipe.learns:
            model.name_objects(label_vectors(vectors, self.words))
        if recipe.learns:
            table = partial(sources.table, dataset=self.data, words=self.words)
            valid = table(self.documents["valid"]) if self.judged_on else None
            if valid is None:
                self.progress.warn(f"seed {seed}: fewer than two documents on valid, so the last epoch counts")
            objective = partial(LinksObjective, recipe, table(self.documents["train"]), valid)
            epoch = train(model, len(self.documents["train"]), objective).best or 0
        made_by, words = self.seed_key(seed), list(self.words)
        notes = LinksCheckpoint(asdict(recipe), sources.weights, widths, epoch, made_by, words)

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights) if recipe.learns else model.state_dict(), {})
            if recipe.learns:
                rows = [CurveRow(one.epoch, one.loss, *map(one.figures.get, ("loss", "auc"))) for one in train.epochs]
                write_table(folder / CURVE, rows)
            write_config(folder, notes)

        return save

    def write_scores(self) -> list[str]:
        """The cosine of every sentence and image of a document."""
        options = replace(self.sources.options, device=self.device)
        opened = OpenLinks(dict(scorers_in(self.out)), self.encoder, options, self.progress)
        write_scores(self.out / SCORES, opened.rows(self.data, [*self.documents["valid"], *self.documents["test"]]))
        return [SCORES]

    def results(self) -> list[tuple[float | None, float | None]]:
        """AUC of the links, mean over documents."""
        values = {(row.scorer, row.query, row.candidate): row.value for row in read_table(self.out / SCORES, Score)}

        def area(scorer: str, split: str) -> float | None:
            return mean_auc(
                (one, np.array([[values[scorer, query, image] for image in one.images] for query in one.sentences]))
                for one in self.documents[split]
            )

        return [(area(name, "valid"), area(name, "test")) for name in scorers_in(self.out)]

    def models(self) -> dict[str, Any]:
        """The models below."""
        return {name: {"name": name, "fingerprint": weights} for name, weights in self.sources.weights.items()}


class OpenLinks(OpenScorer):
    """A run that scores sentences and images of documents, or the cosines of an encoder as it was published."""

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Cosines by scorer, query and candidate, of some queries or of all.

        Raises DataError for pictures, features or weights that do not exist or do not fit.
        """
        dataset, queries = examples
        asked = [one for one in whole_documents(dataset) if queries is None or not {*one.sentences}.isdisjoint(queries)]
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in self.rows(dataset, asked):
            if queries is None or row.query in queries:
                values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        return values

    def rows(self, dataset: Dataset, documents: Sequence[Document]) -> list[Score]:
        """A score for every sentence with every image of its document, by scorer."""
        return [
            Score(query, image, scorer, value)
            for scorer, checkpoint in self.checkpoints.items()
            for one, (sentences, images) in zip(documents, self._vectors(checkpoint, dataset, documents), strict=True)
            for query, row in zip(one.sentences, (sentences @ images.T).tolist(), strict=True)
            for image, value in zip(one.images, row, strict=True)
        ]

    def vectors(self, dataset: Dataset, documents: Sequence[Document]) -> list[tuple[Array, Array]]:
        """Unit vectors of the sentences [n, D] and images [m, D] of each document, by the first scorer."""
        pairs = self._vectors(next(iter(self.checkpoints.values())), dataset, documents)
        return [(sentences.numpy(), images.numpy()) for sentences, images in pairs]

    def _vectors(
        self, checkpoint: Path | None, dataset: Dataset, documents: Sequence[Document]
    ) -> list[tuple[Tensor, Tensor]]:
        model, sources, words = self._opened(checkpoint)
        vectors, bf16 = dict[str, tuple[Tensor, Tensor]](), in_bf16(self.options.precision, sources.device)
        with self.progress.task("scoring", len(documents)) as task:
            # split by split, as they are embedded for a training
            for split in dict.fromkeys(one.split for one in documents):
                table = sources.table([one for one in documents if one.split == split], dataset, words)
                for one, *rows in zip(table.documents, table.sentences, table.images, strict=True):
                    # each by itself: what stands beside it must not decide how its numbers round
                    sentences, images = (
                        table.unit_vectors(model, tower, own, at_once=AT_ONCE, device=sources.device, bf16=bf16)
                        for tower, own in enumerate(rows)
                    )
                    vectors[one.id] = sentences, images
                    task.advance(1)
        return [vectors[one.id] for one in documents]

    def _opened(self, checkpoint: Path | None) -> tuple[DocumentTowers, Sources, Sequence[str]]:
        """Towers in evaluation mode, what their inputs come from, and their vocabulary."""
        if checkpoint is None:
            recipe = LinksRecipe(variant="links-zero-shot", encoder=self.encoder, text="encoder", layers=0)
            sources = Sources(recipe, self.options, self.progress)
            return sources.towers([sources.width] * 2, None).eval(), sources, ()
        notes = read_links(checkpoint)
        sources = Sources(LinksRecipe(**notes.recipe), self.options, self.progress)
        if sources.weights != notes.weights or sources.width != notes.widths[1]:
            raise DataError(
                f"{checkpoint} was trained over other weights or features than {', '.join(sources.weights) or 'these'}",
                hint="put those back that it was trained with, or train again: ctxr train",
            )
        vectors = torch.zeros(len(notes.words), notes.widths[2]) if notes.words else None
        model = sources.towers(notes.widths, vectors)
        fill(model, checkpoint / WEIGHTS, f"the towers that {checkpoint / CONFIG} describes")
        return model.eval(), sources, notes.words


class LinksLearner:
    """See `Learner`."""

    Recipe: ClassVar[type[LinksRecipe]] = LinksRecipe
    job = LinksJob
    open_run = OpenLinks.open
