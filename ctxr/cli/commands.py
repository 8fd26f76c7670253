"""The table of commands. A row names modules without importing them, which keeps `ctxr --help` fast."""

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
        document: `module:name` of what builds the JSON document, if other than the report.
        started: `module:name` of what renders what `run` passes to its callback, for commands that run until interrupted.
        arguments: positional fields. resumes: whether it continues after an interruption.
    """

    module: str
    options: str
    view: str
    document: str = ""
    started: str = ""
    arguments: tuple[str, ...] = ()
    resumes: bool = False

    @property
    def config(self) -> str:
        """`module:name` of the options."""
        return self.options if ":" in self.options else f"{self.module.rpartition('.')[0]}.config:{self.options}"

    @property
    def run(self) -> str:
        """`module:name` of the work."""
        return f"{self.module}:run"


def named(dotted: str) -> Any:
    """Import `module:name`; without a module, from the views."""
    return resolve_name(dotted if ":" in dotted else f"ctxr.cli.views:{dotted}")


LINES = {
    "build-sets": "Build sets of ten minimally contrastive images from videos and photos.",
    "filter": "Remove blurry, text-heavy or small images and replace them.",
    "merge": "Merge what the ranks of build-sets or filter have made into one artifact.",
    "plan": "Estimate the effort of a crowd study: answers, cost with fees, hours, pay per hour.",
    "export-tasks": "Write tasks for the crowd, for the built-in server or a crowdsourcing platform.",
    "import-answers": "Validate answers from the server or a platform and merge them into the judgments.",
    "aggregate": "Select descriptions, measure accuracy and agreement on every basis, and write the dataset.",
    "workers": "Estimate the accuracy of each worker with an interval; block, allow, or undo, each with a reason.",
    "report": "Write an HTML report on a chain of artifacts, readable in any browser without a server.",
    "export": "Export image sets in a common format, or as a recipe without pixels.",
    "rebuild": "Rebuild the images of a recipe from its videos and photos, which are recognised by content.",
    "verify": "Verify that the images of a recipe or an artifact match their sources, and list those that do not.",
    "stats": "Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leakage.",
    "audit": "Test a benchmark for shortcuts: rules that ignore the description must stay at chance.",
    "train": "Train a model with a published recipe or your own, and score the validation and test queries.",
    "regions": "Extract region features and boxes of every image, for models that use regions.",
    "listen": "Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.",
    "revise-labels": "Find captions that are also true of other images and add them as a round of judgments, or undo a round.",
    "eval": "Evaluate and compare runs, with confidence intervals and error analysis.",
    "serve": "Serve annotation pages from this machine until Ctrl-C; every answer is saved immediately.",
    "doctor": "Check this machine or an artifact, and suggest a fix for each problem.",
    "demo": "Draw a small synthetic world, run the whole pipeline on it, and compare with the ground truth.",
}
"""Summaries by name, in order of use."""

MORE = {
    "merge": "It is byte-equal to that of a run without ranks. The exit code is 4 while a rank is at work, and when a source was not "
    "finished by any rank.",
    "plan": "It fails below a minimum hourly pay.",
    "export-tasks": "Tasks are describe, retrieve, dialogue, verify, tag, entail and audit.",
    "import-answers": "Importing the same answers twice changes nothing.",
    "report": "It shows sets, timelines, exclusions with reasons, distributions, results and provenance.",
    "rebuild": "The exit code is 4 when a set could not be rebuilt because a source is missing.",
    "verify": "Every video frame is decoded again; a photo is looked up among the sources by its hash.",
    "audit": "The images of a video set come from one shot in temporal order, so the first and last are nearest to the shot's start "
    "and end. Photos have no order, except that the first is the anchor whose neighbours the others are.",
    "listen": "The API key is read from the environment only. The exit code is 4 when --max-cost was reached before every query was "
    "answered.",
}
"""What the help of a command adds to its summary."""

COMMANDS = {
    "build-sets": Command(
        "ctxr.pipelines.curation.build_sets", "BuildSets", "image_sets", arguments=("sources",), resumes=True
    ),
    "filter": Command("ctxr.pipelines.curation.filter", "Filter", "image_sets", resumes=True),
    "merge": Command("ctxr.pipelines.curation.merge", "Merge", "image_sets", arguments=("artifact",), resumes=True),
    "plan": Command("ctxr.pipelines.crowd.plan", "Plan", "plan"),
    "export-tasks": Command(
        "ctxr.pipelines.crowd.export_tasks",
        "ctxr.annotation.config:ExportTasks",
        "tasks",
        arguments=("task",),
        resumes=True,
    ),
    "import-answers": Command("ctxr.annotation.answers", "ImportAnswers", "judgments", arguments=("file",)),
    "aggregate": Command("ctxr.pipelines.crowd.aggregate", "Aggregate", "dataset"),
    "workers": Command("ctxr.pipelines.crowd.workers", "Workers", "workers"),
    "report": Command("ctxr.pipelines.inspection.report", "Report", "page"),
    "export": Command("ctxr.pipelines.sharing.export", "Export", "export"),
    "rebuild": Command("ctxr.pipelines.curation.rebuild", "Rebuild", "rebuilt", arguments=("recipe",), resumes=True),
    "verify": Command("ctxr.pipelines.curation.verify", "Verify", "verified", arguments=("artifact",)),
    "stats": Command("ctxr.pipelines.inspection.stats", "Stats", "statistics", arguments=("dataset",)),
    "audit": Command("ctxr.pipelines.inspection.audit", "Audit", "shortcuts", arguments=("dataset",)),
    "train": Command("ctxr.pipelines.modelling.train", "Train", "training", resumes=True),
    "regions": Command(
        "ctxr.pipelines.modelling.regions", "RegionsConfig", "regions", arguments=("dataset",), resumes=True
    ),
    "listen": Command("ctxr.pipelines.modelling.listen", "Listen", "listening", arguments=("dataset",), resumes=True),
    "revise-labels": Command(
        "ctxr.pipelines.revision.revise_labels", "ReviseLabels", "revision", arguments=("dataset",), resumes=True
    ),
    "eval": Command("ctxr.pipelines.modelling.eval", "Eval", "evaluation", arguments=("runs",)),
    "serve": Command("ctxr.pipelines.crowd.serve", "Serve", "collected", started="serving"),
    "doctor": Command(
        "ctxr.pipelines.inspection.doctor", "Doctor", "checks", document="checks_document", arguments=("artifact",)
    ),
    "demo": Command("ctxr.synthetic.demo", "Demo", "ctxr.synthetic.demo:show", resumes=True),
}
"""Commands by name, in order of use."""
