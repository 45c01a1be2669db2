"""Questions to AWS that the doctor has, and `walrelay init --topics`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.aws.answers import verdict
from walrelay.sinks.aws.client import AbortableConnections, make_client, no_credentials, renew_credentials
from walrelay.sinks.aws.contract import AwsApi
from walrelay.sinks.aws.settings import AwsSettings
from walrelay.sinks.hosting.threads import in_time
from walrelay.sinks.making import making

_LATE = 5.0  # seconds beyond what the settings allow, until which nothing more is waited for
_REACH = "Correct sink.region or sink.endpoint_url, or look at the network."
_CREDENTIALS = "Correct sink.access_key_id and its like, sink.profile, or the environment of AWS."


def known_places(text: str, topics: Sequence[str]) -> dict[str, str]:
    """Where messages go by that template, as far as it is known beforehand, each with a topic that goes there."""
    return AddressTemplate(text).of_topics(topics)


def findings(
    api: AwsApi,
    settings: AwsSettings,
    places: Mapping[str, str],
    ask: Callable[[Any, str], Iterable[Finding]],
    fault: Callable[[str], str],
    otherwise: str,
    hello: Callable[[Any], object],
) -> Iterator[Finding]:
    """What `ask` finds about each place that is none by `fault`. `otherwise`: what may be done instead of making it.
    `hello` asks for something where no place is known.
    """
    connections = AbortableConnections(settings.request_timeout)
    try:
        client = _client(api, settings, connections)
        yield from _told_by(api, client, places, ask, fault, otherwise)
        if not places:
            yield from _greeted(api, client, hello)
    except WalrelayError as why:
        yield Finding("sink", "problem", str(why), getattr(why, "hint", "") or _CREDENTIALS)
    finally:
        connections.abort()


def _client(api: AwsApi, settings: AwsSettings, connections: AbortableConnections) -> Any:
    """With credentials. Retryable where they do not come in time."""

    def made() -> Any:
        client = make_client(api, settings, connections)
        renew_credentials(client, connections)
        return client

    try:
        return in_time(settings.request_timeout + _LATE, made)
    except TimeoutError:
        raise Retryable(no_credentials(settings.request_timeout)) from None


def _greeted(api: AwsApi, client: Any, hello: Callable[[Any], object]) -> Iterator[Finding]:
    """Of a service that no place is known of: whether it answers, and accepts the credentials."""
    try:
        hello(client)
    except ClientError as why:
        error = why.response["Error"]
        status = why.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        said = verdict(error.get("Code", ""), error.get("Message", ""), status=status)
        if said.kind != "refused":
            yield _told(api, api.name, why, "")[0]
            return
        if said.error != "not_authorized":
            yield Finding("sink", "warning", f"{api.name} answers a question with {why}", said.hint)
            return
    except BotoCoreError as why:
        yield Finding("sink", "problem", f"{api.name} cannot be asked: {why}", _REACH)
        return
    what = f"{api.name} answers, and accepts the credentials; where messages go is known when they come"
    yield Finding("sink", "ok", what)


def _told_by(
    api: AwsApi,
    client: Any,
    places: Mapping[str, str],
    ask: Callable[[Any, str], Iterable[Finding]],
    fault: Callable[[str], str],
    otherwise: str,
) -> Iterator[Finding]:
    for place, topic in places.items():
        if why_not := fault(place):
            yield Finding("sink", "problem", f"{place!r} cannot be used: {why_not}", making("", otherwise))
            continue
        try:
            yield from ask(client, place)
        except ClientError as why:
            finding, goes_on = _told(api, place, why, making(topic, otherwise))
            yield finding
            if not goes_on:
                return
        except BotoCoreError as why:
            yield Finding("sink", "problem", f"{api.name} cannot be asked: {why}", _REACH)
            return


def made(
    api: AwsApi, settings: AwsSettings, places: Iterable[str], make: Callable[[Any, str], bool]
) -> Iterator[tuple[str, bool]]:
    """Each place, and whether `make` made it now."""
    connections = AbortableConnections(settings.request_timeout)
    try:
        client = _client(api, settings, connections)
        for place in places:
            try:
                yield place, make(client, place)
            except (BotoCoreError, ClientError) as why:
                raise SinkError(f"{api.name} did not make {place!r}: {why}", hint="Make it yourself.") from why
    finally:
        connections.abort()


def is_missing(why: ClientError) -> bool:
    """Whether that says that something does not exist."""
    error = why.response["Error"]
    return verdict(error.get("Code", ""), error.get("Message", "")).error == "unknown_topic"


def _told(api: AwsApi, place: str, why: ClientError, fix: str) -> tuple[Finding, bool]:
    error = why.response["Error"]
    status = why.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    said = verdict(error.get("Code", ""), error.get("Message", ""), status=status)
    if said.error == "unknown_topic":
        return Finding("sink", "problem", f"{place!r} does not exist", fix), True
    if said.kind == "away":
        return Finding("sink", "problem", f"{api.name} does not accept the credentials: {why}", _CREDENTIALS), False
    return Finding("sink", "warning", f"{place!r} cannot be asked about: {why}", said.hint), True
