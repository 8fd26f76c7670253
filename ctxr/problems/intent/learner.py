"""How models that tell when a photo is shared are trained and opened.

Letters: B dialogues up to a turn, T tokens or turns, V texts, D width.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import SharedDialogue, dialogues_of
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS
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
from ctxr.problems.embeddings import frozen_texts
from ctxr.problems.intent.recipe import APART, HALF, WRITTEN, IntentRecipe
from ctxr.problems.options import TrainOptions
from ctxr.problems.runs import SCORES, OpenRun, ScoringOptions, scorers_in
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Score, Turn
from ctxr.store.scores import write_scores
from ctxr.store.tables import grouped

PROMPT, BETWEEN, LABELS = "predict share intent:", "[SEP]", ("no", "yes")
"""What T5 reads before and between turns, and what it writes; not named in the paper."""

HIDDEN, DROPOUT, MOST = 128, 0.1, 512
"""Width of the layer over [CLS] (section 6.1) and of the GRU; dropout of vectors of turns; tokens that are read (section 6.1)."""

WEIGHTS, THRESHOLD = "weights.safetensors", "threshold"


class IntentModel(nn.Module):
    """Log-probabilities [B, 2] that no photo, and that a photo comes next.

    Attributes:
        fingerprint: of the model of texts. pieces: numbers above 0 of a text. marks: those before, between and behind texts.
        most: numbers that are read. logits: of numbers and speakers [B, T], 0 behind the last. labels: their columns for no and yes.
    """

    fingerprint: str
    pieces: Callable[[str], Sequence[int]]
    marks: Sequence[Sequence[int | None]] = ((), (), ())
    most: int = MOST
    logits: Callable[[Tensor, Tensor], Tensor]
    labels: Sequence[int] = (0, 1)

    def row(self, turns: Sequence[Turn]) -> Tensor:
        """Numbers and speakers [T, 2]; what is too long loses its beginning."""
        before, between, after = self.marks
        said = [(number, max(turn.user, 0)) for turn in turns for number in (*between, *self.pieces(turn.text))]
        said = said[len(between) :][-max(1, self.most - len(before) - len(after)) :]
        return torch.tensor([*((number, 0) for number in before), *said, *((number, 0) for number in after)])

    def forward(self, talks: Sequence[Sequence[Turn]]) -> Tensor:
        """[B, 2] of B dialogues up to a turn."""
        read = pad_sequence([self.row(turns) for turns in talks], batch_first=True)
        logits = self.logits(*read.to(next(self.parameters()).device).unbind(-1))
        return functional.log_softmax(logits.float(), -1)[:, list(self.labels)]

    @torch.no_grad()
    def probabilities(self, talks: Sequence[SharedDialogue]) -> list[Doubles]:
        """That the photo comes next, [T] of each dialogue: each by itself, so that no digit depends on what else is asked."""
        self.eval()
        return [self([said for said, _ in talk.moments]).softmax(-1)[:, 1].double().cpu().numpy() for talk in talks]


class _Published(IntentModel):
    """BERT or ALBERT with layers over [CLS], segments for speakers, or T5, which writes a label first; nothing in a folder is run."""

    def __init__(self, recipe: IntentRecipe) -> None:
        from transformers import AutoModel, AutoTokenizer, T5ForConditionalGeneration

        super().__init__()
        folder, self.writes = bert_folder(recipe.text), recipe.variant == WRITTEN
        with careful(f"the model {recipe.text!r}"):
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            spare = ("position", "pooler", "lm_head", "embed_tok")
            model = load(T5ForConditionalGeneration if self.writes else AutoModel, folder, spare=spare)
        model.pooler = None  # never used, and random where the folder has none
        self.pieces = pieces = cache(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"])
        if self.writes:
            self.branch: Any = model
            self.labels = [number for word in LABELS for number in pieces(word)[:1]]
            self.marks = [pieces(PROMPT), pieces(BETWEEN), [tokenizer.eos_token_id]]
        else:
            self.branch, self.marks = BertBranch(model), [[tokenizer.cls_token_id], [tokenizer.sep_token_id], []]
            # the paper names no function between its layers
            self.head = nn.Sequential(nn.Linear(self.branch.width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        known = {*self.labels} - {tokenizer.unk_token_id} if self.writes else LABELS
        if len(known) < 2 or tokenizer.pad_token_id != 0 or [None] in self.marks:
            raise DataError(
                f"{folder} pads with another token than 0, or lacks [CLS], [SEP], or {' and '.join(LABELS)}"
            )
        about = json.dumps([model.config.to_dict() | {"_name_or_path": ""}, vocabulary_hash(tokenizer)], default=str)
        self.fingerprint = fingerprint_of(model.state_dict(), about.encode())
        self.most = min(MOST, getattr(model.config, "max_position_embeddings", MOST))

    def logits(self, numbers: Tensor, users: Tensor) -> Tensor:
        """See `IntentModel`; T5 is not told who speaks."""
        if not self.writes:
            return self.head(self.branch(numbers, users))  # type: ignore[no-any-return]
        begun = torch.full_like(numbers[:, :1], self.branch.config.decoder_start_token_id)
        written = self.branch(input_ids=numbers, attention_mask=(numbers != 0).long(), decoder_input_ids=begun)
        return written.logits[:, 0]  # type: ignore[no-any-return]


class _Turns(IntentModel):
    """A GRU over vectors of turns, which do not learn, and their speakers."""

    def __init__(
        self, recipe: IntentRecipe, talks: Sequence[SharedDialogue], options: ScoringOptions, progress: Progress
    ) -> None:
        super().__init__()
        texts = sorted({turn.text for talk in talks for turn in talk.turns})
        source = frozen_text_source(find_text(recipe.text, ClassifierRecipe()), options.device)
        vectors = frozen_texts(source, [(text, "") for text in texts], options.workdir, options.device, progress)
        rows = {text: (row,) for row, text in enumerate(texts, start=1)}
        self.fingerprint, self.pieces = source.fingerprint, rows.__getitem__
        self.register_buffer("vectors", torch.from_numpy(np.pad(vectors, ((1, 0), (0, 0)))), persistent=False)
        self.gru, self.head = nn.GRU(source.width + 1, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 2)

    def logits(self, numbers: Tensor, users: Tensor) -> Tensor:
        """See `IntentModel`."""
        turns = functional.dropout(self.get_buffer("vectors")[numbers], DROPOUT, self.training)
        states = self.gru(torch.cat([turns, 2.0 * users[..., None] - 1], -1))[0]
        return self.head(states[range(len(states)), (numbers != 0).sum(1) - 1])  # type: ignore[no-any-return]


def open_model(
    recipe: IntentRecipe, talks: Sequence[SharedDialogue], options: ScoringOptions, progress: Progress, seed: int = 0
) -> IntentModel:
    """The untrained model for some dialogues. Raises DataError for weights that do not fit, and what `find_text` raises."""
    with seeded(seed):
        return _Turns(recipe, talks, options, progress) if recipe.variant == APART else _Published(recipe)


class IntentObjective(Objective[None, tuple[Tensor, Tensor]]):
    """Cross-entropy, with a weight on turns before a photo; F1 on valid, at its best threshold, chooses the epoch."""

    recipe: IntentRecipe
    train: Sequence[tuple[Sequence[Turn], bool]]
    valid: Sequence[SharedDialogue] | None

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: None) -> tuple[Tensor, Tensor]:
        """Log-probabilities and labels."""
        talks, due = zip(*(self.train[row] for row in rows.tolist()), strict=True)
        return (said := model(talks)), torch.tensor(due, device=said.device).long()

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Tensor, Tensor]], step: Step[None]) -> Tensor:
        """Summed over a pass."""
        ((said, label),) = encoded
        return functional.nll_loss(said, label, said.new_tensor([1.0, self.recipe.positive_weight]), reduction="sum")

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """F1 on valid."""
        if not self.valid:
            return None
        values = np.concatenate(cast("IntentModel", model).probabilities(self.valid))
        if not np.isfinite(values).all():
            raise FloatingPointError(f"the probabilities on valid after epoch {epoch} are not finite")
        threshold, f1 = best_threshold(np.array([due for talk in self.valid for _, due in talk.moments]), values)
        self.figures = {"F1": f1, THRESHOLD: threshold}
        return f1


@dataclass(frozen=True)
class IntentCheckpoint(SeedConfig):
    """How to build a trained model: `fingerprint` is of the model of texts; `threshold` has the highest F1 on valid."""

    recipe: IntentRecipe
    fingerprint: str
    threshold: float


read_intent = partial(read_config, kind=IntentCheckpoint, what="a training on when photos are shared")


class OpenIntent(OpenRun):
    """A trained run that scores turns, by its folder."""

    def __init__(self, source: Path | str, options: ScoringOptions, progress: Progress) -> None:
        self.checkpoints, self.progress = scorers_in(Path(source)), progress
        self.options = replace(options, device=choose_device(options.device))

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Probabilities by scorer, dialogue and turn. Raises DataError for weights other than those that a run was trained with."""
        every, wanted, found = dialogues_of(examples[0]), examples[1], {}
        talks = [one for one in every if wanted is None or one.query in wanted]
        for name, folder in self.checkpoints.items():
            notes = read_intent(folder)
            # for every dialogue, as the last digits of a vector depend on what is read with it
            model = open_model(notes.recipe, every, self.options, self.progress)
            if model.fingerprint != notes.fingerprint:
                sentence = f"{folder} was trained over other weights than {notes.recipe.text} has now"
                raise DataError(sentence, hint="put those back, or train again: ctxr train")
            fill(model, folder / WEIGHTS, "the model that its config describes")
            rows = zip(talks, model.to(self.options.device).probabilities(talks), strict=True)
            found[name] = {talk.query: dict(zip(talk.numbers, row.tolist(), strict=True)) for talk, row in rows}
        return found


