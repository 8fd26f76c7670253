"""Recipes: the published numbers, the profiles, and what is said about a mistake."""

from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.contextual.recipe import VARIANTS, ContextualRecipe
from ctxr.problems.recipes import FOLDER, PROFILES, list_recipes, recipe_name

ROOT = Path(__file__).resolve().parents[4]


ENCODERS = {
    "clip": "ViT-B-16:openai",
    "blip": "blip:Salesforce/blip-itm-base-coco",
    "vilbert": "volta:models/vilbert",
    "uniter": "volta:models/uniter",
}


OF_SETS = [name for name in list_recipes() if name.partition("-")[0] in ENCODERS]


@pytest.mark.parametrize("name", OF_SETS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_recipe_parses_under_every_profile(name: str, profile: str) -> None:
    recipe = load_recipe(name, profile)
    model, _, variant = name.partition("-")
    assert (recipe.variant, recipe.encoder) == (variant, ENCODERS[model])
    assert recipe.regions == ("faster-rcnn" if model in ("vilbert", "uniter") else "")


def test_there_is_a_recipe_for_each_row_of_the_table() -> None:
    rows = {(name.partition("-")[0], load_recipe(name).variant) for name in OF_SETS}
    assert rows == {(model, variant) for model in ENCODERS for variant in VARIANTS} - {("blip", "none")}
    assert (ROOT / "configs").resolve() == FOLDER


@pytest.mark.parametrize("profile", PROFILES)
def test_the_recipes_of_galleries_have_the_published_numbers(profile: str) -> None:
    plain, weak = load_recipe("retrieval-clip", profile), load_recipe("retrieval-clip-weak", profile)
    assert (plain.encoder, plain.batch, plain.lr) == ("ViT-B-32:openai", 1536, 1e-5)
    assert (plain.optimiser, plain.weight_decay, plain.weak) == ("adamw", 0.02, "off")
    assert weak == replace(plain, weak="extra-batch", alpha=0.3)


@pytest.mark.parametrize(
    ("name", "encoder", "rate"),
    [("uniter", "volta:models/uniter", 5e-5), ("blip", "blip:Salesforce/blip-itm-base-coco", 2e-5)],
)
def test_the_recipes_of_galleries_for_encoders_of_pairs_have_the_published_numbers(
    name: str, encoder: str, rate: float
) -> None:
    plain, weak = load_recipe(f"retrieval-{name}"), load_recipe(f"retrieval-{name}-weak")
    assert (plain.variant, plain.encoder, plain.batch, plain.lr) == ("in-batch", encoder, 96, rate)
    assert (plain.optimiser, plain.weight_decay, plain.weak) == ("adamw", 0.02, "off")
    assert weak == replace(plain, weak="extra-batch", alpha=0.3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("alpha=1.5", "alpha = 1.5 is out of range"),
        ("weak=some", "weak = some is unknown"),
        ("loss=binary", "loss does not apply to the variant 'in-batch'"),
        ("leaked_gradients=true", "leaked_gradients does not apply to the variant 'in-batch'"),
    ],
)
def test_a_recipe_of_galleries_refuses_what_means_nothing_to_it(change: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_recipe("retrieval-clip", changes=(change,))


@pytest.mark.parametrize("name", [name for name in OF_SETS if "zero-shot" not in name])
def test_weak_positives_train_any_variant_that_learns_from_candidates(name: str) -> None:
    assert load_recipe(name, changes=("weak=extra-batch", "alpha=0.5")).weak == "extra-batch"


@pytest.mark.parametrize(("name", "variant"), [("clip-zero-shot", "zero-shot"), ("entailment", "entailment")])
def test_weak_positives_mean_nothing_where_no_query_learns_from_candidates(name: str, variant: str) -> None:
    with pytest.raises(UsageError, match=f"weak .*does not apply to the variant '{variant}'") as caught:
        load_recipe(name, changes=("weak=soft-label",))
    assert caught.value.hint == "--set weak=off"


@pytest.mark.parametrize(
    ("model", "rates", "layers"),
    [("vilbert", (5e-6, 4e-5, 2e-5, 2e-5), 4), ("uniter", (8e-6, 7e-6, 6e-6, 6e-6), 5)],
)
def test_the_numbers_of_the_cross_encoders_are_the_published_ones(
    model: str, rates: tuple[float, ...], layers: int
) -> None:
    found = [load_recipe(f"{model}-{variant}") for variant in ("none", "batch", "module", "temporal")]
    assert tuple(recipe.lr for recipe in found) == rates
    for recipe in found:
        assert (recipe.optimiser, recipe.beta1, recipe.beta2, recipe.eps) == ("adamw", 0.9, 0.999, 1e-6)
        assert (recipe.weight_decay, recipe.undecayed_vectors, recipe.clip) == (1e-4, True, 1.0)
        assert (recipe.schedule, recipe.warmup, recipe.start) == ("linear", 0.1, "")
        assert (recipe.tunes, recipe.new_score) == (True, not recipe.has_head)
    none, *others = found
    assert (none.loss, none.batch * (none.distractors + 1), none.epochs) == ("binary", 128, 10)
    for recipe in others:
        assert (recipe.loss, recipe.batch, recipe.epochs) == ("softmax", 15, 25)
    for recipe in others[1:]:
        assert (recipe.layers, recipe.heads, recipe.inner, recipe.dropout) == (layers, 8, 3072, 0.1)


def test_blip_is_trained_by_the_numbers_of_clip() -> None:
    for variant in ("batch", "module", "temporal"):
        blip, clip = (load_recipe(f"{model}-{variant}") for model in ("blip", "clip"))
        start = "blip-batch" if blip.has_head else ""
        assert replace(blip, encoder=clip.encoder, start=clip.start, at_once=0) == clip
        assert (blip.start, blip.tunes, blip.new_score) == (start, not blip.has_head, False)


@pytest.mark.parametrize(
    ("name", "optimiser", "lr", "decay"),
    [
        ("clip-none", "adam", 4e-6, 0.2),
        ("clip-batch", "adamw", 4e-6, 0.01),
        ("clip-module", "adam", 1e-4, 0.2),
        ("clip-temporal", "adam", 1e-4, 0.2),
    ],
)
def test_the_numbers_are_the_published_ones(name: str, optimiser: str, lr: float, decay: float) -> None:
    recipe = load_recipe(name)
    assert (recipe.optimiser, recipe.lr, recipe.weight_decay) == (optimiser, lr, decay)
    assert (recipe.beta1, recipe.beta2, recipe.eps, recipe.batch, recipe.epochs) == (0.9, 0.98, 1e-6, 36, 30)
    assert (recipe.layers, recipe.heads, recipe.inner, recipe.dropout, recipe.scale) == (2, 8, 3072, 0.1, 1000.0)
    assert recipe.start == ("clip-batch" if recipe.has_head else "")


QUIRKS = {
    "summed_gradients",
    "undivided_decay",
    "dropout_in_evaluation",
    "fixed_distractors",
    "leaked_gradients",
    "fp16_masters",
    "unjudged_last_epoch",
    "all_positions",
    "judged_on_test",
}
CLIP_QUIRKS = QUIRKS - {"undivided_decay", "all_positions", "judged_on_test"}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "profile", "others"),
    [
        ("clip-none", "paper", {"undivided_decay"}),
        ("clip-none", "code", CLIP_QUIRKS - {"dropout_in_evaluation"}),
        ("clip-batch", "paper", set()),
        ("clip-batch", "code", {"fp16_masters", "unjudged_last_epoch"}),
        ("clip-module", "paper", {"lr", "undivided_decay"}),
        ("clip-module", "code", CLIP_QUIRKS - {"fixed_distractors"}),
        ("clip-temporal", "paper", {"undivided_decay"}),
        ("clip-temporal", "code", CLIP_QUIRKS - {"fixed_distractors"}),
        ("blip-temporal", "code", CLIP_QUIRKS - {"fixed_distractors"}),
        ("vilbert-none", "code", {"judged_on_test", "unjudged_last_epoch"}),
        ("uniter-module", "code", {"judged_on_test", "unjudged_last_epoch"}),
        ("uniter-temporal", "code", {"judged_on_test", "unjudged_last_epoch", "all_positions"}),
        ("vilbert-temporal", "paper", set()),
    ],
)
def test_a_profile_turns_its_quirks_and_nothing_else(name: str, profile: str, others: set[str]) -> None:
    fixed, other = asdict(load_recipe(name)), asdict(load_recipe(name, profile))
    assert {key for key in fixed if fixed[key] != other[key]} == others
    assert not any(fixed[quirk] for quirk in QUIRKS)


