"""What was not kept, with its votes and why: nothing that people wrote disappears."""

from collections.abc import Collection, Mapping

from ctxr.data.records import Record
from ctxr.pipelines.aggregating.acceptance import Acceptance
from ctxr.pipelines.tasks_artifact import Answered


class Dropped(Record, frozen=True):
    """A description or dialogue that was not kept.

    Attributes:
        query: its id. text: what was written. author: pseudonym. right, wrong: votes that count.
        reason: `not_found`, `tie`, `too_few_votes`, `writer_blocked`, `not_verified`, or `not_asked` before anybody voted.
    """

    KEY = ("query",)

    query: str
    text: str
    author: str
    right: int
    wrong: int
    reason: str


def dropped_rows(answered: Answered, decisions: Mapping[str, Acceptance], kept: Collection[str]) -> list[Dropped]:
    """A row for each description and dialogue that was written here and is not among `kept`."""
    decided = {decision.query: decision for decision in decisions.values()}
    texts = {text.id: text for text in answered.texts}
    talks = {one.id for one in answered.dialogues}
    rows = []
    for query in answered.queries:
        if query.labels is not None or query.id in kept:
            continue
        said = [texts[name] for name in query.texts if name in texts]
        decision = decided.get(
            query.id, Acceptance(query.id, "", 0, 0, "not_verified" if query.id in talks else "not_asked")
        )
        rows.append(
            Dropped(
                query.id,
                "\n".join(text.text for text in said),
                said[0].author if said else "unknown",
                decision.right,
                decision.wrong,
                decision.reason or "",
            )
        )
    return rows
