"""`ctxr regions`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.regions import RegionsConfig


@from_config(RegionsConfig, arguments=("dataset",))
def command(config: RegionsConfig, as_json: bool) -> None:
    """Extract features and boxes of regions of every picture, for models that look at regions."""
    from ctxr.cli.render import Terminal, show_facts, show_json, show_lines
    from ctxr.pipelines.regions import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    show_lines("left out", report.left_out)
    rows = {
        "regions": report.regions,
        "dataset": report.dataset,
        "by": report.by,
        "pictures": report.pictures,
        "regions of a picture": f"up to {report.most}, the whole of it first",
        "features": report.features,
    }
    show_facts("up to date" if report.up_to_date else "written", rows)
