"""`ctxr stats`: every table on small releases that can be counted by hand, on the toy world, and on the real files."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.engine.report import Table
from ctxr.errors import UnfinishedError, UsageError
from ctxr.media.images import read_image
from ctxr.metrics.language import ParsedText
from ctxr.models.dataset_vectors import picture_vectors_of
from ctxr.models.picture_vectors import distances_of
from ctxr.pipelines.curation.build_sets import run as build
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.inspection.config import Stats
from ctxr.pipelines.inspection.lexicon import load_lexicon, mention_percent
from ctxr.pipelines.inspection.stats import run
from ctxr.store.kinds import SET_KINDS, SetKind
from tests.drawn import load_drawn
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.modelling.training.test_train import Note
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import TEST, annotation_yaml, draw_sets, write_release

runner = CliRunner()

TRAIN_SET, VALID_SET = "MSR-VTT-videoTrain_video1-shot0_0", "MSR-VTT-videoTest_video7-shot1_0"

FULL = {  # of 151 video and 49 static rows
    "t": (28, 2), "q": (72, 25), "s": (109, 32), "cor": (64, 19), "img": (21, 3),
}  # fmt: skip
FURTHER = {"con": (461, 13), "neg": (167, 12), "v": (439, 17), "n": (254, 10)}  # of 805 and 197


def cells(table: Table) -> dict[str, tuple[Any, ...]]:
    """Rows by their first cell."""
    return {row[0]: row[1:] for row in table.rows}


def published_like_rows() -> list[tuple[str, int, str]]:
    """Rows with as many tags as the released file has, and four more behind the annotated range."""
    rows: list[tuple[str, int, str]] = []
    seen = {"video": 0, "open-images": 0}
    for row in range(1006):
        kind = "video" if row < 151 or 200 <= row < 200 + 654 else "open-images"
        place = seen[kind]
        seen[kind] += 1
        tags = [code for code, counts in FURTHER.items() if place < counts[kind != "video"]]
        if row < 200:
            tags += [code for code, counts in FULL.items() if place < counts[kind != "video"]]
        name = f"MSR-VTT-video{row}-shot0_0" if kind == "video" else f"open-images-{row}_x"
        rows.append((name, row % 10, ",".join(tags) if row < 1002 else "con,q"))
    return rows


def test_the_recipe_gives_table_2_from_rows_like_the_released_ones(tmp_path: Path) -> None:
    file = tmp_path / "manual_annotation_valid.yaml"
    file.write_text(annotation_yaml(published_like_rows()))
    report = run(Stats(dataset=file, tokenizer="regex"))
    looked = {name: row[-1] for name, row in cells(report.tables["phenomena"]).items()}
    assert looked == dict.fromkeys(("temporal", "quantities", "spatial", "coreference", "meta", "colour"), 200) | (
        dict.fromkeys(("context", "negation", "visibility", "nuances"), 1002)
    )
    beside = cells(report.tables["published"])
    named = [name for name in beside if name.split(",")[0] in looked]
    assert len(named) == 27
    assert {beside[name][2] for name in named} == {"same"}
    assert any("4 rows carry tags" in note for note in report.notes)


def test_sets_of_a_new_kind_are_counted_among_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = write_release(tmp_path)
    monkeypatch.setitem(SET_KINDS, "keyframes", SetKind(ordered=True))
    dataset = read_dataset(release)
    dataset = replace(dataset, sets=tuple(msgspec.structs.replace(one, kind="keyframes") for one in dataset.sets))
    monkeypatch.setattr("ctxr.pipelines.inspection.stats.open_dataset", lambda *_, **__: dataset)
    report = run(Stats(dataset=release, tokenizer="regex"))
    assert cells(report.tables["splits"])["all"][0] == 4
    language = report.tables["language"]
    assert language.columns[1:] == ("all", "keyframes")
    assert all(row[1] == row[2] for row in language.rows)


def test_counts_and_positions_can_be_counted_by_hand(tmp_path: Path) -> None:
    report = run(Stats(dataset=write_release(tmp_path), tokenizer="spacy"))
    splits = cells(report.tables["splits"])
    assert splits["train"] == (2, 1, 20, 3, 1, 3)
    assert splits["test"] == (1, 0, 10, 2, 0, 0)
    assert splits["all"] == (4, 1, 40, 7, 1, 5)
    assert report.tables["sources"].rows == (("MSR-VTT", "video", 3, 6), ("open-images", "photos", 1, 1))
    positions = cells(report.tables["positions"])
    assert positions["all"][:10] == (1, 0, 0, 1, 1, 1, 0, 0, 0, 1)
    mentions = cells(report.tables["mentions"])
    assert mentions["body parts"] == pytest.approx((400 / 7, 400 / 6, 0))
    assert mentions["colours"] == pytest.approx((200 / 7, 100 / 6, 100))
    assert cells(report.tables["language"])["mean sentences"] == pytest.approx((8 / 7, 7 / 6, 1))
    assert report.tokenizer.startswith("spaCy")
    assert "writers" not in report.tables


def test_a_video_in_two_splits_is_a_leak_with_an_example_and_a_photo_set_without_an_album_is_none(
    tmp_path: Path,
) -> None:
    more = {**TEST, "open-images-5_x": ["A dog."], "open-images-6_y": ["A cat."]}
    table = run(Stats(dataset=write_release(tmp_path, test=more), tokenizer="regex")).tables["leakage"]
    shared = {(row[0], row[1]): row[2:4] for row in table.rows}
    assert shared["source video or album", "valid – test"] == (1, 1)
    assert shared["source video or album", "train – valid"] == (0, 1)
    assert any("shot1_0 (valid) and MSR-VTT-videoTest_video7-shot2_1 (test)" in line for line in table.examples)
    assert "no pictures to" in table.note


def test_a_p_value_is_left_out_below_five_expected_and_never_shown_as_zero(tmp_path: Path) -> None:
    few = run(Stats(dataset=write_release(tmp_path / "few"), tokenizer="regex")).tables["positions"]
    assert cells(few)["all"][10] is None
    train = {f"v{number}-shot0_0": {"3": "That one."} for number in range(50)}
    folder = write_release(tmp_path / "many", train=train, valid=None, test=None)
    assert cells(run(Stats(dataset=folder, tokenizer="regex")).tables["positions"])["all"][10] < 0.001
    shown = runner.invoke(app, ["stats", str(folder), "--tokenizer", "regex"]).stdout
    assert "<0.0" in shown
    assert "0.000" not in shown


def test_copies_and_near_duplicates_across_splits_are_found(tmp_path: Path) -> None:
    folder = write_release(tmp_path, test=None)
    draw_sets(folder, [TRAIN_SET, VALID_SET])
    pictures = folder / "image-sets"
    (pictures / VALID_SET / "img9.jpg").write_bytes((pictures / TRAIN_SET / "img8.jpg").read_bytes())
    with Image.open(pictures / TRAIN_SET / "img15.jpg") as opened:
        opened.convert("RGB").save(pictures / VALID_SET / "img16.jpg", quality=97)
    report = run(Stats(dataset=folder, tokenizer="regex", encoder="ctxr-tiny", device="cpu"))
    rows = {row[0].split(" (")[0]: row for row in report.tables["leakage"].rows}
    assert rows["same file"][2:4] == (1, 10)
    assert rows["look within 0.02"][2:4] == (2, 10)
    assert rows["look within 0.02"][4] == 0.0
    by_embedding = next(row for name, row in rows.items() if name.startswith("embedding"))
    assert by_embedding[2] >= 1
    assert by_embedding[4] == pytest.approx(0, abs=1e-3)
    assert any(
        f"{TRAIN_SET}/img15 (train) and {VALID_SET}/img16 (valid)" in line for line in report.tables["leakage"].examples
    )
    assert cells(report.tables["distances"])["video"][0] == 2
    skipped = run(Stats(dataset=folder, tokenizer="regex", skip_pictures=True)).tables["leakage"]
    assert "were not opened" in skipped.note
    assert not any(row[0].startswith("look") for row in skipped.rows)


def test_the_toy_world_shows_its_own_tags(tmp_path: Path) -> None:
    folder = write_world_dataset(tmp_path / "dataset")
    report = run(Stats(dataset=folder, tokenizer="regex"))
    judged = [json.loads(line) for line in (folder / "judgments.jsonl").read_text().splitlines()]
    spatial = [row["value"] for row in judged if row["candidate"] == "spatial"]
    assert cells(report.tables["phenomena"])["spatial"][0] == pytest.approx(100 * sum(spatial) / len(spatial))
    assert cells(report.tables["splits"])["valid"][:2] == (2, 1)
    assert cells(report.tables["distances"])["video"] == pytest.approx((6, 0.2, 0.1))
    assert any(row[0].startswith("look within") for row in report.tables["leakage"].rows)
    assert "published" not in report.tables


def test_what_cannot_be_said_is_one_line_each(tmp_path: Path) -> None:
    report = run(Stats(dataset=write_release(tmp_path, valid=None, test=None), tokenizer="regex"))
    said = "\n".join(report.missing)
    assert all(part in said for part in ("no distances", "phenomena are not", "leakage needs two", "tree depth"))


def test_another_tokenizer_never_counts_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    result = runner.invoke(app, ["stats", str(write_release(tmp_path))])
    assert result.exit_code == 0
    assert "warning: spaCy is not" in result.stderr
    assert "tokens by regex" in result.stdout
    refused = runner.invoke(app, ["stats", str(tmp_path), "--tokenizer", "spacy"])
    assert refused.exit_code == 2
    assert "pip install spacy" in refused.stderr


def test_a_parsing_model_adds_tree_depth(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")

    def chain(document: Any) -> Any:
        """Each word under the one before it."""
        heads = [max(0, place - 1) for place in range(len(document))]
        words, spaces = [token.text for token in document], [bool(token.whitespace_) for token in document]
        return spacy.tokens.Doc(document.vocab, words, spaces, heads=heads, deps=["dep"] * len(words))

    spacy.Language.component("chain", func=chain)
    nlp.add_pipe("chain", name="parser")
    nlp.to_disk(tmp_path / "model")
    report = run(Stats(dataset=write_release(tmp_path / "release"), parser=str(tmp_path / "model")))
    found = cells(report.tables["language"])
    assert found["mean tree depth"] == pytest.approx([length - 1 for length in found["mean length (tokens)"]])
    assert not any("tree depth" in line for line in report.missing)
    assert "part" in cells(report.tables["published"])["mean tree depth"][2]


def test_json_on_stdout_and_in_the_file_say_the_same_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("work").mkdir()
    folder = write_release(tmp_path / "release")
    results = [
        runner.invoke(app, ["stats", str(folder), "--json", "--out", str(tmp_path / f"{name}.json")]) for name in "ab"
    ]
    assert [result.exit_code for result in results] == [0, 0]
    assert results[0].stdout == results[1].stdout
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    said = json.loads(results[0].stdout)
    assert said.pop("next")
    assert said == json.loads((tmp_path / "a.json").read_text())


def test_without_a_dataset_the_latest_of_the_project_is_taken_and_named(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="finished image sets"):
        run(Stats(workdir=tmp_path))
    write_world_dataset(tmp_path / "dataset", sets=1)
    result = runner.invoke(app, ["stats", "-w", str(tmp_path)])
    assert result.exit_code == 0
    assert f"looking at {tmp_path / 'dataset'}" in result.stderr.replace("\n", "")


@pytest.mark.parametrize("wrong", [{"near": -1.0}, {"tokenizer": "nltk"}, {"out": Path()}])
def test_wrong_arguments_are_refused_before_anything_is_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        run(Stats(**{"dataset": Path("nowhere"), **wrong}))


def test_markup_in_names_is_shown_and_a_broken_release_is_one_sentence(tmp_path: Path) -> None:
    write_release(tmp_path, train={"[red]x": {"1": "y"}}, valid=None, test=None)
    result = runner.invoke(app, ["stats", str(tmp_path), "--tokenizer", "regex"])
    assert (result.exit_code, "[red]x" in result.stdout) == (0, True)
    (tmp_path / "valid_data.json").write_text('{"s": {"11": "x"}}')
    result = runner.invoke(app, ["stats", str(tmp_path), "--tokenizer", "regex"])
    assert (result.exit_code, "target 11 is out" in result.stderr) == (3, True)


def test_the_real_valid_split_has_the_published_counts(real_files: Path) -> None:
    report = run(Stats(dataset=real_files / "imagecode", tokenizer="spacy"))
    beside = cells(report.tables["published"])
    whole = [name for name in beside if name.startswith("valid")]
    assert len(whole) == 9
    assert {beside[name][2] for name in whole} == {"same"}
    assert {row[0]: row[2:4] for row in report.tables["leakage"].rows if row[1] == "valid – test"}[
        "source video or album"
    ] == (28, 70)


def test_a_file_that_is_no_statistics_is_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "holiday.mp4"
    victim.write_bytes(b"a video")
    (tmp_path / "cap.json").write_text(
        '{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"id": 1, "image_id": 1, "caption": "a cat"}]}'
    )
    with pytest.raises(UsageError, match=r"holiday\.mp4 is not"):
        run(Stats(dataset=tmp_path / "cap.json", out=victim))
    assert victim.read_bytes() == b"a video"
    for _ in range(2):
        run(Stats(dataset=tmp_path / "cap.json", out=tmp_path / "stats.json"))


def test_the_lexicons_hold_what_they_are_named_after_in_lower_case() -> None:
    body, colours = ([word for forms in load_lexicon(name) for word in forms] for name in ("body_parts", "colours"))
    assert all(re.fullmatch(r"[a-z]+", word) for word in body + colours)
    assert {"hand", "hands", "teeth", "eye"} <= set(body)
    assert {"red", "grey", "gray", "blonde"} <= set(colours)
    assert not set(body) & set(colours)
    assert [len(load_lexicon(name)) for name in ("body_parts", "colours")] == [90, 51]


def test_a_mention_is_a_whole_token() -> None:
    parsed = [ParsedText(("a", "red", "hat"), 1), ParsedText(("a", "redhead"), 1)]
    assert (mention_percent(parsed, [["red"]]), mention_percent([], [["red"]])) == (50, None)


@pytest.fixture(scope="module")
def built(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of two videos and an album; clip2 is a copy of clip1, and is on another side."""
    folder = tmp_path_factory.mktemp("leaky")
    videos = folder / "videos"
    videos.mkdir()
    for name in ("clip1", "clip2"):
        (videos / f"{name}.mp4").write_bytes((footage / "videos" / "clip1.mp4").read_bytes() + name.encode())
    (folder / "splits.csv").write_text("clip1,train\nclip2,test\nalbum,valid\n")
    sources = (str(videos), str(footage / "photos" / "album"))
    out = folder / "sets"
    options = {"encoder": "ctxr-tiny", "threshold": float(THRESHOLD), "device": "cpu"}
    build(BuildSets(sources=sources, out=out, splits=folder / "splits.csv", **options))  # type: ignore[arg-type]
    return out


