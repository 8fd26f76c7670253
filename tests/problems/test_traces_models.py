"""Models of texts with mouse traces: masks, ablations, patches, heat maps, the loss against the slow version, runs that start from runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional

from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import UnfinishedError, UsageError
from ctxr.metrics.traces import WHOLE, cell_shares, heat_map, word_boxes
from ctxr.models.encoders import find_source
from ctxr.models.lite import LitePictures
from ctxr.models.preprocess import Preprocess
from ctxr.models.regions import feature_map
from ctxr.models.training.loop import TrainingRun
from ctxr.pipelines.modelling.config import RegionsConfig, Train
from ctxr.pipelines.modelling.regions import run as regions
from ctxr.pipelines.modelling.train import run as train
from ctxr.problems.embeddings import query_pictures
from ctxr.problems.ranked import first_rate
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.traces.learner import OpenTraces, TraceSources
from ctxr.problems.traces.patches import HeatMaps, PatchEncoder, PatchTower, cell_vectors, heat_maps
from ctxr.problems.traces.queries import traced_queries
from ctxr.problems.traces.recipe import TracesRecipe
from ctxr.problems.traces.towers import DualEncoder, query_inputs
from ctxr.problems.two_towers import contrastive_loss
from ctxr.synthetic.narratives import write_narratives
from tests.problems.test_traced_queries import FULL, narrated

SMALL: dict[str, Any] = {
    "width": 16, "inner": 16, "heads": 2, "embedded": 8, "pooled": 16, "text_layers": 1, "image_layers": 1, "max_tokens": 6,
    "regions": "grid",
}  # fmt: skip
WORDS = ("<PAD>", "<UNK>", ",", "a", "dog", "running")


def recipe_of(**values: Any) -> TracesRecipe:
    return TracesRecipe(**(SMALL if values.get("variant", "traces") == "traces" else {}) | values).check()


def dual(recipe: TracesRecipe, features: int = 3) -> DualEncoder:
    torch.manual_seed(0)
    return DualEncoder(recipe, features, len(WORDS)).eval()


def some_regions(count: int = 4, features: int = 3) -> Tensor:
    """[2, R, F + 5], of the second picture one region less."""
    made = torch.rand(2, count, features + 5, generator=torch.Generator().manual_seed(0))
    made[1, -1] = 0
    return made


def test_absent_regions_and_the_order_of_regions_change_nothing() -> None:
    model, regions = dual(recipe_of()), some_regions()
    vectors = model.images(regions)
    torch.testing.assert_close(model.images(regions[1:, :3]), vectors[1:])
    torch.testing.assert_close(model.images(regions.flip(1)), vectors)
    torch.testing.assert_close(model.images(functional.pad(regions, (0, 0, 0, 2))), vectors)
    moved = regions.clone()
    moved[:, 0, -5:] = torch.tensor(WHOLE)
    assert not torch.allclose(model.images(moved), vectors)
    blind = dual(recipe_of(locations=False))
    torch.testing.assert_close(blind.images(moved), blind.images(regions))


def test_a_query_without_a_trace_scores_as_by_a_model_of_text_alone() -> None:
    both, text = dual(recipe_of()), dual(recipe_of(query="text"))
    text.load_state_dict({name: both.state_dict()[name] for name in text.state_dict()})
    silent, drawn = replace(narrated(FULL), strokes=[], drawn_on=np.zeros(0, np.int64)), narrated(FULL)
    rows = query_inputs([silent, drawn], WORDS, recipe_of())
    torch.testing.assert_close(both.queries(*rows)[0], text.queries(*rows)[0])
    assert not torch.allclose(both.queries(*rows)[1], text.queries(*rows)[1])
    # what stands beside a query in a pass must not decide its vector
    torch.testing.assert_close(both.queries(*(one[:1] for one in rows)), both.queries(*rows)[:1])


def test_words_and_boxes_have_the_places_of_their_utterances() -> None:
    query, recipe = narrated(FULL), recipe_of(margin=0.0, padding=0.0)
    tokens, places, boxes, drawn = query_inputs([query], WORDS, recipe)
    assert tokens[0].tolist() == [3, 4, 2, 5, 0, 0]
    assert places[0].tolist() == [0, 1, 1, 2, 0, 0]
    own, there = word_boxes(query.points, query.times, 0.0, 0.0)
    np.testing.assert_allclose(boxes[0, :3], own.astype(np.float32))
    assert drawn[0].tolist() == [*there.tolist(), False, False, False]
    model, turned = dual(recipe), query_inputs([query], WORDS, recipe)
    turned[1][0, :2] = torch.tensor([1, 0])
    assert not torch.allclose(model.queries(*turned), model.queries(tokens, places, boxes, drawn))
    placeless = dual(recipe_of(positions=False))
    torch.testing.assert_close(placeless.queries(*turned), placeless.queries(tokens, places, boxes, drawn))


def test_a_lone_trace_without_points_is_the_box_of_the_whole_image() -> None:
    recipe = recipe_of(query="trace")
    tokens, places, boxes, drawn = query_inputs([narrated(None)], WORDS, recipe)
    assert (boxes[0, 0].tolist(), drawn[0].tolist()) == ([*WHOLE], [True, *[False] * 5])
    assert dual(recipe).queries(tokens, places, boxes, drawn).isfinite().all()


def test_the_loss_equals_the_slow_version_with_equal_pictures_in_a_batch() -> None:
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own, relevant = torch.tensor([0, 1, 1, 2]), torch.zeros(4, 3, dtype=torch.bool)
    relevant[torch.arange(4), own] = True
    relevant[3, 0] = True  # a further relevant image of the last query, which the first stands for
    total = 0.0
    for query in range(4):
        image = int(own[query])
        images = [one for one in range(3) if one == image or not relevant[query, one]]
        queries = [one for one in range(4) if one == query or not relevant[one, image]]
        total -= float(scores[query, image]) - float(scores[query, images].exp().sum().log())
        total -= float(scores[query, image]) - float(scores[queries, image].exp().sum().log())
    assert float(contrastive_loss(scores, own, relevant)) == pytest.approx(total / 8, rel=1e-12)


def tiny(most: int = 7) -> PatchTower:
    return PatchTower(find_source("ctxr-tiny").build().visual, most)


def test_patches_of_a_resnet_are_its_values_without_attention() -> None:
    tower, pixels = tiny(), torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        vectors, cells, pool = tower(pixels), feature_map(tower.tower, pixels), tower.tower.attnpool
        assert vectors.shape == (2, 1 + 9, 256)
        torch.testing.assert_close(vectors[:, 0], functional.normalize(tower.tower(pixels), dim=-1))
        slow = pool.c_proj(pool.v_proj(cells[1, :, 2, 1]))
        torch.testing.assert_close(vectors[1, 1 + 7], functional.normalize(slow, dim=0))
        # of one cell the mean over the picture is left
        mean = pool.c_proj(pool.v_proj(cells.mean((2, 3))))
        torch.testing.assert_close(tiny(1)(pixels)[:, 1], functional.normalize(mean, dim=-1))


def test_patches_do_not_depend_on_the_pictures_beside_them() -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (40, 60, 3), np.uint8) for _ in range(9)]
    tower, preprocess = tiny(), Preprocess((96, 96), (0.5,) * 3, (0.5,) * 3, resize_mode="squash")
    together = tower.encode(pictures, preprocess, "cpu")
    np.testing.assert_array_equal(tower.encode(pictures[8:], preprocess, "cpu"), together[8:])


def test_cells_of_other_towers_go_through_what_the_whole_picture_goes_through() -> None:
    transformer = VisionTransformer(32, 16, 8, 1, 2, 4.0, output_dim=6, pool_type="avg").eval()
    pixels = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        # the average of this tower is that of its projected cells
        cells = feature_map(transformer, pixels).flatten(2).transpose(1, 2)
        torch.testing.assert_close(
            cell_vectors(transformer, cells.flatten(0, 1)).view(2, 4, 6).mean(1), transformer(pixels)
        )
        lite = LitePictures(FakeTrunk(), torch.rand(5, 4), torch.rand(8, 4))
        torch.testing.assert_close(PatchTower(lite, 1)(pixels)[:, 1], lite(pixels))
        assert PatchTower(lite, 3)(pixels).shape == (2, 1 + 9, 12)
    with pytest.raises(UsageError, match="Conv2d"):
        cell_vectors(nn.Conv2d(3, 3, 1), torch.rand(2, 3))


class FakeTrunk(nn.Module):
    """A network of timm in miniature."""

    num_features = 8

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.classifier = nn.Conv2d(3, 8, 8, 8), nn.Linear(8, 5)

    def forward_features(self, pixels: Tensor) -> Tensor:
        return torch.as_tensor(self.convolution(pixels))

    def forward_head(self, maps: Tensor, pre_logits: bool = False) -> Tensor:
        return maps.mean((2, 3)) if pre_logits else torch.as_tensor(self.classifier(maps.mean((2, 3))))


def test_a_model_of_patches_starts_as_the_sum_of_cosines() -> None:
    recipe = recipe_of(variant="traces-patches", trace_weight=2.0, temperature=0.5)
    model, chance = PatchEncoder(recipe, 5).requires_grad_(False), torch.Generator().manual_seed(0)
    text, image, phrases = (
        functional.normalize(torch.randn(*shape, generator=chance), dim=-1) for shape in ((1, 5), (1, 5, 5), (1, 3, 5))
    )
    shares = torch.from_numpy(
        cell_shares(np.array([[0, 0, 0.6, 1, 0.6], [0.5, 0.5, 1, 1, 0.25], [0, 0, 1, 1, 1]]), 2)
    ).float()[None]
    shares[0, 2] = 0  # nothing was drawn
    pooled = [sum(float(shares[0, k, c] * (phrases[0, k] @ image[0, 1 + c])) for c in range(4)) for k in (0, 1)]
    wanted = (float(text[0] @ image[0, 0]) + 2.0 * sum(pooled) / 2) / 0.5
    assert float(model.queries(text, phrases, shares)[0] @ model.images(image)[0]) == pytest.approx(wanted, rel=1e-5)
    lone = PatchEncoder(replace(recipe, query="text"), 5).requires_grad_(False)
    cosine = float(lone.queries(text, phrases, shares)[0] @ lone.images(image)[0])
    assert cosine == pytest.approx(float(text[0] @ image[0, 0]) / 0.5, rel=1e-5)


def test_an_encoder_that_learns_starts_where_the_frozen_one_stands(drawn: Path) -> None:
    data, recipe = (
        open_dataset(drawn / "narratives", drawn, Silent()),
        recipe_of(variant="traces-patches", encoder="ctxr-tiny"),
    )
    queries = [one for one in traced_queries(data) if one.query.split == "valid"]
    queries[0] = replace(
        queries[0], text="", words=(), times=np.zeros((0, 2)), strokes=[], drawn_on=np.zeros(0, np.int64)
    )
    pictures, vectors = query_pictures(data, [one.query for one in queries], drawn), []
    for tuned in (recipe, replace(recipe, frozen=False)):
        sources = TraceSources(tuned, ScoringOptions(drawn, "cpu"), Silent())
        table, model = sources.table(queries, pictures, ()), sources.model(()).eval()
        vectors.append([table.vectors(model, tower, 5, TrainingRun(drawn)) for tower in (0, 1)])
    for frozen, learning in zip(*vectors, strict=True):
        torch.testing.assert_close(frozen, learning, atol=2e-4, rtol=0)


def test_heat_maps_measure_where_a_text_matches_and_the_best_image_drawn_on_counts() -> None:
    recipe, query = recipe_of(variant="traces-heat", epochs=0), narrated(FULL)
    maps = heat_maps([query, narrated(None)], recipe, 2)
    wanted = [heat_map(stroke, 2, recipe.spread) - 0.25 for stroke in query.strokes]
    np.testing.assert_allclose(maps[0], wanted, atol=1e-6)
    assert not maps[1].any()
    model, text = HeatMaps(recipe), functional.normalize(torch.rand(2, 3), dim=-1)
    image = functional.normalize(torch.rand(1, 1 + 4, 3), dim=-1)
    scores = (model.queries(text, maps) @ model.images(image).T).amax(1)
    best = max(float(map_ @ (image[0, 1:] @ text[0])) for map_ in maps[0])
    assert scores.flatten().tolist() == pytest.approx(
        [float(text[0] @ image[0, 0]) + best, float(text[1] @ image[0, 0])], rel=1e-5
    )
    with pytest.raises(UsageError, match="query = trace"):
        recipe_of(variant="traces-heat", query="trace", epochs=0)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_narratives(folder / "narratives", {"train": 64, "val": 16, "test": 32}, 0)
    regions(RegionsConfig(folder / "narratives", extractor="grid:ctxr-tiny", workdir=folder, device="cpu", most=9))
    return folder


def trained(folder: Path, recipe: str, name: str, *changes: str) -> Path:
    options = Train(
        recipe=recipe, dataset=folder / "narratives", name=name, workdir=folder, device="cpu", changes=changes
    )
    return train(options).folder


def test_heat_maps_find_the_layout_that_a_text_does_not_tell(drawn: Path) -> None:
    data = open_dataset(drawn / "narratives", drawn, Silent())
    run = trained(drawn, "traces-heat", "by-text", "encoder=ctxr-tiny", "query=text")
    queries = [one for one in traced_queries(data) if one.query.split == "test"]
    rates, asked = [], queries[3].query
    for source in (run, "ctxr-tiny"):
        opened = OpenTraces.open(source, ScoringOptions(drawn, "cpu"), Silent())
        (scores,) = opened.rescored(data, queries).values()
        rates.append(first_rate(queries, scores))
        (stored,) = opened.score((data, [asked.query])).values()
        np.testing.assert_allclose([stored[asked.query][image] for image in asked.images], scores[3], rtol=1e-5)
    assert rates[1] > 2 * rates[0] > 0


def test_patches_learn_a_tiny_gallery_and_a_second_training_does_nothing(drawn: Path) -> None:
    changes = ("encoder=ctxr-tiny", "epochs=3", "batch=32")
    run = trained(drawn, "traces-patches", "patches", *changes)
    losses = [float(line.split('"loss":')[1].split(",")[0]) for line in (run / "epochs.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    before = (run / "manifest.json").stat().st_mtime_ns
    assert trained(drawn, "traces-patches", "patches", *changes) == run
    assert (run / "manifest.json").stat().st_mtime_ns == before


def test_a_model_of_text_and_trace_starts_from_one_of_text(drawn: Path) -> None:
    small = [f"{name}={value}" for name, value in SMALL.items()]
    quick = (*small, "epochs=1", "batch=32", "warmup=0")
    trained(drawn, "traces-pretrain", "first", *quick, "query=text")
    run = trained(drawn, "traces-finetune", "second", *quick, "start=first")
    kinds = {parent["kind"]: parent["name"] for parent in json.loads((run / "manifest.json").read_text())["parents"]}
    assert (kinds["run"], kinds["regions"]) == ("first", "grid")
    with pytest.raises(UsageError, match="width = 16"):
        trained(drawn, "traces-finetune", "third", *quick, "start=first", "width=32")
    with pytest.raises(UnfinishedError, match="absent"):
        trained(drawn, "traces-finetune", "third", *quick, "start=absent")
