"""Prolific: it brings people to our own server and pays them; its API client.

One study of Taskflow: each bundle of units is an address of its own, and all bundles together are given to as many people as the
rules of leasing need. An answer counts only where the platform knows the submission that the server recorded, by the participant
who made it.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from ctxr.annotation.config import COUNTRIES, ExportTasks, listed
from ctxr.annotation.cost import Offer
from ctxr.annotation.forms import Form
from ctxr.annotation.journal.identities import Visit
from ctxr.annotation.platforms.arrivals import Arrivals, read_list
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import CtxrError, DataError
from ctxr.store.records import Record
from ctxr.store.tables import grouped
from ctxr.web.language import name_of_language

ADDRESS = "https://api.prolific.com/api/v1"

TOKEN = "PROLIFIC_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the access token; it is read from nowhere else."""

TRIES = 6

LONGEST = 60.0


class ProlificClient:
    """The API calls of a study, with the token of an account. Redirects are not followed, so no other address gets it."""

    def __init__(
        self,
        token: str,
        address: str = ADDRESS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"Authorization": f"Token {token}"}
        self._client = httpx.Client(base_url=address, headers=headers, timeout=30, transport=transport)
        self._sleep = sleep

    def create(self, payload: Mapping[str, Any]) -> str:
        """Create a draft of a study and return its id. The request is not retried: that could create two studies."""
        return str(self._call("POST", "/studies/", payload, retry=False)["id"])

    def studies(self, internal_name: str) -> list[str]:
        """Ids of studies with an internal name: one may come of a request whose answer was lost."""
        return [str(row["id"]) for row in self._pages("/studies/") if row.get("internal_name") == internal_name]

    def choices(self, name: str) -> dict[str, str]:
        """Ids of the choices of a filter, by what participants read."""
        found = (row for row in self._pages("/filters/") if row.get("filter_id") == name)
        return {str(label): str(choice) for row in found for choice, label in (row.get("choices") or {}).items()}

    def publish(self, study: str) -> str:
        """Publish a study; from then on people take part and are paid. Returns its status."""
        return str(self._call("POST", f"/studies/{study}/transition/", {"action": "PUBLISH"}).get("status", ""))

    def submissions(self, study: str) -> list[dict[str, Any]]:
        """Every submission of a study, page by page."""
        rows = self._pages(f"/studies/{study}/submissions/?limit=100&offset=0")
        return [row | {"study_id": row.get("study_id") or study} for row in rows]

    def approve(self, submissions: Sequence[str]) -> None:
        """Approve submissions, which are then paid. Repeating it changes nothing."""
        self._call("POST", "/submissions/bulk-approve/", {"submission_ids": list(submissions)})

    def ask_back(self, submission: str, reason: str) -> None:
        """Ask a participant to return a submission; they get a message with the reason."""
        body = {"request_return_reasons": [reason]}
        self._call("POST", f"/submissions/{submission}/request-return/", body, retry=False)

    def order_bonuses(self, study: str, bonuses: Mapping[str, int]) -> str:
        """Order bonuses by submission, in minor units, without paying; the id to pay them with."""
        rows = "".join(f"{submission},{cents / 100:.2f}\n" for submission, cents in bonuses.items())
        return str(self._call("POST", "/submissions/bonus-payments/", {"study_id": study, "csv_bonuses": rows})["id"])

    def pay_bonuses(self, order: str) -> None:
        """Pay bonuses that were set up. The request is not retried: each one pays again."""
        self._call("POST", f"/bulk-bonus-payments/{order}/pay/", retry=False)

    def _pages(self, first: str) -> Iterator[dict[str, Any]]:
        path: str | None = first
        while path:
            answer = self._call("GET", path)
            yield from answer["results"]
            links = (answer.get("_links") or {}).get("next") or {}
            following = links.get("href") if isinstance(links, dict) else None
            path = following.removeprefix(str(self._client.base_url).rstrip("/")) if following else None
            if path and not path.startswith("/"):
                raise DataError(f"Prolific names {path!r} as the next page, which is not its own address")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, retry: bool = True) -> Any:
        tries = 0
        while True:
            wait, tries = 2.0**tries, tries + 1
            last = tries == TRIES
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.TransportError as error:
                if last or not retry:
                    raise CtxrError(
                        f"Prolific cannot be reached: {error}", hint="run the same command again"
                    ) from error
            else:
                if answer.is_success:
                    try:
                        return json.loads(answer.content or b"{}")
                    except (ValueError, RecursionError) as error:
                        raise DataError(f"Prolific answered to {path} with something that is not JSON") from error
                # 429, too many requests: Prolific refused before it did anything
                if last or not (answer.status_code == 429 or (answer.status_code >= 500 and retry)):
                    raise _refusal_of(answer)
                after = answer.headers.get("Retry-After", "")
                wait = float(after) if after.isdigit() else wait
            self._sleep(min(LONGEST, wait))


