"""What help says of each command, and the words that all of them share."""

from pathlib import Path

LINES = {
    "build-sets": "Build sets of ten similar images that differ in details, from videos and photos.",
    "filter": "Remove low-quality, text-heavy or small images, and those that people rejected, and replace them.",
    "merge": "Join the results of the ranks of build-sets or filter in one artifact.",
    "plan": "Estimate what a study with people takes: answers, hours, cost with fees, pay per hour.",
    "export-tasks": "Write tasks for people, to be answered on our own pages or on a crowdsourcing platform.",
    "import-answers": "Check answers from our own pages or a platform, and add them to the judgments.",
    "aggregate": "Select descriptions, measure accuracy and agreement, and write the dataset.",
    "workers": "Show how accurate each worker is, with an interval, and what they are owed; block and allow workers, with a reason; settle "
    "with Prolific, delete the data of people who withdraw, and print what is kept about people.",
    "report": "Write one page about image sets, descriptions, people and results, which any browser opens without a server.",
    "export": "Export image sets in a common format, or as a recipe without pixels.",
    "push": "Copy an artifact to a URL, such as a bucket: what is there already is not sent again, and the manifest comes last.",
    "pull": "Copy an artifact from a URL into a folder, and compare every file with its hash.",
    "rebuild": "Rebuild the images of a recipe from its videos and photos, which are recognised by content.",
    "verify": "Verify that the images of a recipe or an artifact match their sources, and list those that do not.",
    "build-documents": "Build documents of several sentences and images with known links from the captions of a dataset.",
    "pairs": "Make training pairs for an entailment classifier: an image with captions, and a text that they entail or do not.",
    "stats": "Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leaks.",
    "shortcuts": "Test a benchmark for shortcuts: rules that find the target without the description.",
    "train": "Train a model with a published recipe or your own, and score the validation and test queries.",
    "regions": "Extract region features and boxes of every image, for models that use regions.",
    "listen": "Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.",
    "revise-labels": "Find captions that are also true of other images and add them as a round of judgments that can be undone.",
    "eval": "Evaluate and compare runs, with confidence intervals and error analysis.",
    "search": "Find a picture by words, by a drawing, or by another picture: on a page, or printed with --text.",
    "serve": "Serve annotation pages, or with --review the sets to keep or reject, until Ctrl-C; every answer is saved at once.",
    "status": "Show what a project holds, what is stale or unfinished, and the next command.",
    "diff": "Show what was added, removed and changed between two builds, datasets or evaluations, with intervals.",
    "reproduce": "Show which published figures of five papers follow from the data here, which are off, and what the others need.",
    "doctor": "Check this machine or an artifact, and suggest a fix for each problem.",
    "run": "Repeat the commands whose results are stale, in order; never one that costs money or the time of people.",
    "agreement": "Measure the agreement of anybody's votes, from a table or an export of Label Studio.",
    "init": "Write a commented ctxr.toml, from which every command in this folder reads its options.",
    "demo": "Draw a small synthetic world, run the pipeline on it, and compare with the ground truth.",
}
PANELS = {
    "Build": "init build-sets filter merge build-documents pairs run",
    "Ask people": "plan export-tasks serve import-answers aggregate workers revise-labels",
    "Models": "train eval listen regions search",
    "Look and check": "status report stats shortcuts diff agreement reproduce doctor demo",
    "Share": "export push pull rebuild verify",
}
"""Commands in the order of help, by heading."""

EXAMPLES = {
    "build-sets": "ctxr build-sets videos/",
    "filter": "ctxr filter --brisque 0.65",
    "merge": "ctxr merge work/sets",
    "export-tasks": "ctxr export-tasks describe",
    "export": "ctxr export --to recipe",
    "push": "ctxr push work/sets file:///backup/sets",
    "pull": "ctxr pull file:///backup/sets work/copy",
    "rebuild": "ctxr rebuild work/export-recipe --videos videos/",
    "verify": "ctxr verify work/sets",
    "build-documents": "ctxr build-documents coco --dataset captions/",
    "pairs": "ctxr pairs sample",
    "train": "ctxr train --recipe clip-batch --set encoder=ctxr-tiny",
    "regions": "ctxr regions --extractor grid:ctxr-tiny",
    "listen": "ctxr listen --endpoint http://localhost:8000/v1 --model qwen --dry-run",
    "revise-labels": "ctxr revise-labels photos/",
    "eval": "ctxr eval ctxr-tiny --split test",
    "search": 'ctxr search --text "a red kite"',
    "serve": "ctxr serve --invite 12",
    "diff": "ctxr diff work/sets work/filtered",
    "agreement": "ctxr agreement votes.csv",
    "reproduce": "ctxr reproduce imagecode",
    "doctor": "ctxr doctor work/sets",
}
"""Lines that run as typed, for commands that need an argument."""

_FAILED = (
    "The exit code is 0 when some sources failed (a line at the end counts them), and 3 when no source can be used."
)

MORE = {
    "build-sets": _FAILED,
    "filter": _FAILED,
    "merge": "The result is byte-equal to a run without ranks. The exit code is 4 while a rank is at work, and when a source was not "
    "finished by any rank.",
    "plan": "It fails if the pay per hour is below the minimum.",
    "export-tasks": "Tasks are describe, retrieve, dialogue, review, tag, entail and repeat. ctxr serve makes the retrievals of "
    "describe and the reviews of dialogue as answers come; export these for another platform, or for other people on Prolific.",
    "import-answers": "Importing the same answers twice changes nothing.",
    "report": "It shows sets, timelines, exclusions with reasons, distributions, results and provenance.",
    "rebuild": "The exit code is 4 when a set could not be rebuilt because a source is missing.",
    "verify": "Every video frame is decoded again; a photo is looked up among the sources by its hash.",
    "shortcuts": "The images of a video set come from one shot in temporal order, so the first and last are nearest to the shot's start "
    "and end. Photos have no order, except that the first is the anchor whose neighbours the others are.",
    "eval": "Your own model: ctxr eval --model my_model:score calls score(texts, pictures) of my_model.py for each set, with its "
    "descriptions and its pictures (PIL images). It returns a row of scores for each text; higher is better. A score file refers to "
    "queries and candidates by their ids. In an ImageCoDe release, a query is SET/TARGET, in test SET/K? (both count from 0). A candidate "
    "is SET/imgN for image-sets/SET/imgN.jpg, or SET/#POSITION without pictures. docs/python.md shows how to list them.",
    "reproduce": "A figure over a part of a release is shown, and the rest is needed. The exit code is 5 when a figure is off, unless the "
    "paper contradicts itself there.",
    "listen": "The API key is read from the environment only. The exit code is 4 when --max-cost was reached before every query was "
    "answered.",
}
"""What the help of a command adds to its summary."""

SETTINGS = Path("ctxr.toml")
"""What every command reads where `--config` names no other file."""

FLAGS = {
    "json": "Print the result as JSON on stdout.",
    "quiet": "Show no progress and no notes; warnings and errors stay.",
    "verbose": "Show what is decided: options, fingerprints, and why a result is made again.",
}
"""Switches of every command."""

ONLY_LOOK = ("verify", "stats", "shortcuts", "search", "serve", "status", "diff", "agreement", "doctor", "init", "demo")
"""Commands that write no artifact, and need no --dry-run."""

ARTIFACTS = ("dataset", "artifact")
"""Names of positional arguments that stand for an artifact."""

LISTED, PRINTED, TYPED = "ctxr.listed", "ctxr.printed", "ctxr.typed"
"""In the context of a call: the list of commands is shown, for which none is imported; its one JSON document is on stdout; its words."""
