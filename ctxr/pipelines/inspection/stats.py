"""`ctxr stats`: the tables that describe a benchmark, ours or published (ImageCoDe, section 4)."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import open_dataset
from ctxr.datasets.readers.imagecode import _COLLECTIONS, UNKNOWN, collection_of, is_release
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import Table
from ctxr.errors import UsageError, plural
from ctxr.metrics.language import Parsed, language, mention_share
from ctxr.metrics.phenomena import PhenomenonShare, shares
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.proportions import LEAST_EXPECTED, even_spread
from ctxr.models.dataset_vectors import picture_vectors_of
from ctxr.models.leakage import Nearness, leakage_table
from ctxr.models.picture_vectors import distances_of
from ctxr.models.tokens import load_tokenizer
from ctxr.pipelines.inspection.config import Stats, StatsReport
from ctxr.problems.figures import PARTS
from ctxr.problems.registry import question_about
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import SET_KINDS
from ctxr.store.records import ImageSet, Query
from ctxr.store.tables import PAYLOADS, UNREADABLE

Row = tuple[str, float | None, float, int, bool]
"""Figure, value here (None: cannot be computed), published value, digits after the point, whether all that it was counted on
is here."""

DESCRIPTIONS = 21_202
_SETS = {"train": 7317, "valid": 1039, "test": 1046}
_TEXTS = {"train": 16594, "valid": 2302, "test": 2306}
_STATIC_SETS = {"train": 1281, "valid": 155, "test": 178}
_STATIC_TEXTS = {"train": 3501, "valid": 430, "test": 485}
_PER_SET = {"train": (3266, 2745, 1306), "valid": (434, 395, 210), "test": (432, 396, 218)}
_PHENOMENA = {
    "context": (47.3, 57.3, 6.6),
    "temporal": (15.0, 18.5, 4.1),
    "quantities": (48.5, 47.7, 51.0),
    "spatial": (70.5, 72.2, 65.3),
    "negation": (17.9, 20.7, 6.1),
    "visibility": (45.5, 54.5, 8.6),
    "nuances": (26.3, 31.6, 5.1),
    "coreference": (41.5, 42.4, 38.8),
    "meta": (12.0, 13.9, 6.1),
}
_LOOKED = {name: 1002 if name in ("context", "negation", "visibility", "nuances") else 200 for name in _PHENOMENA}
_WRITERS = {"train_worker": 502, "unseen_worker": 1800}
_SHARED_VIDEOS = 174
LEXICONS = ("body_parts", "colours")
"""Word lists that ship with ctxr: one entry a line, its forms separated by spaces, `#` before a comment."""


def load_lexicon(name: str) -> list[list[str]]:
    """The things that one of `LEXICONS` names, each with all its forms, lower-case."""
    lines = (Path(__file__).parent / "lexicons" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


def mention_percent(parsed: Sequence[Parsed], lexicon: list[list[str]]) -> float | None:
    """In how many percent of the descriptions something of a lexicon is named; None without descriptions."""
    share = mention_share(parsed, frozenset(word for forms in lexicon for word in forms))
    return None if share is None else 100 * share


def published_table(
    dataset: Dataset, parsed: Mapping[str, Parsed], distances: Mapping[str, tuple[float, float]]
) -> Table | None:
    """Each published figure beside the one here; None for a dataset that is not (a part of) the release."""
    if not is_release(dataset):
        return None
    rows: list[tuple[str, float | None, float, str]] = []
    for name, here, published, digits, whole in _figures(dataset, parsed, distances):
        if here is None:
            rows.append((name, None, published, "not here"))
            continue
        same = abs(round(here, digits) - published) < 1e-9
        verdict = "same" if same else "differs" if whole else "a part is here"
        rows.append((name, round(here, digits) if digits else int(here), published, verdict))
    equal, count = sum(row[3] == "same" for row in rows), len(image_queries(dataset))
    note = f"{count} of the {DESCRIPTIONS} published descriptions are here; {equal} of {len(rows)} figures are the published ones"
    heads = ("figure", "here", "published", "")
    return Table("Beside the published figures of ImageCoDe", heads, tuple(rows), note, digits=1)


def _figures(
    dataset: Dataset, parsed: Mapping[str, Parsed], distances: Mapping[str, tuple[float, float]]
) -> Iterator[Row]:
    yield from _counts(dataset)
    whole = len(parsed) == DESCRIPTIONS
    everything = language(list(parsed.values()))
    for name, attribute, scale, published_value, digits in (
        ("mean length", "mean_length", 1, 23.3, 1),
        ("word types", "word_types", 1, 6916, 0),
        ("mean tree depth", "mean_depth", 1, 5.1, 1),
        ("mean sentences", "mean_sentences", 1, 1.6, 1),
        ("3 or more sentences %", "three_or_more", 100, 11.8, 1),
    ):
        value = getattr(everything, attribute, None)
        yield name, None if value is None else scale * value, published_value, digits, whole
    parts = parts_of(dataset, parsed)
    for lexicon, said_of in zip(
        LEXICONS, ({"video": 72.1, "photos": 30.2}, {"video": 33.6, "photos": 61.4}), strict=True
    ):
        for part, published_value in said_of.items():
            percent = mention_percent(parts[part], load_lexicon(lexicon))
            yield f"{lexicon.replace('_', ' ')}, {part} %", percent, published_value, 1, whole
    yield "photo sets over video sets, mean distance", mean_distances(dataset, distances)[1], 1.13, 2, whole
    phenomena = {one.phenomenon: one for one in phenomena_shares(dataset)}
    for name, published in _PHENOMENA.items():
        share = phenomena.get(name)
        all_judged = share is not None and share.judged["all"] == _LOOKED[name]
        for part, published_value in zip(PARTS, published, strict=True):
            yield f"{name}, {part} %", None if share is None else share.percent(part), published_value, 1, all_judged
    sizes: Counter[str | None] = Counter(dataset.split_of(image_set) for image_set in dataset.sets)
    complete = {split: sizes[split] == _SETS[split] for split in _SETS}
    authors = Counter(dataset.texts[query.texts[0]].author for query in image_queries(dataset))
    for writer, published_value in _WRITERS.items():
        yield f"valid by {writer}", authors[writer] or None, published_value, 0, complete["valid"]
    videos = {(dataset.split_of(one), one.source) for one in dataset.sets if one.kind == "video"}
    valid, test = ({source for split, source in videos if split == side} for side in ("valid", "test"))
    both = len(valid & test) if valid and test else None
    yield "videos in valid and test", both, _SHARED_VIDEOS, 0, complete["valid"] and complete["test"]


def _counts(dataset: Dataset) -> Iterator[Row]:
    texts_of = Counter(query.image_set for query in image_queries(dataset))
    for split in _SETS:
        sets = [image_set for image_set in dataset.sets if dataset.split_of(image_set) == split]
        static = [image_set for image_set in sets if image_set.kind == "photos"]
        whole = len(sets) == _SETS[split]
        by_number = Counter(texts_of[image_set.id] for image_set in sets)
        for name, here, published in (
            ("sets", len(sets), _SETS[split]),
            ("descriptions", sum(texts_of[one.id] for one in sets), _TEXTS[split]),
            ("sets of photos", len(static), _STATIC_SETS[split]),
            ("of photos", sum(texts_of[one.id] for one in static), _STATIC_TEXTS[split]),
            *((f"sets with {number}", by_number[number], _PER_SET[split][3 - number]) for number in (3, 2, 1)),
        ):
            yield f"{split}: {name}", here if sets else None, published, 0, whole
    texts: Counter[str] = Counter()
    for image_set in dataset.sets:
        texts[collection_of(image_set)] += texts_of[image_set.id]
    for name, published in _COLLECTIONS.items():
        yield f"descriptions of {name}", texts[name], published, 0, sum(texts.values()) == DESCRIPTIONS


def mean_distances(
    dataset: Dataset, distances: Mapping[str, tuple[float, float]]
) -> tuple[dict[str, tuple[int, float, float]], float | None]:
    """By kind, the number of sets and the means of their mean and closest distance; and the ratio of photo sets to video sets.

    `distances` is (mean, closest) by set id.
    """
    means = {}
    for kind in SET_KINDS:
        pairs = [distances[one.id] for one in dataset.sets if one.kind == kind and one.id in distances]
        if pairs:
            mean, closest = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
            means[kind] = len(pairs), mean, closest
    ratio = (
        means["photos"][1] / means["video"][1]
        if {"photos", "video"} <= means.keys() and means["video"][1] > 0
        else None
    )
    return means, ratio


MOST_ROWS = 15
"""Sources that are named; the rest is summed up."""


def image_queries(dataset: Dataset) -> list[Query]:
    """Queries that ask for an image, not for a label, and have a text; in the order of their ids."""
    return [query for _, query in sorted(dataset.queries.items()) if query.labels is None and query.texts]


def parts_of(dataset: Dataset, parsed: Mapping[str, Parsed]) -> dict[str, list[Parsed]]:
    """Descriptions by kind of their set, and all of them."""
    kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
    parts: dict[str, list[Parsed]] = {part: [] for part in PARTS}
    for name, one in parsed.items():
        parts["all"].append(one)
        parts[kinds[dataset.queries[name].image_set]].append(one)
    return parts


def split_sizes(dataset: Dataset) -> Table | str:
    """Sets, images and descriptions of each side."""
    if not dataset.sets:
        return "there is no image set: nothing to count"
    texts_of = Counter(query.image_set for query in image_queries(dataset))
    aimed = Counter(query.image_set for query in {query.id: query for query, _, _ in dataset.targets()}.values())
    splits: dict[str, list[ImageSet]] = {name: [] for name in (*SPLITS, "no split")}
    for image_set in dataset.sets:
        splits[dataset.split_of(image_set) or "no split"].append(image_set)
    rows = []
    for name, sets in [*((name, sets) for name, sets in splits.items() if sets), ("all", list(dataset.sets))]:
        photos = [one for one in sets if one.kind == "photos"]
        rows.append((
            name, len(sets), len(photos), len({image for one in sets for image in one.images}),
            sum(texts_of[one.id] for one in sets), sum(texts_of[photo.id] for photo in photos), sum(aimed[one.id] for one in sets),
        ))  # fmt: skip
    heads = ("split", "sets", "of photos", "images", "descriptions", "of photos", "with target")
    return Table("Sets and descriptions by split", heads, tuple(rows))


def _largest(counts: Mapping[tuple[str, ...], tuple[int, ...]]) -> tuple[tuple[str | int, ...], ...]:
    """A row of names and counts for the largest counts, and one with the sums of the others."""
    ranked = sorted(counts.items(), key=lambda row: (-row[1][0], row[0]))
    rows: list[tuple[str | int, ...]] = [(*names, *values) for names, values in ranked[:MOST_ROWS]]
    if others := ranked[MOST_ROWS:]:
        sums = map(sum, zip(*(values for _, values in others), strict=True))
        rows.append((f"{len(others)} others", *[""] * (len(others[0][0]) - 1), *sums))
    return tuple(rows)


def by_source(dataset: Dataset) -> Table | str:
    """Sets and descriptions of each corpus, video or album; the smaller ones summed up."""
    texts_of = Counter(query.image_set for query in image_queries(dataset))
    counts: dict[tuple[str, ...], tuple[int, ...]] = {}
    for image_set in dataset.sets:
        key = (collection_of(image_set), image_set.kind)
        sets, texts = counts.get(key, (0, 0))
        counts[key] = sets + 1, texts + texts_of[image_set.id]
    heads = ("source", "kind", "sets", "descriptions")
    return Table("Sets and descriptions by source", heads, _largest(counts)) if counts else ""


def per_set(dataset: Dataset) -> Table | str:
    """How many sets have one, two, three descriptions."""
    texts_of = Counter(query.image_set for query in image_queries(dataset))
    if not texts_of or len(set(texts_of.values())) > MOST_ROWS:
        return ""
    numbers = sorted(set(texts_of.values()))
    rows = []
    for split in (*SPLITS, None):
        sets = [image_set for image_set in dataset.sets if dataset.split_of(image_set) == split]
        if counts := [texts_of[image_set.id] for image_set in sets if texts_of[image_set.id]]:
            rows.append((split or "no split", *(counts.count(number) for number in numbers), sum(counts) / len(counts)))
    heads = ("split", *(f"{number} each" for number in numbers), "mean")
    return Table("Sets by number of descriptions", heads, tuple(rows), digits=2)


def language_table(dataset: Dataset, parsed: Mapping[str, Parsed], tokenizer: str) -> Table | str:
    """Table 4 of the paper: length, word types, tree depth, sentences."""
    if not parsed:
        return "there are no descriptions: no figures on language, body parts, colours and positions"
    figures = {part: language(texts) for part, texts in parts_of(dataset, parsed).items() if texts}
    names = {
        "descriptions": "descriptions",
        "mean_length": "mean length (tokens)",
        "median_length": "median length",
        "longest": "longest",
        "word_types": "word types",
        "mean_sentences": "mean sentences",
        "three_or_more": "share with 3 or more sentences",
        "mean_depth": "mean tree depth",
    }
    rows = [
        (text, *(getattr(figure, name) for figure in figures.values()))
        for name, text in names.items()
        if any(getattr(figure, name) is not None for figure in figures.values())
    ]
    note = f"tokens by {tokenizer}; lower-cased, punctuation counted, white space not"
    return Table("Language", ("", *figures), tuple(rows), note, digits=2)


def mentions(dataset: Dataset, parsed: Mapping[str, Parsed]) -> Table | str:
    """In how many percent of the descriptions body parts and colours are named."""
    if not parsed:
        return ""
    lexicons = {name.replace("_", " "): load_lexicon(name) for name in LEXICONS}
    parts = {part: texts for part, texts in parts_of(dataset, parsed).items() if texts}
    rows = tuple(
        (name, *(mention_percent(texts, lexicon) for texts in parts.values())) for name, lexicon in lexicons.items()
    )
    sizes = (f"{len(lexicon)} {name} ({len(set().union(*lexicon))} forms)" for name, lexicon in lexicons.items())
    return Table("Descriptions that name … (%)", ("", *parts), rows, f"ctxr's own lists: {', '.join(sizes)}", digits=1)


def writers(dataset: Dataset) -> Table | str:
    """Descriptions by who wrote them, where that is known."""
    written = Counter(dataset.texts[query.texts[0]].author for query in image_queries(dataset))
    if not set(written) - {UNKNOWN}:
        return ""
    rows = _largest({(name,): (count,) for name, count in written.items()})
    return Table("Descriptions by writer", ("writer", "descriptions"), rows)


def positions(dataset: Dataset) -> Table | str:
    """Number of targets at each position."""
    aimed = list(dataset.targets())
    if not aimed:
        return "no target is known: no positions" if dataset.queries else ""
    sizes = Counter(len(image_set.images) for _, image_set, _ in aimed)
    size = sizes.most_common(1)[0][0]
    if size > MOST_POSITIONS:
        return f"positions are left out: a gallery of {size} images has no order"
    rows = []
    for part in PARTS:
        tally = Counter(position for _, one, position in aimed if len(one.images) == size and part in ("all", one.kind))
        if tally:
            counts = [tally[position] for position in range(size)]
            rows.append((part, *counts, even_spread(counts)[1] if sum(counts) >= LEAST_EXPECTED * size else None))
    others = plural(len(aimed) - sizes[size], "target in a set", "targets in sets")
    left = "" if len(sizes) == 1 else f"; left out: {others} of another size"
    note = f"p: chance of so uneven a spread if every position is equally likely; – below {LEAST_EXPECTED} expected each{left}"
    return Table("Targets by position", ("", *map(str, range(size)), "p"), tuple(rows), note)


def distance_table(dataset: Dataset, distances: Mapping[str, tuple[float, float]]) -> Table | str:
    """Mean pairwise and closest distance of sets, by kind; `distances` is (mean, closest) by set id."""
    means, ratio = mean_distances(dataset, distances)
    if not means:
        return "no distances: the dataset has no embeddings (use --encoder NAME)"
    alike = "above 1, the images of a video set are more alike"
    note = "" if ratio is None else f"photo sets over video sets: {ratio:.2f} ({alike})"
    heads = ("kind", "sets", "mean distance", "mean of the closest pair")
    return Table("Distances within sets", heads, tuple((kind, *row) for kind, row in means.items()), note)


def phenomena_shares(dataset: Dataset) -> list[PhenomenonShare]:
    """Phenomena by kind of set."""
    kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
    return shares(PHENOMENA, dataset.queries.values(), dataset.judgments, kinds)


def phenomena_table(dataset: Dataset) -> Table | str:
    """Table 2 of the paper: in how many percent of the annotated descriptions each phenomenon was found."""
    rows_of = phenomena_shares(dataset)
    if not rows_of:
        return "phenomena are not annotated" if dataset.queries else ""
    rows = tuple((row.phenomenon, *(row.percent(part) for part in PARTS), row.judged["all"]) for row in rows_of)
    return Table("Phenomena (% of the annotated descriptions)", ("", *PARTS, "annotated"), rows, digits=1)


def payload_tables(dataset: Dataset) -> Table | str:
    """Rows of each payload table, and what they belong to."""
    rows = [
        (name, len(table), PAYLOADS[name].of.replace("_", " "), len(set(map(PAYLOADS[name].owner_of, table))))
        for name, table in dataset.payloads.items()
    ]
    return Table("Payload tables", ("table", "rows", "each about a", "distinct"), tuple(rows)) if rows else ""


def licences(dataset: Dataset) -> Table | str:
    """Images by licence, where the publisher names it."""
    rows = sorted(Counter(dataset.licences.values()).items(), key=lambda row: (-row[1], row[0]))
    return Table("Images by licence", ("licence", "images"), tuple(rows)) if rows else ""


def run(config: Stats, progress: Progress = SILENT) -> StatsReport:
    """Compute every table that the dataset supports, and name each that it does not.

    Raises UsageError for wrong arguments, DataError for content that does not fit, UnfinishedError without a dataset.
    """
    config.check()
    if config.out is not None and config.out.is_dir():
        raise UsageError(f"{config.out} is a folder", hint="--out names a file, like stats.json")
    tokenizer = load_tokenizer(config.tokenizer, config.parser)
    dataset = open_dataset(config.dataset, config.workdir, progress)
    if own := question_about(dataset).tables(dataset):
        leaks = leakage_table(Nearness(None, config.near_embedding), dataset, None, progress)
        shown = {**own} | ({"leakage": leaks} if isinstance(leaks, Table) else {})
        return _write(config, StatsReport(dataset.name, "", shown, (), dataset.notes))
    asked = image_queries(dataset)
    described = {query.id: " ".join(dataset.texts[name].text for name in query.texts) for query in asked}
    if described and config.tokenizer == "auto" and tokenizer.name.startswith("regex"):
        progress.warn("spaCy is not installed: words are counted by a plain rule, unlike the published figures "
                  "(pip install spacy)")  # fmt: skip
    parsed = dict(zip(described, tokenizer.parse(described), strict=True)) if described else {}
    vectors = picture_vectors_of(dataset, config.encoder, config.device, progress)
    distances = distances_of(dataset, vectors if config.encoder else None)
    near = Nearness(None if config.skip_pictures else config.near, config.near_embedding)
    results = {
        "splits": split_sizes(dataset),
        "sources": by_source(dataset),
        "per_set": per_set(dataset),
        "language": language_table(dataset, parsed, tokenizer.name),
        "mentions": mentions(dataset, parsed),
        "writers": writers(dataset),
        "positions": positions(dataset),
        "distances": distance_table(dataset, distances),
        "phenomena": phenomena_table(dataset),
        "payload_tables": payload_tables(dataset),
        "licences": licences(dataset),
        "leakage": leakage_table(near, dataset, vectors, progress),
    }
    missing = [*results.values(), tokenizer.why_no_depth if parsed else ""]
    results["published"] = published_table(dataset, parsed, distances) or ""
    tables = {name: one for name, one in results.items() if isinstance(one, Table)}
    sentences = tuple(one for one in missing if one and isinstance(one, str))
    return _write(config, StatsReport(dataset.name, tokenizer.name if parsed else "", tables, sentences, dataset.notes))


def _write(config: Stats, report: StatsReport) -> StatsReport:
    """The report, which `--out` gets a copy of."""
    if (out := config.out) is not None:
        if out.exists() and not _is_ours(out):
            hint = "choose another --out, such as stats.json"
            raise UsageError(f"{out} is not a statistics file written by ctxr", hint=hint)
        write_bytes(out, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return report


def _is_ours(out: Path) -> bool:
    """Whether a file holds what `--out` wrote, and may be written again."""
    try:
        content = msgspec.json.decode(out.read_bytes())
    except (OSError, *UNREADABLE):
        return False
    return isinstance(content, dict) and set(content) == set(StatsReport.__dataclass_fields__)
