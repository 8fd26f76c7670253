"""Workers: their pool, whether they get work, and every change of that with its reason."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from scipy.special import betainc
from sqlalchemy import RowMapping, bindparam, exists, select

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.database import SURE, Transaction, stamp
from ctxr.annotation.journal.results import DECLINED, Change, NotAllowed, Pool, WorkerState
from ctxr.annotation.protocol import Protocol, digest
from ctxr.annotation.pseudonyms import is_pseudonym
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import task_of
from ctxr.store.tables import grouped
from ctxr.web.language import _

RULE = "rule"
"""The author of changes that a rule of the protocol makes."""

LEAVER = "worker"
"""The author of the block of somebody who asked to withdraw, and of `DECLINED`."""

_CHANGE = tables.change.c
_STANDS = _CHANGE.worker == bindparam("name"), _CHANGE.undone == 0
_ASKED_TO_LEAVE = select(_CHANGE.number).where(*_STANDS, _CHANGE.by == LEAVER, _CHANGE.after == "blocked").limit(1)
_WORKED_ON = exists().where(leasing.lease.worker == _CHANGE.worker, leasing.lease.began > _CHANGE.at)
_DECLINED = select(_CHANGE.worker).where(_CHANGE.after == DECLINED, _CHANGE.undone == 0, ~_WORKED_ON)
_BY_OTHERS = select(tables.change).where(*_STANDS, _CHANGE.by != LEAVER).order_by(_CHANGE.number.desc()).limit(1)


def require(tx: Transaction, worker: str) -> RowMapping:
    """The worker's row. Raises NotAllowed for one who never enrolled."""
    row = tx.find(tables.worker, id=worker)
    if row is None:
        raise NotAllowed("unknown", _("We do not know you yet. Please start from the first page."))
    return row


def standing(tx: Transaction, row: RowMapping) -> str:
    """The state in a worker's row; `withdrawn` also for one who asked to be."""
    is_leaving = row["state"] == "blocked" and bool(tx.column(_ASKED_TO_LEAVE, name=row["id"]))
    return "withdrawn" if is_leaving else str(row["state"])


def declined(tx: Transaction) -> set[str]:
    """The workers who declined a changed consent, and have neither agreed to it nor worked under another since."""
    return set(tx.column(_DECLINED))


def block_of(tx: Transaction, worker: str) -> Change | None:
    """The block of a worker by somebody else than themselves; of who was deleted since, without its reason."""
    last = tx.row(_BY_OTHERS, name=worker)
    if (
        last is None
        or last["after"] not in ("blocked", "withdrawn")
        or "blocked" not in (last["before"], last["after"])
    ):
        return None
    gone = {"by": last["reason"], "reason": ""} if last["after"] == "withdrawn" else {}
    return change_of({**last, **gone})


def change_of(row: Mapping[Any, Any]) -> Change:
    """The change in a row."""
    return Change(**{**row, "at": stamp(row["at"]), "undone": bool(row["undone"])})


def state_of(row: RowMapping) -> WorkerState:
    """The state in a worker's row."""
    fields: dict[str, Any] = {name: row[name] for name in ("platform", "pool", "state", "answers")}
    fields |= {name: bool(row[name]) for name in ("qualified", "allowed")}
    return WorkerState(row["id"], right=row["known_right"], wrong=row["known_wrong"], **fields)


def pool_of(unit: Unit) -> str:
    """The pool that a unit's workers must be in; checks of the worker, pairs, and a researcher's own tasks are for everybody."""
    if unit.purpose != "work" or unit.split is None or {"entail", "own"} & {unit.task, unit.like}:
        return "any"
    return "train" if unit.split == "train" else "eval"


LEAST_POOL = 0.25
"""A pool with any work gets at least this share of the workers who are not in both: each vote needs another person."""


