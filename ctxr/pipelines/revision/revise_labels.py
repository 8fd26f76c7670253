"""`ctxr revise-labels`: mine candidates, judge them, and add the entailed ones as a round that can be undone."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
from msgspec import structs

from ctxr.datasets.rounds import (
    Rounds,
    base_of,
    parents_of,
    put_in_force,
    read_rounds,
    refuse_changed_rounds,
    to_switch,
)
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Stage, execute
from ctxr.errors import DataError, UnfinishedError, UsageError, and_more
from ctxr.models.entailment.base import Judge
from ctxr.models.identity import model_identity, resolved_name
from ctxr.pipelines.revision.auditing import audit
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.inputs import RevisionInputs, open_judges, open_project, retriever_of
from ctxr.pipelines.revision.licence import read_licence
from ctxr.pipelines.revision.results import reported
from ctxr.problems.runs import run_folder
from ctxr.store.artifacts import Artifact, Content, open_artifact
from ctxr.store.kinds import DATASET, RUN


def run(config: ReviseLabels, progress: Progress = SILENT, classifier: Judge | None = None) -> ReviseReport:
    """Add, undo, redo or audit a round, or report the plan; `classifier` is the judge, in place of those that `config` names.

    Raises UsageError for wrong arguments; UnfinishedError without a dataset or answers, and where a judge's budget ends; DataError for
    pictures, weights or tables that cannot be used, and where a judge was trained on evaluated pictures.
    """
    config.check()
    if config.undo or config.redo:  # none of the files of a round is deleted
        out = config.folder()
        if not read_rounds(out):
            raise UnfinishedError(f"{out} holds no round", hint=config.followup("--entail"))
        base = open_project(config, progress)
        switched = to_switch(read_rounds(out), config.round, config.redo, config.followup)
        execute(Rounds(config, base, {switched.number: structs.replace(switched, active=config.redo)}))
        facts = {
            "revised": out,
            "round": switched.number,
            "judgments": f"{switched.added:,} pairs {'count again' if config.redo else 'no longer count'}",
            "active": ", ".join(str(row.number) for row in read_rounds(out) if row.active) or "none",
            "reverse": config.followup(f"--{'undo' if config.redo else 'redo'}", "--round", str(switched.number)),
        }
        return ReviseReport(out, "redone" if config.redo else "undone", switched.number, facts)
    if config.audit:
        return audit(config, progress)
    if config.entail and not config.dry_run:
        before, stage = read_rounds(config.folder()), Revision(config, classifier, progress)
        execute(stage, progress)
        made = stage.decided.made(before)
        did = "added" if made is None else "up to date" if made.active else "redone"
        return reported(config, made or read_rounds(stage.out())[-1], did, stage.decided.cascade)
    with progress.task("reading the labels", None):
        report: ReviseReport = resolve_name("ctxr.pipelines.revision.revising:plan")(config, progress, classifier)
        return report


@dataclass(eq=False)
class Revision(Stage[RevisionInputs]):
    """Adds a round, mined and judged before earlier ones are touched, or redoes an undone one."""

    KIND = DATASET
    IN_PLACE = True
    options: ReviseLabels
    judge: Judge | None
    progress: Progress

    @cached_property
    def decided(self) -> RevisionInputs:
        """The dataset, the rounds, and what decides the one that is asked for: manifests, hashes, and the table of rounds."""
        progress, config, out = self.progress, self.options, self.out()
        base = open_project(config, progress)
        rounds = read_rounds(out)
        cascade, config = open_judges(config, progress, self.judge)
        by = retriever_of(config, rounds)
        if (trained := run_folder(by, config.workdir)) is not None:
            retriever = open_artifact(trained, RUN, "ctxr train").sha256
        else:
            retriever = model_identity(resolved_name(by, config.workdir), config.workdir)
        licence = read_licence(config.workdir, cascade.fingerprint, base.content)
        return RevisionInputs(
            parents_of(base, rounds),
            {"base": base.content},
            tuple(rounds),
            options=config,
            base=base,
            by=by,
            retriever=retriever,
            cascade=cascade,
            licence=licence,
            progress=progress,
        )

    def inputs(self, progress: Progress) -> RevisionInputs:
        """See `decided`."""
        return self.decided

    def pending(self, artifact: Artifact, inputs: RevisionInputs) -> bool:
        """Whether the round does not exist, not from another process either, or is undone, or the dataset has moved."""
        made, base = inputs.made(read_rounds(artifact.path)), base_of(artifact.path)
        return made is None or not made.active or base is None or not base.exists()

    def refuse(self, inputs: RevisionInputs, progress: Progress) -> None:
        """Warn of pictures that a judge was trained on. Raises DataError where one is evaluated on, UsageError where no pair is left."""
        if inputs.made(inputs.rounds) is not None:
            return
        new = inputs.new
        cascade, leaked, galleries = new.cascade, new.leaked, new.inputs.galleries
        for judge in cascade.judges:
            judge.check()
        if cascade.unknown:
            progress.note(f"what {cascade.unknown} was trained on is unknown and may include these pictures")
        evaluated = {image for gallery in galleries if gallery.split != "train" for image in gallery.images}
        wrong = [name for name in leaked if name in evaluated]
        if wrong and not new.scope.options.allow_leak:
            raise DataError(
                f"{cascade.name}: trained on {len(wrong)} of {len(evaluated)} evaluated pictures, the first is {wrong[0]}",
                hint="train the judge without them, or --split train, or --allow-leak for figures with and without them",
            )
        if leaked:
            progress.warn(
                f"{cascade.name}: trained on pictures that it is to judge: {leaked[0]}{and_more(len(leaked))}"
            )
        known = sum(len(np.unique(gallery.excluded, axis=0)) for gallery in galleries)
        if known == sum(len(gallery.images) * len(gallery.captions) for gallery in galleries):
            lower = f"a lower --threshold, or {new.scope.options.followup('--undo')}"
            raise UsageError(
                "no pair is left to judge: all were given, added or rejected before",
                hint=lower if new.inputs.before else "name a dataset whose sets hold more pictures, or another --split",
            )

    def write(self, inputs: RevisionInputs, out: Path, progress: Progress) -> Content:
        """Make the round if it is missing, and apply all active ones."""
        refuse_changed_rounds(out)
        rounds, made = [*inputs.rounds], inputs.made(inputs.rounds)
        if made is None:
            rounds.append(resolve_name("ctxr.pipelines.revision.revising:make")(inputs.new, rounds, progress))
        else:
            rounds[made.number - 1] = structs.replace(made, active=True)
        return put_in_force(out, inputs.base, rounds)
