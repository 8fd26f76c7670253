"""`ctxr.agreement`: the figures of `ctxr agreement` for a file, or for votes that are in memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxr.annotation.vote_files import Columns, to_columns
from ctxr.api.verbs import Warnings, WarningsAndBars, hinted
from ctxr.engine.options import convert
from ctxr.errors import UsageError
from ctxr.pipelines.inspection.agreement import run
from ctxr.pipelines.inspection.config import AgreementConfig, AgreementReport


@hinted()
def agreement(votes: object, *, progress: bool = False, **options: object) -> AgreementReport:
    """How far people agree, who disagrees with whom, and what the votes decide.

    Args:
        votes: a file; or a data frame, a mapping of columns, or rows as mappings: with item, worker and value, or with a column for each
            worker.
        progress: show notes and bars. options: item, worker, value (names of columns), out (folder to write), seed.

    Raises UsageError for columns that cannot be told, DataError for what holds no votes.
    """
    file = {"votes": votes} if isinstance(votes, str | Path) else {}
    config = AgreementConfig(**convert(AgreementConfig, options | file, "ctxr.agreement()"))
    return run(config, WarningsAndBars() if progress else Warnings(), None if file else _columns(votes))


def _columns(votes: Any) -> Columns:
    """The columns of a data frame, a mapping of columns, or rows."""
    if isinstance(votes, Sequence) and all(isinstance(row, Mapping) for row in votes):
        return to_columns(votes)
    # rows of pandas that were filtered keep numbers without a name, which say nothing
    if hasattr(votes, "reset_index") and (votes.index.name is not None or votes.index.dtype.kind not in "iu"):
        votes = votes if votes.index.name in votes.columns else votes.reset_index()
    names = getattr(votes, "columns", votes if isinstance(votes, Mapping) else None)
    columns = {} if names is None else {str(name): votes[name] for name in names}
    cells = (hasattr(one, "__iter__") and not isinstance(one, str | Mapping) for one in columns.values())
    if names is None or not all(cells):
        what = f"{type(votes).__name__} is no table with a column of cells for each name"
        raise UsageError(what, hint="a file, a data frame, or a dict of columns")
    return {name: [*column] for name, column in columns.items()}
