// Throughput and lag of each link over the last hours, drawn by uPlot.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, query } from "./api.js";
import { number, rate, span } from "./format.js";

const RANGES = [[15, "15 min"], [60, "1 h"], [360, "6 h"]];
const COLOURS = ["#0b84a5", "#e08214", "#7b3fa0", "#4d9221", "#c2185b", "#6f4e37", "#1f4e9c", "#8c8c00"];
const CHARTS = [
  ["Throughput", "bytes_per_s", rate],
  ["Lag in records", "lag_records", number],
  ["Lag in time (RPO)", "lag_ms", span],
];
const EVERY_MS = 5000;

function useHistory(minutes) {
  const [series, setSeries] = useState([]);
  useEffect(() => {
    let timer;
    const controller = new AbortController();
    const look = async () => {
      if (!document.hidden) {
        const since = Date.now() - minutes * 60000;
        try {
          const path = query("/history", { since_ms: Math.max(0, since), points: 600 });
          setSeries((await ask(path, { signal: controller.signal })).series);
        } catch {
          // The overview polls too, and reports the error.
        }
      }
      if (!controller.signal.aborted) timer = setTimeout(look, EVERY_MS);
    };
    look();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [minutes]);
  return series;
}

export function Charts({ links }) {
  const [minutes, setMinutes] = useState(15);
  const series = useHistory(minutes);
  return html`<section aria-label="History">
    <div class="bar"><h2>History</h2>
      <span class="choice" role="group" aria-label="How far back">${RANGES.map(
        ([each, text]) => html`<button class="quiet" aria-pressed=${each === minutes}
          onClick=${() => setMinutes(each)}>${text}</button>`,
      )}</span>
      <span class="legend">${links.map(
        (link, at) => html`<span><i class=${`line line-${at % COLOURS.length}`}></i>${link}</span>`,
      )}</span></div>
    <div class="charts">${CHARTS.map(([title, field, shown]) => html`<${Chart} key=${field} title=${title}
      field=${field} shown=${shown} series=${series} links=${links} />`)}</div>
  </section>`;
}

/** The points of all links on one time axis, in the form that uPlot needs. */
function joined(series, links, field) {
  const times = [...new Set(series.flatMap((each) => each.at_ms))].sort((a, b) => a - b);
  const columns = links.map((link) => {
    const own = series.find((each) => each.link === link);
    const values = new Map(own?.at_ms.map((at, n) => [at, own[field][n]]));
    return times.map((at) => values.get(at) ?? null);
  });
  return [times.map((at) => at / 1000), ...columns];
}

/** Ticks with the same label get only one label. */
const once = (texts) => texts.map((each, at) => (at > 0 && each === texts[at - 1] ? "" : each));

function Chart({ title, field, shown, series, links }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const changed = () => setTheme((n) => n + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", changed);
    media.addEventListener("change", changed);
    return () => {
      removeEventListener("themechange", changed);
      media.removeEventListener("change", changed);
    };
  }, []);
  useEffect(() => {
    const style = getComputedStyle(place.current);
    const [ink, grid] = [style.color, style.getPropertyValue("--line")];
    const clock = (_, ticks) =>
      ticks.map((at) =>
        new Date(at * 1000).toLocaleTimeString("en-GB", {
          hour: "2-digit",
          minute: "2-digit",
          second: ticks.length > 1 && ticks[1] - ticks[0] < 60 ? "2-digit" : undefined,
        }),
      );
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const options = {
      width: place.current.clientWidth,
      height: 180,
      legend: { show: false },
      cursor: { y: false },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 80, values: clock }, { ...axis, size: 78, values: (_, ticks) => once(ticks.map(shown)) }],
      series: [
        {},
        ...links.map((link, at) => ({
          label: link,
          stroke: COLOURS[at % COLOURS.length],
          width: 2,
          spanGaps: false,
          points: { show: false },
        })),
      ],
    };
    plot.current = new window.uPlot(options, joined(series, links, field), place.current);
    const watch = new ResizeObserver(() => {
      plot.current.setSize({ width: place.current.clientWidth, height: 180 });
    });
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
    };
  }, [links.join(" "), theme]);
  useEffect(() => plot.current.setData(joined(series, links, field)), [series]);
  const last = links.map((link) => {
    const own = series.find((each) => each.link === link);
    return own?.at_ms.length ? `${link} ${shown(own[field][own[field].length - 1])}` : `${link} –`;
  });
  return html`<figure class="card"><figcaption>${title}</figcaption>
    <div ref=${place} class="plot" role="img" aria-label=${`${title}, now: ${last.join(", ")}`}></div></figure>`;
}
