// Formats numbers for people; `–` is an unknown value.

const grouped = new Intl.NumberFormat("en");

export const number = (value) => (value == null ? "–" : grouped.format(Math.round(value)));

export function size(value) {
  if (value == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const rate = (value) => (value == null ? "–" : `${size(value)}/s`);

/** A span of milliseconds in its two leading units. */
export function span(ms) {
  if (ms == null) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (ms) => (ms == null ? "–" : new Date(ms).toLocaleTimeString());

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
