"""A whole study on Label Studio with the defaults: one person for each project, and nothing that breaks a rule."""

import json
import re
from pathlib import Path

from ctxr.annotation.answers import run as import_answers
from ctxr.annotation.artifacts import read_judgments, read_tasks
from ctxr.annotation.config import ExportTasks, ImportAnswers
from ctxr.annotation.platforms.label_studio import sheet_of
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate, Workers
from ctxr.pipelines.crowd.export_tasks import run
from ctxr.pipelines.crowd.workers import run as workers
from ctxr.store.hashing import sha256_file
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import draw_sets, write_release

BASE = "https://pictures.example.org"
WORDS = ("red", "round", "small", "left", "bright", "near", "thin", "high", "dark", "far")


def answer_projects(config: ExportTasks) -> None:
    """Export tasks; a person for each project does it all, and its export is imported."""
    report = run(config)
    raters = {file.split("/")[1].split("-")[1] for file in report.files}
    assert [note.split(":")[0] for note in report.notes] == [f"this takes {len(raters)} people"]
    tasks = read_tasks(config.folder())
    units = {unit.id: unit for unit in tasks.units}
    for number, file in enumerate(sorted(config.folder().glob("label-studio/rater-*/tasks.json"))):
        rows = json.loads(file.read_bytes())
        for place, row in enumerate(rows):
            sheet = sheet_of(units[row["data"]["ctxr_unit"]], row["data"]["ctxr_slot"], tasks.protocol.seed)
            words = [WORDS[int(digit)] for digit in f"{number}{place:02d}{place * 7 % 100:02d}"]
            target = next(iter(sheet.unit.truth), "")
            value = {"choices": [str(sheet.order.index(target) + 1)]} if target else {"text": " ".join(words)}
            result = [{"from_name": sheet.form.fields[0].name, "value": value}]
            given = {"id": place, "created_at": f"2026-11-28T10:{place:02d}:00Z", "lead_time": 30, "result": result}
            row["annotations"] = [given | {"completed_by": f"{config.task} {file.parent.name.split('-')[1]}"}]
        export = config.workdir / f"{config.task}-{file.parent.name}.json"
        export.write_text(json.dumps(rows))
        assert import_answers(ImportAnswers(export, "label-studio", workdir=config.workdir)).refused == 0


def test_a_study_with_the_defaults_keeps_every_rule(tmp_path: Path) -> None:
    sets = write_world_dataset(tmp_path / "sets", sets=4)
    release = write_release(tmp_path / "release", valid=None, test=None)
    draw_sets(release, ["MSR-VTT-videoTrain_video1-shot0_0", "open-images-12_abc"])
    config = ExportTasks(input=sets, workdir=tmp_path / "work", backend="label-studio", image_base=BASE)
    describe = ExportTasks(**{**vars(config), "task": "describe"})
    answer_projects(describe)
    find = ExportTasks(**{**vars(config), "task": "retrieve", "input": None, "gold": release, "gold_every": 4})
    answer_projects(find)
    report = aggregate(Aggregate(workdir=tmp_path / "work", resamples=10))
    assert (report.violations, report.refused) == ((), {})
    people = {answer.worker for answer in read_judgments(tmp_path / "work" / "judgments").answers}
    statement = workers(Workers(workdir=tmp_path / "work", data_protection=True)).data_protection
    for part in (f"{len(people)} people took", f"identity: {len(people)} rows", "- `judgments`", "deleted there"):
        assert part in statement
    assert report.counts["queries"] == 18
    assert {unit.purpose for unit in read_tasks(find.folder()).units} == {"work", "gold"}
    for exported in (describe, find):
        tasks = read_tasks(exported.folder())
        rows = [row["data"] for file in exported.folder().rglob("tasks.json") for row in json.loads(file.read_bytes())]
        for row in rows:
            shown = [value for name, value in row.items() if name.startswith("image_")]
            assert all(re.fullmatch(rf"{BASE}/[0-9a-f]{{24}}\.jpg", address) for address in shown)
            unit = next(unit for unit in tasks.units if unit.id == row["ctxr_unit"])
            files = [exported.folder() / "pictures" / address.rsplit("/", 1)[1] for address in shown]
            assert {sha256_file(file) for file in files} == {tasks.images[name].sha256 for name in unit.images}
