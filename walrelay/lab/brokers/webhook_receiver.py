"""A receiver of webhooks, run as a program: PORT FILE. A request is a line of the file before it is answered."""

import asyncio
import json
import sys
from base64 import b64encode
from pathlib import Path

from aiohttp import web


async def serve(port: int, file: Path) -> None:
    with file.open("ab", buffering=0) as written:

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.read()
            headers = [(name.decode("latin-1"), b64encode(value).decode()) for name, value in request.raw_headers]
            line = {"path": request.raw_path, "headers": headers, "body": b64encode(body).decode()}
            written.write(json.dumps(line).encode() + b"\n")
            return web.Response(status=204)

        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1000).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
