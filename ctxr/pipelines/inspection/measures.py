"""Releases of papers in a folder, and what is counted in them for a published figure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import before_share, merged
from ctxr.datasets.open import read_dataset
from ctxr.datasets.photo_labels import themes_of
from ctxr.datasets.readers import entailment, imagecode
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.datasets.readers.photochat import photochat_files
from ctxr.errors import DataError, UsageError
from ctxr.metrics.language import ParsedText, shares
from ctxr.metrics.proportions import LEVEL, exact_interval
from ctxr.models.tokens import load_tokenizer
from ctxr.pipelines.inspection.config import Found
from ctxr.pipelines.inspection.lexicon import load_lexicon, mentions
from ctxr.store.records import UNKNOWN, Dialogue, ObjectLabels

MOST_DEEP = 2
"""Folders below the one that is searched."""


class NotHere(Exception):
    """What a release lacks for a measure, in words."""


@dataclass(frozen=True)
class Release:
    """A release, or a part of one, that lies at a path and is made of `files`; read when it is first measured."""

    paper: str
    path: Path
    files: tuple[Path, ...]

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset. Raises DataError for damaged files, NotHere for sets of others in the form of ImageCoDe."""
        dataset = read_dataset(self.path)
        if self.paper == "imagecode" and not imagecode.is_release(dataset):
            raise NotHere("sets with the names of ImageCoDe")
        return dataset

    @cached_property
    def pairs(self) -> list[entailment.PairFile]:
        """Pairs of entailment datasets. Raises DataError for damaged files."""
        return [*map(entailment.read_pairs, self.files)]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each set."""
        return {image_set.id: image_set.kind for image_set in self.dataset.sets}

    @cached_property
    def parsed(self) -> dict[str, ParsedText]:
        """Tokens, sentences and trees of each description, by query."""
        queries = [one for one in self.dataset.queries.values() if one.labels is None and one.texts]
        described = {query.id: self.dataset.text_of(query) for query in queries}
        return dict(zip(described, load_tokenizer().parse(described), strict=True))

    def texts(self, part: str = "") -> list[ParsedText]:
        """Parsed descriptions of sets of a kind, or all."""
        of, queries = self.kinds, self.dataset.queries
        return [text for key, text in self.parsed.items() if part in ("", of[queries[key].image_set])]


def releases_in(folder: Path, papers: Iterable[str]) -> list[Release]:
    """What lies in a folder, or in folders of it, of releases of papers. Raises UsageError where there is none."""
    sought = [paper for paper in papers if paper in FINDERS]
    found = [release for paper in sought for release in _search(folder, paper, MOST_DEEP)]
    if not found:
        what = f"no release of {', '.join(sought)}" if sought else "nothing to measure for these papers"
        raise UsageError(f"{folder} holds {what}", hint="name the folder that holds the folders of the releases")
    return found


def _search(path: Path, paper: str, deep: int) -> Iterator[Release]:
    """A release is not searched for others; dialogues in one folder may be copies, so each file is a release."""
    if files := tuple(FINDERS[paper](path)):
        copies = paper == "photochat" and {file.parent for file in files} == {path}
        yield from (Release(paper, file, (file,)) for file in files) if copies else [Release(paper, path, files)]
    elif path.is_dir() and deep and path.name != "image-sets":
        for inner in sorted(path.iterdir()):
            yield from _search(inner, paper, deep - 1) if inner.is_dir() else ()


def _pair_tables(path: Path) -> list[Path]:
    """Tables at a path, or in it, whose columns are those of an entailment dataset."""
    listed = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in listed if file.suffix in entailment.TABLES and file.is_file() and _is_pairs(file)]


def _is_pairs(file: Path) -> bool:
    headless = next(known.headless for known in entailment.FORMATS if known.headless)
    try:
        columns = entailment.Rows(file, headless).columns
    except (DataError, UsageError):
        return False
    return any(known.fits(columns) for known in entailment.FORMATS)


FINDERS: Mapping[str, Callable[[Path], Sequence[Path]]] = {
    "imagecode": lambda path: imagecode.release_files(path) or imagecode.repository_files(path),
    "photochat": photochat_files,
    "entailment": _pair_tables,
}
"""What finds the files of a paper's release at a path."""


def mean_of(values: Sequence[float], scale: float = 1.0) -> Found:
    """The mean with its interval: Clopper and Pearson's for shares, the normal one for others. Raises NotHere for no value."""
    if not values:
        raise NotHere("descriptions")
    value, (low, high) = float(np.mean(values)), exact_interval(0, 0)
    if {*values} <= {0, 1}:
        low, high = exact_interval(sum(values), len(values))
    elif len(values) > 1:
        half = NormalDist().inv_cdf((1 + LEVEL) / 2) * float(np.std(values, ddof=1)) / len(values) ** 0.5
        low, high = value - half, value + half
    return Found(scale * value, len(values), low=scale * low, high=scale * high)


