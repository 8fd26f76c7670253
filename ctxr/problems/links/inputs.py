"""Inputs of the towers: what an encoder, a network of images or a matrix of features says of documents."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, and_more, first_line
from ctxr.models.densenet import LABELS, NAME, DenseNet169
from ctxr.models.encoders import Encoder, find_source
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import read_object
from ctxr.models.training.checkpoint import fingerprint_of
from ctxr.models.training.examples import Images, VectorTable
from ctxr.models.training.scoring import resolved
from ctxr.problems.embeddings import Array, PictureFiles, cached, embedded, picture_files, pixels_of
from ctxr.problems.links.objective import DocumentTable, Ragged
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.links.words import read_word_vectors, token_rows
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.queries import EvalQuery
from ctxr.store.artifacts import Parent
from ctxr.store.hashing import sha256_file, sha256_of


class FeatureMatrix:
    """Features of images as a matrix [N, D] in FILE.npy and the row of each image in FILE.json beside it.

    Raises DataError for a file that holds something else.
    """

    def __init__(self, file: Path) -> None:
        self.files = (file, file.with_suffix(".json"))
        try:
            self.values: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(
                f"{file} cannot be read as a matrix: {first_line(error)}", hint="--set features=FILE.npy"
            ) from error
        self.rows = read_object(self.files[1])
        if self.values.ndim != 2 or self.values.dtype.kind not in "fiu":
            raise DataError(
                f"{file} is {self.values.dtype} {self.values.shape}, wanted a row of numbers for each image"
            )
        wrong = [name for name, row in self.rows.items() if type(row) is not int or not 0 <= row < len(self.values)]
        if wrong:
            raise DataError(
                f"{self.files[1]}: the row of {wrong[0]!r} is {self.rows[wrong[0]]!r}, and there are {len(self.values)}"
            )

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


class Sources:
    """What the inputs of documents come from, opened once.

    Attributes:
        weights: fingerprints of the models among them, by name. width: of the vectors of images.
    """

    def __init__(self, recipe: LinksRecipe, options: ScoringOptions, progress: Progress) -> None:
        """`options.regions` names other features than those of the recipe."""
        self.recipe, self.options, self.progress = recipe, options, progress
        self.device, features = choose_device(options.device), options.regions or recipe.features
        kind, _, weights = features.partition(":")
        self.net = DenseNet169(weights, self.device) if kind == NAME else None
        self.matrix = FeatureMatrix(Path(features)) if features and self.net is None else None
        self.source = _encoder(recipe, progress)
        self.weights = {} if self.net is None else {NAME: self.net.fingerprint}
        if self.source is not None:
            self.weights[self.source.name] = fingerprint_of(self.source)
        if self.net is not None:
            self.width: int = self.net.dim if recipe.learns else len(LABELS)
        else:
            self.width = self.matrix.values.shape[1] if self.matrix else self.source.dim

    def parents(self) -> Iterator[Parent]:
        """Files that decide what is learned."""
        if self.matrix is not None:
            digests = [sha256_file(file) for file in self.matrix.files]
            yield Parent(self.matrix.files[0].name, "features", sha256_of(digests))
        if self.recipe.words:
            file = Path(self.recipe.words)
            if not file.is_file():
                raise UsageError(f"there is no file {file} of word vectors", hint="--set words=FILE")
            yield Parent(file.name, "words", sha256_file(file))

    def pictures(self, documents: Sequence[Document], dataset: Dataset) -> PictureFiles:
        """The pictures of documents, none where features come from a matrix."""
        if self.matrix is not None:
            self.matrix.indices([image for one in documents for image in one.images])
            return PictureFiles({}, {}, self.options.workdir)
        queries = [EvalQuery(one.id, one.id, "", one.images, None, False, one.split) for one in documents]
        return picture_files(dataset, queries, self.options.workdir)

    def table(self, documents: Sequence[Document], dataset: Dataset, words: Sequence[str]) -> DocumentTable:
        """Documents as arrays. Raises DataError for an image without a picture or without features."""
        pictures = self.pictures(documents, dataset)
        images = sorted({image for one in documents for image in one.images})
        texts = [text for one in documents for text in one.texts]
        row = {image: number for number, image in enumerate(images)}
        # equal pictures may have several ids
        same = {image: pictures.contents.get(image) or dataset.images[image].sha256 or image for image in images}
        marks = [[*(f"text {text}" for text in one.texts), *(same[image] for image in one.images)] for one in documents]
        number = {mark: number for number, mark in enumerate(dict.fromkeys(mark for own in marks for mark in own))}
        count = iter(range(len(texts)))
        sentences, vectors = self._inputs(texts, images, pictures, words)
        return DocumentTable(
            documents,
            sentences,
            vectors,
            Ragged.of([[next(count) for _ in one.texts] for one in documents]),
            Ragged.of([[row[image] for image in one.images] for one in documents]),
            Ragged.of([[number[mark] for mark in own] for own in marks]),
        )

    def _inputs(
        self, texts: list[str], images: list[str], pictures: PictureFiles, words: Sequence[str]
    ) -> tuple[Tensor, Images]:
        recipe, progress, by_encoder = self.recipe, self.progress, self.net is None and self.matrix is None
        if self.source is not None and recipe.frozen:
            encoder = Encoder(self.source, self.device, resolved(self.options.precision, self.device), progress.warn)
            pictures_of_encoder = pictures if by_encoder else PictureFiles({}, {}, pictures.workdir)
            spoken = texts if recipe.text == "encoder" else []
            vectors, text_vectors = embedded(pictures_of_encoder, spoken, encoder, progress)
            sentences: Any = torch.from_numpy(text_vectors)
        elif self.source is not None:
            preprocess = Preprocess.from_config(self.source.build().visual.preprocess_cfg)
            pixels = pixels_of(pictures, preprocess, self.device, progress)
            sentences = self.source.tokenize(texts) if recipe.text == "encoder" else None
        if recipe.text == "gru":
            sentences = torch.from_numpy(token_rows(texts, words, recipe.max_tokens))
        if not recipe.frozen:
            return sentences, pixels
        if self.matrix is not None:
            vectors = self.matrix.of(images)
        elif self.net is not None:
            vectors = self._features(self.net, pictures)
        return sentences, VectorTable(vectors)

    def _features(self, net: DenseNet169, pictures: PictureFiles) -> Array:
        origin = {"weights": net.fingerprint, "what": NAME}
        with self.progress.task("embedding pictures", len(pictures.contents)) as task:
            arrays = cached(
                pictures.workdir, origin, list(pictures.contents.values()),
                lambda part: net.encode_images(pictures.read(part)), task.advance,
            )  # fmt: skip
        features = np.concatenate(arrays)
        return features if self.recipe.learns else net.objects(features, self.recipe.objects)


def _encoder(recipe: LinksRecipe, progress: Progress) -> Any:
    if not recipe.encodes:
        return None
    if makes_pairs(recipe.encoder):
        raise UsageError(f"{recipe.encoder} makes no vectors of texts", hint="--set encoder=ViT-B-32:openai")
    with progress.task(f"opening {recipe.encoder}", None):
        return find_source(recipe.encoder, progress.warn)
