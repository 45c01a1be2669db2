"""Whether librdkafka knows an option: asked of the library itself, which no list of names would keep up with."""

import logging
import re

from confluent_kafka import KafkaError, KafkaException, Producer

# Of the option alone; what else it complains of may be for want of another one.
_OF_THE_OPTION = re.compile(
    r"No such configuration property|Invalid value|Configuration property \S+ value \S* is outside"
)

_SILENT = logging.Logger("librdkafka")
_SILENT.addHandler(logging.NullHandler())


def unknown(name: str, value: bool | int | float | str) -> str:
    """Why it cannot be, with that value, an option of a producer; empty where it can. Connects to nothing."""
    try:
        Producer({"log_level": 0, name: value}, logger=_SILENT)
    except (KafkaException, TypeError, ValueError) as cause:
        error = cause.args[0] if cause.args else cause
        text = error.str().strip() if isinstance(error, KafkaError) else str(error)
        return f"{name}: librdkafka says: {text}" if _OF_THE_OPTION.match(text) else ""
    return ""
