"""Statistics of dialogues in which photos are shared, by split, as in Table 1 of PhotoChat and with its counts of intent."""

from collections import Counter
from typing import Any, cast

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.photo_labels import THEMES, themes_of
from ctxr.datasets.splits import SPLITS
from ctxr.datasets.talks import before_share, merged
from ctxr.engine.report import Table
from ctxr.store.records import UNKNOWN, Dialogue, ObjectLabels


def dialogue_tables(dataset: Dataset) -> dict[str, Table]:
    """Turns, words and moments to share a photo of the dialogues of each split, and themes and labels of their photos.

    Turns are those without the share itself; merged are consecutive ones of a speaker. Each merged turn before a photo is a moment,
    the last of which is positive. A dialogue counts for each theme of its photo.
    """
    talks = cast("tuple[Dialogue, ...]", dataset.payloads.get("dialogues", ()))
    objects = cast("tuple[ObjectLabels, ...]", dataset.payloads.get("objects", ()))
    labels, names = {row.id: row.labels for row in objects}, [*dict.fromkeys(THEMES.values())]
    homes = {one.id: dataset.split_of(one) for one in dataset.sets}
    turns, themes = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for split in (*SPLITS, None, "all"):
        part = [one for one in talks if split in (homes[dataset.queries[one.id].image_set], "all")]
        if not part:
            continue
        photos, count = {one.photo for one in part}, len(part)
        raw = [turn for one in part for turn in one.turns if not turn.share]
        joined = [turn for one in part for turn in merged(one.turns) if not turn.share]
        words = sum(len(turn.text.split()) for turn in raw)
        before, moments = (sum(len(cut(before_share(one))) for one in part) for cut in (tuple, merged))
        sizes = (len(raw) / count, len(joined) / count, words / len(raw), words / len(joined), before / count)
        turns.append((split or "no split", count, len(photos), *sizes, moments - count, count))
        shared = Counter(theme for one in part for theme in themes_of(labels.get(one.photo, ())))
        own = [frozenset(labels[photo]) for photo in photos if photo in labels]
        each = sum(map(len, own)) / len(own) if own else None
        themes.append((split or "no split", *(shared[name] for name in names), each, len({*own})))
    note = "words between blanks; negative and positive: merged turns before the photo, and the last of them"
    if any(turn.user == UNKNOWN for one in talks for turn in one.turns):
        note += "; turns of unknown speakers are not merged"
    heads = ("split", "dialogues", "photos", "turns", "merged turns", "words a turn", "words a merged turn",
             "turns before the photo", "negative", "positive")  # fmt: skip
    return {
        "dialogues": Table("Dialogues by split", heads, tuple(turns), note, digits=2),
        "themes": Table(
            "Dialogues by theme of the photo", ("split", *names, "labels a photo", "sets of labels"), tuple(themes), digits=2
        ),
    }  # fmt: skip
