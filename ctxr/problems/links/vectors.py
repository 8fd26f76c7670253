"""Vectors of the images and sentences of documents by a published encoder, for what does not depend on a run."""

from collections.abc import Sequence

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document
from ctxr.engine.progress import Progress
from ctxr.models.encoders import load_encoder
from ctxr.problems.embeddings import Array, embedded, picture_files
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.queries import queries_of


def vectors_of_documents(
    dataset: Dataset, documents: Sequence[Document], encoder: str, options: ScoringOptions, progress: Progress
) -> list[tuple[Array, Array]]:
    """Unit vectors of the images [m, D] and sentences [n, D] of each document. Raises DataError where a picture does not exist."""
    sentences = queries_of(dataset, [name for one in documents for name in one.sentences])
    pictures = picture_files(dataset, sentences, options.workdir)
    model = load_encoder(encoder, options.device, warn=progress.warn)
    images, texts = embedded(pictures, [sentence.text for sentence in sentences], model, progress)
    of_image, of_text = (
        dict(zip(names, rows, strict=True))
        for names, rows in ((pictures.files, images), ((sentence.query for sentence in sentences), texts))
    )
    return [
        (np.stack([of_image[name] for name in one.images]), np.stack([of_text[name] for name in one.sentences]))
        for one in documents
    ]
