"""The single tables of `ctxr stats`; each is a `Table`, a sentence that says why there is none, or "" where none is due."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ctxr.data.dataset import Dataset
from ctxr.data.lexicon import NAMES, load_lexicon
from ctxr.data.readers.imagecode import UNKNOWN, collection_of
from ctxr.data.readers.phenomena import PHENOMENA
from ctxr.data.records import ImageSet, Query
from ctxr.data.splits import SPLITS
from ctxr.metrics.language import Parsed, language, mention_share
from ctxr.metrics.phenomena import PhenomenonShare, shares
from ctxr.metrics.proportions import LEAST_EXPECTED, even_spread
from ctxr.pipelines.result_tables import Table

PARTS = ("all", "video", "photos")

MOST_ROWS = 15
"""Sources that are named; the rest is summed up."""

MOST_POSITIONS = 20
"""Larger sets are galleries, in which a position means nothing."""


def image_queries(dataset: Dataset) -> list[Query]:
    """Queries that ask for an image, not for a label, and have a text; in the order of their ids."""
    return [query for _, query in sorted(dataset.queries.items()) if query.labels is None and query.texts]


def descriptions_of(dataset: Dataset) -> dict[str, str]:
    """The whole text of each query that asks for an image, by query id."""
    return {query.id: " ".join(dataset.texts[name].text for name in query.texts) for query in image_queries(dataset)}


def parts_of(dataset: Dataset, parsed: Mapping[str, Parsed]) -> dict[str, list[Parsed]]:
    """Descriptions by kind of their set, and all of them."""
    kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
    found: dict[str, list[Parsed]] = {part: [] for part in PARTS}
    for name, one in parsed.items():
        found["all"].append(one)
        found[kinds[dataset.queries[name].image_set]].append(one)
    return found


def by_split(dataset: Dataset) -> Table | str:
    """Sets, images and descriptions of each side."""
    if not dataset.sets:
        return "there is no image set: nothing to count"
    asked = Counter(query.image_set for query in image_queries(dataset))
    aimed = Counter(query.image_set for query in {query.id: query for query, _, _ in dataset.targets()}.values())
    sides: dict[str, list[ImageSet]] = {name: [] for name in (*SPLITS, "no split")}
    for image_set in dataset.sets:
        sides[dataset.split_of(image_set) or "no split"].append(image_set)
    rows = []
    for name, sets in [*((name, sets) for name, sets in sides.items() if sets), ("all", list(dataset.sets))]:
        photos = [one for one in sets if one.kind == "photos"]
        rows.append((
            name, len(sets), len(photos), len({image for one in sets for image in one.images}),
            sum(asked[one.id] for one in sets), sum(asked[one.id] for one in photos), sum(aimed[one.id] for one in sets),
        ))  # fmt: skip
    heads = ("split", "sets", "of photos", "images", "descriptions", "of photos", "with target")
    return Table("Sets and descriptions by split", heads, tuple(rows))


def by_source(dataset: Dataset) -> Table | str:
    """Sets and descriptions of each corpus, video or album; the smaller ones summed up."""
    if not dataset.sets:
        return ""
    asked = Counter(query.image_set for query in image_queries(dataset))
    sets: Counter[tuple[str, str]] = Counter()
    texts: Counter[tuple[str, str]] = Counter()
    for image_set in dataset.sets:
        key = (collection_of(image_set), image_set.kind)
        sets[key] += 1
        texts[key] += asked[image_set.id]
    ranked = sorted(sets, key=lambda key: (-sets[key], key))
    rows: list[tuple[object, ...]] = [(*key, sets[key], texts[key]) for key in ranked[:MOST_ROWS]]
    rest = ranked[MOST_ROWS:]
    if rest:
        rows.append((f"{len(rest)} others", "", sum(sets[key] for key in rest), sum(texts[key] for key in rest)))
    return Table("Sets and descriptions by source", ("source", "kind", "sets", "descriptions"), tuple(rows))


def per_set(dataset: Dataset) -> Table | str:
    """How many sets have one, two, three descriptions."""
    asked = Counter(query.image_set for query in image_queries(dataset))
    if not asked:
        return ""
    numbers = sorted(set(asked.values()))
    if len(numbers) > MOST_ROWS:
        return ""
    rows = []
    for side in (*SPLITS, None):
        sets = [one for one in dataset.sets if dataset.split_of(one) == side and asked[one.id]]
        if sets:
            tally = Counter(asked[one.id] for one in sets)
            mean = sum(asked[one.id] for one in sets) / len(sets)
            rows.append((side or "no split", *(tally[number] for number in numbers), mean))
    heads = ("split", *(f"{number} each" for number in numbers), "mean")
    return Table("Sets by number of descriptions", heads, tuple(rows), digits=2)


def language_table(dataset: Dataset, parsed: Mapping[str, Parsed], tokenizer: str) -> Table | str:
    """Table 4 of the paper: length, word types, tree depth, sentences."""
    if not parsed:
        return "there are no descriptions: no figures on language, body parts, colours and positions"
    figures = {part: language(found) for part, found in parts_of(dataset, parsed).items() if found}
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
        (text, *(getattr(one, name) for one in figures.values()))
        for name, text in names.items()
        if any(getattr(one, name) is not None for one in figures.values())
    ]
    note = f"tokens by {tokenizer}; lower-cased, punctuation counted, white space not"
    return Table("Language", ("", *figures), tuple(rows), note, digits=2)


def mentions(dataset: Dataset, parsed: Mapping[str, Parsed]) -> Table | str:
    """In how many percent of the descriptions body parts and colours are named."""
    if not parsed:
        return ""
    lists = [load_lexicon(name) for name in NAMES]
    parts = {part: found for part, found in parts_of(dataset, parsed).items() if found}
    rows = []
    for one in lists:
        found = [mention_share(texts, one.words) or 0.0 for texts in parts.values()]
        rows.append((one.name.replace("_", " "), *(100 * share for share in found)))
    sizes = ", ".join(f"{one.entries} {one.name.replace('_', ' ')} ({len(one.words)} forms)" for one in lists)
    return Table("Descriptions that name … (%)", ("", *parts), tuple(rows), f"ctxr's own lists: {sizes}", digits=1)


def writers(dataset: Dataset) -> Table | str:
    """Descriptions by who wrote them, where that is known."""
    written: Counter[str] = Counter()
    for query in image_queries(dataset):
        written[dataset.texts[query.texts[0]].author] += 1
    if not set(written) - {UNKNOWN}:
        return ""
    rows: list[tuple[object, ...]] = list(sorted(written.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_ROWS])
    if len(written) > MOST_ROWS:
        rows.append(
            (f"{len(written) - MOST_ROWS} others", sum(written.values()) - sum(int(str(row[1])) for row in rows))
        )
    return Table("Descriptions by writer", ("writer", "descriptions"), tuple(rows))


def positions(dataset: Dataset) -> Table | str:
    """How often each position is the target."""
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
    left = "" if len(sizes) == 1 else f"; {len(aimed) - sizes[size]} targets in sets of another size are left out"
    note = f"p: chance of so uneven a spread if every position is equally likely; – below {LEAST_EXPECTED} expected each{left}"
    return Table("Targets by position", ("", *map(str, range(size)), "p"), tuple(rows), note)


def distance_table(dataset: Dataset, distances: Mapping[str, tuple[float, float]]) -> Table | str:
    """Mean pairwise and closest distance of sets, by kind; `distances` is (mean, closest) by set id."""
    rows = []
    means: dict[str, float] = {}
    for kind in ("video", "photos"):
        found = [distances[one.id] for one in dataset.sets if one.kind == kind and one.id in distances]
        if found:
            means[kind] = math.fsum(mean for mean, _ in found) / len(found)
            closest = math.fsum(least for _, least in found) / len(found)
            rows.append((kind, len(found), means[kind], closest))
    if not rows:
        return "no distances: the dataset has no embeddings (where pictures are at hand: --encoder NAME)"
    note = ""
    if len(means) == 2 and means["video"] > 0:
        ratio = means["photos"] / means["video"]
        note = f"photo sets over video sets: {ratio:.2f} (above 1, the images of a video set are more alike)"
    heads = ("kind", "sets", "mean distance", "mean of the closest pair")
    return Table("Distances within sets", heads, tuple(rows), note)


def phenomena_shares(dataset: Dataset) -> list[PhenomenonShare]:
    """Phenomena by kind, from whoever judged them."""
    kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
    return shares(PHENOMENA, dataset.queries.values(), dataset.judgments, kinds)


def phenomena_table(dataset: Dataset) -> Table | str:
    """Table 2 of the paper: in how many percent of the annotated descriptions each phenomenon was found."""
    found = phenomena_shares(dataset)
    if not found:
        return "nobody annotated phenomena" if dataset.queries else ""
    rows = tuple((one.phenomenon, *(one.percent(part) for part in PARTS), one.looked["all"]) for one in found)
    return Table("Phenomena (% of the descriptions that were looked at)", ("", *PARTS, "looked at"), rows, digits=1)


def licences(dataset: Dataset) -> Table | str:
    """Images by licence, where the publisher names it."""
    if not dataset.licences:
        return ""
    rows: Sequence[tuple[str, int]] = Counter(dataset.licences.values()).most_common()
    return Table("Images by licence", ("licence", "images"), tuple(sorted(rows, key=lambda row: (-row[1], row[0]))))
