"""How often somebody may ask: a token bucket for each name."""

from collections.abc import Callable
from time import monotonic

_MOST_NAMES = 20_000


class Buckets:
    """`rate` tokens a second flow into each name's bucket, which holds `burst` of them."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str, cost: float = 1.0) -> float:
        """Take `cost` tokens: 0.0 where they were there, else the seconds after which they will be."""
        if self._rate <= 0:
            return 0.0
        now = self._clock()
        left, at = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < cost:
            self._left[name] = (left, now)
            return (cost - left) / self._rate
        if len(self._left) >= _MOST_NAMES and name not in self._left:
            self._forget(now)
        self._left[name] = (left - cost, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop who has a full bucket again; if that is nobody, everybody: memory is bounded whoever asks."""
        kept = {
            name: (left, at) for name, (left, at) in self._left.items() if left + (now - at) * self._rate < self._burst
        }
        self._left = kept if len(kept) < _MOST_NAMES else {}