def _sets(release: Release) -> Found:
    return Found(len(release.dataset.sets), len(release.dataset.sets))


def _descriptions(release: Release, split: str = "", collection: str = "", writer: str = "") -> Found:
    """Counted over sets, of a split those of that alone; by writer over descriptions."""
    dataset = release.dataset
    sets = {one.id: one for one in dataset.sets if split in ("", dataset.split_of(one))}
    queries = [one for one in dataset.queries.values() if one.labels is None and one.texts and one.image_set in sets]
    if writer:
        authors = [dataset.texts[query.texts[0]].author for query in queries]
        return Found(authors.count(writer), len(authors) - authors.count(imagecode.UNKNOWN))
    collections = [imagecode.collection_of(sets[query.image_set]) for query in queries]
    return Found(collections.count(collection) if collection else len(queries), len(sets))


def _phenomenon(release: Release, name: str, part: str) -> Found:
    rows = shares(PHENOMENA, release.dataset.queries.values(), release.dataset.judgments, release.kinds)
    for share in rows:
        if share.phenomenon == name and share.judged[part]:
            return mean_of([*[1.0] * share.present[part], *[0.0] * (share.judged[part] - share.present[part])], 100)
    raise NotHere("manual_annotation_valid.yaml")


def _word_types(release: Release) -> Found:
    texts = release.texts()
    return Found(len({token for text in texts for token in text.tokens}), len(texts))


def _depth(release: Release) -> Found:
    """Of the deepest sentence of each description."""
    texts = release.texts()
    if not all(text.depths for text in texts):
        raise NotHere("spaCy with en_core_web_sm")
    return mean_of([max(text.depths) for text in texts])


def _mentions(release: Release, lexicon: str, part: str) -> Found:
    return mean_of([*map(float, mentions(release.texts(part), load_lexicon(lexicon)))], 100)


def _talk(release: Release, split: str, of: str, theme: str = "", without: str = "") -> Found:
    """Of the dialogues of a split.

    `of`: dialogues; photos, different ones; tokens, runs of letters, digits, underscores and apostrophes; turns; merged ones;
    negatives, merged ones but the last before the share; or theme, dialogues whose photo has a label of it other than `without`.
    """
    payloads = release.dataset.payloads
    rows = [row for row in payloads["dialogues"] if isinstance(row, Dialogue) and row.id.startswith(f"{split}/")]
    if of in ("turns", "merged", "negatives") and any(turn.user == UNKNOWN for row in rows for turn in row.turns):
        raise NotHere("the official files, with speakers")
    objects = [row for row in payloads.get("objects", ()) if isinstance(row, ObjectLabels)]
    themes = {row.id: themes_of({*row.labels} - {without}) for row in objects}
    count: Callable[[Dialogue], int] = {
        "dialogues": lambda row: 1,
        "theme": lambda row: theme in themes.get(row.photo, ()),
        "tokens": lambda row: sum(len(re.findall(r"[\w']+", turn.text)) for turn in row.turns),
        "turns": lambda row: len(row.turns),
        "merged": lambda row: len(merged(row.turns)),
        "negatives": lambda row: len(merged(before_share(row))) - 1,
        "photos": lambda row: 0,
    }[of]
    return Found(len({row.photo for row in rows}) if of == "photos" else sum(map(count, rows)), len(rows))


def _pairs(release: Release, source: str, splits: str = "") -> Found:
    """Rows of the files of a dataset, of splits if they are named."""
    of = [one for one in release.pairs if one.source == source and one.pairs]
    rows = sum(one.rows for one in of if not splits or one.pairs[0].split in splits.split())
    if not rows:
        raise NotHere(" ".join(filter(None, ["the files of", source, splits.replace(" ", " and ")])))
    return Found(rows, rows)


MEASURES: Mapping[str, Callable[..., Found]] = {
    "sets": _sets,
    "descriptions": _descriptions,
    "phenomenon": _phenomenon,
    "length": lambda release: mean_of([len(text.tokens) for text in release.texts()]),
    "word-types": _word_types,
    "sentences": lambda release: mean_of([text.sentences for text in release.texts()]),
    "three-or-more": lambda release: mean_of([float(text.sentences >= 3) for text in release.texts()], 100),
    "depth": _depth,
    "mentions": _mentions,
    "dialogues": _talk,
    "pairs": _pairs,
}
"""Figures of a release by name; each raises NotHere for what the release lacks."""
