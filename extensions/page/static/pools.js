// SPDX-License-Identifier: Apache-2.0
// The section Pools: pages of 100, selected and sorted by the server.

import { get, isEnabled } from "./api.js";
import { age, count, percent, size } from "./format.js";
import { HeatMap } from "./heat_map.js";
import { Figures, PhysicalBar, PromisedBar, Section, State, Table, poolLink, was } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useEffect, useRef, useState } from "./vendor.js";

const PAGE = 100;
const FULLEST = 10;
// Columns that are sorted upwards first.
const ASCENDING = new Set(["name", "full_in_days"]);
const STATES = ["up", "down", "disabled", "draining"];

// Columns by the key that the server sorts by.
const columns = (time) => [
  { key: "name", title: "Pool", class: "name", cell: (pool) => poolLink(pool.name) },
  ...(isEnabled("history")
    ? [{ key: "full_in_days", title: "Full in", class: "soon", cell: (pool) => pool.forecast ?? "no forecast" }]
    : []),
  { key: "availability_zone", title: "Zone", cell: (pool) => pool.availability_zone },
  {
    key: "physical_percent",
    title: "Physical",
    class: "share",
    cell: (pool) =>
      pool.stale
        ? was(pool.free_gb, pool, time).replace("was", "free was")
        : html`<${PhysicalBar} pool=${pool} /><span>${share(pool.physical_percent, pool.total_gb)}</span>`,
  },
  {
    key: "promised_percent",
    title: "Promised",
    class: "share",
    cell: (pool) =>
      pool.stale
        ? was(pool.promised_gb, pool, time)
        : html`<${PromisedBar} pool=${pool} /><span>${share(pool.promised_percent, pool.promise_limit_gb)}</span>`,
  },
  { key: "in_flight_gb", title: "In flight", class: "number", cell: (pool) => size(pool.in_flight_gb) },
  { key: "headroom_thin_gb", title: "Headroom thin", class: "number", cell: (pool) => headroom(pool, "headroom_thin_gb") },
  { key: "headroom_thick_gb", title: "Headroom thick", class: "number", cell: (pool) => headroom(pool, "headroom_thick_gb") },
  { key: "max_over_subscription_ratio", title: "Ratio", class: "number", cell: (pool) => ratio(pool) },
  { key: "collected_at", title: "Figures", class: "number", cell: (pool) => age(pool.collected_at, time) },
  { key: "state", title: "State", cell: (pool) => html`<${State} pool=${pool} />` },
];

const share = (value, of) => (value === null ? `${size(of)}` : `${percent(value)} of ${size(of)}`);
const headroom = (pool, key) => (pool.stale ? "–" : pool[key] === null ? "none" : size(pool[key]));

// Pools without thin volumes have no use for the ratio.
export const ratio = (pool) => (pool.headroom_thin_gb === null ? "none" : pool.max_over_subscription_ratio);

const rowClass = (pool) => (pool.stale ? "stale" : "");

