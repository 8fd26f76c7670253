"""A study on a simulated Prolific, done by simulated people of two languages at a real server that is killed again and again."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np

from bench.crowd_load import PATIENCE, Server
from ctxr.annotation.config import COUNTRIES
from ctxr.annotation.journal.journal import read_journal
from ctxr.annotation.platforms.prolific import RESIDENCE
from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import describe, retrieve
from ctxr.annotation.web.site import SHIPPED, LeaseLink, crowd_signer
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.synthetic.crowd import Page, Visitor, image_ids
from ctxr.web.translations import read_languages
from tests.annotation.web.reading import read
from tests.pipelines.crowd.test_settle import ADDRESS, Prolific

BASE = "https://crowd.example.org"
"""Where the exported study says that the server is."""

ROLES = (
    "corrects", "careful", "refuses", "returns", "blocked", "careful",
    "corrects", "refuses", "returns", "careful", "careless", "withdraws",
)  # fmt: skip
"""What becomes of people, in turn; every second one reads Arabic.

`refuses` does not agree, `returns` gives the submission back after three answers, `blocked` is blocked by the researcher after
three answers, `careless` fails the practice, `corrects` corrects their descriptions, `withdraws` asks for it in the end.
"""


class StudiesOnProlific(Prolific):
    """Prolific with studies that are created and published, have so many places, and bring people to their address."""

    def __init__(self) -> None:
        super().__init__({})
        self.studies: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        match request.method, request.url.path.removeprefix(urlsplit(ADDRESS).path).strip("/").split("/"):
            case "GET", ["filters"]:
                choices = {f"{number}": name for number, name in enumerate(COUNTRIES.values())}
                return httpx.Response(200, json={"results": [{"filter_id": RESIDENCE, "choices": choices}]})
            case "GET", ["studies"]:
                return httpx.Response(200, json={"results": [*self.studies.values()]})
            case "POST", ["studies"]:
                body = json.loads(request.read())
                name = f"study{len(self.studies):019}"
                self.studies[name] = body | {"id": name, "status": "UNPUBLISHED"}
                return httpx.Response(201, json=self.studies[name])
            case "POST", ["studies", name, "transition"]:
                self.studies[name]["status"] = "ACTIVE"
                return httpx.Response(200, json={"status": "ACTIVE"})
            case "GET", ["studies", name, "submissions"]:
                rows = [row for row in self.rows.values() if row["study_id"] == name]
                return httpx.Response(200, json={"results": rows})
        return super().handle_request(request)

    def reserve(self, study: str, participant: str) -> tuple[str, str] | None:
        """A new submission, and the address to which its participant is sent; None where all places are taken."""
        with self._lock:
            body = self.studies[study]
            taken = [row for row in self.rows.values() if row["study_id"] == study and row["status"] != "RETURNED"]
            if body["status"] != "ACTIVE" or len(taken) >= body["total_available_places"]:
                return None
            name = f"session{len(self.rows):017}"
            self.rows[name] = {
                "id": name, "participant_id": participant, "study_id": study, "status": "ACTIVE", "reward": body["reward"],
            }  # fmt: skip
        addresses = [one["external_url"] for one in body["access_details"] for _ in range(one["total_allocation"])]
        link = addresses[len(taken)]
        for word, value in (("PROLIFIC_PID", participant), ("STUDY_ID", study), ("SESSION_ID", name)):
            link = link.replace(f"{{{{%{word}%}}}}", value)
        return name, link

    def finish(self, submission: str, code: str) -> None:
        """Send a completion code for a submission; without one, give the submission back."""
        row = self.rows[submission]
        known = [one["code"] for one in self.studies[row["study_id"]]["completion_codes"]]
        assert code in ("", *known)
        row["status"] = "AWAITING REVIEW" if code else "RETURNED"


class Patient(httpx.HTTPTransport):
    """Sends a request again while nobody is there, as people load a page again."""

    def __init__(self) -> None:
        super().__init__(limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                response = super().handle_request(request)
                response.read()
            except httpx.TransportError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return response


@dataclass
class Study:
    """What all people of a study share.

    Attributes:
        targets: image id by the text that describes it. pictures: image id by content. key: of the project.
        sent: what was acknowledged, by unit and worker; a corrected answer takes the place of the first.
    """

    work: Path
    server: Server
    prolific: StudiesOnProlific
    targets: dict[str, str]
    pictures: Mapping[str, str]
    key: bytes
    sent: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    kills: int = 0

    @classmethod
    def of(cls, work: Path, prolific: StudiesOnProlific, pictures: Sequence[Path]) -> "Study":
        """The study of a project whose tasks show images of these datasets; the targets of their descriptions are known."""
        datasets = [read_artifact(path) for path in pictures]
        known = {
            " ".join(one.texts[query.texts[0]].text.split()): image_set.images[index]
            for one in datasets
            for query, image_set, index in one.targets()
        }
        contents = {key: image for one in datasets for key, image in image_ids(one).items()}
        return cls(work, Server(work), prolific, known, contents, read_key(work / "crowd" / "private"))

    @contextmanager
    def served(self) -> Iterator[None]:
        """The server runs."""
        self.server.start()
        try:
            yield
        finally:
            self.server.stop()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def unit(self, link: str) -> Unit:
        """The unit behind the link in the address of a page."""
        sealed = crowd_signer(self.key).read(LeaseLink, link)
        journal = read_journal(self.work / "crowd" / "answers.sqlite")
        lease = journal.find(sealed.lease) if sealed else None
        journal.close()
        assert lease is not None
        return lease.unit

    def block(self, worker: str) -> None:
        """The researcher blocks a worker on the page of the study."""
        headers, page = {"Origin": self.address}, f"/run/person/{worker}"
        with httpx.Client(
            base_url=self.address, headers=headers, follow_redirects=True, transport=Patient(), timeout=60
        ) as runner:
            read(runner.get(self.server.said["run"])).form().send(runner)  # type: ignore[arg-type]
            done = read(runner.get(page)).forms[0].send(runner, do="block", text="answers without looking")  # type: ignore[arg-type]
        assert done.status_code == 200

    def work_on(self, study: str, people: Sequence["Participant"], every: int) -> None:
        """People take part in a study on Prolific, all at once; after `every` answers the server is killed and started again."""
        ended = threading.Event()

        def disturb() -> None:
            at = len(self.sent)
            while not ended.wait(0.01):
                if len(self.sent) >= at + every:
                    self.server.kill()
                    self.kills += 1
                    self.server.start()
                    at = len(self.sent)

        with ThreadPoolExecutor(len(people) + 1) as threads:
            disturber = threads.submit(disturb)
            coming = [threads.submit(person.take_part, study) for person in people]
            try:
                for one in coming:
                    one.result()
            finally:
                ended.set()
            disturber.result()


class Participant(Visitor):
    """One person from Prolific, with a role of `ROLES`. Every page is looked at: its language, and that nothing is shown too early.

    Attributes:
        before: number of pages that they saw before they agreed. codes: that they sent to Prolific.
    """

    def __init__(self, number: int, study: Study) -> None:
        name = f"participant{number:013}"
        language = read_languages(SHIPPED)["ar" if number % 2 else "en"]
        rng = np.random.default_rng(number)
        super().__init__(name, study.address, study.pictures, rng, language=language, transport=Patient())
        self.study, self.number, self.role = study, number, ROLES[number % len(ROLES)]
        self.worker = pseudonym(study.key, "prolific", name)
        self.agreed, self.before, self.codes = False, 0, list[str]()
        self._answers = 0
        self._client.event_hooks = {"response": [self._look]}

    def take_part(self, study: str) -> None:
        """From the study's own page on Prolific to the completion code, or to giving the submission back."""
        place = self.study.prolific.reserve(study, self.name)
        if place is None:
            return
        submission, link = place
        self._link, self._page, self._answers = link.replace(BASE, self.study.address), None, 0
        code = ""
        while not code and not (self.role == "refuses" or (self.role == "returns" and self._answers >= 3)):
            if not self.work():
                code = parse_qs(urlsplit(self._link).query).get("cc", [""])[0]
                time.sleep(0.2)  # a feedback of practice, or what others hold
        if self.role == "refuses":
            self.work()
        self.study.prolific.finish(submission, code)
        self.codes += [code] * bool(code)

    def wait(self, study: str, seconds: float) -> None:
        """Come to talk, leave after a while in which nobody else came, and take the completion code."""
        place = self.study.prolific.reserve(study, self.name)
        assert place is not None
        submission, link = place
        page = self._arrive(self._client.get(link.replace(BASE, self.study.address)))
        leaving = next(form for form in page.forms if form.action.endswith("/leave"))
        time.sleep(seconds)
        self._post(page, leaving, {})
        page = self._arrive(self._client.get("/next"))
        (code,) = parse_qs(urlsplit(page.buttons[0]).query)["cc"]
        self.study.prolific.finish(submission, code)
        self.codes.append(code)

    def ask_to_withdraw(self) -> None:
        """Withdraw on the page of the consent, which asks once more; from then on there is no work."""
        page = Page(self._client.get("/consent"))
        for _ in range(2):
            page = self._post(page, next(form for form in page.forms if form.action.endswith("/withdraw")), {})
        assert not self.answer(Page(self._client.get("/next")))

    def answer(self, page: Page) -> Page | None:
        """Answer by the role; None where nothing is asked."""
        if page.form("problem") is None:
            return None
        images, link = self.images(page), urlsplit(page.address).path.split("/")[2]
        unit = self.study.unit(link)
        text = " ".join(page.quotes[0].split()) if page.quotes else ""
        if unit.purpose == "work" and (self.number + self._answers) % 4 == 0:
            told = "cannot_tell" if self.number % 3 else "broken"
            after, values = self.send(page, "problem", [told]), {"problem": told}
        elif page.form(describe.FIELD) is not None:
            after, values = self._write(page, images[page.marked or ""])
        else:
            meant = next(address for address, image in images.items() if image == self.study.targets[text])
            if self.role == "careless" or (unit.purpose == "work" and (self.number + self._answers) % 4 == 1):
                meant = next(address for address in images if address != meant)
            after = self.send(page, retrieve.FIELD, [meant.rsplit("/", 1)[1]])
            values = {retrieve.FIELD: images[meant]}
        assert after.status == 200, (after.address, after.status)
        self.study.sent[unit.id, self.worker] = values
        self._answers += 1
        if self.role == "corrects" and describe.FIELD in values and len(self.codes) == 0:
            self._correct(unit, values)
        if self.role == "blocked" and self._answers == 3:
            self.study.block(self.worker)
            after = Page(self._client.get("/next"))
        return after

    def _write(self, page: Page, target: str) -> tuple[Page, dict[str, str]]:
        words = ("".join(self._rng.choice(list("bdfglmprst"), 6)) for _ in range(12))
        text = " ".join(words)
        self.study.targets[text] = target
        return self.send(page, describe.FIELD, [text]), {describe.FIELD: text}

    def _correct(self, unit: Unit, values: dict[str, str]) -> None:
        """The last description is sent once more, with other words."""
        links = [link for link in read(self._client.get("/answers")).links if link.endswith("/correct")]
        own = next(link for link in links if self.study.unit(link.split("/")[2]) == unit)
        _, values = self._write(Page(self._client.get(own)), unit.target or "")
        self.study.sent[unit.id, self.worker] = values

    def _arrive(self, response: httpx.Response) -> Page:
        page = Page(response)
        if page.form("agree") is None:
            return super()._arrive(response)
        # nobody sees anything by any other way
        others = [f"/w/{link}" for link in ("x", "")]
        for path in ("/next", "/answers", "/instructions/describe", "/instructions/retrieve", *others, "/run"):
            self._client.get(path)
        if self.role != "refuses":
            return super()._arrive(response)
        refusing = next(form for form in page.forms if form.action.endswith("/refuse"))
        return self._post(page, refusing, {})

    def _look(self, response: httpx.Response) -> None:
        """What a browser was sent: the right language and direction, and nothing of the study before consent."""
        response.read()
        if response.headers.get("content-type", "").startswith("text/html") and "/run" not in response.url.path:
            direction = "rtl" if self.language.tag == "ar" else "ltr"
            assert f'<html lang="{self.language.tag}" dir="{direction}">' in response.text, response.url
        if response.request.method == "POST" and response.url.path == "/consent/agree" and response.status_code == 303:
            self.agreed = True
        if not self.agreed:
            self.before += 1
            assert not response.headers.get("content-type", "").startswith("image/"), response.url
            for part in ("/picture/", 'id="answer"', "<blockquote>", *self.study.targets):
                assert part not in response.text, (response.url, part)
