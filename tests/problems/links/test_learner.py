"""Towers that learn which sentence of a document belongs to which image, and how they are opened."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from msgspec import structs
from safetensors.torch import load_file, save_file
from torchvision.models import DenseNet, densenet169

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables, documents_of
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.images import read_image
from ctxr.models.encoders import load_encoder
from ctxr.models.training.loop import TrainingRun
from ctxr.models.words import vocabulary_of
from ctxr.problems.links import objective, towers
from ctxr.problems.links.learner import OpenLinks, Sources
from ctxr.problems.links.objective import LinksObjective, gathered
from ctxr.problems.links.recipe import CurveRow, LinksRecipe
from ctxr.problems.links.towers import LABELS, DenseNet169
from ctxr.problems.question import find_learner
from ctxr.problems.runs import ScoringOptions
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Image
from ctxr.store.scores import read_scores
from ctxr.store.tables import read_table
from tests.models.encoder_folder import make_folder
from tests.models.lite_wheels import make_weights
from tests.problems.links.drawn import QUICK, SPLITS, draw, job_of, train

FEW: Any = {"train": 5, "valid": 2, "test": 2}


def files_of(run: Path) -> dict[str, bytes]:
    """Of a run, but for clocks."""
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    return {str(path.relative_to(run)): path.read_bytes() for path in paths if path.name != "manifest.json"}


def reopened(dataset: Dataset, run: Path, work: Path) -> bool:
    """Whether a run scores the same that it wrote, alone and among all documents."""
    stored = read_scores(run / "scores.jsonl")
    opened = OpenLinks.open(run, ScoringOptions(work, "cpu"), Silent())
    one = next(iter(next(iter(stored.values())).values))
    everything, alone = opened.score((dataset, None)), opened.score((dataset, [one]))
    assert all(list(rows) == [one] for rows in alone.values())
    return all(
        everything[scorer][query] == row and (query != one or alone[scorer][query] == row)
        for scorer, rows in stored.items()
        for query, row in rows.values.items()
    )


class RecordedNotes(Silent):
    """Keeps what it is told, and stops the training at a word."""

    def __init__(self, stop: str = "\0") -> None:
        self.said: list[str] = []
        self.stop = stop
        self.warn = self.said.append  # type: ignore[method-assign, assignment]

    def note(self, text: str) -> None:
        self.said.append(text)
        if self.stop in text:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, str]:
    folder = tmp_path_factory.mktemp("drawn")
    return draw(folder), f"features={folder / 'features.npy'}"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder, chance = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    names = [f"{topic}.png" for topic in range(4)]
    for name in names:
        cv2.imwrite(str(folder / name), chance.integers(0, 255, (40, 56, 3), np.uint8))
    return draw(folder, FEW, names)


def published(model: torch.nn.Module, file: Path) -> Path:
    """Weights under the names that torchvision's published file has."""
    state = {name: value for name, value in model.state_dict().items() if "num_batches" not in name}
    names = {name: re.sub(r"\.(norm|conv)([12])\.", r".\1.\2.", name) for name in state}
    assert names["features.denseblock1.denselayer1.norm1.weight"] == "features.denseblock1.denselayer1.norm.1.weight"
    torch.save({names[name]: value for name, value in state.items()}, file)
    return file


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DenseNet:
    """A network with few channels and random weights, in `net.pth`, in the place of the large one."""

    def small(weights: None = None) -> DenseNet:
        return DenseNet(4, (1, 1, 1, 1), 8, 2)

    monkeypatch.setattr(towers, "densenet169", small)
    monkeypatch.setattr(DenseNet169, "dim", 8)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = small().eval()
    published(model, tmp_path / "net.pth")
    return model


