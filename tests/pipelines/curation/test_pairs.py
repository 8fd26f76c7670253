"""`ctxr pairs`: what is entailed, what is not, and on which side."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.datasets.pairs import EntailmentPair, refuse_leaks
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.curation.config import Pairs
from ctxr.pipelines.curation.pairs import SHIPPED, captioned, run, with_answers
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.problems.entailment.pairs import open_pairs
from ctxr.store.artifacts import Parent
from ctxr.store.records import Judgment, Query, Text
from ctxr.store.tables import read_table
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import draw

ORIGIN = Parent("dataset", "dataset", "")


def rows_of(artifact: Path) -> list[EntailmentPair]:
    return read_table(artifact / "pairs.jsonl", EntailmentPair)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 photos with two captions each; the first two are copies."""
    folder = tmp_path_factory.mktemp("photos")
    lines = []
    for number in range(30):
        draw(folder / f"{number}.jpg", max(number, 1))
        texts = f"Thing {number} stands.", f"There is thing {number}."
        lines += [json.dumps({"file_name": f"{number}.jpg", "text": text}) for text in texts]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    return folder


def test_the_sample_ships_with_ctxr_and_is_what_train_takes(tmp_path: Path) -> None:
    report = run(Pairs("sample", workdir=tmp_path))
    pairs = open_pairs(None, tmp_path, Silent())
    assert len(pairs.rows) == report.counts["pairs"] == sum(report.counts["splits"].values())
    assert {(pair.split, pair.label) for pair in pairs.rows} == {
        (split, label) for split in ("train", "valid", "test") for label in (0, 1)
    }
    assert {pair.split for pair in rows_of(SHIPPED)} == {"train", "valid", "test"}
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()) < 2_000_000


def test_equal_runs_are_byte_equal_and_a_second_one_does_nothing(photos: Path, tmp_path: Path) -> None:
    run(Pairs(str(photos), out=tmp_path / "a"))
    assert not run(Pairs(str(photos), out=tmp_path / "b")).up_to_date
    assert same_tree(tmp_path / "a", tmp_path / "b")
    assert run(Pairs(str(photos), out=tmp_path / "a")).up_to_date
    assert {check.state for check in check_artifact(tmp_path / "a", Silent())} == {"ok"}


def test_other_captions_entail_the_one_held_out_and_not_one_of_another_image(photos: Path, tmp_path: Path) -> None:
    run(Pairs(str(photos), out=tmp_path / "pairs"))
    texts = {query: text.text for query, text in read_dataset(photos).texts.items()}
    for pair in rows_of(tmp_path / "pairs"):
        own = [text for query, text in texts.items() if query.startswith(f"{pair.image}#")]
        (held_out,) = {*own} - {pair.premise}
        assert (pair.hypothesis == held_out, pair.hypothesis in own) == (pair.label == 1, pair.label == 1)
    assert Counter(pair.label for pair in rows_of(tmp_path / "pairs")) == {0: 60, 1: 60}


def test_photos_without_splits_are_dealt_and_copies_stay_together(photos: Path, tmp_path: Path) -> None:
    report = run(Pairs(str(photos), out=tmp_path / "pairs"))
    assert all(report.counts["splits"].values())
    rows = rows_of(tmp_path / "pairs")
    sides = {pair.image: pair.split for pair in rows}
    assert sides["photos/0.jpg"] == sides["photos/1.jpg"]
    assert all(sides[str(pair.caption).partition("#")[0]] == pair.split for pair in rows)


def test_pictures_that_the_project_evaluates_are_never_in_train(tmp_path: Path) -> None:
    project = write_world_dataset(tmp_path / "work" / "dataset")
    dataset, album = read_dataset(project), tmp_path / "album"
    album.mkdir()
    evaluated = [name for one in dataset.sets if dataset.split_of(one) == "valid" for name in one.images]
    lines = []
    for number, name in enumerate([*evaluated, *dataset.sets[0].images]):
        (album / f"{number}.jpg").write_bytes((project / dataset.images[name].path).read_bytes())
        lines += [
            json.dumps({"file_name": f"{number}.jpg", "text": text}) for text in (f"A {number}.", f"The {number}.")
        ]
    (album / "metadata.jsonl").write_text("\n".join(lines))
    run(Pairs(str(album), workdir=tmp_path / "work"))
    rows = rows_of(tmp_path / "work" / "pairs")
    refuse_leaks([pair for pair in rows if pair.split == "train"], [f"photos/{n}.jpg" for n in range(len(evaluated))])
    assert {pair.split for pair in rows if pair.image == "photos/0.jpg"} == {"valid"}


def test_splits_of_a_dataset_are_kept(tmp_path: Path) -> None:
    dataset = read_dataset(write_world_dataset(tmp_path / "dataset"))
    run(Pairs("own", workdir=tmp_path))
    sides = {name: dataset.split_of(one) for one in dataset.sets for name in one.images}
    assert {pair.split for pair in rows_of(tmp_path / "pairs")} == {"train", "valid"}
    assert all(pair.split == sides[str(pair.image)] for pair in rows_of(tmp_path / "pairs"))


