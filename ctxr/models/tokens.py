"""Tokens, sentences and trees of descriptions, by spaCy (an optional extra) or by a regular expression.

spaCy's rules for English need no model; tree depth needs a parsing model. The ways of counting differ, so each result names its own.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ctxr.errors import DataError, UsageError, first_line
from ctxr.metrics.language import ParsedText, tree_depth

PARSER = "en_core_web_sm"  # the model of the published figures (ImageCoDe, section 4.2)
MOST_LETTERS = 1_000_000  # spaCy's own limit; no description is a book

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_END = re.compile(r"[.!?]+(?=\s|$)")


@dataclass(frozen=True)
class Tokenizer:
    """Splits texts. `name`: how; `why_no_depth`: why there are no trees, "" with trees."""

    name: str
    why_no_depth: str
    nlp: Any = None

    def parse(self, texts: Mapping[str, str]) -> list[ParsedText]:
        """The texts (by id) in order. Raises DataError for one that is far too long."""
        for name, text in texts.items():
            if len(text) > MOST_LETTERS:
                raise DataError(f"text {name!r} has {len(text)} characters", hint=f"at most {MOST_LETTERS} are read")
        parsed = []
        if self.nlp is None:
            for text in texts.values():
                tokens = tuple(_WORD.findall(text.lower()))
                pieces = [piece for piece in _END.split(text) if _WORD.search(piece)]
                parsed.append(ParsedText(tokens, max(len(pieces), min(1, len(tokens)))))
            return parsed
        for document in self.nlp.pipe(texts.values()):
            tokens = tuple(token.lower_ for token in document if not token.is_space)
            sentences = [sentence for sentence in document.sents if any(not token.is_space for token in sentence)]
            trees = () if self.why_no_depth else sentences
            heads = ([token.head.i - sentence.start for token in sentence] for sentence in trees)
            parsed.append(ParsedText(tokens, len(sentences), tuple(map(tree_depth, heads))))
        return parsed


def load_tokenizer(choice: str = "auto", parser: str | None = None) -> Tokenizer:
    """The tokenizer `auto` (spaCy where it is installed), `spacy` or `regex`; `parser`: a spaCy model or its folder, else the published
    one where it is installed. Raises UsageError for what is unknown or not installed.
    """
    if choice not in ("auto", "spacy", "regex"):
        raise UsageError(f"--tokenizer {choice} is unknown", hint="choose auto, spacy or regex")
    spacy: ModuleType | None = None
    if choice != "regex":
        with suppress(ImportError):
            spacy = import_module("spacy")
    if spacy is None:
        if choice == "spacy" or parser is not None:
            raise UsageError("spaCy is not installed", hint="pip install spacy")
        return Tokenizer("regex (words and single signs)", "tree depth needs spaCy and a parsing model")
    wanted = parser or PARSER
    if Path(wanted).is_dir() or spacy.util.is_package(wanted):
        try:
            nlp = spacy.load(wanted)
        except Exception as error:  # whatever spaCy says about a folder that is not a model
            why = f"{wanted} is not a spaCy model: {first_line(error)}"
            raise UsageError(why, hint="name another --parser") from error
        if "parser" not in nlp.pipe_names:
            raise UsageError(f"the spaCy model {wanted} has no parser", hint=f"--parser {PARSER} has one")
        model = f"{nlp.meta.get('lang', '')}_{nlp.meta.get('name', '')} {nlp.meta.get('version', '')}"
        return Tokenizer(f"spaCy {spacy.__version__}, {model}", "", nlp)
    fetch = f"python -m spacy download {PARSER}"
    if parser is not None:
        raise UsageError(f"there is no spaCy model {parser!r} here", hint=f"name a folder, or install one: {fetch}")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    why = f"tree depth needs a parsing model, and {PARSER} is not installed: {fetch}"
    return Tokenizer(f"spaCy {spacy.__version__}, English rules, rule sentencizer", why, nlp)
