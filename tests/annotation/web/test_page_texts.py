"""The texts of the pages in another language: each of them has a translation, and each page is in it."""

import ast
import re
from pathlib import Path

import msgspec
import pytest
from babel.messages.pofile import read_po

import ctxr
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import AnswerLimits
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import attention_unit
from ctxr.annotation.web.site import SHIPPED, Invitation, LeaseLink
from ctxr.annotation.wording import wording_problems
from ctxr.errors import UsageError
from ctxr.web.language import SPOKEN
from scripts.page_texts import KEYWORDS, main, marked_texts
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import LANGUAGES, SET, UNITS
from tests.annotation.web.reading import HtmlReader, read

ARABIC = next(one for one in LANGUAGES if one.tag == "ar")
LETTERS = re.compile("[\u0621-\u064a]")


def forms(text: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text or ())


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.po")), ids=lambda file: file.name)
def test_each_text_of_the_pages_has_a_translation_with_its_placeholders(file: Path) -> None:
    with file.open("rb") as content:
        translated = {one.id: one for one in read_po(content) if one.id}
    texts = {one.id for one in marked_texts() if one.id}
    assert len(texts) > 200
    assert texts - translated.keys() == set(), f"python -m scripts.page_texts {file}, then translate what is empty"
    assert translated.keys() - texts == set(), f"python -m scripts.page_texts {file}"
    for text in texts:
        wanted = set(re.findall(r"\{\w+\}", " ".join(forms(text))))
        given = forms(translated[text].string or "")
        assert all(given), text
        assert not translated[text].fuzzy, text
        assert set(re.findall(r"\{\w*\}", " ".join(given))) == wanted, text
        assert len(given) == (1 if isinstance(text, str) else 6), text


def test_a_file_of_translations_that_is_brought_up_to_date_stays_as_it_is(tmp_path: Path) -> None:
    copy = tmp_path / "ar.po"
    copy.write_bytes((SHIPPED / "ar.po").read_bytes())
    main(copy)
    assert copy.read_bytes() == (SHIPPED / "ar.po").read_bytes()
    main(tmp_path / "fr.po")
    with (tmp_path / "fr.po").open("rb") as content:
        made = read_po(content, locale="fr")
    assert {one.id for one in made if one.id} == {one.id for one in marked_texts() if one.id}


def test_each_text_that_the_code_marks_is_found_by_translators() -> None:
    found = {text for one in marked_texts() for text in forms(one.id)}
    for file in Path(ctxr.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if "ctxr.web.language" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) in KEYWORDS:
                for word in call.args:
                    assert not isinstance(word, ast.JoinedStr), f"{file}: {ast.unparse(call)}"
                    assert not isinstance(word, ast.Constant) or word.value in found, f"{file}: {ast.unparse(call)}"


@pytest.mark.parametrize("task", ["describe", "retrieve", "dialogue", "review", "tag", "entail"])
def test_a_page_of_work_has_no_english_but_what_people_wrote(make_crowd: MakeCrowd, task: str) -> None:
    crowd = make_crowd(UNITS[task], languages=LANGUAGES)
    visitor = crowd.invited("ada")
    page = visitor.get("/next", headers={"accept-language": "ar"})
    assert '<html lang="ar" dir="rtl">' in page.text
    unit, form = UNITS[task], task_of(UNITS[task]).render(UNITS[task], UNITS[task].images)
    shown = re.sub(r"<kbd>\w+</kbd>", "", page.text)
    labels = re.findall(r'(?:aria-label|alt|placeholder|data-name)="([^"]+)"', shown)
    written = r'(?s)<p class="quote".*?</p>|<span class="said".*?</span>'
    said = HtmlReader(re.sub(written, "", shown)).text
    assert re.findall("[A-Za-z]{2,}", said.replace("ctxr", "")) == []
    assert labels
    assert [label for label in labels if re.search("[A-Za-z]", label)] == []
    assert form.title not in page.text
    assert all(text in page.text.replace("&#39;", "'") for text in unit.texts)


