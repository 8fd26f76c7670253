"""Everything that can be said of one scene."""

from ctxr.synthetic.world.kinds import AllAre, Before, Counts, Kind, Lacks, Shows, Verdict, every, some
from ctxr.synthetic.world.occlusion import Apart, Behind, CutOff, Entire, Hidden
from ctxr.synthetic.world.places import Beside, Bigger, Outermost, Within, middle

Predicate = (
    Shows | Lacks | Counts | AllAre | Before | Beside | Within | Bigger | Outermost
    | Behind | CutOff | Entire | Apart | Hidden
)  # fmt: skip
"""Anything that can be said of one scene."""

__all__ = [
    "AllAre", "Apart", "Before", "Behind", "Beside", "Bigger", "Counts", "CutOff", "Entire", "Hidden", "Kind", "Lacks",
    "Outermost", "Predicate", "Shows", "Verdict", "Within", "every", "middle", "some",
]  # fmt: skip
