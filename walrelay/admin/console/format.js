// Numbers, sizes and times as people read them. Pure.

const DASH = "–";

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

const grouped = new Intl.NumberFormat("en-US");

export function count(value) {
  return isNumber(value) ? grouped.format(Math.round(value)) : DASH;
}

// 12,345 as 12.3k where there is little room.
export function short(value) {
  if (!isNumber(value)) return DASH;
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) {
      const scaled = value / (unit === "k" ? 1e3 : size);
      return `${scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)}${unit}`;
    }
  }
  return grouped.format(Math.abs(value) >= 10 || Number.isInteger(value) ? Math.round(value) : Number(value.toFixed(1)));
}

export function bytes(value) {
  if (!isNumber(value)) return DASH;
  let scaled = value;
  for (const unit of ["B", "kB", "MB", "GB", "TB", "PB"]) {
    if (Math.abs(scaled) < 1000 || unit === "PB") {
      return `${unit === "B" || Math.abs(scaled) >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${unit}`;
    }
    scaled /= 1000;
  }
  return DASH;
}

export function rate(value) {
  return isNumber(value) ? `${short(value)}/s` : DASH;
}

// 0.8 s, 45 s, 3 min 20 s, 3 h 20 min, 2 d 4 h
export function duration(seconds) {
  if (!isNumber(seconds)) return DASH;
  const s = Math.max(0, seconds);
  if (s === 0) return "0 s";
  if (s < 0.0001) return "< 0.1 ms";
  if (s < 1) return s < 0.1 ? `${s < 0.01 ? (s * 1000).toFixed(1) : Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`;
  if (s < 10) return `${Number(s.toFixed(1))} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return pair(s, 60, "min", 1, "s");
  if (s < 86400) return pair(s, 3600, "h", 60, "min");
  if (s < 86400 * 365) return pair(s, 86400, "d", 3600, "h");
  return "more than a year";
}

function pair(s, big, bigUnit, small, smallUnit) {
  const whole = Math.floor(s / big);
  const rest = Math.floor((s - whole * big) / small);
  return whole < 10 && rest ? `${whole} ${bigUnit} ${rest} ${smallUnit}` : `${whole} ${bigUnit}`;
}

export function moment(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

// The seconds between two times, to the microsecond, which a Date does not have; null where one is not known.
export function between(from, to) {
  const [a, b] = [exactly(from), exactly(to)];
  return a === null || b === null ? null : b - a;
}

function exactly(value) {
  const date = moment(value);
  if (!date) return null;
  const fraction = /\.(\d+)/.exec(String(value));
  return fraction && typeof value === "string" ? Math.floor(date.getTime() / 1000) + Number(`0.${fraction[1]}`) : date.getTime() / 1000;
}

export function ago(value, now = Date.now()) {
  const date = moment(value);
  if (!date) return DASH;
  const seconds = (now - date.getTime()) / 1000;
  if (Math.abs(seconds) < 1.5) return "now";
  return seconds > 0 ? `${duration(Math.floor(seconds))} ago` : `in ${duration(Math.ceil(-seconds))}`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export function clock(value, { millis = false } = {}) {
  const date = moment(value);
  if (!date) return DASH;
  return millis ? `${clockTime.format(date)}.${String(date.getMilliseconds()).padStart(3, "0")}` : clockTime.format(date);
}

export function absolute(value) {
  const date = moment(value);
  return date ? `${day.format(date)}, ${clock(value)}` : DASH;
}

// "12:03" today, with the day otherwise.
export function since(value) {
  const date = moment(value);
  if (!date) return DASH;
  const today = new Date().toDateString() === date.toDateString();
  return today ? shortTime.format(date) : `${day.format(date)}, ${shortTime.format(date)}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// A key is text, {base64: ...} or null.
export function shownKey(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "object" && typeof value.base64 === "string") return `base64 ${value.base64}`;
  return JSON.stringify(value);
}
