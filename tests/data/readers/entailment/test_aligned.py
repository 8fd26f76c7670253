"""Aligned sentences of Wikipedia and Simple Wikipedia, and CxC's graded similarities."""

from pathlib import Path

import pytest

from ctxr.data.readers.entailment import read_aligned, read_similarities
from ctxr.errors import DataError, UsageError


def write(folder: Path, normal: str, simple: str) -> Path:
    (folder / "normal.aligned").write_text(normal)
    (folder / "simple.aligned").write_text(simple)
    return folder


def test_every_aligned_pair_is_entailed_and_what_is_no_pair_is_left_out(tmp_path: Path) -> None:
    normal = "Cat\t0\tA cat , purring , sat .\nDog\t1\tA dog ran .\nX\t2\nCat\t0\tA cat , purring , sat .\n"
    simple = "Cat\t0\tA cat sat .\nFox\t1\tA dog ran .\nX\t2\ty\nCat\t3\tA cat sat .\n"
    found = read_aligned(write(tmp_path, normal, simple))
    assert [(pair.premise, pair.hypothesis, pair.label, pair.split) for pair in found.pairs] == [
        ("A cat , purring , sat .", "A cat sat .", 1, "train")
    ]
    assert [(one.where.rpartition(":")[2], one.code) for one in found.left_out] == [
        ("2", "columns"),
        ("3", "columns"),
        ("4", "repeated"),
    ]
    assert found.rows == 4


def test_aligned_files_of_different_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"simple\.aligned ends before line 2 of the other"):
        read_aligned(write(tmp_path, "a\t0\tb\nc\t0\td\n", "a\t0\tb\n"))
    (tmp_path / "simple.aligned").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        read_aligned(tmp_path)


@pytest.mark.parametrize(
    ("header", "kind", "ids"),
    [
        ("caption,image", "SITS", ("COCO_val2014:sentid:7", "COCO_val2014_000000000012.jpg")),
        ("image1,image2", "SIS", ("COCO_val2014_000000000007.jpg", "COCO_val2014_000000000012.jpg")),
        ("caption1,caption2", "STS", ("COCO_val2014:sentid:7", "COCO_val2014:sentid:12")),
    ],
)
def test_similarities_are_told_by_their_columns(header: str, kind: str, ids: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    good = f"{','.join(ids)},4.25,x"
    file.write_text(f"{header},agg_score,sampling_method\n{good}\nq,{ids[1]},1,x\n{','.join(ids)},nan,x\n")
    found = read_similarities(file)
    assert (found.kind, found.pairs) == (kind, (("coco/7", "coco/12", 4.25),))
    assert [(one.where.rpartition(":")[2], one.code) for one in found.oddities] == [("3", "image"), ("4", "score")]
    assert "'q' is no id of COCO" in found.oddities[0].what
    file.write_text(f"{header},agg_score\n")
    with pytest.raises(DataError, match="holds no rated pair"):
        read_similarities(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv:1: the header is none of CxC's"):
        read_similarities(file)
