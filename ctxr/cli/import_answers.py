"""`ctxr import-answers`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.import_answers import ImportAnswers


@from_config(ImportAnswers, arguments=("file",))
def command(config: ImportAnswers, as_json: bool) -> None:
    """Merge answers from our own server or a platform into the judgments; each is checked again, and twice changes nothing."""
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.pipelines.import_answers import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    reasons = ", ".join(f"{code} {count}" for code, count in report.reasons.items())
    rows = {
        "from": report.platform,
        "new": report.new,
        "known": report.again,
        "refused": f"{report.refused} ({reasons}; see {report.judgments / 'refused.jsonl'})" if report.refused else 0,
        "in all": " of ".join(_counted(report.counts[f"{what}s"], what) for what in ("answer", "worker")),
        **({"notes": " ".join(report.notes)} if report.notes else {}),
    }
    heard = report.new or report.again or report.refused
    state = "no answers yet" if not heard else "nothing to do, imported before" if report.up_to_date else "finished"
    show_facts(f"{report.judgments}: {state}", rows)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
