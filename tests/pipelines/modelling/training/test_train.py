"""`ctxr train`: a run that says how it came about, goes on where it was stopped, and can be scored with again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.models import hub
from ctxr.models.encoders import Encoder
from ctxr.models.training.checkpoint import load_head
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import load_recipe, run
from ctxr.problems.queries import queries_of
from ctxr.problems.scorers import start_command
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.paths import portable
from ctxr.store.records import Judgment, Score
from ctxr.store.tables import read_table, write_table
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from tests.models.blip_folder import make_blip
from tests.models.encoder_folder import make_folder
from tests.models.lite_wheels import make_weights
from tests.pipelines.modelling.training.conftest import SMALL_HEAD, Trains
from tests.problems.scores import scores_of


class Note(Silent):
    """Remembers what it is told; raises `KeyboardInterrupt` when it hears `stop`."""

    def __init__(self, stop: str = "\0") -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self._stop = stop

    def note(self, text: str) -> None:
        self.said.append(text)
        if self._stop in text:
            raise KeyboardInterrupt

    def warn(self, text: str) -> None:
        self.warned.append(text)


def test_a_head_with_positions_in_its_highway_is_another_run_and_is_loaded_as_one(train: Trains) -> None:
    folder = train("clip-temporal", "epochs=1").folder
    assert not open_artifact(folder).manifest.config["highway_positions"]
    folder = train("clip-temporal", "epochs=1", "highway_positions=true").folder
    assert open_artifact(folder).manifest.config["highway_positions"]
    head = load_head(folder / "seed0").head
    assert head is not None
    assert head.highway_positions


@pytest.mark.parametrize(("few", "warned"), [(50, True), (7, True), (6, False)])
def test_figures_of_few_queries_are_warned_of(
    train: Trains, monkeypatch: pytest.MonkeyPatch, few: int, warned: bool
) -> None:
    monkeypatch.setattr("ctxr.pipelines.modelling.train.FEW", few)
    progress = Note()
    train("clip-zero-shot", progress=progress)
    assert any(f"fewer than {few} queries (valid 6, test 6)" in text for text in progress.warned) == warned


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"blip:{make_blip(tmp_path_factory.mktemp('blip') / 'one')}"


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("clip-zero-shot", set()),
        pytest.param("clip-none", {"encoder.safetensors"}, marks=pytest.mark.prove),
        ("clip-batch", {"encoder.safetensors"}),
        pytest.param("clip-module", {"head.safetensors"}, marks=pytest.mark.prove),
        ("clip-temporal", {"head.safetensors"}),
        pytest.param("blip-zero-shot", set(), marks=pytest.mark.prove),
        pytest.param("blip-batch", {"encoder.safetensors"}, marks=pytest.mark.prove),
        ("blip-module", {"head.safetensors"}),
        pytest.param("blip-temporal", {"head.safetensors"}, marks=pytest.mark.prove),
    ],
)
def test_a_run_holds_scores_of_every_candidate_and_scores_again_to_the_same_bits(
    train: Trains, benchmark: Path, encoder: str, blip: str, recipe: str, parts: set[str], tmp_path: Path
) -> None:
    name = blip if recipe.startswith("blip") else encoder
    changes = (f"encoder={name}", *(("epochs=0",) if recipe == "blip-zero-shot" else ()))
    report = train(recipe, *changes)
    folder = tmp_path / "work" / "runs" / recipe
    assert (report.folder, report.up_to_date) == (folder, False)
    dataset = read_dataset(benchmark)
    rows = read_table(folder / "scores.jsonl", Score)
    asked = {query.id: one for query, one, _ in dataset.targets() if dataset.split_of(one) != "train"}
    assert {row.key()[:2] for row in rows} == {(query, image) for query, one in asked.items() for image in one.images}
    assert {row.scorer for row in rows} == {recipe}
    again = scores_of(folder, dataset, list(asked), tmp_path / "elsewhere")
    assert sorted(again, key=Score.key) == rows
    manifest = open_artifact(folder, "run").manifest
    assert manifest.parents[0].sha256 == open_artifact(benchmark).sha256
    assert manifest.counts["valid"] == report.valid == report.seeds[0].valid
    made_by = manifest.models["encoder"]
    assert (made_by["name"], made_by["dim"]) == (portable(name, tmp_path / "work"), 32)
    assert {file.name for file in (folder / "seed0").iterdir()} == {"config.json", *parts}
    assert not (folder / "making").exists()


def test_several_seeds_are_one_run_with_their_mean_and_a_further_seed_keeps_those_there_are(train: Trains) -> None:
    progress = Note()
    report = train("clip-module", seeds=2, progress=progress)
    rows = [json.loads(line) for line in (report.folder / "epochs.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert list(rows[0]) == ["seed", "epoch", "loss", "accuracy"]
    assert any(text.startswith("seed 1, epoch 2 of 2: loss ") and ", valid " in text for text in progress.said)
    assert [one.seed for one in report.seeds] == [0, 1]
    shares = [one.valid for one in report.seeds if one.valid is not None]
    assert report.valid == pytest.approx(sum(shares) / 2)
    heads = [report.folder / f"seed{seed}" / "head.safetensors" for seed in range(3)]
    before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in heads[:2]]
    assert before[0][1] != before[1][1]
    assert len(train("clip-module", seeds=3).seeds) == 3
    assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in heads[:2]] == before
    scorers = {row.scorer for row in read_table(report.folder / "scores.jsonl", Score)}
    assert scorers == {f"clip-module/seed{seed}" for seed in range(3)}


@pytest.mark.parametrize("recipe", [pytest.param("clip-none", marks=pytest.mark.prove), "clip-temporal"])
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(train: Trains, tmp_path: Path, recipe: str) -> None:
    whole = train(recipe, "epochs=3", workdir=tmp_path / "whole").folder
    for epoch in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            train(recipe, "epochs=3", progress=Note(f"epoch {epoch} of 3"))
        with pytest.raises(UnfinishedError, match="unfinished"):
            open_artifact(tmp_path / "work" / "runs" / recipe)
    progress = Note()
    cut = train(recipe, "epochs=3", progress=progress).folder
    told = [text.partition(":")[0] for text in progress.said if text.startswith("seed")]
    assert told == ["seed 0 resumes after epoch 2 of 3", "seed 0, epoch 3 of 3"]
    for name in ("scores.jsonl", "epochs.jsonl", "manifest.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.prove
@pytest.mark.parametrize("after", [1, 2])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(
    train: Trains, benchmark: Path, encoder: str, tmp_path: Path, after: int
) -> None:
    whole = train("clip-temporal", "epochs=4", workdir=tmp_path / "whole").folder
    code = f"""
