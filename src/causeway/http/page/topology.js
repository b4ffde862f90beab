// Clusters as nodes on a ring, links as arrows in the colour of their health.

import { html } from "./vendor/htm-preact.js";
import { rate, span } from "./format.js";
import { health } from "./overview.js";
import { kind } from "./table.js";

const WIDTH = 640;
const NODE = { width: 120, height: 44 };

/** Positions on a ring that fills the picture. */
function places(names) {
  const height = names.length <= 2 ? 180 : Math.min(600, 230 + 50 * names.length);
  const ring = names.map((_, at) => {
    const angle = Math.PI + (2 * Math.PI * at) / names.length;
    return { x: Math.cos(angle), y: Math.sin(angle) };
  });
  const stretch = (values, low, high) => {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const middle = (low + high) / 2;
    const even = most - least < 1e-6;
    return values.map((each) => (even ? middle : low + ((each - least) / (most - least)) * (high - low)));
  };
  const across = stretch(ring.map(({ x }) => x), 70, WIDTH - 120);
  const down = stretch(ring.map(({ y }) => y), 50, height - 50);
  return { height, found: new Map(names.map((name, at) => [name, { x: across[at], y: down[at] }])) };
}

/** The point at which the line from `from` to `to` leaves the box around `from`. */
function edge(from, to) {
  const [x, y] = [to.x - from.x, to.y - from.y];
  const scale = Math.min(
    x ? (NODE.width / 2 + 6) / Math.abs(x) : Infinity,
    y ? (NODE.height / 2 + 6) / Math.abs(y) : Infinity,
  );
  return { x: from.x + x * scale, y: from.y + y * scale };
}

/** A curve to its left, so that the arrows of both directions do not overlap. */
function way(from, to) {
  const [x, y] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(x, y) || 1;
  const bend = { x: (from.x + to.x) / 2 + (y / length) * 46, y: (from.y + to.y) / 2 - (x / length) * 46 };
  const [start, end] = [edge(from, bend), edge(to, bend)];
  return {
    path: `M${start.x},${start.y} Q${bend.x},${bend.y} ${end.x},${end.y}`,
    // Next to the arrow, on the outer side of its curve.
    label: {
      x: Math.min(WIDTH - 55, (start.x + 2 * bend.x + end.x) / 4 + (y / length) * 50),
      y: (start.y + 2 * bend.y + end.y) / 4 - (x / length) * 28,
    },
  };
}

export function Topology({ links, ranking }) {
  const names = [...new Set(links.flatMap(({ source, target }) => [source, target]))];
  const { height, found } = places(names);
  const told = links
    .map((link) => `${link.source} to ${link.target}: ${health(link)}, ${span(link.lag_ms)} behind`)
    .join("; ");
  return html`<svg class="topology" viewBox=${`0 0 ${WIDTH} ${height}`} role="group"
    aria-label=${`${names.length} clusters. ${told}`}>
    <defs>${ranking.map(kind).map(
      (state) => html`<marker id=${`tip-${state}`} class=${`tip ${state}`} viewBox="0 0 10 10" refX="8" refY="5"
        markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" /></marker>`,
    )}</defs>
    ${links.map((link) => {
      const { path, label } = way(found.get(link.source), found.get(link.target));
      const state = kind(health(link));
      return html`<a key=${link.link} href=${`#/topics?link=${encodeURIComponent(link.link)}`}
        aria-label=${`Topics of ${link.link}`}>
        <path class=${`arrow ${state} ${link.bytes_per_s > 0 ? "moves" : ""}`} d=${path}
          marker-end=${`url(#tip-${state})`} />
        <text x=${label.x} y=${label.y - 4} class="what">${rate(link.bytes_per_s)}</text>
        <text x=${label.x} y=${label.y + 13} class="what faint behind">${span(link.lag_ms)} behind</text></a>`;
    })}
    ${names.map((name) => {
      const { x, y } = found.get(name);
      return html`<g key=${name} class="node"><rect x=${x - NODE.width / 2} y=${y - NODE.height / 2}
          width=${NODE.width} height=${NODE.height} rx="10" />
        <text x=${x} y=${y + 5}>${name.length > 14 ? `${name.slice(0, 13)}…` : name}<title>${name}</title></text></g>`;
    })}
  </svg>`;
}
