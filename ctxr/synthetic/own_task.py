"""A task of one's own in the demo: people judge descriptions by a file of fields, and what their votes come to is known."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.pseudonyms import PRIVATE, read_key
from ctxr.datasets.dataset import Dataset
from ctxr.engine.report import Table
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import FieldAnswer
from ctxr.synthetic.crowd import Page, Visitor, served, work_in_turns

TASK = """title = "What does the description say?"
instruction = ["Read the description, and answer for its words alone."]
about = "query"
votes = 3

[[field]]
name = "negation"
kind = "choice"
legend = "Does it say what is not there?"
options = ["yes", "no"]

[[field]]
name = "sentences"
kind = "scale"
legend = "How many sentences has it?"
low = 1
high = 5
"""

_NOT = re.compile(r"\b(no|not|none|never|nobody|nothing|without)\b|n't\b", re.IGNORECASE)
CARE, PEOPLE = 0.9, 4
"""Probability that a field is answered right, else at random; and how many answer."""


def answers_to(text: str) -> Mapping[str, str]:
    """What is right, by field."""
    sentences = len(re.findall(r"[.!?](?:\s|$)", text)) or 1
    return {"negation": "yes" if _NOT.search(text) else "no", "sentences": str(min(5, sentences))}


class FieldVisitor(Visitor):
    """One who reads a description and fills in every field."""

    def answer(self, page: Page) -> Page | None:
        """Answer each field; None where none is asked."""
        if (form := page.form("sentences")) is None:
            return None
        said = {**answers_to(page.quotes[0])}
        for name, others in (("negation", ("yes", "no")), ("sentences", ("1", "2", "3", "4", "5"))):
            if self._rng.random() > CARE:
                said[name] = str(self._rng.choice(others))
        return self._post(page, form, {name: [value] for name, value in said.items()})


def rate(workdir: Path, seed: int) -> None:
    """Let people answer the exported task of a project over HTTP. Raises CtxrError when the server cannot be started."""
    read_key(workdir / CROWD / PRIVATE, sha256_bytes(str(seed).encode()))
    with served(workdir, PEOPLE) as opened:
        links = enumerate(opened.links.items())
        people = [FieldVisitor(name, link, {}, np.random.default_rng((seed, number))) for number, (name, link) in links]
        work_in_turns(people, lambda _: None)


def beside_truth(dataset: Dataset, agreement: Table) -> Table:
    """The agreement of each field, and how many of the answers are right."""
    rows = [row for row in dataset.payloads["own"] if isinstance(row, FieldAnswer) and row.query in dataset.queries]
    truth = [answers_to(dataset.text_of(dataset.queries[str(row.query)]))[row.field] for row in rows]
    right = sum(row.answer == (true,) for row, true in zip(rows, truth, strict=True))
    note = f"{right} of {len(rows)} answers of three votes are right, of single votes about {CARE:.0%}"
    return Table("A task of one's own", agreement.columns, agreement.rows, note)
