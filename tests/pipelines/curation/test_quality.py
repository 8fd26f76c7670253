"""Limits: which image goes, and what is remembered of a measurement."""

import pytest

from ctxr.metrics.selection import Rejection
from ctxr.pipelines.curation.quality import QualityLimits, forget_other_measures
from ctxr.store.records import Facts

FACTS = Facts("clip", 0, "p", "s", 640, 360, brisque=0.7, text_share=0.1, text_words=2, text_confidence=90.0)


@pytest.mark.parametrize(
    ("limits", "answer"),
    [
        (QualityLimits(), None),
        (QualityLimits(brisque=0.65), Rejection("low_quality", 0.7)),
        (QualityLimits(brisque=0.7), None),
        (QualityLimits(max_text=0.05), Rejection("too_much_text", 0.1)),
        (QualityLimits(max_text=0.1), None),
        (QualityLimits(min_size=400), Rejection("too_small", 360.0)),
        (QualityLimits(min_size=360), None),
        (QualityLimits(brisque=0.65, max_text=0.05, min_size=400), Rejection("too_small", 360.0)),
    ],
)
def test_an_image_goes_when_it_exceeds_a_limit(limits: QualityLimits, answer: Rejection | None) -> None:
    assert limits.judge(FACTS) == answer


def test_what_nobody_looked_at_is_no_reason() -> None:
    assert QualityLimits(brisque=0.1, max_text=0.0).judge(Facts("clip", 0, "p", "s", 9, 9)) is None


def test_facts_of_another_instrument_are_forgotten_and_the_others_kept() -> None:
    (kept,) = forget_other_measures([FACTS], {"brisque": "a", "text": "b"}, {"brisque": "x", "text": "b"})
    assert kept.brisque is None
    assert kept.text_share == 0.1
    assert forget_other_measures([FACTS], {"brisque": "a"}, {"brisque": "a"}) == [FACTS]
