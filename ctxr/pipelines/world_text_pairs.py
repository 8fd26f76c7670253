"""Pairs of texts out of the drawn world: what is said entails another text by what its words mean, or a picture shows that it does not.

A text entails what says less of the same: fewer of its things, a kind with fewer attributes, that there is one where it says how
many, where, or beside what. It does not entail a text that is false of a picture of which it is true.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ctxr.data.entailment import EntailmentPair
from ctxr.data.records import SplitName
from ctxr.data.world.predicates import Beside, Counts, Kind, Predicate, Shows, Within
from ctxr.data.world.statements import Statement, state
from ctxr.pipelines.world_caption_pairs import altered

if TYPE_CHECKING:
    from ctxr.pipelines.world_caption_rows import GalleryTruth

SOURCE = "world-text"


def text_pairs(rng: np.random.Generator, shown: "GalleryTruth", split: SplitName, count: int) -> list[EntailmentPair]:
    """Up to `count` pairs of texts for each picture of a gallery, half of them entailed; each in a picture's family.

    Both come from the same premises and say equally much, so that neither premise nor length gives the label away.
    """
    pairs: list[EntailmentPair] = []
    of_image: list[list[int]] = [[] for _ in shown.images]
    for caption, owner in enumerate(shown.owners):
        of_image[owner].append(caption)
    for place, image in enumerate(shown.images):
        for number in range(count // 2):
            at = int(rng.choice(of_image[place]))
            premise = shown.statements[at]
            weaker = weakened(rng, premise)
            other = altered(rng, weaker, shown, place)
            if other is None:
                continue
            for label, relation, hypothesis in ((1, "entailment", weaker), (0, "altered", other)):
                key = f"{SOURCE}/{image}/{2 * number + 1 - label}"
                pairs.append(
                    EntailmentPair(
                        key, premise.text, hypothesis.text, None, 1 if label else 0, relation, SOURCE, split,
                        shown.families[place],
                    )
                )  # fmt: skip
    return pairs


def weakened(rng: np.random.Generator, statement: Statement) -> Statement:
    """A statement that holds wherever the given one does: some of its predicates, each as it is or saying less, in other words."""
    kept = 1 + int(rng.integers(len(statement.predicates)))
    chosen = rng.permutation(len(statement.predicates))[:kept].tolist()
    found: list[Predicate] = []
    for place in chosen:
        options = [statement.predicates[place], *_consequences(rng, statement.predicates[place])]
        predicate = options[int(rng.integers(len(options)))]
        if predicate not in found:
            found.append(predicate)
    return state(rng, found)


def _consequences(rng: np.random.Generator, predicate: Predicate) -> Iterator[Predicate]:
    """What follows from a predicate and says less."""
    match predicate:
        case Shows(kind) | Within(kind, _):
            yield msgspec.structs.replace(predicate, kind=_fewer(rng, kind))
        case Beside(kind, _, other):
            yield msgspec.structs.replace(predicate, kind=_fewer(rng, kind), other=_fewer(rng, other))
        case _:
            pass
    match predicate:
        case Within(kind, _) | Beside(kind, _, _):
            yield Shows(_fewer(rng, kind))
        case Counts(kind, number) if number > 0:
            yield Shows(kind)
        case _:
            pass


def _fewer(rng: np.random.Generator, kind: Kind) -> Kind:
    """The kind without one of its attributes; as it is where it has one only."""
    named = [field for field in kind.__struct_fields__ if getattr(kind, field)]
    if len(named) < 2:
        return kind
    return msgspec.structs.replace(kind, **{named[int(rng.integers(len(named)))]: ""})
