// Geo-replication: the chosen topics, their destinations and their lag.

import { html, useState } from "./vendor/htm-preact.js";
import { Acts } from "./acts.js";
import { ask, query } from "./api.js";
import { number, span } from "./format.js";
import { useLive, useSettled } from "./live.js";
import { List, State } from "./table.js";

const SLOW_MS = 10000;
const TYPING_MS = 400; // each search asks the clusters

export function Geo({ parameters }) {
  const [found] = useLive("/geo");
  const names = (found?.items ?? []).map(({ destination }) => destination);
  return html`<${List} title="Geo-replication" path="/geo/topics" parameters=${parameters}
      search="part of a name" empty="No topic is chosen yet."
      keyOf=${(one) => `${one.destination} ${one.topic}`}
      choices=${[["destination", "Destination", [["", "all destinations"], ...names.map((each) => [each, each])]]]}
      columns=${[
        ["Topic", (one) => html`<span class="name">${one.topic}</span>`],
        ["Copied to", (one) => html`<span class="name faint">${one.target_topic} on ${one.destination}</span>`],
        ["State", (one) => html`<${State} state=${one.state} />`],
        ["Lag", (one) => number(one.lag_records), "right"],
        ["Lag in time", (one) => span(one.lag_ms), "right"],
        ["Chosen", (one) => html`${one.who}, ${new Date(one.at_ms).toLocaleString()}${one.why && `: ${one.why}`}`],
        ["", (one) => html`<${Acts} scope=${{ destination: one.destination, topic: one.topic }}
          paused=${one.state === "paused"} />`, "act"],
      ]} />
    <div class="columns">${(found?.items ?? []).map(
      (one) => html`<${Add} key=${one.destination} to=${one} />`,
    )}</div>`;
}

function Add({ to }) {
  const [topic, setTopic] = useState("");
  const [who, setWho] = useState(localStorage.getItem("causeway-who") ?? "");
  const [reason, setReason] = useState("");
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const base = `/geo/destinations/${encodeURIComponent(to.destination)}`;
  const search = useSettled(topic, TYPING_MS);
  const [names] = useLive(query(`${base}/available`, { search }), SLOW_MS);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setSaid("Waiting for the leading driver …");
    localStorage.setItem("causeway-who", who);
    try {
      const body = { topics: [topic.trim()], who: who || null, reason: reason || null };
      const found = await ask(`${base}/topics`, { method: "POST", body });
      setSaid(found.refused ?? (found.acted ? `${topic.trim()} is copied to ${to.destination}.`
        : "The request is recorded. The next leading driver will act on it."));
      setTopic("");
      setReason("");
    } catch (error) {
      setSaid(error.message);
    }
    setBusy(false);
  };
  const list = `available-${to.destination}`;
  return html`<section class="card add" aria-label=${`Add to ${to.destination}`}>
    <h2>${to.origin} → ${to.destination} <span class="faint">${to.role}</span></h2>
    <form onSubmit=${go}>
      <label>Topic of ${to.origin} <input value=${topic} list=${list} maxlength="249" required
        autocomplete="off" onInput=${(event) => setTopic(event.target.value)} /></label>
      <datalist id=${list}>${(names ?? []).map((each) => html`<option value=${each} />`)}</datalist>
      <label>Your name <input value=${who} maxlength="100" autocomplete="name"
        onInput=${(event) => setWho(event.target.value)} /></label>
      <label>Reason <input value=${reason} maxlength="500"
        onInput=${(event) => setReason(event.target.value)} /></label>
      <p role="status">${said}</p>
      <div class="row"><button class="main" disabled=${busy}>Copy to ${to.destination}</button></div>
    </form>
  </section>`;
}
