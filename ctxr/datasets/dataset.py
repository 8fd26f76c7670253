"""A benchmark in memory: image sets, what is asked against them, and what people answered, wherever it was read from.

Statistics, audits, exports and evaluation look at this and not at files, so each works on our artifacts and on published
releases alike.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ctxr.errors import UsageError
from ctxr.store.kinds import SET_KINDS
from ctxr.store.records import (
    Facts,
    Image,
    ImageSet,
    Judgment,
    Query,
    Record,
    SharedFootage,
    Source,
    Split,
    SplitName,
    Text,
)
from ctxr.store.tables import PAYLOADS, Owner


@dataclass(frozen=True)
class Dataset:
    """Image sets with their queries.

    Attributes:
        root: folder that `Image.path` is relative to; None where only texts are available.
        sets: in the order of their ids.
        images, facts, licences: by image id. Where the picture is not available its `path` and `sha256` are "" and its sides 0.
        texts, queries: by id, queries in the order of the file or table.
        judgments: all rounds of all workers; the published target is a row of worker `gold`.
        splits: side of each group; a group that is not named belongs to no split.
        notes: what a reader left out or took on trust, one sentence each.
        footage: sources that share footage, where they were compared.
        files: what it was read from, but for pictures.
        payloads: rows of the payload tables that it has, by name (`PAYLOADS`).
    """

    name: str
    root: Path | None
    sets: tuple[ImageSet, ...]
    images: dict[str, Image]
    texts: dict[str, Text] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgments: tuple[Judgment, ...] = ()
    splits: dict[str, SplitName] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    facts: dict[str, Facts] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    footage: tuple[SharedFootage, ...] = ()
    licences: dict[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    payloads: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)

    def of_sets(self, command: str) -> "Dataset":
        """The dataset itself, for a command about sets with one target. Raises UsageError for sets with links."""
        if any(SET_KINDS[image_set.kind].links for image_set in self.sets):
            sentence = f"{self.name} holds documents, and {command} is about image sets"
            raise UsageError(sentence, hint="use ctxr stats, ctxr train --recipe links-ap or ctxr eval")
        return self

    def split_of(self, image_set: ImageSet) -> SplitName | None:
        """The split of a set; None if unknown."""
        return self.splits.get(image_set.group)

    def text_of(self, query: Query) -> str:
        """The texts of a query in order, as one."""
        return " ".join(self.texts[name].text for name in query.texts)

    def tables(self) -> dict[str, Collection[Record]]:
        """Its rows, by the names of the tables in which an artifact keeps them."""
        return {
            "sets": self.sets,
            "images": self.images.values(),
            "texts": self.texts.values(),
            "queries": self.queries.values(),
            "judgments": self.judgments,
            "splits": [Split(group, split) for group, split in self.splits.items()],
            **self.payloads,
        }

    def payload(self, of: Owner, name: str) -> Mapping[str, Sequence[Record]]:
        """Rows that belong to a query, a text, an image or a set of that id, by payload table and in its order."""
        return self._by_owner.get((of, name), {})

    @cached_property
    def _by_owner(self) -> dict[tuple[Owner, str], dict[str, list[Record]]]:
        owned: dict[tuple[Owner, str], dict[str, list[Record]]] = {}
        for name, rows in self.payloads.items():
            table = PAYLOADS[name]
            for row in rows:
                owned.setdefault((table.of, table.owner_of(row)), {}).setdefault(name, []).append(row)
        return owned

    def targets(self, worker: str = "gold") -> Iterator[tuple[Query, ImageSet, int]]:
        """Each query for an image whose target `worker` named, with its set and the target's position in it, 0-based."""
        by_id = {image_set.id: image_set for image_set in self.sets}
        positions: dict[str, dict[str, int]] = {}  # a gallery may hold a hundred thousand pictures
        for judgment in self.judgments:
            query = self.queries[judgment.query]
            if judgment.worker == worker and judgment.value > 0 and query.labels is None:
                image_set = by_id[query.image_set]
                if image_set.id not in positions:
                    positions[image_set.id] = {image: at for at, image in reversed([*enumerate(image_set.images)])}
                yield query, image_set, positions[image_set.id][judgment.candidate]

    def sole_targets(self, worker: str = "gold") -> Iterator[tuple[Query, ImageSet, int]]:
        """As `targets`, without queries that have several."""
        found = [*self.targets(worker)]
        counts = Counter(query.id for query, _, _ in found)
        return (row for row in found if counts[row[0].id] == 1)

    def picture(self, image: Image) -> Path | None:
        """The file of an image; None if unavailable."""
        return self.root / image.path if self.root is not None and image.path else None
