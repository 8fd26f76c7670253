"""Simulated workers at the pages of a server, and the rehearsal of a whole study with them before anybody is paid.

They know the drawn world's truth and differ in care, so what the aggregation must find is known: who is a spammer, how
accurate the crowd is, how much it agrees.
"""

import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

import httpx
import msgspec
import numpy as np

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
from ctxr.annotation.tasks import describe, retrieve
from ctxr.annotation.unit_factory import attention_index
from ctxr.annotation.web.site import SHIPPED
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError
from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.records import ImageSet
from ctxr.synthetic.world.footage import World
from ctxr.synthetic.world.predicates import Verdict
from ctxr.synthetic.world.scenes import Scene
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import contextual_description, true_statements
from ctxr.web.language import ENGLISH, PageLanguage
from ctxr.web.translations import read_languages


@dataclass(frozen=True)
class Profile:
    """How a simulated worker behaves.

    Attributes:
        care: probability that the text is compared with every image; else the pick is careless.
        place: probability that a careless pick is the first place shown; otherwise it is any image.
        writes: probability that a description is true of its target; else it says something empty.
    """

    name: str
    care: float
    place: float
    writes: float


CAREFUL = Profile("careful", care=0.97, place=0.0, writes=1.0)
HASTY = Profile("hasty", care=0.8, place=0.1, writes=0.9)
BIASED = Profile("position-biased", care=0.35, place=0.9, writes=0.8)
SPAMMER = Profile("spammer", care=0.0, place=0.0, writes=0.0)


def pick_chances(profile: Profile, verdicts: Mapping[str, Verdict], order: Sequence[str]) -> dict[str, float]:
    """Probability of each image being picked, by image id, where `verdicts` says whether the text is true of each, and `order` is as
    shown. With care one of the images for which it holds is picked, or of the undecidable ones, or of all.

    >>> spread = pick_chances(SPAMMER, {"a": True, "b": False}, ("b", "a"))
    >>> spread["a"], spread["b"]
    (0.5, 0.5)
    """
    holding = [image for image in order if verdicts.get(image) is True]
    meant = holding or [image for image in order if verdicts.get(image, None) is None] or list(order)
    careless = 1 - profile.care
    spread = dict.fromkeys(order, careless * (1 - profile.place) / len(order))
    spread[order[0]] += careless * profile.place
    for image in meant:
        spread[image] += profile.care / len(meant)
    return spread


