"""The commands: the verbs, and the demo, which runs them; with what help says of each."""

from ctxr.cli.verbs import VERBS, Command

LINES = {
    "build-sets": "Build sets of ten minimally contrastive images from videos and photos.",
    "filter": "Remove low-quality, text-heavy or small images and replace them.",
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
    "build-documents": "Build documents of several sentences and images with known links from the captions of a dataset.",
    "pairs": "Make pairs of image, captions and text, entailed or not, to train an entailment classifier on.",
    "stats": "Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leakage.",
    "audit": "Test a benchmark for shortcuts: rules that ignore the description must stay at chance.",
    "train": "Train a model with a published recipe or your own, and score the validation and test queries.",
    "regions": "Extract region features and boxes of every image, for models that use regions.",
    "listen": "Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.",
    "revise-labels": "Find captions that are also true of other images and add them as a round of judgments that can be undone.",
    "eval": "Evaluate and compare runs, with confidence intervals and error analysis.",
    "serve": "Serve annotation pages from this machine until Ctrl-C; every answer is saved immediately.",
    "doctor": "Check this machine or an artifact, and suggest a fix for each problem.",
    "demo": "Draw a small synthetic world, run the pipeline on it, and compare with the ground truth.",
}
"""Summaries by name, in order of use."""

_FAILED = "The exit code is 0 when some sources failed, which the last line counts, and 3 when no source can be used."

MORE = {
    "build-sets": _FAILED,
    "filter": _FAILED,
    "merge": "The result is byte-equal to a run without ranks. The exit code is 4 while a rank is at work, and when a source was not "
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
    **VERBS,
    "demo": Command("ctxr.synthetic.demo", "Demo", "ctxr.synthetic.demo:demo_tables", resumes=True),
}
"""Commands by name, in order of use."""
