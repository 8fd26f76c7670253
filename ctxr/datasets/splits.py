"""Splits: sources that share footage stay together; they are dealt by salted hash or by the publisher's word; leaks are counted."""

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.engine.progress import Progress
from ctxr.engine.report import leak_sentence
from ctxr.errors import DataError, some
from ctxr.store.records import SPLIT_WORDS, Image, ImageSet, SharedFootage, Split, SplitName
from ctxr.store.tables import grouped

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")

GROUPS, SPLITS_TABLE = "groups.jsonl", "splits.jsonl"
"""Tables of an artifact of image sets: sources that share footage, and the split of each source."""


def hash_split(group: str, salt: str = "ctxr") -> SplitName:
    """The split of a group, by hash alone: 80 % train, 10 % valid, 10 % test; another salt gives another one."""
    return _split_at(_position(salt, group))


def _split_at(position: float) -> SplitName:
    return "train" if position < 0.8 else "valid" if position < 0.8 + 0.1 else "test"


def _position(salt: str, group: str) -> float:
    """Where the hash of a group lies, 0..1."""
    return int.from_bytes(hashlib.sha256(f"{salt}\0{group}".encode()).digest()[:8]) / 2**64


def assign_splits(
    sources: Mapping[str, bool],
    shared: Iterable[SharedFootage] = (),
    fixed: Mapping[str, SplitName] | None = None,
    salt: str = "ctxr",
    strata: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Split]:
    """One row per source, by name: its fixed split, or that of its group, which holds all sources that `shared` connects.

    A group without a fixed source is dealt by the hash of its first name. Where that leaves a split without sets, groups are dealt by
    the rank of their hashes instead: a tenth, but at least one group, to each of test and valid that no fixed source is in.

    Args:
        sources: names, and whether the source is large enough for sets: only those fill a split.
        strata: what sources are of; of each, every split gets its share.
        fixed: splits that are given. A group of several such splits is torn apart; another source of it goes where it shares most.
    """
    fixed = {name: split for name, split in (fixed or {}).items() if name in sources}
    free: dict[str, list[str]] = {}
    splits: dict[str, SplitName] = dict(fixed)
    links: dict[str, Counter[str]] = defaultdict(Counter)
    for row in (shared := list(shared)):
        links[row.first][row.second] = links[row.second][row.first] = row.shared
    for group in connected(sources, shared):
        if any(name in fixed for name in group):
            _spread(group, splits, links)
        else:
            free[group[0]] = group
    dealt = {name: hash_split(name, salt) for name in free}
    for stratum, own in grouped((strata[name], name) for name in free if strata and name in strata).items():
        start = _position(salt, repr(stratum))  # so that small strata are not all in train
        own.sort(key=partial(_position, salt))
        dealt |= {name: _split_at((place + start) / len(own)) for place, name in enumerate(own)}
    ranked = sorted((name for name in free if any(sources[name] for name in free[name])), key=partial(_position, salt))
    filled = {splits[name] for name in splits if sources[name]}
    if {*SPLITS} - filled - {dealt[name] for name in ranked}:
        part = max(1, round(len(ranked) / 10))
        for split in SPLITS[:0:-1]:
            if split not in filled and len(ranked) > ("train" not in filled):
                dealt |= dict.fromkeys(ranked[-part:], split)
                del ranked[-part:]
        dealt |= dict.fromkeys(ranked, "train")
    splits |= {name: dealt[first] for first, group in free.items() for name in group}
    return [Split(name, splits[name]) for name in sorted(sources)]


def _spread(group: Sequence[str], splits: dict[str, SplitName], links: Mapping[str, Counter[str]]) -> None:
    """Give each source of a connected group the split with which it shares most, from those that have one outwards."""
    while waiting := [name for name in group if name not in splits]:
        reached = {}
        for name in waiting:
            votes: Counter[SplitName] = Counter()
            for other, weight in links[name].items():
                if other in splits:
                    votes[splits[other]] += weight
            if votes:
                reached[name] = votes.most_common(1)[0][0]
        splits |= reached


