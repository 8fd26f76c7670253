"""Sites for one test each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.annotation.web.crowd import Crowd, crowd

MakeCrowd = Callable[..., Crowd]


@pytest.fixture
def make_crowd(tmp_path: Path) -> Iterator[MakeCrowd]:
    """Makes sites whose files are closed at the end."""
    made: list[Crowd] = []

    def make(*units: Any, **settings: Any) -> Crowd:
        made.append(crowd(tmp_path / str(len(made)), units or None, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
