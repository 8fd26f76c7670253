"""Recipes: the published numbers, the profiles, and what is said about a mistake."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.contextual.recipe import ContextualRecipe
from ctxr.problems.options import TrainOptions
from ctxr.problems.recipes import FOLDER, PROFILES

ROOT = Path(__file__).resolve().parents[4]


def test_the_recipes_lie_where_the_project_links_to_them() -> None:
    assert (ROOT / "configs").resolve() == FOLDER


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("alpha=1.5", "alpha = 1.5"),
        ("weak=some", "weak = some is unknown"),
        ("loss=binary", "loss = .*'in-batch'"),
        ("distractors=0", "distractors = 0"),
    ],
)
def test_a_recipe_of_galleries_refuses_what_means_nothing_to_it(change: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_recipe("retrieval-clip", changes=(change,))


@pytest.mark.parametrize("name", ["clip-none", "blip-batch", "uniter-module", "vilbert-temporal"])
def test_weak_positives_train_any_variant_that_learns_from_candidates(name: str) -> None:
    assert load_recipe(name, changes=("weak=extra-batch", "alpha=0.5")).weak == "extra-batch"


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("clip-zero-shot", "weak=soft-label", "weak=off"),
        ("clip-zero-shot", "lr=1", "lr=4e-06"),
        ("clip-batch", "frozen=false", "frozen=true"),
        ("clip-batch", "distractors=3", "distractors=9"),
        ("clip-module", "all_positions=true", "all_positions=false"),
        ("retrieval-clip", "rerank_by=ctxr-tiny", "rerank_by="),
        ("links-dc", "at_most=true", "at_most=false"),
        ("links-nostruct", "sentences=2", "sentences=0"),
        ("links-objects", "margin=1", "margin=0.2"),
    ],
)
def test_a_field_that_the_variant_does_not_read_is_refused(name: str, change: str, hint: str) -> None:
    with pytest.raises(UsageError, match=rf"^{change.partition('=')[0]} = .* the variant .*: only ") as caught:
        load_recipe(name, changes=(change,))
    assert caught.value.hint == f"--set {hint}"


@pytest.mark.parametrize(
    ("name", "key", "near"),
    [
        ("retrieval-clip", "leaked_gradients", "known: "),
        ("clip-batch", "rerank", "mean weak?"),
        ("links-ap", "weak", "known: "),
        ("entailment", "encoder", "known: "),
    ],
)
def test_a_field_of_another_problem_is_an_unknown_key(name: str, key: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"--set: unknown key '{key}'") as caught:
        load_recipe(name, changes=(f"{key}=1",))
    assert near in str(caught.value.hint)


@pytest.mark.parametrize("name", ["clip-module", "retrieval-blip", "links-ap", "entailment"])
def test_the_key_of_a_recipe_is_its_own_fields_without_those_that_decide_nothing(name: str) -> None:
    recipe = load_recipe(name)
    assert list(recipe.key()) == [field.name for field in fields(recipe) if field.name != "at_once"]


PUBLISHED = {
    "clip-none": ("adam", 4e-6, 0.2, 36, 30),
    "clip-batch": ("adamw", 4e-6, 0.01, 36, 30),
    "clip-module": ("adam", 1e-4, 0.2, 36, 30),
    "clip-temporal": ("adam", 1e-4, 0.2, 36, 30),
    "vilbert-none": ("adamw", 5e-6, 1e-4, 64, 10),
    "vilbert-batch": ("adamw", 4e-5, 1e-4, 15, 25),
    "vilbert-module": ("adamw", 2e-5, 1e-4, 15, 25),
    "vilbert-temporal": ("adamw", 2e-5, 1e-4, 15, 25),
    "uniter-none": ("adamw", 8e-6, 1e-4, 64, 10),
    "uniter-batch": ("adamw", 7e-6, 1e-4, 15, 25),
    "uniter-module": ("adamw", 6e-6, 1e-4, 15, 25),
    "uniter-temporal": ("adamw", 6e-6, 1e-4, 15, 25),
    "entailment": ("adamw", 2e-5, 0.02, 96, 5),
    "retrieval-blip": ("adamw", 2e-5, 0.02, 96, None),
    "retrieval-clip": ("adamw", 1e-5, 0.02, 1536, None),
    "retrieval-uniter": ("adamw", 5e-5, 0.02, 96, None),
}
"""Optimiser, rate, weight decay, batch and epochs (None: not stated) of the papers on ImageCoDe and on entailment. Their batches of
150 and 128 pairs are 15 sets of ten images and 64 sets of two."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_numbers_are_the_published_ones(name: str) -> None:
    recipe = load_recipe(name)
    *numbers, epochs = PUBLISHED[name]
    assert [recipe.optimiser, recipe.lr, recipe.weight_decay, recipe.batch] == numbers
    assert epochs in (None, recipe.epochs)
    if name.startswith(("clip", "vilbert", "uniter")):
        assert (recipe.beta1, recipe.beta2, recipe.eps) == (0.9, 0.98 if name.startswith("clip") else 0.999, 1e-6)


