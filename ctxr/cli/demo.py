"""`ctxr demo`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.demo import Demo


@from_config(Demo)
def command(config: Demo, as_json: bool) -> None:
    """Draw a small world of footage and run the whole chain on it, next to the truth."""
    from rich.table import Table

    from ctxr.cli import demo_revised as revised
    from ctxr.cli import sets
    from ctxr.cli.render import Terminal, show_json, stdout
    from ctxr.pipelines.demo import Found, run
    from ctxr.pipelines.demo_models import MEANING

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    console = stdout()
    sets.show(report.built, False)
    console.print()
    sets.show(report.filtered, False)
    table = Table(title="found next to the truth", title_justify="left", title_style="bold")
    for name in ("", "found", "missed", "false", "precision", "recall"):
        table.add_column(name, justify="left" if not name else "right")

    def add(name: str, found: Found | None) -> None:
        if found is not None:
            figures = (found.right, found.missed, found.false)
            table.add_row(name, *map(str, figures), f"{found.precision:.2f}", f"{found.recall:.2f}")

    add("blurred frames", report.blurred)
    add("frames with text", report.titled)
    add("duplicate photos", report.duplicates)
    console.print()
    console.print(table)
    console.print("frames in which a blur or a title comes or goes have no right answer and are not counted")
    crowd = report.crowd
    console.print(
        f"\n[bold]the crowd[/] {crowd.workers} simulated workers gave {crowd.answers} answers at the pages of ctxr serve: "
        f"{crowd.kept} descriptions kept, {crowd.dropped} dropped\n"
        f"          spammers and pickers of the first place: {crowd.found} found, {crowd.missed} missed, "
        f"{crowd.accused} careful workers accused"
    )
    for one in crowd.estimates:
        found = "undefined" if one.found is None else f"{one.found:.3f}"
        where = f"{one.low:.3f} to {one.high:.3f}"
        console.print(
            f"          {one.name} {found}, put by the simulation at {where} in 95 % of draws{'' if one.fits else ': outside'}"
        )
    models = report.models
    console.print(
        f"\n[bold]models[/]    trained on {models.queries['train']} drawn descriptions, judged on {models.queries['test']}: "
        "too few to tell neighbours apart\n"
        "          (docs/log.md has the larger run); a blind guess finds 10 % of the images"
    )
    accuracies = Table(title="accuracy on test, %", title_justify="left", title_style="bold")
    for name in ("run", "what it is", "all", "95 %", "video", "static"):
        accuracies.add_column(name, justify="left" if len(accuracies.columns) < 2 else "right")
    for tried in models.runs:
        parts = ["–" if part is None else f"{100 * part:.1f}" for part in (tried.video, tried.static)]
        lacks = tried.low is None or tried.high is None
        span = "–" if lacks else f"{100 * (tried.low or 0):.1f} to {100 * (tried.high or 0):.1f}"
        accuracies.add_row(tried.run, MEANING[tried.run], f"{100 * tried.value:.1f}", span, *parts)
    console.print(accuracies)
    revised.show(report.revision, console)
    console.print(
        f"\n[bold]look at[/]   {report.page} in a browser; {report.filtered.artifact / 'images'};\n"
        f"          {models.page}, with what each model picked and what it looked at;\n"
        f"          {report.revision.page}, with what was added to each picture"
    )
    console.print(
        "[bold]now yours[/] ctxr build-sets FOLDER      videos or photos, any number\n"
        "          ctxr build-sets --yield-curve\n"
        "          ctxr filter --brisque 0.65 --max-text 0.02\n"
        "          ctxr report\n"
        "          ctxr export-tasks describe; ctxr serve --invite 5; ctxr aggregate\n"
        "          ctxr train --recipe clip-batch; ctxr train --recipe clip-temporal; ctxr eval --compare; ctxr report\n"
        "          ctxr train --recipe entailment --dataset PAIRS; ctxr revise-labels --entail\n"
        "          ctxr doctor work/filtered"
    )
