"""How the report of `ctxr demo` is shown."""

from collections.abc import Iterator

from ctxr.cli.render import Block
from ctxr.cli.views import image_sets
from ctxr.synthetic.demo import DemoReport


def demo(report: DemoReport) -> Iterator[Block]:
    """What each part of the chain found in the drawn world, next to the truth."""
    yield from image_sets(report.built)
    yield ""
    yield from image_sets(report.filtered)
    yield from report.tables.values()
    sets, models, revision = report.pages
    yield (
        f"\n[bold]open[/]      {sets} in a browser; {report.filtered.artifact / 'images'};\n"
        f"          {models}, with each model's choice and attention;\n"
        f"          {revision}, with what was added to each picture"
    )
    yield (
        "[bold]next[/]      ctxr build-sets FOLDER      videos or photos, any number\n"
        "          ctxr build-sets --yield-curve\n"
        "          ctxr filter --brisque 0.65 --max-text 0.02\n"
        "          ctxr report\n"
        "          ctxr export-tasks describe; ctxr serve --invite 5; ctxr aggregate\n"
        "          ctxr train --recipe clip-batch; ctxr train --recipe clip-temporal; ctxr eval --compare; ctxr report\n"
        "          ctxr train --recipe entailment --dataset PAIRS; ctxr revise-labels --entail\n"
        "          ctxr doctor work/filtered"
    )
