"""What pages of work count: pastes, and how often and how long somebody left; people are told, and what is sent is hostile."""

from pathlib import Path

import pytest

from ctxr.annotation.journal.results import PageUse
from ctxr.annotation.study import read_texts
from ctxr.pipelines.crowd.workers import use_table
from tests.annotation.test_study import CONSENT, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import UNITS, Crowd, opened
from tests.annotation.web.reading import read
from tests.annotation.web.test_answers import BETTER
from tests.annotation.web.test_run import person, runner
from tests.annotation.web.test_work import GOOD


def use_of(crowd: Crowd, name: str = "ada") -> PageUse | None:
    return crowd.site.journal.page_use().get(crowd.worker(name))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2 3 4500", PageUse(1, 1, 3, 4.5)),
        ("0 0 0", PageUse(1, 0, 0, 0.0)),
        ("99999999 99999999 99999999", PageUse(1, 1, 99999999, 99999.999)),
        *((text, None) for text in ("", "-1 0 0", "1 2", "1 2 3 4", "٣ 0 0", "1e3 0 0", "9" * 5000, "1 2 3\x00", "<b>", "0 0 NaN")),
        (["1 2 3", "x"], None),
    ],
)  # fmt: skip
def test_what_a_page_counted_is_kept_and_nothing_that_no_script_has_written(
    make_crowd: MakeCrowd, sent: str | list[str], kept: PageUse | None
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    assert page.form().fields["counted"] == [""]
    page.form().send(visitor, description=GOOD, counted=sent)
    (answer,) = crowd.site.journal.answers()
    assert (answer.values, use_of(crowd)) == ({"description": (GOOD,)}, kept)


def test_counts_outlive_a_draft_and_a_refusal_count_once_and_go_on_in_a_correction(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    form = page.form()
    draft = form.fields | {"link": [form.action.rsplit("/", 1)[1]], "description": [GOOD], "counted": ["1 0 0"]}
    assert visitor.post("/check", data=draft).json() == {"problems": [], "may_stand": False}
    form = read(visitor.get(form.action)).form()
    assert form.fields["counted"] == ["1 0 0"]
    hostile = '"><script>1</script>'
    refused = form.send(visitor, description="the cat on the next image", counted=hostile)
    assert (refused.status_code, hostile in refused.text, use_of(crowd)) == (422, False, None)
    form = read(form.send(visitor, description="the cat on the next image", counted="1 2 300")).form()
    assert form.fields["counted"] == ["1 2 300"]
    for _ in range(2):
        assert form.send(visitor, description=GOOD).status_code == 200
    assert use_of(crowd) == PageUse(1, 1, 2, 0.3)
    (link,) = [link for link in read(visitor.get("/answers")).links if link.endswith("/correct")]
    correction = read(visitor.get(link)).form()
    correction.send(visitor, description="the cat on the next image", counted="0 9 9")
    correction.send(visitor, description=BETTER, counted="1 99999999 700")
    assert use_of(crowd) == PageUse(1, 1, 10**8, 1.0)


def test_the_counts_of_a_talk_come_with_its_messages(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["dialogue"])
    people = [crowd.opened(name)[0] for name in ("ada", "ben")]
    for place in (0, 1, 0, 1, 0, 1):
        read(people[place].get("/next")).form("/say").send(people[place], text="Hello there", counted=f"{place} 1 50")
    read(people[0].get("/next")).form("/share").send(people[0])
    for visitor in people:
        read(visitor.get("/next")).form("/finish").send(visitor)
    assert len(crowd.site.journal.answers()) == 2
    assert (use_of(crowd), use_of(crowd, "ben")) == (PageUse(1, 0, 3, 0.15), PageUse(1, 1, 3, 0.15))


def test_the_researcher_sees_shares_and_means_until_the_person_withdraws(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["entail"], UNITS["tag"])
    visitor = crowd.invited("ada")
    for counted in ("1 1 2000", "0 2 1000", ""):
        form = read(visitor.get("/next")).form()
        chosen = {name: values[0] for name, values in form.offered.items() if name in ("verdict", "tags")}
        form.send(visitor, **chosen or {"description": GOOD}, counted=counted)
    text = " ".join(read(runner(crowd).get(person(crowd))).text.split())
    assert "pasted in 1 of 2 answers (50 %)" in text
    assert "1.5 times per answer, for 2 s" in text
    used = crowd.site.journal.page_use()
    assert use_table(used).rows == ((crowd.worker("ada"), 2, 1, 0.5, 1.5, 1.5),)
    crowd.site.journal.withdraw(crowd.worker("ada"), "lead", crowd.site.now(), lambda _: None)
    assert crowd.site.journal.page_use() == {}


def test_people_are_told_before_they_work(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(UNITS["entail"], texts=read_texts(folder_of(tmp_path / "study", consent=CONSENT)))
    visitor = crowd.invited("ada")
    page = visitor.get("/next")
    assert "you paste text" in page.text
    told = read(page).form("/agree").send(visitor, agree="yes")
    assert (read(told).headline.startswith("How to"), "you paste text" in told.text) == (True, True)
