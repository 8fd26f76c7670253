"""The published figures of ImageCoDe beside those of the copy at hand (Krojer et al. 2022, sections 3 and 4; counts of the
released files)."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ctxr.data.dataset import Dataset
from ctxr.data.lexicon import load_lexicon
from ctxr.data.readers.imagecode import collection_of
from ctxr.metrics.language import Parsed, language, mention_share
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.stats_tables import PARTS, image_queries, parts_of, phenomena_shares

Row = tuple[str, float | None, float, int, bool]
"""Figure, value here (None: cannot be computed), published value, digits after the point, whether all that it was counted on
is here."""

DESCRIPTIONS = 21_202

_COLLECTIONS = {"MSR-VTT": 8045, "video-storytelling": 8153, "YouCook": 588, "open-images": 4416}
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

HUMANS = (("valid", "90.9", 0.797, 0.872), ("test", "90.8", 0.795, 0.869))
"""Side, human accuracy in percent, Krippendorff's alpha nominal and interval (Table 3)."""


def is_release(dataset: Dataset) -> bool:
    """Whether a dataset is (a part of) the published release, by what its sets were drawn from."""
    collections = {collection_of(one) for one in dataset.sets}
    return bool(collections) and not dataset.sources and collections <= _COLLECTIONS.keys()


def published_table(
    dataset: Dataset, parsed: Mapping[str, Parsed], distances: Mapping[str, tuple[float, float]]
) -> Table | None:
    """Each published figure beside the one here; None for a dataset that is not (a part of) the release."""
    if not is_release(dataset):
        return None
    rows: list[tuple[str, float | None, float, str]] = []
    for name, here, said, digits, whole in _figures(dataset, parsed, distances):
        if here is None:
            rows.append((name, None, said, "not here"))
            continue
        same = abs(round(here, digits) - said) < 1e-9
        verdict = "same" if same else "differs" if whole else "a part is here"
        rows.append((name, round(here, digits) if digits else int(here), said, verdict))
    equal = sum(row[3] == "same" for row in rows)
    held = len(image_queries(dataset))
    note = f"{held} of the {DESCRIPTIONS} published descriptions are here; {equal} of {len(rows)} figures are the published ones"
    return Table(
        "Beside the published figures of ImageCoDe", ("figure", "here", "published", ""), tuple(rows), note, digits=1
    )


def _figures(
    dataset: Dataset, parsed: Mapping[str, Parsed], distances: Mapping[str, tuple[float, float]]
) -> Iterator[Row]:
    yield from _counts(dataset)
    whole = len(parsed) == DESCRIPTIONS
    everything = language(list(parsed.values()))
    for name, attribute, said, digits in (
        ("mean length", "mean_length", 23.3, 1),
        ("word types", "word_types", 6916, 0),
        ("mean tree depth", "mean_depth", 5.1, 1),
        ("mean sentences", "mean_sentences", 1.6, 1),
    ):
        yield name, None if everything is None else getattr(everything, attribute), said, digits, whole
    yield "3 or more sentences %", None if everything is None else 100 * everything.three_or_more, 11.8, 1, whole
    parts = parts_of(dataset, parsed)
    for name, lexicon, said_of in (
        ("body parts", "body_parts", {"video": 72.1, "photos": 30.2}),
        ("colours", "colours", {"video": 33.6, "photos": 61.4}),
    ):
        for part, said in said_of.items():
            share = mention_share(parts[part], load_lexicon(lexicon).words)
            yield f"{name}, {part} %", None if share is None else 100 * share, said, 1, whole
    yield "photo sets over video sets, mean distance", _ratio(dataset, distances), 1.13, 2, whole
    found = {one.phenomenon: one for one in phenomena_shares(dataset)}
    for name, published in _PHENOMENA.items():
        for part, said in zip(PARTS, published, strict=True):
            here = found[name].percent(part) if name in found else None
            yield f"{name}, {part} %", here, said, 1, name in found and found[name].looked["all"] == _LOOKED[name]
    complete = {side: _of(dataset, side) == _SETS[side] for side in _SETS}
    authors = Counter(dataset.texts[query.texts[0]].author for query in image_queries(dataset))
    for writer, said in _WRITERS.items():
        yield f"valid by {writer}", authors[writer] or None, said, 0, complete["valid"]
    sides: dict[str, set[str]] = {"valid": set(), "test": set()}
    for one in dataset.sets:
        if one.kind == "video" and (side := dataset.split_of(one)) in sides:
            sides[str(side)].add(one.source)
    both = len(sides["valid"] & sides["test"]) if all(sides.values()) else None
    yield "videos in valid and test", both, _SHARED_VIDEOS, 0, complete["valid"] and complete["test"]


def _counts(dataset: Dataset) -> Iterator[Row]:
    asked = Counter(query.image_set for query in image_queries(dataset))
    for side in _SETS:
        sets = [one for one in dataset.sets if dataset.split_of(one) == side]
        static = [one for one in sets if one.kind == "photos"]
        whole = len(sets) == _SETS[side]
        yield f"{side}: sets", len(sets) or None, _SETS[side], 0, whole
        yield f"{side}: descriptions", sum(asked[one.id] for one in sets) if sets else None, _TEXTS[side], 0, whole
        yield f"{side}: sets of photos", len(static) if sets else None, _STATIC_SETS[side], 0, whole
        yield (
            f"{side}: of photos",
            sum(asked[one.id] for one in static) if sets else None,
            _STATIC_TEXTS[side],
            0,
            whole,
        )
        for number, said in zip((3, 2, 1), _PER_SET[side], strict=True):
            here = sum(asked[one.id] == number for one in sets)
            yield f"{side}: sets with {number}", here if sets else None, said, 0, whole
    texts: Counter[str] = Counter()
    for one in dataset.sets:
        texts[collection_of(one)] += asked[one.id]
    for name, said in _COLLECTIONS.items():
        yield f"descriptions of {name}", texts[name], said, 0, sum(texts.values()) == DESCRIPTIONS


def _of(dataset: Dataset, side: str) -> int:
    return sum(dataset.split_of(one) == side for one in dataset.sets)


def _ratio(dataset: Dataset, distances: Mapping[str, tuple[float, float]]) -> float | None:
    means = {}
    for kind in ("video", "photos"):
        found = [distances[one.id][0] for one in dataset.sets if one.kind == kind and one.id in distances]
        if not found:
            return None
        means[kind] = sum(found) / len(found)
    return means["photos"] / means["video"] if means["video"] else None
