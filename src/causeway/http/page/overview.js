// The overview: state, problems, topology, and charts of the last hours.

import { html } from "./vendor/htm-preact.js";
import { Acts } from "./acts.js";
import { Charts } from "./charts.js";
import { count, number, rate, span } from "./format.js";
import { useLive } from "./live.js";
import { FINE, kind, State } from "./table.js";
import { Topology } from "./topology.js";

const SHOWN = 8; // lines
const TROUBLED = "state=stopped&state=failed&state=paused";

/** The worst state of a link, for its colour. */
export function health(link) {
  if (link.worst === "source unavailable") return "failed";
  if (link.role === "failed") return "failed";
  if (link.role !== "leading" || !link.planned) return "waiting";
  if (!FINE.includes(link.worst)) return link.worst;
  return link.problems || link.tasks_failing ? "recovering" : "running";
}

export function Overview({ overview }) {
  return html`<${Verdict} overview=${overview} />
    <div class="columns">
      <div class="stack"><section class="card" aria-labelledby="topology"><h2 id="topology">Clusters and links</h2>
        <${Topology} links=${overview.links} ranking=${overview.ranking} /></section><${Wrong} /><${Directives} /><${Aggregates} /></div>
      <div class="stack">${overview.links.map((link) => html`<${LinkCard} key=${link.link} link=${link} ranking=${overview.ranking} />`)}</div>
    </div>
    <${Charts} links=${overview.links.map(({ link }) => link)} />`;
}

function Verdict({ overview }) {
  const wrong = [];
  for (const link of overview.links) {
    if (link.role !== "leading") wrong.push(`${link.link} is ${link.role}${link.reason ? `: ${link.reason}` : ""}`);
    else if (["source unavailable", "promoting", "promoted", "failed over"].includes(link.state)) {
      wrong.push(`${link.link}: ${link.state}`);
    } else if (!link.planned) wrong.push(`${link.link} reads its topics`);
  }
  const sum = (state) => overview.links.reduce((all, link) => all + (link.states[state] ?? 0), 0);
  const ended = ["promoting", "promoted", "failed over"]; // states of the link, if all of its partitions have them
  for (const state of overview.ranking.filter((each) => !FINE.includes(each) && !ended.includes(each))) {
    if (sum(state)) wrong.push(`${count(sum(state), "partition")} ${state}`);
  }
  const problems = overview.links.reduce((all, link) => all + link.problems, 0);
  if (problems) wrong.push(count(problems, "problem"));
  const failing = overview.links.reduce((all, link) => all + link.tasks_failing, 0);
  if (failing) wrong.push(`${count(failing, "task")} failing`);
  if (overview.lanes < overview.lanes_wanted) {
    wrong.push(`${overview.lanes} of ${count(overview.lanes_wanted, "lane")}`);
  }
  if (overview.lane_trouble) wrong.push(`a lane ended: ${overview.lane_trouble}`);
  const { reload } = overview;
  if (reload?.pending) wrong.push(`the changed file is not in force${reload.reason ? `: ${reload.reason}` : ""}`);
  if (overview.draining) wrong.push("the run is draining");
  const worst = overview.links.some((link) => ["stopped", "failed"].includes(health(link)));
  const topics = overview.links.reduce((all, link) => all + link.topics, 0);
  const partitions = overview.links.reduce((all, link) => all + link.partitions, 0);
  return html`<section class=${`verdict ${worst ? "failed" : wrong.length ? "recovering" : "running"}`}
      role="status" aria-label="Verdict">
    <h1>${wrong.length ? wrong.join(" · ") : "All topics are mirrored"}</h1>
    <p>${count(topics, "topic")}, ${count(partitions, "partition")} on
      ${" "}${count(overview.lanes, "lane")}</p>
  </section>`;
}

function LinkCard({ link, ranking }) {
  const states = ranking.filter((state) => link.states[state]);
  const paused = link.partitions > 0 && link.states.paused === link.partitions;
  return html`<section class="card link" aria-label=${`Link ${link.link}`}>
    <div class="bar"><h2><span class=${`dot ${kind(health(link))}`} aria-hidden="true"></span>${link.link}</h2>
      <span class="faint">${link.state === "mirroring" ? link.role : link.state}</span>
      <${Acts} scope=${{ link: link.link }} paused=${paused} leads=${link.role === "leading"}
        stopped=${Boolean(link.states.stopped || link.states.failed)} /></div>
    ${link.reason && html`<p class="reason">${link.reason}</p>`}
    <dl>
      <div><dt>Throughput</dt><dd>${rate(link.bytes_per_s)}</dd><dd class="faint">${number(link.records_per_s)} records/s</dd></div>
      <div><dt>Lag</dt><dd>${number(link.lag_records)}</dd><dd class="faint">records</dd></div>
      <div><dt>RPO now</dt><dd>${span(link.lag_ms)}</dd><dd class="faint">if the source failed now</dd></div>
      <div><dt>Topics</dt><dd>${number(link.topics)}</dd><dd class="faint">${count(link.groups, "group")}</dd></div>
    </dl>
    <div class="states" role="img" aria-label=${states.map((state) => `${link.states[state]} ${state}`).join(", ")}>
      ${states.map(
        (state) => html`<span class=${`fill ${kind(state)}`} style=${{ flexGrow: link.states[state] }}></span>`,
      )}</div>
    <p class="legend">${states.map(
      (state) => html`<a href=${`#/partitions?link=${encodeURIComponent(link.link)}&state=${state}`}>
        <${State} state=${state} /> ${number(link.states[state])}</a>`,
    )}</p>
  </section>`;
}