def pool_shares(protocol: Protocol, work: Mapping[str, int]) -> dict[Pool, float]:
    """The share of the workers that each pool should have: by its missing votes, `work`, after those who may do both."""
    if protocol.disjoint == "none":
        return {"both": 1.0}
    units: dict[Pool, int] = {pool: work[pool] for pool in get_args(Pool) if pool != "both" and work.get(pool)}
    units = units or {"train": 1, "eval": 1}  # nothing is in a pool yet: both will get some
    shared = protocol.shared_workers if protocol.disjoint == "partly" else 0.0
    parts = {pool: max(count / sum(units.values()), LEAST_POOL) for pool, count in units.items()}
    return {**{pool: (1 - shared) * part / sum(parts.values()) for pool, part in parts.items()}, "both": shared}


def next_pool(shares: Mapping[Pool, float], sizes: Mapping[str, int]) -> Pool:
    """The pool that is furthest below its share."""
    total = sum(sizes.values()) + 1
    return max(shares, key=lambda pool: (shares[pool] > 0, shares[pool] * total - sizes.get(pool, 0)))


LEADS_TO = {"retrieve": "describe", "review": "dialogue"}
"""The task from whose answers the units of another one follow."""


def people_needed(units: Iterable[Unit], protocol: Protocol, contents: Mapping[str, str] = {}) -> dict[str, int]:
    """How many people suffice for `units` and what follows from them, by pool (`train`, `eval`, `any`) and in `all`.

    Where a task requires unknown pictures, each answer about a set, or one that shares a picture with it, takes another person;
    elsewhere, each to the same unit. `contents`: hashes by image id, by which copies are one picture.
    """
    units = [unit for unit in units if unit.purpose == "work"]
    made = {(unit.task, unit.image_set, unit.target) for unit in units}
    sources = {unit.id: (LEADS_TO.get(unit.task), unit.image_set, (unit.truth or (unit.target,))[0]) for unit in units}
    followed = {*sources.values()}
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    sets_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    pictures: dict[tuple[str, str], set[str]] = defaultdict(set)
    disjoint = set()
    for unit in units:
        task, pool, key = task_of(unit), pool_of(unit), (pool_of(unit), unit.image_set)
        follows = {"describe": protocol.votes(unit.split)[1], "dialogue": protocol.review_votes}.get(unit.task, 0)
        if (unit.task, unit.image_set, unit.target) in followed:
            follows = 0  # these units are there
        is_counted = sources[unit.id] in made or (unit.task == "repeat" and task.FRESH)
        writers = 0 if is_counted else sum(map(is_pseudonym, unit.authors))
        places[key].append(unit.most * task.SEATS + follows + writers)
        for picture in unit.pictures(contents).values():
            pictures[key].add(picture)
            sets_of[pool, picture].add(unit.image_set)
        if task.FRESH or unit.task == "describe":
            disjoint.add(key)
    work, needed = Counter[str](), Counter[str]()
    for (pool, name), each in places.items():
        work[pool] += len(each)
        around = {name}.union(*(sets_of[pool, picture] for picture in pictures[pool, name]))
        of_others = sum(sum(places[pool, other]) for other in around)
        needed[pool] = max(needed[pool], of_others if (pool, name) in disjoint else max(each))
    shares, sizes = pool_shares(protocol, work), Counter[str]()
    while sizes.total() < needed["any"] or any(
        sizes[pool] + sizes["both"] < needed[pool] for pool in ("train", "eval")
    ):
        sizes[next_pool(shares, sizes)] += 1
    return dict(sorted((+needed).items())) | {"all": sizes.total()}


