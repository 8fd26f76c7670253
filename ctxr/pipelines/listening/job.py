"""What a run of `ctxr listen` asks, and which replies answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.data.artifacts import Parent
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_of
from ctxr.errors import DataError
from ctxr.pipelines.changes import parent_of
from ctxr.pipelines.inputs import open_dataset
from ctxr.pipelines.listen import Listen
from ctxr.pipelines.listening.asking import Budget, Request
from ctxr.pipelines.listening.endpoint import Place, place_of
from ctxr.pipelines.listening.replies import Reply
from ctxr.pipelines.listening.wording import VERSION, estimated_tokens, identity, shifts_of
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import EvalQuery, asked_of, contents_of, pictures_of, sha256_of_asked


@dataclass(frozen=True)
class ListenJob:
    """Everything that is to be asked.

    Attributes:
        place: where. of_side: queries of the side, asked or not. contents: SHA-256 of each picture. requests: in the order of
            queries. parents: of the artifact.
    """

    config: Listen
    place: Place
    dataset: Dataset
    of_side: int
    asked: tuple[EvalQuery, ...]
    files: Mapping[str, Path]
    requests: tuple[Request, ...]
    parents: tuple[Parent, ...]

    @property
    def out(self) -> Path:
        """The run's folder."""
        return self.config.folder()

    def decides(self) -> dict[str, object]:
        """What decides the result."""
        names = ("model", "split", "limit", "shifts", "side", "max_tokens")
        return {"endpoint": self.place.url, "wording": VERSION} | {name: getattr(self.config, name) for name in names}

    def purse(self, replies: Sequence[Reply] = ()) -> Budget:
        """What was spent on replies, with what may still be."""
        config, estimates = self.config, {one.identity: one.tokens for one in self.requests}
        purse = Budget(config.price_in, config.price_out, config.max_cost, config.max_tokens)
        for reply in replies:
            purse.pay(purse.cost(reply, estimates.get(reply.asked, 0)))
        return purse


def job_of(config: Listen, talk: Talk) -> ListenJob:
    """Everything that a configuration asks. Raises what `pipelines.listen.run` says."""
    place = place_of(config.endpoint, config.insecure)
    dataset = open_dataset(config.dataset, config.workdir, talk)
    side = [one for one in asked_of(dataset) if (one.split or "none") == config.split]
    if not side:
        raise DataError(f"{dataset.name} has no query on the side {config.split}", hint="name another --split")
    sample = sorted(side, key=lambda one: sha256_of(one.query))[: config.limit or None]
    asked = tuple(sorted(sample, key=lambda one: one.query))
    files = pictures_of(dataset, asked)
    contents = contents_of(dataset, files)
    model = {"endpoint": place.url, "model": config.model, "side": config.side, "max_tokens": config.max_tokens}
    requests = tuple(
        Request(one, shift, identity(one, shift, contents, model), estimated_tokens(one, dataset, config.side))
        for one in asked
        for shift in shifts_of(config.shifts, len(one.images))
    )
    parent = parent_of(dataset, sha256_of_asked(asked, contents))
    return ListenJob(config, place, dataset, len(side), asked, files, requests, (parent,))


def heard_of(job: ListenJob, replies: Sequence[Reply]) -> dict[str, list[Reply]]:
    """Replies to the requests of a job by query, for queries of which every shift was answered."""
    known = {reply.asked: reply for reply in replies}
    found: dict[str, list[Reply]] = {one.query: [] for one in job.asked}
    lacking = set()
    for request in job.requests:
        if request.identity in known:
            found[request.asked.query].append(known[request.identity])
        else:
            lacking.add(request.asked.query)
    return {query: heard for query, heard in found.items() if query not in lacking}


def is_complete(job: ListenJob, replies: Sequence[Reply]) -> bool:
    """Whether every request of a job was answered."""
    return len(heard_of(job, replies)) == len(job.asked)
