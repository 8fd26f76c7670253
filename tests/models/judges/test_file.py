"""Files of probabilities that were computed elsewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

from ctxr.errors import DataError, UsageError
from ctxr.models.entailment.base import Claim
from ctxr.models.judges.file import FileJudge

JSONL = '{"image": "a/1", "caption": "q1", "p": 0.25}\n\n{"image": "a/1", "caption": "q2", "p": 1, "note": "x"}\n'
CSV = '\ufeffcaption,image,p\nq1,a/1,0.25\nq2,"a/1",1\nq1,a/1,0.250\n'


@pytest.mark.parametrize(("name", "text"), [("p.jsonl", JSONL), ("p.csv", CSV)])
def test_each_pair_has_the_probability_of_its_row(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    judge = FileJudge(tmp_path / name)
    pairs = [("a/1", "q2"), ("a/1", "q1"), ("a/2", "q1"), None]
    claims = [Claim("", None, "any", pair) for pair in pairs]
    np.testing.assert_array_equal(judge.probabilities(claims), [1, 0.25, np.nan, np.nan])
    assert (judge.name, judge.threshold, judge.trained_on) == (f"file:{name}", 0.5, None)


WRONG = {
    "image,caption,p\nq,a,1.5\n": r":2: p .*1.*'1\.5'",
    "image,caption,p\nq,a,-0.1\n": ":2",
    "image,caption,p\nq,a,nan\n": ":2",
    "image,caption,p\nq,a,inf\n": ":2",
    "image,caption,p\nq,a,high\n": ":2: p .*'high'",
    "image,caption,p\nq,a,\n": ":2",
    "image,caption,p\nq,a\n": ":2",
    "image,caption\nq,a\n": ":2.*'image', 'caption':",
    "q,a,0.5\nq,b,0.5\n": ":2.*'q', 'a', '0.5':",
    "image,caption,p\nq,a,0.5\nq,b,0.5\nq,a,0.75\n": ":4: p of q and a is 0.75, and 0.5",
    "image,caption,p\n": "no row",
    "": "empty",
    '{"image": "q", "caption": "a", "p": 0.5}\n{"image": "q", "caption"\n': ":2",
    '{"image": "q", "caption": "a", "p": NaN}\n': ":1",
    '{"image": "q", "caption": "a"}\n': ":1.*'image', 'caption':",
    '{"image": "q", "caption": "a", "p": [1]}\n': ":1",
    "\x89PNG\r\n\x1a\n\x00\x00": "file",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_row_that_is_none_is_named_by_its_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=WRONG[text]) as caught:
        FileJudge(file).check()
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_rows_and_candidates_that_miss_each_other_are_counted_and_a_file_of_no_candidate_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "p.csv"
    file.write_text("image,caption,p\nq,a,0.5\nq,b,0.5\n", encoding="utf-8")
    judge = FileJudge(file)
    assert judge.gaps([("q", "a"), ("q", "b")]) == judge.gaps([]) == ""
    assert re.findall(r"\d+", judge.gaps([("q", "a"), ("q", "c"), ("q", "d"), ("q", "c")])) == ["2", "3", "1", "2"]
    with pytest.raises(DataError, match=r"none of the 2 .*\(q, a\).*\(x, a\)") as caught:
        judge.gaps([("x", "a"), ("y", "b")])
    assert "ledger.jsonl" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["none.csv", "."])
def test_a_file_that_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        FileJudge(tmp_path / name)