def connect(address: str = ADDRESS) -> ProlificClient:
    """A client with the token of the environment. Raises CtxrError without one."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise CtxrError(f"there is no access token for Prolific: {TOKEN} is not set", hint=f"export {TOKEN}=…")
    return ProlificClient(token, address)


def _refusal_of(answer: httpx.Response) -> CtxrError:
    try:
        detail = answer.json().get("error", {}).get("detail", answer.text)
    except (ValueError, AttributeError):
        detail = answer.text
    code = answer.status_code
    if answer.has_redirect_location:
        detail = f"a redirect to {answer.headers['Location']}, where the token is not sent"
    hint = f"check {TOKEN}" if code in (401, 403) else "see the message, change the export, and run the command again"
    return CtxrError(f"Prolific refused with {code}: {str(detail)[:300]}", hint=hint)


PLATFORM = "prolific"

CODE_TYPES = ("COMPLETED", "FAILED_ATTENTION_CHECK")

PAID = ("AWAITING REVIEW", "APPROVED", "PROCESSING")

WORKING = ("RESERVED", "ACTIVE")
"""States of submissions that may still be completed."""

_HINT = "without a file, submissions are fetched from Prolific"

PLACEHOLDERS = "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
"""Query of an address that Prolific completes for each participant."""


class Bundle(Record, frozen=True):
    """Units that one person could do in one go. `raters`: how many people get its address; the server deals units by its own rules."""

    id: str
    units: tuple[str, ...]
    raters: int


class Submission(msgspec.Struct, frozen=True):
    """What Prolific says of a submission; its participant and its study have two names each. Amounts are in minor units."""

    id: str
    status: str
    participant: str = ""
    participant_id: str = ""
    study_id: str = ""
    study: str = ""
    reward: float | None = None
    bonus_payments: tuple[float, ...] | None = None
    return_requested: str | None = None

    @property
    def is_approved(self) -> bool:
        """Whether it is paid, or about to be."""
        return self.state in PAID[1:]

    @property
    def state(self) -> str:
        """The status as the API writes it; files have hyphens."""
        return self.status.replace("-", " ").upper()


def bundles(units: Sequence[Unit], size: int, places: int, key: bytes) -> list[Bundle]:
    """The work in bundles of at most `size` units, which show different sets where they can; `places` are shared out evenly."""
    work = sorted((unit for unit in units if unit.purpose == "work"), key=lambda unit: (unit.image_set, unit.id))
    count = min(places, -(-len(work) // size))
    parts = []
    for number in range(count):
        names = tuple(unit.id for unit in work[number::count])
        name = hmac.new(key, "\0".join(("bundle", *names)).encode(), hashlib.sha256).hexdigest()[:24]
        parts.append(Bundle(f"b-{name}", names, len(range(number, places, count))))
    return sorted(parts, key=lambda bundle: bundle.id)


def study_body(parts: Sequence[Bundle], offer: Offer, config: ExportTasks, form: Form) -> dict[str, Any]:
    """The body of the request that makes the study, with countries by name and without the private completion codes."""
    server, task = config.server.rstrip("/"), config.folder().name
    addresses = {part.id: f"{server}/p/{quote(task)}?bundle={part.id}&{PLACEHOLDERS}" for part in parts}
    return {
        "name": config.title or form.title,
        "description": "".join(f"<p>{sentence}</p>" for sentence in form.instruction),
        "prolific_id_option": "url_parameters",
        "total_available_places": offer.places,
        "estimated_completion_time": offer.minutes,
        "maximum_allowed_time": max(offer.minutes * 3, offer.minutes + 20),
        "reward": offer.pay,
        "device_compatibility": list(listed(config.devices)),
        "peripheral_requirements": [],
        "filters": filters(config),
        "access_details": [{"external_url": addresses[part.id], "total_allocation": part.raters} for part in parts],
    }


APPROVAL = "approval_rate"
"""Prolific's filter of the share of approved submissions: whole percent, both ends included."""

RESIDENCE = "current-country-of-residence"
"""Prolific's filter of the country of residence; Prolific lists the ids of its choices."""

FLUENT = "fluent-languages"
"""Prolific's filter of languages that somebody is fluent in; its choices have ids, too."""


