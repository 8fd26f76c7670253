"""Mechanical Turk over the wire: launch, fetch, ask for more, keep the pools apart. Every call can be repeated.

A request token holds for 24 hours only, so what was launched is also found by its annotation before anything is created.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ctxr.annotation.backends.append_only import append, read_appended
from ctxr.annotation.backends.mturk import Fetched, Hit, annotation, project, token
from ctxr.data.records import Record
from ctxr.errors import CtxrError, DataError

SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
LIVE = "https://mturk-requester.us-east-1.amazonaws.com"

PAGE = 100
"""Results of one call at most."""

_HIT = re.compile(r"\b[A-Z0-9]{20,64}\b")


class Client(Protocol):
    """What is used of boto3's client for `mturk`; our fake in the tests has the same."""

    def create_hit(self, **parameters: Any) -> dict[str, Any]:
        """A new HIT."""

    def get_hit(self, *, HITId: str) -> dict[str, Any]:
        """One HIT."""

    def list_hits(self, **parameters: Any) -> dict[str, Any]:
        """HITs of this requester, a page."""

    def list_assignments_for_hit(self, **parameters: Any) -> dict[str, Any]:
        """Assignments of one HIT, a page."""

    def create_additional_assignments_for_hit(self, **parameters: Any) -> dict[str, Any]:
        """More assignments for one HIT."""

    def create_qualification_type(self, **parameters: Any) -> dict[str, Any]:
        """A qualification type of our own."""

    def list_qualification_types(self, **parameters: Any) -> dict[str, Any]:
        """Qualification types, a page."""

    def associate_qualification_with_worker(self, **parameters: Any) -> dict[str, Any]:
        """Give one to a worker."""


class Launched(Record, frozen=True):
    """A HIT that is there. `asked`: assignments it was created with, or extended to."""

    unit: str
    hit: str
    asked: int


def connect(live: bool) -> Client:
    """A client for the sandbox, or with `live` for paid work; credentials are found by boto3 in its own places.

    Raises CtxrError where boto3 is not installed or finds no credentials.
    """
    try:
        import boto3
    except ImportError as error:
        raise CtxrError(
            "boto3 is not installed, and Mechanical Turk needs it", hint="pip install 'ctxr[mturk]'"
        ) from error
    session = boto3.session.Session()
    if session.get_credentials() is None:
        raise CtxrError(
            "there are no credentials for Amazon Web Services",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        )
    client: Client = session.client("mturk", region_name="us-east-1", endpoint_url=LIVE if live else SANDBOX)
    return client


def read_launched(path: Path) -> dict[str, Launched]:
    """HITs by unit, the last word on each. Raises DataError naming file:line for a line that is none."""
    return {row.unit: row for row in read_appended(path, Launched)}


def launch(
    client: Client, hits: Iterable[Hit], record: Path, key: bytes, pools: Mapping[str, str]
) -> Iterator[Launched]:
    """Create the HITs that are not there yet, and write each down before the next. `pools`: own qualification types of who
    worked for `train` and for `eval`, empty where the sides may mix.

    Raises CtxrError for what Mechanical Turk refuses; what was launched is written down, and a repeated call goes on.
    """
    known = read_launched(record)
    waiting = [hit for hit in hits if hit.unit not in known]
    there = _found(client) if waiting else {}
    for hit in waiting:
        name = annotation(key, hit.unit)
        asked = int(hit.parameters["MaxAssignments"])
        if name in there:
            row = Launched(hit.unit, *there[name])
        else:
            row = Launched(hit.unit, _create(client, _apart(hit, pools)), asked)
        append(record, row)
        yield row


def fetch(client: Client, launched: Iterable[Launched]) -> Iterator[Fetched]:
    """Every submitted assignment of the HITs, page by page."""
    for row in launched:
        for found in _pages(client.list_assignments_for_hit, "Assignments", HITId=row.hit):
            yield Fetched(
                row.unit,
                row.hit,
                found["AssignmentId"],
                found["WorkerId"],
                found["AssignmentStatus"],
                found["AcceptTime"],
                found["SubmitTime"],
                found.get("Answer", ""),
            )


def read_archive(path: Path) -> list[Fetched]:
    """Assignments that were fetched before. Raises DataError for a line that is none."""
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Fetched))
        except msgspec.DecodeError as error:
            raise DataError(f"{path}:{number}: {error}", hint="restore the archive, or move it away") from error
    return found


