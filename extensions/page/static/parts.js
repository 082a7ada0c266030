// SPDX-License-Identifier: Apache-2.0
// Parts that several sections share: bars, severities, states, errors, tables.

import { age, percent, size } from "./format.js";
import { html, useEffect, useRef, useState } from "./vendor.js";

// The severities of pools and bounds, as the API names them, in words; the worst comes first.
export const SEVERITIES = { over: "over its limit", full: "full", near: "nearly full", rest: "at rest" };

// The percentages between which a pool at rest changes its color.
const STEPS = [50, 70];

// The steps of the scale of colors, from an empty pool to one over its limit, in words.
export const HEATS = ["at rest, to 50 %", "at rest, to 70 %", "at rest, above 70 %", "nearly full", "full", "over its limit"];

// The step of the scale for a severity and a percentage, null if they are unknown.
export function heat(severity, value) {
  if (severity === null) return null;
  if (severity === "rest") return STEPS.filter((least) => value >= least).length;
  return { near: 3, full: 4, over: 5 }[severity];
}

// The severity in words, with a mark in its color.
export function SeverityWord({ severity, value }) {
  const step = heat(severity, value);
  if (step === null) return html`<span class="reason">unknown</span>`;
  return html`<span class=${`severity ${severity}`}><${Key} color=${`heat${step}`} />${SEVERITIES[severity]}</span>`;
}

// A square in a color, before the words that say the same.
export const Key = ({ color }) => html`<svg class="key" viewBox="0 0 10 10" aria-hidden="true">
  <rect class=${color} width="10" height="10" /></svg>`;

// A bar of segments, each with a class and a value; `whole` is the end of the scale. The text next to it says the same.
export function Bar({ segments, whole, label, limit = null, large = false }) {
  let x = 0;
  const scale = 1000 / Math.max(whole, 1e-9);
  const rects = segments.map(([kind, value]) => {
    const width = Math.max(0, Math.min(value * scale, 1000 - x));
    const rect = html`<rect class=${kind} x=${x} y="0" width=${width} height="10" />`;
    x += width;
    return rect;
  });
  return html`<svg class=${large ? "bar large" : "bar"} viewBox="0 0 1000 10" preserveAspectRatio="none" role="img"
    aria-label=${label}>
    <rect class="room" x="0" y="0" width="1000" height="10" />${rects}
    ${limit !== null && html`<rect class="limit" x=${Math.min(limit * scale, 996)} y="0" width="4" height="10" />`}
  </svg>`;
}

// The physical and the promised capacity of a pool: never in one bar.
export function PhysicalBar({ pool }) {
  if (typeof pool.total_gb === "string") return null;
  const reserved = Math.min(number(pool.reserved_gb), pool.total_gb);
  const taken = number(pool.used_gb) + pool.in_flight_physical_gb;
  const label = `physical: ${percent(pool.physical_percent)} of the usable part taken${inWords(pool.physical_severity)}`;
  const free = Math.max(pool.total_gb - reserved - taken, 0);
  return html`<${Bar} label=${label} whole=${pool.total_gb}
    segments=${[[takenColor(pool.physical_severity, pool.physical_percent), number(pool.used_gb)], ["flight", pool.in_flight_physical_gb], ["gap", free], ["reserved", reserved]]} />`;
}

export function PromisedBar({ pool }) {
  if (typeof pool.promise_limit_gb === "string" || typeof pool.promised_gb === "string") return null;
  const whole = Math.max(pool.promise_limit_gb, pool.promised_gb);
  const label = `promised: ${percent(pool.promised_percent)} of the limit${inWords(pool.promised_severity)}`;
  return html`<${Bar} label=${label} whole=${whole} limit=${pool.promise_limit_gb}
    segments=${[[takenColor(pool.promised_severity, pool.promised_percent), pool.promised_gb - pool.in_flight_gb], ["flight", pool.in_flight_gb]]} />`;
}

// The color of the taken part of a bound: that of its step, "used" without one.
const takenColor = (severity, value) => (severity === null ? "used" : `heat${heat(severity, value)}`);

const inWords = (severity) => (severity === null ? "" : `, ${SEVERITIES[severity]}`);

const number = (value) => (typeof value === "number" ? value : 0);

