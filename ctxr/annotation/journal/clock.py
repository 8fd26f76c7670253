"""Times as the journal stores them: whole microseconds since 1970, UTC."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An aware time as microseconds. Raises ValueError for one that does not say its zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} does not say its time zone")
    return (moment - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    """The time, aware, UTC."""
    return _EPOCH + stored * _MICROSECOND


def stamp(stored: int) -> str:
    """ISO 8601 with milliseconds and "Z".

    >>> stamp(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    return moment(stored).isoformat(timespec="milliseconds").replace("+00:00", "Z")
