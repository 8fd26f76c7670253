"""Names and defaults that hashes contain stay as they are: an artifact that was written before is still that of its options."""

import json
from typing import Any

import pytest

from scripts.frozen_keys import TARGET, frozen

FROZEN: dict[str, dict[str, Any]] = json.loads(TARGET.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def now() -> dict[str, dict[str, Any]]:
    return frozen()


def test_every_command_and_every_recipe_is_frozen(now: dict[str, dict[str, Any]]) -> None:
    assert list(now) == list(FROZEN)


@pytest.mark.parametrize("row", FROZEN)
def test_no_key_or_default_changes_unnoticed(row: str, now: dict[str, dict[str, Any]]) -> None:
    assert list(now[row].items()) == list(FROZEN[row].items())
