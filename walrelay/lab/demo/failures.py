"""What a relay that ended had to say."""

import json

from walrelay.errors import Fatal
from walrelay.lab.servers.backstage import Child


def relay_failure(relay: Child) -> Fatal:
    """Its own last words and its hint; the end of its log where it left none."""
    for line in reversed(relay.log().splitlines()):
        try:
            event = json.loads(line)
            return Fatal(f"the relay ended: {event['error']}", hint=event["hint"])
        except (ValueError, LookupError, TypeError):
            continue
    return relay.failure("ended")
