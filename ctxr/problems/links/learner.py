"""How models learn links in documents, and how they are opened to score documents."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document, documents_of, is_documents
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, and_more
from ctxr.models.encoders import Encoder, find_source
from ctxr.models.hub import LITE, MINILM, placeless
from ctxr.models.layers import seeded
from ctxr.models.precision import choose_device, memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import read_object
from ctxr.models.scorers import trainable
from ctxr.models.training.checkpoint import CONFIG, SeedConfig, fill, read_config, write_config
from ctxr.models.training.examples import Images, vector_table
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import save_tensors
from ctxr.models.words import token_rows, tokens_of, vocabulary_of
from ctxr.problems.embeddings import Array, PictureFiles, embedded_images, embedded_texts, pixels_of, query_pictures
from ctxr.problems.links import towers
from ctxr.problems.links.objective import DocumentTable, LinksObjective, mean_auc
from ctxr.problems.links.recipe import CURVE, CurveRow, LinksRecipe
from ctxr.problems.links.towers import LABELS, DenseNet169, DocumentTowers
from ctxr.problems.options import TrainOptions
from ctxr.problems.queries import EvalQuery
from ctxr.problems.runs import SCORES, ScoringOptions, scorers_in
from ctxr.problems.scorers import OpenScorer
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.arrays import load_array
from ctxr.store.artifacts import Parent
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.records import Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table, write_table

WEIGHTS, AT_ONCE = "weights.safetensors", 256
"""File of a seed; sentences or images in one pass of scoring."""


class FeatureMatrix:
    """Features [N, D] in FILE.npy, rows of images in FILE.json. Raises DataError for others."""

    def __init__(self, file: Path) -> None:
        self.files = file, file.with_suffix(".json")
        if not file.is_file():
            raise DataError(f"{file} is missing", hint="put the file back, or name another: --set features=FILE.npy")
        self.values, self.rows = load_array(file, "a matrix of features"), read_object(self.files[1])
        if len(self.values.shape) != 2 or self.values.dtype.kind not in "fiu":
            raise DataError(
                f"{file} is {self.values.dtype} {self.values.shape}, wanted a row of numbers for each image"
            )

    def __call__(self, images: Sequence[str]) -> Array:
        """float32 [n, D]. Raises DataError for an image without features, or with some that are not numbers."""
        rows: dict[str, Any] = {image: self.rows.get(image) for image in images}
        if lost := [one for one, row in rows.items() if type(row) is not int or not 0 <= row < len(self.values)]:
            raise DataError(
                f"{self.files[1]} names no row of {len(self.values)} for the image {lost[0]!r}{and_more(len(lost))}",
                hint="add its row, or --set features= for the image tower of the encoder",
            )
        values = np.asarray(self.values[[rows[image] for image in images]], np.float32)
        if not (finite := np.isfinite(values).all(1)).all():
            raise DataError(f"{self.files[0]}: the features of {images[int(finite.argmin())]!r} are not finite")
        return values


class Sources:
    """Inputs of documents; `weights`: fingerprints of its models, `width`: that of images."""

    def __init__(self, recipe: LinksRecipe, options: ScoringOptions, progress: Progress) -> None:
        self.recipe, self.options, self.progress = recipe, options, progress
        self.device, (kind, _, weights) = choose_device(options.device), recipe.features.partition(":")
        self.net: Any = DenseNet169(weights, self.device) if kind == towers.NAME else None
        self.matrix = FeatureMatrix(Path(recipe.features)) if recipe.features and self.net is None else None
        self.encoder: Any = None
        self.weights = {} if self.net is None else {towers.NAME: self.net.fingerprint}
        if not recipe.features or recipe.text == "encoder":
            self.source = find_source(recipe.encoder, progress.warn)
            precision = "bf16" if self.source.rounds and in_bf16(options.precision, self.device) else "fp32"
            self.encoder = Encoder(self.source, self.device, precision, progress.warn)
            self.weights[placeless(self.encoder.name)] = self.encoder.fingerprint
        self.texts = self.encoder
        if recipe.text == MINILM:
            self.texts = Encoder(find_source(LITE), self.device, "fp32", progress.warn)
            self.weights[MINILM] = self.texts.fingerprint
        of_net = DenseNet169.dim if recipe.learns else len(LABELS)
        self.width = int(self.matrix.values.shape[1]) if self.matrix else of_net if self.net else self.encoder.dim

    def pictures(self, documents: Sequence[Document], dataset: Dataset) -> PictureFiles:
        """The pictures of documents, none with a matrix. Raises what `query_pictures` raises."""
        queries = [EvalQuery(one.id, one.id, (), one.images, (), False, one.split) for one in documents]
        return query_pictures(dataset, queries if self.matrix is None else [], self.options.workdir)

    def table(self, documents: Sequence[Document], dataset: Dataset, words: Sequence[str]) -> DocumentTable:
        """Documents as arrays. Raises DataError for pictures or features that do not exist."""
        recipe, pictures = self.recipe, self.pictures(documents, dataset)
        texts = [text for one in documents for text in one.texts]
        if recipe.text == "gru":
            sentences: Array = token_rows(texts, words, recipe.max_tokens)
        elif recipe.frozen:
            sentences = embedded_texts(texts, self.options.workdir, self.texts, self.progress)
        else:
            sentences = np.asarray(self.source.tokenize(texts))
        ids, rows = np.unique([image for one in documents for image in one.images], return_inverse=True)
        images: list[str] = ids.tolist()
        if self.matrix is not None:
            inputs: Images = vector_table(self.matrix(images))
        elif not recipe.frozen:
            preprocess = Preprocess.from_config(self.source.build().visual.preprocess_cfg)
            inputs = pixels_of(pictures, preprocess, self.device, self.progress)
        else:
            vectors = embedded_images(pictures, self.net or self.encoder, self.progress)
            if self.net is not None and not recipe.learns:
                vectors = self.net.objects(vectors, recipe.objects)
            inputs = vector_table(vectors)
        # one picture may have several ids
        same = {image: pictures.contents.get(image) or dataset.images[image].sha256 or image for image in images}
        return DocumentTable(
            documents,
            (vector_table(sentences), inputs),
            (
                torch.split(torch.arange(len(texts)), [len(one.texts) for one in documents]),
                torch.split(torch.from_numpy(rows), [len(one.images) for one in documents]),
            ),
            [{*(f"text {text}" for text in one.texts), *(same[image] for image in one.images)} for one in documents],
        )

    def towers(self, words: Tensor | None, seed: int = 0) -> DocumentTowers:
        """Untrained towers, drawn by `seed`. Raises UsageError for towers of different widths."""
        recipe = self.recipe
        width = self.texts.dim if words is None else recipe.width if recipe.learns else words.shape[1]
        if not recipe.layers and width != self.width:
            raise UsageError(
                f"layers = 0 leaves vectors of images {self.width} wide, and those of sentences are {width} wide",
                hint=f"--set width={self.width}, or --set layers=1",
            )
        with seeded(seed), memory_for("two towers", self.device, "use a smaller width"):
            encoder = None if recipe.frozen else trainable(self.source.build)
            return DocumentTowers(recipe, (width, self.width), words, encoder).to(self.device)


def first_vectors(words: Sequence[str], recipe: LinksRecipe, seed: int) -> Tensor:
    """First word vectors [V, D]: of a file, others U(-.2, .2), without a file U(-.02, .02) as in the code; 0 where nothing is learned."""
    known = towers.read_word_vectors(Path(recipe.words), words) if recipe.words else {}
    width = next(map(len, known.values()), recipe.word_width)
    table = 2 * torch.rand(len(words), width, generator=torch.Generator().manual_seed(seed)) - 1
    table *= recipe.learns * (0.2 if recipe.words else 0.02)
    for row, word in enumerate(words):
        if word in known:
            table[row] = torch.from_numpy(known[word].copy())
    table[0] = 0
    return table


@dataclass(frozen=True)
class LinksCheckpoint(SeedConfig):
    """How to build trained towers.

    Attributes:
        weights: fingerprints of the models below, by name. word_width: of word vectors.
        words: the vocabulary, none for texts of an encoder.
    """

    recipe: LinksRecipe
    weights: dict[str, str]
    word_width: int
    words: list[str]


read_links = partial(read_config, kind=LinksCheckpoint, what="a training on documents")


def whole_documents(dataset: Dataset) -> list[Document]:
    """The documents of a dataset that have sentences. Raises DataError for anything else."""
    if not is_documents(dataset):
        raise DataError(f"{dataset.name} holds no documents", hint="ctxr build-documents   makes some")
    return [one for one in documents_of(dataset) if one.sentences]


class LinksJob(TrainJob):
    """Seeds that learn from `documents`, by split, whose links are not read; `words` is the vocabulary."""

    UNIT, MEASURE, NOTE = "documents", "AUC", "of the links inside a document, mean over documents"
    checkpoint = staticmethod(read_links)
    recipe: LinksRecipe

    def __init__(self, options: TrainOptions, recipe: LinksRecipe, progress: Progress) -> None:
        """Raises UsageError for options that make no sense, DataError for a dataset that cannot be learned from."""
        super().__init__(options, recipe, progress)
        self.data = dataset = open_dataset(options.dataset, options.workdir, progress)
        own = [one for one in whole_documents(dataset) if (one.split if recipe.learns else one.split != "train")]
        self.documents = {name: [one for one in own if (one.split or "none") == name] for name in (*SPLITS, "none")}
        if len(self.documents["train"] if recipe.learns else own) < 1 + recipe.learns:
            where = (
                "train, and learning compares at least two" if recipe.learns else "valid or test, or without a split"
            )
            raise DataError(
                f"{dataset.name} has too few documents on {where}",
                hint="pages and MMC4's files get splits from names such as train, valid and test; or name another --dataset",
            )
        if recipe.words and not Path(recipe.words).is_file():
            raise UsageError(f"there is no file {recipe.words} of word vectors", hint="--set words=FILE")
        self.sources = Sources(recipe, ScoringOptions(options.workdir, self.device, recipe.precision), progress)
        self.encoder = Path(recipe.features).name
        if self.sources.encoder is not None:
            self.encoder = self.sources.encoder.name
            recipe = replace(recipe, encoder=self.encoder)
        self.recipe, self.pictures = recipe, self.sources.pictures(own, dataset)
        content = [[one.id, one.split, one.texts, one.images] for one in own]
        self.parents = [parent_of(dataset, sha256_of([content, sorted(self.pictures.contents.items())]))]
        files = [("features", file) for file in (self.sources.matrix.files if self.sources.matrix else ())]
        files += [("words", Path(recipe.words))] if recipe.words else []
        self.parents += [Parent(file.name, kind, sha256_file(file)) for kind, file in files]
        texts = [text for one in self.documents["train"] or own for text in one.texts]
        labels, least = ((), recipe.least_count) if recipe.learns else (LABELS, 1)
        self.words = vocabulary_of([*texts, *labels], least) if recipe.text == "gru" else ()
        if len(self.words) == 2:
            raise DataError(f"{dataset.name} has no word {least} times on train", hint="--set least_count=1")
        self.weights = self.sources.weights
        self.dataset, self.queries = dataset.name, {name: len(part) for name, part in self.documents.items() if part}

    def check(self) -> None:
        """Read features, or all pictures but those of train, read before the first step."""
        if self.sources.matrix is not None:
            self.sources.matrix([image for part in self.documents.values() for one in part for image in one.images])
        else:
            judged: list[Any] = [one for split in ("valid", "test", "none") for one in self.documents[split]]
            self.pictures.of(judged).check(self.progress)

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        sources, recipe, epoch = self.sources, self.recipe, 0
        vectors = first_vectors(self.words, recipe, seed) if self.words else None
        model = sources.towers(vectors, seed)
        if recipe.learns:
            table = partial(sources.table, dataset=self.data, words=self.words)
            examples = table(self.documents["train"])
            valid = table(self.documents["valid"]) if self.documents["valid"] else None
            if valid is None or not valid.comparable(recipe.batch):
                valid = None
                self.progress.warn(f"seed {seed}: no two documents of valid can be compared, so the last epoch counts")
            if not examples.comparable(recipe.batch):
                self.progress.warn("all documents of train share images or sentences: nothing is compared or learned")
            objective = partial(LinksObjective, recipe, examples, valid)
            epoch = train(model, len(self.documents["train"]), objective).best or 0
        elif vectors is not None:
            # of each class of ImageNet the mean vector of words of its name that have one, else 0
            row = {word: number for number, word in enumerate(self.words)}
            parts = (vectors[[row[token] for token in tokens_of(label)]] for label in LABELS)
            means = torch.stack([part.sum(0) / part.any(1).sum().clamp(min=1) for part in parts])
            labels = {"weight": means.T, "bias": torch.zeros(vectors.shape[1])}
            [*model.projections[towers.IMAGES].children()][-1].load_state_dict(labels)
        word_width = 0 if vectors is None else vectors.shape[1]
        notes = LinksCheckpoint(epoch, self.seed_key(seed), recipe, sources.weights, word_width, list(self.words))

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights) if recipe.learns else model.state_dict(), {})
            if recipe.learns:
                rows = [CurveRow(one.epoch, one.loss, *map(one.figures.get, ("loss", "auc"))) for one in train.epochs]
                write_table(folder / CURVE, rows)
            write_config(folder, notes)

        return save

    def write_scores(self) -> list[str]:
        """The cosine of every sentence and image of a document."""
        opened = OpenLinks(scorers_in(self.out), self.encoder, self.sources.options, self.progress)
        judged = {
            query for split in ("valid", "test", "none") for one in self.documents[split] for query in one.sentences
        }
        values = opened.score((self.data, judged))
        rows = ((name, query, row) for name, own in values.items() for query, row in own.items())
        write_scores(self.out / SCORES, (Score(q, c, name, v) for name, q, row in rows for c, v in row.items()))
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

    def models(self) -> dict[str, object]:
        """The models below."""
        return {name: {"name": name, "fingerprint": weights} for name, weights in self.sources.weights.items()}


class OpenLinks(OpenScorer):
    """A run that scores sentences and images of documents, or the cosines of an encoder as it was published."""

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Cosines of some queries or all. Raises DataError for absent or unfit inputs, weights."""
        dataset, queries = examples
        documents = [
            one for one in whole_documents(dataset) if queries is None or not {*one.sentences}.isdisjoint(queries)
        ]
        return {
            scorer: {
                query: dict(zip(one.images, row, strict=True))
                for one, (sentences, images) in zip(documents, self.vectors(dataset, documents, scorer), strict=True)
                for query, row in zip(
                    one.sentences, (torch.from_numpy(sentences) @ torch.from_numpy(images).T).tolist(), strict=True
                )
                if queries is None or query in queries
            }
            for scorer in (self.checkpoints if documents else ())
        }

    def vectors(self, dataset: Dataset, documents: Sequence[Document], scorer: str = "") -> list[tuple[Array, Array]]:
        """Unit vectors of each document's sentences [n, D] and images [m, D], by a scorer or else the first."""
        checkpoint, vocabulary = self.checkpoints[scorer or next(iter(self.checkpoints))], list[str]()
        if checkpoint is None:
            recipe = LinksRecipe(variant="links-zero-shot", encoder=self.encoder, text="encoder", layers=0)
            sources = Sources(recipe, self.options, self.progress)
            model = sources.towers(None)
        else:
            notes = read_links(checkpoint)
            sources, vocabulary = Sources(notes.recipe, self.options, self.progress), notes.words
            if sources.weights != notes.weights:
                raise DataError(
                    f"{checkpoint} was trained over other weights than {', '.join(sources.weights) or 'none'}",
                    hint="put those back that it was trained with, or train again: ctxr train",
                )
            model = sources.towers(torch.zeros(len(vocabulary), notes.word_width) if vocabulary else None)
            fill(model, checkpoint / WEIGHTS, f"the towers that {checkpoint / CONFIG} describes")
        table, bf16 = sources.table(documents, dataset, vocabulary), in_bf16(self.options.precision, sources.device)
        pairs: list[tuple[Array, Array]] = []
        with self.progress.task("scoring documents", len(documents)) as task:
            # each by itself: what stands beside it must not decide how its numbers round
            for alone in torch.split(torch.arange(len(documents)), 1):
                ((sentences, images),) = table.unit_vectors(model.eval(), alone, AT_ONCE, sources.device, bf16)
                pairs.append((sentences.numpy(), images.numpy()))
                task.advance(1)
        return pairs


job, open_run = LinksJob, OpenLinks.open
