"""Reading what others published: silent, one kind of error, and nothing left behind."""

import pytest
import torch
from transformers.utils import logging

from ctxr.errors import DataError, UsageError
from ctxr.models.published import careful


def test_what_is_made_with_care_leaves_the_generator_and_the_talk_of_transformers_as_they_were() -> None:
    level, state = logging.get_verbosity(), torch.random.get_rng_state()

    def make() -> int:
        torch.randn(3)
        return int(logging.get_verbosity())

    assert careful("encoder 'x'", make)() == logging.CRITICAL
    assert logging.get_verbosity() == level
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("raised", "told"), [(KeyError("gone"), "'gone'"), (ValueError("cut\nshort"), "cut"), (OSError(), "OSError")]
)
def test_whatever_a_maker_comes_up_with_is_one_sentence(raised: Exception, told: str) -> None:
    def make() -> None:
        raise raised

    with pytest.raises(DataError, match=rf"^text branch 'x' cannot be loaded: {told}$"):
        careful("text branch 'x'", make)()


def test_an_error_that_says_more_stays_as_it_is() -> None:
    def make() -> None:
        raise UsageError("there is no folder x", hint="name another")

    with pytest.raises(UsageError, match="there is no folder x"):
        careful("encoder 'x'", make)()
