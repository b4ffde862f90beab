// The lists: each has a path of the API and its columns.

import { html } from "./vendor/htm-preact.js";
import { Acts } from "./acts.js";
import { query } from "./api.js";
import { clock, number, rate, size, span } from "./format.js";
import { useLive } from "./live.js";
import { List, State } from "./table.js";

const RIGHT = "right";
const OF_LINKS = ["source unavailable", "no running driver"]; // no partition of a run has these
const links = (overview) => ["link", "Link", [["", "all links"], ...overview.links.map(({ link }) => [link, link])]];
const states = ({ ranking }) => ["state", "State", [["", "any state"], ...ranking.filter((each) => !OF_LINKS.includes(each)).map((each) => [each, each])]];

function scopeOf({ link, topic, partition }) {
  return { link, topic, partition };
}

const acts = (item) => html`<${Acts} scope=${scopeOf(item)} paused=${item.state === "paused"}
  stopped=${item.state === "stopped" || item.state === "failed"} />`;

export function Topics({ overview, parameters }) {
  return html`<${List} title="Topics" path="/topics" parameters=${parameters} search="part of the name"
    empty="No topic matches." keyOf=${(one) => `${one.link} ${one.topic}`}
    choices=${[links(overview), states(overview), ["order", "Order", [
      ["", "by name"], ["state", "worst state first"], ["lag", "largest lag first"],
      ["lag-time", "largest lag in time first"], ["rate", "busiest first"],
    ]]]}
    columns=${[
      ["Topic", (one) => html`<span class="name">${one.topic}</span>`],
      ["On the target", (one) => html`<span class="name faint">${one.target_topic}</span>`],
      ["State", (one) => html`<${State} state=${one.state} />`],
      ["Partitions", (one) => number(one.partitions), RIGHT],
      ["Lag", (one) => number(one.lag_records), RIGHT],
      ["Lag in time", (one) => span(one.lag_ms), RIGHT],
      ["Records/s", (one) => number(one.records_per_s), RIGHT],
      ["Bytes/s", (one) => rate(one.bytes_per_s), RIGHT],
      ["", acts, "act"],
    ]}
    detail=${(one) => html`<${PartitionsOf} topic=${one} />`} />`;
}

function PartitionsOf({ topic }) {
  const [found] = useLive(query("/partitions", { link: topic.link, topic: topic.topic, limit: 200 }));
  if (!found) return html`<p class="wait">Loading …</p>`;
  return html`<p class="faint">${topic.link}${topic.transform && html` · transform <b>${topic.transform}</b>`}
      ${found.total > found.items.length && ` · the first ${found.items.length} of ${number(found.total)}`}</p>
    <ul class="partitions">${found.items.map(
      (one) => html`<li key=${one.partition}><b>${one.partition}</b> <${State} state=${one.state} />
        ${" "}mirrored to ${number(one.mirrored_to)} of ${number(one.source_end)}
        ${one.preserving && html`<span class="faint"> · preserving${one.preserving.filled?.gaps > 0 && html`, ${number(one.preserving.filled.gaps)} gaps filled`}</span>`}
        ${one.held_records > 0 && html`, ${number(one.held_records)} in an open transaction`}
        ${one.lane != null && html`<span class="faint"> · lane ${one.lane}</span>`}
        ${one.reason && html`<div class="reason">${one.reason}</div>`} ${acts(one)}</li>`,
    )}</ul>`;
}

export function Partitions({ overview, parameters }) {
  return html`<${List} title="Partitions" path="/partitions" parameters=${parameters}
    search="part of a topic’s name" empty="No partition matches." choices=${[links(overview), states(overview)]}
    keyOf=${(one) => `${one.link} ${one.topic} ${one.partition}`}
    columns=${[
      ["Partition", (one) => html`<span class="name">${one.topic}-${one.partition}</span>`],
      ["Link", (one) => html`<span class="link-name">${one.link}</span>`],
      ["State", (one) => html`<${State} state=${one.state} />${one.preserving && html` <span class="faint">preserving</span>`}${one.reason && html`<div class="reason">${one.reason}</div>`}`],
      ["Mirrored to", (one) => number(one.mirrored_to), RIGHT],
      ["Source ends at", (one) => number(one.source_end), RIGHT],
      ["Lag", (one) => number(one.lag_records), RIGHT],
      ["Lag in time", (one) => span(one.lag_ms), RIGHT],
      ["Bytes/s", (one) => rate(one.bytes_per_s), RIGHT],
      ["Lane", (one) => one.lane ?? "–", RIGHT],
      ["", acts, "act"],
    ]} />`;
}

