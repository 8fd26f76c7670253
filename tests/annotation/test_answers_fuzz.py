"""Files of every platform, spoilt at random: each is taken in part or refused as a whole, and never half of either."""

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxr.annotation.answers import run
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.config import ImportAnswers
from ctxr.errors import CtxrError
from tests.annotation.platforms import study

BACKENDS = ("label-studio", "prolific")

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 5, 1e300, 10**30, "", "\0", "\u202e=1+1", "x" * 5000, "[" * 3000, "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+12:00", "<a>&b;</a>", "../../etc/passwd", [], [[]], {}, {"id": {}}, [None], "Thu Dec 31 23:59:59 PST 9999",
)  # fmt: skip
"""What may stand where something else is expected."""


class Delivered:
    """A file of a platform, and how it was imported while it was whole."""

    def __init__(self, config: ImportAnswers, file: Path) -> None:
        self.whole = file.read_bytes()
        self.config = replace(config, file=file)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON document: its container, and the key in it."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from places(node[key])


def spoilt_json(text: str, chance: random.Random) -> str:
    """One to three places hold something else, are gone, or are there twice."""
    document = json.loads(text)
    for _ in range(chance.randint(1, 3)):
        if not (found := list(places(document))):
            break
        node, key = chance.choice(found)
        how = chance.randrange(4)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, list):
            node.append(node[key])
        elif how == 2 and isinstance(node[key], str) and node[key]:
            cut = chance.randrange(len(node[key]))
            node[key] = node[key][:cut] + chance.choice(["", "<", "&", '"', "\u0001", "é"]) + node[key][cut + 1 :]
        else:
            node[key] = chance.choice(ODD)
    return json.dumps(document)


def spoilt_bytes(whole: bytes, chance: random.Random) -> bytes:
    """Cut short, or with a few bytes changed."""
    if chance.random() < 0.4:
        return whole[: chance.randrange(len(whole))]
    content = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        content[chance.randrange(len(content))] = chance.choice(b'\x00\xff"{}[],:<&\n0')
    return bytes(content)


def spoilt(whole: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return spoilt_bytes(whole, chance)
    text = whole.decode()
    return spoilt_json(text, chance).encode(errors="surrogatepass")


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Delivered]]:
    """Two tasks of one project, done by the same people on every platform."""
    with pytest.MonkeyPatch.context() as patch:
        workdir = study.make_project(tmp_path_factory.mktemp("fuzz"), patch)
        made = {}
        for task in ("tag", "retrieve"):
            done = study.work_locally(workdir, task)
            for backend in BACKENDS:
                config = study.deliver(workdir, task, backend, done)
                run(config)
                file = config.file
                assert file is not None
                kept = file.with_name(f"{backend}-{task}{file.suffix}")
                kept.write_bytes(file.read_bytes())
                made[f"{backend} {task}"] = Delivered(config, kept)
        yield made


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("task", ["tag", pytest.param("retrieve", marks=pytest.mark.prove)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_spoilt_file_is_taken_in_part_or_refused_as_a_whole(
    backend: str, task: str, delivered: dict[str, Delivered], seed: int
) -> None:
    one = delivered[f"{backend} {task}"]
    assert one.config.file is not None
    one.config.file.write_bytes(spoilt(one.whole, random.Random(seed)))
    before = study.files_of(one.config.folder())
    config = replace(one.config, out=one.config.folder().with_name("spoilt"))
    shutil.rmtree(config.folder(), ignore_errors=True)
    shutil.copytree(one.config.folder(), config.folder())
    refused = ""
    try:
        run(config)
    except CtxrError as error:
        refused = error.message
    if refused:
        assert "\n" not in refused
        assert study.files_of(config.folder()) == before
    else:
        answers = read_judgments(config.folder()).answers
        assert len(answers) >= len(read_judgments(one.config.folder()).answers)
        assert run(config).up_to_date
