"""A Confluent Schema Registry: which schema a subject has, asked once and kept.

A payload that does not suit the schema that is kept may suit one that was registered meanwhile, so the registry is
asked again before it is refused. A schema that suits goes on being used while the registry is away.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from walrelay.certificates import Stamp, files_among, stamp_of
from walrelay.errors import Fatal, RegistryAway, SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.route.rules.schemas import PayloadSchema, SchemaRequest, subject_of
from walrelay.schemas.formats import TYPES, Encode, about_the_registry, encoder

_REFRESH = 300.0  # seconds until the registry is asked whether `latest` is still the latest
_MEMORY = 1_000  # schemas kept
_MISSING = 40400, 40499  # the registry's own codes for a subject, version or schema that is not there

_T = TypeVar("_T")


class _Kept(NamedTuple):
    encode: Encode
    number: int | None  # of the schema, in the registry
    version: int | None
    refresh_at: float


class SchemaRegistry:
    """Implements `Encoder`. Makes its connection when it is asked for the first time."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """`options`: of confluent-kafka's SchemaRegistryClient."""
        self._options = {**options, "max.retries": 0}  # the relay asks again itself, and answers PostgreSQL meanwhile
        self._where = ", ".join(_without_password(url) for url in options["url"].split(","))
        self._files = files_among(options)
        self._stamp: Stamp = ()  # of the files that the client was made with
        self._made: Any = None
        self._kept: dict[SchemaRequest, _Kept] = {}
        self._answered = False  # as a registry does
        self._refresh_at = 0.0  # not before that, after the registry did not answer

    def encoded(self, wanted: SchemaRequest, payload: bytes) -> bytes:
        """See `Encoder`."""
        kept = self._kept.get(wanted) or self._keep(wanted)
        if monotonic() > kept.refresh_at:
            kept = self._refreshed(wanted, kept)
        try:
            return self._asked(wanted, lambda: kept.encode(payload))
        except ValueError as fault:
            newer = self._keep(wanted) if _may_change(wanted) else kept
            if newer.number == kept.number:
                raise ValueError(f"{fault} ({_named(wanted, kept)})") from None
        try:
            return self._asked(wanted, lambda: newer.encode(payload))
        except ValueError as fault:
            raise ValueError(f"{fault} ({_named(wanted, newer)})") from None

    def examine(self, schemas: Iterable[tuple[PayloadSchema, str]]) -> Iterator[Finding]:
        """See `Encoder`."""
        try:
            self._asked(None, lambda: self._client().get_subjects())
        except (RegistryAway, Fatal, ValueError) as cause:
            yield Finding("schema registry", "problem", str(cause), getattr(cause, "hint", ""))
            return
        yield Finding("schema registry", "ok", f"{self._where} answers")
        for wanted in dict.fromkeys(_known(*each) for each in schemas):
            if wanted is not None:
                yield self._finding(wanted)

    def _finding(self, wanted: SchemaRequest) -> Finding:
        subject = f"subject {wanted.subject}"
        try:
            if wanted.own is not None and wanted.own.registers:
                return Finding(subject, "ok", "the relay registers its schema with its first record")
            kept = self._keep(wanted)
        except (RegistryAway, Fatal, ValueError) as cause:
            fix = getattr(cause, "hint", "") or "Register the schema; records of this subject are refused meanwhile."
            return Finding(subject, "problem", str(cause), fix)
        return Finding(subject, "ok", f"has a schema of {wanted.format}, {_of(kept)}")

    def _keep(self, wanted: SchemaRequest) -> _Kept:
        registered = self._asked(wanted, lambda: self._registered(wanted))
        before = self._kept.get(wanted)
        if before is not None and before.number == registered.schema_id:
            kept = before._replace(refresh_at=monotonic() + _REFRESH)
        else:
            encode = self._asked(wanted, lambda: encoder(wanted.format, self._client(), registered, wanted.record))
            kept = _Kept(encode, registered.schema_id, registered.version, monotonic() + _REFRESH)
        if len(self._kept) >= _MEMORY:
            self._kept.clear()
        self._kept[wanted] = kept
        return kept

    def _refreshed(self, wanted: SchemaRequest, kept: _Kept) -> _Kept:
        """The schema that is kept stays in use while the registry cannot be asked, for whatever reason: it was the
        latest. What the registry answers counts, even that the subject is gone.
        """
        if not _may_change(wanted) or monotonic() < self._refresh_at:
            return kept
        try:
            return self._keep(wanted)
        except (RegistryAway, Fatal):
            self._refresh_at = monotonic() + _REFRESH
            return kept

    def _registered(self, wanted: SchemaRequest) -> Any:
        client, kind = self._client(), TYPES[wanted.format]
        form = "serialized" if wanted.format == "protobuf" else None
        if wanted.own is not None:
            references = [each._asdict() for each in wanted.own.references]
            schema = Schema.from_dict({"schema": wanted.own.text, "schemaType": kind, "references": references})
            if not wanted.own.registers:
                found = client.lookup_schema(wanted.subject, schema)
            else:
                found = client.register_schema_full_response(wanted.subject, schema)
            return _registered(schema, wanted.subject, found.schema_id, found.version)
        if wanted.id is not None:
            number = _number("id", wanted.id)
            schema = client.get_schema(number, fmt=form)
            return _registered(schema, wanted.subject, number)
        if wanted.version == "latest":
            client.clear_latest_caches()
            return client.get_latest_version(wanted.subject, form)
        return client.get_version(wanted.subject, _number("version", wanted.version), fmt=form)

    def _client(self) -> Any:
        """Another one once its certificates were renewed: it reads them when it is made."""
        stamp = stamp_of(*self._files)
        if self._made is None or stamp != self._stamp:
            try:
                self._made, self._stamp = SchemaRegistryClient.new_client(dict(self._options)), stamp
            except (ValueError, TypeError, OSError) as cause:
                if self._made is None:
                    raise SinkError(
                        f"confluent-kafka refuses schema_registry: {cause}", hint="Correct schema_registry.options."
                    ) from cause
        return self._made

    def _asked(self, wanted: SchemaRequest | None, ask: Callable[[], _T]) -> _T:
        try:
            found = ask()
        except SchemaRegistryError as answer:
            raise self._refused(wanted, answer) from answer
        except Exception as cause:
            if isinstance(cause, WalrelayError) or type(cause) is ValueError:  # its subclasses are the client's
                raise
            why = f"{cause}" if about_the_registry(cause) else ""
            raise self._away(wanted, why or f"its answer is not understood ({type(cause).__name__})") from cause
        self._answered = True
        return found

    def _refused(self, wanted: SchemaRequest | None, answer: Any) -> Exception:
        status, code, said = answer.http_status_code, answer.error_code, f"{answer.error_message}"[:200]
        what = "" if wanted is None else _named(wanted)
        if status in (401, 403):
            return SinkError(
                f"the schema registry at {self._where} refuses walrelay{f' {what}' if what else ''}: HTTP {status}",
                hint="Set schema_registry.username and schema_registry.password, and let that user read the subject.",
            )
        if status in (408, 429) or status >= 500:
            return self._away(wanted, f"HTTP {status}: {said}")
        if status == 404 and code in range(*_MISSING):
            return ValueError(f"the schema registry has no {what}")
        if wanted is not None and status in (400, 409, 422):
            return ValueError(f"the schema registry refuses the schema of {what}: {said}")
        if self._answered:  # it was one: a proxy answers for it, for example while it is started again
            return self._away(wanted, f"HTTP {status}: {said}")
        return SinkError(
            f"what answers at {self._where} is no schema registry: HTTP {status}: {said}",
            hint="Correct schema_registry.url: it ends where /subjects follows, as in http://host:8081, or"
            " http://host:8080/apis/ccompat/v7 for Apicurio.",
        )

    def _away(self, wanted: SchemaRequest | None, why: str) -> RegistryAway:
        what = "" if wanted is None else f" for {_named(wanted)}"
        return RegistryAway(
            f"the schema registry at {self._where} cannot be asked{what}: {why}",
            hint="Start the registry, or correct schema_registry in the settings; nothing overtakes the record",
        )


