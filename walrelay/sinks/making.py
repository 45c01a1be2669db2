"""The command that makes what a message goes to, as advice of a sink."""

import shlex


def init_topics(topic: str, *, exact: bool = False) -> str:
    """To be pasted into a shell: `walrelay init --topics TOPIC`. `exact`: for a topic that a row named. Empty where the
    command cannot name the topic.
    """
    if not topic or not topic.isprintable() or topic.strip(" ") != topic or "," in topic:
        return ""
    return f"walrelay init --topics {shlex.quote(topic)}{' --exact' if exact else ''}"


def making(topic: str, otherwise: str) -> str:
    """The fix of a finding: the command, and what may be done instead as a comment behind it."""
    command = init_topics(topic)
    return f"{command}\n# or {otherwise}" if command else f"{otherwise[:1].upper()}{otherwise[1:]}."
