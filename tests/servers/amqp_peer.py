"""A program for Debian's Python: what Azure Service Bus looks like to a client that sends, by AMQP 1.0 of qpid-proton.

Usage: amqp_peer.py PORT HOME [ADDRESS CERTIFICATE KEY]. In HOME it appends what it accepted to `messages`, a line of
JSON each, and reads from `rules` how cruel it is to be, by the name of the entity ("*": all).
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import urllib.parse
from typing import Any

from proton import Condition, Data, Delivery, Described, Endpoint, Handler, Message, SSLDomain, Terminus, symbol
from proton.reactor import Container

SECTIONS = {0x70: "header", 0x72: "annotations", 0x73: "properties", 0x74: "application", 0x75: "data", 0x77: "value"}
PROPERTIES = ["message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "encoding",
              "expires", "created", "session_id"]  # fmt: skip
STATUS = {202: "Accepted", 401: "InvalidSignature: The token has an invalid signature."}


class Peer(Handler):  # type: ignore[misc]
    def __init__(self, port: int, home: str, tls: list[str]) -> None:
        self.port, self.home, self.tls = port, home, tls
        self.messages = open(os.path.join(home, "messages"), "ab", buffering=0)  # noqa: SIM115
        self.rules_read = 0.0
        self._rules: dict[str, Any] = {}
        self.answers: dict[Any, Any] = {}  # senders at $cbs, by connection
        self.seen: set[tuple[str, str]] = set()
        self.transfers = self.connections = 0
        self.numbers: dict[Any, int] = {}

    def rule(self, entity: str) -> dict[str, Any]:
        path = os.path.join(self.home, "rules")
        written = os.stat(path).st_mtime_ns
        if written != self.rules_read:
            self.rules_read = written
            with open(path) as file:
                self._rules = json.load(file)
        return {**self._rules.get("*", {}), **self._rules.get(entity, {})}

    def on_reactor_init(self, event: Any) -> None:
        event.container.listen(f"127.0.0.1:{self.port}")
        if self.tls:
            address, certificate, key = self.tls
            domain = SSLDomain(SSLDomain.MODE_SERVER)
            domain.set_credentials(certificate, key, None)
            event.container.ssl.server = domain
            event.container.listen(f"amqps://{address}")

    def on_connection_remote_open(self, event: Any) -> None:
        self.connections += 1
        self.numbers[event.connection] = self.connections
        event.connection.container = "peer"
        event.connection.open()

    def on_session_remote_open(self, event: Any) -> None:
        event.session.open()

    def on_link_remote_open(self, event: Any) -> None:
        link = event.link
        if link.is_sender:
            link.source.address = link.remote_source.address
            link.target.address = link.remote_target.address
            link.open()
            self.answers[link.connection] = link
            return
        rule = self.rule(entity_of(link))
        if rule.get("never_attaches"):
            return
        if "attach" in rule:  # an answer without source and target says that there will be no link
            link.source.type = link.target.type = Terminus.UNSPECIFIED
            link.open()
            detach(link, *rule["attach"])
            return
        link.target.address = link.remote_target.address
        link.source.address = link.remote_source.address
        link.max_message_size = rule.get("max_message_size", 262144)
        link.open()
        link.flow(1000)

    def on_link_remote_close(self, event: Any) -> None:
        event.link.close()

    def on_session_remote_close(self, event: Any) -> None:
        event.session.close()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()

    def on_transport_closed(self, event: Any) -> None:
        self.answers.pop(event.connection, None)

    def on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if not delivery.readable or delivery.partial:
            if link.is_sender and delivery.updated:
                delivery.settle()
            return
        raw = link.recv(delivery.pending)
        link.advance()
        link.flow(1)
        if link.state & Endpoint.LOCAL_CLOSED:
            return  # it was on its way when the link was detached
        if entity_of(link) == "$cbs":
            self.authorize(link, raw)
            accept(delivery)
        else:
            self.transfer(entity_of(link), event, raw)

    def authorize(self, link: Any, raw: bytes) -> None:
        request = Message()
        request.decode(raw)
        rule = self.rule("$cbs")
        token = request.body if isinstance(request.body, str) else request.body.decode()
        self.keep({"cbs": request.properties.get("type"), "name": request.properties.get("name"), "token": token})
        if rule.get("hangs"):
            return
        good = token == rule["token"] if "token" in rule else is_signed(token, rule.get("key", "secret"))
        status = 202 if good else 401
        properties = {"status-code": status, "status-description": STATUS[status]}
        self.answers[link.connection].send(Message(correlation_id=request.id, properties=properties))

    def transfer(self, entity: str, event: Any, raw: bytes) -> None:
        """Answers as the rule says: a batch as a whole."""
        self.transfers += 1
        messages = read_messages(raw)
        rule, delivery = self.rule(entity), event.delivery
        for each in messages:
            if rule.get("requires_sessions") and each["session_id"] is None:
                reject(delivery, "amqp:not-allowed", "The SessionId was not set on a message, and it cannot be sent")
                return
            for cruelty in rule.get("messages", []):
                if cruelty.get("id") in (None, (each["message_id"] or "").partition("-")[0]):
                    if cruelty.get("stored"):
                        self.store(entity, event, messages)
                    self.be_cruel(cruelty, event)
                    return
        self.store(entity, event, messages, detects_duplicates=rule.get("detects_duplicates", False))
        accept(delivery)
        if rule.get("detaches_when_accepted"):
            detach(event.link, "amqp:link:detach-forced", "The link is force detached: Idle timeout")

    def be_cruel(self, cruelty: dict[str, Any], event: Any) -> None:
        """`what` "hang": it never answers."""
        what, told = cruelty["what"], (cruelty.get("condition", "amqp:internal-error"), cruelty.get("text", ""))
        if what == "reject":
            reject(event.delivery, *told, info=cruelty.get("info", True))
        elif what == "release":
            settle(event.delivery, Delivery.RELEASED)
        elif what == "detach":
            detach(event.link, *told)
        elif what == "drop":
            event.transport.close_tail()
            event.transport.close_head()

    def store(self, entity: str, event: Any, messages: list[Any], *, detects_duplicates: bool = False) -> None:
        lines = []
        for each in messages:
            if detects_duplicates and (entity, each["message_id"]) in self.seen:
                continue
            self.seen.add((entity, each["message_id"]))
            connection = self.numbers[event.connection]
            lines.append({"entity": entity, "transfer": self.transfers, "connection": connection, **each})
        self.keep(*lines)

    def keep(self, *lines: Any) -> None:
        """In the page cache before anybody hears of it: a kill does not lose it."""
        self.messages.write(b"".join(json.dumps(each).encode() + b"\n" for each in lines))


def entity_of(link: Any) -> str:
    """The target is a whole URL."""
    return str(link.remote_target.address if link.is_receiver else link.remote_source.address).rpartition("/")[2]


def condition(name: str, text: str, *, info: bool = True) -> Any:
    return Condition(name, text, {symbol("x"): 1} if info else None)


def detach(link: Any, name: str, text: str) -> None:
    link.condition = condition(name, text)
    link.close()


def accept(delivery: Any) -> None:
    settle(delivery, Delivery.ACCEPTED)


def settle(delivery: Any, state: Any) -> None:
    delivery.update(state)
    delivery.settle()


def reject(delivery: Any, name: str, text: str, *, info: bool = True) -> None:
    delivery.local.condition = condition(name, text, info=info)
    settle(delivery, Delivery.REJECTED)


def is_signed(token: str, key: str) -> bool:
    """Whether it is a shared access signature by that key."""
    scheme, _, rest = token.partition(" ")
    parts = {name: values[0] for name, values in urllib.parse.parse_qs(rest).items()}
    if scheme != "SharedAccessSignature" or not {"sr", "sig", "se"} <= set(parts):
        return False
    raw = dict(part.partition("=")[::2] for part in rest.split("&"))
    signed = hmac.new(key.encode(), f"{raw['sr']}\n{raw['se']}".encode(), hashlib.sha256).digest()
    return hmac.compare_digest(base64.b64encode(signed).decode(), parts["sig"])


def sections(raw: bytes) -> list[tuple[str, Any]]:
    """The parts of an encoded message; ValueError if it is none."""
    found = []
    while raw:
        data = Data()
        size = data.decode(raw)
        data.rewind()
        data.next()
        value = data.get_object()
        if not isinstance(value, Described) or int(value.descriptor) not in SECTIONS:
            raise ValueError("no section")
        found.append((SECTIONS[int(value.descriptor)], value.value))
        raw = raw[size:]
    return found


def read_messages(raw: bytes) -> list[dict[str, Any]]:
    """Those of a transfer. In a batch, each is encoded in a data section of its own."""
    parts = sections(raw)
    data = [bytes(value) for name, value in parts if name == "data"]
    if data and data[0][:2] == b"\0\x53" and not any(name == "application" for name, _ in parts):
        return [read_message(sections(each)) for each in data]
    return [read_message(parts)]


def read_message(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(parts)
    known = dict(zip(PROPERTIES, found.get("properties", ())))  # noqa: B905
    return {
        **{name: known.get(name) for name in ("message_id", "subject", "correlation_id", "content_type", "session_id")},
        "annotations": {str(name): str(value) for name, value in (found.get("annotations") or {}).items()},
        "properties": [[name, written(value)] for name, value in (found.get("application") or {}).items()],
        "body": written(bytes(found["data"])) if "data" in found else None,
    }


def written(value: Any) -> Any:
    """A text as it is, bytes in Base64, null as null."""
    if value is None or isinstance(value, str):
        return value
    return {"base64": base64.b64encode(bytes(value)).decode()}


if __name__ == "__main__":
    Container(Peer(int(sys.argv[1]), sys.argv[2], sys.argv[3:])).run()
