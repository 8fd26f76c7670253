"""Judges by the names under which the command line takes them."""

import re
from pathlib import Path
from typing import cast

import pytest

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.entailment.base import Judge
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.problems.entailment.judges import TOY_FOLDER, JudgeOptions, default_spec, open_judge, parse_spec
from ctxr.store.artifacts import Content, finish
from tests.models.blip_folder import make_blip
from tests.models.judges.nli_folder import make_nli


def opened(spec: str, workdir: Path) -> Judge:
    return open_judge(spec, JudgeOptions(workdir, "cpu"), Silent())


def trained(workdir: Path, name: str, *, whole: bool = True) -> Path:
    """A classifier of the project, with the weights of the toy."""
    seed = workdir / "classifiers" / name / "seed0"
    seed.mkdir(parents=True)
    for file in TOY_FOLDER.iterdir() if whole else ():
        (seed / file.name).write_bytes(file.read_bytes())
    files = sorted(f"seed0/{file.name}" for file in seed.iterdir())
    finish(seed.parent, kind="classifier", verb="train", config={}, parents=[], content=Content(files, {}, {}))
    return seed.parent


def test_a_name_has_a_kind_a_rest_and_perhaps_limits() -> None:
    assert parse_spec("toy") == ("toy", "", None)
    assert parse_spec("toy@0.2-0.95") == ("toy", "", (0.2, 0.95))
    assert parse_spec("itm:blip:a/b@.5-1") == ("itm", "blip:a/b", (0.5, 1.0))
    assert parse_spec("endpoint:http://me@host-1:80/v1") == ("endpoint", "http://me@host-1:80/v1", None)
    assert parse_spec("file:a@b-c.csv@0-0") == ("file", "a@b-c.csv", (0.0, 0.0))


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("nil:models/x", "nli.*nli:DIRECTORY"), ("nli", "^--judge nli:DIRECTORY"), ("nli:", "^--judge nli:DIRECTORY"),
        ("toy:x", "^--judge toy:"),
        ("", "classifier:NAME"), ("some-run", "classifier:NAME"), ("nli:x@0.9-0.1", "nli:x@0.1-0.9"),
        ("nli:x@0.5", "nli:x@0.1-0.9"), ("toy@0.5-1.5", "toy@0.1-0.9"), ("toy@foo", "toy@0.1-0.9"),
        ("nli@foo", "nli:DIRECTORY@0.1-0.9"),
    ],
)  # fmt: skip
def test_a_name_of_no_judge_is_refused_with_those_there_are(spec: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--judge {spec}")) as caught:
        parse_spec(spec)
    assert re.search(hint, caught.value.hint)


def test_each_kind_is_opened_by_its_name(tmp_path: Path) -> None:
    make_nli(tmp_path / "nli")
    make_blip(tmp_path / "blip")
    (tmp_path / "p.csv").write_text("image,caption,p\na,b,0.5\n", encoding="utf-8")
    trained(tmp_path, "own")
    specs = {
        f"nli:{tmp_path}/nli@0.1-0.9": "nli:nli", f"itm:blip:{tmp_path}/blip": "itm:blip", f"file:{tmp_path}/p.csv": "file:p.csv",
        "classifier:own": "own", f"classifier:{tmp_path}/classifiers/own": "own", "toy": "toy-judge",
        "endpoint:http://127.0.0.1:1/v1": "",
    }  # fmt: skip
    judges = {spec: opened(spec, tmp_path) for spec in specs}
    assert {spec: judge.name for spec, judge in judges.items()} == specs
    assert [spec for spec, judge in judges.items() if judge.toy] == ["toy"]
    assert {judge.family for judge in judges.values()} == {"", "blip", "ctxr-tiny"}


def test_what_a_judge_is_known_by_is_kept_whatever_its_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = JudgeOptions(tmp_path, "cpu", lazy=True)
    first = open_judge("itm:random:blip-tiny", options, Silent())
    monkeypatch.setattr("ctxr.problems.entailment.judges._opened", None)
    assert open_judge("itm:random:blip-tiny", options, Silent()).fingerprint == first.fingerprint


def test_the_only_classifier_judges_where_none_is_named_and_the_toy_where_there_is_none(tmp_path: Path) -> None:
    assert default_spec(tmp_path) == "toy"
    trained(tmp_path, "one", whole=False)
    assert default_spec(tmp_path) == "classifier:one"
    trained(tmp_path, "two", whole=False)
    with pytest.raises(UsageError, match="one, two") as caught:
        default_spec(tmp_path)
    assert "--judge classifier:one" in caught.value.hint


def test_a_classifier_that_is_not_there_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'one'") as caught:
        opened("classifier:one", tmp_path)
    assert "ctxr train" in caught.value.hint
    trained(tmp_path, "one", whole=False)
    with pytest.raises(UsageError, match="'oen'") as caught:
        opened("classifier:oen", tmp_path)
    assert re.search(r"mean one\?.* are one", caught.value.hint)
    (tmp_path / "classifiers" / "half").mkdir()
    with pytest.raises(UnfinishedError, match="half"):
        opened("classifier:half", tmp_path)


def test_a_folder_without_a_model_is_no_judge(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json"):
        opened(f"nli:{tmp_path}", tmp_path)


def test_endpoints_of_a_cascade_have_their_own_models_and_one_budget(tmp_path: Path) -> None:
    options = JudgeOptions(tmp_path, "cpu", JudgeEndpointOptions(model="dear", price_in=1.0, max_cost=1.0))
    cheap, dear = (
        open_judge(f"endpoint:http://localhost:1/v1{suffix}", options, Silent()) for suffix in ("#cheap", "")
    )
    assert (cheap.name, dear.name) == ("cheap", "dear")
    assert cheap.fingerprint != dear.fingerprint
    assert cast(EndpointJudge, cheap)._budget is cast(EndpointJudge, dear)._budget
