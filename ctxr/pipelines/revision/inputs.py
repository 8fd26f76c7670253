"""What a round is made from: the dataset and the pairs that are known already, the judges, their threshold, and where it counts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import seen_pictures
from ctxr.datasets.rounds import (
    RevisionBase,
    Round,
    RoundInputs,
    ThresholdFrom,
    base_of,
    counted_judgments,
    open_base,
    refuse_changed_rounds,
    refuse_other_base,
)
from ctxr.datasets.truth import UNSURE
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen, command_in
from ctxr.errors import DataError, UnfinishedError, UsageError, did_you_mean, some
from ctxr.metrics.votes import Codes
from ctxr.models.entailment.base import Judge
from ctxr.models.hub import makes_pairs
from ctxr.models.judges.cascade import BETWEEN, Cascade, Limits
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.licence import JudgeLicence
from ctxr.problems.entailment.judges import JudgeOptions, default_spec, open_judge, parse_spec
from ctxr.problems.gallery.truth import TRUTH
from ctxr.problems.runs import PLAIN_ENCODERS, finished_runs, run_folder
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.memory import Watch, remembered
from ctxr.store.records import Judgment
from ctxr.store.tables import grouped


def open_project(config: ReviseLabels, progress: Progress) -> RevisionBase:
    """The dataset that `config` names, or that was revised, or the project's. Raises DataError for changed rounds."""
    out = config.folder()
    refuse_changed_rounds(out)
    before = base_of(out)
    if config.dataset is None and before is not None and not before.exists():
        raise UsageError(
            f"{before}, the dataset that {out} revises, no longer exists",
            hint="ctxr revise-labels DATASET names its new folder",
        )
    try:
        path = config.dataset or before or chosen(None, config.workdir, ("dataset",), progress)
    except UnfinishedError as error:
        hint = f"{config.followup('PHOTOS')}   (PHOTOS: a folder of photos with captions, or a release such as COCO captions)"
        if any((config.workdir / name).is_dir() for name in (*SETS, "dataset")):
            hint = f"{error.hint.partition('   ')[0]}; or {hint}"
        raise UnfinishedError(error.message, hint=hint) from error
    base = open_base(path, config.workdir, progress)
    refuse_other_base(out, base)
    return base