export const was = (gib, pool, at) => (pool.collected_at === null ? `was ${size(gib)}` : `was ${size(gib)}, ${age(pool.collected_at, at)} ago`);

// The name of a pool may break after its host and after its backend.
export const breakable = (name) => name.split(/(?<=[@#])/).map((part, place) => html`${place > 0 && html`<wbr />`}${part}`);

export const poolHref = (name) => `#pool?name=${encodeURIComponent(name)}`;

export const poolLink = (name) => html`<a href=${poolHref(name)}>${breakable(name)}</a>`;

// The page of a volume, of which the id or the name is known.
export const volumeLink = (volume, text = volume) => html`<a href=${`#volume?${new URLSearchParams({ id: volume })}`}>${text}</a>`;

export const backendLink = (name) => html`<a href=${`#pools?name=${encodeURIComponent(`${name}#`)}`}>${breakable(name)}</a>`;

// The state of a pool or of a backend, with its reason.
export function State({ state, reason }) {
  return html`<span class=${`state ${state}`}>${state}</span>${reason && html`<span class="reason"> ${reason}</span>`}`;
}

// A command to copy into a terminal.
export const Code = ({ line }) => html`<code class="command">${line}</code>`;

// Show a section: its heading takes the focus when the section is opened by a link.
export function Section({ title, focus = false, children }) {
  const heading = useRef(null);
  useEffect(() => {
    if (focus) heading.current.focus();
  }, []);
  return html`<section aria-label=${title}><h2 ref=${heading} tabindex="-1">${title}</h2>${children}</section>`;
}

// The figures of an answer (see polling.js), drawn by a function of its data; in grey after an error. The attribute
// data-figures tells programs whether the figures are there.
export function Figures({ answer, time, loading = "The figures are loading.", children }) {
  const { data, error, busy, at, stage, retry } = answer;
  return html`<${Failure} error=${error} at=${data && at} time=${time} retry=${retry} />
    <div class=${error ? "old" : ""} aria-busy=${busy ? "true" : "false"} data-figures=${stage}>${
      data ? children(data) : stage === "loading" && html`<p role="status" class="note">${loading}</p>`}</div>`;
}

// The cause of an error, the age of the figures that are still shown, and the way out.
function Failure({ error, at, time, retry }) {
  if (error === null) return null;
  return html`<div class="failure" role="alert">
    <p><strong>${TITLES[error.status] ?? "The figures cannot be read."}</strong> ${error.message}</p>
    ${error.reasons.length > 0 && html`<ul>${error.reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`}
    ${error.status === 403 && html`<p>The policy of this installation decides: see the rule in its policy file, or ask
      an administrator.</p>`}
    ${at !== null && html`<p>The figures below are ${age(new Date(at).toISOString(), time)} old.</p>`}
    <button type="button" onClick=${retry}>Try again</button>
  </div>`;
}

const TITLES = {
  0: "No connection.",
  401: "You are not logged in.",
  403: "You may not see this.",
  404: "There is no such object.",
  503: "A part of Tonnage does not answer.",
};

// A table that becomes a list of cards on narrow screens. `columns` have a title, a function of the row, and may have a
// class. ARIA's roles are explicit, because browsers drop them from tables that are laid out as blocks.
export function Table({ caption, columns, rows, keyOf, rowClass = () => "", head = (column) => column.title }) {
  return html`<table role="table">
    <caption class="hidden">${caption}</caption>
    <thead role="rowgroup"><tr role="row">
      ${columns.map((column) => html`<th role="columnheader" scope="col" class=${column.class}
        aria-sort=${column.sort ?? null}>${head(column)}</th>`)}
    </tr></thead>
    <tbody role="rowgroup">${rows.map((row) => html`<tr role="row" key=${keyOf(row)} class=${rowClass(row)}>
      ${columns.map((column) => html`<td role="cell" class=${column.class} data-title=${column.title}>${column.cell(row)}</td>`)}
    </tr>`)}</tbody>
  </table>`;
}

// Names with values.
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// A search that starts after the last key.
export function Search({ title, value, change }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (event) => {
    setText(event.target.value);
    clearTimeout(timer.current);
    const next = event.target.value;
    timer.current = setTimeout(() => change(next), 300);
  };
  return html`<label>${title} <input type="search" value=${text} onInput=${input} /></label>`;
}
