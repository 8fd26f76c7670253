"""The commands: the verbs, those about other commands, and the demo, which runs them."""

from ctxr.cli.verbs import VERBS, Command

COMMANDS = {
    **VERBS,
    "run": Command("ctxr.cli.repeat", "Repeat", "repeated", resumes=True),
    "init": Command("ctxr.cli.init", "Init", "settings"),
    "demo": Command("ctxr.synthetic.demo", "Demo", "ctxr.synthetic.demo:demo_tables", resumes=True),
}
