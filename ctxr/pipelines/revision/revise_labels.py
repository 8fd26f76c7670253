"""`ctxr revise-labels`: mine candidates, judge them, and add the entailed ones as a round that can be undone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

from msgspec import structs

from ctxr.datasets.rounds import Base, Round, RoundInputs, Rounds, read_rounds, refuse_changed_rounds, to_switch
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import execute
from ctxr.errors import UnfinishedError
from ctxr.models.entailment.base import Judge
from ctxr.pipelines.revision.auditing import audit
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.inputs import (
    NewRound,
    choose_threshold,
    open_judges,
    open_project,
    refuse_leaked,
    refuse_nothing_left,
    retriever_identity,
    revision_input,
    scope_of,
    without_rejected,
)
from ctxr.pipelines.revision.licence import read_licence
from ctxr.pipelines.revision.results import reported
from ctxr.problems.gallery.truth import TRUTH
from ctxr.store.artifacts import Artifact, Content
from ctxr.store.hashing import sha256_of


def run(config: ReviseLabels, progress: Progress = SILENT, classifier: Judge | None = None) -> ReviseReport:
    """Add, undo, redo or audit a round, or report the plan; `classifier` is the judge, in place of those that `config` names.

    Raises UsageError for wrong arguments; UnfinishedError without a dataset or answers, and where a judge's budget ends; DataError for
    pictures, weights or tables that cannot be used, and where a judge was trained on evaluated pictures.
    """
    config.check()
    if config.undo or config.redo:
        return _switch(config, progress)
    if config.audit:
        return audit(config, progress)
    if config.entail and not config.dry_run:
        return _revise(config, progress, classifier)
    with progress.task("reading the labels", None):
        report: ReviseReport = resolve_name("ctxr.pipelines.revision.revising:plan")(config, progress, classifier)
        return report


def _switch(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Undo or redo a round; none of its files is deleted. Raises UnfinishedError where nothing was revised, and what `to_switch` raises."""
    out = config.folder()
    if not read_rounds(out):
        raise UnfinishedError(f"{out} holds no round", hint=config.followup("--entail"))
    base, rounds = open_project(config, progress), read_rounds(out)
    switched = structs.replace(to_switch(rounds, config.round, config.redo, config.followup), active=config.redo)
    rounds[switched.number - 1] = switched
    execute(Rounds(config, out, base, rounds))
    facts = {
        "revised": out,
        "round": switched.number,
        "judgments": f"{switched.added:,} pairs {'count again' if switched.active else 'no longer count'}",
        "active": ", ".join(str(row.number) for row in rounds if row.active) or "none",
        "reverse": config.followup(f"--{'undo' if switched.active else 'redo'}", "--round", str(switched.number)),
    }
    return ReviseReport(out, "redone" if switched.active else "undone", switched.number, facts)


def _revise(config: ReviseLabels, progress: Progress, classifier: Judge | None) -> ReviseReport:
    """Add a round, unless it exists already, which is decided without a model."""
    base, out, typed = open_project(config, progress), config.folder(), config
    rounds = read_rounds(out)
    cascade, config = open_judges(config, progress, classifier)
    by = rounds[-1].by if rounds and config.by == "auto" else config.by
    identity = retriever_identity(by, config.workdir)
    licence = read_licence(config.workdir, cascade.fingerprint, base.content)
    chosen = choose_threshold(config, base, cascade, licence.threshold if licence else None, progress)
    if licence and licence.threshold is not None and licence.threshold > chosen.value:
        progress.note(f"the licence of {cascade.name} holds from {licence.threshold:.3g} on, not at a lower threshold")
    active, inputs = [row for row in rounds if row.active], None
    makers = [identity, cascade.fingerprint, chosen.value, chosen.unsure]
    if TRUTH in (base.tables or {}) or not (licence or config.unlicensed):
        config = replace(config, unlicensed=False)
    else:  # on which splits it counts, the tables say
        inputs = revision_input(config, base, active)
        scope = scope_of(config, inputs, cascade, licence, chosen.value)
        config = scope.options
        makers += sorted(scope.splits) if scope.licence else []

    def decides(before: Sequence[Round]) -> str:
        """Hash of everything that decides a round, including the active rounds before it."""
        return sha256_of([config.key(), base.content, makers, [row.decides for row in before if row.active]])

    for current in rounds:
        if current.decides == decides(rounds[: current.number - 1]):
            leaked = []
            if current.leaked:
                leaked = refuse_leaked(config, revision_input(config, base, active), cascade, progress)
            redone = [structs.replace(row, active=row.active or row is current) for row in rounds]
            execute(Rounds(config, out, base, redone), progress)
            return reported(typed, current, "up to date" if current.active else "redone", cascade, leaked)
    inputs = inputs or revision_input(config, base, active)
    leaked = refuse_leaked(config, inputs, cascade, progress)
    inputs = without_rejected(inputs, out, cascade.fingerprint, chosen.limits)
    refuse_nothing_left(config, inputs)
    scope = scope_of(config, inputs, cascade, licence, chosen.value)
    new = NewRound(inputs, by, cascade, chosen, frozenset(leaked), scope, decides(rounds))
    execute(Revision(scope.options, out, base, rounds, new), progress)
    return reported(typed, read_rounds(out)[-1], "added", cascade, leaked)


class Revision(Rounds):
    """The rounds with a new one, which is mined and judged before the earlier ones are touched."""

    def __init__(self, options: ReviseLabels, out: Path, base: Base, rounds: Sequence[Round], new: NewRound) -> None:
        super().__init__(options, out, base, rounds)
        self._new = new

    def pending(self, artifact: Artifact, inputs: RoundInputs) -> bool:
        """Whether no other process has made the round meanwhile."""
        return all(row.decides != self._new.decides for row in read_rounds(self.out()))

    def write(self, inputs: RoundInputs, out: Path, progress: Progress) -> Content:
        """Make the round, then write what `Rounds` does."""
        refuse_changed_rounds(out)
        made = resolve_name("ctxr.pipelines.revision.revising:make")(self._new, inputs.rounds, progress)
        return super().write(replace(inputs, rounds=(*inputs.rounds, made)), out, progress)
