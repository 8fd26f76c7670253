"""What may propose candidates: a run of the project, or an encoder by its name."""

from difflib import get_close_matches
from pathlib import Path

from ctxr.errors import UsageError
from ctxr.pipelines.evaluating.runs import PLAIN_ENCODERS, finished_runs, run_folder


def check_by(by: str, workdir: Path) -> None:
    """Raises UsageError for a name that is neither a run of the project nor one that an encoder can have."""
    if run_folder(by, workdir) is not None or ":" in by or by in PLAIN_ENCODERS:
        return
    known = finished_runs(workdir)
    near = get_close_matches(by, [*known, *PLAIN_ENCODERS], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += f"the runs are {', '.join(known)}; " if known else "no run is finished yet; "
    raise UsageError(
        f"--by {by}: there is neither a run nor an encoder of that name",
        hint=f"{hint}encoders are {', '.join(PLAIN_ENCODERS)}, or named as in ViT-B-32:openai",
    )
