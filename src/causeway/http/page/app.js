// The page: shows the state of the run by polling /api/v1.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { useToken } from "./api.js";
import { clock, span } from "./format.js";
import { Geo } from "./geo.js";
import { useHealth, useLive } from "./live.js";
import { Events, Groups, Lanes, Partitions, Problems, Tasks, Topics, Transforms } from "./lists.js";
import { Overview } from "./overview.js";

const PAGES = [
  ["overview", "Overview", Overview],
  ["topics", "Topics", Topics],
  ["partitions", "Partitions", Partitions],
  ["groups", "Groups", Groups],
  ["lanes", "Lanes", Lanes],
  ["tasks", "Tasks", Tasks],
  ["transforms", "Transforms", Transforms],
  ["problems", "Problems", Problems],
  ["events", "Events", Events],
];
const GEO = ["geo", "Geo", Geo]; // only if the file has chosen topics
const STALE_MS = 8000;
const SELDOM_MS = 60000;

function usePlace() {
  const read = () => {
    const [name, text] = location.hash.slice(2).split("?");
    return { name: name || "overview", parameters: Object.fromEntries(new URLSearchParams(text)) };
  };
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const moved = () => setPlace(read());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("causeway-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("causeway-theme", theme);
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  const next = { auto: "dark", dark: "light", light: "auto" }[theme];
  return html`<button class="quiet" onClick=${() => setTheme(next)}
    aria-label=${`Colours: ${theme}. Change to ${next}`}>${{ auto: "◐", dark: "●", light: "○" }[theme]}
    <span class="wide"> ${theme}</span></button>`;
}

function Token({ onDone }) {
  const [token, setToken] = useState("");
  const done = (event) => {
    event.preventDefault();
    useToken(token);
    onDone();
  };
  return html`<form class="card token" onSubmit=${done}>
    <label for="token">This run needs a token (<code>causeway.http.token</code>)</label>
    <input id="token" type="password" autocomplete="off" value=${token} autofocus
      onInput=${(event) => setToken(event.target.value)} />
    <button class="main">Continue</button>
  </form>`;
}

function Stale({ health }) {
  const silent = Date.now() - health.heardAt;
  const shown = health.trouble && health.trouble.status !== 401 && silent > STALE_MS / 2;
  return html`<div role="alert" class=${shown ? "stale" : "gone"}>${
    shown
      ? `No answer from the run for ${span(silent)}: this page shows the state at ${clock(health.heardAt)}.`
      : ""
  }</div>`;
}

function App() {
  const place = usePlace();
  const health = useHealth();
  const [overview, error, refresh] = useLive("/overview");
  const [geo] = useLive("/geo?limit=1", SELDOM_MS);
  const pages = geo?.total ? [PAGES[0], GEO, ...PAGES.slice(1)] : PAGES;
  const [, _, Page] = pages.find(([name]) => name === place.name) ?? pages[0];
  const title = pages.find(([name]) => name === place.name)?.[1] ?? "Overview";
  useEffect(() => {
    document.title = `${title} – Causeway`;
    // On a phone, the navigation is wider than the screen.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [title, !overview]);
  if (error?.status === 401) return html`<main><${Token} onDone=${refresh} /></main>`;
  const silent = health.trouble && Date.now() - health.heardAt > STALE_MS / 2;
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to the content</a>
    <header>
      <div class="brand"><img src="icon.svg" alt="" width="28" height="28" /><b>Causeway</b>
        ${overview && html`<span class="faint wide">${overview.version} · up
          ${" "}${span(overview.taken_at_ms - overview.started_at_ms)}</span>`}</div>
      <nav aria-label="Pages">${pages.map(
        ([name, text]) => html`<a href=${`#/${name}`}
          aria-current=${place.name === name ? "page" : undefined}>${text}</a>`,
      )}</nav>
      <${Theme} />
    </header>
    <${Stale} health=${health} />
    <main id="main" tabindex="-1" class=${silent ? "old" : ""}>
      ${overview
        ? html`<${Page} key=${place.name} overview=${overview} parameters=${place.parameters} />`
        : html`<p class="wait">${error ? error.message : "Loading …"}</p>`}
    </main>
    <footer class="faint"><a href="/docs">API</a> · <a href="/metrics">metrics</a> · this page loads
      nothing from other servers; <a href="vendor/README.md">libraries and licences</a></footer>`;
}

document.documentElement.dataset.theme = localStorage.getItem("causeway-theme") ?? "auto";
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
