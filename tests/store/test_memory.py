"""Facts about files are kept while the files are the same, and not where one changed while the fact was found."""

import shutil
from pathlib import Path

from ctxr.store.memory import Watch, remembered


def test_a_fact_is_found_again_where_a_file_changed_before_or_while_it_was_found(tmp_path: Path) -> None:
    file, found = tmp_path / "file", list[str]()

    def find(watch: Watch) -> str:
        watch([file, tmp_path / "absent"])
        found.append(file.read_text())
        if found == ["one"]:
            file.write_text("two two")
        return found[-1]

    file.write_text("one")
    assert [remembered(tmp_path, "text", find) for _ in range(3)] == ["one", "two two", "two two"]
    assert found == ["one", "two two"]
    (tmp_path / "absent").touch()
    assert remembered(tmp_path, "text", find) == "two two"
    shutil.rmtree(tmp_path / ".ctxr-cache")
    assert remembered(tmp_path, "text", find) == "two two"
    assert len(found) == 4
