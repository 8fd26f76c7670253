"""`ctxr stats`: the tables that describe a benchmark, ours or published (ImageCoDe, section 4)."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import open_dataset
from ctxr.datasets.readers.imagecode import _COLLECTIONS, UNKNOWN, collection_of, is_release
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import Table
from ctxr.errors import UsageError, plural
from ctxr.metrics.language import ParsedText, language, shares
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.proportions import LEAST_EXPECTED, even_spread
from ctxr.models.dataset_vectors import picture_vectors_of
from ctxr.models.leakage import leakage_table
from ctxr.models.picture_vectors import distances_of
from ctxr.models.tokens import load_tokenizer
from ctxr.pipelines.inspection.config import Stats, StatsReport
from ctxr.pipelines.inspection.lexicon import load_lexicon, mention_percent
from ctxr.problems.registry import problems
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import SET_KINDS
from ctxr.store.records import ImageSet
from ctxr.store.tables import PAYLOADS, UNREADABLE, grouped, pretty_json

PARTS = ("all", "video", "photos")
"""What the paper calls static is called photos in tables of records."""

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
_MENTIONS = {"body_parts": {"video": 72.1, "photos": 30.2}, "colours": {"video": 33.6, "photos": 61.4}}

MOST_ROWS = 15
"""Sources that are named; the rest is summed up."""


PublishedFigure = tuple[str, float | None, float, int, bool]
"""A name, our figure, the published one, its digits, and whether all of its data is here."""


class Statistics:
    """The tables of a dataset. A sentence in place of a table says why there is none, "" that it has no meaning here. `parsed` are
    descriptions by query, `distances` the mean and closest one by set id."""

    def __init__(
        self, dataset: Dataset, parsed: Mapping[str, ParsedText], distances: Mapping[str, tuple[float, float]]
    ) -> None:
        self.dataset, self.parsed = dataset, parsed
        kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
        self.queries = [query for query in dataset.queries.values() if query.labels is None and query.texts]
        self.texts_of = Counter(query.image_set for query in self.queries)
        self.authors = Counter(dataset.texts[query.texts[0]].author for query in self.queries)
        by_kind = grouped((kinds[dataset.queries[name].image_set], text) for name, text in parsed.items())
        self.parts = {part: by_kind[part] for part in PARTS} | by_kind | {"all": [*parsed.values()]}
        # by kind: sets, and the means of their mean and closest distance
        self.distances: dict[str, tuple[int, float, float]] = {}
        for kind in SET_KINDS:
            pairs = [distances[name] for name, its_kind in kinds.items() if its_kind == kind and name in distances]
            if pairs:
                mean, closest = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
                self.distances[kind] = len(pairs), mean, closest
        video = self.distances.get("video", (0, 0.0, 0.0))[1]
        self.distance_ratio = self.distances["photos"][1] / video if "photos" in self.distances and video else None
        self.phenomena_shares = shares(PHENOMENA, dataset.queries.values(), dataset.judgments, kinds)

    def published(self) -> Table | str:
        """Each published figure beside the one here, for (a part of) the release."""
        if not is_release(self.dataset):
            return ""
        rows: list[tuple[str, float | None, float, str]] = []
        for name, here, published, digits, whole in (*self._published_counts(), *self._published_means()):
            if here is None:
                rows.append((name, None, published, "not here"))
                continue
            same = abs(round(here, digits) - published) < 1e-9
            verdict = "same" if same else "differs" if whole else "a part is here"
            rows.append((name, round(here, digits) if digits else int(here), published, verdict))
        equal = sum(row[3] == "same" for row in rows)
        described = f"{len(self.queries)} of the {DESCRIPTIONS} published descriptions are here"
        note = f"{described}; {equal} of {len(rows)} figures are the published ones"
        heads = ("figure", "here", "published", "")
        return Table("Beside the published figures of ImageCoDe", heads, tuple(rows), note, digits=1)

    def _published_counts(self) -> Iterator[PublishedFigure]:
        texts_of = self.texts_of
        for split in _SETS:
            sets = [image_set for image_set in self.dataset.sets if self.dataset.split_of(image_set) == split]
            photos = [image_set for image_set in sets if image_set.kind == "photos"]
            by_number = Counter(texts_of[image_set.id] for image_set in sets)
            for name, here, published in (
                ("sets", len(sets), _SETS[split]),
                ("descriptions", sum(texts_of[image_set.id] for image_set in sets), _TEXTS[split]),
                ("sets of photos", len(photos), _STATIC_SETS[split]),
                ("of photos", sum(texts_of[image_set.id] for image_set in photos), _STATIC_TEXTS[split]),
                *((f"sets with {number}", by_number[number], _PER_SET[split][3 - number]) for number in (3, 2, 1)),
            ):
                yield (f"{split}: {name}", here if sets else None, published, 0, len(sets) == _SETS[split])
        texts: Counter[str] = Counter()
        for image_set in self.dataset.sets:
            texts[collection_of(image_set)] += texts_of[image_set.id]
        for name, published in _COLLECTIONS.items():
            yield f"descriptions of {name}", texts[name], published, 0, texts.total() == DESCRIPTIONS

    def _published_means(self) -> Iterator[PublishedFigure]:
        dataset, whole = self.dataset, len(self.parsed) == DESCRIPTIONS
        figures = language(list(self.parsed.values()))
        for name, attribute, scale, published, digits in (
            ("mean length", "mean_length", 1, 23.3, 1),
            ("word types", "word_types", 1, 6916, 0),
            ("mean tree depth", "mean_deepest", 1, 5.1, 1),
            ("mean sentences", "mean_sentences", 1, 1.6, 1),
            ("3 or more sentences %", "three_or_more", 100, 11.8, 1),
        ):
            value = getattr(figures, attribute, None)
            yield name, None if value is None else scale * value, published, digits, whole
        for lexicon, shares_of in _MENTIONS.items():
            for part, published in shares_of.items():
                percent = mention_percent(self.parts[part], load_lexicon(lexicon))
                yield f"{lexicon.replace('_', ' ')}, {part} %", percent, published, 1, whole
        yield "photo sets over video sets, mean distance", self.distance_ratio, 1.13, 2, whole
        judged = {share.phenomenon: share for share in self.phenomena_shares}
        for name, percents in _PHENOMENA.items():
            share = judged.get(name)
            all_judged = share is not None and share.judged["all"] == _LOOKED[name]
            for part, published in zip(PARTS, percents, strict=True):
                yield (f"{name}, {part} %", None if share is None else share.percent(part), published, 1, all_judged)
        sizes = Counter[str | None](dataset.split_of(image_set) for image_set in dataset.sets)
        complete = {split: sizes[split] == _SETS[split] for split in _SETS}
        for writer, published in _WRITERS.items():
            yield f"valid by {writer}", self.authors[writer] or None, published, 0, complete["valid"]
        videos = grouped((dataset.split_of(one), one.source) for one in dataset.sets if one.kind == "video")
        both = len({*videos["valid"]} & {*videos["test"]}) if videos["valid"] and videos["test"] else None
        yield ("videos in valid and test", both, _SHARED_VIDEOS, 0, complete["valid"] and complete["test"])

    def splits(self) -> Table | str:
        """Sets, images and descriptions of each split."""
        dataset, texts_of = self.dataset, self.texts_of
        if not dataset.sets:
            return "there is no image set: nothing to count"
        aimed = Counter(query.image_set for query in {query.id: query for query, _, _ in dataset.targets()}.values())
        splits: dict[str, list[ImageSet]] = {name: [] for name in (*SPLITS, "no split")}
        for image_set in dataset.sets:
            splits[dataset.split_of(image_set) or "no split"].append(image_set)
        rows = []
        for name, sets in [*((name, sets) for name, sets in splits.items() if sets), ("all", list(dataset.sets))]:
            photos = [image_set for image_set in sets if image_set.kind == "photos"]
            images = len({image for image_set in sets for image in image_set.images})
            counted = ((sets, texts_of), (photos, texts_of), (sets, aimed))
            texts = (sum(counts[image_set.id] for image_set in part) for part, counts in counted)
            rows.append((name, len(sets), len(photos), images, *texts))
        heads = ("split", "sets", "of photos", "images", "descriptions", "of photos", "with target")
        return Table("Sets and descriptions by split", heads, tuple(rows))

    def sources(self) -> Table | str:
        """Sets and descriptions of each corpus, video or album; the smaller ones summed up."""
        texts = grouped(((collection_of(one), one.kind), self.texts_of[one.id]) for one in self.dataset.sets)
        counts: dict[tuple[str, ...], tuple[int, ...]]
        counts = {key: (len(numbers), sum(numbers)) for key, numbers in texts.items()}
        heads = ("source", "kind", "sets", "descriptions")
        return Table("Sets and descriptions by source", heads, _largest(counts)) if counts else ""

    def per_set(self) -> Table | str:
        """How many sets have one, two, three descriptions."""
        numbers = sorted(set(self.texts_of.values()))
        if not numbers or len(numbers) > MOST_ROWS:
            return ""
        rows = []
        for split in (*SPLITS, None):
            sets = [image_set for image_set in self.dataset.sets if self.dataset.split_of(image_set) == split]
            if counts := [self.texts_of[image_set.id] for image_set in sets if self.texts_of[image_set.id]]:
                means = sum(counts) / len(counts)
                rows.append((split or "no split", *(counts.count(number) for number in numbers), means))
        heads = ("split", *(f"{number} each" for number in numbers), "mean")
        return Table("Sets by number of descriptions", heads, tuple(rows), digits=2)

    def language(self, tokenizer: str) -> Table | str:
        """Table 4 of the paper: length, word types, tree depth, sentences."""
        if not self.parsed:
            return "there are no descriptions: no figures on language, body parts, colours and positions"
        figures = {part: language(texts) for part, texts in self.parts.items() if texts}
        names = {
            "descriptions": "descriptions",
            "mean_length": "mean length (tokens)",
            "median_length": "median length",
            "longest": "longest",
            "word_types": "word types",
            "mean_sentences": "mean sentences",
            "three_or_more": "share with 3 or more sentences",
            "mean_depth": "mean tree depth",
            "mean_deepest": "mean depth of the deepest sentence",
        }
        rows = [(text, *(getattr(figure, name) for figure in figures.values())) for name, text in names.items()]
        known = tuple(row for row in rows if set(row[1:]) != {None})
        note = f"tokens by {tokenizer}; lower-cased, punctuation counted, white space not"
        return Table("Language", ("", *figures), known, note, digits=2)

    def mentions(self) -> Table | str:
        """In how many percent of the descriptions body parts and colours are named."""
        if not self.parsed:
            return ""
        lexicons = {name.replace("_", " "): load_lexicon(name) for name in _MENTIONS}
        parts = {part: texts for part, texts in self.parts.items() if texts}
        rows = tuple(
            (name, *(mention_percent(texts, lexicon) for texts in parts.values())) for name, lexicon in lexicons.items()
        )
        sizes = (f"{len(lexicon)} {name} ({len(set().union(*lexicon))} forms)" for name, lexicon in lexicons.items())
        note = f"ctxr's own lists: {', '.join(sizes)}"
        return Table("Descriptions that name … (%)", ("", *parts), rows, note, digits=1)

    def writers(self) -> Table | str:
        """Descriptions by who wrote them, where that is known."""
        if not set(self.authors) - {UNKNOWN}:
            return ""
        rows = _largest({(name,): (count,) for name, count in self.authors.items()})
        return Table("Descriptions by writer", ("writer", "descriptions"), rows)

    def positions(self) -> Table | str:
        """Number of targets at each position."""
        aimed = list(self.dataset.targets())
        if not aimed:
            return "no target is known: no positions" if self.dataset.queries else ""
        sizes = Counter(len(image_set.images) for _, image_set, _ in aimed)
        size = sizes.most_common(1)[0][0]
        if size > MOST_POSITIONS:
            return f"positions are left out: a gallery of {size} images has no order"
        rows = []
        for part in PARTS:
            tally = Counter(at for _, one, at in aimed if len(one.images) == size and part in ("all", one.kind))
            if tally:
                counts = [tally[position] for position in range(size)]
                p = even_spread(counts) if sum(counts) >= LEAST_EXPECTED * size else None
                rows.append((part, *counts, p))
        others = plural(len(aimed) - sizes[size], "target in a set", "targets in sets")
        left = "" if len(sizes) == 1 else f"; left out: {others} of another size"
        note = f"p: chance of so uneven a spread if every position is equally likely; – below {LEAST_EXPECTED} expected each{left}"
        return Table("Targets by position", ("", *map(str, range(size)), "p"), tuple(rows), note)

    def distance_table(self) -> Table | str:
        """Mean pairwise and closest distance of sets, by kind."""
        if not self.distances:
            return "no distances: the dataset has no embeddings (use --encoder NAME)"
        ratio, alike = self.distance_ratio, "above 1, the images of a video set are more alike"
        note = "" if ratio is None else f"photo sets over video sets: {ratio:.2f} ({alike})"
        heads = ("kind", "sets", "mean distance", "mean of the closest pair")
        return Table("Distances within sets", heads, tuple((kind, *row) for kind, row in self.distances.items()), note)

    def phenomena(self) -> Table | str:
        """Table 2 of the paper: in how many percent of the annotated descriptions each phenomenon was found."""
        if not self.phenomena_shares:
            return "phenomena are not annotated" if self.dataset.queries else ""
        rows = tuple(
            (share.phenomenon, *(share.percent(part) for part in PARTS), share.judged["all"])
            for share in self.phenomena_shares
        )
        return Table("Phenomena (% of the annotated descriptions)", ("", *PARTS, "annotated"), rows, digits=1)

    def payloads(self) -> Table | str:
        """Rows of each payload table, and what they belong to."""
        rows = [
            (name, len(table), PAYLOADS[name].of.replace("_", " "), len(set(map(PAYLOADS[name].owner_of, table))))
            for name, table in self.dataset.payloads.items()
        ]
        return Table("Payload tables", ("table", "rows", "each about a", "distinct"), tuple(rows)) if rows else ""

    def licences(self) -> Table | str:
        """Images by licence, where the publisher names it."""
        rows = sorted(Counter(self.dataset.licences.values()).items(), key=lambda row: (-row[1], row[0]))
        return Table("Images by licence", ("licence", "images"), tuple(rows)) if rows else ""


def _largest(counts: Mapping[tuple[str, ...], tuple[int, ...]]) -> tuple[tuple[str | int, ...], ...]:
    """A row of names and counts for the largest counts, and one with the sums of the others."""
    ranked = sorted(counts.items(), key=lambda row: (-row[1][0], row[0]))
    rows: list[tuple[str | int, ...]] = [(*names, *values) for names, values in ranked[:MOST_ROWS]]
    if others := ranked[MOST_ROWS:]:
        sums = map(sum, zip(*(values for _, values in others), strict=True))
        rows.append((f"{len(others)} others", *[""] * (len(others[0][0]) - 1), *sums))
    return tuple(rows)


def run(config: Stats, progress: Progress = SILENT) -> StatsReport:
    """Compute every table that the dataset supports, and name each that it does not."""
    config.check()
    if config.out is not None and config.out.is_dir():
        raise UsageError(f"{config.out} is a folder", hint="--out names a file, like stats.json")
    tokenizer = load_tokenizer(config.tokenizer, config.parser)
    dataset = open_dataset(config.dataset, config.workdir, progress)
    asked = (one for one in problems().values() if one.asks(dataset))
    if own := {title: table for one in asked for title, table in one.tables(dataset).items()}:
        leaks = leakage_table(dataset, None, progress)
        shown = own | ({"leakage": leaks} if isinstance(leaks, Table) else {})
        return _write(config, StatsReport(dataset.name, "", shown, (), dataset.notes))
    queries = sorted(dataset.queries.values(), key=lambda query: query.id)
    described = {query.id: dataset.text_of(query) for query in queries if query.labels is None and query.texts}
    if described and config.tokenizer == "auto" and tokenizer.name.startswith("regex"):
        rule = "words are counted by a plain rule, unlike the published figures"
        progress.warn(f"spaCy is not installed: {rule} (pip install spacy)")
    parsed = dict(zip(described, tokenizer.parse(described), strict=True)) if described else {}
    vectors = picture_vectors_of(dataset, config.encoder, config.device, progress)
    statistics = Statistics(dataset, parsed, distances_of(dataset, vectors if config.encoder else None))
    look = None if config.skip_pictures else config.near
    results = {
        "splits": statistics.splits(),
        "sources": statistics.sources(),
        "per_set": statistics.per_set(),
        "language": statistics.language(tokenizer.name),
        "mentions": statistics.mentions(),
        "writers": statistics.writers(),
        "positions": statistics.positions(),
        "distances": statistics.distance_table(),
        "phenomena": statistics.phenomena(),
        "payload_tables": statistics.payloads(),
        "licences": statistics.licences(),
        "leakage": leakage_table(dataset, vectors, progress, config.near_embedding, look),
        "published": statistics.published(),
    }
    tables = {name: result for name, result in results.items() if isinstance(result, Table)}
    missing = [*results.values(), tokenizer.why_no_depth if parsed else ""]
    sentences = tuple(result for result in missing if result and isinstance(result, str))
    return _write(config, StatsReport(dataset.name, tokenizer.name if parsed else "", tables, sentences, dataset.notes))


def _write(config: Stats, report: StatsReport) -> StatsReport:
    """The report, which `--out` gets a copy of. Raises UsageError for a file that `--out` did not write."""
    if (out := config.out) is None:
        return report
    if out.exists():
        content = None
        with suppress(OSError, *UNREADABLE):
            content = msgspec.json.decode(out.read_bytes())
        if not isinstance(content, dict) or set(content) != set(StatsReport.__dataclass_fields__):
            hint = "choose another --out, such as stats.json"
            raise UsageError(f"{out} is not a statistics file written by ctxr", hint=hint)
    write_bytes(out, pretty_json(report))
    return report
