"""Makes Grafana's form of the panels: python deploy/grafana/make.py > deploy/grafana/walrelay.json"""

import json
import sys
from pathlib import Path

import yaml

PANELS = Path(__file__).with_name("panels.yaml")
RELAYS = '{job=~"$job", slot=~"$slot"}'
HEIGHTS = {"stat": 4}  # others are 8 high, of a screen's 20
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OPTIONS = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
    "heatmap": {"calculate": False, "yAxis": {"unit": "s"}, "color": {"scheme": "Oranges", "mode": "scheme"}},
    "state-timeline": {"showValue": "never", "mergeValues": True},
    "table": {"showHeader": True},
}


def target(place, query, kind):
    """A query, as an object of one member: its legend."""
    ((legend, expression),) = query.items()
    once = kind in ("table", "stat")
    return {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expression.replace("{of}", RELAYS),
        "legendFormat": legend,
        "instant": once,
        "range": not once,
        "format": {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series"),
    }


def panel(title, meaning, kind, queries, unit="none", steps=None, **_):
    """Without its place."""
    colours = sorted((steps or {}).items())
    first = colours.pop(0)[1] if colours and not colours[0][0] else "green"
    steps = [{"color": first, "value": None}, *({"color": colour, "value": value} for value, colour in colours)]
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if kind == "stat":
        defaults["color"] = {"mode": "thresholds"}
    if kind == "timeseries":
        defaults |= {"min": 0, "custom": {"thresholdsStyle": {"mode": "line" if colours else "off"}}}
    made = {
        "type": kind,
        "title": title,
        "description": meaning,
        "datasource": SOURCE,
        "targets": [target(place, query, kind) for place, query in enumerate(queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS[kind],
    }
    if kind == "table":
        hidden = {"Time": True, "Value": unit == "none"}
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return made


def placed(rows):
    """All panels, from left to right and from top to bottom."""
    found, top = [], 0
    for row in rows:
        place = {"h": 1, "w": 24, "x": 0, "y": top}
        found.append({"type": "row", "title": row["row"], "collapsed": False, "panels": [], "gridPos": place})
        top, left, height = top + 1, 0, 0
        for each in row["panels"]:
            if left + each["width"] > 24:
                top, left, height = top + height, 0, 0
            own = HEIGHTS.get(each["kind"], 8)
            found.append(panel(**each) | {"gridPos": {"h": own, "w": each["width"], "x": left, "y": top}})
            left, height = left + each["width"], max(height, own)
        top += height
    return [{"id": number} | each for number, each in enumerate(found, 1)]


def variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard():
    return {
        "uid": "walrelay",
        "title": "walrelay",
        "tags": ["walrelay", "outbox"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                variable("job", "Job", "label_values(walrelay_state, job)"),
                variable("slot", "Slot", 'label_values(walrelay_state{job=~"$job"}, slot)'),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": placed(yaml.safe_load(PANELS.read_text())),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n")
