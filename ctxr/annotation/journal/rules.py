"""What the journal goes by: the protocol, the seed, and how long it waits."""

from dataclasses import dataclass
from datetime import timedelta

from ctxr.annotation.protocol import Protocol

SURE = 0.95
"""Probability from which on a worker's accuracy counts as below the limit."""


@dataclass(frozen=True)
class Rules:
    """Every number of a journal.

    Attributes:
        lease_for: how long a worker may take. patience: how long somebody in a talk may give no sign of life.
        longest_wait: how long somebody waits for a partner.
    """

    protocol: Protocol
    seed: int
    lease_for: timedelta = timedelta(minutes=30)
    patience: timedelta = timedelta(minutes=5)
    longest_wait: timedelta = timedelta(minutes=10)
