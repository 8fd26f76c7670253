"""A folder that FiftyOne imports: one sample per set and position, grouped by set.

It is the plain JSON layout (`LegacyFiftyOneDataset`), which every version reads; the newer layout is a dump of FiftyOne's database.
"""

from dataclasses import asdict

from ctxr.datasets.writers.job import ExportJob, ExportResult, check_names, suffix_of
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.tables import pretty_json


def write(job: ExportJob) -> ExportResult:
    """Write `metadata.json`, `samples.json`, and pictures in `data/<set>/`."""
    check_names(job.dataset)
    samples: list[dict[str, object]] = []
    for image_set in job.progress.each("exporting sets", job.dataset.sets):
        queries = [query for query in job.queries.get(image_set.id, []) if query.labels is None]
        for position, image in enumerate(job.members(image_set)):
            path = f"data/{image_set.id}/{position:02d}{suffix_of(image)}"
            link_or_copy(job.pictures.checked(image), job.out / path)
            described = [job.dataset.text_of(query) for query in queries if position in job.targets.get(query.id, [])]
            row = job.image_row(image)
            samples.append({
                "filepath": path,
                "tags": [job.split(image_set), image_set.kind],
                "set_id": image_set.id,
                "position": position,
                "image_id": image.id,
                "sha256": image.sha256,
                "source": image.source,
                "shot": image_set.shot,
                "frame_index": image.index,
                # a number to sort by, and the exact time
                "seconds": None if image.time is None else float(image.time),
                "time": row["time"],
                "closest": image_set.closest,
                "mean_distance": image_set.mean_distance,
                "descriptions": described,
                "licence": row["licence"],
            })  # fmt: skip
    info = {"format": "ctxr image sets"} | asdict(job.counts)
    about = {"name": job.dataset.name, "media_type": "image", "info": info}
    write_bytes(job.out / "metadata.json", pretty_json(about))
    write_bytes(job.out / "samples.json", pretty_json({"samples": samples}))
    return ExportResult(_LOAD, counts={"samples": len(samples)})


_LOAD = """    import fiftyone as fo
    dataset = fo.Dataset.from_dir("PATH/OF/THIS/FOLDER", dataset_type=fo.types.LegacyFiftyOneDataset)
    fo.launch_app(dataset.group_by("set_id", order_by="position"))

A sample is one picture at one position of one set; its tags are the split and the kind, `descriptions` those that single it out.
"""
