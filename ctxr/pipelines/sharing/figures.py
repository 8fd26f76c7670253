"""The figures of a release, and what proves them: public tables, `figures.json`, and a script that recomputes them without ctxr."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ctxr.annotation.pseudonyms import is_pseudonym
from ctxr.annotation.records import DROPPED, DroppedText
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.writers.job import UNSPLIT
from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.pipelines.sharing import verify
from ctxr.store.atomic import write_bytes
from ctxr.store.tables import pretty_json, read_table, write_tables

FIGURES, SCRIPT, TABLES = "figures.json", "verify.py", "tables"


def figures_of(dataset: Dataset, dropped: Sequence[DroppedText] = ()) -> dict[str, int | float]:
    """Counts of sets, images and queries, also by split; and of people's votes on kept descriptions, who was right and how they agree,
    beside those with the `dropped` ones, as kept descriptions were kept because people were right."""
    splits = {one.id: dataset.split_of(one) or UNSPLIT for one in dataset.sets}
    found: dict[str, int | float] = {
        "sets": len(splits),
        "images": len({image for one in dataset.sets for image in one.images}),
    }
    found |= {f"sets, {split}": count for split, count in Counter(splits.values()).items()}
    queries = dataset.queries.values()
    found["queries"] = len(queries)
    found |= {f"queries, {split}": count for split, count in Counter(splits[one.image_set] for one in queries).items()}
    if texts := [dataset.texts[name].text for query in queries for name in query.texts]:
        found["words per text"] = sum(len(text.split()) for text in texts) / len(texts)
    rows = [
        row
        for row in dataset.judgments
        if row.value > 0 and not row.round and dataset.queries[row.query].labels is None
    ]
    gold = {(row.query, row.candidate) for row in rows if row.worker == "gold"}
    asked = {query for query, _ in gold}
    if picks := {
        (row.query, row.worker): row.candidate for row in rows if is_pseudonym(row.worker) and row.query in asked
    }:
        units, workers = zip(*picks, strict=True)
        right = sum((query, image) in gold for (query, _), image in picks.items())
        found["people"] = len({*workers})
        found["votes, kept descriptions"] = len(picks)
        found["right votes, kept descriptions"] = right / len(picks)
        if dropped:
            found["dropped descriptions"] = len(dropped)
            right, wrong = right + sum(one.right for one in dropped), sum(one.wrong for one in dropped)
            found["right votes, all descriptions"] = right / (len(picks) + sum(one.right for one in dropped) + wrong)
        if (agreed := alpha(gather(units, workers, [*picks.values()])).value) is not None:
            found["alpha, kept descriptions"] = agreed
    return found


def as_printed(figure: float) -> str:
    """A figure as the card prints it."""
    return str(figure) if isinstance(figure, int) else f"{figure:.4f}"


def prove(dataset: Dataset, dropped: Path, out: Path, tables: str = TABLES) -> dict[str, int | float]:
    """Write the tables that the folder `tables` of the release lacks, the figures and the script; the figures.

    `dropped`: the table of dropped descriptions, which may be missing.
    """
    dropped_texts = read_table(dropped, DroppedText) if dropped.is_file() else []
    figures = figures_of(dataset, dropped_texts)
    rows = {name: table for name, table in dataset.tables().items() if table and name != "images"}
    rows |= {Path(DROPPED).stem: dropped_texts} if dropped_texts else {}
    folder = out / tables
    write_tables(folder, {name: table for name, table in rows.items() if not (folder / f"{name}.jsonl").exists()})
    write_bytes(out / FIGURES, pretty_json({"tables": tables, "figures": figures}))
    write_bytes(out / SCRIPT, Path(verify.__file__).read_bytes())
    return figures
