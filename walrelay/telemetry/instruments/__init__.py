"""The metrics. Exporters and docs/metrics.md are made from this one list."""

from walrelay.telemetry.instruments.of_kafka import OF_KAFKA
from walrelay.telemetry.instruments.of_postgres import OF_POSTGRES
from walrelay.telemetry.instruments.of_relays import OF_RELAYS
from walrelay.telemetry.instruments.reading import Instrument, RelayView, Sample

INSTRUMENTS: tuple[Instrument, ...] = (*OF_RELAYS, *OF_KAFKA, *OF_POSTGRES)

__all__ = ["INSTRUMENTS", "Instrument", "RelayView", "Sample"]
