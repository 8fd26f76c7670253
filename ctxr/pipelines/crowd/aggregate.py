"""`ctxr aggregate`: turn answers into judgments, metrics and a dataset."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.annotation.answers import merge_journal, refused_answers
from ctxr.annotation.artifacts import AggregatedAnswers, read_judgments, root_of
from ctxr.annotation.confirmation import leaving, unconfirmed_note
from ctxr.annotation.forms import COMMENT, PROBLEM
from ctxr.annotation.overview import unreachable_note
from ctxr.annotation.project_journal import project_journal
from ctxr.annotation.protocol import DISJOINT, Protocol
from ctxr.annotation.records import DROPPED, REPORTED, Answer, DroppedText, ExitAnswer, Reported
from ctxr.annotation.tasks.describe import FIELD, REASON
from ctxr.annotation.tasks.review import KEEP
from ctxr.annotation.tasks.values import query_of
from ctxr.annotation.votes import Acceptance, broken_units, decide_picks, label_consensus, picks_of
from ctxr.datasets.rounds import FOLDER, STRATA, AuditSample
from ctxr.datasets.splits import GROUPS
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import command_in
from ctxr.engine.report import Table
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UsageError, plural
from ctxr.pipelines.crowd.config import Aggregate, AggregateReport
from ctxr.pipelines.crowd.own_answers import own_results
from ctxr.pipelines.crowd.people import Certificate, certificate, people, worker_table
from ctxr.pipelines.crowd.validation import Validation
from ctxr.store.artifacts import MANIFEST, Content, Parent, earlier_manifest, open_artifact, picked_with, take_manifest
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import DATASET, JUDGMENTS, TASKS
from ctxr.store.records import Facts, FieldAnswer, Image, Judgment, Query, Record, SharedFootage, Source, Split, Text
from ctxr.store.tables import PAYLOADS, payload_rows, pretty_json, read_payloads, read_table, write_table, write_tables

CERTIFICATE, TABLES, EXIT = "certificate.json", "tables.json", "exit.jsonl"

R = TypeVar("R", bound=Record)


def dropped_rows(
    answered: AggregatedAnswers,
    decisions: Mapping[str, Acceptance],
    kept: Collection[str],
    blocked: Collection[str],
    broken: Collection[str],
) -> list[DroppedText]:
    """A row for each description and dialogue that was written here and is not among `kept`."""
    decided = {decision.query: decision for decision in decisions.values()}
    texts = {text.id: text for text in answered.texts}
    talks = {talk.id for talk in answered.dialogues}
    unseen = {answered.units[name].query for name in broken}
    rows = []
    for query in answered.queries:
        if query.labels is None and query.id not in kept:
            written = [texts[name] for name in query.texts if name in texts]
            text, author = "\n".join(row.text for row in written), written[0].author if written else "unknown"
            reason = "not_reviewed" if query.id in talks else "broken" if query.id in unseen else "not_asked"
            reason = "writer_blocked" if author in blocked and query.id not in talks else reason
            votes = decided.get(query.id, Acceptance(query.id, "", 0, 0, reason))
            rows.append(DroppedText(query.id, text, author, votes.right, votes.wrong, votes.reason or ""))
    return rows


def reported_rows(answered: AggregatedAnswers) -> list[Reported]:
    """A row for each answer that tells of a problem or has a comment."""
    rows = []
    for answer in sorted(answered.answers, key=Answer.key):
        code, comment = (" ".join(answer.values.get(name, ())) for name in (PROBLEM, COMMENT))
        if code or comment:
            rows.append(Reported(answer.unit, answer.worker, answered.units[answer.unit].task, code, comment))
    return rows


def kept_queries(
    answered: AggregatedAnswers,
    decisions: Mapping[str, Acceptance],
    labels: Sequence[Judgment],
    blocked: Collection[str],
) -> dict[str, Query]:
    """Descriptions that were kept, dialogues that a third party kept, and the label queries about these and about others."""
    queries = {query.id: query for query in answered.queries}
    written = set(queries)
    for unit in answered.units.values():  # queries from elsewhere that units are about
        if unit.purpose == "work" and unit.task in ("retrieve", "tag", "own") and unit.query is not None:
            name = unit.query if unit.task == "retrieve" else unit.query.partition("/")[2]
            queries.setdefault(name, Query(name, unit.image_set, unit.text_ids))
    reasons = {decision.query: decision.reason for decision in decisions.values()}
    good = {row.query.removeprefix("review/") for row in labels if row.candidate == KEEP and row.value > 0}
    kept = {talk.id for talk in answered.dialogues if talk.id in good and not set(talk.workers) & set(blocked)}
    # descriptions from elsewhere are dropped by votes, never because votes are missing
    kept |= {
        name
        for name, query in queries.items()
        if query.labels is None and (reasons[name] is None if name in reasons else name not in written)
    }
    texts = {text for name in kept for text in queries[name].texts}
    described = [query for name, query in queries.items() if name not in kept and query.labels is None]
    dropped = {text for query in described for text in query.texts} - texts
    return {  # labels are kept unless the text that they are about is dropped
        name: query
        for name, query in queries.items()
        if name in kept or (query.labels is not None and dropped.isdisjoint(query.texts))
    }


def judgments_of(
    answered: AggregatedAnswers,
    kept: Mapping[str, Query],
    decisions: Mapping[str, Acceptance],
    labels: Sequence[Judgment],
    rule: str,
) -> list[Judgment]:
    """All votes on what was kept, its targets as `gold`, and what the votes came to, as worker `aggregate:<rule>`."""
    rows = [row for row in answered.judgments if row.query in kept]
    gold = {unit.query: unit.truth[0] for unit in answered.units.values() if unit.query and unit.truth}
    gold |= {
        unit.query.partition("/")[2]: unit.target
        for unit in answered.units.values()
        if unit.task in ("tag", "own") and unit.query and unit.target
    }
    named = {row.query for row in rows if row.worker == "gold"}
    rows += [Judgment(name, gold[name], "gold", 1.0) for name in kept if name in gold and name not in named]
    for decision in decisions.values():
        if decision.query in kept and decision.reason is None:
            votes = f"{decision.right}of{decision.right + decision.wrong}"
            target = answered.units[decision.unit].truth[0]
            rows.append(Judgment(decision.query, target, f"aggregate:{rule}@{votes}", 1.0))
    return rows + [row for row in labels if row.query in kept]


def write_dataset(
    out: Path,
    answered: AggregatedAnswers,
    kept: Mapping[str, Query],
    judgments: Sequence[Judgment],
    *,
    own: Sequence[FieldAnswer],
    progress: Progress,
) -> dict[str, int]:
    """Write tables and pictures of what was kept, and of sets with answers to `own` tasks, into `out`, whose manifest goes; returns how
    many rows each table has.

    Raises DataError for a picture that is gone, before anything is changed.
    """
    root = answered.root
    texts = _texts(answered)
    usable = {name: query for name, query in kept.items() if all(text in texts for text in query.texts)}
    used = {query.image_set for query in usable.values()} | {row.image_set for row in own}
    sets = [image_set for image_set in answered.sets.values() if image_set.id in used]
    images = _pictures(answered, sorted({name for image_set in sets for name in image_set.images}))
    groups, sources = {image_set.group for image_set in sets}, {image_set.source for image_set in sets}
    paths = {image.path for image in images}
    for image in images:
        if image.path and not (root / image.path).is_file():
            raise DataError(
                f"the picture of {image.id} is gone: {root / image.path}",
                hint="restore the image sets, or build and filter them again",
            )
    payloads = _payloads(answered, out, own)
    take_manifest(out)
    splits = {unit.group: unit.split for unit in answered.units.values() if unit.split is not None}
    # in this order, so that a killed run leaves no picture that no table knows
    _remove_stale(out, paths)
    write_table(out / "images.jsonl", images)
    for image in progress.each("linking pictures", images):
        if image.path:
            link_or_copy(root / image.path, out / image.path)
    named = {name for query in usable.values() for name in query.texts}
    tables: dict[str, Iterable[Record]] = {
        "sets": sets,
        "images": images,
        "texts": [texts[name] for name in named],
        "queries": usable.values(),
        "judgments": [row for row in judgments if row.query in usable],
        "splits": [Split(group, split) for group, split in splits.items() if group in groups],
        "sources": [row for row in _rows(root, "sources.jsonl", Source) if row.key()[0] in sources],
        "facts": [row for row in _rows(root, "facts.jsonl", Facts) if row.path in paths],
    }
    if footage := [row for row in _rows(root, GROUPS, SharedFootage) if {row.first, row.second} <= groups]:
        tables["groups"] = footage
    owners = {"query": usable, "text": named, "image": {image.id for image in images}, "image_set": used}
    tables |= payload_rows(payloads, owners)
    return write_tables(out, tables)


def _pictures(answered: AggregatedAnswers, names: Sequence[str]) -> list[Image]:
    """Rows of images that workers saw, and of the rest of their sets. Raises DataError for one that no artifact lists."""
    images = dict(answered.images)
    for folder in _folders(answered):
        for image in _rows(answered.root / folder, "images.jsonl", Image):
            images.setdefault(image.id, msgspec.structs.replace(image, path=(folder / image.path).as_posix()))
    if lost := [name for name in names if name not in images]:
        raise DataError(
            f"{lost[0]} belongs to a set of the tasks, but no artifact below {answered.root} lists it",
            hint="export the tasks again from an artifact that holds the whole sets",
        )
    return [images[name] for name in names]


def _folders(answered: AggregatedAnswers) -> list[Path]:
    """Folders below the root that may be artifacts of the pictures: itself, or several that were put under it."""
    return sorted({parent for image in answered.images.values() for parent in Path(image.path).parents})


def _payloads(answered: AggregatedAnswers, out: Path, own: Sequence[FieldAnswer]) -> dict[str, Collection[Record]]:
    """Rows of the payload tables of these artifacts, and those that answers made, which replace rows of the same key, and in `out` all
    that earlier ones made."""
    tables: dict[str, dict[object, Record]] = {name: {} for name in PAYLOADS}
    for home in (answered.root / folder for folder in _folders(answered)):
        if (home / MANIFEST).is_file():
            for name, rows in read_payloads(home, open_artifact(home).manifest.files).items():
                tables[name] |= {row.key(): row for row in rows if name != "own" or home.resolve() != out.resolve()}
    tables["own"] |= {row.key(): row for row in own}
    for name, table in tables.items():
        table |= {row.key(): row for row in getattr(answered, name, ())}
    return {name: table.values() for name, table in tables.items()}


def _texts(answered: AggregatedAnswers) -> dict[str, Text]:
    """Texts by id: those written here, and those of a dataset that was judged again, out of the units that showed them."""
    texts = {text.id: text for text in answered.texts}
    for unit in answered.units.values():
        author = unit.authors[0] if unit.authors else "unknown"
        for index, name in enumerate(unit.text_ids):
            text = unit.texts[index] if unit.statement is None else unit.statement
            texts.setdefault(name, Text(name, text, author, index))
    return texts


def _rows(root: Path, name: str, record: type[R]) -> list[R]:
    whole = (root / MANIFEST).is_file() and (root / name).is_file()
    return read_table(root / name, record) if whole else []


def _remove_stale(out: Path, wanted: Collection[str]) -> None:
    """Remove the pictures of an earlier run that are not `wanted` any more."""
    if not (out / "images.jsonl").is_file():
        return
    with disk_errors(out):
        for image in read_table(out / "images.jsonl", Image):
            picture = out / image.path
            if image.path in wanted or not picture.resolve().is_relative_to(out.resolve()):
                continue
            picture.unlink(missing_ok=True)
            for folder in picture.parents:
                if folder == out or not folder.is_dir() or any(folder.iterdir()):
                    break
                folder.rmdir()


@dataclass(frozen=True)
class AggregateInputs(Inputs):
    """What aggregation reads: workers whose votes do not count, those who are or were blocked, the separation to certify, and what
    people answered to questions at the end."""

    blocked: tuple[str, ...]
    replaced: tuple[str, ...]
    disjoint: str
    exit: tuple[ExitAnswer, ...]


@dataclass(eq=False)
class DatasetStage(Stage[AggregateInputs]):
    """The dataset that the answers in `source` decide on."""

    KIND = DATASET
    IN_PLACE = True
    options: Aggregate
    source: Path

    def inputs(self, progress: Progress) -> AggregateInputs:
        """The judgments with the sets that they are about, and who is blocked."""
        config, out = self.options, self.out()
        judgments = open_artifact(self.source, JUDGMENTS, command_in(config.workdir, "import-answers"))
        with project_journal(config.workdir, config.database) as journal:
            blocked, replaced = (journal.blocked(ever=ever) if journal else () for ever in (False, True))
            if config.keep_blocked:  # who asked to withdraw is no matter of trust
                blocked = tuple(state.worker for state in leaving(journal)) if journal else ()
            said = (
                [one for one in journal.exit_answers() if one.worker not in blocked and one.answer] if journal else []
            )
            withdrawn = len(journal.withdrawn().workers) if journal else 0
        if not judgments.manifest.counts["answers"]:
            if not withdrawn:
                serve, take = (command_in(config.workdir, *words) for words in (("serve",), ("import-answers", "FILE")))
                raise DataError(f"{self.source} holds no answers", hint=f"{serve}   (or {take})")
            people = plural(withdrawn, "person has", "people have")
            progress.warn(f"{people} withdrawn and no answer is left: the dataset in {out} is empty")
        verb = open_artifact(out).manifest.verb if (out / MANIFEST).is_file() else "aggregate"
        if verb != "aggregate":
            self.answered()  # what they are about is the better reason
            raise UsageError(f"{out} is an artifact that ctxr {verb} wrote", hint="choose another --out")
        # without the option the strictest separation of workers that the tasks declare
        folders = () if config.disjoint else (config.workdir / TASKS).glob(f"*/{MANIFEST}")
        declared = {open_artifact(file.parent, TASKS).manifest.config["protocol"]["disjoint"] for file in folders}
        disjoint = config.disjoint or next((name for name in DISJOINT if name in declared), Protocol.disjoint)
        parents = [Parent("judgments", JUDGMENTS, judgments.content)]
        root = root_of(self.source)
        if (root / MANIFEST).is_file():  # no public release: a later verb detects that there are newer sets
            sets = open_artifact(root)
            parents.append(Parent("image_sets", sets.manifest.kind, sets.sha256))
        lists = {"blocked": blocked, "replaced": replaced}
        key = config.key() | {"disjoint": disjoint}
        key |= {name: sha256_of(workers) if workers else "" for name, workers in lists.items()}
        key |= {"exit": sha256_of(list(map(msgspec.structs.asdict, said)))} if said else {}
        return AggregateInputs(parents, key, blocked, replaced, disjoint, tuple(said))

    def answered(self) -> AggregatedAnswers:
        """The answers but for those about pairs that an audit drew. Raises DataError where all of them are about revised labels."""
        answered = read_judgments(self.source)
        sampled = {
            (row.image, row.caption)
            for strata in (self.options.workdir / FOLDER).glob(f"rounds/*/{STRATA}")
            for row in read_table(strata, AuditSample)
        }
        audits = {
            unit.id
            for unit in answered.units.values()
            if unit.task == "entail" and (*unit.images[:1], *unit.text_ids[:1]) in sampled
        }
        if audits:
            queries = {answered.units[name].query for name in audits}
            units = {name: unit for name, unit in answered.units.items() if name not in audits}
            sets = {unit.image_set for unit in units.values()}
            answered = replace(
                answered,
                units=units,
                sets={name: image_set for name, image_set in answered.sets.items() if name in sets},
                answers=tuple(answer for answer in answered.answers if answer.unit not in audits),
                queries=tuple(query for query in answered.queries if query.id not in queries),
                judgments=tuple(row for row in answered.judgments if row.query not in queries),
            )
        if audits and not answered.answers:
            raise DataError(
                f"{self.source} holds only answers about revised labels, and nothing to aggregate",
                hint="ctxr revise-labels --audit   reports them",
            )
        return answered

    def write(self, inputs: AggregateInputs, out: Path, progress: Progress) -> Content:
        """Decide, measure, certify, and write the dataset; what was dropped is in `dropped.jsonl` with its votes."""
        config = self.options
        answered = self.answered()
        self.announce(progress, answers=len(answered.answers), units=len(answered.units), sets=len(answered.sets))
        picks, blocked = picks_of(answered), inputs.blocked
        broken = broken_units(answered, blocked)
        decisions = decide_picks(picks, config.rule, blocked, broken)
        labels = label_consensus(answered, config.labels, blocked)
        validation = Validation(answered, picks, decisions, blocked, config.resamples, config.seed)
        own = own_results(answered, blocked, config.resamples, config.seed)
        figures = validation.figures() | own.figures
        workers = people(answered, picks, blocked, config.good, config.poor)
        kept = kept_queries(answered, decisions, labels, blocked)
        judgments = judgments_of(answered, kept, decisions, labels, config.rule)
        written = write_dataset(out, answered, kept, judgments, own=own.answers, progress=progress)
        write_table(out / DROPPED, dropped := dropped_rows(answered, decisions, kept, blocked, broken))
        write_table(out / REPORTED, reported := reported_rows(answered))
        write_table(out / "workers.jsonl", workers)
        tables = validation.tables(figures) | own.tables | {"workers": worker_table(workers)}
        # descriptions that their writers kept against the wording check, with the reasons, for reviewers
        if reasons := [
            (query_of(answer.unit, answer.worker), answer.worker, answer.values[FIELD][0], answer.values[REASON][0])
            for answer in answered.answers
            if REASON in answer.values and answered.units[answer.unit].task == "describe"
        ]:
            heads = ("query", "worker", "description", "reason")
            tables["overruled"] = Table("Reasons against the wording check", heads, tuple(reasons))
        if reported:
            rows = tuple(map(msgspec.structs.astuple, reported))
            tables["reported"] = Table("What workers reported", ("unit", "worker", "task", "code", "comment"), rows)
        documents = {
            "figures.json": figures,
            CERTIFICATE: certificate(answered, inputs.disjoint, inputs.replaced),
            TABLES: tables,
        }
        for name, content in documents.items():
            write_bytes(out / name, pretty_json(content))
        lost = dict(sorted(Counter(row.reason for row in dropped).items()))
        names = [f"{name}.jsonl" for name in (*written, "dropped", "reported", "workers")]
        if inputs.exit:
            names.append(EXIT)
            write_table(out / EXIT, inputs.exit)
        # a table that has no rows any more leaves no file of an earlier run
        earlier = earlier_manifest(out)
        for name in set(earlier.files if earlier else ()).difference(names, documents):
            (out / Path(name).name).unlink(missing_ok=True)
        counts = written | {"dropped": lost, "workers": len(workers), "blocked": len(blocked)}
        return Content([*names, *documents], counts, picked_with(answered.root))


def run(config: Aggregate, progress: Progress = SILENT) -> AggregateReport:
    """Merge the answers of the journal, if no judgments are named; then decide, measure, certify, and write the dataset.

    Raises UnfinishedError without judgments, DataError where nothing was answered or a picture is gone.
    """
    config.check()
    source = config.input or merge_journal(config.workdir, progress, config.database)
    up_to_date, out = execute(DatasetStage(config, source), progress).up_to_date, config.folder()
    counts = open_artifact(out).manifest.counts
    certified = msgspec.json.decode((out / CERTIFICATE).read_bytes(), type=Certificate)
    workers, notes = certified.workers, []
    if waiting := sum(counts["dropped"].get(reason, 0) for reason in ("not_asked", "too_few_votes")):
        serve, again = (command_in(config.workdir, verb) for verb in ("serve", "aggregate"))
        notes.append(f"{plural(waiting, 'description')} still without enough retrievals: {serve}, then {again} again")
    unreachable: dict[str, tuple[str, ...]] = {}
    asked, blocked = 0, counts["blocked"]
    if config.input is None:
        with project_journal(config.workdir, config.database) as journal:
            unreachable = journal.unreachable() if journal else {}
            asked = len(leaving(journal)) if journal else 0
            notes += [note] if (note := unconfirmed_note(journal)) else []
            notes += [unreachable_note(pool, units) for pool, units in unreachable.items()]
    if asked:
        notes.append(f"votes of {plural(asked, 'worker')} who asked to withdraw are not counted")
    if blocked > asked:
        notes.append(
            f"votes of {plural(blocked - asked, 'blocked worker')} are not counted (--keep-blocked counts them)"
        )
    if workers["train"] and workers["eval"]:
        notes.append(
            f"{workers['both']} of {workers['train'] + workers['eval'] - workers['both']} workers are on train and on "
            f"validation or test; certificate.json says of each query whether its writer was seen in train"
        )
    return AggregateReport(
        dataset=out,
        read=source,
        up_to_date=up_to_date,
        counts=counts,
        tables=msgspec.json.decode((out / TABLES).read_bytes(), type=dict[str, Table]),
        holds=certified.holds,
        violations=tuple(certified.violations),
        refused=refused_answers(source),
        unreachable=unreachable,
        notes=tuple(notes),
        full=config.full,
    )
