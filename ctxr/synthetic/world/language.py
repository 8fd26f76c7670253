"""Saying a predicate in plain English, with a different turn of phrase each time."""

import numpy as np

from ctxr.synthetic.world import words
from ctxr.synthetic.world.kinds import AllAre, Before, Counts, Kind, Lacks
from ctxr.synthetic.world.moments import FirstTime, LastTime, Moved, Now, Temporal
from ctxr.synthetic.world.occlusion import CutOff, Hidden
from ctxr.synthetic.world.places import Beside, Outermost, Within
from ctxr.synthetic.world.predicates import Predicate
from ctxr.synthetic.world.scenes import choose
from ctxr.synthetic.world.templates import FORMS

_VOWELS = tuple("aeiou")


def noun(rng: np.random.Generator, kind: Kind, plural: bool = False) -> str:
    """Return the noun phrase of a kind without an article, e.g. "small striped red circle"."""
    before: list[str] = []
    after: list[str] = []
    if kind.size:
        before.append(choose(rng, words.SIZE_WORDS[kind.size]))
    for name, table in ((kind.texture, words.TEXTURE_WORDS), (kind.face, words.FACE_WORDS)):
        if name:
            adjectives, tails = table[name]
            # one tail at most, and none in the plural, where "its eyes" would not fit
            if plural or after or rng.random() < 0.6:
                before.append(choose(rng, adjectives))
            else:
                after.append(choose(rng, tails))
    if kind.colour:
        before.append(choose(rng, words.COLOUR_WORDS[kind.colour]))
    nouns = words.SHAPE_NOUNS[kind.shape] if kind.shape else words.ANY_NOUNS
    # the first noun of a shape is the usual one
    index = 0 if len(nouns) == 1 or rng.random() < 0.6 else int(rng.integers(1, len(nouns)))
    return " ".join([*before, nouns[index][plural], *after])


def a(phrase: str) -> str:
    """Return the phrase with "a" or "an"."""
    return f"{'an' if phrase.startswith(_VOWELS) else 'a'} {phrase}"


def number(rng: np.random.Generator, count: int) -> str:
    """Return a count as a word or, now and then, in figures."""
    return words.NUMBERS[count] if count < len(words.NUMBERS) and rng.random() < 0.85 else str(count)


def _case(predicate: Predicate | Temporal) -> str:
    """Return the key of a predicate's templates."""
    name = type(predicate).__name__
    match predicate:
        case Lacks(kind) if kind == Kind():
            return "Lacks.all"
        case Counts(_, 0):
            return "Lacks"
        case Counts(_, 1):
            return "Counts.one"
        case AllAre(kind) if not kind.shape:
            return "AllAre.word"
        case CutOff(_, case) | Outermost(_, case) | Hidden(_, case) | Moved(_, case) if case:
            return f"{name}.{case}"
        case _:
            return name


def _word(rng: np.random.Generator, kind: Kind) -> str:
    """Return the adjective of a kind that names one attribute only."""
    if kind.colour:
        return choose(rng, words.COLOUR_WORDS[kind.colour])
    if kind.size:
        return choose(rng, words.SIZE_WORDS[kind.size])
    return choose(rng, words.TEXTURE_WORDS[kind.texture or "plain"][0])


def _slots(rng: np.random.Generator, predicate: Predicate | Temporal) -> dict[str, str]:
    kind = getattr(predicate, "kind", Kind())
    one = noun(rng, kind)
    slots = {"one": one, "a": a(one), "many": noun(rng, kind, plural=True)}
    other = getattr(predicate, "other", None)
    if other is not None:
        phrase = noun(rng, other)
        slots["b"] = f"another {phrase}" if other == kind else a(phrase)
    match predicate:
        case Counts(_, count):
            slots["n"] = number(rng, count)
        case AllAre(only) if not only.shape:
            slots["word"] = _word(rng, only)
        case Before(backdrop):
            slots["scenery"] = choose(rng, words.BACKDROP_NOUNS[backdrop])
        case Beside(_, side, _):
            slots["side"] = choose(rng, words.SIDE_PHRASES[side])
        case Within(_, region):
            slots["place"] = choose(rng, words.PLACE_PHRASES[region])
        case FirstTime(inner) | LastTime(inner) | Now(inner):
            slots["clause"] = say(rng, inner, whole=True)
        case _:
            pass
    return slots


def say(rng: np.random.Generator, predicate: Predicate | Temporal, whole: bool = False) -> str:
    """Return the predicate as a clause: lower case, without a full stop.

    Args:
        rng: chooses among the turns of phrase.
        predicate: what to say.
        whole: whether the clause must have its subject and verb in front, as after "now" or "for the first time".
    """
    forms = FORMS[_case(predicate)]
    if whole:
        forms = tuple(form for form in forms if not form.startswith("~"))
    return choose(rng, forms).removeprefix("~").format(**_slots(rng, predicate))


def sentence(clause: str) -> str:
    """Return a clause with a capital letter and a full stop."""
    return f"{clause[:1].upper()}{clause[1:]}."
