"""Two people talk, one sees a photo and shares it when it fits (PhotoChat, section 3).

The talk itself is a list of events that `dialogues.replay` turns into a state; here is what is on the page of each of the two,
and what a finished talk is worth.
"""

import msgspec

from ctxr.annotation.forms import Form, Line, Passage, Talk, pictures_shown
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.base import Task
from ctxr.annotation.tasks.values import ODD_CHARACTERS, Exposure, Values, odd, shared_after, stable_id
from ctxr.annotation.wording import Problem, first_problem
from ctxr.store.records import Dialogue, Judgment, Query, Text, Turn
from ctxr.store.tables import UNREADABLE
from ctxr.web.language import _

FIELD = "turns"
"""The answer of each seat: the turns as JSON, oldest first."""

PAIR = "pair"
"""The pseudonyms of both, who saw the photo first."""

SENDER = 0


def turns_of(values: Values) -> tuple[Turn, ...]:
    """The turns in an answer. Raises msgspec.ValidationError for anything but a list of turns."""
    return msgspec.json.decode(values[FIELD][0], type=tuple[Turn, ...])


class DialogueTask(Task):
    """Two people at once."""

    SEATS = 2
    MAKES_WORK = True

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """For the sender the photo and what is in it, for the other only the talk."""
        sees = seat == SENDER
        objects = (Passage(_("In the photo"), (Line(", ".join(unit.labels)),)),) if sees and unit.labels else ()
        return Form(
            title=_("Talk with another person"),
            instruction=(
                _("You have this photo on your phone. Chat as with a friend, and share it when it fits the talk.")
                if sees
                else _("Chat as with a friend. The other person has a photo that they may share with you."),
                " ".join((shared_after(unit.limits.turns_before_share), _("Then both of you see it and may go on."))),
            ),
            pictures=pictures_shown(order) if sees else (),
            passages=objects,
            fields=(Talk(FIELD, _("Your conversation"), unit.limits.turns_before_share),),
        )

    def validate(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """As for every task; who talked is not asked."""
        return super().validate(unit, {name: value for name, value in values.items() if name != PAIR}, exposure)

    def wrong(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """Whether it is a talk in which the photo was shared, by who saw it, and not too early."""
        if not values.get(FIELD):
            return [Problem("no_talk", _("The conversation is missing."))]
        try:
            turns = turns_of(values)
        except UNREADABLE:
            return [Problem("no_talk", _("The conversation cannot be read."))]
        shares, least = [index for index, turn in enumerate(turns) if turn.share], unit.limits.turns_before_share
        blank = any(turn.user not in (0, 1) or (not turn.share and not turn.text.strip()) for turn in turns)
        early = any(index < least or turns[index].user != SENDER for index in shares)
        problem = first_problem(
            (blank, "odd_turn", _("A message is empty or has no sender.")),
            (any(odd(turn.text) for turn in turns), ODD_CHARACTERS.code, _(ODD_CHARACTERS.sentence)),
            (len(shares) != 1, "not_shared", _("Please share the photo once before you finish.")),
            (early, "shared_early", shared_after(least)),
        )
        return [problem] if problem else []

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """From the sender's answer the dialogue, the query of the turns before the share, and the photo as gold."""
        pair = tuple(answer.values.get(PAIR, ()))
        turns = turns_of(answer.values)
        shared_at = next((index for index, turn in enumerate(turns) if turn.share), None)
        if answer.worker != pair[SENDER] or shared_at is None:
            return Outcome()
        name = stable_id("d", unit.id, *pair)
        texts = tuple(
            Text(f"{name}/{index:03d}", turn.text, pair[turn.user], index)
            for index, turn in enumerate(turns[:shared_at])
        )
        return Outcome(
            texts=texts,
            queries=(Query(name, unit.image_set, tuple(text.id for text in texts)),),
            judgments=(Judgment(name, unit.target or unit.images[0], "gold", 1.0),),
            dialogues=(Dialogue(name, unit.id, unit.target or unit.images[0], pair, turns, shared_at),),
        )