export function Groups({ overview, parameters }) {
  return html`<${List} title="Groups" path="/groups" parameters=${parameters} search="part of the name"
    empty="No group matches." keyOf=${(one) => `${one.link} ${one.group}`}
    choices=${[links(overview), ["followed", "Followed", [["", "all"], ["true", "followed"], ["false", "left out"]]]]}
    columns=${[
      ["Group", (one) => html`<span class="name">${one.group}</span>`],
      ["Link", (one) => html`<span class="link-name">${one.link}</span>`],
      ["", (one) => (one.followed ? html`<span class="state running">followed</span>` : html`<span class="state waiting">left out</span>`)],
      ["Partitions", (one) => number(one.partitions), RIGHT],
      ["Reason", (one) => one.reason ?? ""],
    ]} />`;
}

export function Lanes({ parameters }) {
  return html`<${List} title="Lanes" path="/lanes" parameters=${parameters} empty="No lane is connected."
    keyOf=${(one) => `${one.lane} ${one.pid}`}
    columns=${[
      ["Lane", (one) => one.lane],
      ["Host", (one) => html`<span class="name">${one.host}</span>`],
      ["Process", (one) => one.pid, RIGHT],
      ["Partitions", (one) => number(one.partitions), RIGHT],
      ["Bytes/s", (one) => rate(one.bytes_per_s), RIGHT],
      ["Memory", (one) => size(one.rss_bytes), RIGHT],
      ["CPU time", (one) => span(one.cpu_s * 1000), RIGHT],
    ]} />`;
}

export function Tasks({ overview, parameters }) {
  return html`<${List} title="Tasks" path="/tasks" parameters=${parameters} empty="No task runs here."
    keyOf=${(one) => `${one.link} ${one.task}`} choices=${[links(overview)]}
    columns=${[
      ["Task", (one) => one.task],
      ["Link", (one) => html`<span class="link-name">${one.link}</span>`],
      ["", (one) => html`<span class=${`state ${one.reason ? "failed" : "running"}`}>${one.reason ? "fails" : "ok"}</span>`],
      ["Last success", (one) => clock(one.done_at_ms)],
      ["Items not done, with reasons", (one) => html`${one.reason && html`<div class="reason">${one.reason}</div>`}
        ${Object.entries(one.items).map(([item, why]) => html`<div><b class="name">${item}</b> ${why}</div>`)}`],
    ]} />`;
}

export function Transforms({ overview, parameters }) {
  return html`<${List} title="Transforms" path="/transforms" parameters=${parameters}
    empty="The file has no transforms." choices=${[links(overview)]}
    keyOf=${(one) => `${one.link} ${one.transform}`}
    columns=${[
      ["Transform", (one) => html`<span class="name">${one.transform}</span>`],
      ["Link", (one) => html`<span class="link-name">${one.link}</span>`],
      ["Partitions", (one) => number(one.partitions), RIGHT],
      ["In", (one) => number(one.records_in), RIGHT],
      ["Out", (one) => number(one.records_out), RIGHT],
      ["Dropped", (one) => number(one.dropped), RIGHT],
      ["Refused", (one) => number(one.refused), RIGHT],
      ["Through Spark", (one) => number(one.through_spark), RIGHT],
      ["Rules, records with and without their path", (one) => html`${one.troubles.map((each) => html`<div class="reason">${each}</div>`)}
        ${one.rules.map((each) => html`<div>${each.rule}: ${number(each.found)} with, <span class=${each.missing > 0 ? "reason" : ""}>${number(each.missing)} without</span></div>`)}
        ${one.unseen.length > 0 && html`<div class="faint">protects nothing so far: ${one.unseen.join(", ")}</div>`}`],
    ]} />`;
}

export function Events({ overview, parameters }) {
  return html`<${List} title="Events" path="/events" parameters=${parameters}
    search="part of the text" empty="No event matches."
    choices=${[links(overview), ["level", "Kind", [["", "all"], ["warning", "warnings"], ["error", "errors"], ["info", "information"]]]]}
    keyOf=${(one) => `${one.at_ms} ${one.event} ${JSON.stringify(one.about)}`}
    columns=${[
      ["Event", (one) => html`<span class="name"><b class=${{ warning: "recovering", error: "failed" }[one.level] ?? ""}>${one.event}</b></span>`],
      ["Time", (one) => html`<time datetime=${new Date(one.at_ms).toISOString()}>${new Date(one.at_ms).toLocaleString()}</time>`],
      ["Link", (one) => html`<span class="link-name">${one.link ?? ""}</span>`],
      ["", (one) => Object.entries(one.about).map(([name, text]) => html`<span class="fact"><span class="faint">${name}</span> ${text}</span> `)],
    ]} />`;
}

export function Problems({ overview, parameters }) {
  return html`<${List} title="Problems" path="/problems" parameters=${parameters}
    search="part of a topic’s name" empty="There are no problems."
    choices=${[links(overview)]} keyOf=${(one) => `${one.link} ${one.topic}`}
    columns=${[
      ["Topic", (one) => html`<span class="name">${one.topic || "the whole link"}</span>`],
      ["Link", (one) => html`<span class="link-name">${one.link}</span>`],
      ["Reason", (one) => one.reason],
    ]} />`;
}