def test_descriptions_for_which_people_chose_other_images_alone_do_not_hold(tmp_path: Path) -> None:
    dataset = read_dataset(write_world_dataset(tmp_path / "dataset"))
    query, image_set, place = next(dataset.targets())
    image, other = image_set.images[place], image_set.images[place - 1]
    picks = {"lost": (other, other), "found": (other, image, other), "once": (other,), query.id: (other,)}
    targets = [Judgment(name, image, "gold", 1.0) for name in picks]
    votes = [Judgment(name, pick, f"w-{n}", 1.0) for name, chosen in picks.items() for n, pick in enumerate(chosen)]
    answered = AggregatedAnswers(
        tmp_path / "dataset", {}, {image_set.id: image_set}, {name: dataset.images[name] for name in image_set.images}, (),
        tuple(Text(name, f"{name}.", "a") for name in picks), tuple(Query(name, image_set.id, (name,)) for name in picks),
        (*targets, *votes),
    )  # fmt: skip
    rows = captioned(with_answers(dataset, answered), ORIGIN, dataset.queries, tmp_path, Silent()).rows
    assert [(pair.hypothesis, pair.image) for pair in rows if pair.relation == "rejected"] == [("lost.", image)]
    assert not any(name in str(pair.premise) for pair in rows for name in ("lost.", "found.", "once."))


def test_a_wrong_choice_takes_the_place_of_a_drawn_caption(tmp_path: Path) -> None:
    dataset = read_dataset(write_world_dataset(tmp_path / "dataset"))
    query, image_set, place = next(dataset.targets())
    other = image_set.images[place - 1]
    votes = Judgment(query.id, other, "w-1", 1.0), Judgment(query.id, image_set.images[place], "w-2", 1.0)
    voted = replace(dataset, judgments=(*dataset.judgments, *votes))
    rows = [
        pair
        for pair in captioned(voted, ORIGIN, dataset.queries, tmp_path, Silent()).rows
        if f"/{query.id}/" in pair.id
    ]
    assert [(pair.relation, pair.image, pair.label) for pair in rows] == [
        ("entailment", image_set.images[place], 1),
        ("wrong_choice", other, 0),
    ]


def test_a_description_of_two_images_holds_for_both_and_gives_one_wrong_choice(tmp_path: Path) -> None:
    dataset = read_dataset(write_world_dataset(tmp_path / "dataset"))
    query, image_set, place = next(dataset.targets())
    right, second, wrong = (image_set.images[(place + step) % len(image_set.images)] for step in range(3))
    votes = [Judgment(query.id, image, "worker-1", 1) for image in (second, wrong)]
    two = replace(dataset, judgments=(*dataset.judgments, Judgment(query.id, second, "gold", 1), *votes))
    assert query.id not in {one.id for one, _, _ in two.sole_targets()}
    text = dataset.text_of(query)
    rows = captioned(two, ORIGIN, dataset.queries, tmp_path, Silent()).rows
    found = [(row.image, row.relation) for row in rows if row.hypothesis == text and row.relation != "other"]
    assert sorted(found) == sorted([(right, "entailment"), (second, "entailment"), (wrong, "wrong_choice")])


def test_published_pairs_are_converted_and_dealt_where_they_have_no_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "quora_duplicate_questions.tsv"
    lines = (f"{n}\t{2 * n}\t{2 * n + 1}\tWhy {n}?\tHow {n}?\t{n % 2}\n" for n in range(40))
    file.write_text("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" + "".join(lines))
    report = run(Pairs(str(file), out=tmp_path / "pairs"))
    assert (report.counts["pairs"], report.counts["entailed"], report.counts["images"]) == (40, 20, 0)
    assert all(report.counts["splits"].values())
    # beside the project, however the folder is called
    monkeypatch.chdir(tmp_path)
    beside = [run(Pairs(name, workdir=tmp_path / "work")).up_to_date for name in (str(tmp_path), str(tmp_path), ".")]
    assert beside == [False, True, True]


def test_pairs_that_were_edited_are_refused(tmp_path: Path) -> None:
    run(Pairs("sample", out=tmp_path / "one"))
    table = tmp_path / "one" / "pairs.jsonl"
    table.write_bytes(table.read_bytes().replace(b'"label":1', b'"label":0', 1))
    with pytest.raises(DataError, match=r"pairs\.jsonl was changed"):
        run(Pairs(str(table.parent), workdir=tmp_path / "two"))


def test_pairs_of_ctxr_pairs_come_before_those_of_the_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_pairs(None, tmp_path, Silent())
    assert "ctxr pairs sample" in str(caught.value.hint)
    copytree(SHIPPED, tmp_path / "dataset")
    assert open_pairs(None, tmp_path, Silent()).name == "dataset"
    run(Pairs("sample", workdir=tmp_path))
    assert open_pairs(None, tmp_path, Silent()).name == "pairs"


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        ([], 2, "SOURCE"),
        (["none"], 2, "none"),
        (["own"], 4, "dataset"),
        (["."], 3, ".csv"),
        (["blind"], 3, "blind has neither"),
        (["documents"], 2, "documents"),
    ],
)
def test_a_source_without_pairs_is_refused(
    words: list[str], code: int, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("blind", "documents"):
        (tmp_path / folder).mkdir()
    (tmp_path / "blind" / "captions.txt").write_text("image,caption\na.jpg,A cat.\n")
    page = {"train": [[[["A cat.", 0]], [["a.jpg", 0]], "1"]], "val": [], "test": []}
    (tmp_path / "documents" / "documents.json").write_text(json.dumps(page))
    done = CliRunner().invoke(app, ["pairs", *words])
    assert (done.exit_code, shown in done.output) == (code, True), done.output
