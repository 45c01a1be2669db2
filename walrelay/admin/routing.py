"""The route that tries the routing rules on records."""

import json
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from walrelay.admin.callers import Operator, Relay
from walrelay.admin.problems import ApiProblem
from walrelay.errors import Fatal
from walrelay.operations.route_trial import members, record_of_json, routed, router_of_given

router = APIRouter(tags=["routing"])


class RouteTest(BaseModel):
    """Records in the form that `walrelay tail` prints; only `id` is needed."""

    model_config = ConfigDict(extra="forbid")

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=100)]


class TriedRule(BaseModel):
    """What a rule says of a record. `why`: why it does not match."""

    rule: str
    matches: bool
    why: str | None = None


class TriedRecord(BaseModel):
    """What becomes of a record. `messages` have the form of the stdout sink."""

    id: str
    position: str
    rules: list[TriedRule]
    messages: list[dict[str, Any]]
    dropped: bool
    refused: str | None


class RouteTrial(BaseModel):
    """One result for each record, in their order."""

    results: list[TriedRecord]


@router.post("/relays/{relay}/route-test", summary="Try the routing rules on records")
def test(relay: Relay, _: Operator, body: RouteTest) -> RouteTrial:
    """Shows which rule routes a record, why others do not, and its messages. Nothing is published or stored."""
    rules = router_of_given(relay.wiring, relay.catalog)
    results = []
    for number, given in enumerate(body.records):
        try:
            record = record_of_json(json.dumps(given))
        except Fatal as error:
            raise ApiProblem(422, f"body.records.{number}: {error}", error.hint) from None
        results.append(TriedRecord.model_validate(members(routed(relay.wiring, rules, record))))
    return RouteTrial(results=results)
