"""Dependencies of FastAPI that end after the response, and so after the commit: what they write at their end is lost.

FastAPI ends a dependency with `yield` when the response has been sent, unless it is declared with `scope="function"`.
The route in the request's scope lists them; FastAPI itself is not imported.
"""

from collections.abc import Iterator, Mapping
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any


def refuse_late_ends(scope: Mapping[str, Any], lent: object) -> None:
    """RuntimeError if one of them depends on `lent`, the dependency that gives out the transaction."""
    if late := sorted({_name(each) for each in _late(getattr(scope.get("route"), "dependant", None), lent)}):
        raise RuntimeError(
            f"FastAPI ends the dependency {', '.join(late)} after the response, and it has the request's transaction,"
            " which is committed before: what it writes at its end would be lost, and the client not told. Declare it"
            f' with Depends({late[0]}, scope="function"). The transaction is rolled back'
        )


def _late(dependant: Any, lent: object) -> Iterator[Any]:
    """Dependencies with a `yield` that depend on `lent`, directly or not. FastAPI before 0.121 has no `scope`."""
    for each in getattr(dependant, "dependencies", ()):
        ends_late = getattr(each, "scope", "function") in (None, "request")
        generator = isgeneratorfunction(each.call) or isasyncgenfunction(each.call)
        if ends_late and generator and _depends(each, lent):
            yield each
        yield from _late(each, lent)


def _depends(dependant: Any, lent: object) -> bool:
    return any(each.call is lent or _depends(each, lent) for each in dependant.dependencies)


def _name(dependant: Any) -> str:
    return str(getattr(dependant.call, "__name__", dependant.call))
