"""The turns of phrase for each predicate.

A template that begins with "~" is a fragment without a verb, or has its subject late: it can stand as a sentence of its
own, but not after "now" or "for the first time". In the slots, `one` is a noun phrase, `a` the same with its article,
`many` its plural, `b` the second figure of a relation.
"""

import numpy as np

from ctxr.synthetic.world import words
from ctxr.synthetic.world.moments import OfPredicate, Temporal
from ctxr.synthetic.world.predicates import (
    AllAre,
    Before,
    Counts,
    Kind,
    Lacks,
    Predicate,
    RelativePosition,
    Within,
    name_of,
)
from ctxr.synthetic.world.scenes import choose

FORMS: dict[str, tuple[str, ...]] = {
    "Shows": (
        "there is {a}", "~{a}", "you can see {a}", "we see {a}", "the picture shows {a}", "{a} is visible",
        "the image contains {a}", "{a} is in the picture", "there's {a}", "it has {a}", "{a} can be seen",
    ),
    "Lacks": (
        "there is no {one}", "no {one} is visible", "there are no {many}", "{a} is not in the picture",
        "you can not see any {many}", "no {one} can be seen", "there isn't {a}", "the picture does not show {a}",
        "~without any {many}", "~no {many} in the picture",
    ),
    "Lacks.all": (
        "there is nothing in front of the background", "only the background is visible", "nothing else is there",
    ),
    "Counts.one": (
        "there is exactly one {one}", "there is only one {one}", "~just one {one}", "only one {one} is visible",
        "~a single {one}",
    ),
    "Counts": (
        "there are {n} {many}", "~{n} {many}", "~exactly {n} {many}", "{n} {many} are visible", "you can see {n} {many}",
        "the picture shows {n} {many}", "there are exactly {n} {many}", "we see {n} {many}",
    ),
    "AllAre": ("there are only {many}", "all the figures are {many}", "~nothing but {many}"),
    "AllAre.word": ("all the shapes are {word}", "every figure is {word}", "all of the objects are {word}"),
    "Before": (
        "the background is {scenery}", "the background shows {scenery}", "{scenery} is in the background",
        "{scenery} can be seen in the background", "behind it all is {scenery}",
    ),
    "Beside": ("{a} is {side} {b}", "there is {a} {side} {b}", "~{a} {side} {b}", "you see {a} {side} {b}"),
    "Within": ("{a} is {place}", "there is {a} {place}", "~{place} there is {a}", "~{a} {place}", "you can see {a} {place}"),
    "Bigger": ("{a} is bigger than {b}", "{a} is larger than {b}", "there is {a} that is bigger than {b}"),
    "Outermost.left": (
        "the leftmost figure is {a}", "{a} is farther to the left than all the others",
        "the object farthest to the left is {a}",
    ),
    "Outermost.right": (
        "the rightmost figure is {a}", "{a} is farther to the right than all the others",
        "the object farthest to the right is {a}",
    ),
    "Outermost.top": ("the highest figure is {a}", "{a} is above everything else", "the topmost object is {a}"),
    "Outermost.bottom": (
        "the lowest figure is {a}", "{a} is below everything else", "the object closest to the bottom is {a}",
    ),
    "Behind": (
        "{a} is partly hidden behind {b}", "{a} is partially covered by {b}", "{a} is behind {b}",
        "part of {a} is hidden by {b}", "{a} is blocked in part by {b}", "{a} is overlapped by {b}",
    ),
    "CutOff": (
        "{a} is cut off by the edge of the picture", "{a} is partly out of the frame", "only part of {a} is in the frame",
    ),
    "CutOff.left": (
        "{a} is cut off at the left edge", "{a} is partly out of the frame on the left",
        "{a} is cut off by the left side of the picture",
    ),
    "CutOff.right": (
        "{a} is cut off at the right edge", "{a} is partly out of the frame on the right",
        "{a} is cut off by the right side of the picture",
    ),
    "CutOff.top": (
        "{a} is cut off at the top edge", "{a} is partly out of the frame at the top", "{a} is cut off by the upper edge",
    ),
    "CutOff.bottom": (
        "{a} is cut off at the bottom edge", "{a} is partly out of the frame at the bottom",
        "{a} is cut off by the lower edge",
    ),
    "Entire": (
        "all of {a} can be seen", "{a} is fully visible", "{a} is completely visible", "the whole of {a} is in view",
    ),
    "Hidden.little": ("a little of {a} is hidden", "a small part of {a} is hidden", "{a} is slightly hidden"),
    "Hidden.half": ("half of {a} is hidden", "only half of {a} can be seen", "{a} is half hidden"),
    "Hidden.most": ("most of {a} is hidden", "only a small part of {a} can be seen", "{a} is mostly hidden"),
    "Apart": ("none of the shapes overlap", "no two figures overlap", "nothing covers anything else"),
    "Appears": (
        "{a} just begins to appear", "{a} is just coming into view", "{a} is just starting to appear",
        "{a} begins to enter the picture", "you can just start to see {a}", "the first part of {a} comes into view",
    ),
    "Leaves": (
        "{a} is about to leave the picture", "{a} is almost out of the frame", "{a} is about to disappear",
        "{a} has nearly left the screen", "the last bit of {a} can be seen before it leaves",
    ),
    "NoLonger": (
        "the {one} is no longer visible", "the {one} has disappeared", "the {one} is gone",
        "the {one} can no longer be seen", "there is no {one} anymore", "the {one} has already left",
    ),
    "NotYet": (
        "the {one} is not visible yet", "there is no {one} yet", "the {one} has not appeared yet",
        "the {one} is still out of sight", "~before the {one} appears",
    ),
    "FirstTime": ("for the first time {clause}", "{clause} for the first time"),
    "LastTime": ("for the last time {clause}", "{clause} for the last time"),
    "Now": ("now {clause}", "by now {clause}", "this time {clause}"),
    "Moved.left": ("the {one} has moved to the left", "the {one} moved further left"),
    "Moved.right": ("the {one} has moved to the right", "the {one} moved further right"),
    "Moved.up": ("the {one} has moved up", "the {one} moved further up"),
    "Moved.down": ("the {one} has moved down", "the {one} moved further down"),
}  # fmt: skip
"""Predicate, or predicate and its case, to templates."""


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