def _registered(schema: Schema, subject: str, number: int, version: int | None = None) -> RegisteredSchema:
    return RegisteredSchema.from_dict({**schema.to_dict(), "subject": subject, "id": number, "version": version})


def _known(schema: PayloadSchema, topic: str) -> SchemaRequest | None:
    """What the settings name without a record, if they do."""
    if schema.fields or schema.id is not None or (schema.strategy != "record" and "*" in topic):
        return None
    subject = subject_of(schema.strategy, topic, schema.record)
    return SchemaRequest(schema.format, subject, schema.version, None, schema.record, schema.own)


def _may_change(wanted: SchemaRequest) -> bool:
    return wanted.version == "latest" and wanted.id is None and wanted.own is None


def _named(wanted: SchemaRequest, kept: _Kept | None = None) -> str:
    if wanted.id is not None:
        return f"schema id {wanted.id}"
    if kept is not None:
        return f"subject {wanted.subject!r}, {_of(kept)}"
    version = "" if wanted.version == "latest" or wanted.own is not None else f", version {wanted.version}"
    return f"subject {wanted.subject!r}{version}" + (" with the schema of the settings" if wanted.own else "")


def _of(kept: _Kept) -> str:
    return f"id {kept.number}" if kept.version is None else f"version {kept.version}, id {kept.number}"


def _number(what: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"the {what} of its schema is no number")
    return int(text)


def _without_password(url: str) -> str:
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
