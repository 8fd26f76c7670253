"""Which phenomena a description uses, in the words of the benchmark's table of phenomena (ImageCoDe, Table 2)."""

from collections.abc import Iterable

from ctxr.synthetic.world.kinds import AllAre, Counts, Lacks
from ctxr.synthetic.world.moments import TEMPORAL, Appears, FirstTime, LastTime, Leaves, NoLonger, NotYet, Now, Temporal
from ctxr.synthetic.world.occlusion import Apart, Behind, CutOff, Entire, Hidden
from ctxr.synthetic.world.places import Beside, Bigger, Outermost, Within
from ctxr.synthetic.world.predicates import Predicate

TAGS = ("context", "temporal", "quantities", "spatial", "negation", "visibility", "nuances")
"""Every tag, in the order of the table."""

_OF: dict[type, tuple[str, ...]] = {
    Counts: ("quantities",),
    AllAre: ("quantities",),
    Lacks: ("negation",),
    Apart: ("negation", "visibility"),
    Beside: ("spatial",),
    Within: ("spatial",),
    Outermost: ("spatial",),
    Behind: ("spatial", "visibility"),
    CutOff: ("visibility",),
    Entire: ("visibility",),
    Hidden: ("visibility", "nuances"),
    Bigger: ("nuances",),
    Appears: ("visibility",),
    Leaves: ("visibility",),
    NoLonger: ("negation", "visibility"),
    NotYet: ("negation", "visibility"),
}


def tags_of(predicates: Iterable[Predicate | Temporal]) -> tuple[str, ...]:
    """Return the phenomena of the predicates, in the order of `TAGS`.

    What is said in the light of other scenes is temporal and needs context; a face is a nuance.
    """
    found: set[str] = set()
    for predicate in predicates:
        found.update(_OF.get(type(predicate), ()))
        if isinstance(predicate, Counts) and predicate.number == 0:
            found.add("negation")
        if isinstance(predicate, TEMPORAL):
            found.update(("context", "temporal"))
        if isinstance(predicate, FirstTime | LastTime | Now):
            found.update(tags_of((predicate.predicate,)))
        if getattr(getattr(predicate, "kind", None), "face", ""):
            found.add("nuances")
    return tuple(tag for tag in TAGS if tag in found)
