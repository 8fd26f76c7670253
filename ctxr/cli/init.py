"""`ctxr init`: write the commonest options, at their defaults, as comments into `ctxr.toml`."""

import json
from pathlib import Path

from ctxr.cli.config import Init, InitReport
from ctxr.cli.verbs import VERBS, named
from ctxr.cli.words import LINES, SETTINGS
from ctxr.engine.options import OPTION_NAMES
from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UsageError
from ctxr.problems.own_model import write_model_template
from ctxr.store.atomic import write_bytes

EVERYDAY = {
    "build-sets": "encoder threshold=0.35 frames sample brisque=0.65 max_text=0.02 jobs",
    "filter": "brisque=0.65 max_text=0.02 min_size=200 jobs",
    "export-tasks": "backend server labels",
    "aggregate": "rule good poor resamples",
    "serve": "host port invite base_url",
    "train": "recipe changes",
    "eval": "split=test compare resamples",
    "listen": "endpoint model max_cost at_once",
    "revise-labels": "judge retriever threshold=0.8 top_k",
    "export": "to=imagecode",
}
"""Options of commands, with an example where the default cannot be written; of the others the first ones that have a default."""

MODEL = Path("my_model.py")
PLAIN = str | bool | int | float
MOST = 4


def run(config: Init, progress: Progress = SILENT) -> InitReport:
    """Write the file, or with --model the template of a model. Raises UsageError if it exists."""
    if config.model:
        write_model_template(MODEL)
        return InitReport(MODEL)
    if SETTINGS.exists():
        raise UsageError(f"{SETTINGS} is there", hint=f"edit it, or move it away: mv {SETTINGS} {SETTINGS}.old")
    lines = ["# Options of ctxr for the commands that run in this folder; the command line takes precedence."]
    for name, command in VERBS.items():
        options = named(command.config).describe()
        plain = [field for field, option in options.items() if isinstance(option.default, PLAIN)]
        words = EVERYDAY.get(name, " ".join(plain[:MOST])).split()
        if not words:
            continue
        lines += ["", f"# {LINES[name]} ctxr {name} --help lists all options.", f"[{name}]"]
        for field, _, example in (word.partition("=") for word in words):
            value = example if example.replace(".", "").isdigit() else json.dumps(example or options[field].default)
            lines += [f"# {options[field].help}", f"# {OPTION_NAMES.get(field, field)} = {value}"]
    write_bytes(SETTINGS, ("\n".join(lines) + "\n").encode())
    return InitReport(SETTINGS)