import os, signal
from pathlib import Path
from ctxr.engine.progress import Silent
from ctxr.pipelines.modelling.train import Train, run
class Killed(Silent):
    def note(self, text):
        if "epoch {after} of" in text:
            os.kill(os.getpid(), signal.SIGKILL)
changes = {(f"encoder={encoder}", *SMALL_HEAD, "epochs=4")!r}
run(Train("clip-temporal", Path({str(benchmark)!r}), changes=changes, workdir=Path({str(tmp_path / "work")!r})), Killed())
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    cut = train("clip-temporal", "epochs=4").folder
    assert (cut / "scores.jsonl").read_bytes() == (whole / "scores.jsonl").read_bytes()
    assert (cut / "manifest.json").read_bytes() == (whole / "manifest.json").read_bytes()


def test_a_head_starts_from_the_encoder_of_another_run(train: Trains, tmp_path: Path) -> None:
    batch = train("clip-batch", "epochs=1", name="tuned").folder
    module = train("clip-module", "epochs=1", "start=tuned").folder
    own, below = (load_file(folder / "seed0" / "encoder.safetensors") for folder in (module, batch))
    assert all((own[name] == below[name]).all() for name in own)
    prints = [open_artifact(folder).manifest.models["encoder"]["fingerprint"] for folder in (module, batch)]
    assert prints[0] == prints[1]
    published = train("clip-module", "epochs=1", name="other").folder
    assert open_artifact(published).manifest.models["encoder"]["fingerprint"] != prints[0]
    assert not (published / "seed0" / "encoder.safetensors").exists()
    assert "tuned" in [parent.name for parent in open_artifact(module).manifest.parents]


def test_a_start_of_another_encoder_and_one_that_is_not_there_are_one_sentence(
    train: Trains, benchmark: Path, encoder: str, tmp_path: Path
) -> None:
    train("clip-batch", "epochs=1", name="tuned")
    other = f"local-dir:{make_folder(tmp_path / 'other')}"
    with pytest.raises(DataError, match=r"encoder local-dir:.*, not over local-dir:"):
        train("clip-module", "start=tuned", f"encoder={other}")
    with pytest.raises(UnfinishedError, match="the run 'clip-batch'") as caught:
        train("clip-module", "start=clip-batch")
    assert caught.value.hint.startswith(f"ctxr train --recipe clip-batch --dataset {benchmark} --set encoder={encoder}")


