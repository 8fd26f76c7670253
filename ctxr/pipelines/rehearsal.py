"""A rehearsal of a study: the project's own server, and simulated workers at its real pages until nothing is left to do."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import CtxrError
from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.annotation.simulation.profiles import Profile
    from ctxr.data.world import World

CAST = (("careful", 10), ("hasty", 2), ("position-biased", 2), ("spammer", 2))
"""How many workers of each kind come."""

ROUNDS = 200
"""Draws of the simulation's own picks, among which alpha must lie."""


@dataclass(frozen=True)
class Rehearsed:
    """What the simulation knows of what it did.

    Attributes:
        answers: given. profiles: kind of each worker, by pseudonym.
        accuracy: share of right picks that the workers' chances lead one to expect, and (low, high) of 95 % of draws.
        alpha: nominal alpha on image ids, by kind of set: the mean of draws from the same chances, and (low, high).
    """

    answers: int
    profiles: Mapping[str, str]
    accuracy: tuple[float, float, float]
    alpha: Mapping[str, tuple[float, float, float]]


def rehearse(workdir: Path, sets: Path, world: "World", seed: int, talk: Talk) -> Rehearsed:
    """Let a cast of workers do all the exported tasks of a project over HTTP.

    Raises CtxrError when the server cannot be started.
    """
    import numpy as np

    from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
    from ctxr.annotation.simulation.crowd import Person, SimulatedTruth
    from ctxr.annotation.simulation.profiles import PROFILES
    from ctxr.annotation.simulation.sayings import Scenes
    from ctxr.annotation.simulation.visitor import known_pictures, work_in_turns
    from ctxr.data.readers.artifact import read_artifact
    from ctxr.pipelines.tasks_artifact import CROWD

    rng = np.random.default_rng(seed)
    dataset = read_artifact(sets)
    known = SimulatedTruth(Scenes(world, dataset), dataset, known_pictures(dataset))
    named: dict[str, Profile] = {profile.name: profile for profile in PROFILES}
    cast = [named[kind] for kind, count in CAST for _ in range(count)]
    with served(workdir, len(cast)) as opened:
        people = [
            Person(name, profile, link, known, np.random.default_rng(rng.integers(1 << 62)))
            for (name, link), profile in zip(opened["links"].items(), cast, strict=True)
        ]
        expected = sum(opened["waiting"].values())
        with talk.progress("answers", None) as task:
            task.say(f"{len(people)} workers, {expected} units to describe")
            answers = work_in_turns(people, task.advance)
        for person in people:
            person.leave()
    key = read_key(workdir / CROWD / PRIVATE)
    profiles = {pseudonym(key, "local", f"team/{person.name}"): person.profile.name for person in people}
    accuracy, alpha = _drawn(known, rng)
    return Rehearsed(answers, profiles, accuracy, alpha)


@contextmanager
def served(workdir: Path, invite: int) -> Iterator[dict[str, Any]]:
    """`ctxr serve` as a process of its own, for the length of a with-block; what it says when it listens.

    Raises CtxrError with its own words when it ends before that.
    """
    command = [sys.executable, "-m", "ctxr", "serve", "--workdir", str(workdir), "--port", "0"]
    command += ["--invite", str(invite), "--rate", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for
            yield _first_document(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def _first_document(process: "subprocess.Popen[str]") -> dict[str, Any]:
    said = ""
    assert process.stdout is not None  # noqa: S101 - asked for
    for line in process.stdout:
        said += line
        if line.rstrip() == "}":
            document: dict[str, Any] = json.loads(said)
            if "links" in document:
                return document
            break
    _, error = process.communicate()
    raise CtxrError(f"ctxr serve did not start: {(said + error).strip()[-500:]}", hint="ctxr serve   (says more)")


def _drawn(known: Any, rng: Any) -> tuple[tuple[float, float, float], dict[str, tuple[float, float, float]]]:
    """Accuracy and alpha of as many votes, drawn again and again from the chances that the workers had."""
    import numpy as np

    from ctxr.metrics.agreement import alpha
    from ctxr.metrics.votes import gather

    kinds = {image: one.kind for one in known.dataset.sets for image in one.images}
    shares: list[float] = []
    alphas: dict[str, list[float]] = {}
    casts: Sequence[Any] = known.casts
    by_kind: dict[str, list[Any]] = {}
    for cast in casts:
        by_kind.setdefault(kinds[cast.target], []).append(cast)
    for _ in range(ROUNDS):
        right: Counter[bool] = Counter()
        for kind, some in by_kind.items():
            picks = [str(rng.choice(list(cast.spread), p=list(cast.spread.values()))) for cast in some]
            right.update(pick == cast.target for pick, cast in zip(picks, some, strict=True))
            found = alpha(gather([cast.text for cast in some], [cast.worker for cast in some], picks))
            if found.value is not None:
                alphas.setdefault(kind, []).append(found.value)
        shares.append(right[True] / max(1, right.total()))

    def middle(values: list[float]) -> tuple[float, float, float]:
        low, high = np.quantile(values, [0.025, 0.975])
        return float(np.mean(values)), float(low), float(high)

    return middle(shares), {kind: middle(values) for kind, values in sorted(alphas.items())}
