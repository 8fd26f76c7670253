"""Files of translations, and which language a visitor gets; what browsers send is not believed."""

import gettext
from pathlib import Path

import pytest
from babel import Locale
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from ctxr.errors import DataError, UsageError
from ctxr.web.language import ENGLISH, OTHERS, SPOKEN, PageLanguage, _, ngettext, number
from ctxr.web.translations import COOKIE, Speaking, read_languages

HEAD = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'


def languages(*tags: str) -> list[PageLanguage]:
    return [PageLanguage(Locale.parse(tag, sep="-"), gettext.NullTranslations()) for tag in tags]


def visitor(*tags: str, https: bool = False) -> TestClient:
    def tell(request: Request) -> Response:
        return PlainTextResponse(" ".join(one.tag for one in (SPOKEN.get(), *OTHERS.get())))

    app = Starlette(routes=[Route("/", tell, methods=["GET", "POST"])])
    return TestClient(Speaking(app, languages(*tags), "/study", https))


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("", "en"),
        ("ar", "ar"),
        ("AR-eg, en;q=0.9", "ar"),
        ("en;q=0.5, ar;q=0.8", "ar"),
        ("fr, de;q=0.9", "en"),
        ("fr, pt;q=0.9", "pt-BR"),
        ("pt-PT", "pt-BR"),
        ("ar;q=0, pt-BR;q=0.1", "pt-BR"),
        ("*", "en"),
        ("ar;q=2, pt", "pt-BR"),
        ("../../etc/passwd, ar\x0b, \xff\xfe", "ar"),
        ("a" * 60_000, "en"),
        (",;q=,;;q=0.1.1,ar", "ar"),
        ("x" * 600 + ",ar", "en"),
    ],
)
def test_a_browser_gets_the_language_that_it_wants_most_of_those_there_are(header: str, told: str) -> None:
    page = visitor("en", "ar", "pt-BR").get("/", headers=[(b"accept-language", header.encode("latin-1"))])
    assert page.text.split()[0] == told
    assert set(page.text.split()) == {"en", "ar", "pt-BR"}
    assert "set-cookie" not in page.headers


def test_a_chosen_language_is_kept_against_that_of_the_browser_and_on_post_there_is_no_choice() -> None:
    asking = visitor("en", "ar", https=True)
    chosen = asking.get("/?lang=AR", headers={"accept-language": "en"})
    assert chosen.text == "ar en"
    assert chosen.headers["set-cookie"].startswith(f"{COOKIE}=ar; ")
    assert chosen.headers["set-cookie"].endswith("; Path=/study; HttpOnly; SameSite=lax; Secure")
    kept = {"accept-language": "en", "cookie": f"{COOKIE}=ar"}
    assert asking.get("/", headers=kept).text == "ar en"
    assert asking.post("/", headers=kept).text == "ar"
    assert asking.get("/?lang=en", headers=kept).text == "en ar"


@pytest.mark.parametrize(
    "sent", ["", "xx", "../ar", "ar\r\nset-cookie: a=b", "\x00", "a" * 5000, "ä", '"', "ar; path=/"]
)
def test_a_language_that_there_is_none_of_is_not_taken_and_not_sent_back(sent: str) -> None:
    asking = visitor("en", "ar")
    page = asking.get("/", params={"lang": sent})
    assert (page.text, "set-cookie" in page.headers) == ("en ar", False)
    cookie = f"{COOKIE}={sent}".replace("\r\n", " ").replace("\x00", "").encode("utf-8")
    assert asking.get("/", headers=[(b"cookie", cookie)]).text.split()[0] == ("ar" if sent.startswith("ar;") else "en")


def test_the_first_language_is_for_who_asks_for_none_of_them() -> None:
    assert visitor("ar", "pt-BR").get("/", headers={"accept-language": "en"}).text == "ar pt-BR"
    assert visitor("ar").get("/", headers={"accept-language": "en"}).text == "ar"


