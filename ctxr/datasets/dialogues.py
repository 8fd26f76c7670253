"""Dialogues in which a photo is shared, turn by turn (PhotoChat)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.records import UNKNOWN, Dialogue, SplitName, Turn

LABELLED = "Objects in the photo:"
"""What object labels stand behind in a description of PhotoChat."""


def before_share(dialogue: Dialogue) -> tuple[Turn, ...]:
    """What was said before the photo was shared; everything where it was not."""
    return dialogue.turns if dialogue.shared_at is None else dialogue.turns[: dialogue.shared_at]


def merged(turns: Iterable[Turn]) -> list[Turn]:
    """Turns with what one speaker says in a row as one, joined by blanks; a share, and a turn of nobody known, stands alone.

    >>> [turn.text for turn in merged([Turn(0, "Hi!"), Turn(0, "How are you?"), Turn(1, "Fine.")])]
    ['Hi! How are you?', 'Fine.']
    """
    found = list[Turn]()
    for (user, share), own in groupby(turns, lambda turn: (turn.user, turn.share)):
        rows = [*own]
        joins = user != UNKNOWN and not share
        found += [Turn(user, " ".join(turn.text for turn in rows), at=rows[0].at)] if joins else rows
    return found


def said_by(turns: Sequence[Turn], user: int | None) -> list[str]:
    """The messages of one speaker; of both for None, and where the speaker is unknown."""
    return [turn.text for turn in turns if not turn.share and (user is None or turn.user in (user, UNKNOWN))]


def sharer_of(dialogue: Dialogue) -> int:
    """Who shared the photo; 0, who saw it, where it was not shared."""
    return 0 if dialogue.shared_at is None else dialogue.turns[dialogue.shared_at].user


def labels_in(description: str) -> tuple[str, ...]:
    """The object labels of a description, never the words before them, which name a person.

    >>> labels_in("The photo has your brother Darwin. Objects in the photo: Dress, Man")
    ('Dress', 'Man')
    """
    _, found, listed = description.rpartition(LABELLED)
    return tuple(label for part in listed.split(",") if (label := part.strip())) if found else ()


@dataclass(frozen=True)
class SharedDialogue:
    """A dialogue, by the id of its query: its merged turns t1..th before the photo."""

    query: str
    split: SplitName | None
    turns: tuple[Turn, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """Its turns as scores name them: "1" to the last."""
        return tuple(map(str, range(1, len(self.turns) + 1)))

    @property
    def moments(self) -> list[tuple[tuple[Turn, ...], bool]]:
        """What was said up to each turn, and whether the photo comes next."""
        return [(self.turns[:turn], turn == len(self.turns)) for turn in range(1, len(self.turns) + 1)]


def dialogues_of(dataset: Dataset) -> list[SharedDialogue]:
    """The dialogues with a turn before their photo, by id. Raises DataError for none."""
    homes, rows = {one.id: dataset.split_of(one) for one in dataset.sets}, dataset.payloads.get("dialogues", ())
    talks = [
        SharedDialogue(row.id, homes[dataset.queries[row.id].image_set], tuple(merged(before_share(row))))
        for row in rows
        if isinstance(row, Dialogue) and row.shared_at
    ]
    if not talks:
        sentence = f"{dataset.name} has no dialogue with a turn before its photo"
        raise DataError(sentence, hint="--dataset names dialogues, such as those of PhotoChat")
    return sorted(talks, key=lambda talk: talk.query)
