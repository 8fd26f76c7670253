"""The files of tasks of one's own, what their fields take, and what a page or a platform makes of a place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.annotation.forms import Mark, Order, mark_place, percents_of
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.own import KINDS, field_kind, read_own
from ctxr.annotation.tasks.values import Exposure
from ctxr.errors import CtxrError, DataError, UsageError
from tests.annotation.crowd_units import EVERY_KIND, OWN_ANSWER, TEN, unit

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rate_photos.toml"
OWN = unit("own", target=TEN[3], asked=EVERY_KIND)
HEAD = 'title = "A"\nabout = "set"\n'
CHOICE = '[[field]]\nname = "place"\nkind = "choice"\nlegend = "Where?"\noptions = ["in", "out"]\n'


def test_the_example_has_a_field_of_each_kind() -> None:
    file, asked = read_own(EXAMPLE)
    assert {field_kind(field) for field in asked.fields} == {*KINDS}
    assert (file.about, file.votes, asked.title[:7]) == ("image", 3, "What is")
    place, contents, quality = asked.fields[:3]
    assert [option.label for option in place.options] == ["indoors", "outdoors", "cannot be seen"]  # type: ignore[union-attr]
    assert [option.value for option in quality.options] == [*"1234567"]  # type: ignore[union-attr]
    assert contents.optional


def wrong(tmp_path: Path, text: str) -> CtxrError:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(CtxrError) as caught:
        read_own(file)
    assert str(file) in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (HEAD, "field", "known"),
        (HEAD + "field = []", "asks nothing", "[[field]]"),
        ('title = "A"\nvote = 3\n' + CHOICE, "'vote'", "votes"),
        ('title = "A"\nvotes = 0\n' + CHOICE, "`votes`", "known"),
        ('title = "A"\nabout = "video"\n' + CHOICE, "'image', 'set', 'query'", "known"),
        (HEAD + CHOICE.replace('"choice"', '"chioce"'), "'chioce'", 'kind = "choice"'),
        (HEAD + CHOICE.replace("kind", "kinds"), "no kind", "choose one of"),
        (HEAD + CHOICE.replace("legend", "legendd"), "'legendd'", "legend"),
        (HEAD + CHOICE + "checked = true", "'checked'", "known"),
        (HEAD + CHOICE + "several = true", "'several'", "known"),
        (HEAD + CHOICE.replace('"out"', "3"), "expected `str`", "known"),
        (HEAD + CHOICE.replace('"out"', '{ value = "x", lable = "X" }'), "'lable'", "label"),
        (HEAD + CHOICE.replace(', "out"', ""), "too few", "options"),
        (HEAD + CHOICE.replace("out", "in"), "twice", "another"),
        (HEAD + CHOICE.replace('"out"', '{ value = "x", label = "in" }'), "twice", "another"),
        (HEAD + CHOICE.replace("out", " "), "without a value", "value"),
        (HEAD + CHOICE.replace("place", "problem"), "'problem'", "another name"),
        (HEAD + CHOICE.replace("place", "pair"), "'pair'", "another name"),
        (HEAD + CHOICE.replace("place", "Place"), "odd name", "a-z"),
        (HEAD + CHOICE + CHOICE, "twice", "rename"),
        (HEAD + '[[field]]\nname = "a"\nkind = "scale"\nlegend = "b"\nlow = 5\nhigh = 5', "5 to 5", "below"),
        (HEAD + '[[field]]\nname = "a"\nkind = "scale"\nlegend = "b"\nlow = 0\nhigh = 100', "steps", "20"),
        (HEAD + '[[field]]\nname = "a"\nkind = "scale"\nlegend = "b"\nlow = 1.5\nhigh = 2', "`low`", "known"),
        (HEAD + '[[field]]\nname = "a"\nkind = "box"\nlegend = "b"', "one picture", "query"),
        (HEAD + '[[field]]\nname = "a"\nkind = "text"\nlegend = "b"\nmost_characters = 0', "no text", "300"),
        ('title = "A"\n[[field]]\nname = "a"\nkind = "order"\nlegend = "b"', "there is one", "set"),
        ("title = ", "TOML", "mend"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(text: str, said: str, hint: str, tmp_path: Path) -> None:
    error = wrong(tmp_path, text)
    assert isinstance(error, DataError)
    assert said in str(error)
    assert hint in error.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml"):
        read_own(tmp_path / "none.toml")


def codes(**changed: tuple[str, ...]) -> list[str]:
    values = {name: texts for name, texts in ({**OWN_ANSWER} | changed).items() if texts != ("left out",)}
    return [problem.code for problem in task_of(OWN).validate(OWN, values, Exposure())]


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("look", ("d",), "not_offered"),
        ("look", ("a", "b"), "too_many_chosen"),
        ("look", ("left out",), "nothing_chosen"),
        ("many", ("a", "a"), "not_offered"),
        ("good", ("-2",), "not_offered"),
        ("good", ("4",), "not_offered"),
        ("good", ("1.0",), "not_offered"),
        ("good", ("nan",), "not_offered"),
        ("good", ("",), "not_offered"),
        ("spot", ("0.2500",), "not_marked"),
        ("spot", ("0.2500,1.0001",), "not_marked"),
        ("spot", ("-0.2500,0.5000",), "not_marked"),
        ("spot", ("nan,0.5000",), "not_marked"),
        ("spot", ("0.25,0.5",), "not_marked"),
        ("spot", ("0.2500,0.5000,0.1000,0.1000",), "not_marked"),
        ("spot", ("0.2500,0.5000", "0.2500,0.5000"), "not_marked"),
        ("spot", ("\u0660.2500,0.5000",), "not_marked"),
        ("spot", ("0.2500,0.5000\n",), "not_marked"),
        ("area", ("0.2500,0.5000",), "not_marked"),
        ("area", ("0.2500,0.5000,0.0000,0.1000",), "not_marked"),
        ("area", ("0.2500,0.5000,0.7501,0.1000",), "not_marked"),
        ("rank", ("a", "b"), "not_ordered"),
        ("rank", ("a", "b", "b"), "not_ordered"),
        ("rank", ("a", "b", "c", "d"), "not_ordered"),
        ("rank", ("a", "b", ""), "not_ordered"),
        ("rank", ("", "", ""), "nothing_chosen"),
        ("shown", TEN[:9], "not_ordered"),
        ("why", ("x" * 41,), "too_long"),
        ("why", ("a\x00",), "odd_characters"),
    ],
)
def test_what_a_field_does_not_take_has_a_name(name: str, values: tuple[str, ...], code: str) -> None:
    assert codes(**{name: values}) == [code]


def test_optional_fields_may_stay_empty() -> None:
    assert codes(many=("left out",), shown=("left out",), why=("left out",)) == []
    form = task_of(OWN).render(OWN, OWN.images)
    blanks = {"many": (), "shown": ("",) * 10, "why": (" ",)}
    assert form.without_blanks({**OWN_ANSWER} | blanks).keys() == OWN_ANSWER.keys() - blanks.keys()


def test_pictures_are_put_in_order_under_the_places_at_which_they_are_shown() -> None:
    form = task_of(OWN).render(OWN, TEN[::-1])
    field = next(one for one in form.fields if isinstance(one, Order) and not one.options)
    assert [(one.value, one.label) for one in form.options(field)][:2] == [(TEN[9], "Image 1"), (TEN[8], "Image 2")]


PERCENT = st.floats(0, 100)


@given(PERCENT, PERCENT, PERCENT, PERCENT)
def test_a_box_within_a_picture_stays_within_it(left: float, right: float, top: float, bottom: float) -> None:
    (left, right), (top, bottom) = sorted((left, right)), sorted((top, bottom))
    place = mark_place([left, top, right - left, bottom - top])
    numbers = [round(10000 * float(part)) for part in place.split(",")]
    assert Mark("a", "b", box=True).holds(place) is all(numbers[2:])
    assert Mark("a", "b").holds(mark_place([left, top]))
    assert mark_place(percents_of(place)) == place


@given(st.lists(st.text(max_size=6) | st.floats() | st.integers(-(10**400), 10**400), min_size=2, max_size=2))
def test_what_is_no_number_or_outside_is_no_place(parts: list[str | float]) -> None:
    place = mark_place(parts)
    if Mark("a", "b").holds(place):
        assert all(-0.005 <= float(part) <= 100.005 for part in parts)
    percents_of(place)