/** Active directives. */
function Directives() {
  const [found] = useLive("/directives?limit=20");
  if (!found?.items.length) return null;
  return html`<section class="card" aria-labelledby="directives"><h2 id="directives">Active directives</h2>
    <ul class="wrong">${found.items.map((one) => html`<li key=${`${one.link} ${one.do} ${one.topic} ${one.partition}`}>
      <span class=${`state ${one.do === "pause" ? "paused" : "recovering"}`}>${said(one)}</span>
      ${" "}<b class="name">${one.topic == null ? "the link" : one.partition == null ? one.topic : `${one.topic}-${one.partition}`}</b>
      ${" "}<span class="faint">${one.link}</span>
      <div class="reason">${one.who}, ${new Date(one.at_ms).toLocaleString()}${one.why && `: ${one.why}`}</div></li>`)}</ul>
    ${found.total > found.items.length && html`<p class="faint">and ${number(found.total - found.items.length)} more</p>`}
  </section>`;
}

/** Topics that several clusters feed. */
function Aggregates() {
  const [found] = useLive(`/aggregates?limit=${SHOWN}`);
  if (!found?.items.length) return null;
  return html`<section class="card" aria-labelledby="aggregates"><h2 id="aggregates">Aggregate topics</h2>
    <ul class="wrong">${found.items.map(({ cluster, name, parts }) => html`<li key=${`${cluster} ${name}`}>
      <b class="name">${name}</b> <span class="faint">on ${cluster}</span>
      ${parts.map(({ topic, link, source }) => html`<div class="reason" key=${`${topic} ${link}`}>
        ${link == null ? `${topic}, written there` : `${topic} from ${source}`}</div>`)}</li>`)}</ul>
    ${found.total > found.items.length && html`<p class="faint">and ${number(found.total - found.items.length)} more</p>`}
  </section>`;
}

function said(one) {
  if (one.do === "pause") return one.paused ? "paused" : "not paused";
  if (one.do === "cutover") return "cut over";
  if (one.do === "fence") return `fenced until ${new Date(one.until_ms).toLocaleTimeString()}`;
  return one.bytes_per_s == null ? "no limit" : `at most ${rate(one.bytes_per_s)}`;
}

/** Groups the partitions of a topic with the same state and reason. */
function together(partitions) {
  const found = new Map();
  for (const one of partitions) {
    const key = JSON.stringify([one.link, one.topic, one.state, one.reason]);
    if (!found.has(key)) found.set(key, { ...one, numbers: [] });
    found.get(key).numbers.push(one.partition);
  }
  return [...found.values()].map(({ link, topic, state, reason, numbers }) => ({
    name: numbers.length === 1 ? `${topic}-${numbers[0]}` : `${topic}, ${numbers.length} partitions`,
    link, state, reason,
  }));
}

function Wrong() {
  const [partitions] = useLive(`/partitions?${TROUBLED}&limit=100`);
  const [problems] = useLive("/problems?limit=20");
  const lines = [
    ...together(partitions?.items ?? []),
    ...(problems?.items ?? []).map(({ topic, link, reason }) => ({
      name: topic || "the link", link, state: "problem", reason,
    })),
  ];
  if (!lines.length) return null;
  const beyond = partitions ? partitions.total - partitions.items.length : 0;
  const left = Math.max(0, lines.length - SHOWN) + beyond;
  return html`<section class="card" aria-labelledby="wrong"><h2 id="wrong">Needs attention</h2>
    <ul class="wrong">${lines.slice(0, SHOWN).map(({ name, link, state, reason }) => html`
      <li key=${`${link} ${name} ${state} ${reason}`}><${State} state=${state} /> <b class="name">${name}</b>
        ${" "}<span class="faint">${link}</span><div class="reason">${reason}</div></li>`)}</ul>
    ${left > 0 && html`<p>and ${number(left)} more: <a href="#/partitions?state=stopped">partitions</a>,
      ${" "}<a href="#/problems">problems</a></p>`}</section>`;
}