// The fullest pools, for the section Now.
export function Fullest({ time }) {
  const answer = usePolling(`capacity-overview/pools?limit=${FULLEST}`);
  return html`<h3>Fullest pools</h3>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Table} caption="Fullest pools" columns=${columns(time)}
        rows=${data.pools} keyOf=${(pool) => pool.name} rowClass=${rowClass} />
      ${data.count > FULLEST && html`<p class="note"><a href="#pools">All ${count(data.count, "pool")}</a></p>`}`}</${Figures}>`;
}

export function Pools({ query, time, focus }) {
  const [map, setMap] = useState(false);
  const wanted = {
    name: query.get("name") ?? "",
    state: query.get("state") ?? "",
    sort_key: query.get("sort_key") ?? "full_percent",
    sort_dir: query.get("sort_dir") ?? "desc",
    offset: Number(query.get("offset") ?? 0) || 0,
  };
  const given = Object.entries(wanted).filter(([, value]) => value !== "");
  const path = `capacity-overview/pools?${new URLSearchParams([...given, ["limit", PAGE]])}`;
  const answer = usePolling(path, { keep: true });
  const go = (change) => {
    const next = { ...wanted, offset: 0, ...change };
    location.replace(`#pools?${new URLSearchParams(Object.entries(next).filter(([, value]) => value !== "" && value !== 0))}`);
  };
  const shown = columns(time).map((column) => ({
    ...column,
    sort: column.key === wanted.sort_key ? (wanted.sort_dir === "asc" ? "ascending" : "descending") : null,
  }));
  const sortBy = (column) =>
    go({ sort_key: column.key, sort_dir: column.sort === "descending" || (column.sort === null && ASCENDING.has(column.key)) ? "asc" : "desc" });
  const head = (column) => html`<button type="button" class="sort" onClick=${() => sortBy(column)}>${column.title}
    <span aria-hidden="true">${column.sort === "ascending" ? " ▲" : column.sort === "descending" ? " ▼" : ""}</span></button>`;
  return html`<${Section} title="Pools" focus=${focus}>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Search} value=${wanted.name} change=${(name) => go({ name })} />
      <label>State <select value=${wanted.state} onChange=${(event) => go({ state: event.target.value })}>
        <option value="">all</option>${STATES.map((state) => html`<option value=${state}>${state}</option>`)}
      </select></label>
      <label>Sorted by <select value=${wanted.sort_key} onChange=${(event) => go({ sort_key: event.target.value })}>
        <option value="full_percent">fullest bound</option>
        <option value="total_gb">total</option>
        ${shown.map((column) => html`<option value=${column.key}>${column.title.toLowerCase()}</option>`)}
      </select></label>
      <label>Order <select value=${wanted.sort_dir} onChange=${(event) => go({ sort_dir: event.target.value })}>
        <option value="desc">descending</option><option value="asc">ascending</option>
      </select></label>
      <${Csv} given=${given} />
      <button type="button" aria-pressed=${map ? "true" : "false"} onClick=${() => setMap(!map)}>Heat map</button>
    </form>
    ${map && html`<${HeatMap} time=${time} />`}
    <${Figures} answer=${answer} time=${time}>${(data) => html`
      <${Pages} offset=${wanted.offset} count=${data.count} go=${go} />
      ${data.count === 0
        ? html`<p class="note">No pool matches.</p>`
        : html`<${Table} caption="Pools" columns=${shown} rows=${data.pools} keyOf=${(pool) => pool.name}
            rowClass=${rowClass} head=${head} />`}`}</${Figures}>
  </${Section}>`;
}

// A search that starts after the last key.
function Search({ value, change }) {
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
  return html`<label>Name contains <input type="search" value=${text} onInput=${input} /></label>`;
}

function Pages({ offset, count: total, go }) {
  const last = Math.min(offset + PAGE, total);
  return html`<p class="pages" aria-live="polite">
    <span>${total === 0 ? "No pools" : `${(offset + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${count(total, "pool")}`}</span>
    ${total > PAGE && html`<button type="button" disabled=${offset === 0} onClick=${() => go({ offset: Math.max(0, offset - PAGE) })}>Previous</button>
    <button type="button" disabled=${last >= total} onClick=${() => go({ offset: offset + PAGE })}>Next</button>`}
  </p>`;
}

// All selected pools as a file.
function Csv({ given }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const save = async () => {
    setBusy(true);
    try {
      const rows = [];
      let count = 1;
      for (let offset = 0; offset < count; offset += 1000) {
        const query = new URLSearchParams([...given.filter(([key]) => key !== "offset"), ["limit", 1000], ["offset", offset]]);
        const answer = await get(`capacity-overview/pools?${query}`);
        count = answer.count;
        rows.push(...answer.pools);
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv" }));
      link.download = "pools.csv";
      link.click();
      URL.revokeObjectURL(link.href);
      setFailed("");
    } catch (error) {
      setFailed(error.message);
    }
    setBusy(false);
  };
  return html`<button type="button" disabled=${busy} onClick=${save}>Save as CSV</button><span role="status">${failed}</span>`;
}

// A spreadsheet takes a text that begins with one of these for a formula.
const FORMULA = /^[=+\-@\t\r]/;

export function csv(rows) {
  if (rows.length === 0) return "";
  const keys = Object.keys(rows[0]);
  const cell = (value) => {
    if (value === null) return "";
    const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [keys, ...rows.map((row) => keys.map((key) => row[key]))].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
