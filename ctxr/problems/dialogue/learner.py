"""How models learn which photo a dialogue leads to, each dialogue against the photos of its step, and how they are opened."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.models.encoders import EncoderSource, fingerprint
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.hub import placeless
from ctxr.models.layers import seeded
from ctxr.models.precision import memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import read_object
from ctxr.models.resnets import find_tower
from ctxr.models.scorers import trainable
from ctxr.models.training.checkpoint import CONFIG
from ctxr.models.words import token_rows
from ctxr.problems import embeddings
from ctxr.problems.dialogue import recipe as recipes
from ctxr.problems.dialogue.queries import TalkQuery, bm25_scores, labels_of, talk_queries
from ctxr.problems.dialogue.recipe import BM25, DUAL, SCAN, SHARER, VSE, ZERO_SHOT, DialogueRecipe
from ctxr.problems.dialogue.towers import TalkEncoder, WordAttention, text_ids
from ctxr.problems.embeddings import Array, PictureFiles
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.scorers import source_of
from ctxr.problems.two_towers import Inputs, OpenedTowers, OpenTowers, TowersJob, TowerSources, TwoTowers
from ctxr.store.tables import grouped


class TalkSources(TowerSources[TalkQuery]):
    """Inputs of dialogues and photos; `tuned`: in place of the encoder of the recipe."""

    recipe: DialogueRecipe
    asked = staticmethod(talk_queries)

    def __init__(
        self, recipe: DialogueRecipe, options: ScoringOptions, progress: Progress, tuned: EncoderSource | None = None
    ) -> None:
        super().__init__(recipe, options, progress)
        self.looks, self.reads_words = recipe.looks, recipe.variant in (VSE, SCAN)
        if recipe.variant == SCAN:
            self.regions = embeddings.named_regions(options.regions or recipe.regions, options.workdir, "SCAN")
        if recipe.encodes:
            self.source = tuned or find_tower(recipe.encoder, progress.warn)
            model, self.encoder_name = self.source.build(), self.source.name
            self.preprocess = Preprocess.from_config(model.visual.preprocess_cfg)
            self.weights[placeless(self.source.name)] = fingerprint(model, self.source.config, self.preprocess)
            self.recipe = replace(recipe, encoder=self.source.name)
        # of encoders that start from nothing, for few dialogues; a head is 32 wide
        untrained = ClassifierRecipe(width=32 * max(1, recipe.width // 32), text_layers=1, dropout=0.0)
        self.texts = {kind: find_text(name, untrained) for kind, name in recipe.texts.items()}
        self.weights |= {placeless(one.name): one.fingerprint for one in self.texts.values()}

    def model(self, words: Sequence[str], seed: int = 0) -> TwoTowers:
        """The untrained model, drawn by `seed`, for a vocabulary."""
        recipe = self.recipe
        tower: nn.Module | None = trainable(self.source.build).visual if recipe.tunes else None
        features = self.source.width if recipe.looks and self.regions is None else 0
        with seeded(seed), memory_for(f"a model of {recipe.variant}", self.device, "use smaller towers"):
            if recipe.variant in (DUAL, VSE):
                return TalkEncoder(recipe, tower, features, self.texts, len(words)).to(self.device)
            scan = self.regions and WordAttention(recipe, self.regions.features, len(words))
            return (scan or TwoTowers()).to(self.device)

    def pictures(self, dataset: Dataset, queries: Sequence[TalkQuery]) -> PictureFiles:
        """Those of queries with their labels; without files, each its own content, where none are looked at."""
        wanted = sorted({image for one in queries for image in one.query.images})
        absent = PictureFiles({}, dict(zip(wanted, wanted, strict=True)), self.options.workdir)
        pictures = super().pictures(dataset, queries) if self.looks else absent
        labels = {} if self.recipe.photo == recipes.IMAGE else labels_of(dataset)
        return replace(pictures, labels={image: ", ".join(labels.get(image, ())) for image in wanted})

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors [N, D], each computed once."""
        return torch.from_numpy(embeddings.embedded_texts(texts, self.options.workdir, self.encoder, self.progress))

    def read_of(self, one: TalkQuery) -> str:
        """The messages that are read, joined by blanks."""
        return " ".join(one.by_sharer if self.recipe.said == SHARER else one.said)

    def inputs(self, queries: Sequence[TalkQuery], words: Sequence[str]) -> Inputs:
        """Vectors of an encoder as it is, word pieces, or rows of words."""
        recipe, said = self.recipe, [self.read_of(one) for one in queries]
        if recipe.variant == ZERO_SHOT:
            table = self.vectors(said)
        elif recipe.variant == DUAL:
            table = text_ids(self.texts["text"], said, recipe.max_tokens)
        else:
            table = torch.from_numpy(token_rows(said, words, recipe.max_tokens))
        return lambda rows: (table[rows],)

    def images(self, pictures: PictureFiles) -> Inputs:
        """Regions; or pixels of a tower that learns, vectors of one that does not, with what is read of labels behind them."""
        if self.regions is not None:
            return self.region_rows(self.regions, pictures)
        parts = list[Any]()
        if self.recipe.tunes:
            parts.append(embeddings.pixels_of(pictures, self.preprocess, self.device, self.progress))
        elif self.looks:
            vectors = torch.from_numpy(embeddings.embedded_images(pictures, self.encoder, self.progress))
            parts.append(vectors.__getitem__)
        labels = [pictures.labels[image] for image in pictures.contents]
        if "label_text" in self.texts:
            parts.append(text_ids(self.texts["label_text"], labels, self.recipe.max_tokens).__getitem__)
        elif self.recipe.variant == ZERO_SHOT and self.recipe.photo != recipes.IMAGE:
            parts.append(self.vectors(labels).__getitem__)
        return lambda rows: tuple(part(rows) for part in parts)


