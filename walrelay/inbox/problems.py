"""Responses that the middleware itself sends."""

import json

from walrelay.inbox.buffering import Send

Answer = tuple[int, tuple[tuple[str, str], ...], bytes]


def problem(status: int, title: str, detail: str) -> Answer:
    """RFC 9457."""
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()
    return status, (("content-type", "application/problem+json"), ("content-length", str(len(body)))), body


async def send_response(send: Send, answer: Answer) -> None:
    status, headers, body = answer
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