def test_links_are_learned_from_documents_alone_and_the_same_twice(drawn: tuple[Dataset, str], tmp_path: Path) -> None:
    dataset, features = drawn
    notes = RecordedNotes()
    report = train(dataset, tmp_path / "a", *QUICK, features, progress=notes)
    assert (report.measure, report.unit, report.queries) == ("AUC", "documents", SPLITS)
    assert min(report.valid or 0.0, report.test or 0.0) > 0.9
    curve = read_table(report.folder / "seed0" / "curve.jsonl", CurveRow)
    assert [row.epoch for row in curve] == [1, 2, 3, 4, 5, 6, 7]
    assert min(curve, key=lambda row: row.valid_loss or 9).epoch == report.seeds[0].epoch
    assert (curve[-1].valid_auc or 0.0) > 0.9
    assert any(f"valid loss {curve[0].valid_loss:.4f}, valid auc {curve[0].valid_auc:.4f}" in one for one in notes.said)
    assert reopened(dataset, report.folder, tmp_path / "a")
    # nobody reads a link to train
    unlinked = replace(dataset, judgments=())
    again = train(unlinked, tmp_path / "b", *QUICK, features).folder
    one, other = files_of(report.folder), files_of(again)
    assert one["seed0/weights.safetensors"] == other["seed0/weights.safetensors"]
    assert one["scores.jsonl"] == other["scores.jsonl"]
    assert train(unlinked, tmp_path / "b", *QUICK, features).valid is None


def test_a_training_that_was_stopped_resumes_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, features = draw(tmp_path, {"train": 30, "valid": 6}), f"features={tmp_path / 'features.npy'}"
    # no epoch lowers the loss that much, so that the plateau is reached before and after the stop
    monkeypatch.setattr("ctxr.problems.links.recipe._LEAST_FALL", 1.0)
    monkeypatch.setattr("ctxr.problems.links.recipe._WAIT", 1)
    changes = (*QUICK, features, "epochs=9", "lr=300", "loss=logistic")
    whole = train(dataset, tmp_path / "a", *changes).folder
    with pytest.raises(KeyboardInterrupt):
        train(dataset, tmp_path / "b", *changes, progress=RecordedNotes("seed 0, epoch 6 of 9"))
    notes = RecordedNotes()
    parts = train(dataset, tmp_path / "b", *changes, progress=notes).folder
    assert any("resumes after epoch 6" in one for one in notes.said)
    assert files_of(whole) == files_of(parts)
    losses = [row.valid_loss or 0.0 for row in read_table(parts / "seed0" / "curve.jsonl", CurveRow)]
    recipe = LinksRecipe(lr=300.0, loss="logistic")
    rates = [recipe.rate([-loss for loss in losses[:count]]) for count in (0, 6, 9)]
    assert rates[0] > rates[1] > rates[2]


