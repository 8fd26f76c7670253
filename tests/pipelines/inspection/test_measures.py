"""What is counted in releases for published figures, against the slow way on small ones; and how releases are found."""

import json
import re
from collections.abc import Mapping, Sized
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.metrics.language import ParsedText
from ctxr.metrics.proportions import exact_interval
from ctxr.pipelines.inspection.config import Found
from ctxr.pipelines.inspection.lexicon import load_lexicon
from ctxr.pipelines.inspection.measures import MEASURES, NotHere, Release, mean_of, releases_in
from tests.datasets.readers.test_photochat import TALK, put, row
from tests.releases import TEST, TRAIN, VALID, annotation_yaml, write_release

PHOTOS = [*TRAIN][1]


def measured(release: Release, measure: str, /, **of: str) -> Found:
    return MEASURES[measure](release, **of)


@pytest.fixture
def imagecode(tmp_path: Path) -> Release:
    folder = write_release(tmp_path / "imagecode")
    (video,) = VALID
    rows = [(video, 3, "con,neg"), (video, 4, "neg")]
    (folder / "manual_annotation_valid.yaml").write_text(annotation_yaml(rows))
    writers = {video: {"3": "train_worker", "4": "unseen_worker"}}
    (folder / "annotator_split_valid.json").write_text(json.dumps(writers))
    (release,) = releases_in(tmp_path, ("imagecode",))
    return release


def test_counts_of_imagecode_are_those_of_its_files(imagecode: Release) -> None:
    files: dict[str, Mapping[str, Sized]] = {"train": TRAIN, "valid": VALID, "test": TEST}
    assert measured(imagecode, "sets") == Found(sum(len(sets) for sets in files.values()), 4)
    for split, sets in files.items():
        texts = sum(len(one) for one in sets.values())
        assert measured(imagecode, "descriptions", split=split) == Found(texts, len(sets))
    named = sum(len(texts) for sets in files.values() for name, texts in sets.items() if name.startswith("MSR-VTT"))
    assert measured(imagecode, "descriptions", collection="MSR-VTT") == Found(named, 4)
    for writer in ("train_worker", "unseen_worker"):
        assert measured(imagecode, "descriptions", writer=writer) == Found(1, 2)


def test_phenomena_are_shares_of_what_was_looked_at(imagecode: Release) -> None:
    for name, hits in (("context", 1), ("negation", 2), ("spatial", 0)):
        low, high = exact_interval(hits, 2)
        assert measured(imagecode, "phenomenon", name=name, part="all") == Found(
            50 * hits, 2, low=100 * low, high=100 * high
        )
    with pytest.raises(NotHere, match="manual_annotation"):
        measured(imagecode, "phenomenon", name="context", part="photos")


def test_language_is_counted_by_description(imagecode: Release) -> None:
    body = load_lexicon("body_parts")[0][0]
    parsed = {
        "MSR-VTT-videoTrain_video1-shot0_0/0": ParsedText(("a", body, "."), 1, (2,)),
        "MSR-VTT-videoTrain_video1-shot0_0/5": ParsedText(("a", "b", "c", "d", "e"), 3, (1, 4, 2)),
        f"{PHOTOS}/9": ParsedText(("a",), 2, (0, 1)),
    }
    vars(imagecode)["parsed"] = parsed
    lengths, texts = [3, 5, 1], [*parsed.values()]
    found, half = measured(imagecode, "length"), 1.959964 * stdev(lengths) / 3**0.5
    assert (found.value, found.items) == (mean(lengths), 3)
    assert [found.low, found.high] == pytest.approx([3 - half, 3 + half])
    assert measured(imagecode, "word-types") == Found(len({word for text in texts for word in text.tokens}), 3)
    assert measured(imagecode, "sentences").value == 2
    assert measured(imagecode, "three-or-more").value == pytest.approx(100 / 3)
    assert measured(imagecode, "depth").value == pytest.approx((2 + 4 + 1) / 3)
    for part, hits, texts_of in (("video", 1, 2), ("photos", 0, 1)):
        low, high = exact_interval(hits, texts_of)
        wanted = Found(100 * hits / texts_of, texts_of, low=100 * low, high=100 * high)
        assert measured(imagecode, "mentions", lexicon="body_parts", part=part) == wanted
    parsed[f"{PHOTOS}/9"] = ParsedText(("a",), 1)
    with pytest.raises(NotHere, match="en_core_web_sm"):
        measured(imagecode, "depth")


def test_descriptions_are_those_of_the_release(imagecode: Release) -> None:
    assert len(imagecode.texts()) == sum(len(texts) for sets in (TRAIN, VALID, TEST) for texts in sets.values())
    assert len(imagecode.texts("photos")) == 1


