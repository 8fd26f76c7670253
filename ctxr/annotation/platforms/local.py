"""Our own server: answers are in its journal, validated once when they came; the import validates them again."""

from collections.abc import Iterable

from ctxr.annotation.platforms import prolific
from ctxr.annotation.platforms.arrivals import Arrival, Arrivals
from ctxr.annotation.records import Answer

LABEL = "journal"


def answers(stored: Iterable[Answer]) -> Arrivals:
    """The answers of a journal but for those of people from Prolific, which count once Prolific knows the submission; the
    rows are named by unit and worker.
    """
    rows = sorted((answer for answer in stored if answer.backend != prolific.PLATFORM), key=lambda answer: answer.key())
    return Arrivals(
        tuple(Arrival(f"{LABEL}:{answer.unit}/{answer.worker}", answer) for answer in rows), labels=(LABEL,)
    )
