"""Every kind of page for who cannot see it, or sees it otherwise: what axe finds, on a screen and a phone, light and dark, and from
right to left."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ctxr.annotation.study import StudyTexts, read_texts
from ctxr.annotation.tasks import NAMES
from ctxr.annotation.web.site import Invitation
from tests.annotation.test_study import CONSENT, EXIT, EXIT_AR, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import BASE, LANGUAGES, UNITS, Crowd
from tests.annotation.web.crowd import crowd as crowd_of
from tests.annotation.web.reviewed import Reviewed
from tests.annotation.web.serving import serving
from tests.annotation.web.test_app_browser import LOADING, MOVED, SCREENS, Screen, look
from tests.annotation.web.test_before import QUESTIONS, WORK
from tests.annotation.web.test_run import described
from tests.annotation.web.test_sign_in_prolific import entry, pays
from tests.annotation.web.test_work import GOOD

TABLE = "\n| what | kept for |\n| --- | ---: |\n| answers, with a pseudonym | as long as the benchmark |\n| names | a year |\n"
ARABIC = "# عن الدراسة\n\nتصف صورًا. للأسئلة: <ada@example.org>\n\n- نقطة\n- **نقطة** أخرى\n"
OPTIONAL = "document.querySelectorAll('[required]').forEach((one) => (one.required = false))"
LONG = "team/a-very-long-name-without-any-space-that-somebody-typed-in-here"


@dataclass
class Walk:
    """A browser on its way through pages; each `yield` of a way is a page to be looked at."""

    tab: Page
    make_crowd: MakeCrowd
    folder: Path
    address: str = ""

    @contextmanager
    def served(self, *units: Any, **settings: Any) -> Iterator[Crowd]:
        """A site, to which this browser has not come yet."""
        made = self.make_crowd(*units, **{"languages": LANGUAGES} | settings)
        with self.opened(made):
            yield made

    @contextmanager
    def opened(self, made: Any) -> Iterator[None]:
        with serving(made) as running:
            self.address = running.address
            yield

    def go(self, path: str) -> None:
        self.tab.goto(
            path.replace(BASE, "") if path.startswith("http://127") else self.address + path.replace(BASE, "")
        )
        self.tab.wait_for_load_state("load")

    def press(self, selector: str) -> None:
        """Follow a link or send a form, whatever its words."""
        with self.tab.expect_navigation():
            self.tab.locator(selector).first.click()

    def come(self, link: str) -> None:
        self.go(link)
        self.press("main button")

    def invited(self, made: Crowd, name: str = "ada") -> None:
        self.come(f"/i/{made.site.signer.sign(Invitation(name))}")


Way = Callable[[Walk], Iterator[None]]


def sign_in(walk: Walk) -> Iterator[None]:
    with walk.served(anybody=True):
        walk.go("/")
        yield
        walk.tab.evaluate(OPTIONAL)
        walk.press("main button")
        yield
        walk.tab.fill("#name", "Ada")
        walk.press("main button")
        yield
        walk.go("/")
        yield


def invitation(walk: Walk) -> Iterator[None]:
    with walk.served() as made:
        for path in ("/", f"/i/{made.site.signer.sign(Invitation('ada'))}", "/i/forged", "/w/forged"):
            walk.go(path)
            yield


def consent_in(folder: Path, more: str = "") -> StudyTexts:
    return read_texts(folder_of(folder, consent=CONSENT + TABLE + more, consent_ar=ARABIC + TABLE + more))


def consent(walk: Walk) -> Iterator[None]:
    texts = consent_in(walk.folder / "study")
    with walk.served(texts=texts) as made:
        walk.invited(made)
        yield
        walk.tab.evaluate(OPTIONAL)
        walk.press("main button")
        expect(walk.tab.locator(".problems")).to_be_visible()
        yield
        walk.press("main form:last-of-type button")
        yield


def leaving(walk: Walk) -> Iterator[None]:
    with walk.served(texts=consent_in(walk.folder / "study")) as made:
        walk.invited(made)
        walk.tab.locator("[name=agree]").check()
        walk.press("main button")
        walk.go("/consent")
        for _ in range(3):
            yield
            if walk.tab.locator("form[action$=withdraw] button").count():
                walk.press("form[action$=withdraw] button")


def changed(walk: Walk) -> Iterator[None]:
    with walk.served(texts=consent_in(walk.folder / "study")) as made:
        walk.invited(made)
        walk.tab.locator("[name=agree]").check()
        walk.press("main button")
    later = crowd_of(made.folder, texts=consent_in(walk.folder / "later", "\n\n!"), languages=LANGUAGES)
    with closing(later), walk.opened(later):
        walk.go("/next")
        expect(walk.tab.locator(".notice")).to_be_visible()
        yield
        walk.press("form[action$=refuse] button")
        yield


def at_the_end(walk: Walk) -> Iterator[None]:
    with walk.served(
        UNITS["entail"], texts=read_texts(folder_of(walk.folder / "study", exit=EXIT, exit_ar=EXIT_AR))
    ) as made:
        walk.invited(made)
        walk.press("main .button")
        walk.tab.locator("[name=verdict]").first.check()
        walk.press("#send")
        yield
        walk.tab.locator("textarea").fill("a\u202eb")
        walk.press("main .button")
        expect(walk.tab.locator(".problems")).to_be_visible()
        yield


def instructions(walk: Walk) -> Iterator[None]:
    with walk.served(texts=read_texts(None)) as made:
        walk.invited(made)
        for task in NAMES:
            if task not in ("repeat", "own"):  # which say themselves what they ask
                walk.go(f"/instructions/{task}")
                expect(walk.tab.locator("blockquote").first).to_be_visible()
                yield


def practice(walk: Walk) -> Iterator[None]:
    with walk.served(*QUESTIONS, *WORK, protocol={"qualification": 2, "qualification_pass": 0.5}) as made:
        walk.invited(made)
        for key, tile in (("1", ".wrong"), ("2", ".right")):
            expect(walk.tab.locator(".practice")).to_be_visible()
            yield
            walk.tab.keyboard.press(key)
            walk.press("#send")
            expect(walk.tab.locator(f".tile{tile}")).to_be_visible()
            yield
            walk.press("main a.button")


def work(walk: Walk, task: str) -> Iterator[None]:
    with walk.served(UNITS[task]) as made:
        walk.invited(made)
        walk.tab.wait_for_load_state("load")
        assert walk.tab.evaluate(MOVED) < 0.02
        yield
        walk.tab.locator(".report summary").click()
        yield
        walk.tab.locator(".report summary").click()
        walk.tab.evaluate("document.querySelectorAll('textarea,input').forEach((one) => (one.required = false))")
        walk.press("#send")
        expect(walk.tab.locator(".problems")).to_be_visible()
        yield
        if walk.tab.locator("a.zoom:visible").count():
            walk.tab.locator("a.zoom:visible").first.click()
            expect(walk.tab.locator("#near")).to_be_visible()
            yield
            walk.tab.keyboard.press("Escape")
        if task == "describe":
            walk.tab.locator("label.all").click()
            expect(walk.tab.locator(".big:visible")).to_have_count(10)
            yield


def dialogue(walk: Walk) -> Iterator[None]:
    with walk.served(UNITS["dialogue"]) as made:
        walk.invited(made)
        assert walk.tab.evaluate(MOVED) < 0.02
        yield
        partner, page = made.opened("ben")
        for number in range(5):
            assert page.form("/say").send(partner, text=f"message {number}").status_code == 200
        expect(walk.tab.locator("#turns li")).to_have_count(5)
        yield
        walk.tab.click("#share-button")
        expect(walk.tab.locator("#turns li")).to_have_count(6)
        yield


def answers(walk: Walk) -> Iterator[None]:
    with walk.served(UNITS["describe"]) as made:
        walk.invited(made)
        walk.go("/answers")
        yield
        walk.go("/next")
        walk.tab.fill("#f-description", GOOD)
        walk.press("#send")
        walk.go("/answers")
        yield
        walk.press(".given .quiet-button")
        yield
        walk.tab.fill("#f-description", "the cat on the next image")
        expect(walk.tab.locator(".problems li")).to_have_count(1)
        yield
        walk.tab.fill("#f-description", "A red bicycle leans on the wall beside the door.")
        walk.press("#send")
        expect(walk.tab.locator("[role=status]")).to_be_visible()
        yield


def message(walk: Walk) -> Iterator[None]:
    with walk.served(UNITS["describe"], UNITS["entail"]) as made:
        walk.invited(made)
        for text in ("Please take your time. " * 10, "خذ وقتك من فضلك."):
            made.site.journal.tell(made.worker("ada"), text, "requester", made.site.now())
        walk.go("/next")
        expect(walk.tab.locator(".letter")).to_be_visible()
        yield
        walk.press("form[action$='/stop'] button")
        yield
        made.site.journal.pause(True, made.site.now())
        walk.go("/next?more=1")
        expect(walk.tab.locator("[data-again]")).to_be_visible()
        yield


def completion(walk: Walk) -> Iterator[None]:
    with walk.served(UNITS["describe"], studies={"pilot": pays(bundle=1, tasks=("describe",))}) as made:
        walk.go(entry())
        walk.tab.fill("#f-description", GOOD)
        walk.press("#send")
        expect(walk.tab.locator(".code code")).to_have_text("C1DONE")
        yield
        walk.go(entry(visit="b").replace("/pilot", "/other"))
        yield
        walk.go(entry().replace("PROLIFIC_PID", "X"))
        yield
        assert made.visits()


def ends(walk: Walk) -> Iterator[None]:
    with walk.served(UNITS["describe"], bundle=1) as made:
        walk.invited(made)
        held = walk.tab.url
        made.clock.pass_by(31)
        other, page = made.opened("ben")
        walk.tab.fill("#f-description", GOOD)
        walk.press("#send")  # too late: what was written is shown again
        expect(walk.tab.locator("textarea[readonly]")).to_have_value(GOOD)
        yield
        page.form("/stop").send(other)
        walk.go("/next")
        walk.tab.fill("#f-description", GOOD)
        walk.press("#send")
        yield
        walk.press("main a.button")
        yield
        walk.tab.goto(held)
        walk.go("/nowhere")
        yield


def running(walk: Walk) -> Iterator[None]:
    made = described(walk.make_crowd, name=LONG)
    made.site.journal.pause(True, made.site.now())
    made.site.journal.change(made.worker(LONG), "blocked", "x" * 200, "me", made.site.now())
    with walk.opened(made):
        walk.come(made.site.run_link)
        walk.tab.wait_for_url("**/run")
        yield
        walk.press(".people a")
        yield
        walk.tab.fill("#reason", "\u202eabc")
        walk.press("button[name=do]")
        yield
        walk.tab.context.clear_cookies()
        walk.go("/run")
        yield


def review(walk: Walk) -> Iterator[None]:
    made = Reviewed(walk.folder, {"clip/img3": 0.87})
    with walk.opened(made):
        walk.come(made.path())
        yield
        walk.tab.keyboard.press("3")
        walk.tab.keyboard.press("?")
        expect(walk.tab.locator("#keys")).to_be_visible()
        yield
        walk.tab.keyboard.press("Escape")
        with walk.tab.expect_navigation():
            walk.tab.keyboard.press("Shift+K")
        yield


TASKS = ("describe", "retrieve", "tag", "entail", "review", "own")
TRANSLATED: dict[str, Way] = {
    "sign in": sign_in,
    "invitation": invitation,
    "consent": consent,
    "changed consent": changed,
    "withdrawal": leaving,
    "exit": at_the_end,
    "instructions": instructions,
    "practice": practice,
    "dialogue": dialogue,
    "answers": answers,
    "message": message,
    "completion": completion,
    "ends": ends,
    **{f"work: {task}": partial(work, task=task) for task in TASKS},
}
ENGLISH: dict[str, Way] = {"run": running, "sets": review}
"""Ways through the pages of those who run a study, and of those who review sets, which are in English for all."""

ALONE = (
    "work: retrieve",
    "work: tag",
    "work: entail",
    "work: review",
    "work: describe",
    "work: own",
    "dialogue",
    "exit",
)
"""Ways that see one page in several states; the others see several pages."""

WAYS = [(language, way) for way in TRANSLATED for language in ("en", "ar")] + [("en", way) for way in ENGLISH]
QUICK = [(language, way) for at, (language, way) in enumerate(WAYS) if at % 4 in (0, 3) or way in ENGLISH]
"""Each way once, in English or in Arabic: in English on a dark screen, in Arabic on a light phone."""


@pytest.mark.parametrize(
    ("language", "way", "screens"),
    [
        *((language, way, SCREENS[:1] if language == "ar" else SCREENS[2:3]) for language, way in QUICK),
        *(pytest.param(language, way, SCREENS, marks=pytest.mark.prove) for language, way in WAYS),
    ],
)
def test_a_page_has_no_fault_that_axe_finds_and_no_side_scrolls(
    make_crowd: MakeCrowd, headless: Browser, tmp_path: Path, language: str, way: str, screens: Sequence[Screen]
) -> None:
    context = headless.new_context(locale=language, reduced_motion="reduce", viewport={"width": 1280, "height": 800})
    complaints, heads = list[str](), set[str | None]()
    tab = context.new_page()
    tab.on("console", lambda one: None if one.text.startswith(LOADING) else complaints.append(one.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    for _ in (TRANSLATED | ENGLISH)[way](Walk(tab, make_crowd, tmp_path)):
        direction = "rtl" if language == "ar" else "ltr"
        assert tab.evaluate("[document.documentElement.lang, document.dir]") == [language, direction]
        look(tab, screens)
        for width in (360, 1280):
            tab.set_viewport_size({"width": width, "height": 800})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        heads.add(tab.locator("h1").first.text_content())
    context.close()
    assert complaints == []
    assert len(heads) >= (1 if way in ALONE else 2)