def extend(
    client: Client, launched: Mapping[str, Launched], wanted: Mapping[str, int], record: Path, key: bytes
) -> list[Launched]:
    """Ask for as many assignments as each unit wants in all, where it has fewer; returns what was extended.

    The HIT itself says how many it has, so a repeated call asks for nothing twice. A HIT of fewer than ten never gets ten.
    """
    grown = []
    for unit, most in sorted(wanted.items()):
        row = launched.get(unit)
        if row is None or most <= row.asked:
            continue
        has = int(_called(client.get_hit, HITId=row.hit)["HIT"]["MaxAssignments"])
        target = min(most, 9) if has < 10 else most
        if target > has:
            parameters = {
                "HITId": row.hit,
                "NumberOfAdditionalAssignments": target - has,
                "UniqueRequestToken": token(key, unit, target),
            }
            _called(client.create_additional_assignments_for_hit, **parameters)
        extended = Launched(unit, row.hit, max(target, has))
        append(record, extended)
        grown.append(extended)
    return grown


def own_types(client: Client, names: Sequence[str]) -> dict[str, str]:
    """Ids of our own qualification types by name; those that are not there are created."""
    listed = _pages(
        client.list_qualification_types, "QualificationTypes", MustBeRequestable=False, MustBeOwnedByCaller=True
    )
    found = {one["Name"]: one["QualificationTypeId"] for one in listed}
    for name in names:
        if name not in found:
            made = _called(
                client.create_qualification_type,
                Name=name,
                Description="Given to workers of a study so that its parts have different workers.",
                QualificationTypeStatus="Active",
            )
            found[name] = made["QualificationType"]["QualificationTypeId"]
    return {name: found[name] for name in names}


def pools_of(client: Client, key: bytes) -> dict[str, str]:
    """Qualification types of the two pools of workers, by `train` and `eval`."""
    names = {side: f"ctxr-{project(key)}-{side}" for side in ("train", "eval")}
    found = own_types(client, tuple(names.values()))
    return {side: found[name] for side, name in names.items()}


def join_pool(client: Client, pool: str, workers: Iterable[str]) -> None:
    """Give the qualification type `pool` to workers (platform ids), without a message to them."""
    for worker in workers:
        _called(
            client.associate_qualification_with_worker,
            QualificationTypeId=pool,
            WorkerId=worker,
            IntegerValue=1,
            SendNotification=False,
        )


def _apart(hit: Hit, pools: Mapping[str, str]) -> dict[str, Any]:
    """The parameters, with nobody let in who worked for the other side."""
    other = {"train": "eval", "eval": "train"}[hit.side]
    if other not in pools:
        return hit.parameters
    barred = {
        "QualificationTypeId": pools[other],
        "Comparator": "DoesNotExist",
        "ActionsGuarded": "DiscoverPreviewAndAccept",
    }
    return hit.parameters | {"QualificationRequirements": [*hit.parameters["QualificationRequirements"], barred]}


def _create(client: Client, parameters: dict[str, Any]) -> str:
    try:
        return str(client.create_hit(**parameters)["HIT"]["HITId"])
    except Exception as error:
        code, message = _refusal(error)
        named = _HIT.search(message.replace(parameters["UniqueRequestToken"], ""))
        if code == "AWS.MechanicalTurk.HitAlreadyExists" and named:
            return named.group()
        raise _sentence(error) from error


def _found(client: Client) -> dict[str, tuple[str, int]]:
    """HIT and assignments of everything this requester has, by annotation."""
    return {
        hit["RequesterAnnotation"]: (hit["HITId"], int(hit["MaxAssignments"]))
        for hit in _pages(client.list_hits, "HITs")
        if hit.get("RequesterAnnotation")
    }


def _pages(call: Any, name: str, **parameters: Any) -> Iterator[dict[str, Any]]:
    following: dict[str, str] = {}
    while True:
        answer = _called(call, MaxResults=PAGE, **parameters, **following)
        yield from answer[name]
        if not answer.get("NextToken") or not answer[name]:
            return
        following = {"NextToken": answer["NextToken"]}


def _called(call: Any, **parameters: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call(**parameters)
    except Exception as error:
        raise _sentence(error) from error
    return answer


def _refusal(error: Exception) -> tuple[str, str]:
    """Mechanical Turk's own code and message, from an error of botocore; empty for any other error."""
    said = getattr(error, "response", None) or {}
    return str(said.get("TurkErrorCode", "")), str(said.get("Message") or said.get("Error", {}).get("Message", ""))


def _sentence(error: Exception) -> Exception:
    """What the service or the way to it refused, as one sentence; an error of our own stays what it is."""
    known = any(base.__module__.partition(".")[0] in ("botocore", "boto3") for base in type(error).__mro__)
    if not known:
        return error
    code, message = _refusal(error)
    return CtxrError(
        f"Mechanical Turk refused: {message or error} {f'({code})' if code else ''}".strip(),
        hint="run the same command again: what was launched is kept",
    )