def test_the_rate_falls_to_a_fifth_after_three_epochs_without_a_lower_loss_once_it_is_below_twice_the_margin() -> None:
    recipe = LinksRecipe(lr=1.0, margin=0.2, schedule="plateau")
    rates = [
        recipe.rate([-loss for loss in losses])
        for losses in (
            [0.9, 0.9, 0.9, 0.9, 0.9],
            [0.39, 0.39, 0.5],
            [0.39, 0.39, 0.5, 0.4],
            [0.39, 0.39, 0.5, 0.38, 0.4, 0.4],
            [0.3, *[0.3] * 6],
            [0.3, *[0.3] * 60],
        )
    ]
    assert rates == [1.0, 1.0, 0.2, 1.0, pytest.approx(0.04), 1e-7]
    assert LinksRecipe(lr=1e-8, schedule="plateau").rate([-0.1] * 9) == 1e-8
    assert LinksRecipe(lr=1.0, schedule="constant").rate([-0.1] * 9) == 1.0
    # losses without a margin are not bounded by it, and a fall of less than 1e-4 is none
    assert [LinksRecipe(lr=1.0, loss=loss).rate([-2.0] * 4) for loss in ("logistic", "softmax")] == [0.2, 0.2]
    assert LinksRecipe(lr=1.0).rate([-0.3, -0.29995, -0.29991, -0.29991]) == 0.2
    assert LinksRecipe(lr=1.0).rate([-0.3, -0.2998, -0.2996, -0.2994]) == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        ("variant=links-dc", "layers=3", "dropout=0.4"),
        ("variant=links-tk", "k=half", "loss=logistic"),
        ("variant=links-ap", "k=half", "at_most=true", "negatives=mean"),
        ("variant=links-nostruct", "loss=softmax", "schedule=cosine"),
        ("variant=links-ap", "sentences=2", "images=3", "at_once=7", "max_tokens=2"),
    ],
)
def test_every_variant_and_option_trains_and_is_opened_again(
    changes: tuple[str, ...], drawn: tuple[Dataset, str], tmp_path: Path
) -> None:
    dataset, features = drawn
    report = train(dataset, tmp_path, *QUICK, features, "epochs=1", *changes)
    assert report.valid is not None
    assert reopened(dataset, report.folder, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("text=encoder", "layers=2"),
        ("frozen=false", "augment=true", "images=2"),
        ("frozen=false", "text=encoder", "layers=0"),
    ],
)
def test_an_encoder_may_make_images_and_texts_frozen_or_tuned(
    changes: tuple[str, ...], pictures: Dataset, tmp_path: Path
) -> None:
    encoder = make_folder(tmp_path / "encoder")
    own = ("features=", f"encoder=local-dir:{encoder}", "epochs=1", *changes)
    report = train(pictures, tmp_path, *QUICK, *own)
    assert reopened(pictures, report.folder, tmp_path)
    names = load_file(report.folder / "seed0" / "weights.safetensors")
    assert any(name.startswith("image.") for name in names) == ("frozen=false" in changes)
    shutil.rmtree(encoder)
    make_folder(encoder, seed=1)
    with pytest.raises(DataError, match="encoder"):
        OpenLinks.open(report.folder, ScoringOptions(tmp_path, "cpu"), Silent()).score((pictures, None))


def test_an_encoder_as_published_scores_cosines(pictures: Dataset, tmp_path: Path) -> None:
    report = train(pictures, tmp_path, "encoder=ctxr-tiny", recipe="links-zero-shot")
    assert [seed.epoch for seed in report.seeds] == [0]
    by_name = OpenLinks.open("ctxr-tiny", ScoringOptions(tmp_path, "cpu"), Silent()).score((pictures, None))
    stored = read_scores(report.folder / "scores.jsonl")["links-zero-shot"].values
    assert all(by_name["ctxr-tiny"][query] == row for query, row in stored.items())
    encoder, one = load_encoder("ctxr-tiny", "cpu"), documents_of(pictures)[0]
    images = [read_image(pictures.picture(pictures.images[image]) or Path()) for image in one.images]
    cosines = encoder.encode_texts(one.texts) @ encoder.encode_images(images).T
    rows = [list(by_name["ctxr-tiny"][query].values()) for query in one.sentences]
    assert np.allclose(rows, cosines, atol=1e-6)


def test_objects_that_an_image_shows_are_compared_as_words(
    pictures: Dataset, network: DenseNet, tmp_path: Path
) -> None:
    net = DenseNet169(str(tmp_path / "net.pth"), "cpu")
    one = next(one for one in documents_of(pictures) if one.split == "test")
    images = [read_image(pictures.picture(pictures.images[image]) or Path()) for image in one.images]
    features = net.encode_images(images)
    assert features.shape == (4, net.dim)
    alone = net.encode_images(images[1:2])
    assert np.array_equal(alone, features[1:2])
    logits = network.classifier(torch.from_numpy(features)).detach()
    objects = net.objects(features, 3)
    assert [set(np.flatnonzero(row)) for row in objects] == [set(row.topk(3).indices.tolist()) for row in logits]
    vectors = {f"topic{topic}": np.eye(4)[topic] + 0.1 for topic in range(4)}
    vectors |= {"fish": np.arange(4.0), "dog": np.ones(4)}
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()]
    (tmp_path / "words.txt").write_text("".join(lines))
    changes = (f"words={tmp_path / 'words.txt'}", f"features=densenet169:{tmp_path / 'net.pth'}", "objects=400")
    report = train(pictures, tmp_path, *changes, recipe="links-objects")
    scores = read_scores(report.folder / "scores.jsonl")["links-objects"].values
    named = [[LABELS[label] for label in row.topk(400).indices] for row in logits]
    means = [sum(_mean(label, vectors) for label in row) for row in named]
    for query, topic in zip(one.sentences, (text.split()[0].lower() for text in one.texts), strict=True):
        wanted = [
            float(mean @ vectors[topic] / np.linalg.norm(mean) / np.linalg.norm(vectors[topic])) for mean in means
        ]
        assert np.allclose(list(scores[query].values()), wanted, atol=1e-5)
    (tmp_path / "words.txt").unlink()
    assert reopened(pictures, report.folder, tmp_path)


