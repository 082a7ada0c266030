// SPDX-License-Identifier: Apache-2.0
// The section Pools: pages of 100, selected and sorted by the server.

import { get, isEnabled } from "./api.js";
import { age, count, percent, size } from "./format.js";
import { HeatMap } from "./heat_map.js";
import { Figures, PhysicalBar, PromisedBar, SEVERITIES, Search, Section, SeverityWord, State, Table, poolLink, was } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useState } from "./vendor.js";

const PAGE = 100;
const FULLEST = 10;
// Columns that are sorted upwards first.
const ASCENDING = new Set(["name", "full_in_days", "availability_zone", "state"]);
const STATES = ["up", "down", "disabled", "draining"];
const SELECTION = ["name", "state", "severity"];

// Columns by the key that the server sorts by.
const columns = (time) => [
  { key: "name", title: "Pool", class: "name", cell: (pool) => poolLink(pool.name) },
  { key: "full_percent", title: "Fullness", cell: (pool) => html`<${SeverityWord} severity=${pool.severity} value=${pool.full_percent} />` },
  ...(isEnabled("history")
    ? [{ key: "full_in_days", title: "Full in", class: "soon", cell: (pool) => pool.forecast ?? "no forecast" }]
    : []),
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
  { key: "headroom_thin_gb", title: "Headroom thin", class: "number", cell: (pool) => headroom(pool, pool.headroom_thin_gb) },
  { key: "headroom_thick_gb", title: "Headroom thick", class: "number", cell: (pool) => headroom(pool, pool.headroom_thick_gb) },
  { key: "max_over_subscription_ratio", title: "Ratio", class: "number", cell: (pool) => ratio(pool) },
  { key: "availability_zone", title: "Zone", cell: (pool) => pool.availability_zone },
  { key: "collected_at", title: "Figures", class: "number", cell: (pool) => (pool.collected_at === null ? "unknown" : age(pool.collected_at, time)) },
  { key: "state", title: "State", class: "states", cell: (pool) => html`<${State} state=${pool.state} reason=${pool.state_reason} />` },
];

const share = (value, of) => (value === null ? `${size(of)}` : `${percent(value)} of ${size(of)}`);

// Old figures tell nothing about the room that is left; a pool may take no volumes of a kind.
export const headroom = (pool, gib) => (gib === null ? "not offered" : pool.stale ? "unknown" : size(gib));

// Pools without thin volumes have no use for the ratio.
export const ratio = (pool) => (pool.headroom_thin_gb === null ? "not used" : pool.max_over_subscription_ratio);

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
  const address = {
    name: query.get("name") ?? "",
    state: query.get("state") ?? "",
    severity: query.get("severity") ?? "",
    sort_key: query.get("sort_key") ?? "full_percent",
    sort_dir: query.get("sort_dir") ?? "desc",
    offset: Number(query.get("offset") ?? 0) || 0,
  };
  const map = query.get("view") === "map";
  const parameters = Object.entries(address).filter(([, value]) => value !== "");
  const selection = parameters.filter(([key]) => SELECTION.includes(key));
  const answer = usePolling(`capacity-overview/pools?${new URLSearchParams([...parameters, ["limit", PAGE]])}`, { keep: true });
  const go = (change) => {
    const next = { ...address, view: map ? "map" : "", offset: 0, ...change };
    location.replace(`#pools?${new URLSearchParams(Object.entries(next).filter(([, value]) => value !== "" && value !== 0))}`);
  };
  const sorted = columns(time).map((column) => ({
    ...column,
    sort: column.key !== address.sort_key ? "none" : address.sort_dir === "asc" ? "ascending" : "descending",
  }));
  const directionOf = ({ key, sort }) => (sort === "none" ? (ASCENDING.has(key) ? "asc" : "desc") : sort === "descending" ? "asc" : "desc");
  const head = (column) => html`<button type="button" class="sort" onClick=${() => go({ sort_key: column.key, sort_dir: directionOf(column) })}>
    ${column.title} <span aria-hidden="true">${MARKS[column.sort]}</span></button>`;
  const choice = (title, key, options, className = "") => html`<label class=${className}>${title} <select value=${address[key]} onChange=${(event) => go({ [key]: event.target.value })}>
    ${options.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>`;
  return html`<${Section} title="Pools" focus=${focus}>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Search} title="Name contains" value=${address.name} change=${(name) => go({ name })} />
      ${choice("Fullness", "severity", [["", "all"], ...Object.entries(SEVERITIES)])}
      ${choice("State", "state", [["", "all"], ...STATES.map((state) => [state, state])])}
      ${choice("Sorted by", "sort_key", sorted.map(({ key, title }) => [key, title.toLowerCase()]), "cards")}
      ${choice("Order", "sort_dir", [["desc", "descending"], ["asc", "ascending"]], "cards")}
      <button type="button" aria-pressed=${map ? "true" : "false"} onClick=${() => go({ view: map ? "" : "map" })}>Heat map</button>
      <${Csv} parameters=${parameters} />
    </form>
    ${map && html`<${HeatMap} selection=${selection} time=${time} />`}
    <${Figures} answer=${answer} time=${time}>${(data) => html`
      <p class="pages" aria-live="polite"><span>${shownOf(address.offset, data.count)}</span>
        ${data.count > PAGE && html`<button type="button" disabled=${address.offset === 0} onClick=${() => go({ offset: Math.max(0, address.offset - PAGE) })}>Previous</button>
        <button type="button" disabled=${address.offset + PAGE >= data.count} onClick=${() => go({ offset: address.offset + PAGE })}>Next</button>`}</p>
      ${data.count === 0
        ? html`<p class="note">No pool matches.</p>`
        : html`<${Table} caption="Pools" columns=${sorted} rows=${data.pools} keyOf=${(pool) => pool.name}
            rowClass=${rowClass} head=${head} />`}`}</${Figures}>
  </${Section}>`;
}

// "1 to 100 of 10,000 pools"
const shownOf = (offset, total) =>
  total === 0 ? "No pools" : `${(offset + 1).toLocaleString("en")} to ${Math.min(offset + PAGE, total).toLocaleString("en")} of ${count(total, "pool")}`;

const MARKS = { none: "↕", ascending: "▲", descending: "▼" };

// All selected pools as a file.
function Csv({ parameters }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const save = async () => {
    setBusy(true);
    try {
      const rows = [];
      let count = 1;
      for (let offset = 0; offset < count; offset += 1000) {
        const query = new URLSearchParams([...parameters.filter(([key]) => key !== "offset"), ["limit", 1000], ["offset", offset]]);
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
