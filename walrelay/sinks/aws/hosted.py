"""A sink around a service of AWS."""

from functools import partial
from math import inf

from walrelay.sinks.aws.connection import AwsConnection
from walrelay.sinks.aws.contract import AwsApi, AwsEntry
from walrelay.sinks.aws.settings import AwsSettings
from walrelay.sinks.hosting import HostedSink, PreparedMessages, RefusalMemory


def hosted(
    api: AwsApi,
    settings: AwsSettings,
    memory: RefusalMemory,
    *,
    ordered: bool = True,
) -> HostedSink:
    """`ordered`: one message of a lane is on its way at a time. Otherwise each has a lane of its own."""
    return HostedSink(
        partial(AwsConnection, api, settings, PreparedMessages[AwsEntry]()),
        settings.window._replace(seconds=inf),  # each request has its own deadline
        memory,
        api.name,
        lane_of=api.lane if ordered else lambda message: object(),
    )
