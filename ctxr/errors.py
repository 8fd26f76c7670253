"""Errors that a user can cause and mend, each with its exit code; `ctxr.cli.app` alone turns them into text.

A message is one sentence that names file:line or id, what, and which value; the hint is one command or one edit. Below the
errors stand the words that sentences share.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


class CtxrError(Exception):
    """Something went wrong, and the message says what; `hint` is empty where there is nothing to do about it."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CtxrError):
    """A wrong argument: a path that does not exist, a threshold out of range, an unknown name."""

    exit_code = 2


class DataError(CtxrError):
    """Input that is damaged, malformed or of a newer format."""

    exit_code = 3


class UnfinishedError(CtxrError):
    """An artifact without a manifest, or one that another process is writing."""

    exit_code = 4


class PartialError(UnfinishedError):
    """The result was written and reported, but not all of it could be made."""


class FindingsError(CtxrError):
    """`ctxr doctor`, `shortcuts`, `verify` or `aggregate` found something that needs attention."""

    exit_code = 5


class CtxrWarning(UserWarning):
    """What a verb warns of when it is called from Python."""


class DryRun(CtxrError):
    """Nothing was written, because that was not wanted: the message says what would have been, and `plan` how much it is, by name."""

    exit_code = 0

    def __init__(self, message: str = "", plan: Mapping[str, object] = {}) -> None:
        super().__init__(message)
        self.plan = plan


def plural(number: int, noun: str, nouns: str = "", form: str = "") -> str:
    """A number with its noun, which takes an s unless `nouns` is its plural; `form` is the number's format.

    >>> plural(1, "source"), plural(1200, "query", "queries", form=",")
    ('1 source', '1,200 queries')
    """
    return f"{number:{form}} {noun if number == 1 else nouns or noun + 's'}"


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", spelled: str = "{}", most: int = 1) -> str:
    """A hint: the known words that are closest to another, as they are `spelled`; `otherwise` where none is near.

    >>> did_you_mean("flter", ["filter", "plan"], spelled="ctxr {}")
    'did you mean ctxr filter?'
    """
    near = get_close_matches(word, list(known), n=most)
    return f"did you mean {' or '.join(map(spelled.format, near))}?" if near else otherwise


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its class where it has none."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def some(names: Iterable[str], most: int = 3) -> str:
    """The first names of several, with an ellipsis for the others.

    >>> some("abcd")
    'a, b, c, …'
    """
    first = list(names)
    return ", ".join(first[:most]) + (", …" if len(first) > most else "")


def and_more(number: int, shown: int = 1) -> str:
    """How many are not shown, as the end of a sentence; "" where all are.

    >>> and_more(3), and_more(1)
    (', and 2 more', '')
    """
    return f", and {number - shown} more" if number > shown else ""
