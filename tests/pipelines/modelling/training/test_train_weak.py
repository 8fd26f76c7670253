"""`ctxr train` on image sets with weak positives: from a table of judgments to a run that names them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.cli.app import app
from ctxr.datasets.changes import contents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.truth import read_verdicts
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.models.encoders import load_encoder
from ctxr.models.families import find_encoder
from ctxr.problems.embeddings import PictureFiles, Runtime, as_features, as_vectors
from ctxr.problems.queries import EvalQuery, pictures_of, queries_of
from ctxr.problems.verdicts import verdicts_in, with_weak_positives
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Judgment
from ctxr.store.tables import write_table
from tests.pipelines.galleries import write_round
from tests.pipelines.modelling.training.conftest import SMALL, Trains
from tests.pipelines.modelling.training.test_train import Note


def side(benchmark: Path, name: str) -> list[EvalQuery]:
    return [one for one in queries_of(read_dataset(benchmark)) if one.split == name]


def others(one: EvalQuery) -> list[str]:
    """Images of a query's set beside its target."""
    assert one.target is not None
    return [image for place, image in enumerate(one.images) if place != one.target]


@pytest.fixture
def table(benchmark: Path, tmp_path: Path) -> Path:
    """Two images of their set for five training queries; beside them pairs that count nowhere, or in one variant alone."""
    train, test = side(benchmark, "train"), side(benchmark, "test")
    yes = [(one.query, image) for one in train[:5] for image in others(one)[2:4]]
    target = train[0].images[train[0].target or 0]
    yes += [(train[0].query, target), (test[0].query, others(test[0])[0]), (train[6].query, test[0].images[0])]
    far = next(image for one in train for image in one.images if image not in train[7].images)
    return write_round(
        tmp_path / "judgments.jsonl", [*yes, (train[7].query, far)], [(train[8].query, others(train[8])[0])]
    )


def test_the_command_line_trains_on_a_table_and_the_run_names_it(
    benchmark: Path, encoder: str, table: Path, tmp_path: Path
) -> None:
    def called(*more: str) -> str:
        changes = [f"--set={change}" for change in (f"encoder={encoder}", *SMALL, "epochs=1")]
        fixed = ["train", "--recipe", "clip-batch", "--dataset", str(benchmark), "--workdir", str(tmp_path / "work")]
        result = CliRunner().invoke(app, [*fixed, *changes, *more])
        assert result.exit_code == 0, result.output
        return result.output

    weak = ("--set=weak=extra-batch", "--judgments", str(table), "--name", "weak")
    shown = called(*weak)
    assert "10 weak positives of 5 of 12 queries" in shown
    assert "accuracy, %" in shown
    called("--name", "plain")
    runs = {name: tmp_path / "work" / "runs" / name for name in ("weak", "plain")}
    parents = {name: [one.name for one in open_artifact(run).manifest.parents] for name, run in runs.items()}
    assert parents == {"weak": ["dataset", "judgments.jsonl", "one"], "plain": ["dataset", "one"]}
    kept = {name: (run / "seed0" / "encoder.safetensors").read_bytes() for name, run in runs.items()}
    assert kept["weak"] != kept["plain"]

    written = (runs["weak"] / "manifest.json").stat().st_mtime_ns
    assert '"up_to_date": true' in called(*weak, "--json")
    assert (runs["weak"] / "manifest.json").stat().st_mtime_ns == written
    write_round(table, [(one.query, others(one)[0]) for one in side(benchmark, "train")[:3]])
    assert "3 weak positives of 3 of 12 queries" in called(*weak)
    assert (runs["weak"] / "seed0" / "encoder.safetensors").read_bytes() != kept["weak"]


@pytest.mark.parametrize(
    ("recipe", "changes", "told"),
    [
        ("clip-none", ("weak=extra-batch", "shared_distractors=true"), "11 weak positives of 6 of 12"),
        pytest.param("clip-temporal", ("weak=mask-only",), "10 weak positives of 5 of 12", marks=pytest.mark.prove),
        pytest.param(
            "blip-module",
            ("weak=soft-label", "loss=binary", "encoder=random:blip-tiny"),
            "10 weak positives of 5 of 12",
            marks=pytest.mark.prove,
        ),
        pytest.param(
            "blip-batch",
            ("weak=loss-weight", "encoder=random:blip-tiny"),
            "10 weak positives of 5 of 12",
            marks=pytest.mark.prove,
        ),
    ],
)
def test_every_variant_learns_another_model_from_them(
    train: Trains, table: Path, recipe: str, changes: tuple[str, ...], told: str
) -> None:
    progress = Note()
    weak = train(recipe, "epochs=1", *changes, judgments=table, name="weak", progress=progress)
    assert any(text.startswith(told) for text in progress.said)
    off = train(recipe, "epochs=1", *changes, "weak=off", name="off")
    files = [next(run.folder.glob("seed0/*.safetensors")) for run in (weak, off)]
    assert files[0].name == files[1].name
    assert files[0].read_bytes() != files[1].read_bytes()