@dataclass
class HtmlForm:
    """A form of a page: where it is sent, the values of its hidden fields, and the names of those that a person fills in."""

    action: str
    hidden: dict[str, str] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """What a simulated worker sees of a page.

    Attributes:
        address: of the page, after all redirects. pictures: addresses, in order, each once. marked: of the marked picture.
        quotes: texts to read. buttons: addresses of links that look like buttons.
    """

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.address, self.status = str(response.url), response.status_code
        self.forms: list[HtmlForm] = []
        self.pictures: list[str] = []
        self.marked: str | None = None
        self.quotes: list[str] = []
        self.buttons: list[str] = []
        self._in_form = self._in_mark = self._in_quote = False
        self.feed(response.text)
        self.close()

    def form(self, wanted: str) -> HtmlForm | None:
        """The form that asks for the field `wanted`."""
        return next((form for form in self.forms if wanted in form.fields), None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says; `HTMLParser` calls this."""
        attributes = {name: value or "" for name, value in attrs}
        classes, source = attributes.get("class", "").split(), attributes.get("src", "")
        if tag == "form":
            self._in_form = True
            self.forms.append(HtmlForm(attributes.get("action", "")))
        elif tag in ("figure", "label"):
            self._in_mark |= "marked" in classes
        elif tag == "img" and source:
            if source not in self.pictures:
                self.pictures.append(source)
            self.marked = source if self._in_mark else self.marked
        elif tag == "a" and "button" in classes:
            self.buttons.append(attributes.get("href", ""))
        elif tag == "p" and "quote" in classes:
            self._in_quote = True
            self.quotes.append("")
        elif tag in ("input", "textarea") and self._in_form:
            name = attributes.get("name", "")
            if attributes.get("type") == "hidden":
                self.forms[-1].hidden[name] = attributes.get("value", "")
            else:
                self.forms[-1].fields.append(name)

    def handle_endtag(self, tag: str) -> None:
        """Note what ends; `HTMLParser` calls this."""
        self._in_form &= tag != "form"
        self._in_mark &= tag not in ("figure", "label")
        self._in_quote &= tag != "p"

    def handle_data(self, data: str) -> None:
        """Add to a quote; `HTMLParser` calls this."""
        if self._in_quote:
            self.quotes[-1] += data


class Visitor(ABC):
    """One worker with a browser and cookies of their own; what they answer, `answer` says.

    Attributes:
        pictures: image id by SHA-256 of its bytes. language: that their browser asks for. transport: of their requests.
    """

    def __init__(
        self,
        name: str,
        link: str,
        pictures: Mapping[str, str],
        rng: np.random.Generator,
        *,
        language: PageLanguage = ENGLISH,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.name, self.language = name, language
        self._link, self._pictures, self._rng = link, pictures, rng
        self._page: Page | None = None
        base = urljoin(link, "/").removesuffix("/")
        # a server may close a connection that was kept just when it is used again; without any, there is nothing to close
        limits = httpx.Limits(max_keepalive_connections=0)
        headers = {"Origin": base, "Accept-Language": language.tag}
        settings: dict[str, Any] = {"headers": headers, "limits": limits, "transport": transport}
        self._client = httpx.Client(base_url=base, follow_redirects=True, timeout=60, **settings)

    def work(self) -> bool:
        """Do what the page asks; False when there is nothing more to do."""
        page = self._page
        if page is None:
            page = self._arrive(self._client.get(self._link))
            if invitation := next((form for form in page.forms if "/i/" in form.action), None):
                page = self._post(page, invitation, {})
        self._page = self.answer(page)
        if self._page is None:
            self._link = page.buttons[0] if page.buttons else "/next"
        return self._page is not None

    @abstractmethod
    def answer(self, page: Page) -> Page | None:
        """The page that comes after answering this one; None where it asks nothing."""

    def send(self, page: Page, field: str, values: list[str]) -> Page:
        """The page that comes after answering the `field` of this one. Raises CtxrError where it does not ask for it."""
        form = page.form(field)
        if form is None:
            raise CtxrError(f"{page.address} does not ask for {field}")
        return self._post(page, form, {field: values})

    def images(self, page: Page) -> dict[str, str]:
        """Image id by the address of each picture of the page, in the order shown."""
        images = {}
        for address in page.pictures:
            answer = self._client.get(address, follow_redirects=False).raise_for_status()
            images[address] = self._pictures[sha256_bytes(answer.content)]
        return images

    def _post(self, page: Page, form: HtmlForm, values: dict[str, list[str]]) -> Page:
        return self._arrive(self._client.post(urljoin(page.address, form.action), data=form.hidden | values))

    def _arrive(self, response: httpx.Response) -> Page:
        """The page that a response leads to, past consent and instructions."""
        page = Page(response)
        if (consent := page.form("agree")) is not None:
            return self._post(page, consent, {"agree": ["yes"]})
        return self._arrive(self._client.get(page.buttons[0])) if "/instructions/" in page.address else page


def image_ids(dataset: Dataset) -> dict[str, str]:
    """Image id by content, of all available images of a dataset."""
    files = {image.id: dataset.picture(image) for image in dataset.images.values()}
    return {sha256_file(file): name for name, file in files.items() if file is not None and file.is_file()}


def work_in_turns(people: Sequence[Visitor], report: Callable[[int], None]) -> int:
    """Workers act in turn until none has work twice in a row; returns the number of answers."""
    answers = idle = 0
    while idle < 2:
        busy = sum(person.work() for person in people)
        answers += busy
        idle = 0 if busy else idle + 1
        report(busy)
    return answers


_TRIES = 40
"""Attempts of a worker to write a new description that the page accepts."""


@dataclass(frozen=True)
class Wording:
    """A description that a simulated worker writes about `target`.

    Attributes:
        verdicts: whether it is true of each image of its set, by image id; None if undecidable.
    """

    text: str
    target: str
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class CastVote:
    """A vote that was cast: on which text, by whom, with which chances by image id, and what would have been right."""

    text: str
    worker: str
    spread: Mapping[str, float]
    target: str


EMPTY = (
    ("nice", "good", "clear", "pretty", "normal", "lovely", "simple", "great", "plain", "fine"),
    ("view", "scene", "look", "place", "moment", "composition", "impression", "atmosphere", "background", "mood"),
    ("colours", "shapes", "things", "objects", "details", "parts", "forms", "tones", "elements", "lines"),
)
"""Words of a spammer, whose texts are long enough to be taken and true of everything."""


@dataclass
class SimulatedTruth:
    """The ground truth of the simulation, hidden from the workers: the scenes behind the images of sets that were built from a world.

    Attributes:
        pictures: image id by SHA-256 of its bytes.
        written: every description by its text. casts: every vote on one of them.
    """

    world: World
    dataset: Dataset
    pictures: Mapping[str, str]
    written: dict[str, Wording] = field(default_factory=dict)
    casts: list[CastVote] = field(default_factory=list)

    def scene(self, image: str) -> Scene:
        """The scene that an image shows."""
        source, _, name = image.rpartition("/")
        index = self.dataset.images[image].index
        return self.world.photos[source, name].scene if index is None else self.world.scene(source, index)

    def asleep(self) -> set[str]:
        """The images on which somebody asleep is clearly to be seen."""
        clear = {image: SceneView(self.scene(image)).clear for image in self.dataset.images}
        return {image for image, actors in clear.items() if any(actor.face == "sleeping" for actor in actors)}

    def describe(self, image_set: ImageSet, target: str, truly: bool, rng: np.random.Generator) -> Wording:
        """A text about `target`: one that picks it out, where one is found, else a true one; or, not `truly`, an empty one."""
        if not truly:
            quality, other = rng.choice(EMPTY[0], 2, replace=False)
            thing, part = rng.choice(EMPTY[1]), rng.choice(EMPTY[2])
            text = f"A {quality} {thing} and some {other} {part} can be seen"
            return Wording(text, target, dict.fromkeys(image_set.images, None))
        scenes = [self.scene(image) for image in image_set.images]
        views = [SceneView(scene) for scene in scenes]
        position = image_set.images.index(target)
        description = contextual_description(scenes, position, rng, ordered=image_set.ordered)
        if description is not None:
            verdicts = [description.verdict(views, index) for index in range(len(views))]
            return Wording(description.text, target, dict(zip(image_set.images, verdicts, strict=True)))
        (statement, *_) = true_statements(scenes[position], rng, 1)
        return Wording(statement.text, target, dict(zip(image_set.images, map(statement.verdict, views), strict=True)))


class Person(Visitor):
    """One who describes pictures, and finds those that others have described."""

    def __init__(
        self,
        name: str,
        profile: Profile,
        link: str,
        truth: SimulatedTruth,
        rng: np.random.Generator,
        *,
        language: PageLanguage = ENGLISH,
    ) -> None:
        super().__init__(name, link, truth.pictures, rng, language=language)
        self.profile, self._truth = profile, truth

    def answer(self, page: Page) -> Page | None:
        """Find, or describe; whichever the page asks for."""
        if page.form(retrieve.FIELD) is not None:
            return self._find(page)
        if page.form(describe.FIELD) is None:
            return None
        images = self.images(page)
        target = images[page.marked or page.pictures[0]]
        image_set = next(row for row in self._truth.dataset.sets if set(row.images) == set(images.values()))
        for _ in range(_TRIES):
            truly = self._rng.random() < self.profile.writes
            wording = self._truth.describe(image_set, target, truly, self._rng)
            text = " ".join(wording.text.split())
            if text in self._truth.written:
                continue  # a vote is known by its text, so no two descriptions may be the same
            self._truth.written[text] = wording
            page = self.send(page, describe.FIELD, [text])
            if page.status != 422:
                return page
        raise CtxrError(f"{self.name} could not word a description that {page.address} takes")

    def _find(self, page: Page) -> Page:
        images = self.images(page)
        keys = {image: address.rpartition("/")[2] for address, image in images.items()}
        text = " ".join(page.quotes[0].split()) if page.quotes else ""
        order = tuple(images.values())
        wording = self._truth.written.get(text)
        verdicts = wording.verdicts if wording else {}
        attention = attention_index(text, self.language)
        if attention is not None:
            verdicts = {image: position == attention for position, image in enumerate(order)}
        spread = pick_chances(self.profile, verdicts, order)
        picked = str(self._rng.choice(list(spread), p=list(spread.values())))
        if wording:
            self._truth.casts.append(CastVote(text, self.name, spread, wording.target))
        return self.send(page, retrieve.FIELD, [keys[picked]])


class Reviewer(Visitor):
    """One who rejects images of a set before others see them, or the whole set where all are to be rejected.

    Args:
        unfit: ids of the images to be rejected.
    """

    def __init__(self, link: str, pictures: Mapping[str, str], unfit: Collection[str]) -> None:
        super().__init__("reviewer", link, pictures, np.random.default_rng(0))
        self._unfit = unfit

    def answer(self, page: Page) -> Page | None:
        """Decide about a set; None where no set is open any more."""
        if (form := page.form("image")) is None:
            return None
        marked = [at.rpartition("/")[2] for at, image in self.images(page).items() if image in self._unfit]
        whole = len(marked) == len(page.pictures)
        said = {"image": [] if whole else marked, "decision": ["reject" if whole else "keep"], "reason": ["faces"]}
        return self._post(page, form, said)


def review(workdir: Path, sets: Path, world: World) -> None:
    """Let a person reject, over HTTP, every image of somebody asleep. Raises CtxrError when the server cannot be started."""
    dataset = read_artifact(sets)
    truth = SimulatedTruth(world, dataset, image_ids(dataset))
    with served(workdir, 0, "--review", "--input", str(sets)) as opened:
        (link,) = opened.links.values()
        person = Reviewer(link, truth.pictures, truth.asleep())
        while person.work():
            pass


CONSENT = {
    "consent.md": "# About this rehearsal\n\nDrawn people describe drawn pictures. Nobody is paid. Questions: <demo@example.org>\n",
    "consent.ar.md": "# عن هذه التجربة\n\nأشخاص مرسومون يصفون صورًا مرسومة. لا يُدفع لأحد. للأسئلة: <demo@example.org>\n",
}
"""Information and consent of the rehearsal, in the languages that its people read, by file."""

CAST = ((CAREFUL, 10), (HASTY, 2), (BIASED, 2), (SPAMMER, 2))
ROUNDS = 1000
"""Draws of the simulation's own picks, among which its figures must lie."""

Range = tuple[float, float, float]


@dataclass(frozen=True)
class Rehearsal:
    """What the simulation knows of what it did.

    Attributes:
        answers: given. profiles: kind of each worker, by pseudonym.
        accuracy: share of right picks: the mean of draws from the workers' chances, and (low, high).
        alpha: nominal alpha on image ids, by kind of set, likewise. In 95 % of draws all these lie between low and high.
        clear: the set of each description, and whether it is true of its image and of no other.
    """

    answers: int
    profiles: Mapping[str, str]
    accuracy: Range
    alpha: Mapping[str, Range]
    clear: Mapping[str, tuple[str, bool]]


def rehearse(workdir: Path, sets: Path, world: World, seed: int, progress: Progress) -> Rehearsal:
    """Let a cast of workers do all exported tasks of a project over HTTP. Raises CtxrError when the server cannot be started."""
    rng = np.random.default_rng(seed)
    dataset = read_artifact(sets)
    truth = SimulatedTruth(world, dataset, image_ids(dataset))
    cast = [profile for profile, count in CAST for _ in range(count)]
    # pseudonyms decide who is dealt what: a key of the seed, which protects nobody here, makes every rehearsal the same
    key = read_key(workdir / CROWD / PRIVATE, sha256_bytes(str(seed).encode()))
    for name, text in CONSENT.items():
        write_bytes(workdir / "study" / name, text.encode())
    tags, spoken = ("en", "en", "ar"), read_languages(SHIPPED)
    with served(workdir, len(cast)) as opened:
        people = []
        for at, ((name, link), profile) in enumerate(zip(opened.links.items(), cast, strict=True)):
            own = np.random.default_rng(rng.integers(1 << 62))
            people.append(Person(name, profile, link, truth, own, language=spoken[tags[at % len(tags)]]))
        waiting = sum(opened.waiting.values())
        with progress.task("simulating answers", None) as task:
            task.say(f"{len(people)} workers, {waiting} units to describe")
            answers = work_in_turns(people, task.advance)
    profiles = {pseudonym(key, "local", f"team/{person.name}"): person.profile.name for person in people}
    sets_of = {image: image_set.id for image_set in dataset.sets for image in image_set.images}
    clear = {}
    for text in dict.fromkeys(row.text for row in truth.casts):
        wording = truth.written[text]
        meant = {image: image == wording.target for image in wording.verdicts}
        clear[text] = sets_of[wording.target], wording.verdicts == meant
    return Rehearsal(answers, profiles, *expected(truth, rng), clear)


class ServeInvitation(msgspec.Struct, frozen=True):
    """Of what `ctxr serve` says when it listens: links by name, and waiting units by task."""

    links: dict[str, str]
    waiting: dict[str, int]


@contextmanager
def served(workdir: Path, invite: int, *words: str) -> Iterator[ServeInvitation]:
    """`ctxr serve` with more `words` as a process, for a with-block. Raises CtxrError when it ends too early."""
    command = [sys.executable, "-m", "ctxr", "serve", "--workdir", str(workdir), "--port", "0"]
    command += ["--invite", str(invite), "--rate", "0", "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for
            output = ""
            for line in process.stdout:
                output += line
                if line.rstrip() == "}":
                    break
            try:
                opened = msgspec.json.decode(output, type=ServeInvitation)
            except msgspec.DecodeError as error:
                _, said = process.communicate()
                sentence = f"ctxr serve did not start: {(output + said).strip()[-500:]}"
                raise CtxrError(sentence, hint="ctxr serve   (says more)") from error
            yield opened
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


class ExpectedAgreement(NamedTuple):
    """Accuracy, and alpha by kind of set, as in `Rehearsal`."""

    accuracy: Range
    alpha: dict[str, Range]


def expected(truth: SimulatedTruth, rng: np.random.Generator) -> ExpectedAgreement:
    """The figures of as many votes, drawn again and again from the chances that the workers had.

    The votes on a description must not depend on each other: where voting stops with the second right one, alpha is higher.
    """
    kinds = {image: image_set.kind for image_set in truth.dataset.sets for image in image_set.images}
    hits = np.zeros(ROUNDS)
    alphas: dict[str, list[float]] = {}
    for kind in dict.fromkeys(kinds[cast.target] for cast in truth.casts):
        casts = [cast for cast in truth.casts if kinds[cast.target] == kind]
        texts, workers = [cast.text for cast in casts], [cast.worker for cast in casts]
        picks = np.array([rng.choice(list(cast.spread), ROUNDS, p=list(cast.spread.values())) for cast in casts])
        hits += (picks == np.array([[cast.target] for cast in casts])).sum(axis=0)
        values = [alpha(gather(texts, workers, drawn.tolist())).value for drawn in picks.T]
        alphas[kind] = [value for value in values if value is not None]
    tail = 0.025 / (1 + len(alphas))
    accuracy = _range((hits / max(1, len(truth.casts))).tolist(), tail)
    return ExpectedAgreement(
        accuracy, {kind: _range(values, tail) for kind, values in sorted(alphas.items()) if values}
    )


def _range(values: list[float], tail: float) -> Range:
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(np.mean(values)), float(low), float(high)
