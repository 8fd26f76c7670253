"""Taking descriptions apart: spaCy's rules, a parsing model, and the plain rule that says that it is one."""

import sys
from pathlib import Path

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.metrics.language import tree_depth
from ctxr.models.tokens import MOST_LETTERS, load_tokenizer

TEXT = "The girl's hand isn't up.  It is DOWN... right?"


def test_spacy_splits_contractions_and_the_rule_does_not() -> None:
    spacy, regex = load_tokenizer("spacy"), load_tokenizer("regex")
    by_spacy, empty = spacy.parse({"t": TEXT, "empty": "  \n "})
    (by_rule,) = regex.parse({"t": TEXT})
    assert (empty.tokens, empty.sentences) == ((), 0)
    assert (spacy.name[:7], regex.name[:6]) == ("spaCy 3", "regex ")
    assert by_spacy.tokens[:8] == ("the", "girl", "'s", "hand", "is", "n't", "up", ".")
    assert by_rule.tokens[:5] == ("the", "girl's", "hand", "isn't", "up")
    assert " " not in "".join(by_spacy.tokens)
    assert by_spacy.sentences == 2
    assert by_rule.sentences == 3


def test_without_spacy_auto_takes_the_rule_and_spacy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert load_tokenizer("auto").name.startswith("regex")
    with pytest.raises(UsageError, match="spaCy is not") as error:
        load_tokenizer("spacy")
    assert error.value.hint == "pip install spacy"
    with pytest.raises(UsageError, match="spaCy is not"):
        load_tokenizer("auto", parser="en_core_web_sm")
    with pytest.raises(UsageError, match="--tokenizer nltk"):
        load_tokenizer("nltk")


@pytest.mark.parametrize(("text", "sentences"), [("", 0), ("...", 1), ("No stop", 1), ("A. B! C?", 3), ("3.5 m", 1)])
def test_the_rule_counts_sentences(text: str, sentences: int) -> None:
    assert load_tokenizer("regex").parse({"t": text})[0].sentences == sentences


def test_a_parsing_model_gives_the_depth_of_each_sentence(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    parser = nlp.add_pipe("parser")
    for label in ("ROOT", "dep", "nsubj"):
        parser.add_label(label)
    spacy.util.fix_random_seed(1)
    nlp.initialize()
    nlp.to_disk(tmp_path / "model")
    tokenizer = load_tokenizer("auto", parser=str(tmp_path / "model"))
    (parsed,) = tokenizer.parse({"t": TEXT})
    document = spacy.load(tmp_path / "model")(TEXT)
    sentences = [one for one in document.sents if one.text.strip()]
    assert parsed.depths == tuple(tree_depth([token.head.i - one.start for token in one]) for one in sentences)
    assert len(parsed.depths) == parsed.sentences
    assert tokenizer.why_no_depth == ""


def test_a_model_that_is_not_there_or_cannot_parse_is_said(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    with pytest.raises(UsageError, match="spaCy model 'en_core_nowhere'"):
        load_tokenizer("auto", parser="en_core_nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="a spaCy model"):
        load_tokenizer("auto", parser=str(tmp_path / "empty"))
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UsageError, match="has no parser"):
        load_tokenizer("auto", parser=str(tmp_path / "blank"))


def test_a_text_as_long_as_a_book_is_refused() -> None:
    with pytest.raises(DataError, match="text 'q' has 1000001 characters"):
        load_tokenizer("regex").parse({"q": "a" * (MOST_LETTERS + 1)})
