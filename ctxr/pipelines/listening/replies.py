"""What a model answered, read strictly where it speaks JSON and kindly where it does not."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ctxr.data.records import Record

Outcome = Literal["chosen", "out_of_range", "unreadable", "refused"]

KEY = "picture"
"""Of the JSON object that is asked for."""

KEPT = 300
"""Characters of an answer that are kept."""

MOST_TOKENS = 10**9
"""Of one reply: no host counts as many."""

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)?|\d+(?:[.,]\d+)?")
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")


class Reply(Record, frozen=True):
    """A model's answer to one request.

    Attributes:
        shift: which picture of the set was number 1, from 0.
        asked: hash over what was sent, to whom.
        outcome: `chosen`; `out_of_range`, a number that no picture has; `unreadable`, no number, or no answer at all;
            `refused`, by the model or its host.
        number: of the picture as it was shown, from 1. candidate: its image id. Both None unless chosen.
        said: the answer, shortened.
        prompt_tokens, completion_tokens: as the host counts; None where it does not say.
        model: what the host says that answered.
    """

    KEY: ClassVar[tuple[str, ...]] = ("query", "shift")

    query: str
    shift: int
    asked: str
    outcome: Outcome
    number: int | None
    candidate: str | None
    said: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str = ""


@dataclass(frozen=True)
class ReplyText:
    """What one answer comes to; see `Reply`."""

    outcome: Outcome
    number: int | None = None
    text: str = ""


def schema(size: int) -> dict[str, Any]:
    """The `response_format` that leaves a model nothing to say but a number from 1 to `size`."""
    picture = {"type": "integer", "enum": list(range(1, size + 1))}
    shape = {"type": "object", "properties": {KEY: picture}, "required": [KEY], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "choice", "strict": True, "schema": shape}}


def read_answer(completion: Mapping[str, Any], size: int) -> ReplyText:
    """What a chat completion says about `size` pictures; anything that is no completion is unreadable."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ReplyText("unreadable")
    if isinstance(refusal, str) and refusal:
        return ReplyText("refused", text=refusal)
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    if choice.get("finish_reason") == "content_filter":
        return ReplyText("refused", text=text)
    return read_text(text, size)


def read_text(text: str, size: int) -> ReplyText:
    """The number that an answer names: that of a JSON object, else the first in the text.

    >>> [read_text(text, 10).number for text in ('{"picture": 3}', "Picture 7, as the other 2 are dark.", "none")]
    [3, 7, None]
    """
    # some models think aloud first; numbers in a thought that was cut off are no answer
    final = text.rpartition("</think>")[2].partition("<think>")[0].strip()
    stated = _stated(_FENCE.sub("", final))
    if stated is None:
        found = _NUMBER.search(final)
        if found is None or not found[0].lstrip("-").isdigit():
            return ReplyText("unreadable", text=text)
        stated = int(found[0][:9])
    return ReplyText("chosen", stated, text) if 1 <= stated <= size else ReplyText("out_of_range", text=text)


def _stated(text: str) -> int | None:
    """The number of a JSON object, or a number alone; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = value.get(KEY, next(iter(value.values()), None) if len(value) == 1 else None)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def tokens(completion: Mapping[str, Any], name: str) -> int | None:
    """A count of `usage`; None where the host does not say, or says nonsense."""
    usage = completion.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < MOST_TOKENS else None


def kept(text: str) -> str:
    """The beginning of what a host said, as it can be written down."""
    return text[:KEPT].encode(errors="replace").decode()