class IntentJob(TrainJob):
    """Seeds that learn from every turn before a photo."""

    UNIT: ClassVar[str] = "dialogues"
    MEASURE, NOTE = "F1", "of turns before a photo, at the threshold that valid chose"
    checkpoint = staticmethod(read_intent)
    recipe: IntentRecipe

    def __init__(self, options: TrainOptions, recipe: IntentRecipe, progress: Progress) -> None:
        """Raises DataError for a dataset without dialogues to learn from, and what `open_model` raises."""
        super().__init__(options, recipe, progress)
        self.data = open_dataset(options.dataset, options.workdir, progress)
        self.talks, self.options = dialogues_of(self.data), ScoringOptions(options.workdir, self.device)
        self.parts = grouped((one.split, one) for one in self.talks)
        if not any(len(one.turns) > 1 for one in self.parts["train"]):
            splits = ", ".join(str(name) for name, part in self.parts.items() if part)
            what = f"{self.data.name} has no dialogue of several turns on train (splits: {splits})"
            raise DataError(what, hint="name another --dataset")
        self.weights = open_model(recipe, self.talks, self.options, progress).fingerprint
        self.dataset, self.encoder = self.data.name, recipe.text
        self.parents = [parent_of(self.data, sha256_of(self.talks))]
        self.queries = {name: len(self.parts[name]) for name in SPLITS if self.parts[name]}
        self.judged_on = "valid" if self.parts["valid"] else ""

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`."""
        moments, valid = [one for talk in self.parts["train"] for one in talk.moments], self.parts["valid"]
        model = open_model(self.recipe, self.talks, self.options, self.progress, seed).to(self.device)
        epoch = train(model, len(moments), partial(IntentObjective, self.recipe, moments, valid or None)).best or 0
        threshold = train.epochs[epoch - 1].figures.get(THRESHOLD, HALF)
        if not valid:
            self.progress.warn(f"seed {seed}: without valid, the last epoch counts, and a threshold of {HALF}")
        notes = IntentCheckpoint(epoch, self.seed_key(seed), self.recipe, str(self.weights), threshold)

        def save(folder: Path) -> None:
            link_or_copy(train.weights, folder / WEIGHTS)
            write_config(folder, notes)

        return save

    def write_scores(self) -> list[str]:
        """Probabilities of each turn of validation and test."""
        judged = [one.query for name in ("valid", "test") for one in self.parts[name]]
        scores = OpenIntent(self.out, self.options, self.progress).score((self.data, judged))
        rows = ((name, query, row) for name, own in scores.items() for query, row in own.items())
        write_scores(self.out / SCORES, (Score(q, turn, name, p) for name, q, row in rows for turn, p in row.items()))
        return [SCORES]


job, open_run = IntentJob, OpenIntent
