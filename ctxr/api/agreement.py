"""`ctxr.agreement`: the figures of `ctxr agreement` for a file, or for votes that are in memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxr.annotation.vote_files import from_rows, votes_in
from ctxr.api.verbs import Warnings, WarningsAndBars, hinted
from ctxr.engine.options import convert
from ctxr.errors import UsageError
from ctxr.pipelines.inspection.agreement import measure, run
from ctxr.pipelines.inspection.config import AgreementConfig, AgreementReport


@hinted()
def agreement(votes: Any, *, progress: bool = False, **options: Any) -> AgreementReport:
    """How far people agree, who disagrees with whom, and what the votes decide.

    Args:
        votes: a file; or a data frame, a mapping of columns, or rows as mappings: with item, worker and value, or with a column for each
            worker.
        progress: show notes and bars. options: item, worker, value (names of columns), out (folder to write), seed.

    Raises UsageError for columns that cannot be told, DataError for what holds no votes.
    """
    shown = WarningsAndBars() if progress else Warnings()
    if isinstance(votes, str | Path):
        return run(AgreementConfig(**convert(AgreementConfig, options | {"votes": votes}, "ctxr.agreement()")), shown)
    config = AgreementConfig(**convert(AgreementConfig, options, "ctxr.agreement()"))
    return measure("votes", votes_in(_columns(votes), config.columns()), config, shown)


def _columns(votes: Any) -> dict[str, list[object]]:
    """The columns of a data frame, a mapping of columns, or rows."""
    if isinstance(votes, Sequence) and votes and all(isinstance(row, Mapping) for row in votes):
        return from_rows(votes)
    names = votes if isinstance(votes, Mapping) else getattr(votes, "columns", None)
    if names is None or not len(names):
        raise UsageError(
            f"{type(votes).__name__} is no table of votes", hint="a file, a data frame, or a dict of columns"
        )
    # rows of pandas that were filtered keep numbers without a name, which say nothing
    if hasattr(votes, "reset_index") and (votes.index.name is not None or votes.index.dtype.kind not in "iu"):
        votes = votes if votes.index.name in names else votes.reset_index()
    columns = {str(name): votes[name] for name in getattr(votes, "columns", names)}
    for name, column in columns.items():
        if isinstance(column, str | Mapping) or not hasattr(column, "__iter__") or hasattr(column, "columns"):
            raise UsageError(f"column {name!r} is no column of cells", hint="a list for each column")
    return {name: list(column) for name, column in columns.items()}
