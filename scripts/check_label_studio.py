"""Hold exported labelling projects against Label Studio's own validator: `python -m scripts.check_label_studio FOLDER…`.

FOLDER is a `label-studio` folder of exported tasks. It needs `pip install label-studio-sdk`, which is half a gigabyte and so is
installed by nobody else; without it this says so and stops.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from defusedxml import ElementTree as SafeTree


def annotation(config: str) -> dict[str, Any]:
    """A made-up answer to a configuration: the first choice of each group, a text in each area, places on pictures."""
    found: list[dict[str, Any]] = []
    for tag in SafeTree.fromstring(config).iter():
        if tag.tag == "Choices":
            first = next(iter(tag.iter("Choice")))
            value: dict[str, Any] = {"choices": [first.get("alias") or first.get("value")]}
        elif tag.tag == "TextArea":
            value = {"text": ["A red cup beside the door."]}
        elif tag.tag in ("KeyPoint", "Rectangle"):
            value = {"x": 10.0, "y": 20.5, "width": 0.6 if tag.tag == "KeyPoint" else 30.0}
            value |= {"height": 40.0, "rotation": 0} if tag.tag == "Rectangle" else {}
        else:
            continue
        name, on = tag.get("name"), tag.get("toName")
        found.append(
            {"id": f"r{len(found)}", "from_name": name, "to_name": on, "type": tag.tag.lower(), "value": value}
        )
    return {"result": found}


def check(project: Path, interface: Any) -> list[str]:
    """What the validator says against a project; empty where it says nothing."""
    config = (project / "config.xml").read_text(encoding="utf-8")
    validator = interface(config)
    wrong = []
    try:
        validator.validate()
    except Exception as error:
        return [f"config.xml: {error}"]
    tasks = json.loads((project / "tasks.json").read_text(encoding="utf-8"))
    for number, task in enumerate(tasks, 1):
        if not validator.validate_task(task):
            wrong.append(f"tasks.json:{number}: the task does not fit the configuration")
    if not validator.validate_annotation(annotation(config)):
        wrong.append("config.xml: a plain answer to it is refused")
    spoilt = annotation(config)
    spoilt["result"][0]["value"] = {"choices": ["nowhere"]}
    if validator.validate_annotation(spoilt):
        wrong.append("config.xml: an answer that is not offered is taken")
    return wrong


def main(folders: list[str]) -> int:
    """Say what is wrong with each project; 1 where something is."""
    try:
        interface = import_module("label_studio_sdk.label_interface").LabelInterface
    except ImportError:
        print("label-studio-sdk is not installed: pip install label-studio-sdk, in an environment of its own")
        return 0
    projects = [file.parent for folder in folders for file in sorted(Path(folder).rglob("config.xml"))]
    wrong = {project: check(project, interface) for project in projects}
    for project, said in wrong.items():
        print(f"{project}: {'; '.join(said) or 'valid'}")
    return int(any(wrong.values()) or not projects)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
