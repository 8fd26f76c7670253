"""The commands: one row each. A row names what it needs and imports nothing, so that `ctxr --help` stays light."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Command:
    """One command: its options are the fields of `config`, its work is `run`, its result is shown by `view`.

    Attributes:
        line: what it does, in the list of commands. text: its own help, where that says more.
        config, run, view: `module:name` of the configuration, of `run(config, talk)`, and of what makes blocks of its report.
        document: `module:name` of what makes the JSON document, where that is not the report itself.
        started: `module:name` of what makes blocks of what `run` calls back with, where it lasts until it is interrupted.
        arguments: fields that are given by their place. resumes: whether it keeps what it had done when it is interrupted.
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


def named(dotted: str) -> Any:
    """What `module:name` names."""
    module, _, name = dotted.partition(":")
    return getattr(import_module(module), name)


COMMANDS = {
    "build-sets": Command(
        "From videos and photos to sets of ten minimally contrastive images.",
        "ctxr.pipelines.curation.config:BuildSets",
        "ctxr.pipelines.curation.build_sets:run",
        "ctxr.cli.views:image_sets",
        arguments=("sources",),
        resumes=True,
    ),
    "filter": Command(
        "Take out blurry, text-heavy or small images, and fill the gaps.",
        "ctxr.pipelines.curation.config:Filter",
        "ctxr.pipelines.curation.filter:run",
        "ctxr.cli.views:image_sets",
        resumes=True,
    ),
    "plan": Command(
        "Forecast what asking the crowd takes: answers, cost with fees, hours, pay per hour.",
        "ctxr.pipelines.crowd.config:Plan",
        "ctxr.pipelines.crowd.plan:run",
        "ctxr.cli.views:plan",
        text="Forecast what asking the crowd takes: units, answers, cost with fees, hours, pay per hour; "
        "refuses to pay below a floor.",
    ),
    "export-tasks": Command(
        "Write what the crowd is asked, for our own server or for a platform that brings people.",
        "ctxr.annotation.config:ExportTasks",
        "ctxr.pipelines.crowd.export_tasks:run",
        "ctxr.cli.views:tasks",
        text="Write what the crowd is asked: describe, retrieve, dialogue, verify, tag, entail or audit, "
        "for our own server or a platform.",
        arguments=("task",),
        resumes=True,
    ),
    "import-answers": Command(
        "Merge answers, from wherever they came, into judgments; each is checked again.",
        "ctxr.annotation.config:ImportAnswers",
        "ctxr.annotation.answers:run",
        "ctxr.cli.views:judgments",
        text="Merge answers from our own server or a platform into the judgments; each is checked again, "
        "and twice changes nothing.",
        arguments=("file",),
    ),
    "aggregate": Command(
        "Decide which descriptions are kept, measure accuracy and agreement, and write the dataset.",
        "ctxr.pipelines.crowd.config:Aggregate",
        "ctxr.pipelines.crowd.aggregate:run",
        "ctxr.cli.views:dataset",
        text="Decide which descriptions are kept, measure accuracy and agreement on every basis, and write the dataset.",
    ),
    "workers": Command(
        "Say how good each worker is, and block or allow them, with reasons and a way back.",
        "ctxr.pipelines.crowd.config:Workers",
        "ctxr.pipelines.crowd.workers:run",
        "ctxr.cli.views:workers",
        text="Say how good each worker is and how sure that is; block, allow, or take it back, each with a reason.",
    ),
    "report": Command(
        "Show a chain of artifacts as one page that opens in any browser, without a server.",
        "ctxr.pipelines.inspection.config:Report",
        "ctxr.pipelines.inspection.report:run",
        "ctxr.cli.views:page",
        text="Show a chain of artifacts as one page: sets, timelines, what was left out and why, distributions, provenance.",
    ),
    "export": Command(
        "Write image sets in a format that others read, or as a recipe without the pixels.",
        "ctxr.pipelines.sharing.config:Export",
        "ctxr.pipelines.sharing.export:run",
        "ctxr.cli.views:export",
        text="Write image sets in a format that others read: imagecode, hf, webdataset, croissant, fiftyone, recipe.",
    ),
    "rebuild": Command(
        "Make the images of a recipe again out of its videos and photos.",
        "ctxr.pipelines.curation.config:Rebuild",
        "ctxr.pipelines.curation.rebuild:run",
        "ctxr.cli.views:rebuilt",
        text="Make the images of a recipe again out of its videos and photos, which are recognised by content.\n\n"
        "The exit code is 4 when a set could not be made because a source is missing.",
        arguments=("recipe",),
        resumes=True,
    ),
    "verify": Command(
        "Prove that the images of a recipe or an artifact are those of their sources, or name each that is not.",
        "ctxr.pipelines.curation.config:Verify",
        "ctxr.pipelines.curation.verify:run",
        "ctxr.cli.views:verified",
        text="Prove that the images of a recipe or an artifact are those of their sources, or name each that is not.\n\n"
        "Every video frame is decoded again; a photo is looked up among the sources by its hash.",
        arguments=("artifact",),
    ),
    "stats": Command(
        "Describe a benchmark, ours or a published one: counts, language, positions, distances, phenomena, leakage.",
        "ctxr.pipelines.inspection.config:Stats",
        "ctxr.pipelines.inspection.stats:run",
        "ctxr.cli.views:statistics",
        arguments=("dataset",),
    ),
    "audit": Command(
        "Try rules that never read a description: each must stay at chance, or the benchmark has a shortcut.",
        "ctxr.pipelines.inspection.config:Audit",
        "ctxr.pipelines.inspection.audit:run",
        "ctxr.cli.views:shortcuts",
        text="Try rules that never read a description: each must stay at chance, or the benchmark has a shortcut.\n\n"
        "The images of a video set lie in one shot in the order of time, so its first and last image are the ones nearest to the\n"
        "start and the end of the shot. Photos have no order but one: the first is the anchor that the others were found by.",
        arguments=("dataset",),
    ),
    "train": Command(
        "Train a model on a benchmark by a recipe, and score its validation and test queries.",
        "ctxr.pipelines.modelling.config:Train",
        "ctxr.pipelines.modelling.train:run",
        "ctxr.cli.views:training",
        text="Train a model on a benchmark by a recipe of the paper or your own, and score its validation and test queries.",
        resumes=True,
    ),
    "regions": Command(
        "Extract features and boxes of regions of every picture, for models that look at regions.",
        "ctxr.pipelines.modelling.config:RegionsConfig",
        "ctxr.pipelines.modelling.regions:run",
        "ctxr.cli.views:regions",
        arguments=("dataset",),
        resumes=True,
    ),
    "listen": Command(
        "Let a multimodal language model find the picture of each description, through an OpenAI-compatible endpoint.",
        "ctxr.pipelines.modelling.config:Listen",
        "ctxr.pipelines.modelling.listen:run",
        "ctxr.cli.views:listening",
        text="Let a multimodal language model find the picture of each description, through an OpenAI-compatible endpoint.\n\n"
        "The key comes from the environment alone. The exit code is 4 when --max-cost ended it before every query was answered.",
        arguments=("dataset",),
        resumes=True,
    ),
    "revise-labels": Command(
        "Find captions that also hold for other pictures, and add them as a round of judgments, or take it back.",
        "ctxr.pipelines.revision.config:ReviseLabels",
        "ctxr.pipelines.revision.revise_labels:run",
        "ctxr.cli.views:revision",
        text="Find captions that also hold for other pictures, by entailment, and add them as a round of judgments, "
        "or take it back.",
        arguments=("dataset",),
        resumes=True,
    ),
    "eval": Command(
        "Say how often runs find the right image, how sure that is, where they fail, and which of them is better.",
        "ctxr.pipelines.modelling.config:Eval",
        "ctxr.pipelines.modelling.eval:run",
        "ctxr.cli.views:evaluation",
        arguments=("runs",),
    ),
    "serve": Command(
        "Let people work: pages to describe, find, judge and talk, from this machine; every answer is kept at once.",
        "ctxr.pipelines.crowd.config:Serve",
        "ctxr.pipelines.crowd.serve:run",
        "ctxr.cli.views:collected",
        text="Let people work: pages to describe, find, judge and talk, from this machine until Ctrl-C; "
        "every answer is kept at once.",
        started="ctxr.cli.views:serving",
    ),
    "doctor": Command(
        "Look at this machine, or at an artifact, and say what is wrong and how to cure it.",
        "ctxr.pipelines.inspection.config:Doctor",
        "ctxr.pipelines.inspection.doctor:run",
        "ctxr.cli.views:checks",
        document="ctxr.cli.views:checks_document",
        arguments=("artifact",),
    ),
    "demo": Command(
        "Draw a small world of footage and run the whole chain on it, next to the truth.",
        "ctxr.synthetic.config:Demo",
        "ctxr.synthetic.demo:run",
        "ctxr.synthetic.views:demo",
        resumes=True,
    ),
}
"""Every command by its name, in the order of use."""
