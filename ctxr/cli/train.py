"""`ctxr train`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.train import Train


@from_config(Train)
def command(config: Train, as_json: bool) -> None:
    """Train a model on a benchmark by a recipe of the paper or your own, and score its validation and test queries."""
    from ctxr.cli.render import Terminal, show_facts, show_json, show_table
    from ctxr.pipelines.train import run
    from ctxr.pipelines.training.summary import facts, table

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    show_facts(report.run, facts(report))
    show_table(table(report))
