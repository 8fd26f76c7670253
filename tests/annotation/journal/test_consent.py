"""Who agreed to which version of the consent, in both databases."""

from ctxr.annotation.journal.journal import open_journal
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import PUBLISHED, after, answer, described, image_sets, leased


def test_each_version_is_agreed_to_once_and_counted_by_language(opener: Opener, address: str) -> None:
    journal = opener(workers="ada ben cy")
    assert (journal.consents(), journal.agreed("ada", "v1")) == ([], False)
    for worker, version, language in (
        ("ada", "v2", "en"), ("ben", "v2", "ar"), ("cy", "v2", "en"), ("ada", "v1", "en"), ("ada", "v2", "ar"),
    ):  # fmt: skip
        journal.agree(worker, version, language, after(version == "v1"))
    assert journal.consents() == [("v2", "ar", 1), ("v2", "en", 2), ("v1", "en", 1)]
    again = open_journal(address, protocol=PUBLISHED)
    try:
        found = {
            (worker, version): again.agreed(worker, version)
            for worker in ("ada", "ben", "eve")
            for version in ("v1", "v2")
        }
    finally:
        again.close()
    assert [pair for pair, is_there in found.items() if is_there] == [("ada", "v1"), ("ada", "v2"), ("ben", "v2")]


def test_an_answer_is_found_by_its_unit_and_worker(opener: Opener) -> None:
    sets = image_sets(1)
    journal = opener([described(sets[0])], sets, workers="ada")
    lease = leased(journal, "ada")
    assert journal.answer(lease.unit.id, "ada") is None
    stored = answer(journal, lease)
    assert (journal.answer(lease.unit.id, "ada"), journal.answer(lease.unit.id, "ben")) == (stored, None)
