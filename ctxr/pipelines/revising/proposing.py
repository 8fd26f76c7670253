"""What may propose candidates: a run of the project, or an encoder by its name."""

from difflib import get_close_matches
from pathlib import Path

from ctxr.data.artifacts import MANIFEST
from ctxr.errors import UsageError
from ctxr.pipelines.evaluating.runs import PLAIN_ENCODERS, RUNS


def check_by(by: str, workdir: Path) -> None:
    """Raises UsageError for a name that is neither a run of the project nor one that an encoder can have."""
    if by and ((workdir / RUNS / by).is_dir() or Path(by).is_dir() or ":" in by or by in PLAIN_ENCODERS):
        return
    known = sorted(file.parent.name for file in (workdir / RUNS).glob(f"*/{MANIFEST}"))
    near = get_close_matches(by, [*known, *PLAIN_ENCODERS], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += f"the runs are {', '.join(known)}; " if known else "no run is finished yet; "
    raise UsageError(
        f"--by {by}: there is neither a run nor an encoder of that name",
        hint=f"{hint}encoders are {', '.join(PLAIN_ENCODERS)}, or named as in ViT-B-32:openai",
    )
