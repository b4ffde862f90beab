// Pause, resume, restart, throttle and step-down. A dialog asks for a confirmation, a name and a reason.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask } from "./api.js";

const MEANING = {
  pause: "Stops mirroring until it is resumed. No record is lost, as long as the source keeps the records.",
  resume: "Ends the pause: mirroring continues at its position.",
  restart: "Retries stopped and failed partitions now, with all checks. Running partitions are not affected.",
  throttle: "Limits the rate of reading from the source.",
  remove: "Stops copying. The copy on the destination stays, with its records.",
  "step-down": "This process stops leading the link. A standby leads within a second; without a standby, this process leads again.",
};

/** `scope`: `{ link, topic, partition }`, `partition`, or `topic` too, may be missing; for a chosen topic:
 * `{ destination, topic }`. */
export function pathOf(scope) {
  if (scope.destination != null) {
    return `/geo/destinations/${encodeURIComponent(scope.destination)}/topics/${encodeURIComponent(scope.topic)}`;
  }
  let path = `/links/${encodeURIComponent(scope.link)}`;
  if (scope.topic != null) path += `/topics/${encodeURIComponent(scope.topic)}`;
  if (scope.partition != null) path += `/partitions/${scope.partition}`;
  return path;
}

function nameOf(scope) {
  if (scope.topic == null) return `link ${scope.link}`;
  return scope.partition == null ? `topic ${scope.topic}` : `partition ${scope.topic}-${scope.partition}`;
}

export function Acts({ scope, paused, stopped, leads }) {
  const [action, setAction] = useState(null);
  const actions = scope.destination != null ? [paused ? "resume" : "pause", "remove"] : [
    paused ? "resume" : "pause",
    ...(stopped ? ["restart"] : []),
    ...(scope.partition == null ? ["throttle"] : []),
    ...(leads ? ["step-down"] : []),
  ];
  return html`<span class="acts">${actions.map(
      (each) => html`<button class="quiet" onClick=${() => setAction(each)}
        aria-label=${`${each} ${nameOf(scope)}`}>${each}</button>`,
    )}${action && html`<${Ask} action=${action} scope=${scope} onDone=${() => setAction(null)} />`}</span>`;
}

function Ask({ action, scope, onDone }) {
  const dialog = useRef(null);
  const [who, setWho] = useState(localStorage.getItem("causeway-who") ?? "");
  const [reason, setReason] = useState("");
  const [limit, setLimit] = useState("");
  const [said, setSaid] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    localStorage.setItem("causeway-who", who);
    const body = { who: who || null, reason: reason || null };
    if (action === "throttle") {
      if (limit === "") body.off = true;
      else body.bytes_per_s = Math.round(Number(limit) * 1e6);
    }
    try {
      const found = await ask(`${pathOf(scope)}/${action}`, { method: "POST", body });
      if (found.acted) dialog.current.close();
      else setSaid(found.refused ?? "The request is recorded. The next leading driver will act on it.");
    } catch (error) {
      setSaid(error.message);
    }
    setBusy(false);
  };
  return html`<dialog ref=${dialog} onClose=${onDone} aria-labelledby="ask-title">
    <form onSubmit=${go}>
      <h2 id="ask-title">${action} ${nameOf(scope)}</h2>
      <p>${MEANING[action]}</p>
      ${action === "throttle" &&
      html`<label>Limit in MB/s (empty: the limit of the file)
        <input type="number" min="0.001" step="any" value=${limit}
          onInput=${(event) => setLimit(event.target.value)} /></label>`}
      <label>Your name <input value=${who} maxlength="100" autocomplete="name"
        onInput=${(event) => setWho(event.target.value)} /></label>
      <label>Reason <input value=${reason} maxlength="500"
        onInput=${(event) => setReason(event.target.value)} /></label>
      <p role="status">${said ?? (busy ? "Waiting for the leading driver …" : "")}</p>
      <div class="row"><button type="button" onClick=${() => dialog.current.close()}>Close</button>
        <button class="main" disabled=${busy}>${action}</button></div>
    </form>
  </dialog>`;
}
