"""CxC's graded similarities."""

from pathlib import Path

import pytest

from ctxr.datasets.readers.relevance import read_similarities
from ctxr.errors import DataError


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
    assert "'q'" in found.oddities[0].what
    file.write_text(f"{header},agg_score\n")
    with pytest.raises(DataError, match="no rated pair"):
        read_similarities(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv:1: .*header"):
        read_similarities(file)
