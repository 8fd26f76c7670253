"""The figures of galleries as tables for people, in percent."""

from collections.abc import Sequence

from ctxr.engine.report import Table
from ctxr.metrics.entail_at import Way
from ctxr.problems.figures import Figure, RunDifference
from ctxr.problems.gallery.figures import COCO_TEST, EntailFigure
from ctxr.problems.gallery.splits import GallerySplit
from ctxr.problems.gallery.truth import PUBLISHED
from ctxr.problems.tables import none_had, p_value, percent

_WAYS: dict[Way, str] = {
    "strata": "stratum by stratum, so ranks are told apart",
    "weighed_rates": "by sensitivity and specificity of another audit, its strata weighed by their sizes, as far as the classifier "
    "errs here as there",
}
"""What is said of the ways to correct Entail@K."""

_HEADS = (
    "run", "K", "labels", "E@K", "corrected", "judged %", "at most", "of judged", "pictures", "leaked %", "without leaked",
)  # fmt: skip

SEED_NOTE = "mean of TR and IR over the k that are printed; every other figure of such a run is the mean over its seeds"

_ASKED = "TR: a picture asks for its captions, IR: a caption for its picture"


def recall_tables(side: GallerySplit, figures: Sequence[Figure], by: str) -> dict[str, Table]:
    """Recall both ways, in five folds where it is COCO's test side, and by each ground truth that was given."""
    own = [one for one in figures if one.side == side.name]
    counts = {"caption": len(side.captions), "picture": len(side.images)}
    size = " of ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
    many = f" in {len(side.galleries)} galleries, each searched by itself" if len(side.galleries) > 1 else ""
    drawn = f"in brackets 95 % over {by}s drawn again"
    titles = {"": ("recall", "recall", f"{size}{many}. {_ASKED}; {drawn}")}
    titles["1K"] = (
        "1k",
        "COCO 1K, recall in five folds",
        f"COCO's {COCO_TEST:,} test pictures in five parts, in the published order, means over them; {drawn}",
    )
    for key, name in PUBLISHED.items():
        titles[name] = (key, f"by {name}", f"queries about which {name} says something; {_ASKED}; {drawn}")
    made = {}
    for prefix, (key, title, note) in titles.items():
        measures = [name for name in dict.fromkeys(one.measure for one in own) if _prefix(name) == prefix]
        if measures:
            found = {(one.run, one.measure): percent(one.interval) for one in own}
            runs = dict.fromkeys(one.run for one in own)
            heads = ("run", *(name.removeprefix(prefix).strip() for name in measures))
            rows = tuple((run, *(found[run, name] for name in measures)) for run in runs)
            lacking = none_had([one.interval for one in own if one.measure in measures])
            made[key] = Table(f"{side.name}: {title}, %", heads, rows, note + lacking)
    return made


def entailment_table(side: str, rows: Sequence[EntailFigure]) -> Table | None:
    """Entail@K with the source of its labels, the share that was judged, and the classifier's leaked pictures; columns without a
    value are left out."""
    own = [one for one in rows if one.side == side]
    if not own:
        return None
    unseen, audited = (
        any(one.found.judged < 1 for one in own),
        any(one.found.corrected.value is not None for one in own),
    )
    leaked = any(one.found.leaked for one in own)
    silent = ([] if unseen else ["at most", "of judged"]) + ([] if audited else ["corrected"])
    silent += [] if leaked else ["leaked %", "without leaked"]
    heads = tuple(name for name in _HEADS if name not in silent)
    told = (dict(zip(_HEADS, (one.run, one.found.k, one.by, *_cells(one)), strict=True)) for one in own)
    shown = tuple(tuple(row[name] for name in heads) for row in told)
    return Table(f"{side}: Entail@K", heads, shown, _note(own, unseen, audited, leaked))


def _note(own: Sequence[EntailFigure], unseen: bool, audited: bool, leaked: bool) -> str:
    """The meaning of the shown columns, which depend on unjudged pairs, corrected figures and leaked pictures."""
    sources = "; ".join(f"{by}: {source}" for by, source in dict.fromkeys((one.by, one.source) for one in own))
    said = [f"{sources}. share of the first K captions of a picture that hold for it, %"]
    if unseen:
        said.append(
            "unjudged pairs count as not entailed in E@K, which is a lower bound, and as entailed in “at most”; of judged: share of the "
            "judged pairs, including captions that were written for the picture; where people judged all of them, E@K is E@M"
        )
    else:
        said.append("all pairs were judged: where by people, E@K is E@M")
    if audited:
        ways = _ways(own)
        said.append(f"corrected: for the classifier's errors by the audit{ways and f', {ways}'}")
    if leaked:
        said.append("leaked: pictures that the classifier was trained on, – where unknown")
    elif any(one.found.leaked is not None for one in own):
        said.append("no picture is known that the classifier was trained on")
    return "; ".join(said)


def _ways(own: Sequence[EntailFigure]) -> str:
    """How figures were corrected; which ones where it was done in several ways."""
    by_way: dict[Way, list[str]] = {}
    for one in own:
        by_way.setdefault(one.found.way, []).append(f"{one.run} E@{one.found.k}")
    by_way.pop("", None)
    return "; ".join(
        says if len(by_way) == 1 else f"{says} ({', '.join(by_way[way])})"
        for way, says in _WAYS.items()
        if way in by_way
    )


def difference_table(side: str, rows: Sequence[RunDifference]) -> Table | None:
    """Each run less the first, measure by measure."""
    own = [one for one in rows if one.side == side]
    if not own:
        return None
    shown = tuple(
        (one.run, one.part, percent(one.interval, signed=True), p_value(one.permutation), p_value(one.corrected))
        for one in own
    )
    note = "points; p: two-sided, pictures flipped whole; Holm: corrected over the runs of a measure"
    note += none_had([one.interval for one in own])
    return Table(f"{side}: against {own[0].against}", ("run", "measure", "difference", "p flips", "Holm"), shown, note)


def _cells(row: EntailFigure) -> tuple[str | int, ...]:
    found = row.found
    leaked = "–" if found.leaked is None else f"{100 * found.leaked:.1f}"
    clean = "–" if found.leaked is None else percent(found.without_leaked)
    of_judged = "–" if row.of_judged is None else f"{100 * row.of_judged:.1f}"
    looked = f"{100 * found.judged:.1f}", f"{100 * row.most:.1f}", of_judged
    return percent(found.value), percent(found.corrected), *looked, row.pictures, leaked, clean


def _prefix(measure: str) -> str:
    """What a measure's name begins with, other than its direction."""
    head = measure.partition(" ")[0]
    return head if head in ("1K", *PUBLISHED.values()) else "" if head[:3] in ("TR@", "IR@") else "other"
