"""A process that works for several people at once: `python -m tests.annotation.journal.racing ADDRESS NAME [SECONDS]`.

It opens the journal itself, with the same units as every other process, and tells each answer when it is acknowledged, not
before. Without SECONDS it works until nothing is left.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime

from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import Lease, NoWork
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from tests.annotation.journal.study import SPLITS, described, image_sets, retrieved, tagged, values

PROTOCOL = Protocol(full_share=0.2, disjoint="none")
SETS = image_sets(4)
UNITS: list[Unit] = [described(one, place, SPLITS[number % 3]) for number, one in enumerate(SETS) for place in (0, 1)]
UNITS += [retrieved(one, 2, SPLITS[number % 3], PROTOCOL) for number, one in enumerate(SETS)]
UNITS += [tagged(one, 6) for one in SETS]


def main(address: str, name: str, seconds: float | None) -> None:
    journal = open_journal(address, UNITS, SETS, PROTOCOL)
    rng = random.Random(name)
    workers = [f"{name}-{number}" for number in range(3)]
    for worker in workers:
        journal.enrol(worker, "local", datetime.now(UTC))
    end = None if seconds is None else time.monotonic() + seconds
    idle = 0
    while idle < 2 * len(workers) and (end is None or time.monotonic() < end):
        for worker in workers:
            lease = journal.lease(worker, datetime.now(UTC))
            if isinstance(lease, NoWork):
                idle += lease.reason == "nothing_left"
                time.sleep(0.01)
                continue
            idle = 0
            sys.stdout.write(json.dumps(acknowledged(journal.submit, lease, rng)) + "\n")
            sys.stdout.flush()
    journal.close()


def acknowledged(submit: object, lease: Lease, rng: random.Random) -> list[object]:
    given = values(lease.unit, rng, rng.random() < 0.7)
    stored = submit(lease.token, lease.worker, given, datetime.now(UTC))  # type: ignore[operator]
    return [stored.unit, stored.worker, lease.slot, {key: list(value) for key, value in given.items()}]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else None)
