"""What a report is about, read into units: image sets, a dataset, a release, or results alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.pseudonyms import is_pseudonym
from ctxr.annotation.records import DROPPED, DroppedText
from ctxr.annotation.tasks.values import query_of
from ctxr.datasets.changes import changed
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import GOLD
from ctxr.datasets.open import identity_of, read_dataset
from ctxr.datasets.readers.artifact import KINDS, dataset_of
from ctxr.datasets.splits import leakage_of
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, DOCUMENTS, latest
from ctxr.engine.report import leak_sentence
from ctxr.errors import CtxrError, DataError
from ctxr.problems.results import RESULTS
from ctxr.store.arrays import Vectors, pairwise_distances
from ctxr.store.artifacts import MANIFEST, Artifact, Manifest, Parent, open_artifact
from ctxr.store.kinds import EVALUATION, IMAGE_SETS, JUDGMENTS, RELEASE, RUN, RUNS
from ctxr.store.paths import without_folder
from ctxr.store.records import BETWEEN, SOURCE_KINDS, Failure, Image, ImageSet, Judgment, Source, Split, SplitName
from ctxr.store.tables import grouped, read_table
from ctxr.store.units import SourceUnit, UnitKeys, ids_in_ledger, read_unit, unit_folder


def units_of(dataset: Dataset) -> tuple[SourceUnit, ...]:
    """A unit for each source, by name, without ledger and embeddings. A source that no table describes has the kind of its first set."""
    sets = grouped((image_set.source, image_set) for image_set in dataset.sets)
    facts = grouped((row.source, row) for row in dataset.facts.values())
    images = {
        name: [dataset.images[image] for image in sorted({image for row in own for image in row.images})]
        for name, own in sets.items()
    }
    sources = {name: Source(name, own[0].kind, "", "", 0, frames=len(images[name])) for name, own in sets.items()}
    sources |= {source.name: source for source in dataset.sources}
    stamp, none = UnitKeys("", "", {}), np.zeros((0, 1), np.float32)
    return tuple(
        SourceUnit(stamp, source, [], [], facts[name], sets[name], images.get(name, []), none, none)
        for name, source in sorted(sources.items())
    )


ALONE = "results"
"""Kind of a project that holds nothing but evaluations."""


@dataclass(frozen=True)
class ChainStage:
    """One step of the chain: an artifact, or something without a manifest.

    Attributes:
        name: the folder's own name. kind: of the artifact, RELEASE or ALONE. sha256: of its manifest, or of a release's tables.
        manifest: None where ctxr wrote none. counts: how many rows of what. changed: files that were edited since.
    """

    path: Path
    name: str
    kind: str
    sha256: str = ""
    manifest: Manifest | None = None
    counts: Mapping[str, object] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that wrote it, in words."""
        if self.manifest is None:
            return "as published" if self.kind == RELEASE else "evaluations only"
        return f"ctxr {self.manifest.verb}"

    @property
    def reasons(self) -> dict[str, int]:
        """How many frames and photos are in no set, by reason; manifests may have been edited."""
        counts = self.counts.get("reasons")
        rows = counts.items() if isinstance(counts, dict) else ()
        return {name: count for name, count in rows if isinstance(count, int)}

    def number(self, *path: str) -> float | None:
        """A number below `config`, `models` or `counts`; None where there is none: manifests may have been edited."""
        value: object = {"counts": self.counts}
        if self.manifest:
            value = {"config": self.manifest.config, "models": self.manifest.models, "counts": self.counts}
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def find_stages(workdir: Path, named: Path | None, notes: list[str]) -> list[ChainStage]:
    """The stages to report on, oldest first; what is worth knowing about the choice is added to `notes`.

    Without a name they end in the furthest finished artifact of the project, else they are its results alone.
    Raises UnfinishedError when there is none of them, DataError for a damaged manifest or table.
    """
    path = named
    if path is None:
        finished = any((workdir / one / MANIFEST).is_file() for one in (*CHAIN, DOCUMENTS))
        # without anything finished, the latest image sets say what is missing
        if finished or not any((workdir / RESULTS).glob(f"*/{MANIFEST}")):
            path, more = latest(workdir, CHAIN)
            notes += more
    if path is None:
        name = workdir.resolve().name
        note = f"{name} holds results and no dataset, so queries are shown without their pictures: --input DATASET adds them"
        if all(artifact.manifest.kind != EVALUATION for artifact in artifacts_in(workdir / RESULTS)):
            note = f"{name} holds only tables of results, so the page shows nothing else"
        notes.append(note)
        return [ChainStage(workdir, name, ALONE)]
    published = path.exists() and not (path / MANIFEST).is_file() and path.name != MANIFEST
    artifact = None if published else open_artifact(path, maker="ctxr build-sets videos/")
    if artifact is None or artifact.manifest.kind not in KINDS:
        return [ChainStage(path, path.resolve().name, RELEASE)]
    chain = [artifact]
    while parent := next((one.sha256 for one in chain[0].manifest.parents if one.kind in KINDS), ""):
        siblings = artifacts_in(chain[0].path.resolve().parent, damaged=False)
        earlier = next((one for one in siblings if one.manifest.kind in KINDS and one.sha256 == parent), None)
        if earlier is None or any(earlier.path == one.path for one in chain):
            if not notes:
                name = chain[0].path.resolve().name
                notes.append(f"the image sets {parent[:12]}… that {name} was made from are not beside it (any more)")
            break
        chain.insert(0, earlier)
    return [_stage(one) for one in chain]