class OpenedWords(OpenedTowers[TalkQuery]):
    """BM25 in place of a model."""

    def scores(self, dataset: Dataset, queries: Sequence[TalkQuery]) -> list[Array]:
        """See `OpenedTowers`."""
        labels, found = self.sources.pictures(dataset, queries).labels, dict[int, Array]()
        for images, rows in grouped((one.query.images, row) for row, one in enumerate(queries)).items():
            texts = [self.sources.read_of(queries[row]) for row in rows]
            found |= dict(zip(rows, bm25_scores([labels[image] for image in images], texts), strict=True))
        return [found[row] for row in range(len(queries))]


class OpenTalks(OpenTowers[TalkQuery]):
    """A run that scores photos by dialogues, or an encoder, as it was published or as a run of another problem tuned it."""

    RECIPE, SOURCES = DialogueRecipe, TalkSources
    PUBLISHED: ClassVar[Mapping[str, str]] = {"variant": ZERO_SHOT, "photo": recipes.IMAGE, "said": recipes.ALL}

    def open_model(self, scorer: str) -> OpenedTowers[TalkQuery]:
        """See `OpenTowers`."""
        checkpoint = self.checkpoints[scorer]
        if checkpoint is None or "recipe" in read_object(checkpoint / CONFIG):
            opened = super().open_model(scorer)
            by_words = opened.sources.recipe.variant == BM25
            return OpenedWords(opened.sources, opened.model, ()) if by_words else opened
        tuned: Any = source_of(checkpoint, self.encoder, self.progress)
        sources = TalkSources(self.published, self.options, self.progress, tuned)
        return OpenedTowers(sources, sources.model(()).eval(), ())


class DialogueJob(TowersJob[TalkQuery]):
    """Seeds that learn from dialogues, or from captions before them."""

    SHAPE = ("variant", "photo", "encoder", "frozen", "text", "label_text", "width", "embedded")
    SOURCES, OPEN = TalkSources, OpenTalks
    checkpoint = staticmethod(OpenTalks.notes)
    recipe: DialogueRecipe


job, open_run = DialogueJob, OpenTalks.open
