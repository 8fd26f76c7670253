"""The simulated person of the proof of `ctxr search`, against a finder that needs so much of a query."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from ctxr.pipelines.finding.config import SearchAnswer, SearchQuery, SearchResult
from ctxr.pipelines.finding.finder import Finder
from ctxr.synthetic.narratives import write_narratives
from scripts.search_proof import attempt, redrawn


@dataclass
class Needing:
    """Finds a picture once so many words were typed, or so many with a stroke."""

    name: str
    words: int
    traced: int

    def find(self, asked: SearchQuery, count: int) -> SearchAnswer:
        enough = len(asked.words) >= (self.traced if asked.strokes else self.words)
        return SearchAnswer([SearchResult(0, "x", f"{self.name if enough else 'other'}.jpg", None, 1.0, None, 9, 9)])


@pytest.fixture(scope="module")
def narrative(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("drawn")
    write_narratives(folder, {"test": 1}, 1)
    row: dict[str, Any] = msgspec.json.decode((folder / "drawn_test_localized_narratives.jsonl").read_bytes())
    return row


@pytest.mark.parametrize(
    ("words", "traced", "found"), [(5, 2, (1, 1, 0, 1, 1)), (7, 4, (0, 0, 0, 1, 0)), (99, 3, (1, 1, 0, 0, 0))]
)
def test_keystrokes_count_until_the_picture_is_found_and_failures_cost_the_description(
    narrative: dict[str, Any], words: int, traced: int, found: tuple[int, ...]
) -> None:
    facts = attempt(cast("Finder", Needing(narrative["image_id"], words, traced)), narrative)
    assert tuple(facts[name] for name in facts if name.endswith(" found")) == found
    description = narrative["caption"].split()
    colours, shapes = zip(*(phrase.split()[1:] for phrase in narrative["caption"].split(" and ")), strict=True)
    whole, three = len(" ".join(description)), len(" ".join(colours))
    failed = 1 + whole
    typed = [
        three + failed * (traced > 3),
        len(" ".join(colours[:traced])) + failed * (traced > 3),
        three,
        len(" ".join(description[:words])),
        len(" ".join([*colours, *shapes][:words])),
    ]
    assert [facts[name] for name in facts if name.endswith(" keys")] == typed


def test_rows_of_alike_pictures_are_drawn_again_together() -> None:
    draws = redrawn(np.random.default_rng(0), np.array([4, 4, 7, 9, 9]), 200)
    assert (draws[:, 0] == draws[:, 1]).all()
    assert set(draws[:, [0, 2, 3]].sum(1)) == {3}
