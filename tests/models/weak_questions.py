"""Small questions of which some hold for further images of their sets."""

from dataclasses import replace

import numpy as np
import torch

from ctxr.models.scorers import ClipScorer
from ctxr.models.training.examples import ExampleTable, PositivePairs
from tests.models.scorers import make_head
from tests.models.training_questions import Table, make_questions


def weak_pairs(questions: ExampleTable, seed: int = 0, share: float = 0.4) -> dict[int, set[int]]:
    """By query, rows of other images of its set for which it holds too; every fourth query has none."""
    chance, found = np.random.default_rng(seed), {}
    for query in range(len(questions)):
        own = set(questions.candidates[query][questions.mask[query]].tolist())
        others = sorted(own - {written(questions, query)})
        if query % 4:
            found[query] = {image for image in others if chance.random() < share}
    return found


def written(questions: ExampleTable, query: int) -> int:
    return int(questions.candidates[query, questions.target[query]])


def with_weak(questions: ExampleTable, pairs: dict[int, set[int]]) -> ExampleTable:
    known = PositivePairs.of([(query, image) for query, images in pairs.items() for image in images], len(questions))
    return replace(questions, entailed=known)


def small(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[ExampleTable, dict[int, set[int]]]:
    questions = make_questions(ClipScorer(None, make_head()), seed=seed)
    assert isinstance(questions.images, Table)
    questions = replace(questions, images=Table(questions.images.content.to(dtype)), texts=questions.texts.to(dtype))
    pairs = weak_pairs(questions)
    return with_weak(questions, pairs), pairs