def test_pages_of_what_goes_wrong_are_in_the_language_of_who_asks(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], languages=LANGUAGES, anybody=True, rate=0.1, studies={"pilot": ""})
    visitor = crowd.visitor(**{"accept-language": "ar"})
    link = crowd.site.signer.sign(LeaseLink("none", "nobody"))
    pages = [visitor.get(path) for path in ("/nowhere", f"/w/{link}", "/w/x", "/i/x", "/p/other", "/p/pilot", "/")]
    pages += [visitor.post("/enter", data={"name": "ada"}) for _ in range(9)]
    assert {page.status_code for page in pages} >= {400, 403, 404, 429}
    for page in pages:
        assert '<html lang="ar" dir="rtl">' in page.text
        assert LETTERS.search(read(page).headline)


def test_a_script_is_told_what_is_wrong_in_the_language_of_its_page(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], languages=LANGUAGES)
    visitor, page = crowd.opened()
    link = page.form().action.rsplit("/", 1)[1]
    sent = page.form().fields | {"link": [link], "description": ["a dog"]}
    (told,) = visitor.post("/check", data=sent, headers={"cookie": "ctxr-language=ar"}).json()["problems"]
    assert LETTERS.search(told)
    (told,) = visitor.post("/check", data=sent).json()["problems"]
    assert "2 words" in told
    refused = page.form().send(visitor, description="dog")
    assert "1 word." in read(refused).problems[0]


def test_a_first_page_offers_the_other_languages_and_a_page_of_work_does_not(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], languages=LANGUAGES, anybody=True)
    visitor = crowd.visitor()
    for path in ("/", f"/i/{crowd.site.signer.sign(Invitation('ada'))}"):
        first = visitor.get(path)
        assert "?lang=ar" in read(first).links
        second = visitor.get(path + "?lang=ar")
        assert '<html lang="ar" dir="rtl">' in second.text
        assert "?lang=en" in read(second).links
        visitor.get("/?lang=en")
    form = read(visitor.get(path)).form()
    form.send(visitor)
    assert "?lang=" not in visitor.get("/next").text
    alone = make_crowd(UNITS["describe"], anybody=True).visitor()
    assert "?lang=" not in alone.get("/").text


def test_the_language_of_descriptions_is_asked_for_and_only_english_has_rules_about_english_words(
    make_crowd: MakeCrowd,
) -> None:
    text = "the dog is larger than in the other images"
    assert [one.code for one in wording_problems(text)] == ["mentions_other_images"]
    assert [one.code for one in wording_problems(text, limits=AnswerLimits(language="en-GB"))] == [
        "mentions_other_images"
    ]
    assert wording_problems(text, limits=AnswerLimits(language="nl")) == []
    short = wording_problems("كلب", limits=AnswerLimits(language="ar"))
    assert [one.code for one in short] == ["too_short"]
    unit = msgspec.structs.replace(UNITS["describe"], limits=AnswerLimits(language="ar"))
    note = task_of(unit).render(unit, unit.images).fields[0].note  # type: ignore[union-attr]
    assert note.endswith("Arabic.")
    crowd = make_crowd(unit, languages=LANGUAGES, language="ar")
    visitor, _ = crowd.opened()
    shown = visitor.get("/next").text
    assert re.search(r'<textarea id="f-description"[^>]* lang="ar"', shown)
    assert not re.search(r'<textarea id="f-reason"[^>]* lang=', shown)


@pytest.mark.parametrize("language", ["", "xx", "../ar", "english"])
def test_a_study_in_no_language_is_refused(language: str) -> None:
    with pytest.raises(UsageError, match="language = ") as told:
        Protocol(language=language).check()
    assert "pt-BR" in told.value.hint


def test_an_attention_check_is_read_in_the_language_of_the_page_and_stored_in_english() -> None:
    unit = attention_unit(SET, Protocol(seed=3))
    before = SPOKEN.set(ARABIC)
    shown = task_of(unit).render(unit, unit.images).passages[0].lines[0].text
    problems = task_of(unit).validate(unit, {}, Exposure())
    SPOKEN.reset(before)
    assert LETTERS.search(shown)
    assert LETTERS.search(problems[0].sentence)
    assert task_of(unit).render(unit, unit.images).passages[0].lines[0].text == unit.texts[0]
    assert not LETTERS.search(unit.texts[0])
