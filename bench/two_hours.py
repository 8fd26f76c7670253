"""Memory of `build-sets` for two hours of 1080p beside that of five minutes; takes up to an hour, so `make bench` leaves it out.

python -m bench two_hours
python -m bench.two_hours 20 random:ViT-B-32     other minutes, another encoder
"""

import sys

from bench.growth import TINY
from bench.memory import peaks
from bench.table import Row


def measure(minutes: float = 120, encoder: str = TINY) -> list[Row]:
    """The short run and the long one."""
    return peaks([(encoder, 5), (encoder, minutes)])


if __name__ == "__main__":
    from bench.__main__ import show

    minutes, encoder, *_ = *sys.argv[1:], *("120", TINY)[len(sys.argv) - 1 :]
    show("two_hours", measure(float(minutes), encoder))
