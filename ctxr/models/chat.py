"""Requests to a model behind an endpoint: price, parallel requests, a journal of replies."""

import base64
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from ctxr.engine.options import EndpointOptions
from ctxr.engine.progress import ProgressTask
from ctxr.engine.units import parallel
from ctxr.errors import CtxrError
from ctxr.media.images import thumbnail
from ctxr.models.endpoint import NOT_ALLOWED, Declined, Endpoint, EndpointAddress, ServerLimits, Unreadable, key_of
from ctxr.store.records import Record
from ctxr.store.tables import append

KEPT_CHARACTERS = 300  # characters of an answer that are kept
MOST_TOKENS = 10**9  # of one reply; a larger count of a host is not believed
QUALITY = 90  # of the JPEGs that are sent
CACHED_PICTURES = 64  # encoded pictures in memory: descriptions of one set follow each other
CHARACTERS = 3.5  # of English text in a token, at least


@dataclass(frozen=True)
class Completion:
    """The result of a request. `text`: the answer or why there is none. Counts are the host's."""

    text: str = ""
    outcome: Literal["answered", "unreadable", "refused"] = "answered"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)


def shortened(text: str) -> str:
    """The beginning of a text, which can be encoded."""
    return text[:KEPT_CHARACTERS].encode(errors="replace").decode()


def read_completion(raw: Mapping[str, Any]) -> Completion:
    """A chat completion as a host sends it; anything else is unreadable."""
    usage = raw.get("usage")
    counts = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    sent, received = (count if type(count) is int and 0 <= count < MOST_TOKENS else None for count in counts)
    completion = Completion("", "unreadable", sent, received, shortened(str(raw.get("model") or "")), raw)
    try:
        choice = raw["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        return completion
    if isinstance(refusal, str) and refusal:
        return replace(completion, text=refusal, outcome="refused")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    filtered = choice.get("finish_reason") == "content_filter"
    text = content if isinstance(content, str) else ""
    return replace(completion, text=text, outcome="refused" if filtered else "answered")


REFUSAL = re.compile(
    r"(?:\b(?:sorry|apologi[sz]e|as an ai|désolée?|lo siento|lamento|tut mir leid)\b"
    r"|\bI(?:\s+am|['’]m)\s+(?:unable|not\s+able)\b"
    r"|\bI\s+(?:cannot|can\s+not|can['’]t|won['’]t|decline)\b"
    r"|\bich\s+kann\s+(?:\w+\s+){0,5}(?:nicht|keine)|\bkann\s+ich\s+(?:\w+\s+){0,5}(?:nicht|keine)"
    r"|\bje\s+ne\s+peux\b|\bno\s+puedo\b|抱歉|对不起|我无法|我不能)[^.!?;:,\n。！？；，]*",
    re.IGNORECASE,
)
"""A clause in which a model says that it cannot or will not answer, in five languages."""


def final_text(text: str) -> str:
    """An answer without the model's reasoning before it; "" if the reasoning was cut off."""
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


@lru_cache(maxsize=CACHED_PICTURES)
def data_url(file: Path, longest: int) -> str:
    """The picture, upright, its longer side at most `longest` pixels, as the data URL of a JPEG."""
    return "data:image/jpeg;base64," + base64.b64encode(thumbnail(file, longest, QUALITY)).decode("ascii")


def chat_messages(system: str, content: Sequence[str | Path], longest: int) -> list[dict[str, object]]:
    """Messages of texts and pictures in order. Raises DataError for an unreadable picture."""
    parts: list[dict[str, object]] = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part, longest)}}
        for part in content
    ]
    return [{"role": "system", "content": system}, {"role": "user", "content": parts}]


def text_tokens(characters: int) -> int:
    """An upper estimate of the tokens of English text."""
    return math.ceil(characters / CHARACTERS)


def picture_tokens(width: int, height: int, longest: int) -> int:
    """An upper estimate of a picture's tokens, by tiles of 512 or patches of 28 pixels; 0 = size unknown."""
    longer = max(width, height)
    scale = min(1.0, longest / longer) if longer else 0.0
    wide, high = (width * scale, height * scale) if longer else (longest, longest)
    tiles = 85 + 170 * math.ceil(wide / 512) * math.ceil(high / 512)
    return max(tiles, math.ceil(wide / 28) * math.ceil(high / 28))


@dataclass(frozen=True)
class PricedRequest:
    """A request. `identity`: hash over all that decides the reply; `tokens`: estimate; `asked`: its subject."""

    identity: str
    tokens: int
    asked: Any


