"""A drawn benchmark of captions whose truth is computed: the table against predicates one by one, and what training may see."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.pairs import EntailmentPair, refuse_leaks
from ctxr.datasets.truth import CaptionTruth
from ctxr.errors import DataError, UsageError
from ctxr.media.images import read_image
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import (
    PREDICATES,
    WorldCaptions,
    altered,
    draw_family,
    judge_all,
    statement_about,
    weakened,
    write_captions,
)
from ctxr.synthetic.world.predicates import name_of
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import propose, state

SMALL = WorldCaptions(Path(), train=30, valid=6, test=24, pair_train=20, pair_valid=6, side=24, workers=1, seed=5)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captions") / "world"
    write_captions(replace(SMALL, out=folder))
    return folder


def test_annotations_name_the_own_picture_alone_and_the_truth_names_more(drawn: Path) -> None:
    dataset = read_dataset(drawn)
    truth = {row.caption: row for row in read_table(drawn / "truth.jsonl", CaptionTruth)}
    assert {judgment.query for judgment in dataset.judgments} == set(dataset.queries)
    for judgment in dataset.judgments:
        assert truth[judgment.query].image == judgment.candidate
        assert judgment.candidate in truth[judgment.query].holds
    test = [row for row in truth.values() if row.gallery == "test"]
    assert np.mean([len(row.holds) for row in test]) > 2
    held = Counter(image for row in test for image in row.holds)
    (gallery,) = (one for one in dataset.sets if one.id == "test")
    assert np.mean([held[image] for image in gallery.images]) > 5
    assert {row.details for row in test} == {1, 2, 3}


def test_families_have_the_size_that_is_asked_for_and_more_edits_make_captions_less_common() -> None:
    held = []
    for edits in (0, 8):
        config = replace(SMALL, smallest_family=5, largest_family=6, edits=edits)
        families = [draw_family(config, 0, number) for number in range(12)]
        assert {len(family.scenes) for family in families} == {5, 6}
        verdicts = [
            judge_all([own[0] for own in family.statements], [SceneView(scene) for scene in family.scenes])
            for family in families
        ]
        held.append(np.mean([(table == 1).mean() for table in verdicts]))
    assert held[1] < 0.75 * held[0]


def test_captions_are_of_any_number_and_pictures_are_there(drawn: Path) -> None:
    dataset = read_dataset(drawn)
    assert {one.id: len(one.images) for one in dataset.sets} == {
        "train": 30, "valid": 6, "test": 24, "pair-train": 20, "pair-valid": 6,
    }  # fmt: skip
    owners = Counter(judgment.candidate for judgment in dataset.judgments)
    assert set(owners.values()) == {2, 3, 4, 5, 6}
    for image in dataset.images.values():
        picture = dataset.picture(image)
        assert picture is not None
        assert read_image(picture).shape == (24, 24, 3)
    assert all(0 < (one.closest or 0) < (one.mean_distance or 0) < 2 for one in dataset.sets)


def test_the_truth_is_what_each_predicate_says_of_each_picture() -> None:
    families = [draw_family(SMALL, 2, n) for n in range(8)]
    views = [SceneView(scene) for family in families for scene in family.scenes]
    statements = [one for family in families for said in family.statements for one in said]
    found = judge_all(statements, views)
    for row, statement in enumerate(statements):
        literal = [statement.verdict(view) for view in views]
        assert [{1: True, 0: False, -1: None}[int(one)] for one in found[row]] == literal
    assert set(np.unique(found)) == {-1, 0, 1}


def test_captions_say_only_what_they_may(drawn: Path) -> None:
    rng = np.random.default_rng(0)
    for family in (draw_family(SMALL, 2, n) for n in range(5)):
        only = statement_about(rng, SceneView(family.scenes[0]), ("Shows",))
        assert {name_of(one) for one in only.predicates} <= {"Shows", "Before"}
        said = [predicate for told in family.statements for statement in told for predicate in statement.predicates]
        assert {name_of(predicate) for predicate in said} <= set(PREDICATES)


def test_an_altered_statement_is_clearly_false() -> None:
    rng = np.random.default_rng(0)
    changed = 0
    for n in range(30):
        view = SceneView(draw_family(SMALL, 3, n).scenes[0])
        statement = state(rng, [propose(rng, view), propose(rng, view)])
        other = altered(rng, statement, view)
        if other is not None:
            changed += 1
            assert other.verdict(view) is False
            differing = [a != b for a, b in zip(statement.predicates, other.predicates, strict=True)]
            assert sum(differing) == 1
    assert changed > 20


def test_pairs_are_true_to_the_truth_and_hard(drawn: Path) -> None:
    pairs = [pair for pair in read_table(drawn / "pairs.jsonl", EntailmentPair) if pair.source == "world"]
    truth = {row.caption: row for row in read_table(drawn / "truth.jsonl", CaptionTruth)}
    for pair in pairs:
        if pair.caption is not None:
            row = truth[pair.caption]
            assert pair.image not in row.doubtful
            assert (pair.image in row.holds) == bool(pair.label)
        assert pair.hypothesis is not None
        assert pair.hypothesis not in (pair.premise or "")
    assert np.mean([pair.kind == "both" for pair in pairs]) > 0.95
    sides = Counter((pair.split, pair.label) for pair in pairs)
    for split in ("train", "valid", "test"):
        assert 0.35 < sides[split, 1] / (sides[split, 0] + sides[split, 1]) < 0.55
    relations = Counter(pair.relation for pair in pairs)
    assert relations["altered"] > 0.15 * len(pairs)
    assert relations["neighbour"] > 0.05 * len(pairs)
    # what holds and what does not say equally much
    words = {label: np.mean([len((p.hypothesis or "").split()) for p in pairs if p.label == label]) for label in (0, 1)}
    assert abs(words[0] - words[1]) < 0.15 * words[1]


def test_a_weakened_text_holds_wherever_the_text_does() -> None:
    rng = np.random.default_rng(0)
    views = [SceneView(scene) for n in range(25) for scene in draw_family(SMALL, 4, n).scenes]
    held = less = 0
    for view in views:
        statement = statement_about(rng, view, PREDICATES)
        weaker = weakened(rng, statement)
        less += weaker.predicates != statement.predicates
        for other in views:
            if statement.verdict(other):
                held += 1
                assert weaker.verdict(other)
    assert held > 2 * len(views)
    assert less > 0.6 * len(views)


def test_pairs_of_texts_have_both_labels_for_each_premise(drawn: Path) -> None:
    pairs = [pair for pair in read_table(drawn / "pairs.jsonl", EntailmentPair) if pair.source == "world-text"]
    assert {pair.kind for pair in pairs} == {"text"}
    labels: dict[str | None, list[int]] = {}
    for pair in pairs:
        labels.setdefault(pair.premise, []).append(pair.label)
    assert all(sum(found) * 2 == len(found) for found in labels.values())
    assert len(pairs) > 2 * (20 + 6 + 24)
    groups = {split: {pair.group for pair in pairs if pair.split == split} for split in ("train", "valid", "test")}
    assert not groups["train"] & (groups["valid"] | groups["test"])


def test_training_pairs_stand_on_no_picture_that_is_searched_or_judged(drawn: Path) -> None:
    dataset = read_dataset(drawn)
    pairs = read_table(drawn / "pairs.jsonl", EntailmentPair)
    training = [pair for pair in pairs if pair.split == "train"]
    searched = {image for one in dataset.sets if not one.id.startswith("pair-") for image in one.images}
    refuse_leaks(training, searched | {pair.group for pair in pairs if pair.split != "train"})
    content = {image.id: image.sha256 for image in dataset.images.values()}
    seen = {content[pair.image] for pair in training if pair.image}
    assert not seen & {content[image] for image in searched}
    tested = [pair for pair in pairs if pair.split == "test"]
    with pytest.raises(DataError, match=r"training pairs .* world/test/"):
        refuse_leaks(tested, searched)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"train": 0, "valid": 0, "test": 0, "pair_train": 0, "pair_valid": 0}, "needs pictures"),
        ({"train": -1}, "--train -1"),
        ({"seed": -1}, "--seed -1"),
        ({"smallest_family": 5}, "smallest family"),
        ({"least": 3, "most": 2}, "cannot have 3 to 2 captions"),
        ({"hypotheses": 1}, "--hypotheses 1"),
        ({"say": ("Shows", "Sings")}, "of Shows, Sings"),
        ({"say": ("Before",)}, "made of Before"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        write_captions(replace(SMALL, out=tmp_path / "none", **wrong))  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()
