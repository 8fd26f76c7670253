"""Statistics of dialogues in which photos are shared, by split, as in Table 1 of PhotoChat and with its counts of intent."""

from collections import Counter
from typing import Any, cast

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import before_share, merged
from ctxr.datasets.photo_labels import THEMES, themes_of
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.store.records import UNKNOWN, Dialogue, ObjectLabels


def dialogue_tables(dataset: Dataset) -> dict[str, Table]:
    """Turns, without the share itself, words and moments to share of the dialogues of each split, and what is in their photos.

    Each merged turn before a photo is a moment, the last of which is positive. A dialogue counts for each theme of its photo.
    """
    talks = cast("tuple[Dialogue, ...]", dataset.payloads.get("dialogues", ()))
    labels = {row.id: row.labels for row in cast("tuple[ObjectLabels, ...]", dataset.payloads.get("objects", ()))}
    homes, names = {one.id: dataset.split_of(one) for one in dataset.sets}, dict.fromkeys(THEMES.values())
    turns, themes = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for split in (*SPLITS, None, "all"):
        part = [one for one in talks if split in (homes[dataset.queries[one.id].image_set], "all")]
        if not part:
            continue
        name, count, photos = split or "no split", len(part), {one.photo for one in part}
        raw, joined = ([turn for one in part for turn in cut(one.turns) if not turn.share] for cut in (list, merged))
        before, moments = (sum(len(cut(before_share(one))) for one in part) for cut in (list, merged))
        words = sum(len(turn.text.split()) for turn in raw)
        sizes = (len(raw) / count, len(joined) / count, words / len(raw), words / len(joined), before / count)
        turns.append((name, count, len(photos), *sizes, moments - count, count))
        shared = Counter(theme for one in part for theme in themes_of(labels.get(one.photo, ())))
        own = [frozenset(labels[photo]) for photo in photos if photo in labels]
        each = sum(map(len, own)) / len(own) if own else None
        themes.append((name, *(shared[theme] for theme in names), each, len({*own})))
    note = "words between blanks; negative and positive: merged turns before the photo, and the last of them"
    if any(turn.user == UNKNOWN for one in talks for turn in one.turns):
        note += "; turns of unknown speakers are not merged"
    heads = ("split", "dialogues", "photos", "turns", "merged turns", "words a turn", "words a merged turn",
             "turns before the photo", "negative", "positive")  # fmt: skip
    others = ("split", *names, "labels a photo", "sets of labels")
    return {
        "dialogues": Table("Dialogues by split", heads, tuple(turns), note, digits=2),
        "themes": Table("Dialogues by theme of the photo", others, tuple(themes), digits=2),
    }
