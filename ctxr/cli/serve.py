"""`ctxr serve`."""

import sys

from ctxr.cli.options import from_config
from ctxr.pipelines.serve import Serve


@from_config(Serve)
def command(config: Serve, as_json: bool) -> None:
    """Let people work: pages to describe, find, judge and talk, from this machine until Ctrl-C; every answer is kept at once."""
    from rich.markup import escape

    from ctxr.cli.render import Terminal, show_facts, show_json, stdout
    from ctxr.pipelines.serve import Opened, run

    def opened(server: Opened) -> None:
        if as_json:
            show_json(server)
            sys.stdout.flush()
            return
        show_facts(f"serving at {server.address}", {f"{task} waiting": count for task, count in server.waiting.items()})
        stdout().print("[bold]ways in[/]")
        for name, link in server.links.items():  # whole, however narrow the terminal: they are copied
            stdout().print(f"  [dim]{escape(name)}[/]  {link}", highlight=False)
        stdout().print("[dim]Ctrl-C stops; what was sent is kept[/]")
        sys.stdout.flush()

    done = run(config, Terminal(), opened)
    if as_json:
        show_json(done)
        return
    rows = {"new answers": done.answers, "workers": done.workers}
    rows |= {f"{task} answers": count for task, count in done.total.items()}
    rows |= {f"{task} still open": count for task, count in done.open.items() if count}
    show_facts("collected", rows | ({"next": done.after} if done.after else {}))