def filters(config: ExportTasks, ids: Mapping[str, str] | None = None) -> list[dict[str, object]]:
    """Who may take part; countries and languages by their `ids` on Prolific, else by name. Raises DataError for one without an id."""
    rows: list[dict[str, object]] = []
    if config.approved:
        rows.append({"filter_id": APPROVAL, "selected_range": {"lower": config.approved + 1, "upper": 100}})
    is_english = config.language.split("-")[0] == "en"
    # English-speaking countries say nothing of who writes in another language
    anywhere = not is_english and config.countries == ExportTasks.countries
    countries = [] if anywhere else [COUNTRIES[country] for country in listed(config.countries)]
    languages = [] if is_english else [name_of_language(config.language.split("-")[0])]
    for name, words, kind in ((RESIDENCE, countries, "country"), (FLUENT, languages, "language")):
        if ids is not None and (missing := [word for word in words if word not in ids]):
            hint = (
                "leave it out of --countries"
                if kind == "country"
                else "create the study of study.json on Prolific’s pages"
            )
            raise DataError(f"Prolific lists no {kind} {missing[0]!r}", hint=hint)
        if words:
            rows.append({"filter_id": name, "selected_values": [ids[word] for word in words] if ids else words})
    return rows


def read_submissions(path: Path, studies: Iterable[str]) -> dict[str, Submission]:
    """Prolific's list, by id. `studies`: this project's, if known.

    Raises DataError naming file:row for a list that cannot be read, or is of another study.
    """
    submissions: dict[str, Submission] = {}
    ours = set(studies)
    for number, row in enumerate(read_list(path, Submission, _HINT), 1):
        study = row.study_id or row.study
        if ours and study and study not in ours:
            raise DataError(
                f"{path}:{number}: the submission {row.id!r} is of study {study!r}, which is not of this project",
                hint="name the submissions of the study that was exported",
            )
        submissions[row.id] = row
    return submissions


def confirmed_answers(
    path: Path, stored: Iterable[Answer], visits: Iterable[Visit], studies: Iterable[str], key: bytes
) -> Arrivals:
    """The journal's answers of workers whose submission Prolific lists; others are refused. Raises what `read_submissions` does."""
    submissions = read_submissions(path, studies)
    arrivals = Arrivals(path, PLATFORM, key)
    ordered = sorted(visits, key=lambda visit: visit.submission)
    visits_of = grouped((arrivals.pseudonym_of(visit.participant), visit) for visit in ordered)
    for answer in sorted(stored, key=lambda answer: answer.key()):
        if answer.worker not in visits_of and answer.backend != PLATFORM:
            continue
        position = f"{answer.unit}/{answer.worker}"
        problems = [
            _submission_problem(visit, submissions.get(visit.submission)) for visit in visits_of.get(answer.worker, ())
        ]
        if "" in problems:
            arrivals.take(position, answer)
        else:
            sentence = (problems or ["No submission was recorded for this worker."])[0]
            arrivals.refuse(position, answer.unit, answer.worker, "submission", sentence)
    return arrivals


def standings(submissions: Mapping[str, Submission], visits: Iterable[Visit], listed_at: datetime) -> dict[str, str]:
    """Why none of a worker's submissions counts, by worker; empty where one does.

    Workers are left out of whom `submissions`, a list of `listed_at`, cannot tell yet: who works on one, came later, or came to a
    study that it does not list.
    """
    visits = sorted(visits, key=lambda visit: visit.began)
    studies = {visit.door for visit in visits if visit.submission in submissions}
    told: dict[str, str] = {}
    unknown = set[str]()
    for visit in visits:
        submission = submissions.get(visit.submission)
        problem = _submission_problem(visit, submission)
        is_listed = visit.door in studies and visit.began <= listed_at
        if problem and (submission.state in WORKING if submission else not is_listed):
            unknown.add(visit.worker)
        elif told.get(visit.worker) != "":
            told[visit.worker] = problem
    return {worker: problem for worker, problem in told.items() if not problem or worker not in unknown}


def _submission_problem(visit: Visit, submission: Submission | None) -> str:
    """Why the answers of a visit are not taken; empty where they are."""
    if submission is None:
        return "Prolific does not list the submission."
    participant = submission.participant_id or submission.participant
    if not participant:
        return "Prolific names no participant for the submission."
    if participant != visit.participant:
        return "The submission belongs to another participant on Prolific."
    if submission.state not in PAID:
        return f"The submission is {submission.status.lower()}."
    return ""
