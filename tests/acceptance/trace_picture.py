"""Draws the spans of a trace, one below the other, with the events of each."""

from collections.abc import Callable, Sequence
from html import escape

from opentelemetry.proto.trace.v1.trace_pb2 import Span

_LEFT, _WIDTH, _ROW = 250, 600, 64
_COLOURS = ("#54aeff", "#4ac26b", "#c297ff")
_WHO = ("writer", "relay", "consumer")


def draw(spans: Sequence[Span]) -> str:
    """The spans of writer, relay and consumer, in this order."""
    begin = min(span.start_time_unix_nano for span in spans)
    scale = _WIDTH / max(1, max(span.end_time_unix_nano for span in spans) - begin)

    def place(at: int) -> float:
        return round(_LEFT + (at - begin) * scale, 1)

    height = len(spans) * _ROW + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 70} {height}"'
        ' font-family="ui-sans-serif, system-ui, \'DejaVu Sans\', sans-serif" font-size="12">',
        "  <title>One trace: a request that writes an event, the relay that publishes it, and its consumer</title>",
        f'  <rect width="{_LEFT + _WIDTH + 70}" height="{height}" fill="#ffffff"/>',
    ]
    for row, (span, who, colour) in enumerate(zip(spans, _WHO, _COLOURS, strict=True)):
        top, left = 20 + row * _ROW, place(span.start_time_unix_nano)
        width = max(3.0, place(span.end_time_unix_nano) - left)
        took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
        name, _, _ = span.name.partition("-")
        parts += [
            f'  <text x="16" y="{top + 10}" font-weight="600" fill="#1f2328">{who}</text>',
            f'  <text x="16" y="{top + 26}" fill="#57606a">{escape(name)}</text>',
            f'  <rect x="{left}" y="{top}" width="{width}" height="14" rx="3" fill="{colour}"/>',
            f'  <text x="{left + width + 6}" y="{top + 11}" fill="#57606a">{took:.1f} ms</text>',
        ]
        parts += _events(span, top, place)
    axis = height - 26
    total = _WIDTH / scale / 1e6
    parts.append(f'  <path d="M{_LEFT} {axis}H{_LEFT + _WIDTH}" stroke="#8c959f"/>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _LEFT + share * _WIDTH
        parts.append(
            f'  <text x="{x}" y="{axis + 16}" text-anchor="middle" fill="#57606a">{total * share:.0f} ms</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _events(span: Span, top: int, place: Callable[[int], float]) -> list[str]:
    """Marks below the bar; names that would cover each other share one."""
    found: list[tuple[float, list[str]]] = []
    for event in span.events:
        x = place(event.time_unix_nano)
        if found and x - found[-1][0] < 60:
            found[-1][1].append(event.name)
        else:
            found.append((x, [event.name]))
    parts = []
    for x, names in found:
        parts.append(f'  <path d="M{x} {top - 3}V{top + 20}" stroke="#1f2328"/>')
        parts.append(f'  <text x="{x}" y="{top + 33}" fill="#1f2328">{", ".join(names)}</text>')
    return parts
