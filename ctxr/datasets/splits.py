"""Splits: whole groups go to train, valid or test, by salted hash or by the publisher's word; leaks are counted by group."""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, Split, SplitName

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")


def split_of(group: str, salt: str = "ctxr") -> SplitName:
    """The split of a group, by hash: 80 % train, 10 % valid, 10 % test. The same group always gets the same split, independent of the
    rest of the dataset; another salt gives another one."""
    digest = hashlib.sha256(f"{salt}\0{group}".encode()).digest()
    position = int.from_bytes(digest[:8]) / 2**64
    return "train" if position < 0.8 else "valid" if position < 0.8 + 0.1 else "test"


def assign_splits(groups: Iterable[str], published: Mapping[str, SplitName], salt: str = "ctxr") -> list[Split]:
    """One row per group: the publisher's split where there is one, the salted hash elsewhere."""
    return [Split(group, published.get(group) or split_of(group, salt)) for group in sorted(set(groups))]


def read_published(path: Path) -> dict[str, SplitName]:
    """The publisher's splits from a CSV file with the columns `group,split` (a header line is optional).

    Raises UsageError for a missing file, DataError naming the line for a wrong split or a group with two.
    """
    lines = read_utf8(path, "name a CSV file: group,split").splitlines()
    splits: dict[str, SplitName] = {}
    named = {str(name): name for name in SPLITS} | {"val": SPLITS[1], "validation": SPLITS[1], "dev": SPLITS[1]}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row or (number == 1 and row == ["group", "split"]):
            continue
        if len(row) != 2 or row[1].strip() not in named:
            raise DataError(f"{path}:{number}: {','.join(row)!r} is not `group,train|valid|test`")
        group, split = row[0].strip(), named[row[1].strip()]
        if splits.setdefault(group, split) != split:
            raise DataError(f"{path}:{number}: group {group!r} is in {splits[group]} and in {split}")
    return splits


@dataclass(frozen=True)
class Leakage:
    """What two splits share although they must not.

    Attributes:
        groups: groups with sets in more than one split, with those splits.
        images: image contents (sha256) in sets of more than one split, with the set ids that hold them.
    """

    groups: dict[str, list[SplitName]]
    images: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.groups or self.images)


def find_leakage(sets: Sequence[ImageSet], images: Mapping[str, Image], splits: Mapping[str, SplitName]) -> Leakage:
    """Leaks between splits: `splits` says the split of each set id. Groups are compared by name, images by content."""
    of_group: dict[str, set[SplitName]] = defaultdict(set)
    holders: dict[str, dict[str, SplitName]] = defaultdict(dict)
    for image_set in sets:
        split = splits[image_set.id]
        of_group[image_set.group].add(split)
        for image_id in image_set.images:
            image = images[image_id]
            of_group[image.group].add(split)
            holders[image.sha256][image_set.id] = split
    return Leakage(
        groups={
            group: sorted(group_splits) for group, group_splits in sorted(of_group.items()) if len(group_splits) > 1
        },
        images={
            content: sorted(by_set) for content, by_set in sorted(holders.items()) if len(set(by_set.values())) > 1
        },
    )
