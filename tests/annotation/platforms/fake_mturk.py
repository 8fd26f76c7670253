"""Mechanical Turk in memory, with what it remembers: tokens, assignments, qualification types. botocore checks the shapes."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

from botocore.exceptions import ClientError
from defusedxml import ElementTree as SafeTree

from tests.annotation.web.reading import Reading


def refusal(code: str, message: str, call: str = "CreateHIT") -> ClientError:
    said = {"Error": {"Code": "RequestError", "Message": message}, "TurkErrorCode": code, "Message": message}
    return ClientError(said, call)


class FakeMTurk:
    """One requester's account. `lose`: answers of so many calls of create_hit are lost after they were carried out."""

    def __init__(self, lose: int = 0) -> None:
        self.hits: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.assignments: dict[str, list[dict[str, Any]]] = {}
        self.types: dict[str, str] = {}
        self.granted: set[tuple[str, str]] = set()
        self.calls: list[str] = []
        self.lose = lose

    def create_hit(self, **given: Any) -> dict[str, Any]:
        self.calls.append("create_hit")
        token = given["UniqueRequestToken"]
        if token in self.tokens:
            raise refusal("AWS.MechanicalTurk.HitAlreadyExists", f"The HIT {self.tokens[token]} already exists.")
        name = f"3HIT{len(self.hits):026d}"
        self.hits[name] = {"HITId": name, **given}
        self.tokens[token] = name
        self.assignments[name] = []
        if self.lose:
            self.lose -= 1
            raise refusal("", "Read timed out after the request was carried out")
        return {"HIT": self.hits[name]}

    def get_hit(self, *, HITId: str) -> dict[str, Any]:
        return {"HIT": self.hits[HITId]}

    def list_hits(self, **given: Any) -> dict[str, Any]:
        return self._page("HITs", list(self.hits.values()), given)

    def list_assignments_for_hit(self, **given: Any) -> dict[str, Any]:
        return self._page("Assignments", self.assignments[given["HITId"]], given)

    def create_additional_assignments_for_hit(self, **given: Any) -> dict[str, Any]:
        name, more, token = given["HITId"], given["NumberOfAdditionalAssignments"], given["UniqueRequestToken"]
        self.calls.append("extend")
        hit = self.hits[name]
        if len(token) > 64 or more < 1:
            raise refusal("AWS.ParameterOutOfRange", "extension", "CreateAdditionalAssignmentsForHIT")
        if token in self.tokens:
            raise refusal("AWS.MechanicalTurk.RequestAlreadyExists", "extended before", "x")
        if hit["MaxAssignments"] < 10 <= hit["MaxAssignments"] + more:
            raise refusal("AWS.MechanicalTurk.InvalidMaximumAssignmentsIncrease", "fewer than ten stay fewer", "x")
        self.tokens[token] = name
        hit["MaxAssignments"] += more
        return {}

    def create_qualification_type(self, **given: Any) -> dict[str, Any]:
        if given["Name"] in self.types:
            raise refusal("AWS.MechanicalTurk.QualificationTypeAlreadyExists", given["Name"], "x")
        self.types[given["Name"]] = f"3TYPE{len(self.types):025d}"
        return {"QualificationType": {"QualificationTypeId": self.types[given["Name"]]}}

    def list_qualification_types(self, **given: Any) -> dict[str, Any]:
        assert given["MustBeOwnedByCaller"] is True
        rows = [{"Name": name, "QualificationTypeId": one} for name, one in self.types.items()]
        return self._page("QualificationTypes", rows, given)

    def associate_qualification_with_worker(self, **given: Any) -> dict[str, Any]:
        assert given["QualificationTypeId"] in self.types.values()
        assert re.fullmatch("A[A-Z0-9]+", given["WorkerId"])
        self.granted.add((given["QualificationTypeId"], given["WorkerId"]))
        return {}

    def _page(self, name: str, rows: list[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        size, start = given["MaxResults"], int(given.get("NextToken", "0"))
        if not 1 <= size <= 100:
            raise refusal("AWS.ParameterOutOfRange", "MaxResults")
        more = {"NextToken": str(start + size)} if start + size < len(rows) else {}
        return {name: rows[start : start + size], **more}

    def hit_of(self, unit: str) -> str:
        (name,) = [name for name, hit in self.hits.items() if hit["RequesterAnnotation"].endswith(f":{unit}")]
        return name

    def page(self, hit: str) -> Reading:
        """What a worker sees."""
        content = SafeTree.fromstring(self.hits[hit]["Question"])[0].text
        assert content is not None
        return Reading(content)

    def work(
        self, hit: str, worker: str, values: Mapping[str, tuple[str, ...]], accepted: datetime, submitted: datetime
    ) -> None:
        """A worker does the HIT in their browser."""
        done = self.assignments[hit]
        if any(one["WorkerId"] == worker for one in done):
            raise AssertionError("a worker does a HIT once")
        if len(done) >= self.hits[hit]["MaxAssignments"]:
            raise AssertionError("no assignment is left")
        sent = self.page(hit).form().filled(values) | {"assignmentId": ""}
        rows = "".join(
            f"<Answer><QuestionIdentifier>{escape(name)}</QuestionIdentifier><FreeText>{escape(value)}</FreeText></Answer>"
            for name, value in sent.items()
            if name != "assignmentId"
        )
        schema = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
        done.append(
            {
                "AssignmentId": f"3ASG{hit[-6:]}{worker}",
                "WorkerId": worker,
                "HITId": hit,
                "AssignmentStatus": "Submitted",
                "AcceptTime": accepted,
                "SubmitTime": submitted,
                "Answer": f'<QuestionFormAnswers xmlns="{schema}">{rows}</QuestionFormAnswers>',
            }
        )
