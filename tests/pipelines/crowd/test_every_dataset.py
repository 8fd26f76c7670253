"""Studies about every form of dataset that a reader reads: tasks are exported, served, answered and aggregated."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ctxr.annotation.artifacts import read_tasks
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.journal.results import Lease
from ctxr.datasets.open import READERS, read_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import UsageError
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate, Serve
from ctxr.pipelines.crowd.export_tasks import run
from ctxr.pipelines.crowd.serve import open_site
from tests.annotation.platforms.study import said
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import TRAIN, VALID, draw, draw_sets, write_release

PHOTOS = ("a.jpg", "b.jpg", "c.jpg")


def put(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def photos(folder: Path, below: str = "") -> Path:
    for seed, name in enumerate(PHOTOS):
        draw(folder / below / name, seed)
    return folder


def put_release(folder: Path) -> Path:
    draw_sets(folder, [*TRAIN, *VALID])
    return write_release(folder, test=None)


def put_repository(folder: Path) -> Path:
    draw_sets(folder / "data", [*TRAIN, *VALID])
    write_release(folder / "data", test=None)
    return folder


def put_captions(folder: Path) -> Path:
    images = [{"id": number, "file_name": name} for number, name in enumerate(PHOTOS)]
    notes = [{"id": number, "image_id": number, "caption": f"Text {number}."} for number in range(3)]
    return put(photos(folder, "val2014"), "captions_val2014.json", {"images": images, "annotations": notes})


def put_split(folder: Path) -> Path:
    rows = [
        {
            "filename": name,
            "split": "test",
            "sentences": [{"raw": f"Text {number}.", "sentid": number}],
            "imgid": number,
        }
        for number, name in enumerate(PHOTOS)
    ]
    return put(photos(folder), "dataset_flickr30k.json", {"images": rows, "dataset": "flickr30k"})


def put_table(folder: Path) -> Path:
    return put(
        photos(folder), "metadata.csv", "file_name,text\n" + "".join(f"{name},Text {name}.\n" for name in PHOTOS)
    )


def put_described(folder: Path) -> Path:
    draw_sets(folder, [*TRAIN])
    put(folder, "mine.json", TRAIN)
    return folder / "mine.json"


def put_links(folder: Path) -> Path:
    return put(photos(folder), "documents.json", {"test": [[[["a.jpg", 0]], [["Red.", 0]], "m"]]})


def put_shard(folder: Path) -> Path:
    row = {"text_list": ["Red."], "image_info": [{"image_name": "a.jpg", "matched_text_index": 0}]}
    return put(photos(folder), "shard.jsonl", row)


def put_narratives(folder: Path) -> Path:
    rows = [
        {"dataset_id": "a_test", "image_id": name, "annotator_id": 1, "caption": f"Text {number}.", "traces": []}
        | {"timed_caption": [{"utterance": f"Text {number}.", "start_time": 0, "end_time": 1}]}
        for number, name in enumerate(PHOTOS)
    ]
    return put(photos(folder), "narratives.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def put_dialogues(folder: Path) -> Path:
    said = {"message": "Look.", "share_photo": False, "user_id": 0}
    rows = [
        {"dialogue": [said, said | {"message": "", "share_photo": True}], "dialogue_id": number}
        | {"photo_description": "Objects in the photo: Dog", "photo_url": f"https://here/{name}"}
        for number, name in enumerate(PHOTOS)
    ]
    return put(photos(folder), "test.json", rows)


def put_page(folder: Path) -> Path:
    return put(photos(folder), "red.md", "# Red\n\n![a](a.jpg)\n")


FORMS: dict[str, Callable[[Path], Path]] = {
    "an ImageCoDe release": put_release,
    "MMC4": put_shard,
    "Localized Narratives": put_narratives,
    "PhotoChat": put_dialogues,
    "documents": put_links,
    "a ctxr artifact": lambda folder: write_world_dataset(folder, sets=2),
    "the repository of ImageCoDe": put_repository,
    "Karpathy's split": put_split,
    "COCO captions": put_captions,
    "photos with captions": put_table,
    "Markdown or HTML": put_page,
    "descriptions by set": put_described,
}
LINKED = {"MMC4", "documents", "Markdown or HTML"}


def test_every_reader_has_a_row_here() -> None:
    assert [reader.reads.startswith(name) for reader, name in zip(READERS, FORMS, strict=True)] == [True] * len(READERS)


def answered(work: Path) -> None:
    """Everybody works on what is served until nothing is left."""
    site, *_ = open_site(Serve(workdir=work), "http://here", Silent())
    now, people = datetime(2026, 11, 28, tzinfo=UTC), [f"w-{number}" for number in range(16)]
    for name in people:
        site.journal.enrol(name, "local", now)
    resting = set[str]()
    while len(resting) < len(people):
        for name in people:
            lease = site.journal.lease(name, now)
            if not isinstance(lease, Lease):
                resting.add(name)
                continue
            resting.clear()
            assert all(site.pictures[image].is_file() for image in lease.unit.images)
            now += timedelta(seconds=30)
            truth = {"pick": lease.unit.truth} if lease.unit.truth else said(lease.unit, name)
            site.journal.submit(lease.token, name, truth, now)
    site.journal.close()
    site.identities.close()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        pytest.param(name, use, marks=() if use == "describe" or name == "a ctxr artifact" else pytest.mark.prove)
        for name in FORMS
        for use in ("describe", "retrieve", "tag", "gold")
    ],
)
def test_a_study_of_it_is_exported_again_served_and_aggregated(name: str, use: str, tmp_path: Path) -> None:
    source, work = FORMS[name](tmp_path / "release"), tmp_path / "work"
    config = ExportTasks(task=use, input=source, workdir=work, disjoint="none")
    if use == "gold":
        asked = write_world_dataset(tmp_path / "asked", sets=2)
        config = replace(config, task="retrieve", input=asked, gold=source, gold_every=3)
    if name in LINKED:
        with pytest.raises(UsageError, match="ctxr export-tasks"):
            run(config)
        return
    run(config)
    assert {unit.purpose for unit in read_tasks(config.folder()).units} == {
        "work",
        *(["gold"] if use == "gold" else []),
    }
    assert run(config).up_to_date
    answered(work)
    report = aggregate(Aggregate(workdir=work, resamples=10))
    assert read_dataset(report.dataset).sets
    assert not report.violations
    assert run(config).up_to_date
