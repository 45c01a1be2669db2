"""The admin API keeps to its OpenAPI document, whatever is sent to it: requests that the document allows, and requests
that it does not, made by schemathesis; by callers of every scope, on a real database.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.admin.conftest import TOKENS, Api, made_api, sections_of
from tests.integration.admin.test_letters import letter, write
from tests.servers.database import Postgres
from walrelay.admin.app import api as routes
from walrelay.admin.app import openapi_document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi_document(routes()))
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}
FORCED: dict[str, dict[str, Any]] = {"GET /api/v1/stream": {"seconds": 0}}


@pytest.fixture(scope="module")
def asked(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    """An API with rows, dead letters and a job; and the name of its relay."""
    database = postgres.create_database()
    with made_api(tmp_path_factory.mktemp("document"), **sections_of(database)) as api:
        database.execute("SELECT walrelay.emit('order', '1', 'Placed', '{}')")
        write(database, letter(1), letter(2))
        yield api, database.name
    database.drop()


def test_every_route_of_the_document_is_asked() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in SCHEMA.raw_schema["paths"].values())


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_one_of_the_document(asked: tuple[Api, str], label: str, mode: GenerationMode) -> None:
    api, name = asked

    @settings(
        max_examples=6,  # of each route: 30 took a minute
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(case=OPERATIONS[label].as_strategy(mode), scope=st.sampled_from(["admin", "admin", *TOKENS, "nobody"]))
    def ask(case: Any, scope: str) -> None:
        if "relay" in case.path_parameters:
            case.path_parameters["relay"] = name
        case.query = {**case.query, **FORCED.get(label, {})}
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8642")
        if "data" in sent:
            sent["content"] = sent.pop("data")
        del sent["cookies"]
        sent["headers"].pop("Authorization", None)
        if scope in TOKENS:
            sent["headers"]["Authorization"] = f"Bearer {TOKENS[scope].token}"
        case.validate_response(api.client.request(**sent), checks=CHECKS)

    ask()
