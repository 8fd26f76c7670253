"""A simulated worker: what they answer is theirs to say."""

import numpy as np
import pytest

from ctxr.synthetic.crowd.visitor import Person, SimulatedJudge, Visitor


def test_nobody_visits_without_knowing_what_to_answer() -> None:
    with pytest.raises(TypeError, match=r"abstract method '?answer"):
        Visitor("ada", "http://localhost/i/x", {}, np.random.default_rng(0))  # type: ignore[abstract]
    assert not Person.__abstractmethods__ | SimulatedJudge.__abstractmethods__