@dataclass
class Budget:
    """The money `spent` so far, and the price of the `dearest` reply."""

    options: EndpointOptions
    spent: float = 0.0
    dearest: float = 0.0

    def cost(self, sent: int, received: int) -> float:
        """Price of so many tokens."""
        return (sent * self.options.price_in + received * self.options.price_out) / 1e6

    def pay(self, sent: int | None, received: int | None, estimate: int) -> None:
        """Count a reply; where the host does not count tokens, with the estimate."""
        cost = self.cost(estimate if sent is None else sent, self.options.max_tokens if received is None else received)
        self.spent += cost
        self.dearest = max(self.dearest, cost)

    def reaches(self, request: PricedRequest, on_the_way: int) -> bool:
        """Whether a request fits the limit beside others on the way, all as dear as the dearest."""
        expected = max(self.cost(request.tokens, self.options.max_tokens), self.dearest)
        return not self.options.max_cost or self.spent + (on_the_way + 1) * expected <= self.options.max_cost


Pause = Callable[[float], object]  # waits that many seconds; True where the wait was cut short

Q = TypeVar("Q", bound=PricedRequest)
R = TypeVar("R", bound=Record)


@dataclass
class ChatClient:
    """Asks a model for completions, and adds each reply to the file `journal` as it arrives. Raises CtxrError without a key.

    Until an endpoint is `trusted`, which follows its first answer, a reply that is not a completion is an error. `pause` replaces waiting.
    """

    address: EndpointAddress
    options: EndpointOptions
    journal: Path
    budget: Budget
    trusted: bool
    accepted: ServerLimits = field(default_factory=ServerLimits)
    temperature: int = 0
    pause: Pause | None = None

    def __post_init__(self) -> None:
        self._writing, self._ended = threading.Lock(), threading.Event()
        key = key_of(self.options.key_from, self.address)
        self._endpoint = Endpoint(self.address, key, self.options.timeout, self._wait)

    def _wait(self, seconds: float) -> None:
        if self._ended.is_set() or (self.pause or self._ended.wait)(seconds) is True:
            raise CtxrError("stopped while it waited for the endpoint", hint="run the same command again")

    def ask_all(self, requests: Sequence[Q], ask: Callable[[Q], R], task: ProgressTask) -> list[R]:
        """Replies to all requests, or to those that the budget allows; to be called once."""
        replies: list[R] = []

        def affordable() -> Iterator[Q | None]:
            for started, request in enumerate(requests):
                # those on the way may turn out cheaper
                while not self.budget.reaches(request, started - len(replies)):
                    if started == len(replies):
                        return
                    yield None
                yield request

        # waits end at once when something is raised, and so when interrupted
        at_once = parallel(ask, affordable(), self.options.at_once, stop=self._ended.set)
        with closing(self._endpoint), closing(at_once) as arriving:
            for _, reply in arriving:
                replies.append(reply)
                task.say(f"{self.budget.spent:.2f} spent" if self.budget.spent else "")
                task.advance()
        return replies

    def ask(self, request: Q, messages: object, read: Callable[[Q, Completion], R], shape: object = None) -> R:
        """The reply to a request, counted and in the journal; `shape` is the `response_format`, for hosts that know one.

        Raises CtxrError for an endpoint that does not answer, or refuses for another reason than the content.
        """
        completion, accepted = None, self.accepted
        while completion is None:
            body: dict[str, object] = {"model": self.options.model, "messages": messages}
            body[accepted.limit] = self.options.max_tokens
            if accepted.temperature:
                body["temperature"] = self.temperature
            if accepted.structured:
                body["response_format"] = shape
            if accepted.logprobs:
                body |= {"logprobs": True, "top_logprobs": accepted.logprobs}
            try:
                completion = read_completion(self._endpoint.complete(body))
                self.accepted, self.trusted = accepted, True
            except Unreadable as error:
                if not self.trusted:
                    raise
                completion = Completion(error.message, "unreadable")
            except Declined as error:
                # an empty account or a moved address is not the model's answer, and a reply in the journal is never asked again
                other = None if error.status in NOT_ALLOWED else accepted.after(error.detail)
                if error.filtered and error.status not in NOT_ALLOWED:
                    completion = Completion(error.message, "refused")
                elif other is None:
                    raise
                else:
                    accepted = other
        reply = read(request, completion)
        with self._writing:
            self.budget.pay(completion.prompt_tokens, completion.completion_tokens, request.tokens)
            append(self.journal, reply)
        return reply