def deal_bundles(
    units: Iterable[Unit],
    protocol: Protocol,
    size: int,
    contents: Mapping[str, str] = {},
    writers: Collection[str] | None = None,
) -> list[list[Unit]]:
    """What each person is given who comes until `units` have all votes: at most `size` units, by the rules of leasing.

    First come those of the authors of the units who are among `writers` (None: all), because they may judge least. Nothing else is
    known of anybody, so this is how many people suffice who come one after another and do all that they are given.
    """
    work = [unit for unit in units if unit.purpose == "work"]
    seed, pictures = protocol.seed, {unit.id: {*unit.pictures(contents).values()} for unit in work}
    votes = [(slot, digest(seed, "serve", unit.id), unit) for unit in work for slot in range(unit.most)]
    ordered = sorted(votes, key=lambda vote: (vote[2].task not in tables.JUDGES, *vote[:2]))
    seats = (unit for _, _, unit in ordered for _ in range(task_of(unit).SEATS))
    queue, bundles = deque(seats), list[list[Unit]]()
    wrote = grouped((name, unit) for unit in work for name in unit.authors if writers is None or name in writers)
    sizes = Counter[str]()
    while queue:
        own = wrote.pop(min(wrote)) if wrote else []
        pool = pool_of(own[0]) if own else next_pool(pool_shares(protocol, Counter(map(pool_of, queue))), sizes)
        sizes[pool] += 1
        known, seen = {unit.id for unit in own}, set().union(*(pictures[unit.id] for unit in own))
        bundle, others = list[Unit](), list[Unit]()
        while queue and len(bundle) < size:
            unit = queue.popleft()
            suits = unit.id not in known and (pool == "both" or pool_of(unit) in (pool, "any"))
            if suits and not (task_of(unit).FRESH and seen & pictures[unit.id]):
                bundle.append(unit)
                known.add(unit.id)
                seen |= pictures[unit.id]
            else:
                others.append(unit)
        queue.extendleft(reversed(others))
        bundles.append(bundle)
    return bundles


def count_check(tx: Transaction, row: RowMapping, correct: bool) -> None:
    """Count an answer to a check, and stop the worker where the rules say so."""
    rights, wrongs = row["known_right"] + correct, row["known_wrong"] + (not correct)
    tx.update(tables.worker, {"id": row["id"]}, known_right=rights, known_wrong=wrongs)
    if row["allowed"] or row["state"] != "active":
        return
    if not row["qualified"]:
        if rights + wrongs >= tx.rules.protocol.qualification:
            end_qualification(tx, require(tx, row["id"]))
        return
    below = chance_below(rights, wrongs, tx.rules.protocol.block_below)
    if below >= SURE:
        reason = (
            f"{rights} of {rights + wrongs} known answers right: below {tx.rules.protocol.block_below:g} "
            f"with a probability of {below:.3f}"
        )
        change(tx, row, "blocked", reason, RULE)


def chance_below(right: int, wrong: int, limit: float) -> float:
    """Probability that the accuracy behind `right` and `wrong` answers is below `limit`, from a uniform prior."""
    return float(betainc(right + 1, wrong + 1, limit))


def end_qualification(tx: Transaction, row: RowMapping) -> None:
    """End the qualification round: go on, or be screened out."""
    questions = row["known_right"] + row["known_wrong"]
    tx.update(tables.worker, {"id": row["id"]}, qualified=1)
    # who called every question broken has shown nothing
    if row["known_right"] < tx.rules.protocol.qualification_pass * (questions or row["answers"]):
        reason = f"{row['known_right']} of {questions} qualification questions right"
        change(tx, row, "screened_out", reason, RULE)


def change(tx: Transaction, row: RowMapping, after: str, reason: str, by: str, *, undone: int = 0) -> None:
    """Make a worker `active`, `allowed`, `blocked` or `screened_out`, and record why."""
    before = "allowed" if row["state"] == "active" and row["allowed"] else row["state"]
    columns = {"before": before, "after": after, "reason": reason, "by": by, "at": tx.now, "undone": undone}
    tx.insert(tables.change, worker=row["id"], **columns)
    allowed = after == "allowed"
    tx.update(tables.worker, {"id": row["id"]}, state="active" if allowed else after, allowed=int(allowed))
    if "blocked" in (before, after):
        leasing.recount(tx, row["id"])
