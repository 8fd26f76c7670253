"""What stands in the folder of a run that is asked for: the run itself, another one, or one that was damaged."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxr.data.artifacts import MANIFEST, Parent, finished, open_artifact, plain, take_manifest
from ctxr.pipelines.talk import Talk

_NAMED = 3
"""Settings that are named where a run was trained otherwise."""


def stands(out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent]) -> bool:
    """Whether exactly this run lies in `out`, finished and as it was written. What it was made from may have been renamed."""
    found = finished(out, kind, "train", decides, parents, renamed=True)
    return found is not None and not found.changed_files()


def make_way(out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent], talk: Talk) -> None:
    """Say what becomes of a finished run in `out` that is not the one asked for.

    Seeds with damaged files are removed, to be trained again. A run of other settings is left as it is: it goes when the first new
    seed is done, so that a training that is broken off costs nothing.
    """
    if not (out / MANIFEST).is_file():
        return
    if finished(out, kind, "train", decides, parents, renamed=True) is None:
        known, wanted = open_artifact(out, kind).manifest.config, plain(decides)
        other = [name for name, value in wanted.items() if known.get(name) != value]
        why = ", ".join(other[:_NAMED]) + (f" and {len(other) - _NAMED} more" if len(other) > _NAMED else "")
        talk.warn(
            f"{out} holds a run that was trained otherwise ({why or 'on other data'}): it stays until the first seed of the new one "
            "is done; --name keeps both"
        )
        return
    damaged = open_artifact(out, kind).changed_files()
    take_manifest(out)
    for seed in sorted({Path(name).parts[0] for name in damaged if "/" in name}):
        talk.warn(f"{out / seed} was changed or damaged since it was written, so this seed is trained again")
        shutil.rmtree(out / seed, ignore_errors=True)
