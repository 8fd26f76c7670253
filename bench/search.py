"""`ctxr search`: seconds of an index and of queries against the size of a gallery, and what ctxr-lite finds on real photos.

python -m bench search                          speed; photos are COCO's where they are at hand, else drawn
python -m bench.search FOLDER CAPTIONS.json     photos of COCO's format: recall by their captions, and when nothing fits

Large galleries hold random unit vectors of the real widths. Above 10,000 pictures, cells are zeros in a file with holes: they take as
long to multiply, and 10 GB less to write. Each query is new, so its text is embedded.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs
from numpy.lib.format import open_memmap
from PIL import Image as Pictures
from scipy.stats import rankdata

from bench.embedding import frames
from bench.footage import OUT, real_folder
from bench.lite import CAPTIONS, overlap, photos_of
from bench.table import Row, in_turns, runs_of, seconds_of
from ctxr.engine.progress import SILENT
from ctxr.engine.stage import execute
from ctxr.pipelines.finding.config import Search, SearchQuery
from ctxr.pipelines.finding.finder import LEAST_RANK, Finder, traced_query
from ctxr.pipelines.finding.index import CELLS, IMAGES, VECTORS, IndexStage
from ctxr.problems.traces.searching import BACKGROUND
from ctxr.store.records import Image, TimedWord
from ctxr.store.tables import read_table, write_table

Array = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FOLDER = OUT / "search"
MODELS = ("ctxr-lite", "random:ViT-B-32")
"""Weights change nothing about the speed."""

INDEXED, SIZES, QUERIES, RESULTS = 400, (1_000, 10_000, 100_000), 40, 10
STOP = re.compile(
    r"\b(a|an|the|of|on|in|at|with|and|is|are|to|his|her|its|it|this|that|there|some|by|up|for|from|near|next)\b"
)
LEAST = 0.1, 0.15, 0.2, 0.25
"""Words that no query needs; ranks that were tried."""
TARGET_SIZE, TARGET = 10_000, 0.2
"""Pictures and seconds that are wanted of 95 % of the queries."""


def measure() -> list[Row]:
    """The rows of this bench."""
    rmtree(FOLDER, ignore_errors=True)
    return [row for model in MODELS for row in of_model(model)]


def of_model(model: str) -> Iterator[Row]:
    """Rows of an index and of queries by one model."""
    photos, work = FOLDER / "photos", FOLDER / model.replace(":", "-")
    write_photos(photos, INDEXED)
    config = Search(photos, model=model, workdir=work)
    seconds = [seconds_of(lambda: execute(IndexStage(config), SILENT)) for _ in range(2)]
    size = f"{INDEXED} photos"
    yield Row(f"index a photo, {model}", seconds[0] / INDEXED, note=f"of {size}, with models loaded and 143 words read")
    yield Row(f"index again, nothing new, {model}", seconds[1], note=size)
    for count in SIZES:
        enlarge(config, count)
        finder = Finder(config, photos, model, SILENT)
        yield from of_queries(finder, model, count)
    rmtree(work)


def write_photos(folder: Path, count: int) -> None:
    """JPEGs of different contents: photos with a number as comment."""
    files = sorted((real_folder() / "photos" / "coco-mini").glob("*.jpg"))
    pictures = [Pictures.open(file).convert("RGB") for file in files] or [
        Pictures.fromarray(one) for one in frames(20, 480, 640)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pictures[number % len(pictures)].save(folder / f"{number:04}.jpg", quality=90, comment=str(number).encode())


def enlarge(config: Search, count: int) -> None:
    """Make an index as large as `count`: its first photos under other names, random vectors, and cells."""
    folder, rng = config.folder(), np.random.default_rng(0)
    images = read_table(folder / IMAGES, Image)
    rows = (structs.replace(images[row % INDEXED], id=f"{row:06}") for row in range(count))
    write_table(folder / IMAGES, list(rows))
    for name in (VECTORS, CELLS):
        width = np.load(folder / name, mmap_mode="r").shape[1]
        (folder / name).unlink()
        array = open_memmap(folder / name, "w+", np.float32, (count, width))
        for start in range(0, count if name == VECTORS or count <= TARGET_SIZE else 0, 1_000):
            block = rng.standard_normal((1_000, width), np.float32)
            array[start : start + 1_000] = block / np.linalg.norm(block, axis=1, keepdims=True)
        array.flush()


def of_queries(finder: Finder, model: str, count: int) -> Iterator[Row]:
    """Rows of the three kinds of queries, each in turn with faiss's flat index over the same numbers."""
    words = (f"a {one} beside a {other}" for one, other in permutations(BACKGROUND, 2))
    turns = np.linspace(0, 2 * np.pi, 30)
    stroke = [(0.3 + 0.1 * np.cos(turn), 0.4 + 0.1 * np.sin(turn), turn / 10) for turn in turns.tolist()]
    vectors, rng = finder._vectors.numpy(), np.random.default_rng(1)
    flat, both = flat_index(vectors), None
    if count <= TARGET_SIZE:
        both = flat_index(np.concatenate([vectors, finder._cells.numpy()], 1))

    def asked(*strokes: list[tuple[float, float, float]]) -> SearchQuery:
        return SearchQuery([TimedWord(next(words), 0.0, 1.0)], [*strokes])

    def row() -> int:
        return int(rng.integers(count))

    kinds: dict[str, tuple[Callable[[], object], Callable[[], object] | None]] = {
        "text": (
            lambda: finder.find(asked(), RESULTS),
            flat and (lambda: flat(finder._model.weights(traced_query(asked()))[: vectors.shape[1]])),
        ),
        "text and a stroke": (
            lambda: finder.find(asked(stroke), RESULTS),
            both and (lambda: both(finder._model.weights(traced_query(asked(stroke))))),
        ),
        "more like this": (lambda: finder.alike(row(), RESULTS), flat and (lambda: flat(vectors[row()]))),
    }
    for kind, (ours, theirs) in kinds.items():
        calls = [ours] if theirs is None else [ours, theirs]
        for call in calls:
            call()
        seconds, *against = in_turns(*calls, repeat=QUERIES)
        slowest, wanted = float(np.quantile(runs_of(seconds), 0.95)), count == TARGET_SIZE
        yield Row(
            figure=f"{kind}, {count:,} pictures, {model}",
            seconds=seconds,
            against="faiss flat" if against else "",
            against_seconds=against[0] if against else None,
            target=f"95 % <= {TARGET * 1000:.0f} ms" if wanted else "",
            met=slowest <= TARGET if wanted else None,
            note=f"95 % within {slowest * 1000:.0f} ms",
        )


