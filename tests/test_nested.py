"""JSON and TOML nested 300,000 levels deep are damaged files, and an error names the file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxr.annotation.tasks.dialogue import FIELD, turns_of
from ctxr.cli.call import load_toml
from ctxr.datasets import rebuilding
from ctxr.datasets.rounds import FIGURES, read_figures
from ctxr.errors import DataError
from ctxr.models.encoders import check_encoder_name
from ctxr.models.entailment.text import POOLING, read_pooling
from ctxr.models.training.checkpoint import CONFIG, Checkpoint, read_config
from ctxr.pipelines.crowd.config import Serve
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Split
from ctxr.store.scores import read_scores
from ctxr.store.tables import UNREADABLE, read_appended, read_table
from ctxr.store.units import read_ranks, read_unit

DEEP = "[" * 300_000 + "]" * 300_000
UNKNOWN = f'{{"unknown": {DEEP}}}\n'


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("rows.jsonl", UNKNOWN, lambda folder: read_table(folder / "rows.jsonl", Split)),
        ("log.jsonl", UNKNOWN, lambda folder: read_appended(folder / "log.jsonl", Split)),
        ("scores.jsonl", UNKNOWN, lambda folder: read_scores(folder / "scores.jsonl")),
        ("manifest.json", UNKNOWN, open_artifact),
        ("sources/.0-of-2.rank", UNKNOWN, read_ranks),
        ("sources/a/source.json", UNKNOWN, lambda folder: read_unit(folder, "a")),
        ("recipe.json", UNKNOWN, rebuilding.read_rebuild_recipe),
        (FIGURES, UNKNOWN, read_figures),
        (CONFIG, UNKNOWN, lambda folder: read_config(folder, Checkpoint, "a scorer")),
        (POOLING, UNKNOWN, read_pooling),
        ("open_clip_config.json", UNKNOWN, lambda folder: check_encoder_name(f"local-dir:{folder}")),
        ("ctxr.toml", f"host = {DEEP}", lambda folder: load_toml(folder / "ctxr.toml", Serve)),
        ("own.toml", f"width = {DEEP}", lambda folder: load_recipe(str(folder / "own.toml"))),
    ],
)  # fmt: skip
def test_a_file_nested_300000_levels_deep_is_damaged_and_named(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], object]
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=Path(name).name) as caught:
        read(tmp_path)
    assert len(caught.value.message) < 500


def test_an_answer_nested_that_deep_cannot_be_read() -> None:
    with pytest.raises(UNREADABLE):
        turns_of({FIELD: (f'[{{"unknown": {DEEP}}}]',)})
