"""`ctxr doctor`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.doctor import Doctor


@from_config(Doctor, arguments=("artifact",))
def command(config: Doctor, as_json: bool) -> None:
    """Look at this machine, or at an artifact, and say what is wrong and how to cure it."""
    from rich.markup import escape
    from rich.table import Table

    from ctxr.cli.render import Terminal, show_json, stdout
    from ctxr.errors import FindingsError
    from ctxr.pipelines.doctor import run

    checks = run(config, Terminal())
    problems = [check for check in checks if check.state == "problem"]
    if as_json:
        show_json({"checks": checks, "problems": len(problems)})
    else:
        marks = {"ok": "[green]✓[/]", "note": "[yellow]·[/]", "problem": "[red]✗[/]"}
        table = Table.grid(padding=(0, 2))
        for check in checks:
            table.add_row(marks[check.state], escape(check.name), escape(check.detail))
            if check.cure:
                table.add_row("", "", f"[cyan]→ {escape(check.cure)}[/]")
        stdout().print(table)
    if problems:
        count = len(problems)
        raise FindingsError(f"{count} problem{'s' if count > 1 else ''} found", hint=problems[0].cure)
