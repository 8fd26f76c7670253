"""What is kept about people: the tables that say something about them, in plain words, with how much is in them now."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sql
from sqlalchemy import Connection, Table

from ctxr.annotation.journal import tables

_COMMON = {
    "at": "time",
    "began": "time of the beginning",
    "number": "number in the order in which the rows were written",
    "platform": "platform from which the person came",
    "room": "the talk, if it is one",
    "seat": "which of the two people in a talk",
    "slot": "which vote on the unit",
    "task": "what is asked, such as to describe an image",
    "unit": "the unit: what is asked about which images",
    "worker": "pseudonym of the person",
}
"""What columns say in any table that says nothing else of them."""

PEOPLE: Mapping[Table, Mapping[str, str]] = {
    tables.unit: {
        "id": "name of the unit",
        "number": "number in the order of the units",
        "payload": "what is shown: the images, what people wrote, and the pseudonyms of those who wrote it",
        "purpose": "work, or a check of the worker",
        "image_set": "set of the images",
        "side": "part of the benchmark: train, eval or any",
        "fresh": "1 if only people who have not seen the images are asked",
        "seats": "how many people do it together",
        "most": "how many answers it can have",
        "wanted": "how many answers it needs",
        "live": "how many people have it open",
        "answers": "how many answers count",
        "right_votes": "how many of these are right",
        "wrong_votes": "how many are wrong",
        "unknown_votes": "of how many it is not known",
        "decided": "result of the answers; empty until it is known",
        "shuffle": "place in the random order in which units are given out",
    },
    tables.author: {"worker": "pseudonym of a person who wrote what the unit shows, or judged it before"},
    tables.worker: {
        "id": "pseudonym of the person",
        "pool": "part of the benchmark: train, eval or both",
        "state": "whether they get work: active, blocked, screened_out or withdrawn",
        "qualified": "1 if their practice is over, or there is none",
        "allowed": "1 if the researcher exempted them from the rules that block people",
        "known_right": "how many checks they answered right",
        "known_wrong": "how many checks they answered wrong",
        "answers": "how many answers they gave",
        "enrolled": "time of enrolment",
    },
    tables.change: {
        "before": "state before the change",
        "after": "state after the change",
        "reason": "reason, as the researcher wrote it or a rule gives it",
        "by": "who decided",
        "undone": "1 if the change was taken back",
    },
    tables.consent: {
        "version": "version of the consent to which they agreed",
        "language": "language in which they read it",
    },
    tables.exit_answer: {
        "number": "number of the question at the end",
        "version": "version of the questions",
        "question": "text of the question",
        "answer": "what the person chose or wrote; empty if nothing",
    },
    tables.room: {
        "id": "name of a talk",
        "state": "waiting for the second person, talking, finished or closed",
        "opened": "time of the beginning",
    },
    tables.lease: {
        "token": "random name of the page on which the person worked",
        "shown": "images in the order in which the person saw them",
        "expires": "time until which the unit is kept for the person",
        "state": "live, answered, expired or returned",
        "draft": "what the person had typed and not sent",
        "pastes": "how often the person pasted text",
        "absences": "how often the person left the page",
        "away": "for how many milliseconds the person was away from the page",
    },
    tables.answer: {
        "payload": "the answer: what the person chose or wrote, in which order they saw the images, when, and how long it took",
        "corrected": "number of the last correction; 0 if there was none",
    },
    tables.earned: {
        "backend": "platform through which a deleted answer came",
        "microseconds": "time that the answer took, for the pay that is still owed",
    },
    tables.exposure: {"picture": "hash of a picture that the person has seen"},
    tables.event: {"kind": "what happened in a talk, such as a message", "text": "what was said"},
    tables.message: {
        "text": "what the researcher wrote to the person",
        "by": "who wrote it",
        "read": "time at which the person put it away; empty until then",
    },
    tables.waited: {
        "unit": "the talk that did not take place",
        "reason": "why: nobody came, or the partner left",
        "microseconds": "how long the person waited, for the pay that is owed",
    },
}
"""What the columns of the journal say about people, by table, unless it is in `_COMMON`; other tables say nothing about any."""


@dataclass(frozen=True)
class KeptTable:
    """A table that says something about people: words for each column, its rows, and how many people they name; None for a table that
    names none."""

    name: str
    columns: Mapping[str, str]
    rows: int
    people: int | None


def words_by_column(table: Table, words: Mapping[str, str]) -> dict[str, str]:
    """What each column of a table says about people; `words`: what only this table says. Raises KeyError for a column without words."""
    known = {**_COMMON, **words}
    return {column.name: known[column.name] for column in table.columns}


def kept_tables(connection: Connection, people: Mapping[Table, Mapping[str, str]]) -> list[KeptTable]:
    """The tables that say something about people, with the words of each."""
    kept = []
    for table, words in people.items():
        columns = words_by_column(table, words)
        named = [table.c[name] for name in ("worker", "id") if "pseudonym" in columns.get(name, "")]
        counts = [sql.func.count(), *(sql.func.count(column.distinct()) for column in named)]
        rows, *count = connection.execute(sql.select(*counts).select_from(table)).one()
        kept.append(KeptTable(table.name, columns, rows, count[0] if count else None))
    return kept
