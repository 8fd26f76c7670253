"""`python -m scripts.text_branch_proof`: no fold is judged by what saw it, and what is printed is what was judged."""

from pathlib import Path

import pytest

from scripts.text_branch_proof import FOLDS, commoner, main, read_rows, with_sides
from tests.models.bert_folder import make_bert

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "blue", "cat", "dog", "runs", "sleeps", "."]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    lines = ["index\tsentence1\tsentence2\tlabel"]
    for number in range(40):
        color, other = ("red", "blue")[number % 2], ("red", "blue")[number // 2 % 2]
        label = "entailment" if color == other and number % 8 else "not_entailment"
        lines.append(f"{number}\ta {color} cat sleeps {number % 20} .\ta {other} cat .\t{label}")
    (folder / "rte_train.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_folds_part_premises_and_the_commoner_answer_is_that_of_other_folds(rows: Path) -> None:
    pairs = read_rows(rows)
    held = []
    for fold in range(FOLDS):
        sided = with_sides(pairs, fold)
        groups = {side: {one.group for one in sided if one.split == side} for side in ("train", "valid", "test")}
        assert not groups["test"] & (groups["train"] | groups["valid"])
        assert not groups["train"] & groups["valid"]
        rest = [one.label for one in sided if one.split != "test"]
        assert commoner(pairs)["rte", fold] == (2 * sum(rest) > len(rest))
        held += [one.id for one in sided if one.split == "test"]
    assert sorted(held) == sorted(one.id for one in pairs)


def test_every_row_is_judged_once_by_an_encoder_of_the_published_layout(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_bert(tmp_path / "model", words=WORDS)
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    asks = [str(tmp_path / "proof"), "--model", str(model), "--rows", str(rows), "--set", "epochs=1"]
    assert main(asks) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:]] == ["rte, 0", "all, 0"]
    assert {line.split("|")[2].strip() for line in table[2:]} == {"40"}
    assert main([*asks[:4], str(tmp_path)]) == 3
    assert "mrpc, rte, sts-b" in capsys.readouterr().err