def test_a_later_file_adds_a_language_or_replaces_single_texts(tmp_path: Path) -> None:
    ours, own = tmp_path / "ours", tmp_path / "own"
    ours.mkdir()
    own.mkdir()
    (ours / "de.po").write_text(HEAD + 'msgid "Send"\nmsgstr "Senden"\n\nmsgid "Start"\nmsgstr "Los"\n')
    (own / "de.po").write_text(HEAD + 'msgid "Start"\nmsgstr "Beginnen"\n')
    (own / "pt_BR.po").write_text(HEAD + 'msgid "Send"\nmsgstr "Enviar"\n')
    (own / "en.po").write_text(HEAD + 'msgid "Start"\nmsgstr "Begin"\n')
    found = read_languages(ours, own, tmp_path / "not there")
    assert list(found) == ["en", "de", "pt-BR"]
    said = {}
    for tag, language in found.items():
        before = SPOKEN.set(language)
        said[tag] = (_("Send"), _("Start"), _("Leave"), _(""), number(1234.5))
        SPOKEN.reset(before)
    assert said == {
        "en": ("Send", "Begin", "Leave", "", "1,234.5"),
        "de": ("Senden", "Beginnen", "Leave", "", "1.234,5"),
        "pt-BR": ("Enviar", "Start", "Leave", "", "1.234,5"),
    }


@pytest.mark.parametrize(
    ("tag", "written"),
    [("ar", "1,234.5"), ("ar_EG", "١٬٢٣٤٫٥"), ("fa", "۱٬۲۳۴٫۵"), ("hi", "1,234.5"), ("mr", "१,२३४.५")],
)
def test_numbers_are_written_in_the_digits_of_their_language(tag: str, written: str) -> None:
    before = SPOKEN.set(PageLanguage(Locale.parse(tag), gettext.NullTranslations()))
    found = number(1234.5)
    SPOKEN.reset(before)
    assert found == written


def test_numbers_take_the_plural_of_their_language(tmp_path: Path) -> None:
    forms = "".join(
        f'msgstr[{place}] "{text}"\n'
        for place, text in enumerate(("{count} strona", "{count} strony", "{count} stron"))
    )
    rule = '"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);\\n"\n'
    (tmp_path / "pl.po").write_text(f'{HEAD}{rule}\nmsgid "{{count}} page"\nmsgid_plural "{{count}} pages"\n{forms}')
    before = SPOKEN.set(read_languages(tmp_path)["pl"])
    assert [ngettext("{count} page", "{count} pages", count) for count in (1, 3, 12)] == [
        "1 strona",
        "3 strony",
        "12 stron",
    ]
    SPOKEN.reset(before)
    assert [ngettext("{count} page", "{count} pages", count) for count in (1, 1200)] == ["1 page", "1,200 pages"]


@pytest.mark.parametrize("name", ["xx.po", "translations.po", "..po", "de_.po", "a" * 200 + ".po"])
def test_a_file_that_no_language_is_called_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HEAD)
    with pytest.raises(UsageError, match="code") as told:
        read_languages(tmp_path)
    assert name in told.value.message
    assert "ar.po" in told.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "de.po"),
        (b'\xff\xfe msgid "a"', "de.po"),
        ((HEAD + 'msgid "{count} of it"\nmsgstr "{number}"\n').encode(), "{number}"),
        ((HEAD + 'msgid "{count} of it"\nmsgstr "{}"\n').encode(), "of it"),
        ((HEAD + 'msgid "{count} of it"\nmsgstr "{count.__class__}"\n').encode(), "{count.__class__}"),
        ((HEAD + 'msgid "{count} of it"\nmsgstr "{count:>99999999}"\n').encode(), "of it"),
        ((HEAD + 'msgid "{count} of it"\nmsgstr "{count"\n').encode(), "expected '}'"),
        ((HEAD[:-1] + '\n"Plural-Forms: nplurals=2; plural=import os;\\n"\n').encode(), "de.po"),
        ((HEAD.replace("utf-8", "no-such")).encode(), "de.po"),
    ],
)
def test_a_broken_file_of_translations_is_told_in_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "de.po").write_bytes(content)
    with pytest.raises(DataError) as told:
        read_languages(tmp_path)
    assert message in told.value.message
    assert "\n" not in told.value.message
    assert told.value.hint


def test_texts_are_english_where_nobody_says_otherwise() -> None:
    assert (SPOKEN.get(), _("Send"), number(20_000)) == (ENGLISH, "Send", "20,000")
