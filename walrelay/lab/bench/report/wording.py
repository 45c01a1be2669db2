"""How names and numbers read, the same in the terminal, in charts and on the page."""

import math
import re

UNKNOWN = "–"

_POLLING = re.compile(r"polling-(\d+(?:\.\d+)?)(ms|s)")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=m?s\b)")
_LABELS = {
    "polling-backoff": "polling with back-off",
    "polling-notify": "polling on NOTIFY",
    "limit": "pg_recvlogical",
    "null": "walrelay → nothing",
    "mock": "walrelay → mock Kafka",
    "kafka": "walrelay → Kafka",
    "wal2json": "walrelay → mock, wal2json",
    "polling": "polling → mock Kafka",
}
_BYTES = (("GB", 2**30), ("MB", 2**20), ("KB", 2**10))


def interval(strategy: str) -> str | None:
    """ "100 ms" for polling-100ms; None for what does not poll."""
    found = _POLLING.fullmatch(strategy)
    return f"{found[1]} {found[2]}" if found else None


def label(name: str) -> str:
    """Of a strategy or a reader: "polling every 100 ms" for polling-100ms; a name that is not known as it is."""
    every = interval(name)
    return f"polling every {every}" if every else _LABELS.get(name, name)


def spoken(strategy: str) -> str:
    """The label as it stands in a sentence."""
    return "polling every second" if strategy == "polling-1s" else label(strategy)


def is_ours(name: str) -> bool:
    """Of walrelay, and not of what it is compared with."""
    return label(name).startswith("walrelay")


def duration(ms: float | None) -> str:
    """With its unit: "0.43 ms", "1.4 ms", "55 ms", "2.5 s"."""
    if ms is None or not math.isfinite(ms):
        return UNKNOWN
    if abs(ms) < 999.5:
        return f"{_rounded(ms, 9.95)} ms"
    return f"{_rounded(ms / 1000, 99.95)} s"


def tick(ms: float) -> str:
    """A round latency on an axis: "0.1 ms", "10 s"."""
    return f"{ms / 1000:,.6g} s" if ms >= 999 else f"{ms:.6g} ms"


def number(value: float | None) -> str:
    """For a column whose head has the unit: "0", "0.43", "1.4", "55.2", "2,510"."""
    return UNKNOWN if value is None or not math.isfinite(value) else _rounded(value, 99.95)


def size(value: float | None) -> str:
    """Bytes: "0", "512 B", "1.2 MB"; 1 KB is 1,024 bytes."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit, factor in _BYTES:
        if abs(value) >= factor:
            return f"{_rounded(value / factor, 9.95)} {unit}"
    return f"{value:,.0f} B".replace("-", "−") if round(value) else "0"


def tied(text: str) -> str:
    """No line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def times(ratio: float | None) -> str:
    """ "0.8×", "3.2×", "366×"."""
    return UNKNOWN if ratio is None else f"{_rounded(ratio, 9.95)}×"


def cpu_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _rounded(value: float, whole_from: float) -> str:
    """Without decimals from `whole_from` on, with two below 1, with a true minus sign."""
    if value == 0:
        return "0"
    decimals = 0 if abs(value) >= whole_from else 1 if abs(value) >= 0.995 else 2
    text = f"{value:,.{decimals}f}"
    return "0" if not text.strip("-0.") else text.replace("-", "−")