def artifacts_in(folder: Path, damaged: bool = True) -> Iterator[Artifact]:
    """The artifacts in a folder, by name. Raises DataError for a damaged one, which is left out where `damaged` is false."""
    for manifest in sorted(folder.glob(f"*/{MANIFEST}")):
        try:
            yield open_artifact(manifest.parent)
        except DataError:
            if damaged:
                raise


def runs_as_evaluated(project: Path, parents: Iterable[Parent]) -> Iterator[Artifact]:
    """The runs among the parents of evaluations that still lie in the project as they were then."""
    for parent in parents:
        folder = project / RUNS / parent.name
        if parent.kind == RUN and (folder / MANIFEST).is_file() and open_artifact(folder).sha256 == parent.sha256:
            yield open_artifact(folder)


PICTURES = ("images/", "dropped/")


def _stage(artifact: Artifact) -> ChainStage:
    """The stage of an artifact. Pictures of sets that are missing do not count as changed: the page names them where they stand."""
    path, manifest = artifact.path, artifact.manifest
    edited, listed = artifact.changed_files(), "failures.jsonl" in manifest.files
    if manifest.kind == IMAGE_SETS:
        edited = [name for name in changed(artifact) if not name.startswith(PICTURES) or (path / name).exists()]
        listed = True
    failures = tuple(read_table(path / "failures.jsonl", Failure)) if listed else ()
    name, counts = path.resolve().name, manifest.counts
    return ChainStage(path, name, manifest.kind, artifact.sha256, manifest, counts, failures, tuple(edited))


Distances = npt.NDArray[np.float64]


class Described(NamedTuple):
    """A query for an image.

    Attributes:
        targets: positions in its set; None where they are hidden. author: the pseudonym of a worker; "" for others.
        votes: of each person who looked for the image, the pseudonym and the position that was picked.
        dropped: why it is not in the dataset; "" for those that are.
    """

    image_set: str
    text: str
    targets: list[int] | None
    author: str = ""
    votes: Sequence[tuple[str, int]] = ()
    dropped: str = ""

    @property
    def missed(self) -> list[str]:
        """Who picked another image than the target."""
        return [worker for worker, at in self.votes if at not in (self.targets or ())]


