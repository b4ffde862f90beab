// A list of the API with pages, search and filters; the URL contains them.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { query } from "./api.js";
import { number } from "./format.js";
import { useLive, useSettled } from "./live.js";

const LIMIT = 50;
/** States of partitions that need no attention. */
export const FINE = ["running", "done"];

/** The CSS class of a state. */
export const kind = (state) => state.replaceAll(" ", "-");

export const State = ({ state }) => html`<span class=${`state ${kind(state)}`}>${state}</span>`;

/**
 * `columns`: `[title, cell(item), "right" | ""]`; `choices`: `[parameter, title, options]` with
 * options `[value, text]`; `detail(item)`: the content that opens below a row.
 */
export function List({ title, path, columns, choices = [], search, parameters, keyOf, detail, empty }) {
  const [text, setText] = useState(parameters.search ?? "");
  const [chosen, setChosen] = useState(parameters);
  const [offset, setOffset] = useState(0);
  const [open, setOpen] = useState(null);
  const input = useRef(null);
  const settled = useSettled(text);
  const asked = { ...chosen, search: search ? settled : "", offset, limit: LIMIT };
  const [found, error] = useLive(query(path, asked));
  useEffect(() => {
    const slash = (event) => {
      if (event.key !== "/" || /INPUT|SELECT/.test(document.activeElement?.tagName)) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  const choose = (name, value) => {
    setChosen({ ...chosen, [name]: value });
    setOffset(0);
  };
  const items = found?.items ?? [];
  const last = offset + items.length;
  return html`<section aria-labelledby="list-title">
    <div class="bar">
      <h1 id="list-title">${title}</h1>
      ${search &&
      html`<input ref=${input} type="search" aria-label=${`Search ${title.toLowerCase()}`}
        placeholder=${`${search}  ( / )`} value=${text}
        onInput=${(event) => {
          setText(event.target.value);
          setOffset(0);
        }} />`}
      ${choices.map(
        ([name, label, options]) => html`<select aria-label=${label} value=${chosen[name] ?? ""}
          onChange=${(event) => choose(name, event.target.value)}>
          ${options.map(([value, shown]) => html`<option value=${value}
            selected=${(chosen[name] ?? "") === value}>${shown}</option>`)}</select>`,
      )}
    </div>
    ${error?.status && html`<p class="problem" role="alert">${error.message}</p>`}
    <div class="scroll"><table>
      <thead><tr>${columns.map(([name, , side]) => html`<th scope="col" class=${side ?? ""}>${name}</th>`)}</tr></thead>
      <tbody>${items.map((item) => {
        const key = keyOf(item);
        return html`<tr key=${key}>${columns.map(([name, cell, side], at) => html`<td class=${side ?? ""}
            data-label=${name}>${
              at === 0 && detail
                ? html`<button class="fold" aria-expanded=${open === key}
                    onClick=${() => setOpen(open === key ? null : key)}>${cell(item)}</button>`
                : cell(item)
            }</td>`)}</tr>
          ${open === key && detail && html`<tr key=${`${key} open`} class="detail">
            <td colspan=${columns.length}>${detail(item)}</td></tr>`}`;
      })}</tbody>
    </table></div>
    <div class="bar pages">
      <span role="status">${
        !found ? "Asking …" : found.total === 0 ? empty : `${number(offset + 1)} – ${number(last)} of ${number(found.total)}`
      }</span>
      <button disabled=${offset === 0} onClick=${() => setOffset(Math.max(0, offset - LIMIT))}>Back</button>
      <button disabled=${!found || last >= found.total} onClick=${() => setOffset(offset + LIMIT)}>Next</button>
    </div>
  </section>`;
}
