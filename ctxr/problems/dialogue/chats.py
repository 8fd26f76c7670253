"""Dialogues as chats on the report's page: when a run would share a photo, and which."""

from collections.abc import Sequence
from typing import cast

from ctxr.datasets.dialogues import before_share, merged, sharer_of
from ctxr.errors import plural
from ctxr.problems.question import ProblemResults, View
from ctxr.problems.results import TURNS, PredictedTurns
from ctxr.store.records import Dialogue, ObjectLabels
from ctxr.store.tables import grouped, read_table

MOST_SHOWN = 200
"""Dialogues of a page, the hardest."""


def chat_view(results: ProblemResults) -> View | None:
    """The hardest dialogues: first those whose photo ranks low, then those whose turn was missed; None without the dialogues."""
    payloads = results.dataset.payloads if results.dataset else {}
    talks = {row.id: row for row in cast("Sequence[Dialogue]", payloads.get("dialogues", ()))}
    labels = {row.id: row.labels for row in cast("Sequence[ObjectLabels]", payloads.get("objects", ()))}
    files = [one.path / TURNS for one in results.artifacts if TURNS in one.manifest.files]
    turns = grouped((row.query, row) for file in files for row in read_table(file, PredictedTurns))
    found = grouped((row.query, row) for row in results.rows)
    known = [name for name in dict.fromkeys([*found, *turns]) if name in talks]
    if not known:
        return None

    def hardness(name: str) -> tuple[float, float, str]:
        ranks = [row.reciprocal_rank for row in found.get(name, ())]
        timed = [row.first == len(row.values) for row in turns.get(name, ())]
        return (sum(ranks) / max(1, len(ranks)), sum(timed) / max(1, len(timed)), name)

    cards = []
    for name in sorted(known, key=hardness)[:MOST_SHOWN]:
        talk, ranked, own = talks[name], found.get(name, ()), turns.get(name, ())
        after = [] if talk.shared_at is None else merged(talk.turns[talk.shared_at + 1 :])
        cards.append({
            "id": name, "split": [*ranked, *own][0].split, "by": sharer_of(talk),
            "turns": [(turn.user, turn.text) for turn in merged(before_share(talk))],
            "after": [(turn.user, turn.text) for turn in after],
            "photo": (talk.photo, results.picture(talk.photo)), "labels": labels.get(talk.photo, ()),
            "intent": {row.run: {"p": row.values, "limit": row.threshold, "at": row.first} for row in own},
            "runs": {row.run: results.firsts(row) for row in ranked},
        })  # fmt: skip
    intents = list(dict.fromkeys(row.run for rows in turns.values() for row in rows))
    context = {"runs": results.scorers, "intents": intents, "dialogues": len(known), "shown": len(cards)}
    data = {"runs": results.scorers, "intents": intents, "rows": cards}
    return View("dialogues", "Dialogues", __package__, context, data, plural(len(known), "dialogue", form=","))