@pytest.mark.parametrize(
    ("changes", "more", "told"),
    [
        ((), {}, "--recipe clip-batch"),
        (("encoder=ctxr-tiny",), {}, "--recipe clip-batch --set encoder=ctxr-tiny"),
        (("start=mine",), {}, "--recipe clip-batch --name mine"),
        ((), {"recipe": "blip-module", "dataset": Path("a b")}, "--recipe blip-batch --dataset 'a b'"),
        ((), {"workdir": Path("other")}, "--recipe clip-batch --workdir other"),
    ],
)
def test_the_run_that_is_told_to_be_made_is_one_that_the_recipe_can_start_from(
    changes: tuple[str, ...], more: dict[str, Any], told: str
) -> None:
    config = Train(**{"recipe": "clip-module", "changes": changes} | more)
    assert start_command(config, load_recipe(config.recipe, changes=changes)) == f"ctxr train {told}"


def test_weights_that_do_not_fit_their_config_are_one_sentence(train: Trains, benchmark: Path) -> None:
    folder = train("clip-module", "epochs=1").folder
    config = folder / "seed0" / "config.json"
    config.write_text(config.read_text().replace('"inner": 32', '"inner": 64'))
    with pytest.raises(DataError, match=r"head\.safetensors .* the head"):
        scores_of(folder, read_dataset(benchmark))
    (folder / "seed0" / "head.safetensors").write_bytes(b"cut")
    with pytest.raises(DataError, match="read as weights"):
        scores_of(folder, read_dataset(benchmark))


def test_vectors_are_computed_once_for_equal_weights_and_a_damaged_cache_is_made_again(
    train: Trains, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train("clip-module", "epochs=1")
    calls: list[int] = []
    plain = Encoder.encode_images

    def counted(self: Encoder, images: list[object], exact: bool = False) -> object:
        calls.append(len(images))
        return plain(self, images, exact)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "encode_images", counted)
    train("clip-temporal", "epochs=1")
    assert calls == []
    kept = sorted((tmp_path / "work" / ".ctxr-cache" / "encoded").glob("*.npy"))
    assert kept
    for file in kept:
        file.write_bytes(file.read_bytes()[:100])
    scores = (first.folder / "scores.jsonl").read_bytes()
    shutil.rmtree(first.folder)
    assert (train("clip-module", "epochs=1").folder / "scores.jsonl").read_bytes() == scores
    assert calls


def test_a_published_encoder_can_be_scored_by_its_name(train: Trains, benchmark: Path, encoder: str) -> None:
    folder = train("clip-zero-shot").folder
    by_name = {row.key()[:2]: row.value for row in scores_of(encoder, read_dataset(benchmark))}
    by_run = {row.key()[:2]: row.value for row in read_table(folder / "scores.jsonl", Score)}
    assert by_run.items() <= by_name.items()
    assert all(-1 <= value <= 1 for value in by_name.values())
    with pytest.raises(DataError, match="has no query 'nobody'"):
        scores_of(encoder, read_dataset(benchmark), ["nobody"])


