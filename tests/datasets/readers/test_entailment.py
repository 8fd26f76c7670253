"""Published entailment files in their own formats, clean and dirty; the samples are written for these tests."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as arrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from ctxr.datasets.readers.entailment import Captions, PairFile, read_captions, read_pairs, tally
from ctxr.errors import CtxrError, DataError, UsageError

CAPTIONS = Captions(
    {"coco/7": "A cat sleeps.", "coco/8": "A cat on a mat.", "coco/9": "Two boats."},
    {"coco/431": ["coco/7", "coco/8"], "coco/5": ["coco/9"]},
    {"coco/431": "valid"},
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def codes(reading: PairFile) -> list[tuple[int, str, bool]]:
    return [(int(one.where.rpartition(":")[2]), one.code, one.kept) for one in reading.issues]


def whole(reading: PairFile) -> None:
    """Every row is a pair or has one reason why it is none, and ids are unique."""
    assert reading.rows == len(reading.pairs) + len(reading.left_out)
    assert len({pair.id for pair in reading.pairs}) == len(reading.pairs)


SAMPLES = {
    "cxc_sits_test.csv": (
        "caption,image,agg_score,sampling_method\nCOCO_val2014:sentid:7,COCO_val2014_000000000431.jpg,3.0,c2i_original\n"
        "COCO_val2014:sentid:9,COCO_val2014_000000000431.jpg,2.99,c2i_intrasim\n",
        "cxc", [1, 0], "test",
    ),
    "sts_val.csv": (
        "caption1,caption2,agg_score,sampling_method\nCOCO_val2014:sentid:7,COCO_val2014:sentid:8,4.1,x\n"
        "COCO_val2014:sentid:7,COCO_val2014:sentid:9,0.2,x\n",
        "cxc-sts", [1, 0], "valid",
    ),
    "snli_ve_train.jsonl": (
        '{"Flickr30K_ID": "77", "Flikr30kID": "77.jpg", "gold_label": "neutral", "pairID": "77.jpg#1r1n", '
        '"sentence1": "A man runs.", "sentence2": "A man is late."}\n'
        '{"Flickr30K_ID": "77", "Flikr30kID": "77.jpg", "gold_label": "entailment", "pairID": "77.jpg#1r1e", '
        '"sentence1": "A man runs.", "sentence2": "Somebody moves."}\n',
        "snli-ve", [0, 1], "train",
    ),
    "esnlive_dev.csv": (
        ",pairID,Flickr30kID,hypothesis,gold_label,explanation\n"
        '0,77.jpg#1r1c,77.jpg,"A man sits, alone.",contradiction,"He ""runs""."\n1,77.jpg#1r1e,77.jpg,It moves.,entailment,\n',
        "e-snli-ve", [0, 1], "valid",
    ),
    "msr_paraphrase_test.txt": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\t" It rose , "\tIt went up .\n0\t5\t9\tIt rose .\tHe left .\n',
        "mrpc", [1, 0], "test",
    ),
    "RTE_dev.tsv": (
        'index\tsentence1\tsentence2\tlabel\n0\t"He" left.\tHe went.\tentailment\n1\tIt is.\tIt "was.\tnot_entailment\n',
        "rte", [1, 0], "valid",
    ),
    "STS-B_train.tsv": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tnews\tf\t2012\t1\tnone\tnone\tA dog.\tA hound.\t3.000\n1\tnews\tf\t2012\t2\tnone\tnone\tA dog.\tA cup.\t2.999\n",
        "sts-b", [1, 0], "train",
    ),
    "sts-train.csv": (
        "news\tf\t2012\t0001\t3.000\tA dog.\tA hound.\nnews\tf\t2012\t0002\t1.0\tA dog.\tA cup.\tmore\tand more\n",
        "sts-b", [1, 0], "train",
    ),
    "quora_duplicate_questions.tsv": (
        'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tWhy?\tHow come?\t1\n1\t3\t4\t"What is\n""it""?"\tWho?\t0\n',
        "qqp", [1, 0], None,
    ),
    "xnli.dev.tsv": (
        "language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\n"
        "en\tentailment\tIt rains.\tIt is wet.\t1\t1\nen\tcontradiction\tIt rains.\tIt is dry.\t1\t2\n",
        "xnli", [1, 0], "valid",
    ),
    "multinli.train.en.tsv": (
        "premise\thypo\tlabel\nIt rains .\tIt is wet .\tentailment\nIt rains .\tIt is dry .\tcontradictory\n",
        "xnli", [1, 0], "train",
    ),
    "multinli_1.0_train.jsonl": (
        '{"annotator_labels": ["entailment"], "gold_label": "entailment", "pairID": "1e", "promptID": "1", "sentence1": "It rains.", '
        '"sentence2": "It is wet."}\n{"annotator_labels": [], "gold_label": "neutral", "pairID": "1n", "promptID": "1", '
        '"sentence1": "It rains.", "sentence2": "It is Monday."}\n',
        "mnli", [1, 0], "train",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_known_by_its_columns_and_its_labels_become_two(name: str, tmp_path: Path) -> None:
    content, source, labels, split = SAMPLES[name]
    found = read_pairs(write(tmp_path, name, content), captions=CAPTIONS)
    whole(found)
    assert found.source == source
    assert [pair.label for pair in found.pairs] == labels
    assert {pair.split for pair in found.pairs} == {split}
    assert len({pair.group for pair in found.pairs}) == (
        2 if name.startswith("quora") else len({p.image or p.premise for p in found.pairs})
    )
    assert not found.left_out


QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
CXC = "caption,image,agg_score,sampling_method\n"
PICTURE = "COCO_val2014_000000000431.jpg"
RTE = "index\tsentence1\tsentence2\tlabel\n"

ODD: dict[str, tuple[str | bytes, list[tuple[int, str, bool]], list[str | None]]] = {
    "quotes are letters": (SAMPLES["RTE_dev.tsv"][0], [], ['"He" left.', "It is."]),
    "line ends of Windows": (SAMPLES["RTE_dev.tsv"][0].replace("\n", "\r\n"), [], ['"He" left.', "It is."]),
    "another language": (
        SAMPLES["xnli.dev.tsv"][0] + "de\tneutral\tEs regnet.\tEs ist Montag.\t1\t3\n",
        [(4, "language", False)], ["It rains.", "It rains."],
    ),
    "a quoted question spans lines": (SAMPLES["quora_duplicate_questions.tsv"][0], [], ["Why?", 'What is\n"it"?']),
    "an open quote": (
        QQP + '99\t1\t2\t"What?\tWho?\t1\n' + "".join(f"{n}\t1\t2\tQuestion {n}?\tAnother {n}?\t0\n" for n in range(60)),
        [(2, "quotes", True)], ['"What?', *(f"Question {n}?" for n in range(60))],
    ),
    "an open quote and a quoted cell": (
        "premise,hypo,label\n\"Open,x,neutral\nShut,\"b\",entailment\nPlain.,c,entailment\n",
        [(2, "quotes", True)], ['"Open', "Shut", "Plain."],
    ),
    "an open quote and one at the end of the next row": (
        QQP + '0\t1\t2\t"Open\tWho?\t1\n1\t3\t4\tIs it "shut"\tNo?\t0\n2\t5\t6\t"Both"\tYes?\t0\n',
        [(2, "quotes", True)], ['"Open', 'Is it "shut"', "Both"],
    ),
    "Windows-1252": (
        RTE.encode() + b"0\tA caf\xe9 \x93open\x94.\tA place.\tentailment\n1\tB\x81.\tC.\tentailment\n",
        [(2, "encoding", True), (3, "encoding", True)], ["A caf\u00e9 \u201copen\u201d.", "B\x81."],
    ),
    "a byte order mark": ("\ufeff" + MRPC + "1\t5\t6\tA.\tB.\n", [(1, "byte_order_mark", True)], ["A."]),
    "a mark that was saved twice": ("\u00ef\u00bb\u00bf" + MRPC + "1\t5\t6\tA.\tB.\n", [(1, "byte_order_mark", True)], ["A."]),
    "repeats without an id": (
        MRPC + "1\t5\t6\tA.\tB.\n1\t5\t6\tA.\tB.\n0\t5\t6\tA.\tB.\n",
        [(3, "repeated", False), (4, "other_label", True)], ["A.", "A."],
    ),
    "no score and no picture": (
        CXC + f"x:sentid:7,{PICTURE},nan,a\nx:sentid:7,{PICTURE},5.1,a\nx:sentid:7,cat.png,4,a\nx:sentid:,{PICTURE},4,a\n",
        [(2, "score", False), (3, "score", False), (4, "image", False), (5, "image", False)], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_rows_are_told_of_and_cost_no_other_row(name: str, tmp_path: Path) -> None:
    content, odd, premises = ODD[name]
    reading = read_pairs(write(tmp_path, "x_train.tsv", content))
    whole(reading)
    assert codes(reading) == odd
    assert [pair.premise for pair in reading.pairs] == premises


def test_rows_of_another_width_are_left_out_and_told_of(tmp_path: Path) -> None:
    content = "index\tsentence1\tsentence2\tlabel\n0\tA\ttab\tB.\tentailment\n1\tA.\n\n2\tA.\tB.\tentailment\t\t\n"
    found = read_pairs(write(tmp_path, "rte_train.tsv", content))
    whole(found)
    assert codes(found) == [(2, "columns", False), (3, "columns", False)]
    (line,) = tally(found.issues)
    assert line.startswith("2 rows left out, columns: 5 ")
    assert line.endswith(f"(first {tmp_path / 'rte_train.tsv'}:2)")
    assert [pair.hypothesis for pair in found.pairs] == ["B."]


def test_repeats_are_left_out_and_contradictions_kept(tmp_path: Path) -> None:
    lines = [
        {"gold_label": "neutral", "pairID": "1", "promptID": "1", "sentence1": "A.", "sentence2": "B."},
        {"gold_label": "neutral", "pairID": "1", "promptID": "1", "sentence1": "A.", "sentence2": "B."},
        {"gold_label": "entailment", "pairID": "1", "promptID": "1", "sentence1": "A.", "sentence2": "B."},
        {"gold_label": "neutral", "pairID": "1", "promptID": "1", "sentence1": "A.", "sentence2": "C."},
        {"gold_label": "-", "pairID": "5", "promptID": "1", "sentence1": "A.", "sentence2": "D."},
        {"gold_label": "hidden", "pairID": "6", "promptID": "1", "sentence1": "A.", "sentence2": "E."},
        {"gold_label": "neutral", "pairID": "7", "promptID": "1", "sentence1": " ", "sentence2": "E."},
    ]
    content = "\n".join([*map(json.dumps, lines), "{broken", "[1]"])
    found = read_pairs(write(tmp_path, "mnli_train.jsonl", content))
    whole(found)
    assert codes(found) == [
        (2, "repeated", False), (3, "other_label", True), (3, "same_id", True), (4, "same_id", True),
        (5, "no_consensus", False), (6, "label", False), (7, "empty_text", False), (8, "not_json", False), (9, "not_json", False),
    ]  # fmt: skip
    assert [pair.id for pair in found.pairs] == ["mnli/train/1", "mnli/train/1:3", "mnli/train/1:4"]


def test_captions_without_their_text_stay_apart(tmp_path: Path) -> None:
    row = "COCO_val2014:sentid:{},COCO_val2014:sentid:8,{},x"
    content = "\n".join(["caption1,caption2,agg_score,sampling_method", row.format(7, 4.1), row.format(6, 0.2)])
    found = read_pairs(write(tmp_path, "sts_val.csv", content))
    whole(found)
    assert [(pair.hypothesis, pair.caption, pair.kind) for pair in found.pairs] == [(None, "coco/8", "none")] * 2
    assert len({pair.group for pair in found.pairs}) == 2


def test_the_premise_of_a_picture_leaves_the_hypothesis_out(tmp_path: Path) -> None:
    found = read_pairs(write(tmp_path, "cxc_sits.csv", SAMPLES["cxc_sits_test.csv"][0]), captions=CAPTIONS)
    assert [(pair.premise, pair.hypothesis, pair.kind, pair.split) for pair in found.pairs] == [
        ("A cat on a mat.", "A cat sleeps.", "both", "valid"),
        ("A cat sleeps. A cat on a mat.", "Two boats.", "both", "valid"),
    ]
    assert [(pair.relation, pair.label) for pair in found.pairs] == [("similar", 1), ("dissimilar", 0)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rte_test.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n", "'sentence1', 'sentence2', which is not"),
        ("a.csv", "image1,image2,agg_score,sampling_method\n", "no hypothesis"),
        ("a.tsv", "", "is empty"),
        ("a.tsv", "a\tb\n", "header names 'a', 'b'"),
        ("a.jsonl", '{"broken\n', "a.jsonl.*dataset of entailment"),
        ("a.tsv", b"\xff\xfea\x00", "not UTF-8 text but UTF-16"),
    ],
)  # fmt: skip
def test_a_file_of_no_known_format_is_one_sentence(name: str, content: str | bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        read_pairs(write(tmp_path, name, content))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_pairs(tmp_path / "none.tsv")


def test_captions_are_read_in_both_layouts_whatever_their_number(tmp_path: Path) -> None:
    coco = {"images": [{"id": 5}], "annotations": [{"id": 9, "image_id": 5, "caption": "Two boats."}]}
    sentences = [{"raw": f"Text {n}.", "sentid": n} for n in range(6)]
    karpathy = {
        "dataset": "flickr30k",
        "images": [
            {"filename": "77.jpg", "split": "restval", "sentences": sentences},
            {"filename": "78.jpg", "split": "test", "sentences": []},
        ],
    }
    contents = {"captions_val.json": coco, "dataset.json": karpathy}
    found = read_captions([write(tmp_path, name, json.dumps(content)) for name, content in contents.items()])
    assert found.of_image["coco/5"] == ["coco/9"]
    assert len(found.of_image["flickr30k/77"]) == 6
    assert found.splits == {"flickr30k/77": "train", "flickr30k/78": "test"}
    assert found.premise("flickr30k/77", "flickr30k/0") == "Text 1. Text 2. Text 3. Text 4. Text 5."
    assert found.premise("flickr30k/78") is None


def test_a_caption_with_two_texts_is_refused(tmp_path: Path) -> None:
    rows = [{"id": 9, "image_id": 5, "caption": text} for text in ("One.", "Two.")]
    with pytest.raises(DataError, match=r"caption coco/9 .*different"):
        read_captions([write(tmp_path, "captions.json", json.dumps({"images": [], "annotations": rows}))])


@given(
    st.sampled_from([sample[0].split("\n")[0] for sample in SAMPLES.values()]),
    st.lists(st.text(st.sampled_from('ab"\t,{}:1\u00e9 -\n\r\x00'), max_size=20), max_size=6),
    st.binary(max_size=6),
)
@settings(max_examples=150)
def test_no_content_makes_a_traceback_or_loses_a_row(head: str, lines: list[str], tail: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder), "x_train.tsv", "\n".join([head, *lines]).encode() + tail)
        with suppress(DataError):
            whole(read_pairs(path))


RTE_ROWS = [
    {"sentence1": "A.", "sentence2": "B.", "label": 0, "idx": 0}, {"sentence1": "A.", "sentence2": "C.", "label": 1, "idx": 1},
    {"sentence1": "A.", "sentence2": "D.", "label": -1, "idx": 2},
]  # fmt: skip
NLI_ROWS = [{"premise": "A.", "hypothesis": f"B{n}.", "label": n, "filename": "77.jpg"} for n in (0, 1, 2, 3, -1)]
NAMES = {"WNLI": ["not_entailment", "entailment"], "MRPC": ["not_equivalent", "equivalent"]}


def features(names: list[str]) -> dict[str, object]:
    return {"features": {"label": {"names": names, "_type": "ClassLabel"}, "idx": {"dtype": "int32", "_type": "Value"}}}


def save(folder: Path, name: str, rows: list[dict[str, Any]], names: list[str] | None = None) -> Path:
    """The rows as `datasets` exports them, with the metadata it stores in a parquet file."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    table = arrow.Table.from_pylist(rows)
    if names:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": features(names)})})
    if file.suffix == ".parquet":
        pictures = arrow.array([{"bytes": b"\xff\xd8", "path": "77.jpg"}] * len(rows))
        parquet.write_table(table.append_column("image", pictures), file)
    elif file.suffix == ".csv":
        csv.write_csv(table, file)
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def relations(path: Path) -> tuple[str, list[tuple[str, int]]]:
    found = read_pairs(path)
    whole(found)
    return found.source, [(pair.relation, pair.label) for pair in found.pairs]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_integer_labels_follow_the_named_dataset(ending: str, tmp_path: Path) -> None:
    rte = relations(save(tmp_path, f"glue/rte/validation-00000-of-00001.{ending}", RTE_ROWS))
    assert rte == ("rte", [("entailment", 1), ("not_entailment", 0)])
    three = [("entailment", 1), ("neutral", 0), ("contradiction", 0)]
    plain = [{key: row[key] for key in ("premise", "hypothesis", "label")} for row in NLI_ROWS]
    assert relations(save(tmp_path, f"multi_nli/data/train-00000.{ending}", plain))[1] == three
    pictures = read_pairs(save(tmp_path, f"snli_ve_dev.{ending}", NLI_ROWS))
    assert [(pair.relation, pair.label) for pair in pictures.pairs] == three
    assert {(pair.image, pair.split, pair.source) for pair in pictures.pairs} == {("flickr30k/77", "valid", "snli-ve")}
    assert [one.code for one in pictures.left_out] == ["label", "no_consensus"]