def _mean(label: str, vectors: dict[str, Any]) -> Any:
    own = [vectors[word] for word in label.lower().replace("'s", "").split() if word in vectors]
    return np.mean(own, axis=0) if own else np.zeros(4)


def test_images_of_a_network_are_learned_from(pictures: Dataset, network: DenseNet, tmp_path: Path) -> None:
    own = ("epochs=1", f"features=densenet169:{tmp_path / 'net.pth'}", "text=encoder", "encoder=ctxr-tiny")
    report = train(pictures, tmp_path, *QUICK, *own)
    assert reopened(pictures, report.folder, tmp_path)
    assert set(open_artifact(report.folder).manifest.models) == {"densenet169", "ctxr-tiny", "named"}


def test_sentences_of_minilm_are_learned_from_beside_images_of_another_encoder(
    pictures: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_weights(tmp_path / "cache" / "ctxr" / "ctxr-lite")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    report = train(pictures, tmp_path, *QUICK, "epochs=1", "text=minilm", "features=", "encoder=ctxr-tiny")
    assert reopened(pictures, report.folder, tmp_path)
    assert set(open_artifact(report.folder).manifest.models) == {"minilm", "ctxr-tiny", "named"}


def test_weights_of_a_network_are_found_where_torchvision_left_them_and_must_be_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(CtxrError, match="densenet169-b2777c0a"):
        DenseNet169("", "cpu")
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    own = published(densenet169(weights=None), tmp_path / "hub" / "checkpoints" / "densenet169-b2777c0a.pth")
    assert DenseNet169("", "cpu").encode_images([np.zeros((9, 9, 3), np.uint8)]).shape == (1, 1664)
    save_file({"features.conv0.weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(DataError, match="DenseNet169"):
        DenseNet169(str(tmp_path / "other.safetensors"), "cpu")
    own.write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(DataError, match="densenet169-b2777c0a"):
        DenseNet169("", "cpu")


def test_passes_change_a_step_by_rounding_alone_batch_norm_and_dropout_included(
    drawn: tuple[Dataset, str], tmp_path: Path
) -> None:
    dataset, features = drawn
    weights = []
    for at_once in (4096, 7):
        changes = (*QUICK, features, "epochs=1", "layers=2", "dropout=0.3", f"at_once={at_once}", "lr=1e-5")
        folder = train(dataset, tmp_path / str(at_once), *changes).folder
        weights.append(load_file(folder / "seed0" / "weights.safetensors"))
    # Adam makes the same of every gradient's scale; the running averages of batch norm are of the inputs themselves
    assert all(torch.allclose(value, weights[1][name], atol=2e-5) for name, value in weights[0].items())


def test_documents_that_share_a_sentence_or_a_picture_are_no_negatives_of_each_other(tmp_path: Path) -> None:
    tables = DocumentTables()
    of = {"a": ("x y", "1"), "b": ("x z", "2"), "c": ("q", "2"), "d": ("q r", "3"), "e": ("s", "4")}
    for name, (texts, image) in of.items():
        tables.add(name, "train", texts.split(), [Image(f"{name}{image}", "", image * 64, name, 1, 1)])
    np.save(tmp_path / "f.npy", np.eye(5, dtype=np.float32))
    rows = {f"{name}{image}": row for row, (name, (_, image)) in enumerate(of.items())}
    (tmp_path / "f.json").write_text(json.dumps(rows))
    recipe = LinksRecipe(features=str(tmp_path / "f.npy"))
    dataset = tables.dataset("five", None)
    documents = documents_of(dataset)
    words = vocabulary_of([text for one in documents for text in one.texts], 1)
    table = Sources(recipe, ScoringOptions(tmp_path, "cpu"), Silent()).table(documents, dataset, words)
    order = torch.tensor([4, 2, 0, 1, 3])
    names = ["ecabd"[row] for row in range(5)]
    shares = {frozenset(pair) for pair in ("ab", "bc", "cd")}
    wanted = [[frozenset((one, other)) in shares for other in names] for one in names]
    assert table.sharing(order).tolist() == wanted
    drawn = gathered(table.rows[0], order, 1, torch.Generator().manual_seed(0))
    assert drawn.counts.tolist() == [1] * 5
    allowed = [table.rows[0][document].tolist() for document in order.tolist()]
    assert all(row in own for row, own in zip(drawn.rows.tolist(), allowed, strict=True))
    objective = LinksObjective(replace(recipe, batch=2), table, None, TrainingRun(tmp_path))
    steps = objective.batches(1, torch.Generator().manual_seed(0))
    assert [len(step) for step in steps] == [2, 2]
    assert len(objective) == 4


@pytest.mark.parametrize(
    ("changes", "more", "error", "match"),
    [
        ((), {"text_only": True}, UsageError, "--text-only"),
        ((), {"image_only": True}, UsageError, "--image-only"),
        ((), {"judgments": Path("x")}, UsageError, "--judgments"),
        (("features=gone.npy",), {}, DataError, "gone.npy"),
        (("features=", "encoder=blip:base"), {}, UsageError, "blip:base"),
        (("words=gone.txt",), {}, UsageError, "gone.txt"),
        (("least_count=999",), {}, DataError, "least_count=1"),
        (("layers=0", "width=8"), {}, UsageError, "width=16"),
        (("batch=1",), {}, UsageError, "batch = 1"),
        (("frozen=false",), {}, UsageError, "frozen = false"),
        (("text=encoder", "layers=0"), {}, UsageError, "layers = 0"),
        (("variant=links-zero-shot",), {}, UsageError, "links-zero-shot"),
    ],
)
def test_what_makes_no_sense_is_refused(
    changes: tuple[str, ...], more: Any, error: type[CtxrError], match: str, drawn: tuple[Dataset, str], tmp_path: Path
) -> None:
    dataset, features = drawn
    with pytest.raises(error) as caught:
        train(dataset, tmp_path, *QUICK, features, *changes, **more)
    assert match in f"{caught.value} {caught.value.hint}"
    assert caught.value.hint


def test_a_dataset_without_documents_to_learn_from_is_refused(drawn: tuple[Dataset, str], tmp_path: Path) -> None:
    dataset, features = drawn
    sets = tuple(structs.replace(one, kind="photos") for one in dataset.sets)
    with pytest.raises(DataError, match="drawn") as caught:
        train(replace(dataset, sets=sets), tmp_path, *QUICK, features)
    assert "ctxr build-documents" in str(caught.value.hint)
    without: Any = {name: split for name, split in dataset.splits.items() if split != "train"}
    with pytest.raises(DataError, match="train"):
        train(replace(dataset, splits=without), tmp_path, *QUICK, features)
    on_train: Any = dict.fromkeys(dataset.splits, "train")
    with pytest.raises(DataError, match="valid or test"):
        train(replace(dataset, splits=on_train), tmp_path, "encoder=ctxr-tiny", recipe="links-zero-shot")


def test_documents_of_train_are_enough(tmp_path: Path) -> None:
    dataset = draw(tmp_path, {"train": 5})
    report = train(dataset, tmp_path, *QUICK, f"features={tmp_path / 'features.npy'}", "epochs=1")
    assert (report.valid, report.test, report.judged_on, report.seeds[0].epoch) == (None, None, "", 1)


@pytest.mark.parametrize(
    ("values", "rows", "match"),
    [
        (np.zeros((2, 3)), {"other": 0}, "train000-0"),
        (np.zeros(3), {}, "wanted"),
        (np.zeros((2, 3)), {"train000-0": 2}, "train000-0"),
        (np.zeros((2, 3)), {"train000-0": True}, "train000-0"),
        (np.zeros((2, 3)), [1], "JSON object"),
        (np.array([{}], object), {}, "features.npy"),
        (np.full((36, 3), np.nan), None, "train000-0"),
    ],
)
def test_a_matrix_that_lacks_an_image_or_is_none_is_one_sentence(
    values: Any, rows: Any, match: str, tmp_path: Path
) -> None:
    dataset = draw(tmp_path, FEW)
    np.save(tmp_path / "features.npy", values, allow_pickle=True)
    if rows is not None:
        (tmp_path / "features.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=match):
        train(dataset, tmp_path, *QUICK, f"features={tmp_path / 'features.npy'}")


def test_a_run_needs_its_features_as_wide_as_they_were(tmp_path: Path) -> None:
    dataset, file = draw(tmp_path, FEW), tmp_path / "features.npy"
    run = train(dataset, tmp_path / "a", *QUICK, f"features={file}", "epochs=1").folder
    moved = Path(shutil.copytree(run, tmp_path / "elsewhere" / "runs" / run.name))
    assert reopened(dataset, moved, tmp_path / "elsewhere")
    opened = OpenLinks.open(moved, ScoringOptions(tmp_path, "cpu"), Silent())
    np.save(file, np.load(file)[:, :5])
    with pytest.raises(DataError, match="seed0"):
        opened.score((dataset, None))
    file.unlink()
    with pytest.raises(DataError, match="missing"):
        opened.score((dataset, None))
    (moved / "seed0" / "config.json").write_text("{}")
    with pytest.raises(DataError, match="config"):
        opened.score((dataset, None))


def test_first_weights_follow_from_the_seed_alone(
    drawn: tuple[Dataset, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, features = drawn
    stage = job_of(dataset, tmp_path, *QUICK, features)
    monkeypatch.setattr("ctxr.problems.links.learner.open_dataset", lambda *_: dataset)
    job: Any = find_learner(stage.question).job(stage.options, stage.recipe, Silent())
    words = torch.zeros(3, 16)
    torch.manual_seed(5)
    first, other, again = (job.sources.towers(words, seed) for seed in (0, 1, 0))
    matrices = [model.state_dict()["projections.1.1.weight"] for model in (first, other, again)]
    assert torch.equal(matrices[0], matrices[2])
    assert not torch.equal(matrices[0], matrices[1])


def test_a_validation_loss_that_is_no_number_ends_the_training(
    drawn: tuple[Dataset, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, features = drawn
    monkeypatch.setattr(objective, "mean", lambda _: float("nan"))
    with pytest.raises(CtxrError, match="epoch 1 is not finite"):
        train(dataset, tmp_path, *QUICK, features, "epochs=1")


def test_documents_that_all_share_a_sentence_are_warned_of(drawn: tuple[Dataset, str], tmp_path: Path) -> None:
    dataset, features = drawn
    texts = {name: structs.replace(one, text="same") if one.order == 0 else one for name, one in dataset.texts.items()}
    for texts_of, warned in ((texts, True), (dataset.texts, False)):
        progress, own = RecordedNotes(), replace(dataset, texts=texts_of)
        train(own, tmp_path, *QUICK, features, "epochs=1", name=f"{warned}", progress=progress)
        assert any("share images" in line for line in progress.said) == warned
        assert any("last epoch" in line for line in progress.said) == warned