def test_missing_pictures_are_one_sentence(train: Trains, benchmark: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(benchmark, copy)
    lost = sorted(copy.glob("images/train-*/img3.jpg"))
    for file in lost:
        file.unlink()
    message = rf"{len(lost)} of \d+ pictures .*copy .* in \d+ sets: .* train-.*/img3"
    with pytest.raises(DataError, match=message):
        train("clip-module", dataset=copy)


def test_a_loss_that_is_no_number_stops_the_command_and_another_rate_starts_anew(train: Trains) -> None:
    with pytest.raises(CtxrError, match=r"loss is (nan|inf) in epoch 1, step 2 of 3; no epoch"):
        train("clip-module", "lr=1e30")
    assert len(train("clip-module", "epochs=1").seeds) == 1


def test_arguments_that_make_no_sense_are_refused(train: Trains) -> None:
    with pytest.raises(UsageError, match="--seeds 0"):
        train("clip-module", seeds=0)
    for name in ("a/b", "", ".."):
        with pytest.raises(UsageError, match="a folder name"):
            train("clip-module", name=name)


def test_without_a_train_side_only_zero_shot_works(train: Trains, tmp_path: Path) -> None:
    out = tmp_path / "tested"
    write_benchmark(WorldBenchmark(out, train=0, valid=0, test=2, side=48, workers=1))
    report = train("clip-zero-shot", dataset=out)
    assert (report.valid, report.queries) == (None, {"test": 2})
    with pytest.raises(DataError, match=r"tested has no .* train"):
        train("clip-batch", dataset=out)


def test_images_keep_the_order_of_their_set(benchmark: Path) -> None:
    dataset = read_dataset(benchmark)
    by_id = {one.id: one for one in dataset.sets}
    asked = queries_of(dataset)
    assert asked
    assert all(one.images == by_id[one.image_set].images for one in asked)
    assert {one.ordered for one in asked} == {True, False}
    assert all(one.ordered == (by_id[one.image_set].kind == "video") for one in asked)
    assert all(one.target is not None and one.images[one.target].endswith(f"img{one.target}") for one in asked)


def with_all_relevant(benchmark: Path, out: Path, side: str) -> tuple[Path, str]:
    """A copy of the dataset in which every image is relevant to the first query of a side, and that query."""
    shutil.copytree(benchmark, out)
    dataset = read_dataset(out)
    query, image_set, place = next(row for row in dataset.targets() if dataset.split_of(row[1]) == side)
    others = [image for image in image_set.images if image != image_set.images[place]]
    write_table(
        out / "judgments.jsonl", [*dataset.judgments, *(Judgment(query.id, image, "gold", 1.0) for image in others)]
    )
    earlier = open_artifact(out).manifest
    content = Content([*earlier.files], earlier.counts, earlier.models)
    finish(out, kind=earlier.kind, verb=earlier.verb, config=earlier.config, parents=earlier.parents, content=content)
    return out, query.id


def test_any_of_several_relevant_images_is_a_hit(train: Trains, benchmark: Path, tmp_path: Path) -> None:
    several, query = with_all_relevant(benchmark, tmp_path / "several", "test")
    report = train("clip-zero-shot", dataset=several)
    scores: dict[str, dict[str, float]] = {}
    for row in read_table(report.folder / "scores.jsonl", Score):
        scores.setdefault(row.query, {})[row.candidate] = row.value
    hits = []
    for one in (one for one in queries_of(read_dataset(several)) if one.split == "test"):
        best = [image for image, value in scores[one.query].items() if value == max(scores[one.query].values())]
        hits.append(1.0 if one.query == query else (one.images[one.target or 0] in best) / len(best))
    assert report.test == pytest.approx(sum(hits) / 6)
    # and none of them is an example to learn from
    several, query = with_all_relevant(benchmark, tmp_path / "learned", "train")
    with pytest.raises(DataError, match=f"{query}' has 10 relevant images"):
        train("clip-batch", dataset=several)


@pytest.fixture
def hubless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a model hub whose cache holds ctxr-lite, untrained."""
    make_weights(tmp_path / "cache" / "ctxr" / "ctxr-lite")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "can_reach", lambda *_: False)


@pytest.mark.usefixtures("hubless")
def test_without_a_hub_a_head_learns_on_another_encoder_and_a_recipe_that_tunes_names_the_option(
    tmp_path: Path,
) -> None:
    benchmark = tmp_path / "benchmark"
    write_benchmark(WorldBenchmark(benchmark, train=2, valid=1, test=1, video=0, side=48, workers=1))
    config = Train("clip-module", benchmark, changes=("inner=32", "layers=1", "epochs=1"), workdir=tmp_path / "work")
    note = Note()
    report = run(config, note)
    assert report.encoder == "ctxr-lite"
    (warning,) = (one for one in note.warned if "ViT-B-16:openai are" in one)
    assert "uses ctxr-lite" in warning
    assert open_artifact(report.folder).manifest.config["start"] == ""
    assert run(config, Note()).up_to_date
    for recipe, changes in (("clip-batch", ()), ("clip-module", ("encoder=ViT-B-16:openai", "start="))):
        with pytest.raises(CtxrError, match="ViT-B-16:openai are") as refused:
            run(Train(recipe, benchmark, changes=changes, workdir=tmp_path / "work"), Note())
        assert "--set encoder=" in refused.value.hint