def test_embeddings_belong_to_their_images(built: Path) -> None:
    dataset = read_dataset(built)
    vectors = picture_vectors_of(dataset, None, "cpu", Silent())
    assert vectors is not None
    assert vectors.by_image.keys() == dataset.images.keys()
    again = distances_of(dataset, vectors)
    for image_set in dataset.sets:
        assert again[image_set.id] == pytest.approx((image_set.mean_distance, image_set.closest), abs=2e-3)
    names = sorted(dataset.images)[::7]
    pictures = [read_image(file) for name in names if (file := dataset.picture(dataset.images[name])) is not None]
    fresh = load_drawn("ctxr-tiny", "cpu").encode_images(pictures)
    alike = (fresh * [vectors.by_image[name] for name in names]).sum(1)
    # the ledger's are of decoded frames, these of the saved JPEG
    assert alike.min() > 0.99


def test_a_copied_video_on_another_side_leaks_by_file_embedding_and_look(built: Path) -> None:
    table = run(Stats(dataset=built)).tables["leakage"]
    rows = {(row[0].split(" (")[0].split(" within")[0], row[1]): row[2:] for row in table.rows}
    images = rows["same file", "train – test"][1]
    assert rows["source video or album", "train – test"][0] == 0
    for what in ("same file", "embedding", "look"):
        assert rows[what, "train – test"][:2] == (images, images)
        assert rows[what, "train – valid"][0] == 0
    assert any("clip1/img" in line and "clip2/img" in line for line in table.examples)


