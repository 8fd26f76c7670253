"""How models learn which photo a dialogue leads to, each dialogue against the photos of its step, and how they are opened."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from ctxr.datasets.dataset import Dataset
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.hub import placeless
from ctxr.models.resnets import find_tower
from ctxr.models.scorers import trainable
from ctxr.models.words import token_rows
from ctxr.problems import embeddings
from ctxr.problems.dialogue import recipe as recipes
from ctxr.problems.dialogue.queries import DialogueQuery, bm25_scores, dialogue_queries, object_labels
from ctxr.problems.dialogue.recipe import BM25, DUAL, SCAN, SHARER, VSE, ZERO_SHOT, DialogueRecipe
from ctxr.problems.dialogue.towers import DialogueEncoder, WordAttention, text_ids
from ctxr.problems.embeddings import Array, PictureFiles
from ctxr.problems.two_towers import Inputs, OpenTowers, TowersJob, TowerSources, TwoTowers
from ctxr.store.tables import grouped


class DialogueSources(TowerSources[DialogueQuery]):
    """Inputs of dialogues and photos."""

    recipe: DialogueRecipe
    asked, find = staticmethod(dialogue_queries), staticmethod(find_tower)

    def __init__(self, recipe: DialogueRecipe, *given: Any) -> None:
        super().__init__(recipe, *given)
        self.reads_words = recipe.variant in (VSE, SCAN)
        # of encoders that start from nothing, for few dialogues; a head is 32 wide
        untrained = ClassifierRecipe(width=32 * max(1, recipe.width // 32), text_layers=1, dropout=0.0)
        self.texts = {kind: find_text(name, untrained) for kind, name in recipe.texts.items()}
        self.weights |= {placeless(one.name): one.fingerprint for one in self.texts.values()}

    def build(self, words: int) -> TwoTowers:
        """See `TowerSources`."""
        recipe = self.recipe
        if self.regions is not None:
            return WordAttention(recipe, self.regions.features, words)
        if recipe.variant not in (DUAL, VSE):
            return super().build(words)
        tower: nn.Module | None = trainable(self.source.build).visual if recipe.tunes else None
        return DialogueEncoder(recipe, tower, self.source.width if recipe.looks else 0, self.texts, words)

    def pictures(self, dataset: Dataset, queries: Sequence[DialogueQuery]) -> PictureFiles:
        """Those of queries with their labels; without files, each its own content, where pictures are not read."""
        wanted = sorted({image for one in queries for image in one.query.images})
        absent = PictureFiles({}, dict(zip(wanted, wanted, strict=True)), self.options.workdir)
        pictures = super().pictures(dataset, queries) if self.recipe.looks else absent
        labels = {} if self.recipe.photo == recipes.IMAGE else object_labels(dataset)
        return replace(pictures, labels={image: ", ".join(labels.get(image, ())) for image in wanted})

    def read_of(self, one: DialogueQuery) -> str:
        """The messages that are read, joined by blanks."""
        return " ".join(one.by_sharer if self.recipe.said == SHARER else one.said)

    def inputs(self, queries: Sequence[DialogueQuery], words: Sequence[str]) -> Inputs:
        """Vectors of an encoder as it is, word pieces, or rows of words."""
        recipe, said = self.recipe, [self.read_of(one) for one in queries]
        if recipe.variant == ZERO_SHOT:
            table = torch.from_numpy(self.vectors(said))
        elif recipe.variant == DUAL:
            table = text_ids(self.texts["text"], said, recipe.max_tokens)
        else:
            table = torch.from_numpy(token_rows(said, words, recipe.max_tokens))
        return lambda rows: (table[rows],)

    def images(self, pictures: PictureFiles) -> Inputs:
        """Pixels of a tower that learns, vectors of one that does not, with what is read of labels behind them."""
        parts = list[Any]()
        if self.recipe.tunes:
            parts.append(embeddings.pixels_of(pictures, self.preprocess, self.device, self.progress))
        elif self.recipe.looks:
            vectors = torch.from_numpy(embeddings.embedded_images(pictures, self.encoder, self.progress))
            parts.append(vectors.__getitem__)
        labels = [pictures.labels[image] for image in pictures.contents]
        if "label_text" in self.texts:
            parts.append(text_ids(self.texts["label_text"], labels, self.recipe.max_tokens).__getitem__)
        elif self.recipe.variant == ZERO_SHOT and self.recipe.photo != recipes.IMAGE:
            parts.append(torch.from_numpy(self.vectors(labels)).__getitem__)
        return lambda rows: tuple(part(rows) for part in parts)

    def scores(self, dataset: Dataset, queries: Sequence[DialogueQuery]) -> list[Array]:
        """See `TowerSources`; BM25 needs no model."""
        if self.recipe.variant != BM25:
            return super().scores(dataset, queries)
        labels, found = self.pictures(dataset, queries).labels, dict[int, Array]()
        for images, rows in grouped((one.query.images, row) for row, one in enumerate(queries)).items():
            texts = [self.read_of(queries[row]) for row in rows]
            found |= dict(zip(rows, bm25_scores([labels[image] for image in images], texts), strict=True))
        return [found[row] for row in range(len(queries))]


class OpenDialogues(OpenTowers):
    """A run that scores photos by dialogues, or an encoder."""

    RECIPE, SOURCES = DialogueRecipe, DialogueSources
    PUBLISHED: ClassVar[Mapping[str, str]] = {"variant": ZERO_SHOT, "photo": recipes.IMAGE, "said": recipes.ALL}


class DialogueJob(TowersJob):
    """Seeds that learn from dialogues, or from captions before them."""

    SHAPE = ("variant", "photo", "encoder", "frozen", "text", "label_text", "width", "embedded")
    OPEN = OpenDialogues
    checkpoint = staticmethod(OpenDialogues.notes)
    recipe: DialogueRecipe


job, open_run = DialogueJob, OpenDialogues.open