def test_the_metadata_of_an_export_names_its_labels_before_its_path_does(tmp_path: Path) -> None:
    reversed_labels = [("not_entailment", 0), ("entailment", 1)]
    assert relations(save(tmp_path, "rte/train.parquet", RTE_ROWS, NAMES["WNLI"]))[1] == reversed_labels
    file = save(tmp_path, "wnli/train.jsonl", RTE_ROWS)
    write(file.parent, "dataset_info.json", json.dumps(features(NAMES["WNLI"])))
    assert relations(file)[1] == reversed_labels
    assert relations(save(tmp_path, "mrpc/train.parquet", RTE_ROWS, NAMES["MRPC"]))[1] == []


@pytest.mark.parametrize(
    "name", ["train.parquet", "train.csv", "wnli/train.jsonl", "rte/wnli/train.csv", "mrpc_rows.csv"]
)
def test_an_integer_that_nothing_explains_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="what label 0 means") as refused:
        read_pairs(save(tmp_path, name, RTE_ROWS))
    assert "dataset_info.json" in (refused.value.hint or "")


def test_a_parquet_file_needs_pyarrow_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save(tmp_path, "rte/train.parquet", RTE_ROWS)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match="as parquet"):
        read_pairs(file)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CtxrError, match="pyarrow"):
        read_pairs(file)


def test_real_rows_are_all_accounted_for(real_files: Path) -> None:
    folder = real_files / "entailment"
    if not folder.is_dir():
        pytest.skip(f"no entailment rows in {real_files}: set CTXR_REAL_DATA")
    found = {reading.source: reading for reading in map(read_pairs, sorted(folder.iterdir()))}
    for reading in found.values():
        whole(reading)
    assert {name: (one.rows, sum(pair.label for pair in one.pairs)) for name, one in found.items()} == {
        "cxc": (1000, 616), "e-snli-ve": (800, 293), "mrpc": (400, 277), "rte": (400, 188), "sts-b": (400, 188),
    }  # fmt: skip
    assert [one.code for one in found["mrpc"].issues] == ["byte_order_mark"]
