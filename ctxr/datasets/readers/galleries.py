"""Galleries of photos: every caption is a query against all photos of its gallery."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.frames import describe_picture
from ctxr.store.records import PHOTO_SUFFIXES, Image, ImageSet, Judgment, Query, SplitName, Text
from ctxr.store.tables import grouped


@dataclass
class Galleries:
    """What was read so far; paths are relative to the folder `root`, and `passed` is called after each photo."""

    root: Path
    passed: Callable[[], None]
    members: dict[str, list[str]] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)

    @property
    def searched(self) -> str:
        """Where pictures are searched, in words."""
        return f"{self.root.name}/" if self.root.name else "the current folder"

    def holds(self, file: Path) -> bool:
        """Whether a file exists inside the folder."""
        return file.is_file() and file.resolve().is_relative_to(self.root.resolve())

    @cached_property
    def tops(self) -> list[Path]:
        """The folder and its direct subfolders."""
        return [self.root, *sorted(entry for entry in self.root.iterdir() if entry.is_dir())]

    def find(self, name: str) -> Path | None:
        """The file of that name in the folder or a direct subfolder."""
        return next((top / name for top in self.tops if self.holds(top / name)), None)

    @cached_property
    def _below(self) -> dict[str, list[Path]]:
        files = sorted((len(file.parts), file) for files in files_below(self.root).values() for file in files)
        stems = (file.stem if file.suffix.lower() in PHOTO_SUFFIXES else file.name for _, file in files)
        return grouped((name, file) for (_, file), stem in zip(files, stems, strict=True) for name in {file.name, stem})

    def below(self, name: str) -> list[Path]:
        """All files of that name, pictures with or without their suffix, in the folder and those below, the nearest first."""
        return [file for file in self._below.get(name, ()) if self.holds(file)]

    def add_photo(self, gallery: str, image: str, file: Path | None) -> bool:
        """Add a photo; whether its picture is available."""
        described = None if file is None else describe_picture(self.root, file, image, gallery, None)
        self.images[image] = described or Image(image, "", "", gallery, 0, 0)
        self.members.setdefault(gallery, []).append(image)
        self.passed()
        return described is not None

    def add_caption(self, key: str, text: str, image: str, position: int) -> bool:
        """Add a caption of an image; False, and nothing is added, for a blank one."""
        if text.strip():
            self.texts[key] = Text(key, text, "unknown", position)
            self.judgments.append(Judgment(key, image, "gold", 1.0))
        return bool(text.strip())

    def dataset(
        self, name: str, splits: Mapping[str, SplitName], notes: list[str], licences: dict[str, str] | None = None
    ) -> Dataset:
        """All that was read."""
        return Dataset(
            name=name,
            root=self.root if any(image.path for image in self.images.values()) else None,
            sets=tuple(
                ImageSet(gallery, "photos", tuple(images), gallery, gallery, None, None, None)
                for gallery, images in sorted(self.members.items())
            ),
            images=self.images,
            texts=self.texts,
            queries={
                row.query: Query(row.query, self.images[row.candidate].group, (row.query,)) for row in self.judgments
            },
            judgments=tuple(sorted(self.judgments, key=lambda row: row.key())),
            splits=dict(splits),
            licences=licences or {},
            notes=tuple(notes),
        )


def files_below(root: Path) -> dict[str, list[Path]]:
    """All files below a folder by their names, those nearest to it first; hidden folders and links are not followed."""
    by_name: dict[str, list[Path]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(child for child in folders if not child.startswith("."))
        for name in files:
            by_name.setdefault(name, []).append(Path(folder, name))
    for paths in by_name.values():
        paths.sort(key=lambda path: (len(path.parts), path))
    return by_name
