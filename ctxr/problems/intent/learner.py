"""How models that tell when a photo is shared are trained and opened.

Letters: B dialogues up to a turn, T tokens or turns, V texts, D width.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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
from ctxr.datasets.talks import SharedTalk, talks_of
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.metrics.entailment import best_threshold
from ctxr.metrics.votes import Doubles
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.entailment.text import BertBranch, bert_folder, frozen_text_source
from ctxr.models.layers import seeded
from ctxr.models.precision import choose_device
from ctxr.models.published import careful, fingerprint_of, load, vocabulary_hash
from ctxr.models.training.checkpoint import SeedConfig, fill, read_config, write_config
from ctxr.models.training.loop import Objective, Step
from ctxr.models.training.state import save_tensors
from ctxr.problems.embeddings import cached
from ctxr.problems.intent.recipe import APART, HALF, WRITTEN, IntentRecipe
from ctxr.problems.options import TrainOptions
from ctxr.problems.runs import SCORES, THRESHOLDS, OpenRun, ScoringOptions, scorers_in
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.arrays import stack_vectors
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Score
from ctxr.store.scores import write_scores

PROMPT, BETWEEN, LABELS = "predict share intent:", "[SEP]", ("no", "yes")
"""What T5 reads before and between turns, and what it learns to write: the paper does not name these words."""

HIDDEN, DROPOUT = 128, 0.1
"""Width of the layer over [CLS] (section 6.1) and of the GRU; dropout of vectors of turns."""

CHUNK, WEIGHTS, THRESHOLD = 128, "weights.safetensors", "threshold"


class TurnReader(NamedTuple):
    """How a dialogue becomes at most `most` numbers above 0: the `pieces` of each text, and `marks` before, between and behind texts.

    `build`: the model of numbers and speakers [B, T], to log-probabilities [B, 2] that no photo, and that a photo comes next.
    """

    fingerprint: str
    pieces: Mapping[str, Sequence[int]]
    build: Callable[[], nn.Module]
    most: int
    marks: Sequence[Sequence[int]] = ((), (), ())

    def row(self, talk: SharedTalk, turns: int) -> Tensor:
        """Numbers and speakers [T, 2] of the first turns; what is too long loses its beginning."""
        said = [
            (number, max(user, 0))
            for place, (text, user) in enumerate(zip(talk.texts[:turns], talk.users, strict=False))
            for number in (*(self.marks[1] if place else ()), *self.pieces[text])
        ]
        before, _, after = ([(number, 0) for number in own] for own in self.marks)
        return torch.tensor([*before, *said[-max(1, self.most - len(before + after)) :], *after])


class TalkTable:
    """Dialogues up to each turn as rows, those of a dialogue in one of `spans`; `label` [N] is 1 where the photo comes next."""

    def __init__(self, reader: TurnReader, talks: Sequence[SharedTalk], device: str) -> None:
        self.reader, self.device = reader, device
        self.rows = [(talk, turn) for talk in talks for turn in range(1, len(talk.texts) + 1)]
        self.label = torch.tensor([int(turn == len(talk.texts)) for talk, turn in self.rows], device=device)
        self.spans = torch.split(torch.arange(len(self.rows)), [len(talk.texts) for talk in talks])

    def __len__(self) -> int:
        return len(self.rows)

    def asked(self, model: nn.Module, rows: Tensor) -> Tensor:
        """What the model says of some rows, [B, 2]."""
        read = pad_sequence([self.reader.row(*self.rows[row]) for row in rows.tolist()], batch_first=True)
        return model(*read.to(self.device).unbind(-1))  # type: ignore[no-any-return]

    @torch.no_grad()
    def probabilities(self, model: nn.Module) -> list[Doubles]:
        """That the photo comes next, [T] of each dialogue: each by itself, so that no digit depends on what else is asked."""
        model.eval()
        return [self.asked(model, rows).softmax(-1)[:, 1].double().cpu().numpy() for rows in self.spans]


class IntentModel(nn.Module):
    """What a `head` makes of what a `branch` makes of numbers and speakers: log-probabilities, of which no and yes are `taken`."""

    def __init__(self, branch: nn.Module, head: nn.Module, taken: Sequence[int] = (0, 1)) -> None:
        super().__init__()
        self.branch, self.head, self.taken = branch, head, list(taken)

    def forward(self, numbers: Tensor, users: Tensor) -> Tensor:
        """[B, 2] of [B, T]."""
        return functional.log_softmax(self.head(self.branch(numbers, users)).float(), -1)[:, self.taken]


class _FirstToken(nn.Module):
    """What T5 writes first, as logits; it is not told who speaks."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, numbers: Tensor, users: Tensor) -> Tensor:
        begun = torch.full_like(numbers[:, :1], self.model.config.decoder_start_token_id)
        written = self.model(input_ids=numbers, attention_mask=(numbers != 0).long(), decoder_input_ids=begun)
        return written.logits[:, 0]  # type: ignore[no-any-return]