def test_dialogues_are_counted_by_split_theme_and_turn(tmp_path: Path) -> None:
    talks = [TALK, [(0, "It's big_1."), (1, "So?"), (1, None)], [(1, "a b"), (0, "c"), (0, "d"), (1, None), (0, "e")]]
    labels = ["Dog, Man", "Refrigerator", "Bread, Girl"]
    rows = [row(at, f"p{at % 2}", talk, label) for at, (talk, label) in enumerate(zip(talks, labels, strict=True))]
    put(tmp_path, "chat/dev/dev_0.json", rows)
    (release,) = releases_in(tmp_path, ("photochat",))
    assert measured(release, "dialogues", split="valid", of="dialogues") == Found(3, 3)
    assert measured(release, "dialogues", split="train", of="dialogues") == Found(0, 0)
    assert measured(release, "dialogues", split="valid", of="photos") == Found(2, 3)
    said = [[text for _, text in talk if text] for talk in talks]
    words = [re.findall(r"[\w']+", text) for texts in said for text in texts]
    assert measured(release, "dialogues", split="valid", of="tokens").value == sum(map(len, words))
    assert measured(release, "dialogues", split="valid", of="turns").value == sum(map(len, talks))
    merged = negatives = 0
    for talk in talks:
        before = [user for user, _ in talk[: [text for _, text in talk].index(None)]]
        changes = sum(one != other for one, other in pairwise(before))
        negatives += changes
        merged += changes + 1 + len(talk) - len(before)
    assert measured(release, "dialogues", split="valid", of="merged").value == merged
    assert measured(release, "dialogues", split="valid", of="negatives").value == negatives
    # a photo of two dialogues has the labels of both
    assert measured(release, "dialogues", split="valid", of="theme", theme="people").value == 2
    assert measured(release, "dialogues", split="valid", of="theme", theme="products").value == 1
    assert (
        measured(release, "dialogues", split="valid", of="theme", theme="products", without="Refrigerator").value == 0
    )


def test_turns_need_speakers(tmp_path: Path) -> None:
    copy = {"0": [["txt", "Hi!"], ["img", "a.jpg", "Objects in the photo: Man"]]}
    put(tmp_path, "dev.json", copy)
    (release,) = releases_in(tmp_path, ("photochat",))
    assert measured(release, "dialogues", split="valid", of="dialogues").value == 1
    with pytest.raises(NotHere, match="speakers"):
        measured(release, "dialogues", split="valid", of="turns")


def test_copies_of_dialogues_in_one_folder_are_releases_of_their_own(tmp_path: Path) -> None:
    put(tmp_path, "dev.json", [row(0), row(1, "b")])
    put(tmp_path, "dev_00.json", [row(0)])
    files = releases_in(tmp_path, ("photochat",))
    assert [measured(file, "dialogues", split="valid", of="dialogues").value for file in files] == [2, 1]
    put(tmp_path, "dev_00.json", '[{"dialogue": [{"share_photo": tru')
    *_, damaged = releases_in(tmp_path, ("photochat",))
    with pytest.raises(DataError, match=r"dev_00\.json"):
        measured(damaged, "dialogues", split="valid", of="dialogues")


def test_pairs_are_rows_of_a_dataset_and_its_splits(tmp_path: Path) -> None:
    rows = "index\tsentence1\tsentence2\tlabel\n0\tA dog.\tA pet.\tentailment\n1\tA cat.\tA dog.\tnot_entailment\n"
    put(tmp_path, "pairs/rte_train.tsv", rows)
    put(tmp_path, "pairs/rte_dev.tsv", rows)
    put(tmp_path, "pairs/notes.csv", "a,b\n1,2\n")
    (release,) = releases_in(tmp_path, ("entailment",))
    assert [file.name for file in release.files] == ["rte_dev.tsv", "rte_train.tsv"]
    assert measured(release, "pairs", source="rte", splits="train") == Found(2, 2)
    assert measured(release, "pairs", source="rte") == Found(4, 4)
    for source, splits in (("rte", "test"), ("mrpc", "train")):
        with pytest.raises(NotHere, match=source):
            measured(release, "pairs", source=source, splits=splits)


def test_a_folder_without_a_release_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "deep/er/than/that/valid_data.json", VALID)
    put(tmp_path, "notes.json", {"a": 1})
    with pytest.raises(UsageError, match=re.escape(str(tmp_path))):
        releases_in(tmp_path, ("imagecode", "photochat"))
    put(tmp_path, "two/deep/valid_data.json", VALID)
    assert [one.path.name for one in releases_in(tmp_path, ("imagecode", "photochat"))] == ["deep"]


def test_sets_of_others_in_the_form_of_imagecode_are_not_its_release(tmp_path: Path) -> None:
    write_release(tmp_path, train=None, test=None, valid={"my-video-shot0_0": {"1": "A hat."}})
    (release,) = releases_in(tmp_path, ("imagecode",))
    with pytest.raises(NotHere):
        measured(release, "sets")


def test_a_mean_of_nothing_is_not_here() -> None:
    with pytest.raises(NotHere):
        mean_of([])
    assert mean_of([2.5, 2.5]) == Found(2.5, 2, low=2.5, high=2.5)
