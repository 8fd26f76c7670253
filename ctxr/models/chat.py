"""Requests to a model behind an endpoint: their price, parallel requests, and replies that are written down as they arrive."""

import base64
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from ctxr.engine.options import EndpointOptions
from ctxr.engine.progress import ProgressTask
from ctxr.engine.units import parallel
from ctxr.errors import CtxrError
from ctxr.media.images import thumbnail
from ctxr.models.endpoint import NOT_ALLOWED, Endpoint, EndpointAddress, Rejected, ServerLimits, Unreadable, key_of
from ctxr.store.records import Record
from ctxr.store.tables import append

KEPT_CHARACTERS = 300
"""Characters of an answer that are kept."""

MOST_TOKENS = 10**9
"""Of one reply: no host counts as many."""

QUALITY = 90
"""Of the JPEGs that are sent."""

CACHED_PICTURES = 64
"""Encoded pictures that are kept: descriptions of one set stand together."""

CHARACTERS = 3.5
"""Of English text in a token, at least."""


@dataclass(frozen=True)
class Completion:
    """What came of a request.

    Attributes:
        text: the answer, or why there is none. outcome: `answered`; `refused`, by the model or its host; `unreadable`, no completion.
        prompt_tokens, completion_tokens: as the host counts; None where it does not say. model: what the host says that answered.
        raw: as it arrived.
    """

    text: str = ""
    outcome: Literal["answered", "unreadable", "refused"] = "answered"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def noted(self) -> tuple[str, int | None, int | None, str]:
        """The fields that a journal keeps: the beginning of the text, tokens sent and received, the model."""
        return _kept(self.text), self.prompt_tokens, self.completion_tokens, self.model


def read_completion(raw: Mapping[str, Any]) -> Completion:
    """A chat completion as a host sends it; anything else is unreadable."""
    counts = (_tokens(raw, "prompt_tokens"), _tokens(raw, "completion_tokens"), _kept(str(raw.get("model") or "")), raw)
    try:
        choice = raw["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        return Completion("", "unreadable", *counts)
    if isinstance(refusal, str) and refusal:
        return Completion(refusal, "refused", *counts)
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    filtered = choice.get("finish_reason") == "content_filter"
    return Completion(content if isinstance(content, str) else "", "refused" if filtered else "answered", *counts)


def final_text(text: str) -> str:
    """An answer without what a model thinks aloud first; nothing of a thought that was cut off."""
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


def _tokens(completion: Mapping[str, object], name: str) -> int | None:
    usage = completion.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < MOST_TOKENS else None


def _kept(text: str) -> str:
    return text[:KEPT_CHARACTERS].encode(errors="replace").decode()


@lru_cache(maxsize=CACHED_PICTURES)
def data_url(file: Path, longest: int) -> str:
    """The picture, upright, its longer side at most `longest` pixels, as a JPEG inside an address."""
    return "data:image/jpeg;base64," + base64.b64encode(thumbnail(file, longest, QUALITY)).decode("ascii")


def chat_messages(system: str, content: Sequence[str | Path], longest: int) -> list[dict[str, object]]:
    """Messages of texts and pictures in order. Raises DataError for a picture that cannot be read."""
    parts: list[dict[str, object]] = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part, longest)}}
        for part in content
    ]
    return [{"role": "system", "content": system}, {"role": "user", "content": parts}]


def text_tokens(characters: int) -> int:
    """About how many tokens English text has, rather too many."""
    return math.ceil(characters / CHARACTERS)


def picture_tokens(width: int, height: int, longest: int) -> int:
    """About how many tokens a picture has, rather too many: models count tiles of 512 or patches of 28 pixels; 0 = size unknown."""
    longer = max(width, height)
    scale = min(1.0, longest / longer) if longer else 0.0
    wide, high = (width * scale, height * scale) if longer else (longest, longest)
    tiles = 85 + 170 * math.ceil(wide / 512) * math.ceil(high / 512)
    return max(tiles, math.ceil(wide / 28) * math.ceil(high / 28))


@dataclass(frozen=True)
class PricedRequest:
    """A request. `identity`: hash over everything that decides the reply; `tokens`: about how many it has; `asked`: what it asks about."""

    identity: str
    tokens: int
    asked: Any


@dataclass
class Budget:
    """What was spent, and whether a further request still fits. `spent`: so far; `dearest`: reply so far."""

    options: EndpointOptions
    spent: float = 0.0
    dearest: float = 0.0

    def cost(self, sent: int, received: int) -> float:
        """What so many tokens cost."""
        return (sent * self.options.price_in + received * self.options.price_out) / 1e6

    def pay(self, sent: int | None, received: int | None, estimate: int) -> None:
        """Count a reply; tokens that the host does not tell count as they were estimated."""
        cost = self.cost(estimate if sent is None else sent, self.options.max_tokens if received is None else received)
        self.spent += cost
        self.dearest = max(self.dearest, cost)

    def reaches(self, request: PricedRequest, on_the_way: int) -> bool:
        """Whether a request would still fit beside those that are on the way, were all as dear as the dearest."""
        expected = max(self.cost(request.tokens, self.options.max_tokens), self.dearest)
        return not self.options.max_cost or self.spent + (on_the_way + 1) * expected <= self.options.max_cost


Pause = Callable[[float], object]
"""Waits that many seconds; True where the wait was cut short."""

Q = TypeVar("Q", bound=PricedRequest)
R = TypeVar("R", bound=Record)


@dataclass
class ChatClient:
    """Asks a model for completions, and writes replies down as they arrive.

    Attributes:
        address: where it is. options: its name, limits and prices. journal: file of replies, to which each is added.
        budget: what was spent.
        trusted: whether the endpoint is known to answer: from one that never did, what is no completion is no answer.
        accepted: what the host is known to take. temperature: of its answers. pause: waits, for tests that do not.

    Raises CtxrError without a key.
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
        """Replies in the order in which they came, to all requests or to those that the budget reaches for; once.

        Whatever `ask` raises is raised when those on the way are done.
        """
        replies: list[R] = []

        def affordable() -> Iterator[Q | None]:
            for started, request in enumerate(requests):
                # those on the way may turn out cheaper than feared
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
        """The reply to a request, paid for and on the disk; `shape` is the `response_format`, for hosts that know one.

        Raises CtxrError for an endpoint that does not answer, or refuses for anything but the content.
        """
        completion = self._complete({"model": self.options.model, "messages": messages}, shape)
        reply = read(request, completion)
        with self._writing:
            self.budget.pay(completion.prompt_tokens, completion.completion_tokens, request.tokens)
            append(self.journal, reply)
        return reply

    def _complete(self, asked: Mapping[str, object], shape: object) -> Completion:
        """The completion, asked for in the way that the host takes, which is remembered."""
        accepted = self.accepted
        while True:
            body = {**asked, accepted.limit: self.options.max_tokens}
            if accepted.temperature:
                body["temperature"] = self.temperature
            if accepted.structured:
                body["response_format"] = shape
            if accepted.logprobs:
                body |= {"logprobs": True, "top_logprobs": accepted.logprobs}
            try:
                completion = self._endpoint.complete(body)
            except Unreadable as error:
                if not self.trusted:
                    raise
                return Completion(error.message, "unreadable")
            except Rejected as error:
                # an empty account or a moved address is not the model's answer: what is written down is never asked again
                if error.filtered and error.status not in NOT_ALLOWED:
                    return Completion(error.message, "refused")
                other = None if error.status in NOT_ALLOWED else accepted.after(error.detail)
                if other is None:
                    raise
                accepted = other
            else:
                self.accepted, self.trusted = accepted, True
                return read_completion(completion)
