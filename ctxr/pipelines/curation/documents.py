"""`ctxr build-documents`: documents with known links, made of the captions of a dataset as Hessel et al. (2019) made theirs.

Sentences and images of a document are shuffled, so positions say nothing, and every pair is judged. A split has images of its own.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables, Links, is_documents
from ctxr.datasets.lineage import dataset_parents
from ctxr.datasets.open import open_dataset
from ctxr.datasets.splits import SPLITS, connected, leakage_of
from ctxr.datasets.writers.job import ExportPictures
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.stage import SourceInputs, Stage, execute
from ctxr.errors import DataError, plural
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.pipelines.curation.config import BuildDocuments, DocumentsReport
from ctxr.store.artifacts import Content, open_artifact
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_bytes
from ctxr.store.kinds import DATASET
from ctxr.store.records import Image, SplitName
from ctxr.store.tables import payload_rows, write_tables
from ctxr.store.units import IMAGES

FOREIGN, _ATTEMPTS, _MOST_OF_A_GROUP = 45, 20, 40
"""Captions of other albums in DII-Stress, attempts at another document of a group of images, and documents of an album or story."""

Group = Sequence[tuple[Image, list[str]]]  # images that a document is drawn from, each with its captions
Part = tuple[str, tuple[Image, ...]]  # a sentence, or "", and the images that are linked to it, if any

CONSTRUCTIONS = {
    "coco": ("", 15, 15, "15 captioned images"),
    "story-dii": ("photos", 5, 5, "an album of 5 captioned photos"),
    "story-sis": ("video", 5, 5, "a video set with 5 described images"),
    "dii-stress": ("photos", 5, 5, f"an album of 5 captioned photos beside {FOREIGN} others"),
    "recipe": ("video", 2, 6, "a video set with 2 described images"),
}
"""Documents by the names of the paper's datasets: the kind of sets whose albums or stories they are drawn from (none: from a whole
split), how many described images one takes at least and at most, and the former in words."""


def construct(dataset: Dataset, kind: str, wanted: Mapping[SplitName, int], seed: int) -> Dataset:
    """Documents of a `kind` of CONSTRUCTIONS, up to as many as are wanted of each split; notes name each split that gives fewer.

    Where fewer than two splits have captions, images are dealt by hash, in the proportion of what is wanted. Raises DataError for
    a dataset of documents, and where there is not a single document.
    """
    if is_documents(dataset):
        raise DataError(f"{dataset.name} holds documents", hint="name the dataset whose captions they are made of")
    needs, tables, notes = CONSTRUCTIONS[kind][-1], DocumentTables(), list[str]()
    groups = _groups(dataset, CONSTRUCTIONS[kind][0], wanted, seed, notes)
    for split, most in wanted.items():
        own = [[*groups[key].values()] for key in sorted(key for key in groups if key[0] == split)]
        documents = [*islice(_documents(kind, own, most, (seed, SPLITS.index(split))), most)]
        for number, (texts, images, links) in enumerate(documents):
            tables.add(f"{split}-{number:05d}", split, texts, images, links)
        if len(documents) < most:
            notes.append(f"{split} gives {len(documents)} of {plural(most, 'document')}: each takes {needs}")
    if not tables.sets:
        hint = "coco takes single photos; story-dii and dii-stress photos in folders; story-sis and recipe video sets"
        raise DataError(
            f"{dataset.name} gives no {kind} document: each takes {needs}", hint=f"{hint}; --dataset names another"
        )
    built = tables.dataset(dataset.name, dataset.root, notes)
    # sets, queries and texts are new ones
    kept: dict[str, Collection[str]] = {"image": built.images, "image_set": (), "query": (), "text": ()}
    return dataclasses.replace(built, payloads=payload_rows(dataset.payloads, kept))


def _documents(
    kind: str, groups: Sequence[Group], wanted: int, seed: tuple[int, int]
) -> Iterator[tuple[list[str], list[Image], Links]]:
    """Texts, images and links of different documents of a split, from one group after the other."""
    ready = [group for group in groups if sum(bool(texts) for _, texts in group) >= CONSTRUCTIONS[kind][1]]
    order, known = np.random.default_rng(seed).permutation(len(ready)), set()
    for number in range((_MOST_OF_A_GROUP if CONSTRUCTIONS[kind][0] else wanted) * len(ready)):
        for attempt in range(_ATTEMPTS):
            rng = np.random.default_rng((*seed, number, attempt))
            parts = _draw(kind, rng, ready[order[number % len(ready)]], groups)
            sentences = [part for part in parts if part[0]]
            images = [image for _, linked in parts for image in linked]
            content = frozenset(text for text, _ in sentences), frozenset(image.id for image in images)
            if parts and len(content[0]) == len(sentences) and content not in known:
                known.add(content)
                rows, columns = rng.permutation(len(sentences)), rng.permutation(len(images))
                links = np.array([[image in linked for image in images] for _, linked in sentences], np.float64)
                texts = [sentences[row][0] for row in rows]
                yield texts, [images[column] for column in columns], links[np.ix_(rows, columns)]
                break


def _draw(kind: str, rng: np.random.Generator, group: Group, groups: Sequence[Group]) -> list[Part]:
    """A document of a group; none where the other groups have too few captions."""
    parts = _pairs(rng, group, CONSTRUCTIONS[kind][2], steps=kind == "recipe")
    if kind == "coco":  # five pairs, five images without their caption, five captions without their image
        parts[5:] = [*(("", images) for _, images in parts[5:10]), *((text, ()) for text, _ in parts[10:])]
    if kind == "dii-stress":  # after the story, which is that of story-dii
        own, known = {image.id for image, _ in group}, dict(parts)
        others = [item for other in groups for item in other if item[0].id not in own]
        texts = dict.fromkeys(text for text, _ in _pairs(rng, others, 3 * FOREIGN) if text not in known)
        return [*parts, *((text, ()) for text in [*texts][:FOREIGN])] if len(texts) >= FOREIGN else []
    return parts


def _pairs(rng: np.random.Generator, group: Group, most: int, steps: bool = False) -> list[Part]:
    """Described images, each with one of its captions; as `steps` in their order, each with the images up to the next one."""
    described = [place for place, (_, texts) in enumerate(group) if texts]
    places = rng.choice(described, min(most, len(described)), replace=False).tolist()
    ends = pairwise([*sorted(places), len(group)]) if steps else ((place, place + 1) for place in places)
    spans = [group[place:end] for place, end in ends]
    return [(span[0][1][rng.integers(len(span[0][1]))], tuple(image for image, _ in span)) for span in spans]


def _groups(
    dataset: Dataset, kind: str, wanted: Mapping[SplitName, int], seed: int, notes: list[str]
) -> dict[tuple[SplitName | None, str], dict[str, tuple[Image, list[str]]]]:
    """What documents are drawn from, by split and group; `notes` gets one where the splits are not those of the dataset."""
    captions: dict[str, dict[str, list[str]]] = {}
    for query, image_set, position in dataset.targets():
        captions.setdefault(image_set.id, {}).setdefault(image_set.images[position], []).append(dataset.text_of(query))
    rows = []
    for one in dataset.sets:
        for name in one.images if one.id in captions and kind in ("", one.kind) else ():
            image, texts = dataset.images[name], captions[one.id].get(name, [])
            if (image.path or dataset.root is None) and (texts or kind == "video"):
                # photos of a gallery are single ones, unless it says what belongs together
                single = len(one.images) > MOST_POSITIONS and image.group == one.group
                rows.append((one, replace(image, group=image.id if single else image.group), texts))
    splits = {image.group: dataset.split_of(one) for one, image, _ in rows}
    if len({*splits.values()} - {None}) < 2:
        dealt_afresh = "their images are dealt to train, valid and test by hash"
        notes.append(f"the captions are not in several splits, so {dealt_afresh}")
        parts = sorted(connected(splits, dataset.footage), key=lambda part: sha256_bytes(f"{seed}\0{part[0]}".encode()))
        ends = np.cumsum([*wanted.values()]) / sum(wanted.values())
        dealt = np.searchsorted(ends, (np.arange(len(parts)) + 0.5) / len(parts)).tolist()
        splits = {album: [*wanted][number] for number, part in zip(dealt, parts, strict=True) for album in part}
    groups: dict[tuple[SplitName | None, str], dict[str, tuple[Image, list[str]]]] = defaultdict(dict)
    for one, image, texts in rows:
        group = groups[splits[image.group], {"photos": image.group, "video": one.id}.get(kind, "")]
        group.setdefault(image.id, (image, []))[1].extend(texts)
    return groups


def run(options: BuildDocuments, progress: Progress = SILENT) -> DocumentsReport:
    """Draw documents and report how many.

    Raises UsageError for wrong arguments, UnfinishedError without a dataset, DataError for one that gives no document.
    """
    up_to_date = execute(DocumentsStage(options), progress).up_to_date
    counts = open_artifact(options.folder()).manifest.counts
    return DocumentsReport(options.folder(), counts.pop("dataset"), up_to_date, counts, counts.pop("notes"))


class DocumentsStage(Stage[SourceInputs[Path]]):
    """Documents as a dataset."""

    KIND = DATASET
    options: BuildDocuments

    def inputs(self, progress: Progress) -> SourceInputs[Path]:
        """The dataset that is named, or the latest one."""
        path = chosen(self.options.dataset, self.options.workdir, CHAIN, progress)
        parents = dataset_parents(path, path.resolve().stem, self.options.workdir, progress)
        return SourceInputs(parents, self.options.key(), path)

    def write(self, inputs: SourceInputs[Path], out: Path, progress: Progress) -> Content:
        """Draw them, and copy their pictures."""
        dataset = open_dataset(inputs.source, self.options.workdir, progress)
        wanted = {split: getattr(self.options, split) for split in SPLITS}
        built = construct(dataset, self.options.kind, wanted, self.options.seed)
        for note in built.notes:
            progress.warn(note)
        pictures, source = [image for image in built.images.values() if image.path], ExportPictures(dataset)
        self.announce(progress, documents=len(built.sets), pictures=len(pictures))
        home = "" if all(image.path.startswith(f"{IMAGES}/") for image in pictures) else f"{IMAGES}/"
        for image in progress.each("linking pictures", pictures):
            link_or_copy(source.checked(image), out / f"{home}{image.path}")
        images = [replace(image, path=image.path and f"{home}{image.path}") for image in built.images.values()]
        rows = write_tables(out, built.tables() | {"images": images})
        counts = {
            "documents": len(built.sets),
            "sentences": rows["queries"],
            "images": len(images),
            "links": sum(row.value > 0 for row in built.judgments),
            "splits": {split: [*built.splits.values()].count(split) for split in SPLITS},
            "dataset": dataset.name,
            "notes": built.notes,
            **leakage_of(built).counts(),
        }
        files = {f"{name}.jsonl" for name in rows} | {image.path for image in images if image.path}
        return Content(sorted(files), counts, {})
