"""An application whose orders are placed once; run by uvicorn in a process of its own, and in the tests' own loop.

`SHOP_DSN` says where its database is. An order for "slow" waits in its transaction until the advisory lock 1 is free.
"""

import os
from typing import Any

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tests.integration.libraries import async_engine
from walrelay.inbox import IdempotencyKeys
from walrelay.inbox.asgi import IdempotencyMiddleware, Scope, by_authorization, transaction


def somebody(scope: Scope) -> str:
    """These tests are mostly about one client."""
    return by_authorization(scope) or "somebody"


def shop(engine: AsyncEngine, **options: Any) -> FastAPI:
    app = FastAPI()
    settings = {"keys": IdempotencyKeys(), "transaction": engine.begin, "client": somebody, **options}
    app.add_middleware(IdempotencyMiddleware, **settings)
    app.post("/orders", status_code=201)(place_order)
    app.post("/background")(in_the_background)
    app.post("/stream")(stream)
    app.get("/orders")(no_transaction)
    return app


async def place_order(request: Request, connection: AsyncConnection = Depends(transaction)) -> JSONResponse:  # noqa: B008
    what = (await request.json())["what"]
    await connection.execute(text("INSERT INTO handled VALUES (:what)"), {"what": what})
    if what == "slow":
        await connection.execute(text("SELECT pg_advisory_xact_lock(1)"))
    if what == "nothing":
        raise HTTPException(409, "there is no such thing")
    if what == "broken":
        raise HTTPException(503, "come again")
    if what == "bug":
        raise ZeroDivisionError
    if what == "much":
        return JSONResponse("x" * 2000)
    count = (await connection.execute(text("SELECT count(*) FROM handled"))).scalar_one()
    return JSONResponse({"what": what, "orders": count}, 201, headers={"location": f"/orders/{count}"})


async def in_the_background(tasks: BackgroundTasks, connection: AsyncConnection = Depends(transaction)) -> str:  # noqa: B008
    await connection.execute(text("INSERT INTO handled VALUES ('before')"))
    tasks.add_task(seen_by_others, transaction)
    return "done"


SEEN: list[object] = []


async def seen_by_others(offered: Any) -> None:
    """What a background task finds: the committed rows, and no transaction any more."""
    engine = async_engine(os.environ["SHOP_DSN"])
    async with engine.connect() as connection:
        SEEN.append((await connection.execute(text("SELECT count(*) FROM handled"))).scalar_one())
    try:
        offered()
    except RuntimeError as error:
        SEEN.append(str(error))


async def stream(connection: AsyncConnection = Depends(transaction)) -> StreamingResponse:  # noqa: B008
    await connection.execute(text("INSERT INTO handled VALUES ('streamed')"))
    return StreamingResponse(iter([b"one ", b"two ", b"three"]))


async def no_transaction() -> str:
    try:
        transaction()
    except RuntimeError as error:
        return str(error)
    return "there is one"


def made() -> FastAPI:
    """For `uvicorn --factory`."""
    return shop(async_engine(os.environ["SHOP_DSN"]))
