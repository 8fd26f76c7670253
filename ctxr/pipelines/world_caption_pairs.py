"""Pairs for entailment classifiers out of the drawn world: a picture, its captions as premise, and hypotheses that hold or nearly do.

What does not hold is near: a true statement with one thing changed, or what was written for a near neighbour of the picture.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ctxr.data.entailment import EntailmentPair
from ctxr.data.records import SplitName
from ctxr.data.world.attributes import COLOURS, SIZES, TEXTURES
from ctxr.data.world.backdrops import BACKDROPS
from ctxr.data.world.outlines import SHAPES
from ctxr.data.world.predicates import Before, Beside, Counts, Kind, Predicate, Within
from ctxr.data.world.scenes import choose
from ctxr.data.world.statements import Statement, state
from ctxr.data.world.words import PLACE_PHRASES, SIDE_PHRASES

if TYPE_CHECKING:
    from ctxr.pipelines.world_caption_rows import GalleryTruth

SOURCE = "world"

_POOLS: dict[str, tuple[str, ...]] = {
    "shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "texture": TEXTURES[1:],
}  # fmt: skip
Hypothesis = tuple[str, str | None, str, bool]
"""Text, the caption that it is, relation, whether it holds."""

_TRIES = 12
_ALTERED_SHARE = 0.5  # of what does not hold; the rest was written for other pictures


def pairs_about(
    rng: np.random.Generator, shown: "GalleryTruth", split: SplitName, hypotheses: int
) -> list[EntailmentPair]:
    """Up to `hypotheses` pairs for each picture of a gallery, half of them entailed where it can be.

    What holds was written for the picture itself, once, or for another one. What does not is one of `altered`, or was written for
    another picture, a near neighbour first. Nothing doubtful is among them, and no premise holds its hypothesis word by word.
    """
    pairs: list[EntailmentPair] = []
    for place, image in enumerate(shown.images):
        holding = _holding(rng, shown, place, hypotheses // 2)
        details = [_details(shown, at) for at in holding]
        chosen: list[Hypothesis] = [
            (shown.statements[at].text, shown.captions[at], "entailment", True) for at in holding
        ]
        chosen += _failing(rng, shown, place, hypotheses - hypotheses // 2, details)
        for number, (text, caption, relation, label) in enumerate(chosen):
            premise = " ".join(_premise(shown, place, caption, text))
            pairs.append(
                EntailmentPair(
                    f"{SOURCE}/{image}/{number}", premise or None, text, image, 1 if label else 0, relation, SOURCE, split,
                    shown.families[place], caption,
                )
            )  # fmt: skip
    return pairs


def altered(rng: np.random.Generator, statement: Statement, shown: "GalleryTruth", place: int) -> Statement | None:
    """The statement with one thing changed so that it is clearly false of the picture; None where no try makes it so."""
    view = shown.views[place]
    for _ in range(_TRIES):
        which = int(rng.integers(len(statement.predicates)))
        changed = _changed(rng, statement.predicates[which])
        if changed is not None and changed.verdict(view) is False:
            predicates = [*statement.predicates[:which], changed, *statement.predicates[which + 1 :]]
            return state(rng, predicates)
    return None


def _changed(rng: np.random.Generator, predicate: Predicate) -> Predicate | None:
    """The predicate with another place, side, number, backdrop, or one other attribute of a kind it names."""
    options: list[dict[str, Any]] = []
    match predicate:
        case Before(backdrop):
            options = [{"backdrop": choose(rng, [name for name in BACKDROPS if name != backdrop])}]
        case Counts(_, number):
            options = [{"number": number + 1}, {"number": max(0, number - 1)}]
        case Beside(_, side, _):
            options = [{"side": choose(rng, [name for name in SIDE_PHRASES if name != side])}]
        case Within(_, region):
            options = [{"region": choose(rng, [name for name in PLACE_PHRASES if name != region])}]
        case _:
            pass
    for name in ("kind", "other"):
        kind = getattr(predicate, name, None)
        if isinstance(kind, Kind):
            options += [{name: one} for one in _other_kinds(rng, kind)]
    if not options:
        return None
    return msgspec.structs.replace(predicate, **options[int(rng.integers(len(options)))])


def _other_kinds(rng: np.random.Generator, kind: Kind) -> Iterator[Kind]:
    """The kind with one of the attributes that it names exchanged; its face goes, because another shape may have none."""
    for field, pool in _POOLS.items():
        known = getattr(kind, field)
        if known:
            other = choose(rng, [name for name in pool if name != known])
            yield msgspec.structs.replace(kind, face="" if field == "shape" else kind.face, **{field: other})


def _holding(rng: np.random.Generator, shown: "GalleryTruth", place: int, count: int) -> list[int]:
    """Captions that hold of a picture: one of its own, then others."""
    own = [at for at, owner in enumerate(shown.owners) if owner == place]
    foreign = [at for at in np.flatnonzero(shown.verdicts[:, place] == 1).tolist() if shown.owners[at] != place]
    # most of those that hold say little, so what says more comes first in half of the places
    rng.shuffle(foreign)
    foreign[: len(foreign) // 2] = sorted(foreign[: len(foreign) // 2], key=lambda at: -_details(shown, at))
    once = [int(rng.choice(own))] if len(own) > 1 else []
    return [*once, *foreign][:count]


def _failing(
    rng: np.random.Generator, shown: "GalleryTruth", place: int, count: int, details: Sequence[int]
) -> list[Hypothesis]:
    """What does not hold, saying as many things as what does: else the number of words would give the label away."""
    family = shown.families[place]
    true = np.flatnonzero(shown.verdicts[:, place] == 1).tolist()
    false = [at for at in np.flatnonzero(shown.verdicts[:, place] == 0).tolist() if shown.owners[at] != place]
    rng.shuffle(false)
    wanted = [details[number % len(details)] if details else 1 for number in rng.permutation(count).tolist()]
    found: list[Hypothesis] = []
    for number, much in enumerate(wanted):
        alike = [at for at in true if _details(shown, at) == much]
        if number < round(_ALTERED_SHARE * count) and alike:
            changed = altered(rng, shown.statements[int(rng.choice(alike))], shown, place)
            if changed is not None:
                found.append((changed.text, None, "altered", False))
                continue
        if false:
            # of what is as detailed a near neighbour's comes first
            best = min(
                false, key=lambda at: (abs(_details(shown, at) - much), shown.families[shown.owners[at]] != family)
            )
            false.remove(best)
            relation = "neighbour" if shown.families[shown.owners[best]] == family else "other"
            found.append((shown.statements[best].text, shown.captions[best], relation, False))
    return found


def _premise(shown: "GalleryTruth", place: int, caption: str | None, text: str) -> Iterator[str]:
    for at, owner in enumerate(shown.owners):
        if owner == place and shown.captions[at] != caption and text not in shown.statements[at].text:
            yield shown.statements[at].text


def _details(shown: "GalleryTruth", at: int) -> int:
    return len(shown.statements[at].predicates)
