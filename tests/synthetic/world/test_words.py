"""The vocabulary of untrained models knows every word of the drawn world."""

from collections.abc import Iterator

from ctxr.models.cross.wordpieces import WORDS
from ctxr.synthetic.world import words


def phrases(table: object) -> Iterator[str]:
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        for value in table.values():
            yield from phrases(value)
    elif isinstance(table, list | tuple | set | frozenset):
        for value in table:
            yield from phrases(value)


def test_the_word_list_of_untrained_models_holds_the_words_of_the_world() -> None:
    tables = [table for name, table in vars(words).items() if name.isupper()]
    split = (phrase.lower().replace("-", " ").split() for phrase in phrases(tables))
    wanted = {word for phrase in split for word in phrase if word.isalpha()}
    assert WORDS.read_text(encoding="utf-8").split() == sorted(wanted)
