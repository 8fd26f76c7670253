"""One answer for each unit from several votes, by majority.

Where all units share the same few labels, `ctxr.metrics.dawid_skene` also weighs workers by how often they seem to be right.
"""

import numpy as np

from ctxr.metrics.differences import cells
from ctxr.metrics.votes import Codes, Votes

TIE = -1
"""Stands for the value of a unit whose votes decide nothing, or that has none."""


def majority(votes: Votes) -> Codes:
    """Code of the commonest value of each unit [U], or `TIE`; ties stay ties, whatever the order of the votes.

    >>> from ctxr.metrics.votes import gather
    >>> majority(gather([1, 1, 1, 2, 2], ["x", "y", "z", "x", "y"], [4, 4, 7, 4, 7])).tolist()
    [0, -1]
    """
    size = len(votes.unit_names)
    cell, cell_units, cell_values = cells(votes.once().units, size, votes.values, len(votes.labels))
    count = np.bincount(cell, minlength=len(cell_units))
    most = np.zeros(size, np.int64)
    np.maximum.at(most, cell_units, count)
    best = count == most[cell_units]
    value = np.full(size, TIE)
    value[cell_units[best]] = cell_values[best]
    value[np.bincount(cell_units[best], minlength=size) != 1] = TIE
    return value
