"""The table of commands. A row names modules and imports none, so that `ctxr --help` stays fast."""

from dataclasses import dataclass
from pkgutil import resolve_name


@dataclass(frozen=True)
class Command:
    """One command: its options are the fields of `config`, its work is `run`, its result is shown by `view`.

    Attributes:
        line: its summary in the list of commands. text: its own help, where longer.
        config, run, view: `module:name` of the configuration, of `run(config, talk)`, and of what renders its report as blocks.
        document: `module:name` of what builds the JSON document, if other than the report.
        started: `module:name` of what renders what `run` passes to its callback, for commands that run until interrupted.
        arguments: positional fields. resumes: whether it continues after an interruption.
    """

    line: str
    config: str
    run: str
    view: str
    text: str = ""
    document: str = ""
    started: str = ""
    arguments: tuple[str, ...] = ()
    resumes: bool = False


named = resolve_name
"""Imports `module:name`."""

COMMANDS = {
    "build-sets": Command(
        "Build sets of ten minimally contrastive images from videos and photos.",
        "ctxr.pipelines.curation.config:BuildSets",
        "ctxr.pipelines.curation.build_sets:run",
        "ctxr.cli.views:image_sets",
        arguments=("sources",),
        resumes=True,
    ),
    "filter": Command(
        "Remove blurry, text-heavy or small images and replace them.",
        "ctxr.pipelines.curation.config:Filter",
        "ctxr.pipelines.curation.filter:run",
        "ctxr.cli.views:image_sets",
        resumes=True,
    ),
    "merge": Command(
        "Merge what the ranks of build-sets or filter have made into one artifact.",
        "ctxr.pipelines.curation.config:Merge",
        "ctxr.pipelines.curation.merge:run",
        "ctxr.cli.views:image_sets",
        text="Merge what the ranks of build-sets or filter have made into one artifact, byte-equal to that of a run without ranks.\n\n"
        "The exit code is 4 while a rank is at work, and when a source was not finished by any rank.",
        arguments=("artifact",),
        resumes=True,
    ),
    "plan": Command(
        "Estimate the effort of a crowd study: answers, cost with fees, hours, pay per hour.",
        "ctxr.pipelines.crowd.config:Plan",
        "ctxr.pipelines.crowd.plan:run",
        "ctxr.cli.views:plan",
        text="Estimate the effort of a crowd study: units, answers, cost with fees, hours, pay per hour; "
        "fails below a minimum hourly pay.",
    ),
    "export-tasks": Command(
        "Write tasks for the crowd, for the built-in server or a crowdsourcing platform.",
        "ctxr.annotation.config:ExportTasks",
        "ctxr.pipelines.crowd.export_tasks:run",
        "ctxr.cli.views:tasks",
        text="Write tasks for the crowd (describe, retrieve, dialogue, verify, tag, entail or audit), "
        "for the built-in server or a crowdsourcing platform.",
        arguments=("task",),
        resumes=True,
    ),
    "import-answers": Command(
        "Validate answers from the server or a platform and merge them into the judgments.",
        "ctxr.annotation.config:ImportAnswers",
        "ctxr.annotation.answers:run",
        "ctxr.cli.views:judgments",
        text="Validate answers from the server or a platform and merge them into the judgments. "
        "Importing the same answers twice changes nothing.",
        arguments=("file",),
    ),
    "aggregate": Command(
        "Select descriptions, measure accuracy and agreement, and write the dataset.",
        "ctxr.pipelines.crowd.config:Aggregate",
        "ctxr.pipelines.crowd.aggregate:run",
        "ctxr.cli.views:dataset",
        text="Select descriptions, measure accuracy and agreement on every basis, and write the dataset.",
    ),
    "workers": Command(
        "Estimate the accuracy of each worker; block, allow, or undo, each with a reason.",
        "ctxr.pipelines.crowd.config:Workers",
        "ctxr.pipelines.crowd.workers:run",
        "ctxr.cli.views:workers",
        text="Estimate the accuracy of each worker with an interval; block, allow, or undo, each with a reason.",
    ),
    "report": Command(
        "Write an HTML report on a chain of artifacts, readable in any browser without a server.",
        "ctxr.pipelines.inspection.config:Report",
        "ctxr.pipelines.inspection.report:run",
        "ctxr.cli.views:page",
        text="Write an HTML report on a chain of artifacts: sets, timelines, exclusions with reasons, distributions, provenance.",
    ),
    "export": Command(
        "Export image sets in a common format, or as a recipe without pixels.",
        "ctxr.pipelines.sharing.config:Export",
        "ctxr.pipelines.sharing.export:run",
        "ctxr.cli.views:export",
        text="Export image sets to a common format: imagecode, hf, webdataset, croissant, fiftyone, recipe.",
    ),
    "rebuild": Command(
        "Rebuild the images of a recipe from its videos and photos.",
        "ctxr.pipelines.curation.config:Rebuild",
        "ctxr.pipelines.curation.rebuild:run",
        "ctxr.cli.views:rebuilt",
        text="Rebuild the images of a recipe from its videos and photos, which are recognised by content.\n\n"
        "The exit code is 4 when a set could not be rebuilt because a source is missing.",
        arguments=("recipe",),
        resumes=True,
    ),
    "verify": Command(
        "Verify that the images of a recipe or an artifact match their sources, and list those that do not.",
        "ctxr.pipelines.curation.config:Verify",
        "ctxr.pipelines.curation.verify:run",
        "ctxr.cli.views:verified",
        text="Verify that the images of a recipe or an artifact match their sources, and list those that do not.\n\n"
        "Every video frame is decoded again; a photo is looked up among the sources by its hash.",
        arguments=("artifact",),
    ),
    "stats": Command(
        "Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leakage.",
        "ctxr.pipelines.inspection.config:Stats",
        "ctxr.pipelines.inspection.stats:run",
        "ctxr.cli.views:statistics",
        arguments=("dataset",),
    ),
    "audit": Command(
        "Test a benchmark for shortcuts: rules that ignore the description must stay at chance.",
        "ctxr.pipelines.inspection.config:Audit",
        "ctxr.pipelines.inspection.audit:run",
        "ctxr.cli.views:shortcuts",
        text="Test a benchmark for shortcuts: rules that ignore the description must stay at chance.\n\n"
        "The images of a video set come from one shot in temporal order, so the first and last are nearest to the shot's start and\n"
        "end. Photos have no order, except that the first is the anchor whose neighbours the others are.",
        arguments=("dataset",),
    ),
    "train": Command(
        "Train a model with a recipe, and score the validation and test queries.",
        "ctxr.pipelines.modelling.config:Train",
        "ctxr.pipelines.modelling.train:run",
        "ctxr.cli.views:training",
        text="Train a model with a published recipe or your own, and score the validation and test queries.",
        resumes=True,
    ),
    "regions": Command(
        "Extract region features and boxes of every image, for models that use regions.",
        "ctxr.pipelines.modelling.config:RegionsConfig",
        "ctxr.pipelines.modelling.regions:run",
        "ctxr.cli.views:regions",
        arguments=("dataset",),
        resumes=True,
    ),
    "listen": Command(
        "Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.",
        "ctxr.pipelines.modelling.config:Listen",
        "ctxr.pipelines.modelling.listen:run",
        "ctxr.cli.views:listening",
        text="Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.\n\n"
        "The API key is read from the environment only. The exit code is 4 when --max-cost was reached before every query was answered.",
        arguments=("dataset",),
        resumes=True,
    ),
    "revise-labels": Command(
        "Find captions that are also true of other images and add them as a round of judgments, or undo a round.",
        "ctxr.pipelines.revision.config:ReviseLabels",
        "ctxr.pipelines.revision.revise_labels:run",
        "ctxr.cli.views:revision",
        text="Find captions that are also true of other images by entailment, and add them as a round of judgments, "
        "or undo a round.",
        arguments=("dataset",),
        resumes=True,
    ),
    "eval": Command(
        "Evaluate and compare runs, with confidence intervals and error analysis.",
        "ctxr.pipelines.modelling.config:Eval",
        "ctxr.pipelines.modelling.eval:run",
        "ctxr.cli.views:evaluation",
        arguments=("runs",),
    ),
    "serve": Command(
        "Serve annotation pages from this machine: describe, retrieve, judge, chat.",
        "ctxr.pipelines.crowd.config:Serve",
        "ctxr.pipelines.crowd.serve:run",
        "ctxr.cli.views:collected",
        text="Serve annotation pages from this machine until Ctrl-C: describe, retrieve, judge, chat; "
        "every answer is saved immediately.",
        started="ctxr.cli.views:serving",
    ),
    "doctor": Command(
        "Check this machine or an artifact, and suggest a fix for each problem.",
        "ctxr.pipelines.inspection.config:Doctor",
        "ctxr.pipelines.inspection.doctor:run",
        "ctxr.cli.views:checks",
        document="ctxr.cli.views:checks_document",
        arguments=("artifact",),
    ),
    "demo": Command(
        "Draw a small synthetic world, run the whole pipeline on it, and compare with the ground truth.",
        "ctxr.synthetic.config:Demo",
        "ctxr.synthetic.demo:run",
        "ctxr.synthetic.views:demo",
        resumes=True,
    ),
}
"""Commands by name, in order of use."""
