"""A rehearsed study: simulated workers at the real pages until nothing is left to do."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError
from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.synthetic.crowd import BIASED, CAREFUL, HASTY, SPAMMER, Cast, Person, SimulatedTruth, work_in_turns
from ctxr.synthetic.world.footage import World

CAST = ((CAREFUL, 10), (HASTY, 2), (BIASED, 2), (SPAMMER, 2))
"""How many workers of each kind come."""

ROUNDS = 1000
"""Draws of the simulation's own picks, among which its figures must lie."""

Range = tuple[float, float, float]


@dataclass(frozen=True)
class Rehearsed:
    """What the simulation knows of what it did.

    Attributes:
        answers: given. profiles: kind of each worker, by pseudonym.
        accuracy: share of right picks that the workers' chances lead one to expect, and (low, high).
        alpha: nominal alpha on image ids, by kind of set: the mean of draws from the same chances, and (low, high).
            In 95 % of draws all these figures lie between their low and high ends.
        clear: the set of each description, and whether it is true of its image and of no other.
    """

    answers: int
    profiles: Mapping[str, str]
    accuracy: Range
    alpha: Mapping[str, Range]
    clear: Mapping[str, tuple[str, bool]]


def rehearse(workdir: Path, sets: Path, world: "World", seed: int, progress: Progress) -> Rehearsed:
    """Let a cast of workers do all the exported tasks of a project over HTTP.

    Raises CtxrError when the server cannot be started.
    """
    rng = np.random.default_rng(seed)
    truth = SimulatedTruth(world, read_artifact(sets))
    cast = [profile for profile, count in CAST for _ in range(count)]
    with served(workdir, len(cast)) as opened:
        people = [
            Person(name, profile, link, truth, np.random.default_rng(rng.integers(1 << 62)))
            for (name, link), profile in zip(opened["links"].items(), cast, strict=True)
        ]
        waiting = sum(opened["waiting"].values())
        with progress.task("answers", None) as task:
            task.say(f"{len(people)} workers, {waiting} units to describe")
            answers = work_in_turns(people, task.advance)
        for person in people:
            person.leave()
    key = read_key(workdir / CROWD / PRIVATE)
    profiles = {pseudonym(key, "local", f"team/{person.name}"): person.profile.name for person in people}
    return Rehearsed(answers, profiles, *expected(truth, rng), _clear(truth))


@contextmanager
def served(workdir: Path, invite: int) -> Iterator[dict[str, Any]]:
    """`ctxr serve` as a process of its own, for the length of a with-block; what it says when it listens.

    Raises CtxrError with its own words when it ends before that.
    """
    command = [sys.executable, "-m", "ctxr", "serve", "--workdir", str(workdir), "--port", "0"]
    command += ["--invite", str(invite), "--rate", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _first_document(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def _first_document(process: "subprocess.Popen[str]") -> dict[str, Any]:
    output = ""
    assert process.stdout is not None  # noqa: S101 - asked for
    for line in process.stdout:
        output += line
        if line.rstrip() == "}":
            document: dict[str, Any] = json.loads(output)
            if "links" in document:
                return document
            break
    _, error = process.communicate()
    raise CtxrError(f"ctxr serve did not start: {(output + error).strip()[-500:]}", hint="ctxr serve   (says more)")


def expected(truth: SimulatedTruth, rng: np.random.Generator) -> tuple[Range, dict[str, Range]]:
    """Accuracy, and alpha by kind of set, of as many votes, drawn again and again from the chances that the workers had.

    The votes on a description must not depend on each other: where voting stops with the second right one, alpha is higher.
    """
    kinds = {image: image_set.kind for image_set in truth.dataset.sets for image in image_set.images}
    hits = np.zeros(ROUNDS)
    alphas: dict[str, list[float]] = {}
    by_kind: dict[str, list[Cast]] = {}
    for cast in truth.casts:
        by_kind.setdefault(kinds[cast.target], []).append(cast)
    for kind, casts in by_kind.items():
        texts, workers = [cast.text for cast in casts], [cast.worker for cast in casts]
        picks = np.array([rng.choice(list(cast.spread), ROUNDS, p=list(cast.spread.values())) for cast in casts])
        hits += (picks == np.array([[cast.target] for cast in casts])).sum(axis=0)
        values = [alpha(gather(texts, workers, drawn.tolist())).value for drawn in picks.T]
        alphas[kind] = [value for value in values if value is not None]
    tail = 0.025 / (1 + len(alphas))
    accuracy = _range((hits / max(1, len(truth.casts))).tolist(), tail)
    return accuracy, {kind: _range(values, tail) for kind, values in sorted(alphas.items()) if values}


def _range(values: list[float], tail: float) -> Range:
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(np.mean(values)), float(low), float(high)


def _clear(truth: SimulatedTruth) -> dict[str, tuple[str, bool]]:
    sets = {image: image_set.id for image_set in truth.dataset.sets for image in image_set.images}
    clear = {}
    for text in dict.fromkeys(cast.text for cast in truth.casts):
        target = truth.targets[text]
        others = [verdict for image, verdict in truth.verdicts[text].items() if image != target]
        clear[text] = sets[target], truth.verdicts[text][target] is True and others == [False] * len(others)
    return clear
