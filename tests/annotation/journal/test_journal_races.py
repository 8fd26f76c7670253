"""Many processes at one journal, and the plug pulled in the middle: no unit too often, nobody twice, nothing lost."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.records import Answer
from scripts.postgres_server import programs, server
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.racing import PROTOCOL, SETS, UNITS
from tests.annotation.journal.study import decisions_of, units_of

ROOT = Path(__file__).resolve().parents[3]


def start(address: str, name: str, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.annotation.journal.racing", address, name, *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(lines: str) -> list[tuple[str, str, int, str]]:
    """What was acknowledged: unit, worker, slot, values; a line cut short by a kill was not told."""
    whole = [line for line in lines.split("\n")[:-1] if line.endswith("]")]
    return [(unit, worker, slot, json.dumps(values)) for unit, worker, slot, values in map(json.loads, whole)]


def kept(answers: list[Answer]) -> list[tuple[str, str, int, str]]:
    return [
        (one.unit, one.worker, one.slot, json.dumps({key: list(value) for key, value in one.values.items()}))
        for one in answers
    ]


def sound(journal: Journal) -> None:
    """What must hold of any journal, whatever happened to it."""
    units, answers = {unit.id: unit for unit in units_of(journal)}, journal.answers()
    votes = Counter(one.unit for one in answers)
    assert all(count <= units[name].most for name, count in votes.items())
    assert len({(one.unit, one.worker) for one in answers}) == len(answers)
    assert len({(one.unit, one.slot) for one in answers}) == len(answers)
    assert all(one.slot < units[one.unit].most for one in answers)
    assert not [one for one in answers if one.worker in units[one.unit].authors]
    described = [one for one in answers if units[one.unit].task == "describe"]
    assert sum(unit.task == "retrieve" for unit in units.values()) == len(SETS) + len(described)
    assert Counter(one.worker for one in answers) == Counter(
        {standing.worker: standing.answers for standing in journal.workers() if standing.answers}
    )
    told = journal.progress()
    assert sum(one.answered for one in told.values()) == len(answers)
    assert sum(one.open for one in told.values()) == len(units) - len(decisions_of(journal))


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)], indirect=True)
@pytest.mark.parametrize("count", [5, pytest.param(8, marks=pytest.mark.prove)])
def test_processes_race_and_every_unit_gets_its_votes_and_no_more(address: str, opener: Opener, count: int) -> None:
    processes = [start(address, f"p{number}") for number in range(count)]
    outputs = [process.communicate(timeout=100) for process in processes]
    assert [errors for _, errors in outputs] == [""] * count
    journal = opener(UNITS, SETS, PROTOCOL)
    acknowledged = [one for output, _ in outputs for one in told(output)]
    assert sorted(acknowledged) == sorted(kept(journal.answers()))
    sound(journal)
    assert all(one.open == 0 for one in journal.progress().values())
    tags = Counter(one.unit for one in journal.answers() if one.unit.startswith("tag"))
    assert set(tags.values()) == {6}


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)], indirect=True)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, 6))])
def test_a_killed_process_loses_nothing_that_it_acknowledged(address: str, opener: Opener, seed: int) -> None:
    rng, rounds = random.Random(seed), 2 if seed == 1 else 8
    acknowledged: list[tuple[str, str, int, str]] = []
    for number in range(rounds):
        process = start(address, f"k{number}", "60")
        assert process.stdout is not None
        heard = "".join(process.stdout.readline() for _ in range(rng.randint(3, 9)))
        time.sleep(rng.random() / 30)
        process.send_signal(signal.SIGKILL)
        rest, errors = process.communicate(timeout=60)
        assert errors == ""
        acknowledged += told(heard + rest)
        assert set(acknowledged) <= set(kept(opener(UNITS, SETS, PROTOCOL).answers()))
    journal = opener(UNITS, SETS, PROTOCOL)
    assert len(kept(journal.answers())) - len(acknowledged) <= rounds  # at most one was on its way
    sound(journal)


@pytest.mark.prove
def test_a_crashed_postgresql_loses_nothing_that_was_acknowledged() -> None:
    if programs() is None:
        pytest.skip("no PostgreSQL server on this machine: apt-get install postgresql (make system)")
    with server(durable=True) as running:
        address = running.new_database()
        process = start(address, "crash", "60")
        assert process.stdout is not None
        heard = "".join(process.stdout.readline() for _ in range(10))
        running.stop("immediate")
        rest, errors = process.communicate(timeout=60)
        assert "PostgreSQL at postgresql+pg8000://ctxr:***@127.0.0.1" in errors
        running.start()
        journal = open_journal(address, UNITS, SETS, PROTOCOL)
        assert set(told(heard + rest)) <= set(kept(journal.answers()))
        sound(journal)
        journal.close()
