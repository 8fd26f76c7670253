"""Everything that can be said of one scene."""

from typing import get_args

import msgspec

from ctxr.synthetic.world.kinds import AllAre, Before, Counts, Lacks, Shows
from ctxr.synthetic.world.occlusion import Behind, CutOff, Entire, Hidden, NoOverlap
from ctxr.synthetic.world.positions import Bigger, Outermost, RelativePosition, Within

Predicate = (
    Shows | Lacks | Counts | AllAre | Before | RelativePosition | Within | Bigger | Outermost
    | Behind | CutOff | Entire | NoOverlap | Hidden
)  # fmt: skip
"""Anything that can be said of one scene."""


def name_of(predicate: msgspec.Struct | type[msgspec.Struct]) -> str:
    """Return the name of what a predicate says, by which templates are found and captions are configured."""
    return str(predicate.__struct_config__.tag)


NAMES = frozenset(map(name_of, get_args(Predicate)))
