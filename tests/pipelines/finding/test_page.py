"""The page's server: what it answers, who may enter, what is refused, and the narratives that it keeps."""

import re
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image as Pillow
from starlette.testclient import TestClient

from ctxr.datasets.open import read_dataset
from ctxr.pipelines.finding.narratives import COLLECTED, CONSENTS
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from ctxr.store.records import TimedWord, Trace
from tests.pipelines.finding.searched import COUNT, PaintedFinder, visitor

WORDS: list[Any] = [["a", 0.25, 1.5], ["dög", 0.75, 1.5], ["7", 2.0, 3.125]]
STROKES = [[[0.1, 0.2, 1.0], [0.3, 0.25, 1.5]], [[0.5, 0.5, 2.5]]]
QUERY = {"words": WORDS, "strokes": STROKES}
JSON, BYTES = {"content-type": "application/json"}, {"content-type": "application/octet-stream"}


@pytest.fixture
def finder(tmp_path: Path) -> PaintedFinder:
    return PaintedFinder(tmp_path / "photos")


@pytest.fixture
def page(finder: PaintedFinder) -> TestClient:
    return visitor(finder, "", finder.folder.parent / "kept")


def agreed(page: TestClient, *annotators: int) -> TestClient:
    for annotator in annotators or (712,):
        assert page.post("/consent", json={"annotator": annotator}).status_code == 200
    return page


def told(place: int = 3, annotator: int = 712, caption: str = "a dög 7", **more: Any) -> dict[str, Any]:
    return QUERY | {"place": place, "annotator": annotator, "caption": caption} | more


def test_words_and_strokes_reach_the_finder_with_their_times(finder: PaintedFinder, page: TestClient) -> None:
    found = page.post("/find", json=QUERY).json()
    assert [one["place"] for one in found["results"]] == [7, 8, *range(7)]
    assert (found["results"][0]["box"], found["fits"], found["gone"]) == ([0.25, 0.5, 0.5, 1.0], True, 0)
    assert [list(word) for word in finder.heard[0].words] == WORDS
    assert [[list(point) for point in stroke] for stroke in finder.heard[0].strokes] == STROKES


def test_pictures_are_sent_and_ask_for_others_as_one_that_is_dropped_does(
    finder: PaintedFinder, page: TestClient
) -> None:
    small, whole, bitmap = (page.get(f"/picture/{way}") for way in ("0", "0/whole", f"{COUNT - 1}/whole"))
    assert {one.headers["content-type"] for one in (small, whole, bitmap)} == {"image/jpeg"}
    assert whole.content == (finder.folder / "p0.jpg").read_bytes()
    assert Pillow.open(BytesIO(bitmap.content)).format == "JPEG"
    assert page.post("/alike/2", json={}).json()["results"][0]["place"] == 3
    assert page.post("/alike", content=(finder.folder / "p4.jpg").read_bytes(), headers=BYTES).status_code == 200
    assert np.shape(finder.liked[1]) == (70, 60, 3)


def test_a_picture_that_is_gone_is_said_to_be(finder: PaintedFinder, page: TestClient, tmp_path: Path) -> None:
    (finder.folder / "p3.jpg").unlink()
    paths = ("3", "3/whole", str(COUNT), "x", "..%2f..%2fetc%2fpasswd")
    missing = [page.get(f"/picture/{path}") for path in paths] + [page.post("/describe", json=told())]
    assert {one.status_code for one in missing} == {404}
    assert page.post("/find", json=QUERY).json()["gone"] == 1
    assert not (tmp_path / "kept" / COLLECTED).exists()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/find", b"", 422), ("/find", b"[]", 422), ("/find", b"\xff", 422), ("/find", b'{"words":[["\xff",0,1]]}', 422),
        ("/find", b'{"words":[["a",NaN,1]]}', 422), ("/find", b'{"words":[["a",0,1e999]]}', 422),
        ("/find", b'{"strokes":[[[1.5,0,0]]]}', 422), ("/find", b'{"strokes":[[]]}', 422),
        ("/find", b'{"x":' + b"[" * 90_000, 422), ("/find", b'{"strokes":[' + b"[[0,0,0]]," * 9999 + b"[[0,0,0]]]}", 422),
        ("/find", b'{"words":[' + b'["a",0,1],' * 999 + b'["a",0,1]]}', 422), ("/find", b" " * 300_000, 413),
        ("/alike", b"", 422), ("/alike", b"\xff\xd8\xff" + b"0" * 99, 422), ("/alike", b"0" * (26 << 20), 413),
    ],
)  # fmt: skip
def test_what_is_no_query_is_refused_in_a_sentence(finder: PaintedFinder, path: str, body: bytes, status: int) -> None:
    answer = visitor(finder).post(path, content=body, headers=JSON if path == "/find" else BYTES)
    assert (answer.status_code, len(answer.json()["problems"])) == (status, 1)
    assert (finder.heard, finder.liked) == ([], [])


def test_another_name_of_this_machine_reads_nothing(page: TestClient) -> None:
    for host in ("evil.example", "evil.example:8322", "127.0.0.1.evil.example", "localhost@evil.example", ""):
        for path in ("/", "/picture/0", "/picture/0/whole"):
            assert page.get(path, headers={"host": host}).status_code == 403
        assert page.post("/find", json=QUERY, headers={"host": host}).status_code == 403
    for host in ("localhost:8322", "127.0.0.1", "[::1]:9"):
        assert page.get("/", headers={"host": host}).status_code == 200


