"""`ctxr status`: what a project holds, how fresh it is, what comes next; by manifests and the journal alone."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ctxr.annotation.journal.identities import read_names
from ctxr.annotation.journal.results import Overview
from ctxr.annotation.launch import private_folder
from ctxr.annotation.overview import overview
from ctxr.annotation.project_journal import project_journal
from ctxr.engine.next_step import repeats
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN
from ctxr.engine.report import leak_sentence
from ctxr.engine.state import DECISIONS, ProjectState, Stored
from ctxr.errors import CtxrError, UnfinishedError, plural, some
from ctxr.models.hub import STAND_INS
from ctxr.pipelines.inspection.config import Status, StatusReport
from ctxr.pipelines.inspection.project_state import project_state
from ctxr.store.kinds import CLASSIFIER, CLASSIFIER_RESULTS, EVALUATION, RUN

SHOWN = ("sets", "documents", "pairs", "pictures", "images", "queries", "units", "answers")
"""Counts that say what an artifact holds, the first ones first."""


def run(config: Status, progress: Progress = SILENT) -> StatusReport:
    """What a project holds. Raises UnfinishedError for a folder that holds no artifact."""
    state = project_state(config.check().workdir)
    if not state.stored:
        hint = "ctxr build-sets videos/   (or -w, another project)"
        raise UnfinishedError(f"{config.workdir} holds no artifact", hint=hint)
    rows = tuple(
        {
            "artifact": one.name,
            "by": one.verb,
            "at": datetime.fromtimestamp(one.made, UTC).isoformat(" ", "minutes")[:16],
            "holds": _holds(one),
            "condition": _condition(one),
        }
        for one in state.stored
    )
    return StatusReport(config.workdir, rows, dict(state.open or {}), tuple(_notes(state)), _study(config.workdir))


def _study(workdir: Path) -> Overview | None:
    """What people's answers have come to; None where nobody was served, or a database cannot be read without a password."""
    with suppress(CtxrError), project_journal(workdir) as journal:
        names = dict[str, str]()
        with suppress(CtxrError):
            names = read_names(private_folder(workdir))
        return overview(workdir, journal, journal.answered(), datetime.now(UTC), names) if journal else None
    return None


def _condition(one: Stored) -> str:
    """What is wrong with an artifact; "" for one that is finished and fresh."""
    stale = f"stale: {one.stale}" if one.stale else ""
    return stale if one.artifact else "running" if one.running else "unfinished"


def _holds(one: Stored) -> str:
    """A few counts; of a run what it reached, of results the runs that are compared."""
    if one.kind in (RUN, CLASSIFIER):
        shares = [(split, one.counts.get(split)) for split in ("valid", "test")]
        reached = ", ".join(f"{split} {share:.3f}" for split, share in shares if isinstance(share, float))
        return f"{one.counts.get('measure', 'accuracy')} {reached}" if reached else ""
    counted = [f"{one.counts[name]:,} {name}" for name in SHOWN if isinstance(one.counts.get(name), int)]
    return ", ".join(one.counts.get("names", counted[:3]))


def _notes(state: ProjectState) -> Iterator[str]:
    """Notes on decisions of a review, stale artifacts, leaks, encoders that stand in for CLIP, and runs without an evaluation."""
    if state.rejections:
        yield f"{DECISIONS}: {plural(state.rejections, 'decision')} not applied"
    shown = [one for one in state.finished.values() if one.name in CHAIN or one.kind == EVALUATION]
    if newer := [one.name for one in shown if 0 < state.page < one.made]:
        yield f"report.html is older than {some(newer)}"
    for one, why in repeats(state):
        if why:
            yield f"{one.name} is stale, and ctxr run leaves it: {why}"
    for one in state.finished.values():
        if leaks := leak_sentence(one.counts):
            yield f"{one.name}: {leaks}"
        encoder = one.artifact.manifest.models.get("encoder") if one.artifact and one.verb == "build-sets" else None
        name = encoder.get("name") if isinstance(encoder, dict) else None
        if name in STAND_INS and name not in one.words:
            yield f"{one.name}: {name} was used because CLIP was not available; {STAND_INS[name]}"
    runs = [one for one in state.finished.values() if one.kind in (RUN, CLASSIFIER)]
    if new := [one.path.name for one in runs if not state.made_from(one, EVALUATION, CLASSIFIER_RESULTS)]:
        yield f"not evaluated yet: {some(new)}"