def _case(predicate: Predicate | Temporal) -> str:
    """Return the key of a predicate's templates."""
    name = name_of(predicate)
    match predicate:
        case Lacks(kind) if kind == Kind():
            return "Lacks.all"
        case Counts(_, 0):
            return "Lacks"
        case Counts(_, 1):
            return "Counts.one"
        case AllAre(kind) if not kind.shape:
            return "AllAre.word"
        case _:
            details = (f"{name}.{getattr(predicate, field, '')}" for field in ("side", "edge", "amount", "direction"))
            return next((key for key in details if key in FORMS), name)


def say(rng: np.random.Generator, predicate: Predicate | Temporal, whole: bool = False) -> str:
    """The predicate as a clause, lower case, without a full stop; a `whole` one has subject and verb in front."""
    forms = FORMS[_case(predicate)]
    if whole:
        forms = tuple(form for form in forms if not form.startswith("~"))
    form = choose(rng, forms)
    kind = getattr(predicate, "kind", Kind())
    singular = noun(rng, kind)
    slots = {"one": singular, "a": a(singular), "many": noun(rng, kind, plural=True)}
    other = getattr(predicate, "other", None)
    if other is not None:
        phrase = noun(rng, other)
        slots["b"] = f"another {phrase}" if other == kind else a(phrase)
    match predicate:
        case Counts(_, count):
            spelled = count < len(words.NUMBERS) and rng.random() < 0.85  # now and then in figures
            slots["n"] = words.NUMBERS[count] if spelled else str(count)
        case AllAre(Kind("", colour, size, texture)):  # the adjective of its only attribute
            adjectives = words.COLOUR_WORDS.get(colour) or words.SIZE_WORDS.get(size)
            slots["word"] = choose(rng, adjectives or words.TEXTURE_WORDS[texture or "plain"][0])
        case Before(backdrop):
            slots["scenery"] = choose(rng, words.BACKDROP_NOUNS[backdrop])
        case RelativePosition(_, side, _):
            slots["side"] = choose(rng, words.SIDE_PHRASES[side])
        case Within(_, region):
            slots["place"] = choose(rng, words.PLACE_PHRASES[region])
        case OfPredicate(inner):
            slots["clause"] = say(rng, inner, whole=True)
    return form.removeprefix("~").format(**slots)


def sentence(clause: str) -> str:
    """Return a clause with a capital letter and a full stop."""
    return f"{clause[:1].upper()}{clause[1:]}."
