// The last hours as charts with one cursor, one question and one table for those who do not see them.

import { useAsked, at } from "./api.js";
import { bytes, clock, count, duration, isNumber, rate } from "./format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { useStore } from "./store.js";
import { colours } from "./themes.js";
import { Asked, Empty, Section } from "./ui.js";
import uPlot from "./vendor/uplot/uPlot.esm.js";

const RANGES = [[15, "15 min"], [60, "1 h"], [360, "6 h"], [1440, "24 h"]];
const CHARTS = [
  { title: "Events a second", shown: rate, series: [["published_per_second", "published", "--chart-1"]] },
  { title: "Behind", shown: duration, series: [["lag_seconds", "age of the oldest event", "--chart-1"]] },
  { title: "WAL", shown: bytes, series: [["retained_bytes", "held", "--chart-1"], ["safe_bytes", "safe yet", "--chart-2"]] },
  { title: "Commit to receipt", shown: duration, series: [["latency_p50", "p50", "--chart-1"], ["latency_p99", "p99", "--chart-2"]] },
  { title: "In flight", shown: count, whole: true, series: [["in_flight", "messages", "--chart-1"]] },
  { title: "Dead letters", shown: count, whole: true, series: [["dead_letters", "open", "--chart-3"]] },
];
const WHOLE = [1, 2, 5].flatMap((each) => [0, 1, 2, 3, 4, 5, 6].map((power) => each * 10 ** power)).sort((a, b) => a - b);
const HEIGHT = 132;
const ROWS = 30; // of the table

export function Charts({ relay }) {
  const [minutes, setMinutes] = useState(60);
  const asked = useAsked(at(relay, "/history"), { query: { minutes }, every: minutes > 60 ? 30 : 5 });
  const [table, setTable] = useState(false);
  const aside = html`<fieldset class="segmented"><legend class="hidden">Range of the charts</legend>
      ${RANGES.map(([value, label]) => html`<label key=${value}><input type="radio" name="range" checked=${minutes === value}
        onChange=${() => setMinutes(value)} /><span>${label}</span></label>`)}
    </fieldset>
    <button type="button" class="button small" aria-pressed=${table ? "true" : "false"} onClick=${() => setTable(!table)}>As a table</button>`;
  return html`<${Section} title="The last hours" id="charts" aside=${aside}>
    <${Asked} asked=${asked} what="Asking for the last hours">${(told) => (told.at.length < 2
      ? html`<${Empty} title="Nothing was measured yet">It is collected from now on, by this process of <code>walrelay admin</code>.<//>`
      : table ? html`<${Numbers} told=${told} />`
      : html`<div class="charts">${CHARTS.map((each) => html`<${Chart} key=${each.title} chart=${each} told=${told} group=${relay} minutes=${minutes} />`)}</div>`)}<//>
  <//>`;
}

function Chart({ chart, told, group, minutes }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [pointed, setPointed] = useState(null);
  const { turn } = useStore(colours);
  const data = useMemo(() => [told.at, ...chart.series.map(([name]) => told.series[name] ?? told.at.map(() => null))], [told]);
  const latest = useRef(data);
  latest.current = data;

  useLayoutEffect(() => {
    const made = new uPlot(options(chart, group, place.current.clientWidth, setPointed), latest.current, place.current);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: place.current.clientWidth, height: HEIGHT }));
    watcher.observe(place.current);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [turn, group]);
  useEffect(() => plot.current?.setData(data), [data]);

  const index = pointed ?? data[0].length - 1;
  const values = data.slice(1).map((each) => each[index] ?? null);
  return html`<figure class="chart">
    <figcaption>
      <span class="chart-title">${chart.title}</span>
      <span class="chart-values num">
        ${chart.series.map(([, label, colour], number) => html`<span class=${`key key${colour}`}>${chart.series.length > 1 ? `${label} ` : ""}<b>${chart.shown(values[number])}</b></span>`)}
        ${pointed !== null && html`<span class="faint">${clock(data[0][index])}</span>`}
      </span>
    </figcaption>
    <div class="plot" ref=${place} aria-hidden="true"></div>
    <p class="hidden">${inWords(chart, data, minutes)}</p>
  </figure>`;
}

function options(chart, group, width, setPointed) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const font = `11px ${style.getPropertyValue("--font")}`;
  const axis = { stroke: colour("--muted"), font, ticks: { show: false }, grid: { stroke: colour("--grid"), width: 1 } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: `walrelay ${group}` }, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 64, values: (_, ticks, axis, space, step) => ticks.map((each) => clock(each).slice(0, step < 60 ? 8 : 5)) },
      { ...axis, size: 58, space: 28, ...(chart.whole ? { incrs: WHOLE } : {}), values: (_, ticks) => ticks.map((each) => (each === 0 ? "0" : chart.shown(each).replace("/s", ""))) },
    ],
    series: [
      {},
      ...chart.series.map(([, label, name], number) => ({
        label, stroke: colour(name), width: 1.5, spanGaps: false, points: { show: false },
        fill: number === 0 ? `${colour(name)}1f` : undefined,
      })),
    ],
    hooks: { setCursor: [(plot) => setPointed(plot.cursor.idx ?? null)] },
  };
}

function inWords(chart, data, minutes) {
  const parts = chart.series.map(([, label], number) => {
    const known = data[number + 1].filter(isNumber);
    if (!known.length) return `${label}: not known`;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return `${label}: between ${chart.shown(low)} and ${chart.shown(high)}, at last ${chart.shown(known.at(-1))}`;
  });
  return `${chart.title} in the last ${RANGES.find(([value]) => value === minutes)[1]}. ${parts.join("; ")}.`;
}

function Numbers({ told }) {
  const step = Math.max(1, Math.ceil(told.at.length / ROWS));
  const rows = told.at.map((_, index) => index).filter((index) => (told.at.length - 1 - index) % step === 0).reverse();
  const columns = CHARTS.flatMap((chart) => chart.series.map(([name, label]) => [name, chart.series.length > 1 ? `${chart.title}: ${label}` : chart.title, chart.shown]));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The numbers of the charts"><table class="plain">
    <thead><tr><th scope="col">Time</th>${columns.map(([, label]) => html`<th scope="col" class="right">${label}</th>`)}</tr></thead>
    <tbody>${rows.map((index) => html`<tr key=${told.at[index]}>
      <th scope="row" class="num">${clock(told.at[index])}</th>
      ${columns.map(([name, , shown]) => html`<td class="right num">${shown(told.series[name]?.[index] ?? null)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}
