"""The OpenAPI document of the admin API, which the repository keeps."""

import json
from pathlib import Path

from walrelay.admin.app import api, openapi_document

PAGE = Path(__file__).parents[3] / "docs" / "admin-openapi.json"
REGENERATE = (
    'python -c "import json; from walrelay.admin.app import *; print(json.dumps(openapi_document(api()), indent=1))"'
    " > docs/admin-openapi.json"
)


def test_the_document_in_the_docs_is_current() -> None:
    assert json.loads(PAGE.read_text()) == openapi_document(api()), f"run: {REGENERATE}"


def test_every_route_and_every_parameter_is_said_in_words() -> None:
    for path, methods in openapi_document(api())["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["operationId"].isidentifier()