def connected(names: Iterable[str], shared: Iterable[SharedFootage]) -> list[list[str]]:
    """Groups of names that `shared` connects, directly or through others; each sorted, in the order of their first names."""
    index = {name: at for at, name in enumerate(sorted(names))}
    pairs = [(index[row.first], index[row.second]) for row in shared if row.first in index and row.second in index]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(pairs), bool), (rows, columns)), (len(index), len(index)))
    labels = connected_components(graph, directed=False)[1].tolist() if index else ()
    return list(grouped(zip(labels, index, strict=True)).values())


def read_published(path: Path) -> dict[str, SplitName]:
    """The publisher's splits from a CSV file `group,split`, with or without a header line.

    Raises UsageError for a missing file, DataError naming the line of a wrong or second split.
    """
    lines = read_utf8(path, "name a CSV file: group,split").splitlines()
    splits: dict[str, SplitName] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row or (number == 1 and row == ["group", "split"]):
            continue
        if len(row) != 2 or row[1].strip() not in SPLIT_WORDS:
            what = f"{path}:{number}: {','.join(row)!r} is not `group,train|valid|test`"
            raise DataError(
                what, hint="a row is the name of a source and its split; the first may be the header group,split"
            )
        group, split = row[0].strip(), SPLIT_WORDS[row[1].strip()]
        if splits.setdefault(group, split) != split:
            raise DataError(f"{path}:{number}: group {group!r} is in {splits[group]} and in {split}")
    return splits


@dataclass(frozen=True)
class Leakage:
    """What splits must not share: groups with their splits, image contents with their sets, sources with footage."""

    groups: dict[str, list[SplitName]]
    images: dict[str, list[str]]
    footage: tuple[SharedFootage, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many there are of each, as manifests record it."""
        counts = {"leaking_groups": len(self.groups), "leaking_images": len(self.images)}
        return counts | ({"leaking_footage": len(self.footage)} if self.footage else {})

    def sentence(self) -> str:
        """What leaks, in words; empty if nothing does."""
        pairs = (f"{row.first} and {row.second}" for row in self.footage)
        return leak_sentence(self.counts()) + (f": {some(pairs)}" if self.footage else "")


def leakage_of(dataset: Dataset) -> Leakage:
    """Leaks between the splits of a dataset."""
    splits = {image_set.id: split for image_set in dataset.sets if (split := dataset.split_of(image_set))}
    sets = [image_set for image_set in dataset.sets if image_set.id in splits]
    return find_leakage(sets, dataset.images, splits, dataset.footage)


def alert_of_leaks(dataset: Dataset, progress: Progress) -> None:
    """Alert the user to what leaks between the splits of a dataset."""
    if sentence := leakage_of(dataset).sentence():
        progress.alert(sentence)


def find_leakage(
    sets: Sequence[ImageSet],
    images: Mapping[str, Image],
    splits: Mapping[str, SplitName],
    footage: Iterable[SharedFootage] = (),
) -> Leakage:
    """Leaks between `splits`, by set id: of groups by name, images by content, sources by shared `footage`."""
    of_group: dict[str, set[SplitName]] = defaultdict(set)
    holders: dict[str, dict[str, SplitName]] = defaultdict(dict)
    for image_set in sets:
        split = splits[image_set.id]
        of_group[image_set.group].add(split)
        for image_id in image_set.images:
            image = images[image_id]
            of_group[image.group].add(split)
            if image.sha256:
                holders[image.sha256][image_set.id] = split
    groups = {group: sorted(several) for group, several in sorted(of_group.items()) if len(several) > 1}
    images_of = {content: sorted(splits) for content, splits in sorted(holders.items()) if len({*splits.values()}) > 1}
    shared = tuple(row for row in footage if len(of_group[row.first] | of_group[row.second]) > 1)
    return Leakage(groups, images_of, shared)
