"""What people said of a round, as tables and words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ctxr.metrics.agreement import Agreement
from ctxr.metrics.compare import Interval
from ctxr.metrics.stratified import Reliability
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.revising.figures import told
from ctxr.pipelines.revising.records import SetConflict


def agreed(one: Agreement) -> str:
    """A coefficient with the pairs it is of, or why it is undefined."""
    return (one.reason or "–") if one.value is None else f"{one.value:.3f} on {one.units} pairs"


def reliability_table(revision: Reliability, classifier: Reliability) -> Table:
    """Precision and recall of what was added, and of what the classifier calls entailed where caps left some of that out."""
    each = {"what was added": revision, "what the classifier calls entailed": classifier}
    note = "over all candidates of the round, not the sample alone; recall: of the entailed ones among the candidates"
    if revision.called == classifier.called:
        each = {"what was added": revision}
        note += "; no cap left anything out, so this is all that the classifier calls entailed"
    rows = tuple(
        (name, one.called, told(asdict(one.precision)), told(asdict(one.recall)), _count(one.entailed))
        for name, one in each.items()
    )
    heads = ("of", "pairs", "precision %", "recall %", "entailed candidates")
    return Table("How right the round is, by people", heads, rows, note)


def sample_told(decided: int, ties: int, unseen: int) -> str:
    """What became of the pairs of a sample; what did not occur is not named.

    >>> sample_told(200, 0, 0)
    'all 200 pairs of the sample were decided'
    >>> sample_told(190, 10, 0)
    '190 of 200 pairs of the sample were decided, 10 ended in a tie'
    """
    drawn = decided + ties + unseen
    if decided == drawn:
        return f"all {drawn:,} pairs of the sample were decided"
    left = ((ties, "ended in a tie"), (unseen, "were seen by nobody"))
    told_of = [f"{count:,} {what}" for count, what in left if count]
    return ", ".join([f"{decided:,} of {drawn:,} pairs of the sample were decided", *told_of])


def _count(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{interval.value:.0f} ({interval.low:.0f}–{interval.high:.0f})"


def also_table(also: Sequence[SetConflict], said: Mapping[tuple[str, str], bool]) -> Table:
    """Descriptions of small sets that the classifier calls true of another picture, and what people say who looked.

    Args:
        said: whether it is so, by (caption, image), of the pairs that were looked at.
    """
    looked = [(one, said[one.caption, one.image]) for one in also if (one.caption, one.image) in said]
    looked.sort(key=lambda row: (not row[1], row[0].key()))
    rows = tuple(
        (one.text, ", ".join(one.images), one.image, "yes" if entailed else "no", one.probability)
        for one, entailed in looked
    )
    note = f"{len(looked):,} of the {len(also):,} that the classifier found; a larger --sample shows more of them to people"
    heads = ("description", "written for", "also holds for", "by people", "probability")
    return Table("Descriptions that hold for another picture of their set", heads, rows, note)