def test_weak_positives_are_those_of_the_set_and_without_context_those_of_all_sets(
    benchmark: Path, table: Path
) -> None:
    dataset, asked = read_dataset(benchmark), side(benchmark, "train")
    inside = {one.query: tuple(sorted(others(one)[2:4])) for one in asked[:5]}

    def found(anywhere: bool) -> dict[str, tuple[str, ...]]:
        verdicts = verdicts_in(dataset, table, benchmark.parent)
        marked = with_weak_positives(asked, dataset, anywhere, verdicts, Silent())
        assert [one.query for one in marked] == [one.query for one in asked]
        return {one.query: one.weak for one in marked if one.weak}

    assert found(anywhere=False) == inside
    everywhere = found(anywhere=True)
    assert everywhere.keys() == {*inside, asked[7].query}
    assert all(everywhere[query] == images for query, images in inside.items())


@pytest.mark.parametrize("pairs", [False, True])
def test_arrays_mark_the_images_that_were_named(
    benchmark: Path, encoder: str, table: Path, tmp_path: Path, pairs: bool
) -> None:
    dataset = read_dataset(benchmark)
    verdicts = verdicts_in(dataset, table, tmp_path)
    asked = with_weak_positives(side(benchmark, "train"), dataset, False, verdicts, Silent())[::-1]
    files = pictures_of(dataset, asked)
    pictures = PictureFiles(files, contents_of(dataset, files), tmp_path / "other")
    if pairs:
        source = find_encoder("random:blip-tiny", Silent().warn)
        questions = as_features(asked, pictures, source, Runtime("cpu", "fp32", Silent()))  # type: ignore[arg-type]
    else:
        questions = as_vectors(asked, pictures, load_encoder(encoder, "cpu"), Silent())
    marks = questions.marks(questions.entailed, torch.arange(len(asked)))
    assert marks is not None
    for one, row in zip(asked, marks.tolist(), strict=True):
        assert {image for image, marked in zip(one.images, row, strict=True) if marked} == {*one.weak}
    assert int(marks.sum()) == 10


@pytest.mark.parametrize(
    ("recipe", "changes", "rows", "error", "message"),
    [
        ("clip-batch", ("weak=extra-batch",), None, DataError, "the train split"),
        ("clip-batch", ("weak=mask-only",), "far", DataError, "the train split"),
        ("clip-module", (), "far", UsageError, "weak = off"),
        ("clip-zero-shot", ("weak=mask-only",), None, UsageError, "the variant 'zero-shot'"),
        ("clip-none", ("weak=mask-only",), "lost", UsageError, "does not exist"),
    ],
)
def test_what_means_nothing_is_one_sentence_before_anything_is_embedded(
    train: Trains, benchmark: Path, tmp_path: Path, recipe: str, changes: tuple[str, ...], rows: str | None,
    error: type[Exception], message: str,
) -> None:  # fmt: skip
    asked = side(benchmark, "train")
    far = next(image for one in asked for image in one.images if image not in asked[0].images)
    tables: dict[str | None, Callable[[], Path | None]] = {
        None: lambda: None,
        "far": lambda: write_round(tmp_path / "far.jsonl", [(asked[0].query, far)]),
        "lost": lambda: tmp_path / "nowhere",
    }
    with pytest.raises(error, match=message):
        train(recipe, *changes, judgments=tables[rows]())
    assert {file.name for file in (tmp_path / "work").glob("runs/*/*")} <= {".ctxr"}


def test_unsure_images_are_neither_positives_nor_negatives_of_what_is_trained(
    benchmark: Path, train: Trains, tmp_path: Path
) -> None:
    asked, dataset = side(benchmark, "train"), read_dataset(benchmark)
    pairs = [(one.query, others(one)[0]) for one in asked[:6]]
    table = write_round(tmp_path / "doubts.jsonl", [], unsure=pairs)
    verdicts = verdicts_in(dataset, table, tmp_path)
    marked = with_weak_positives(asked, dataset, False, verdicts, Silent())
    assert {(one.query, image) for one in marked for image in one.unsure} == {*pairs}
    assert not any(one.weak for one in marked)
    dropped = train("clip-batch", "epochs=1", "weak=mask-only", judgments=table, name="dropped")
    off = train("clip-batch", "epochs=1", name="off")
    assert len({next(run.folder.glob("seed0/*.safetensors")).read_bytes() for run in (dropped, off)}) == 2


def test_what_people_say_of_an_unsure_pair_counts(benchmark: Path, tmp_path: Path) -> None:
    yes, no, tied, open_pair = [(one.query, others(one)[0]) for one in side(benchmark, "train")[:4]]
    votes = [(yes, 1.0, "ann"), (no, 0.0, "ann"), (tied, 1.0, "ann"), (tied, 0.0, "bob")]
    answers = [Judgment(f"entail/{image}/{query}", ENTAILMENT, who, value) for (query, image), value, who in votes]
    table = write_round(tmp_path / "judgments.jsonl", [], unsure=[yes, no, tied, open_pair])
    write_table(table, [*read_verdicts(table), *answers, Judgment(*open_pair, "ann", 1.0)])
    verdicts = verdicts_in(read_dataset(benchmark), table, tmp_path)
    assert verdicts.entailed == {yes: True, no: False}
    assert verdicts.unsure == {tied, open_pair}