def test_the_rate_of_the_module_in_the_paper_and_the_share_of_weak_positives_are_the_published_ones() -> None:
    assert load_recipe("clip-module", "paper").lr == 2e-6
    assert load_recipe("retrieval-clip-weak").alpha == 0.3


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.startswith(("clip", "vilbert", "uniter"))])
def test_the_released_scripts_train_all_epochs_and_the_paper_stops_early(name: str) -> None:
    assert [load_recipe(name, parity).patience for parity in PROFILES] == [5, 5, 0]


@pytest.mark.parametrize("name", ["vilbert-none", "uniter-none"])
def test_released_cross_encoders_without_context_learn_from_all_pairs_of_the_own_set(name: str) -> None:
    recipes = [load_recipe(name, parity) for parity in PROFILES]
    learned = [(recipe.loss, recipe.distractors, recipe.batch) for recipe in recipes]
    assert learned == [("binary", 1, 64), ("binary", 1, 64), ("binary", 0, 13)]


@pytest.mark.parametrize("kind", ["clip", "vilbert", "uniter", "blip"])
def test_positions_enter_the_highway_in_the_paper_alone(kind: str) -> None:
    assert [load_recipe(f"{kind}-temporal", parity).highway_positions for parity in PROFILES] == [False, True, False]


QUIRKS = (
    "all_positions", "dropout_in_evaluation", "fixed_distractors", "fp16_masters", "judged_on_test", "leaked_gradients",
    "summed_gradients", "undivided_decay", "unjudged_last_epoch",
)  # fmt: skip


@pytest.mark.parametrize("quirk", QUIRKS)
def test_each_quirk_can_be_set_by_itself(quirk: str) -> None:
    name = {"all_positions": "clip-temporal", "fixed_distractors": "clip-none"}.get(quirk, "clip-module")
    assert load_recipe(name, changes=[f"{quirk}=true"]) == replace(load_recipe(name), **{quirk: True})
    assert not getattr(load_recipe(name, "code", [f"{quirk}=false"]), quirk)


def test_every_number_can_be_changed_and_a_whole_one_will_do_for_a_share() -> None:
    for field in fields(ContextualRecipe):
        value = getattr(load_recipe("clip-temporal"), field.name)
        written = str(value).lower() if isinstance(value, bool) else str(value)
        assert getattr(load_recipe("clip-temporal", changes=[f"{field.name}={written}"]), field.name) == value
    assert load_recipe("clip-batch", changes=["clip=1", "at-once=4"]).clip == 1.0
    assert load_recipe("clip-module", changes=["start="]).start == ""
    assert load_recipe("clip-module", "paper", ["lr=3e-5"]).lr == 3e-5


@pytest.mark.parametrize(
    ("name", "changes", "message", "hint"),
    [
        ("clip-tempral", (), "'clip-tempral'", "clip-temporal?"),
        ("clip-batch", ("epoch=3",), "--set: unknown key 'epoch'", " epochs?"),
        ("clip-batch", ("learning_rate=3",), "--set: unknown key 'learning_rate'", "mean lr?"),
        ("entailment", ("learning-rate=3",), "--set: unknown key 'learning-rate'", "mean lr?"),
        ("clip-batch", ("zzz=3",), "--set: unknown key 'zzz'", "keys are frozen, "),
        ("entailment", ("zzz=3",), "--set: unknown key 'zzz'", "known: at_once, batch, "),
        ("clip-batch", ("lr",), "--set lr ", "--set lr=1e-4"),
        ("clip-batch", ("lr=fast",), "--set: lr = 'fast'", "a number above 0"),
        ("clip-batch", ("epochs=2.5",), "--set: epochs = 2.5", "whole number, 0"),
        ("clip-batch", ("epochs=true",), "--set: epochs = True", "whole number, 0"),
        ("clip-batch", ("variant=hard",), "variant = hard is unknown", "variants are entailment, links-ap, links-dc"),
    ],
)
def test_a_mistake_is_one_sentence_and_a_hint(name: str, changes: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe(name, changes=changes)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("learning_rate = 1e-3", UsageError, "unknown key 'learning_rate'"),
        ("[papers]\nlr = 1e-3", UsageError, r"unknown table \[papers\]"),
        ("[paper]\nlrr = 1e-3", UsageError, r"\[paper\]: unknown key 'lrr'"),
        ("lr = ", DataError, "is not TOML"),
        ("batch = 0", UsageError, "batch = 0"),
    ],
)
def test_a_recipe_of_ones_own_is_checked_alike(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_recipe(str(tmp_path / "mine.toml"))


def test_a_recipe_of_ones_own_is_read_and_names_its_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('variant = "batch"\nlr = 1\n[code]\nepochs = 3\n')
    assert load_recipe(str(file)) == ContextualRecipe(variant="batch", lr=1.0)
    assert load_recipe(str(file), "code").epochs == 3
    assert TrainOptions(recipe=str(file)).folder().name == "mine"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="--parity papers"):
        load_recipe("clip-batch", "papers")
