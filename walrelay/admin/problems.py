"""Errors as RFC 9457 has them (application/problem+json): what happened, where, and what to do. No traceback."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from walrelay.errors import Fatal, Retryable, SettingsError, WalrelayError
from walrelay.unforeseen import Bug, explained

MEDIA_TYPE = "application/problem+json"


class ProblemField(BaseModel):
    """What is wrong with one part of a request."""

    where: str
    detail: str


class ProblemDocument(BaseModel):
    """Why a request failed, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What happened.")
    instance: str = Field(description="Where: the path of the request.")
    hint: str = Field("", description="What to do; empty if nothing is to be done.")
    errors: list[ProblemField] = Field(default_factory=list, description="What is wrong with the request.")


class ApiProblem(Exception):
    """A request that is refused."""

    def __init__(self, status: int, detail: str, hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.headers = status, detail, hint, headers


def response(
    status: int,
    detail: str,
    path: str,
    hint: str = "",
    *,
    errors: list[ProblemField] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    title = HTTPStatus(status).phrase
    told = ProblemDocument(title=title, status=status, detail=detail, instance=path, hint=hint, errors=errors or [])
    return _response(told, headers)


def _response(told: ProblemDocument, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(told.model_dump(), told.status, headers, MEDIA_TYPE)


def of_error(error: Exception, path: str) -> JSONResponse:
    """What a room raised."""
    told = problem(error, path)
    return _response(told, {"Retry-After": "1"} if told.status == 503 else None)


def problem(error: Exception, path: str) -> ProblemDocument:
    """The error's own words, as the command would print them; those of a bug, which nobody has weighed, are for the log
    alone.
    """
    known = explained(error)
    status, detail, hint = status_of(known), str(known), known.hint
    if isinstance(known, Bug):
        detail, hint = "this is a bug in walrelay", f"The log of `walrelay admin` says more. {hint}"
    return ProblemDocument(title=HTTPStatus(status).phrase, status=status, detail=detail, instance=path, hint=hint)


def status_of(error: WalrelayError) -> int:
    """503: it may be over soon; 409: somebody has to do something first; 500: a bug."""
    match error:
        case Bug():
            return 500
        case SettingsError() | Retryable():
            return 503
        case Fatal():
            return 409
    return 500


def handle(app: FastAPI) -> None:
    """Every error of the app's routes becomes a problem."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiProblem)
        return response(error.status, error.detail, request.url.path, error.hint, headers=error.headers)

    async def of_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        detail = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
        hint = "GET /api/v1/openapi.json lists what there is." if error.status_code in (404, 405) else ""
        headers = dict(error.headers) if error.headers else None
        return response(error.status_code, detail, request.url.path, hint, headers=headers)

    async def not_understood(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        fields = [
            ProblemField(where=".".join(map(str, each["loc"])), detail=str(each["msg"])) for each in error.errors()
        ]
        text = "; ".join(f"{each.where}: {each.detail}" for each in fields)
        return response(422, f"the request is not understood: {text}", request.url.path, errors=fields)

    async def of_walrelay(request: Request, error: Exception) -> JSONResponse:
        return of_error(error, request.url.path)

    app.add_exception_handler(ApiProblem, refused)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, not_understood)
    for kind in (WalrelayError, OSError, MemoryError):
        app.add_exception_handler(kind, of_walrelay)
    app.add_exception_handler(Exception, of_walrelay)