class _Turns(nn.GRU):
    """A GRU over vectors [V, D] of turns with their speakers; the vectors do not learn."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__(vectors.shape[1] + 1, HIDDEN, batch_first=True)
        self.register_buffer("vectors", vectors, persistent=False)

    def forward(self, numbers: Tensor, users: Tensor) -> Tensor:  # type: ignore[override]
        turns = functional.dropout(self.get_buffer("vectors")[numbers], DROPOUT, self.training)
        states = super().forward(torch.cat([turns, 2.0 * users[..., None] - 1], -1))[0]
        return states[range(len(states)), (numbers != 0).sum(1) - 1]


def open_reader(
    recipe: IntentRecipe, talks: Sequence[SharedTalk], options: ScoringOptions, progress: Progress
) -> TurnReader:
    """The reader of a recipe for some dialogues. Raises DataError for a model that does not fit, and what `find_text` raises."""
    texts = sorted({text for talk in talks for text in talk.texts})
    if recipe.variant != APART:
        return _published(recipe, texts)
    source = frozen_text_source(find_text(recipe.text, ClassifierRecipe()), options.device)

    def read(part: slice) -> np.ndarray:
        return np.asarray(source.tokenize(texts[part], [""] * len(texts[part])).ids.numpy())

    with progress.task("reading turns", len(texts)) as task:
        origin, contents = {"turns": source.fingerprint, "device": options.device}, [sha256_of(text) for text in texts]
        arrays = cached(options.workdir, origin, contents, read, task.advance, chunk=CHUNK)
    vectors = torch.from_numpy(np.pad(stack_vectors(arrays, source.width), ((1, 0), (0, 0))))
    rows = {text: [row] for row, text in enumerate(texts, start=1)}
    return TurnReader(source.fingerprint, rows, lambda: IntentModel(_Turns(vectors), nn.Linear(HIDDEN, 2)), len(texts))


def _published(recipe: IntentRecipe, texts: Sequence[str]) -> TurnReader:
    """BERT, ALBERT or T5 in a folder; nothing in it is run."""
    from transformers import AutoModel, AutoTokenizer, T5ForConditionalGeneration

    folder, writes = bert_folder(recipe.text), recipe.variant == WRITTEN
    kind = T5ForConditionalGeneration if writes else AutoModel

    @careful(f"the model {recipe.text!r}")
    def opened() -> tuple[Any, Any]:
        model = load(kind, folder, spare=("position", "pooler", "lm_head", "embed_tok"))
        model.pooler = None  # never used, and random where the folder has none
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False), model

    def build() -> nn.Module:
        model = opened()[1]
        if writes:
            return IntentModel(_FirstToken(model), nn.Identity(), labels)
        # the paper names no function between its layers
        head = nn.Sequential(nn.Linear(model.config.hidden_size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        return IntentModel(BertBranch(model), head)

    def read(part: Sequence[str]) -> list[list[int]]:
        return tokenizer([*part], add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]

    tokenizer, model = opened()
    pieces, labels = dict(zip(texts, read(texts), strict=True)), [row[0] for row in read(LABELS) if row]
    marks = [[tokenizer.cls_token_id], [tokenizer.sep_token_id], []]
    if writes:
        marks = [*read([PROMPT, BETWEEN]), [tokenizer.eos_token_id]]
    strange = writes and len({*labels} - {tokenizer.unk_token_id}) < len(LABELS)
    if strange or tokenizer.pad_token_id != 0 or [None] in marks:
        raise DataError(f"{folder} pads with another token than 0, or lacks [CLS], [SEP], or {' and '.join(LABELS)}")
    most = min(recipe.max_tokens, getattr(model.config, "max_position_embeddings", recipe.max_tokens))
    about = json.dumps([model.config.to_dict() | {"_name_or_path": ""}, vocabulary_hash(tokenizer)], default=str)
    return TurnReader(fingerprint_of(model.state_dict(), about.encode()), pieces, build, most, marks)


class IntentObjective(Objective[None, tuple[Tensor, Tensor]]):
    """Cross-entropy, with a weight on turns before a photo; F1 on valid, at its best threshold, chooses the epoch."""

    recipe: IntentRecipe
    train: TalkTable
    valid: TalkTable | None

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: None) -> tuple[Tensor, Tensor]:
        """Log-probabilities and labels."""
        return self.train.asked(model, rows), self.train.label[rows]

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Tensor, Tensor]], step: Step[None]) -> Tensor:
        """Summed over a pass."""
        weights = torch.tensor([1.0, self.recipe.positive_weight], device=self.train.device)
        return functional.nll_loss(*encoded[0], weights, reduction="sum")

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """F1 on valid."""
        if self.valid is None:
            return None
        values = np.concatenate(self.valid.probabilities(model))
        if not np.isfinite(values).all():
            raise FloatingPointError(f"the probabilities on valid after epoch {epoch} are not finite")
        threshold, f1 = best_threshold(self.valid.label.cpu().numpy() == 1, values)
        self.figures = {"F1": f1, THRESHOLD: threshold}
        return f1


@dataclass(frozen=True)
class IntentCheckpoint(SeedConfig):
    """How to build a trained model: `fingerprint` is of the model of texts; `threshold` has the highest F1 on valid."""

    recipe: IntentRecipe
    fingerprint: str
    threshold: float


read_intent = partial(read_config, kind=IntentCheckpoint, what="a training on when photos are shared")


@dataclass(frozen=True)
class OpenIntent(OpenRun):
    """A run that scores turns; `options.device` is one that is here."""

    checkpoints: Mapping[str, Path]
    options: ScoringOptions
    progress: Progress

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """By scorer, dialogue and number of the turn: the probability that the photo comes next.

        Raises DataError for weights other than those that a run was trained with.
        """
        talks, every, found = talks_of(*examples), talks_of(examples[0]), {}  # a vector depends on its neighbours
        for name, folder in self.checkpoints.items():
            notes = read_intent(folder)
            reader = open_reader(notes.recipe, every, self.options, self.progress)
            if reader.fingerprint != notes.fingerprint:
                sentence = f"{folder} was trained over other weights than {notes.recipe.text} has now"
                raise DataError(sentence, hint="put those back, or train again: ctxr train")
            fill(model := reader.build(), folder / WEIGHTS, "the model that its config describes")
            table = TalkTable(reader, talks, self.options.device)
            rows = zip(talks, table.probabilities(model.to(table.device)), strict=True)
            found[name] = {talk.query: dict(zip(talk.numbers, row.tolist(), strict=True)) for talk, row in rows}
        return found


def open_run(source: Path | str, options: ScoringOptions, progress: Progress) -> OpenIntent:
    """A trained run by its folder."""
    return OpenIntent(scorers_in(Path(source)), replace(options, device=choose_device(options.device)), progress)


class IntentJob(TrainJob):
    """Seeds that learn from every turn before a photo."""

    UNIT: ClassVar[str] = "dialogues"
    MEASURE, NOTE = "F1", "of turns before a photo, at the threshold that valid chose"
    checkpoint = staticmethod(read_intent)
    recipe: IntentRecipe

    def __init__(self, options: TrainOptions, recipe: IntentRecipe, progress: Progress) -> None:
        """Raises DataError for a dataset without dialogues to learn from, and what `open_reader` raises."""
        super().__init__(options, recipe, progress)
        self.data = open_dataset(options.dataset, options.workdir, progress)
        talks, self.options = talks_of(self.data), ScoringOptions(options.workdir, self.device)
        self.parts = {name: [one for one in talks if one.split == name] for name in SPLITS}
        if not any(len(one.texts) > 1 for one in self.parts["train"]):
            raise DataError(f"no dialogue of {self.data.name} on train has two turns", hint="name another --dataset")
        self.reader = open_reader(recipe, talks, self.options, progress)
        self.weights, self.dataset, self.encoder = self.reader.fingerprint, self.data.name, recipe.text
        self.parents = [parent_of(self.data, sha256_of(talks))]
        self.queries = {name: len(part) for name, part in self.parts.items() if part}
        self.judged_on = "valid" if self.parts["valid"] else ""

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        learned, valid = (TalkTable(self.reader, self.parts[name], self.device) for name in ("train", "valid"))
        with seeded(seed):
            model = self.reader.build().to(self.device)
        objective = partial(IntentObjective, self.recipe, learned, valid if len(valid) else None)
        epoch = train(model, len(learned), objective).best or 0
        threshold = train.epochs[epoch - 1].figures.get(THRESHOLD, HALF)
        if not len(valid):
            self.progress.warn(
                f"seed {seed}: nothing on valid chooses: the last epoch counts, and a threshold of {HALF}"
            )
        notes = IntentCheckpoint(epoch, self.seed_key(seed), self.recipe, self.reader.fingerprint, threshold)

        def save(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, load_file(train.weights), {})
            write_config(folder, notes)

        return save

    def write_scores(self) -> list[str]:
        """Probabilities of each turn of validation and test."""
        judged = [one.query for name in ("valid", "test") for one in self.parts[name]]
        opened = OpenIntent(scorers_in(self.out) if judged else {}, self.options, self.progress)
        write_scores(self.out / SCORES, (
            Score(query, turn, scorer, value)
            for scorer, rows in opened.score((self.data, judged or None)).items()
            for query, row in rows.items() for turn, value in row.items()
        ))  # fmt: skip
        return [SCORES]

    def counts(self, valid: float | None, test: float | None) -> dict[str, object]:
        """With the threshold of each scorer, by which an evaluation decides."""
        thresholds = {name: read_intent(folder).threshold for name, folder in scorers_in(self.out).items()}
        return super().counts(valid, test) | {THRESHOLDS: thresholds}


job = IntentJob
