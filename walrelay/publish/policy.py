"""What becomes of a message that the broker refuses. The one policy so far is to stop; dead letters will stand here."""

from walrelay.errors import Refused
from walrelay.model import Refusal


def refused(refusal: Refusal) -> Refused:
    """The error that stops the relay: which record, where, why, and what to do."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in refusal.message.headers}
    return Refused(
        f"record {headers.get('id', '?')} at {headers.get('position', '?')} was refused for topic"
        f" {refusal.message.topic!r}: {refusal.reason}",
        hint=refusal.hint,
    )
