"""One request after the other, several on the way at once, each reply on the disk before its place is taken by the next."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.annotation.backends.append_only import append
from ctxr.pipelines.listening.endpoint import NOT_ALLOWED, Endpoint, Rejected, ServerLimits, Unreadable
from ctxr.pipelines.listening.replies import Reply, ReplyText, kept, read_answer, schema, tokens
from ctxr.pipelines.listening.wording import messages, shown
from ctxr.pipelines.talk import Task
from ctxr.pipelines.training.asked import EvalQuery


@dataclass(frozen=True)
class Request:
    """One description with the pictures of its set, turned round by `shift`.

    Attributes:
        identity: hash over everything that decides the reply. tokens: about how many it has.
    """

    asked: EvalQuery
    shift: int
    identity: str
    tokens: int


@dataclass
class Budget:
    """What was spent, and whether a further request still fits.

    Attributes:
        price_in, price_out: of a million tokens. most: to spend, 0 for no limit. answer: most tokens of an answer.
        spent: so far. dearest: reply so far.
    """

    price_in: float
    price_out: float
    most: float
    answer: int
    spent: float = 0.0
    dearest: float = 0.0

    def cost(self, reply: Reply, estimate: int) -> float:
        """What a reply costs; tokens that the host does not tell count as they were estimated."""
        sent = estimate if reply.prompt_tokens is None else reply.prompt_tokens
        said = self.answer if reply.completion_tokens is None else reply.completion_tokens
        return (sent * self.price_in + said * self.price_out) / 1e6

    def pay(self, cost: float) -> None:
        """Count a reply."""
        self.spent += cost
        self.dearest = max(self.dearest, cost)

    def reaches(self, request: Request, on_the_way: int) -> bool:
        """Whether a request would still fit beside those that are on the way, were all as dear as the dearest."""
        if not self.most:
            return True
        expected = (request.tokens * self.price_in + self.answer * self.price_out) / 1e6
        return self.spent + (on_the_way + 1) * max(expected, self.dearest) <= self.most


class Listener:
    """A model that answers requests.

    Args:
        endpoint: where it is. model: its name. files: of the pictures, by image id. side, limit: of a picture in pixels, of an
            answer in tokens. journal: file of replies, to which each is added.
        trusted: whether the endpoint is known to answer: from one that never did, what is no completion is no answer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        files: Mapping[str, Path],
        side: int,
        limit: int,
        journal: Path,
        trusted: bool = False,
    ) -> None:
        self._endpoint, self._model, self._files, self._side, self._limit = endpoint, model, files, side, limit
        self._journal, self._trusted, self._way = journal, trusted, ServerLimits()
        self._writing = threading.Lock()

    def ask(self, request: Request) -> Reply:
        """The reply to a request, on the disk.

        Raises CtxrError for an endpoint that does not answer, or refuses for anything but the content; DataError for a picture.
        """
        size = len(request.asked.images)
        completion: dict[str, Any] = {}
        try:
            completion = self._complete(request, size)
            said = read_answer(completion, size)
            self._trusted = True
        except Rejected as error:
            # an empty account or a moved address is not the model's answer: what is written down is never asked again
            if error.status in NOT_ALLOWED or not error.filtered:
                raise
            said = ReplyText("refused", text=error.message)
        except Unreadable as error:
            if not self._trusted:
                raise
            said = ReplyText("unreadable", text=error.message)
        reply = self._reply(request, said, completion)
        with self._writing:
            append(self._journal, reply)
        return reply

    def _complete(self, request: Request, size: int) -> dict[str, Any]:
        """The completion, asked for in the way that the host takes; what it takes is remembered."""
        body = {"model": self._model, "messages": messages(request.asked, request.shift, self._files, self._side)}
        way = self._way
        while True:
            options: dict[str, Any] = {way.limit: self._limit}
            if way.temperature:
                options["temperature"] = 0
            if way.structured:
                options["response_format"] = schema(size)
            try:
                completion = self._endpoint.complete(body | options)
            except Rejected as error:
                other = None if error.status in NOT_ALLOWED or error.filtered else way.after(error.detail)
                if other is None:
                    raise
                way = other
            else:
                self._way = way
                return completion

    def _reply(self, request: Request, said: ReplyText, completion: Mapping[str, Any]) -> Reply:
        order = shown(request.asked.images, request.shift)
        return Reply(
            query=request.asked.query,
            shift=request.shift,
            asked=request.identity,
            outcome=said.outcome,
            number=said.number,
            candidate=None if said.number is None else order[said.number - 1],
            said=kept(said.text),
            prompt_tokens=tokens(completion, "prompt_tokens"),
            completion_tokens=tokens(completion, "completion_tokens"),
            model=kept(str(completion.get("model") or "")),
        )


def ask_all(
    requests: Sequence[Request],
    ask: Callable[[Request], Reply],
    at_once: int,
    purse: Budget,
    task: Task,
    stop: Callable[[], None],
) -> list[Reply]:
    """Replies in the order in which they came, to all requests or to those that the purse reaches for.

    Whatever `ask` raises is raised when those on the way are done; `stop` is called at once, and so when interrupted.
    """
    found: list[Reply] = []
    left = iter(requests)
    on_the_way: dict[Future[Reply], Request] = {}
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for request in left:
                if not purse.reaches(request, len(on_the_way)):
                    # those on the way may turn out cheaper than feared
                    found += _arrived(on_the_way, purse, task, everything=True)
                    if not purse.reaches(request, 0):
                        break
                on_the_way[pool.submit(ask, request)] = request
                if len(on_the_way) == at_once:
                    found += _arrived(on_the_way, purse, task)
            found += _arrived(on_the_way, purse, task, everything=True)
        except BaseException:
            stop()
            raise
    return found


def _arrived(
    on_the_way: dict[Future[Reply], Request], purse: Budget, task: Task, everything: bool = False
) -> Iterator[Reply]:
    """Replies that have come, at least one where any is awaited; they are on the way no longer."""
    while on_the_way:
        for done in wait(on_the_way, return_when=FIRST_COMPLETED).done:
            reply = done.result()
            purse.pay(purse.cost(reply, on_the_way.pop(done).tokens))
            task.say(f"{purse.spent:.2f} spent" if purse.spent else "")
            task.advance()
            yield reply
        if not everything:
            return
