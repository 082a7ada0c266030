// SPDX-License-Identifier: Apache-2.0
// The history of a pool: both bounds over time with their limits and the forecast, and a table of the same.

import { Chart } from "./chart.js";
import { count, percent, size } from "./format.js";
import { Figures, Table } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useMemo, useState } from "./vendor.js";

const DAY = 86_400;
// Milliseconds between two questions: a slot changes twelve times in an hour.
const PERIOD = 60_000;
const LONGEST_TABLE = 60;

export function History({ name, time }) {
  const [grain, setGrain] = useState("day");
  const [open, setOpen] = useState(false);
  const answer = usePolling(`capacity-overview/history?${new URLSearchParams({ name, grain })}`, { period: PERIOD });
  const choice = (value, title) => html`<button type="button" aria-pressed=${grain === value ? "true" : "false"}
    onClick=${() => setGrain(value)}>${title}</button>`;
  return html`<h3>History and forecast</h3>
    <p class="pages">${choice("day", "400 days")}${choice("hour", "14 days")}</p>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Shown} history=${data} grain=${grain} open=${open} setOpen=${setOpen} />`}</${Figures}>`;
}

function Shown({ history, grain, open, setOpen }) {
  if (history.slots.length === 0) return html`<p class="note">There is no history yet: the first sample is taken within the hour.</p>`;
  const of = (bound) => history.forecasts.find((forecast) => forecast.bound === bound);
  return html`<div class="sums">
      <${Bound} title="Physical" slots=${history.slots} grain=${grain} taken="used_gb" limit="physical_limit_gb" range forecast=${of("physical")} />
      <${Bound} title="Promised" slots=${history.slots} grain=${grain} taken="promised_gb" limit="promise_limit_gb" forecast=${of("promised")} />
    </div>
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>The same as a table</summary><${Slots} slots=${history.slots} grain=${grain} /></details>`;
}

function Bound({ title, slots, grain, taken, limit, range = false, forecast }) {
  const points = slots.filter((slot) => slot[taken] !== null).length;
  const chart = useMemo(() => drawn(slots, grain, taken, limit, range, forecast), [slots, grain, forecast]);
  return html`<div class="sum">
    <h3>${title}${forecast && html`: ${forecast.text}`}</h3>
    ${points < 2
      ? html`<p class="note">There is no chart yet: it needs the figures of two ${grain === "day" ? "days" : "hours"}.</p>`
      : html`<${Chart} label=${`${title} over time; the table below has the same figures`} ...${chart} />`}
    ${forecast?.hit_rate != null && html`<p class="note">${hits(forecast)}</p>`}
  </div>`;
}

export const hits = ({ hit_rate, checked }) => `${percent(100 * hit_rate)} of ${count(checked, "earlier forecast")} held the growth`;

// The lines of a bound, with holes where hours or days are missing, and the range of the forecast after the last day.
function drawn(slots, grain, taken, limit, range, forecast) {
  const step = grain === "day" ? DAY : 3600;
  const bySlot = new Map(slots.map((slot) => [Date.parse(slot.slot) / 1000, slot]));
  const first = Date.parse(slots[0].slot) / 1000;
  const last = Date.parse(slots.at(-1).slot) / 1000;
  const ahead = forecast && forecast.low_gb !== null ? forecast.growth_days * DAY : 0;
  const times = Array.from({ length: Math.floor((last + ahead - first) / step) + 1 }, (_, number) => first + number * step);
  const column = (key) => times.map((time) => bySlot.get(time)?.[key] ?? null);
  const end = bySlot.get(last);
  const future = (growth) =>
    times.map((time) => (time < last || !ahead || end[taken] === null ? null : Math.max(0, end[taken] + (growth * (time - last)) / ahead)));
  const limits = times.map((time) => (time > last ? end[limit] : (bySlot.get(time)?.[limit] ?? null)));
  return {
    times,
    lines: [
      { values: column(taken), stroke: "used" },
      { values: limits, stroke: "limit", dashed: true },
      ...(range ? ["used_max_gb", "used_min_gb"].map((key) => ({ values: column(key), stroke: "reserved" })) : []),
      ...(ahead ? [forecast.high_gb, forecast.low_gb].map((growth) => ({ values: future(growth), stroke: "flight" })) : []),
    ],
    bands: [
      ...(range ? [{ upper: 2, lower: 3, fill: "reserved" }] : []),
      ...(ahead ? [{ upper: range ? 4 : 2, lower: range ? 5 : 3, fill: "flight" }] : []),
    ],
    keys: [
      ["used", range ? "used" : "promised"],
      ["limit", "limit"],
      ...(range ? [["reserved", `least and most of ${grain === "day" ? "a day" : "an hour"}`]] : []),
      ...(ahead ? [["flight", `forecast of ${forecast.growth_days} days, 80 %`]] : []),
    ],
  };
}

function Slots({ slots, grain }) {
  const shown = slots.slice(-LONGEST_TABLE).reverse();
  const figure = (key) => (row) => (row[key] === null ? "unknown" : size(row[key]));
  const limit = (key) => (row) => (row[key] === null ? "none" : size(row[key]));
  return html`<${Table} caption="History" rows=${shown} keyOf=${(row) => row.slot} columns=${[
    { title: grain === "day" ? "Day" : "Hour, UTC", class: "word", cell: (row) => (grain === "day" ? row.slot.slice(0, 10) : row.slot.slice(0, 16).replace("T", " ")) },
    { title: "Used", class: "number", cell: figure("used_gb") },
    { title: "Physical limit", class: "number", cell: limit("physical_limit_gb") },
    { title: "Promised", class: "number", cell: figure("promised_gb") },
    { title: "Limit of promises", class: "number", cell: limit("promise_limit_gb") },
    { title: "Most in flight", class: "number", cell: (row) => size(row.in_flight_max_gb) },
    { title: "Created", class: "number", cell: (row) => size(row.created_gb) },
    { title: "Deleted", class: "number", cell: (row) => size(row.deleted_gb) },
    { title: "Migrated", class: "number", cell: (row) => size(row.moved_gb) },
  ]} />
  ${slots.length > shown.length && html`<p class="note">The last ${LONGEST_TABLE} of ${slots.length}.</p>`}`;
}
