"""`ctxr pairs`: pairs to train an entailment classifier on, from captions, descriptions that people checked, or published pairs.

An image with its other captions entails a held-out caption. The negative is a caption of another image of its split; every second one is
the caption of a small pool that shares most words with the held-out caption. Negatives are not checked.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs

from ctxr.annotation.artifacts import AggregatedAnswers, read_judgments
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import picture_parents
from ctxr.datasets.open import dataset_identity, identity_of, read_dataset
from ctxr.datasets.pairs import EntailmentPair, published_image
from ctxr.datasets.splits import SPLITS, assign_splits
from ctxr.datasets.truth import WORKER
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, latest
from ctxr.engine.stage import SourceInputs, Stage, execute
from ctxr.errors import DataError, UnfinishedError, UsageError, plural
from ctxr.media.images import image_size
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.pipelines.curation.config import DocumentsReport, Pairs
from ctxr.problems.entailment.pairs import PAIRS, EntailmentPairs, open_pairs
from ctxr.store import kinds
from ctxr.store.artifacts import MANIFEST, Content, Parent, open_artifact
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.records import Image, SplitName
from ctxr.store.tables import grouped, write_tables
from ctxr.store.units import IMAGES

SHIPPED = Path(__file__).parent / "sample_pairs"  # pairs that ship with ctxr (`scripts/sample_pairs.py`)
_POOL = 16  # captions of other images among which one is chosen
_RULES = ("gold", "aggregate", WORKER)  # how workers are named that are not people
_REJECTED = 2  # people who chose other images, and nobody the right one


def captioned(
    dataset: Dataset, origin: Parent, accepted: Collection[str], workdir: Path, progress: Progress
) -> EntailmentPairs:
    """Pairs of the captions of a dataset, in their splits of a project. Raises DataError for a dataset without captions.

    Args:
        accepted: queries whose captions hold; of the others, those for which people chose other images alone do not.
    """
    sets = {image: image_set for image_set in dataset.sets for image in image_set.images}
    files = {image: file for image in sets if (file := dataset.picture(dataset.images[image])) and file.is_file()}
    texts = {query.id: dataset.text_of(query) for query in dataset.queries.values()}
    own, chosen = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    holds, claims, rows = set[tuple[str, str]](), list[tuple[str, str, str]](), list[EntailmentPair]()
    for pick in dataset.judgments:
        if pick.value > 0 and pick.worker.startswith(_RULES):
            holds.add((pick.query, pick.candidate))
        elif pick.value > 0:
            chosen[pick.query].append(pick.candidate)
    targets = grouped((question.id, image_set.images[place]) for question, image_set, place in dataset.targets())
    for query, images in targets.items():
        if query in accepted:
            for image in images:
                own[image].append(texts[query])
                claims.append((query, image, "entailment"))
            wrong = [other for other in chosen[query] if (query, other) not in holds and other not in images]
            claims += [(query, other, "wrong_choice") for other in wrong[:1]]
        elif len(chosen[query]) >= _REJECTED:
            claims += [(query, image, "rejected") for image in images if image not in chosen[query]]
    for query, image, relation in claims:
        premise = " ".join(text for text in own[image] if text != texts[query])
        row, image_set = dataset.images[image], sets[image]
        # photos of a gallery are single ones, unless it says what belongs together
        single = len(image_set.images) > MOST_POSITIONS and row.group == image_set.group
        if premise or image in files:
            rows.append(EntailmentPair(
                f"{dataset.name}/{query}/{relation}", premise or None, texts[query], image if image in files else None,
                1 if relation == "entailment" else 0, relation, dataset.name, dataset.split_of(image_set),
                row.sha256 or image if single else row.group, query,
            ))  # fmt: skip
    if not rows:
        hint = "name a dataset with them; ctxr export-tasks describe   asks people for captions"
        raise DataError(f"{dataset.name} has neither pictures with captions nor several captions of one", hint=hint)
    contents = {name: dataset.images[name].sha256 for name in files}
    pairs = split_groups(EntailmentPairs(dataset.name, tuple(rows), files, contents, origin), workdir, progress)
    return replace(pairs, rows=(*pairs.rows, *_others(pairs.rows, holds)))


def _others(rows: Sequence[EntailmentPair], holds: Collection[tuple[str, str]]) -> Iterator[EntailmentPair]:
    """Beside each entailed pair one with a caption of another image of its split, unless there is a wrong choice of a person."""
    entailed, checked = [pair for pair in rows if pair.label], {pair.caption for pair in rows if not pair.label}
    words = {pair.id: frozenset(str(pair.hypothesis).casefold().split()) for pair in entailed}
    own = {(words[pair.id], pair.image or pair.group) for pair in entailed}
    by_split = {split: [pair for pair in entailed if pair.split == split] for split in SPLITS}
    rng = np.random.default_rng(0)
    for number, pair in enumerate(entailed):
        image, mine, others = pair.image or pair.group, words[pair.id], by_split[pair.split or "train"]
        pool = (others[index] for index in rng.integers(len(others), size=_POOL).tolist())
        free = [one for one in pool if (words[one.id], image) not in own and (one.caption, image) not in holds]
        if free and pair.caption not in checked:
            near = max(
                free[: 1 + number % 2 * _POOL], key=lambda one: len(words[one.id] & mine) / len(words[one.id] | mine)
            )
            fields = {"hypothesis": near.hypothesis, "caption": near.caption, "label": 0, "relation": "other"}
            yield structs.replace(pair, id=f"{pair.id.removesuffix(pair.relation)}other", **fields)


def with_answers(dataset: Dataset, answered: AggregatedAnswers) -> Dataset:
    """The dataset with the descriptions that people wrote and did not accept."""
    # absolute paths, since these pictures lie elsewhere
    images = {name: structs.replace(row, path=str(answered.root / row.path)) for name, row in answered.images.items()}
    splits = {unit.group: unit.split for unit in answered.units.values() if unit.split is not None}
    sets = {**answered.sets, **{image_set.id: image_set for image_set in dataset.sets}}
    return replace(
        dataset, sets=tuple(sets.values()), images=images | dataset.images, splits=splits | dataset.splits,
        texts={text.id: text for text in answered.texts} | dataset.texts,
        queries={query.id: query for query in answered.queries} | dataset.queries,
        judgments=(*dataset.judgments, *(row for row in answered.judgments if row.query not in dataset.queries)),
    )  # fmt: skip


def split_groups(pairs: EntailmentPairs, workdir: Path, progress: Progress) -> EntailmentPairs:
    """The pairs with each group in one split: that in which the project evaluates one of its pictures, test before valid before train.

    Groups without a split are dealt by hash, and those of train too where none is in valid.
    """
    evaluated: dict[str, SplitName] = {}
    with suppress(UnfinishedError):
        dataset = read_dataset(latest(workdir, CHAIN).path)
        for image_set in dataset.sets:
            if (split := dataset.split_of(image_set)) in ("valid", "test"):
                rows = [(dataset.images[image].sha256, published_image(image)) for image in image_set.images]
                evaluated |= {mark: split for marks in rows for mark in marks if mark}
    named: dict[str, set[SplitName]] = defaultdict(set)
    for pair in pairs.rows:
        named[pair.group] |= {split for split in (pair.split, *map(evaluated.get, pairs.marks([pair]))) if split}
    fixed = {group: max(several, key=SPLITS.index) for group, several in named.items() if several}
    if "valid" not in fixed.values():
        fixed = {group: split for group, split in fixed.items() if split != "train"}
    dealt = {row.group: row.split for row in assign_splits(dict.fromkeys(named, True), fixed=fixed)}
    if moved := sum(pair.split not in (None, dealt[pair.group]) for pair in pairs.rows):
        places = "to where their group is evaluated, or to valid and test if valid was empty"
        progress.note(f"{plural(moved, 'pair')} moved: {places}")
    return replace(pairs, rows=tuple(structs.replace(pair, split=dealt[pair.group]) for pair in pairs.rows))


def run(options: Pairs, progress: Progress = SILENT) -> DocumentsReport:
    """Make pairs and report how many.

    Raises UsageError for wrong arguments, UnfinishedError without the project's descriptions, DataError for a source without pairs.
    """
    up_to_date = execute(PairsStage(options), progress).up_to_date
    counts = open_artifact(options.folder()).manifest.counts
    return DocumentsReport(options.folder(), counts.pop("dataset"), up_to_date, counts, [])


class PairsStage(Stage[SourceInputs[Path]]):
    """Pairs as an artifact, with their pictures."""

    KIND = kinds.PAIRS
    options: Pairs

    def inputs(self, progress: Progress) -> SourceInputs[Path]:
        """The source and the answers; and what the project evaluates, which decides the splits of the pairs."""
        source, workdir = self.options.source, self.options.workdir
        path, judged = SHIPPED if source == "sample" else Path(source), workdir / kinds.JUDGMENTS
        if source == "own":
            path = latest(workdir, ("dataset",)).path
        parents = [*_origins(path, workdir, progress)]
        if source == "own" and (judged / MANIFEST).is_file():
            parents.append(Parent("judgments", kinds.JUDGMENTS, open_artifact(judged).sha256))
        evaluated = ""
        with suppress(UnfinishedError):
            evaluated = open_artifact(latest(workdir, CHAIN).path).sha256
        return SourceInputs(parents, self.options.key() | {"evaluated": evaluated}, path)

    def write(self, inputs: SourceInputs[Path], out: Path, progress: Progress) -> Content:
        """Make the pairs of the source, and copy their pictures."""
        source, workdir, dataset = inputs.source, self.options.workdir, None
        if self.options.source == "own" or not _holds_pairs(source):
            with suppress(UsageError):  # what is not a dataset may hold published pairs
                dataset = read_dataset(source)
        if dataset is None:
            pairs = split_groups(open_pairs(source, workdir, progress), workdir, progress)
        else:
            whole = dataset.of_sets("ctxr pairs")
            for note in dataset.notes:
                progress.note(note)
            if "judgments" in {parent.name for parent in inputs.parents}:
                whole = with_answers(dataset, read_judgments(workdir / kinds.JUDGMENTS))
            pairs = captioned(whole, identity_of(dataset.files), dataset.queries, workdir, progress)
        groups = {pair.image: pair.group for pair in pairs.rows if pair.image is not None}
        self.announce(progress, pairs=len(pairs.rows), pictures=len(groups))
        images = []
        for name, group in progress.each("linking pictures", groups.items()):
            file, sha256 = pairs.files[name], pairs.contents[name]
            path = f"{IMAGES}/{sha256}{file.suffix.lower()}"
            images.append(Image(name, path, sha256, group, *image_size(file)))
            link_or_copy(file, out / path)
        write_tables(out, {"pairs": pairs.rows, "images": images})
        splits = Counter(pair.split for pair in pairs.rows)
        counts = {
            "pairs": len(pairs.rows),
            "entailed": sum(pair.label for pair in pairs.rows),
            "images": len(images),
            "dataset": pairs.name,
            "splits": {split: splits[split] for split in SPLITS},
        }
        return Content(sorted({"pairs.jsonl", "images.jsonl"} | {image.path for image in images}), counts, {})


def _holds_pairs(path: Path) -> bool:
    """Whether these are pairs in our own form."""
    return path.name == PAIRS or (path / PAIRS).is_file()


def _origins(path: Path, workdir: Path, progress: Progress) -> Iterator[Parent]:
    """What pairs are made from, by content: a dataset with its pictures, an artifact of pairs, or the files of published ones, which
    the project may lie beside. Raises DataError for an artifact that was edited since."""
    origin = None
    if (path / MANIFEST).is_file():
        opened = open_artifact(path)
        opened.refuse_changed()
        origin = Parent("pairs", opened.manifest.kind, opened.sha256)
    elif not _holds_pairs(path):
        with suppress(UsageError):
            origin = dataset_identity(path)
    if origin is not None:
        yield from (origin, *picture_parents(path, origin, workdir, progress))
        return
    inside = (file for file in sorted(path.rglob("*")) if workdir.resolve() not in file.resolve().parents)
    files = [path] if path.is_file() else [file for file in inside if file.is_file()]
    top = path.parent if path.is_file() else path
    hashed = [(file.relative_to(top).as_posix(), sha256_file(file)) for file in files]
    yield Parent("pairs", kinds.RELEASE, sha256_of(hashed))
