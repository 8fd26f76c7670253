"""Which phenomena a description uses, in the words of the benchmark's table of phenomena (ImageCoDe, Table 2)."""

from collections.abc import Iterable
from typing import get_args

from ctxr.synthetic.world.kinds import AllAre, Counts, Lacks
from ctxr.synthetic.world.moments import Appears, FirstTime, LastTime, Leaves, NoLonger, NotYet, Now, Temporal
from ctxr.synthetic.world.occlusion import Behind, CutOff, Entire, Hidden, NoOverlap
from ctxr.synthetic.world.positions import Bigger, Outermost, RelativePosition, Within
from ctxr.synthetic.world.predicates import Predicate

TAGS = ("context", "temporal", "quantities", "spatial", "negation", "visibility", "nuances")
"""Every tag, in the order of the table."""

_SHOWN_BY: dict[str, tuple[type, ...]] = {
    "context": get_args(Temporal),
    "temporal": get_args(Temporal),
    "quantities": (Counts, AllAre),
    "spatial": (RelativePosition, Within, Outermost, Behind),
    "negation": (Lacks, NoOverlap, NoLonger, NotYet),
    "visibility": (NoOverlap, Behind, CutOff, Entire, Hidden, Appears, Leaves, NoLonger, NotYet),
    "nuances": (Hidden, Bigger),
}


def tags_of(predicates: Iterable[Predicate | Temporal]) -> tuple[str, ...]:
    """Return the phenomena of the predicates, in the order of `TAGS`.

    What is said in the light of other scenes is temporal and needs context; a face is a nuance.
    """
    tags: set[str] = set()
    for predicate in predicates:
        tags.update(tag for tag, kinds in _SHOWN_BY.items() if isinstance(predicate, kinds))
        if isinstance(predicate, Counts) and predicate.number == 0:
            tags.add("negation")
        if isinstance(predicate, FirstTime | LastTime | Now):
            tags.update(tags_of((predicate.predicate,)))
        if getattr(getattr(predicate, "kind", None), "face", ""):
            tags.add("nuances")
    return tuple(tag for tag in TAGS if tag in tags)
