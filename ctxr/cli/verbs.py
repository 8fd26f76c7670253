"""The table of verbs. Rows name modules without importing them: `ctxr --help` stays fast."""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        module: whose `run(options, progress)` does the work. options: class of its options, in `config.py` beside the module unless
            named as `module:name`.
        view: what renders its report as blocks: a function of `ctxr.cli.views`, or `module:name`.
        started: `module:name` of what renders what `run` passes to its callback, for commands that run until interrupted.
        resumes: whether it continues after an interruption.
    """

    module: str
    options: str
    view: str
    started: str = ""
    resumes: bool = False

    @property
    def config(self) -> str:
        """`module:name` of the options."""
        return self.options if ":" in self.options else f"{self.module.rpartition('.')[0]}.config:{self.options}"


def named(dotted: str) -> Any:
    """Import `module:name`; without a module, from the views."""
    return resolve_name(dotted if ":" in dotted else f"ctxr.cli.views:{dotted}")


VERBS = {
    "build-sets": Command("ctxr.pipelines.curation.build_sets", "BuildSets", "image_sets", resumes=True),
    "filter": Command("ctxr.pipelines.curation.filter", "Filter", "image_sets", resumes=True),
    "merge": Command("ctxr.pipelines.curation.merge", "Merge", "image_sets", resumes=True),
    "plan": Command("ctxr.pipelines.crowd.plan", "Plan", "plan"),
    "export-tasks": Command(
        "ctxr.pipelines.crowd.export_tasks", "ctxr.annotation.config:ExportTasks", "tasks", resumes=True
    ),
    "import-answers": Command("ctxr.annotation.answers", "ImportAnswers", "judgments"),
    "aggregate": Command("ctxr.pipelines.crowd.aggregate", "Aggregate", "dataset"),
    "workers": Command("ctxr.pipelines.crowd.workers", "Workers", "workers"),
    "report": Command("ctxr.pipelines.inspection.report", "Report", "page"),
    "export": Command("ctxr.pipelines.sharing.export", "Export", "export"),
    "push": Command("ctxr.pipelines.sharing.push", "Push", "transferred", resumes=True),
    "pull": Command("ctxr.pipelines.sharing.pull", "Pull", "transferred", resumes=True),
    "rebuild": Command("ctxr.pipelines.curation.rebuild", "Rebuild", "rebuilt", resumes=True),
    "verify": Command("ctxr.pipelines.curation.verify", "Verify", "verified"),
    "build-documents": Command("ctxr.pipelines.curation.documents", "BuildDocuments", "documents"),
    "pairs": Command("ctxr.pipelines.curation.pairs", "Pairs", "documents"),
    "stats": Command("ctxr.pipelines.inspection.stats", "Stats", "statistics"),
    "shortcuts": Command("ctxr.pipelines.inspection.shortcuts", "Shortcuts", "shortcuts"),
    "train": Command("ctxr.pipelines.modelling.train", "Train", "training", resumes=True),
    "regions": Command("ctxr.pipelines.modelling.regions", "RegionsConfig", "regions", resumes=True),
    "listen": Command("ctxr.pipelines.modelling.listen", "Listen", "listening", resumes=True),
    "revise-labels": Command("ctxr.pipelines.revision.revise_labels", "ReviseLabels", "revision", resumes=True),
    "eval": Command("ctxr.pipelines.modelling.eval", "Eval", "evaluation"),
    "search": Command("ctxr.pipelines.finding.search", "Search", "search_results", started="searching", resumes=True),
    "serve": Command("ctxr.pipelines.crowd.serve", "Serve", "collected", started="serving"),
    "status": Command("ctxr.pipelines.inspection.status", "Status", "project_status"),
    "diff": Command("ctxr.pipelines.inspection.diff", "Diff", "artifact_diff"),
    "agreement": Command("ctxr.pipelines.inspection.agreement", "AgreementConfig", "vote_agreement"),
    "reproduce": Command("ctxr.pipelines.inspection.reproduce", "Reproduce", "published_figures"),
    "doctor": Command("ctxr.pipelines.inspection.doctor", "Doctor", "checks"),
}