@dataclass(frozen=True)
class MinedGallery:
    """Pictures that are searched together, and their captions.

    Attributes:
        images: ids. captions: ids of queries. split: of the benchmark, "" for none.
        given: positive pairs (index of the image, index of the caption). earlier: those of them that an earlier round added.
            rejected: pairs that an earlier round rejected under the same judge. unsure: pairs that it left unsure.
    """

    id: str
    split: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    given: tuple[tuple[int, int], ...]
    earlier: frozenset[tuple[int, int]] = frozenset()
    rejected: tuple[tuple[int, int], ...] = ()
    unsure: tuple[tuple[int, int], ...] = ()

    @property
    def excluded(self) -> Codes:
        """Pairs [N, 2] that are excluded from the candidates: the given ones, then the rejected ones, then the unsure ones."""
        return np.array([*self.given, *self.rejected, *self.unsure], np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class RevisionInput:
    """The dataset of a round, active rounds before it, the images of each caption by then, the galleries to search."""

    base: RevisionBase
    before: tuple[Round, ...]
    positives: Mapping[str, frozenset[str]]
    galleries: tuple[MinedGallery, ...]

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Every picture, once."""
        return tuple(sorted({image for gallery in self.galleries for image in gallery.images}))

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """Every caption, once."""
        return tuple(sorted({caption for gallery in self.galleries for caption in gallery.captions}))

    @property
    def rejected(self) -> int:
        """Pairs that earlier rounds rejected or left unsure."""
        return sum(len(gallery.rejected) + len(gallery.unsure) for gallery in self.galleries)


def revision_input(config: ReviseLabels, base: RevisionBase, before: Sequence[Round]) -> RevisionInput:
    """The input of the next round. Raises DataError for a dataset without captions."""
    rows = [row for row in base.dataset.judgments if row.worker == "gold" and row.value > 0]
    for earlier in before:
        rows += [row for row in counted_judgments(config.folder(), earlier, base.dataset) if row.value > 0]
    positives = _images_of(rows)
    galleries = galleries_of(base.dataset, positives, config.split, config.limit)
    if not galleries:
        where = "" if config.split == "all" else f" on {config.split}"
        describe = command_in(config.workdir, "export-tasks", "describe", "--input", str(base.path))
        hint = "name a dataset with texts and queries" if base.dataset.queries else f"{describe} collects captions"
        raise DataError(f"{base.dataset.name} has no caption{where}", hint=hint)
    return RevisionInput(base, tuple(before), positives, tuple(galleries))


def without_rejected(inputs: RevisionInput, out: Path, fingerprint: str, limits: Limits) -> RevisionInput:
    """The same without pairs on which the judge with this fingerprint would decide as in an active round: those that it rejected
    below the same or a lower limit, and those that it left unsure between the same limits. Pairs that a cap left out have no
    judgment and are evaluated again."""
    rejected, unsure = [], []
    for one in inputs.before:
        low = one.threshold if one.unsure_below is None else one.unsure_below
        if one.classifier_fingerprint == fingerprint and low <= limits[0]:
            rows = counted_judgments(out, one, inputs.base.dataset)
            rejected += [row for row in rows if row.value == 0]
            unsure += [row for row in rows if row.value == UNSURE and (low, one.threshold) == limits]
    excluded = _images_of(rejected), _images_of(unsure)
    galleries = []
    for gallery in inputs.galleries:
        known = set(gallery.given)
        pairs = [tuple(p for p in pairs_in(gallery.images, gallery.captions, e) if p not in known) for e in excluded]
        galleries.append(replace(gallery, rejected=pairs[0], unsure=tuple(p for p in pairs[1] if p not in pairs[0])))
    return replace(inputs, galleries=tuple(galleries))


def _images_of(rows: Sequence[Judgment]) -> dict[str, frozenset[str]]:
    images_of = grouped((row.query, row.candidate) for row in rows)
    return {caption: frozenset(images) for caption, images in images_of.items()}


def missing_pictures(dataset: Dataset, images: Sequence[str]) -> str:
    """How many of these pictures are not where they should lie, and the first of them, by its file where it has one; "" for none."""
    files = {image: dataset.picture(dataset.images[image]) for image in images}
    missing = [str(file or image) for image, file in files.items() if file is None or not file.is_file()]
    if not missing:
        return ""
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {len(files)} pictures of {dataset.name} {are} missing, the first is {missing[0]}"


def retriever_of(config: ReviseLabels, rounds: Sequence[Round]) -> str:
    """The retriever asked for, or that of the latest round. Raises UsageError for no run and no encoder of vectors."""
    by, workdir = rounds[-1].by if rounds and config.retriever == "auto" else config.retriever, config.workdir
    if run_folder(by, workdir) is None and makes_pairs(by):
        raise scores_pairs(by)
    if run_folder(by, workdir) is not None or ":" in by or by in PLAIN_ENCODERS:
        return by
    names = finished_runs(workdir)
    runs = f"the runs are {some(names, 8)}" if names else "no run is finished yet"
    encoders = f"encoders are {', '.join(PLAIN_ENCODERS)}, or named as in ViT-B-32:openai"
    raise UsageError(
        f"--retriever {by}: there is neither a run nor an encoder of that name",
        hint=f"{did_you_mean(by, [*names, *PLAIN_ENCODERS])} {runs}; {encoders}".strip(),
    )


def galleries_of(
    dataset: Dataset, positives: Mapping[str, Collection[str]], split: str, limit: int
) -> list[MinedGallery]:
    """The sets of the dataset with captions that are not blank, of one split or of `all`; limited to the first `limit` images unless
    that is 0. `positives` are the images of each caption, by query.
    """
    written = {(row.query, row.candidate) for row in dataset.judgments if row.worker == "gold" and row.value > 0}
    queries = [query for query in dataset.queries.values() if query.labels is None]
    filled = (query for query in queries if any(dataset.texts[name].text.strip() for name in query.texts))
    captions = grouped((query.image_set, query.id) for query in filled)
    galleries, left = [], limit
    for image_set in dataset.sets:
        own_split = dataset.split_of(image_set) or ""
        if image_set.id not in captions or split not in ("all", own_split) or (limit and not left):
            continue
        images = image_set.images[:left] if limit else image_set.images
        left -= len(images) if limit else 0
        names = tuple(sorted(captions[image_set.id]))
        pairs = pairs_in(images, names, positives)
        earlier = frozenset(
            (image, caption) for image, caption in pairs if (names[caption], images[image]) not in written
        )
        galleries.append(MinedGallery(image_set.id, own_split, images, names, pairs, earlier))
    return galleries


def pairs_in(
    images: Sequence[str], captions: Sequence[str], images_of: Mapping[str, Collection[str]]
) -> tuple[tuple[int, int], ...]:
    """The pairs (index of the image, index of the caption) of a gallery, by the images of each caption."""
    index = {image: number for number, image in enumerate(images)}
    return tuple(
        (index[image], number)
        for number, caption in enumerate(captions)
        for image in sorted(images_of.get(caption, ()))
        if image in index
    )


def scores_pairs(by: str) -> UsageError:
    """The error for a retriever that scores one pair at a time."""
    return UsageError(
        f"--retriever {by} scores one pair at a time, so it cannot search all pairs for candidates",
        hint="--retriever an encoder of vectors, such as ViT-B-32:openai; ctxr eval RUN --rerank-by uses encoders of pairs",
    )


class OpenedJudges(NamedTuple):
    """The judges of a round, and the options with the limits that the last judge's name gives."""

    cascade: Cascade
    options: ReviseLabels


def open_judges(config: ReviseLabels, progress: Progress, opened: Judge | None = None) -> OpenedJudges:
    """The judges of a configuration, or the one in their place. Raises UsageError for limits given twice."""
    if opened is not None:
        return OpenedJudges(Cascade((opened,)), config)
    named = (f"classifier:{config.classifier}",) if config.classifier else config.judge
    specs = named or (default_spec(config.workdir),)
    limits = [parse_spec(spec)[2] for spec in specs]
    if limits[-1] is not None:
        if not config.threshold is config.unsure is config.precision is None:
            raise UsageError(
                f"--judge {specs[-1]} gives limits, and so do --threshold, --unsure and --precision",
                hint="leave one out",
            )
        config = replace(config, unsure=limits[-1][0], threshold=limits[-1][1])
    options = JudgeOptions(config.workdir, config.device, config, lazy=config.entail and not config.dry_run)
    if config.model and not any(parse_spec(spec)[0] == "endpoint" for spec in specs):
        raise UsageError(f"--model {config.model} goes with --judge endpoint:URL alone", hint="leave --model out")
    judges = tuple(open_judge(spec, options, progress) for spec in specs)
    for judge in () if options.lazy else judges:
        judge.check()
    if len({judge.fingerprint for judge in judges}) < len(judges):
        raise UsageError(f"--judge names a judge twice: {', '.join(specs)}", hint="name each judge once")
    return OpenedJudges(Cascade(judges, tuple(pair or BETWEEN for pair in limits[:-1])), config)


@dataclass(frozen=True)
class ChosenThreshold:
    """The lowest probability of a pair that counts as entailed, how it was chosen, and its precision and recall on dev: on `called`
    pairs at or above it, with the exact interval of its precision. `unsure`: probability from which on a pair below it is unsure."""

    value: float
    chosen_by: ThresholdFrom
    wanted: float | None = None
    precision: float | None = None
    recall: float | None = None
    called: int | None = None
    precision_low: float | None = None
    precision_high: float | None = None
    unsure: float | None = None

    @property
    def limits(self) -> Limits:
        """The limits of the judge: below the first no, from the second on yes."""
        return self.value if self.unsure is None else self.unsure, self.value


def dev_pairs(config: ReviseLabels, base: RevisionBase) -> Path | None:
    """The pairs to choose a threshold on: those that are named, or those of the dataset."""
    return config.dev or (base.path / "pairs.jsonl" if "pairs.jsonl" in (base.tables or {}) else None)


def choose_threshold(
    config: ReviseLabels, base: RevisionBase, cascade: Cascade, licensed: float | None, progress: Progress
) -> ChosenThreshold:
    """The last judge's threshold: as given, or the lowest that reaches the precision wanted on dev, or the licence's, or its own.

    Of dev, pairs of split valid or without a split that also choose the threshold in training are used, as far as the judges before
    the last leave them unsure. Raises DataError where the pictures of all dev pairs are missing, or no threshold reaches the
    precision, UsageError where --unsure lies above the threshold.
    """
    if config.precision is not None:
        # the threshold that the same judges chose on the same pairs before, or choose now
        dev = dev_pairs(config, base)
        if dev is None:
            raise DataError(
                f"{base.dataset.name} has no pairs to choose a threshold on",
                hint="--dev PAIRS.jsonl, or --threshold P, or leave --precision out for the classifier's own",
            )

        def choose(_watch: Watch) -> str:
            choice = resolve_name("ctxr.pipelines.revision.decisions:threshold_on_dev")
            best = choice(config, base, dev, cascade, wanted=config.precision, progress=progress)
            reached = best.precision.value, best.recall, best.called, best.precision.low, best.precision.high
            return msgspec.json.encode(ChosenThreshold(best.value, "dev", best.wanted, *reached)).decode()

        about = ["threshold on dev", cascade.fingerprint, base.content, sha256_if_readable(dev), config.precision]
        chosen = msgspec.json.decode(remembered(config.workdir, about, choose), type=ChosenThreshold)
    elif config.threshold is not None:
        chosen = ChosenThreshold(config.threshold, "given")
    elif licensed is not None:
        chosen = ChosenThreshold(licensed, "audit")
    else:
        chosen = ChosenThreshold(cascade.threshold, "classifier")
    if config.unsure is not None and config.unsure > chosen.value:
        raise UsageError(
            f"--unsure {config.unsure:g} lies above the threshold {chosen.value:.3g}",
            hint="--unsure with a lower probability, or --threshold with a higher one",
        )
    return replace(chosen, unsure=None if config.unsure == chosen.value else config.unsure)


@dataclass(frozen=True)
class Scope:
    """The options of a round, without --unlicensed where that changes nothing, the splits on which it counts, and its licence, also in
    words: on the splits of a licence, only candidates that it covers count."""

    options: ReviseLabels
    splits: frozenset[str]
    words: str = ""
    licence: JudgeLicence | None = None


def scope_of(
    config: ReviseLabels,
    base: RevisionBase,
    every: frozenset[str],
    cascade: Cascade,
    *,
    licence: JudgeLicence | None,
    by: str,
    threshold: float,
) -> Scope:
    """Where the round of these judges counts, of `every` split that it looks at: on train, on the splits of a licence that was earned on
    such rounds, and everywhere in a drawn world; that of the toy only there, but for --unlicensed."""
    plain = replace(config, unlicensed=False)
    if TRUTH in (base.tables or {}):
        return Scope(plain, every)
    if config.unlicensed and (cascade.toy or not every <= {"train"}):
        return Scope(config, every)
    splits = frozenset[str]() if cascade.toy else every & {"train"}
    covered = every & {*licence.splits} if licence and not cascade.toy else frozenset[str]()
    if licence is None or not covered or licence.differs(config, by, threshold):
        return Scope(plain, splits)
    terms = f"ω {licence.omega or 0:.2f}, ε {licence.epsilon:g}, precision {licence.wanted:.0%}"
    words = f"{licence.reason} ({terms}), from a probability of {licence.threshold or 0:.3g} on"
    return Scope(plain, splits | covered, words, licence)


@dataclass(frozen=True)
class NewRound:
    """A round to be made, known without a model: retriever `by`, `leaked` images, options that decide it in `scope`."""

    inputs: RevisionInput
    by: str
    cascade: Cascade
    threshold: ChosenThreshold
    leaked: tuple[str, ...]
    scope: Scope
    decides: str


@dataclass(frozen=True)
class RevisionInputs(RoundInputs):
    """What decides a round.

    Attributes:
        options: with the limits that the last judge's name gives. base: the dataset.
        by, retriever: name and identity of what proposes candidates. licence: of the judges.
    """

    options: ReviseLabels
    base: RevisionBase
    by: str
    retriever: str
    cascade: Cascade
    licence: JudgeLicence | None
    progress: Progress

    @cached_property
    def threshold(self) -> ChosenThreshold:
        """The threshold of the last judge; for --precision, it is asked about the pairs of dev."""
        licensed = self.licence.threshold if self.licence else None
        chosen = choose_threshold(self.options, self.base, self.cascade, licensed, self.progress)
        if self.licence and (earned := self.licence.differs(self.options, self.by, chosen.value)):
            self.progress.note(f"the licence of {self.cascade.name} holds only with {earned}")
        return chosen

    def scope(self, every: Iterable[str], threshold: float) -> Scope:
        """Where the round counts, of the splits that it looks at, with this threshold."""
        facts = self.options, self.base, frozenset(every), self.cascade
        return scope_of(*facts, licence=self.licence, by=self.by, threshold=threshold)

    def decides(self, scope: Scope, before: Sequence[Round]) -> str:
        """Hash of everything that decides the round, including the active rounds before it."""
        makers: list[object] = [self.retriever, self.cascade.fingerprint]
        if self.options.precision is None:
            makers += [self.threshold.value, self.threshold.unsure]
        elif dev := dev_pairs(self.options, self.base):  # which choose the threshold once the round is made
            makers += [sha256_if_readable(dev), self.options.precision, self.options.unsure]
        if scope.licence:
            makers += [*sorted(scope.splits), scope.licence.ledger, *scope.licence.strata]
        active = [row.decides for row in before if row.active]
        return sha256_of([scope.options.key(), self.base.content, makers, active])

    def made(self, rounds: Sequence[Round]) -> Round | None:
        """The round that was made of these inputs."""
        scopes = ((row, self.scope(row.splits, row.threshold)) for row in rounds)
        decided = ((row, self.decides(scope, rounds[: row.number - 1])) for row, scope in scopes)
        return next((row for row, decides in decided if row.decides == decides), None)

    @cached_property
    def new(self) -> NewRound:
        """The round that is to be made of them: its tables are read."""
        inputs = revision_input(self.options, self.base, [row for row in self.rounds if row.active])
        images = self.base.dataset.images
        leaked = seen_pictures([(name, images[name].sha256) for name in inputs.images], self.cascade.trained_on)
        out = self.options.folder()
        inputs = without_rejected(inputs, out, self.cascade.fingerprint, self.threshold.limits)
        scope = self.scope((gallery.split for gallery in inputs.galleries), self.threshold.value)
        decides = self.decides(scope, self.rounds)
        return NewRound(inputs, self.by, self.cascade, self.threshold, tuple(leaked), scope, decides)