def flat_index(vectors: Array) -> Callable[[Array], object] | None:
    """A search for the ten largest products by faiss, or None where it is not installed."""
    if not find_spec("faiss"):
        return None
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    return lambda query: index.search(query[None], RESULTS)


def of_photos(folder: Path, captions: Path) -> Iterator[Row]:
    """Rows of recall by captions, and of what is said when a photo is there or taken out, of the half that chose no number."""
    pictures, texts = photos_of(folder, captions)
    config = Search(folder, model="ctxr-lite", workdir=FOLDER / "captions")
    execute(IndexStage(config), SILENT)
    finder, count = Finder(config, folder, "ctxr-lite", SILENT), len(pictures)
    places = [
        [one.place for one in finder.find(SearchQuery([TimedWord(text, 0.0, 0.0)]), RESULTS).results]
        for own in texts
        for text in own
    ]
    meant = np.repeat(np.arange(count), CAPTIONS)
    for most in (1, RESULTS):
        hits = np.array([own in found[:most] for own, found in zip(meant, places, strict=True)])
        yield Row(
            f"R@{most} of {count} by captions",
            hits.mean(),
            "chance",
            most / count,
            unit="",
            note=f"{len(hits)} captions",
        )
    plain = [" ".join(re.findall(r"[a-z]+", text.lower())) for own in texts for text in own]
    queries = {"captions": plain, "3 words": [" ".join(STOP.sub("", text).split()[:3]) for text in plain]}
    names = [image.path for image in finder.pictures]
    report = np.array([sha256(name.encode()).digest()[-1] % 2 == 1 for name in names])
    # how many photos of the gallery, the most alike ones by the words of their captions, are out with the right one
    alike = overlap(texts) + np.eye(count)
    for form, said in queries.items():
        scores = finder._model.read(said) @ finder._vectors.numpy().T
        others = finder._model.read(BACKGROUND) @ finder._vectors.numpy().T
        for out in (0, count // 2):
            tried = trials(scores, others, alike, out)
            yield of_trials(f"{form}, {out} alike photos out" if out else form, tried, report)


class Trial(NamedTuple):
    """A query for `photo` in a gallery in which it is or is not, and if so among the first ten.

    Attributes:
        rank: share of the everyday words that fit the gallery worse. top: highest cosine.
        deviations: by which it is above the mean of the gallery.
    """

    photo: int
    present: bool
    near: bool
    rank: float
    top: float
    deviations: float


def trials(scores: Array, others: Array, alike: Floats, out: int) -> list[Trial]:
    """Each query among 20 and 39 photos drawn six times, with its photo and with another one in its place."""
    rng, tried = np.random.default_rng(0), list[Trial]()
    for query, own in enumerate(scores):
        meant = query // CAPTIONS
        pool = np.argsort(alike[meant], kind="stable")[: len(alike) - 1 - out]
        for size in (20, 39) * 6:
            drawn = rng.permutation(pool)[:size]
            for gallery in (drawn, np.concatenate([[meant], drawn[1:]])):
                seen, top = own[gallery], float(own[gallery].max())
                present = bool(gallery[0] == meant)
                near = present and int((seen > own[meant]).sum()) < RESULTS
                rank = float((others[:, gallery].max(1) < top).mean())
                tried.append(Trial(meant, present, near, rank, top, float((top - seen.mean()) / seen.std())))
    return tried


def of_trials(name: str, tried: Sequence[Trial], report: Flags) -> Row:
    """How well the rank tells whether a photo is there, and what the rule of `ctxr search` says, on the photos of `report`."""
    photo = np.array([one.photo for one in tried])
    present, near = np.array([one.present for one in tried]), np.array([one.near for one in tried])
    rules = {rule: np.array([getattr(one, rule) for one in tried]) for rule in ("rank", "top", "deviations")}
    half, count = report[photo], len(report)
    draws = np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), 500)

    def share(of: Flags) -> str:
        wrong, weights = rules["rank"][of] < LEAST_RANK, draws[:, photo[of]]
        low, high = np.quantile((weights @ wrong) / weights.sum(1), (0.025, 0.975))
        return f"{wrong.mean():.1%} [{low:.1%}, {high:.1%}]"

    areas = {rule: auroc(present[half], values[half]) for rule, values in rules.items()}
    chosen = ", ".join(f"{least:g}: {(rules['rank'] < least)[near & ~half].mean():.1%}" for least in LEAST)
    note = f"says that nothing fits where the photo is among the first ten {share(near & half)}, where it is out"
    note += f" {share(~present & half)}; AUROC of the highest cosine {areas['top']:.3f}, of that in deviations"
    note += f" {areas['deviations']:.3f}; said wrongly on the other half, by the least rank {chosen}"
    return Row(f"AUROC, {name}", areas["rank"], "chance", 0.5, unit="", note=note)


def auroc(right: Flags, scores: Floats) -> float:
    """Chance that a right one has the higher score; ties count half."""
    ranks, count = rankdata(scores), int(right.sum())
    return float((ranks[right].sum() - count * (count + 1) / 2) / (count * (len(right) - count)))


if __name__ == "__main__":
    from bench.__main__ import show

    show("search", [*of_photos(*map(Path, sys.argv[1:]))] if sys.argv[1:] else measure())