@dataclass(frozen=True)
class Chain:
    """The artifacts of a report, oldest first, and everything in the last one, with the image sets that it was made of.

    Attributes:
        units: what each source gave. splits: split of each group. notes: what a reader of the page should know first.
        project: folder of evaluations and runs. dataset: what was described or published, with its queries; None for image sets
            and for results alone.
        built: the image sets that are shown, those without a description too; None where the sets are those of a dataset alone.
    """

    stages: tuple[ChainStage, ...]
    units: tuple[SourceUnit, ...]
    splits: dict[str, SplitName]
    notes: tuple[str, ...]
    project: Path
    dataset: Dataset | None = None
    built: ChainStage | None = None

    @property
    def last(self) -> ChainStage:
        """What the report is about."""
        return self.stages[-1]

    @property
    def without_ledger(self) -> bool:
        """Whether there is no ledger of frames: image sets have one unless they were rebuilt."""
        return self.built is None or (bool(self.units) and not any(unit.ledger for unit in self.units))

    @property
    def evaluated(self) -> str:
        """SHA-256 of the dataset, as recorded by its evaluations; "" for image sets."""
        return self.last.sha256 if self.dataset is not None else ""

    @property
    def root(self) -> Path:
        """Folder that the paths of pictures are relative to."""
        described = self.dataset.root if self.dataset is not None and self.built is None else None
        return described or (self.built or self.last).path

    @cached_property
    def images(self) -> dict[str, Image]:
        """Images of all sets, by id."""
        return {image.id: image for unit in self.units for image in unit.images}

    @cached_property
    def descriptions(self) -> dict[str, Described]:
        """By query for an image, in the order of the texts; those that the project's crowd dropped stand last."""
        if (dataset := self.dataset) is None:
            return {}
        targets: dict[str, list[int]] = {row.query: [] for row in dataset.judgments if row.worker == GOLD}
        for query, _, position in dataset.targets():
            targets[query.id].append(position)
        queries = [query for query in dataset.queries.values() if query.labels is None]
        queries.sort(key=lambda query: dataset.texts[query.texts[0]].order)
        places = {one.id: one.images for unit in self.units for one in unit.sets}
        votes, found = _votes(dataset.judgments, {query.id: places[query.image_set] for query in queries}), {}
        for query in queries:
            author = dataset.texts[query.texts[0]].author
            known, text = author if is_pseudonym(author) else "", dataset.text_of(query)
            found[query.id] = Described(query.image_set, text, targets.get(query.id), known, votes[query.id])
        return found | dict(self._dropped(places))

    def _dropped(self, places: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Described]]:
        """Descriptions that the crowd dropped; none where the answers that decided are not beside the dataset any more."""
        folder = self.project / JUDGMENTS
        with suppress(CtxrError):
            content = open_artifact(folder, JUDGMENTS).content
            parents = {one.path: one.manifest.parents for one in self.stages if one.manifest}
            counted = next((path for path, own in parents.items() if content in {row.sha256 for row in own}), None)
            if counted is None:
                return
            answered = read_judgments(folder)
            made = {query_of(row.unit, row.worker): answered.units[row.unit] for row in answered.answers}
            asked = {name: unit for name, unit in made.items() if unit.target in places.get(unit.image_set, ())}
            votes = _votes(answered.judgments, {name: places[unit.image_set] for name, unit in asked.items()})
            for row in read_table(counted / DROPPED, DroppedText):
                if unit := asked.get(row.query):
                    at = [places[unit.image_set].index(str(unit.target))]
                    yield row.query, Described(unit.image_set, row.text, at, row.author, votes[row.query], row.reason)

    @cached_property
    def leak(self) -> str:
        """What leaks between splits, in words; "" if nothing does."""
        return leak_sentence(self.last.counts) if self.dataset is None else leakage_of(self.dataset).sentence()

    def limit(self, name: str) -> float | None:
        """The current limit by its option name: that of the last artifact that records one."""
        values = (stage.number("config", name) for stage in reversed(self.stages))
        return next((value for value in values if value is not None), None)

    @property
    def threshold(self) -> float | None:
        """The distance that two frames of a set exceed."""
        return (self.built or self.last).number("models", "selection", "threshold")

    @property
    def encoder(self) -> str:
        """The encoder that picked the sets, without the folder that its name may hold; empty where it is not known."""
        manifest = (self.built or self.last).manifest
        known = manifest.models.get("encoder") if manifest else None
        name = known.get("name") if isinstance(known, Mapping) else None
        return without_folder(name) if isinstance(name, str) else ""

    def distances(self) -> Iterator[tuple[ImageSet, Distances | None]]:
        """Each set with the distances of its pairs, in the order of `np.triu_indices`; None if an embedding is missing."""
        vectors: dict[str, Vectors] = {}
        for unit in self.units:
            rows = sorted(unit.ledger, key=lambda row: row.index)
            vectors |= {
                name: unit.vectors[row.row]
                for name, row in zip(ids_in_ledger(replace(unit, ledger=rows)), rows, strict=True)
                if row.row is not None and 0 <= row.row < len(unit.vectors)
            }
        for unit in self.units:
            for image_set in unit.sets:
                embeddings = [vectors[name] for name in image_set.images if name in vectors]
                whole = len(embeddings) == len(image_set.images) and len({len(vector) for vector in embeddings}) == 1
                distances = pairwise_distances(np.stack(embeddings)) if whole else np.full((2, 2), np.nan)
                pairs = distances[np.triu_indices(len(distances), 1)]
                yield image_set, pairs if np.isfinite(pairs).all() else None


