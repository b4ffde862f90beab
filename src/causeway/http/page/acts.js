// Pause, resume, restart, throttle and step-down, each asked for once more in a dialog with who and why.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask } from "./api.js";

const MEANING = {
  pause: "Nothing more of it is mirrored until it is resumed. Nothing is lost meanwhile, as long as the source keeps it.",
  resume: "The pause is taken back: it goes on where it stood.",
  restart: "What is stopped or failed is tried again now, with all checks. What runs is left alone.",
  throttle: "Limits what is read from the source.",
  remove: "Nothing more of it is copied. On the destination it stays, with all that it has.",
  "step-down": "This process lets go of the lead. A process on standby takes it within a second; where there is none, this one takes it again.",
};

/** `scope`: `{ link, topic, partition }`, the latter two or the last left out; or, of a chosen topic,
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
      else setSaid(found.refused ?? "It is written down; whoever leads the link will act on it.");
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
      html`<label>MB/s at the most (empty: as in the file)
        <input type="number" min="0.001" step="any" value=${limit}
          onInput=${(event) => setLimit(event.target.value)} /></label>`}
      <label>Who you are <input value=${who} maxlength="100" autocomplete="name"
        onInput=${(event) => setWho(event.target.value)} /></label>
      <label>Why <input value=${reason} maxlength="500"
        onInput=${(event) => setReason(event.target.value)} /></label>
      <p role="status">${said ?? (busy ? "Waiting for the leading driver …" : "")}</p>
      <div class="row"><button type="button" onClick=${() => dialog.current.close()}>Close</button>
        <button class="main" disabled=${busy}>${action}</button></div>
    </form>
  </dialog>`;
}