def test_others_enter_with_the_token_alone_and_keep_it_in_a_cookie(finder: PaintedFinder) -> None:
    page = visitor(finder, "sesame", address="http://192.168.0.7:8322")
    for wrong in ("/", "/?token=", "/?token=open", "/picture/0?token=x", "/static/x/search.css?token=x", "/describe"):
        answer = page.get(wrong)
        assert (answer.status_code, "set-cookie" in answer.headers) == (200 if "static" in wrong else 403, False)
    first = page.get("/?token=sesame")
    assert (first.status_code, first.headers["refresh"]) == (200, "0; url=/")
    assert re.search("HttpOnly.*SameSite=strict", first.headers["set-cookie"])
    assert [page.get(path).status_code for path in ("/", "/picture/0")] == [200, 200]
    assert page.post("/find", json=QUERY).status_code == 200


def test_a_post_of_another_site_is_refused(finder: PaintedFinder, page: TestClient) -> None:
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"content-type": "text/plain"}):
        for path in ("/find", "/alike", "/alike/1", "/describe"):
            assert page.post(path, content=b"{}", headers=JSON | headers).status_code == 403
    assert (finder.heard, finder.liked) == ([], [])


def test_the_microphone_is_allowed_where_dictation_was_turned_on_and_nowhere_else(page: TestClient) -> None:
    allowed = ("/?dictate=1", "/describe?dictate=1")
    for path in ("/", "/describe", "/picture/0?dictate=1", *allowed):
        answer = page.get(path)
        assert ("microphone=(self)" in answer.headers["permissions-policy"]) == (path in allowed)
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|<style|\son\w+=", answer.text)


def test_narratives_are_read_back_as_they_were_told(page: TestClient, tmp_path: Path) -> None:
    assert page.post("/describe", json=told()).status_code == 403
    agreed(page, 712, 5)
    for sent in (told(), told(), told(place=4), told(annotator=5)):
        assert page.post("/describe", json=sent).status_code == 200
    dataset = read_dataset(tmp_path / "kept")
    traces = cast("tuple[Trace, ...]", dataset.payloads["traces"])
    assert (len(traces), len(dataset.images)) == (3, 2)  # the same once
    for trace in traces:
        assert trace.words == tuple(TimedWord(*word) for word in WORDS)
        assert [list(one) for one in trace.strokes] == [np.array(one, np.float32).ravel().tolist() for one in STROKES]
    assert {text.text for text in dataset.texts.values()} == {"a dög 7"}


def test_two_servers_add_at_once_and_half_a_line_is_dropped(
    finder: PaintedFinder, page: TestClient, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    pages = [agreed(page), visitor(finder, "", folder)]
    assert page.post("/describe", json=told()).status_code == 200
    content = (folder / COLLECTED).read_bytes()
    (folder / COLLECTED).write_bytes(content.rstrip(b"\n"))
    assert page.post("/describe", json=told(place=4)).status_code == 200
    with (folder / COLLECTED).open("ab") as file:
        file.write(b'{"dataset_id":"holi')
    with ThreadPoolExecutor(8) as pool:
        sent = [(number % 2, told(number % COUNT, caption=f"{number // 2} dogs")) for number in range(40)]
        assert set(pool.map(lambda one: pages[one[0]].post("/describe", json=one[1]).status_code, sent)) == {200}
    assert len(read_dataset(folder).payloads["traces"]) == 42


def test_what_is_no_narrative_is_refused(page: TestClient, tmp_path: Path) -> None:
    wrong: list[Any] = [
        {"caption": " "},
        {"words": []},
        {"strokes": []},
        {"words": [["a", 2, 1]]},
        {"words": [["a", -2e6, 1]]},
        {"strokes": [[[0.1, 0.2, 1e6]]]},
    ]
    agreed(page)
    for more in wrong:
        answer = page.post("/describe", json=told(**more))
        assert (answer.status_code, len(answer.json()["problems"])) == (422, 1)
    assert {one.name for one in (tmp_path / "kept").iterdir()} == {CONSENTS}


def test_what_is_about_another_index_or_no_picture_is_refused(finder: PaintedFinder, page: TestClient) -> None:
    assert [page.get(f"/picture/0?index={index}").status_code for index in (finder.version, "earlier")] == [200, 409]
    assert page.post("/find", json=QUERY, headers={"x-ctxr-index": "earlier"}).status_code == 409
    agreed(page)
    for place in (-1, COUNT, 10**30):
        assert page.post("/describe", json=told(place)).status_code in (404, 422)


def test_models_learn_from_what_visitors_told(finder: PaintedFinder, page: TestClient, tmp_path: Path) -> None:
    agreed(page)
    for place, caption in product(range(COUNT), ("a dög 7", "seven dogs")):
        assert page.post("/describe", json=told(place, caption=caption)).status_code == 200
    changes = ("encoder=ctxr-tiny", "epochs=1", "batch=8")
    options = Train("traces-patches", dataset=tmp_path / "kept", workdir=tmp_path, device="cpu", changes=changes)
    assert train(options).queries["train"] > 2


def test_nobody_is_asked_to_describe_without_collect(finder: PaintedFinder, page: TestClient) -> None:
    assert "/describe" in page.get("/").text
    page = visitor(finder)
    assert "/describe" not in page.get("/").text
    assert [page.get("/describe").status_code, page.post("/describe", json=told()).status_code] == [404, 404]
