"""Reading what others published: silent, one kind of error, and nothing left behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.utils import logging

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.sources import load_cross
from ctxr.models.entailment.albef import albef_source
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.published import careful
from ctxr.models.regions import DetectorRegions
from tests.models.cross.volta_layout import UNITER, make_checkpoint
from tests.models.entailment.albef_folder import make_albef


def test_what_is_made_with_care_leaves_the_generator_and_the_talk_of_transformers_as_they_were() -> None:
    level, state = logging.get_verbosity(), torch.random.get_rng_state()

    def make() -> int:
        torch.randn(3)
        return int(logging.get_verbosity())

    assert careful("encoder 'x'")(make)() == logging.CRITICAL
    assert logging.get_verbosity() == level
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_error_of_a_library_is_one_sentence_and_an_error_of_ours_stays_as_it_is() -> None:
    def fail(error: Exception) -> None:
        raise error

    for raised, told in ((KeyError("gone"), "'gone'"), (ValueError("cut\nshort"), "cut"), (OSError(), "OSError")):
        with pytest.raises(DataError, match=rf"^text branch 'x' cannot be loaded: {told}$"):
            careful("text branch 'x'")(fail)(raised)
    with pytest.raises(UsageError, match="no folder x"):
        careful("encoder 'x'")(fail)(UsageError("there is no folder x", hint="name another"))


class Harmful:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit(9)",)


def load_volta(folder: Path, file: Path) -> None:
    file.rename(make_checkpoint(folder / "volta", UNITER, {}) / "pytorch_model_9.bin")
    load_cross(f"volta:{folder / 'volta'}")


def load_albef(folder: Path, file: Path) -> None:
    file.rename(make_albef(folder / "albef", {}) / "ALBEF.pth")
    albef_source(f"albef:{folder / 'albef'}", ClassifierRecipe(image_size=0))


def load_detector(folder: Path, file: Path) -> None:
    DetectorRegions(file, 5, "cpu")


@pytest.mark.parametrize("load", [load_volta, load_albef, load_detector])
def test_a_file_that_holds_more_or_other_than_weights_is_refused_and_runs_nothing(
    tmp_path: Path, load: Callable[[Path, Path], None]
) -> None:
    file = tmp_path / "weights.pth"
    for content, message in (
        ({"a": torch.zeros(1), "extra": Harmful()}, "damaged, or a pickle"),
        (b"PK\x03\x04 cut off", "no plain file"),
        ([torch.zeros(1)], "no table of"),
    ):
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            torch.save(content, file)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with pytest.raises(DataError, match=message):
            load(folder, file)