def _votes(
    judgments: Iterable[Judgment], places: Mapping[str, Sequence[str]]
) -> defaultdict[str, list[tuple[str, int]]]:
    """By query for an image, whose candidates are given, the pick of each worker: pseudonym and position."""
    looks = (row for row in judgments if not row.round and row.value > 0 and is_pseudonym(row.worker))
    picks = (row for row in looks if row.candidate in places.get(row.query, ()))
    return grouped((row.query, (row.worker, places[row.query].index(row.candidate))) for row in picks)


def load_chain(workdir: Path, named: Path | None, progress: Progress) -> Chain:
    """What a report shows, of `named` or the project. Raises as `find_stages`, `read_dataset`; DataError for tables."""
    with progress.task("reading what the report shows", None) as task:
        notes: list[str] = []
        stages = find_stages(workdir, named, notes)
        last = stages[-1]
        dataset = read_dataset(last.path, task.advance) if last.kind not in (IMAGE_SETS, ALONE) else None
        built = next((stage for stage in reversed(stages) if stage.kind == IMAGE_SETS), None)
        units = built_units(built, notes) if built else ()
        known = {one.id for unit in units for one in unit.sets}
        if dataset is not None and any(
            one.id not in known for one in dataset.sets
        ):  # such as documents out of captions
            built, units = None, units_of(dataset)
        splits = {row.group: row.split for row in read_table(built.path / "splits.jsonl", Split)} if built else {}
        splits |= dataset.splits if dataset else {}
    if dataset is not None:
        # what was changed is said of each stage
        notes += [note for note in dataset.notes if last.manifest is None or "was changed since" not in note]
        if last.manifest is None:
            last = replace(last, name=dataset.name, sha256=identity_of(dataset.files).sha256)
        rows = {name: len(table) for name, table in dataset.tables().items() if name != "splits"}
        stages[-1] = last = replace(last, counts={**last.counts, **rows})
    for stage in stages:
        if stage.changed:
            more = f" and {len(stage.changed) - 1} more were" if len(stage.changed) > 1 else " was"
            shown = stage is (built or last) and stage.changed[0].startswith(PICTURES)
            what = "the page shows the current state; see ctxr doctor" if shown else "see ctxr doctor"
            notes.append(f"{stage.name}/{stage.changed[0]}{more} changed since it was written: {what}")
    # the evaluations lie beside an artifact, or in the workdir for what lies outside of any project
    parent = last.path.resolve().parent
    ours = built is not None or (last.manifest is not None and (parent / RESULTS).is_dir())
    return Chain(tuple(stages), units, splits, tuple(notes), parent if ours else workdir, dataset, built)


def built_units(built: ChainStage, notes: list[str]) -> tuple[SourceUnit, ...]:
    """What each source gave, without frames that were only held, which would fill the page."""
    parents = built.manifest.parents if built.manifest else []
    present = [parent.name for parent in parents if parent.kind in SOURCE_KINDS]
    finished = (name for name in sorted(present) if unit_folder(built.path, name).is_dir())
    units = tuple(
        replace(unit, ledger=[row for row in unit.ledger if row.reason != BETWEEN])
        for unit in (read_unit(built.path, name) for name in finished)
    )
    if units or not built.number("counts", "sets"):
        return units
    notes.append(
        f"{built.name} holds no ledger and no embeddings, as {built.command} writes it: "
        "distances, timelines and exclusions are unknown"
    )
    return units_of(dataset_of(open_artifact(built.path)))
