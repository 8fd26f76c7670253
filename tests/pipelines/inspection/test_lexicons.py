"""The shipped word lists."""

import re

import pytest

from ctxr.pipelines.inspection.stats import LEXICONS, load_lexicon


@pytest.mark.parametrize("name", LEXICONS)
def test_words_are_lower_case_and_stand_once(name: str) -> None:
    lexicon = load_lexicon(name)
    assert all(re.fullmatch(r"[a-z]+", word) for word in lexicon.words)
    assert lexicon.entries <= len(lexicon.words)


def test_the_lists_hold_what_they_are_named_after() -> None:
    body, colours = (load_lexicon(name) for name in LEXICONS)
    assert {"hand", "hands", "teeth", "eye"} <= body.words
    assert {"red", "grey", "gray", "blonde"} <= colours.words
    assert not body.words & colours.words
    assert (body.entries, colours.entries) == (90, 51)