@pytest.mark.parametrize("quirk", sorted(QUIRKS))
def test_each_quirk_can_be_set_by_itself(quirk: str) -> None:
    assert load_recipe("clip-module", changes=[f"{quirk}=true"]) == replace(load_recipe("clip-module"), **{quirk: True})
    assert not getattr(load_recipe("clip-module", "code", [f"{quirk}=false"]), quirk)


def test_every_number_can_be_changed_and_a_whole_one_will_do_for_a_share() -> None:
    for field in fields(Recipe):
        value = getattr(load_recipe("clip-temporal"), field.name)
        written = str(value).lower() if isinstance(value, bool) else str(value)
        assert getattr(load_recipe("clip-temporal", changes=[f"{field.name}={written}"]), field.name) == value
    assert load_recipe("clip-batch", changes=["clip=1", "at-once=4"]).clip == 1.0
    assert load_recipe("clip-module", changes=["start="]).start == ""
    assert load_recipe("clip-module", "paper", ["lr=3e-5"]).lr == 3e-5


@pytest.mark.parametrize(
    ("name", "changes", "message", "hint"),
    [
        ("clip-tempral", (), "there is no recipe 'clip-tempral'", "did you mean clip-temporal?"),
        ("clip-batch", ("epoch=3",), "--set: unknown key 'epoch'", "did you mean epochs?"),
        ("clip-batch", ("zzz=3",), "--set: unknown key 'zzz'", "the nearest keys are frozen, "),
        (
            "entailment",
            ("zzz=3",),
            "--set: unknown key 'zzz'",
            "the nearest keys are frozen, image_size, ",
        ),
        ("clip-batch", ("lr",), "--set lr has no value", "--set lr=1e-4"),
        ("clip-batch", ("lr=fast",), "--set: lr = 'fast' is not a number", "lr = 4e-06"),
        ("clip-batch", ("epochs=2.5",), "--set: epochs = 2.5 is not a whole number", "epochs = 30"),
        ("clip-batch", ("epochs=true",), "--set: epochs = True is not a whole number", "epochs = 30"),
        (
            "clip-batch",
            ("variant=hard",),
            "variant = hard is unknown",
            "variants are entailment, in-batch, zero-shot, none",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_a_hint(name: str, changes: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe(name, changes=changes)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="--parity papers is unknown"):
        load_recipe("clip-batch", "papers")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("learning_rate = 1e-3", UsageError, "unknown key 'learning_rate'"),
        ("[papers]\nlr = 1e-3", UsageError, r"unknown table \[papers\]"),
        ("[paper]\nlrr = 1e-3", UsageError, r"\[paper\]: unknown key 'lrr'"),
        ("lr = ", DataError, "is not TOML"),
        ("batch = 0", UsageError, "batch = 0 is out of range"),
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
    assert recipe_name(str(file)) == "mine"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_recipe(str(tmp_path / "none.toml"))