def test_a_damaged_picture_is_left_out_and_said(built: Path) -> None:
    progress = Note()
    broken = sorted((built / "images").rglob("img*.jpg"))[:2]
    before = [file.read_bytes() for file in broken]
    try:
        for file in broken:
            file.write_bytes(b"")
        run(Stats(dataset=built), progress)
    finally:
        for file, content in zip(broken, before, strict=True):
            file.write_bytes(content)
    (line,) = progress.warned
    assert line.endswith("is empty, and 1 more: left out")


def test_documents_are_counted_by_split_with_their_links(tmp_path: Path) -> None:
    linked = [[["a", 1], ["b", -1]], [["A.", None], ["B.", None], ["C.", None]]]
    silent = [[["c", None], ["a", None]], [["D.", None]]]
    file = tmp_path / "docs.json"
    file.write_text(json.dumps({"train": [linked, silent], "test": [silent]}))
    report = run(Stats(file, tokenizer="regex", out=tmp_path / "stats.json"))
    assert set(report.tables) == {"documents", "leakage"}
    assert cells(report.tables["documents"]) == {
        "train": (2, 4, 3, 1, 3, 2.0, 2.0, pytest.approx(100 / 6)),
        "test": (1, 1, 2, 0, 0, 1.0, 2.0, None),
        "all": (3, 5, 3, 1, 3, 1.0, 2.0, pytest.approx(100 / 6)),
    }
    assert set(json.loads((tmp_path / "stats.json").read_text())["tables"]) == {"documents", "leakage"}
    image = {"image_name": "x", "matched_text_index": 0}
    row = {"text_list": ["A."], "image_info": [image], "similarity_matrix": [[1]]}
    (tmp_path / "mmc4.jsonl").write_text(json.dumps(row))
    table = run(Stats(tmp_path / "mmc4.jsonl", tokenizer="regex")).tables["documents"]
    assert cells(table)["no split"] == (1, 1, 1, 1, 0, 1.0, 1.0, 100.0)
    assert "mmc4" in table.note


@pytest.mark.parametrize(
    "command",
    [
        ("shortcuts", "FILE"),
        ("listen", "FILE", "--endpoint", "http://127.0.0.1:9", "--model", "x"),
        ("revise-labels", "FILE"),
        ("export-tasks", "retrieve", "--input", "FILE"),
        ("train", "--recipe", "clip-batch", "--set", "encoder=ctxr-tiny", "--dataset", "FILE"),
    ],
)
def test_commands_about_image_sets_refuse_documents(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "docs.json"
    file.write_text(json.dumps({"test": [[[["a", 0]], [["A.", 0]]]]}))
    result = runner.invoke(
        app, [file.as_posix() if word == "FILE" else word for word in command] + ["-w", str(tmp_path)]
    )
    assert result.exit_code == 2
    assert "links-ap" in result.output
