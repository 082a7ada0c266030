// SPDX-License-Identifier: Apache-2.0
// The history of a pool: both bounds over time with their limits and the forecast, and a table of the same.

import { Chart } from "./chart.js";
import { count, percent, size } from "./format.js";
import { Figures, Table } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useMemo, useState } from "./vendor.js";

// By the name of a slot in the API: its length in seconds, its words, and the time that is kept.
const GRAINS = {
  ten_minutes: { length: 600, word: "ten minutes", kept: "24 hours", hasForecast: false },
  hour: { length: 3600, word: "hour", kept: "14 days", hasForecast: true },
  day: { length: 86_400, word: "day", kept: "400 days", hasForecast: true },
};
const DAY = GRAINS.day.length;
// Milliseconds between two questions: a slot changes at most every ten minutes.
const PERIOD = 60_000;
const LONGEST_TABLE = 60;

// `grain` is that of the address. `pool` has the figures of now, with which each chart ends.
export function History({ pool, grain: chosen, time }) {
  const grain = chosen in GRAINS ? chosen : "ten_minutes";
  const [open, setOpen] = useState(false);
  const answer = usePolling(`capacity-overview/history?${new URLSearchParams({ name: pool.name, grain })}`, { period: PERIOD });
  const show = (name) => location.replace(`#pool?${new URLSearchParams({ name: pool.name, grain: name })}`);
  return html`<h3>History and forecast</h3>
    <p class="pages">${Object.entries(GRAINS).map(([name, { kept }]) => html`<button type="button" aria-pressed=${grain === name ? "true" : "false"}
      onClick=${() => show(name)}>${kept}</button>`)}</p>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Shown} history=${data} pool=${pool} grain=${grain} time=${time} open=${open} setOpen=${setOpen} />`}</${Figures}>`;
}

// The figures of now, in the words of a slot; null if they are unknown, infinite or old.
function slotOf(pool) {
  const known = (gib) => (pool.stale || typeof gib === "string" ? null : gib);
  const reserved = known(pool.reserved_gb);
  const total = known(pool.total_gb);
  return {
    used_gb: known(pool.used_gb),
    promised_gb: known(pool.promised_gb),
    physical_limit_gb: total === null || reserved === null ? null : total - reserved,
    promise_limit_gb: pool.headroom_thin_gb === null ? null : known(pool.promise_limit_gb),
  };
}

function Shown({ history, pool, grain, time, open, setOpen }) {
  const forecastOf = (bound) => history.forecasts.find((forecast) => forecast.bound === bound);
  // Old figures are not those of now: the chart ends with the last slot.
  const end = useMemo(() => ({ ...slotOf(pool), at: pool.stale ? null : time / 1000 }), [history, pool]);
  if (history.slots.length === 0) return html`<p class="note">There is no history yet: the first sample is taken within ten minutes.</p>`;
  return html`<div class="sums">
      <${Bound} title="Physical" slots=${history.slots} end=${end} grain=${grain} taken="used_gb" limit="physical_limit_gb" range forecast=${forecastOf("physical")} />
      <${Bound} title="Promised" slots=${history.slots} end=${end} grain=${grain} taken="promised_gb" limit="promise_limit_gb" forecast=${forecastOf("promised")} />
    </div>
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>The same as a table</summary><${Slots} slots=${history.slots} grain=${grain} /></details>`;
}

function Bound({ title, slots, end, grain, taken, limit, range = false, forecast }) {
  const chart = useMemo(() => drawn(slots, end, grain, taken, limit, range, forecast), [slots, end, grain, forecast]);
  const points = chart.lines.find(({ stroke }) => stroke === "used").values.filter((value) => value !== null).length;
  return html`<div class="sum">
    <h3>${title}${forecast && html`: ${forecast.text}`}</h3>
    ${points < 2
      ? html`<p class="note">There is no chart yet: it needs the figures of two times ${GRAINS[grain].word}.</p>`
      : html`<${Chart} label=${`${title} over time; the table below has the same figures`} ...${chart} />`}
    ${forecast?.hit_rate != null && html`<p class="note">${hits(forecast)}</p>`}
  </div>`;
}

export const hits = ({ hit_rate, checked }) => `${percent(100 * hit_rate)} of ${count(checked, "earlier forecast")} held the growth`;

// The lines of a bound: a point at the end of each slot, the figures of now in the place of the slot that has not ended,
// holes where slots are missing, and then the range of the forecast.
export function drawn(slots, end, grain, taken, limit, range, forecast) {
  const { length, word, hasForecast } = GRAINS[grain];
  const bySlot = new Map(slots.map((slot) => [Date.parse(slot.slot) / 1000, slot]));
  const first = Date.parse(slots[0].slot) / 1000;
  const last = Date.parse(slots.at(-1).slot) / 1000;
  const now = end.at === null ? last + length : Math.max(end.at, last + 1);
  const past = Array.from({ length: Math.ceil((now - first) / length) }, (_, index) => {
    const start = first + index * length;
    return start + length < now ? { time: start + length, ...bySlot.get(start) } : { time: now, ...bySlot.get(start), ...(end.at === null ? {} : end) };
  });
  const present = past.at(-1);
  const ahead = hasForecast && forecast && forecast.low_gb !== null && present[taken] != null ? forecast.growth_days * DAY : 0;
  const future = Array.from({ length: Math.floor(ahead / length) }, (_, index) => now + (index + 1) * length);
  const column = (key) => [...past.map((point) => point[key] ?? null), ...future.map(() => null)];
  const forecastOf = (growth) => [...past.slice(1).map(() => null), present[taken], ...future.map((time) => Math.max(0, present[taken] + (growth * (time - now)) / ahead))];
  return {
    times: [...past.map(({ time }) => time), ...future],
    // Later lines are drawn over earlier ones.
    lines: [
      ...(range ? ["used_max_gb", "used_min_gb"].map((key) => ({ values: column(key), stroke: "reserved" })) : []),
      { values: column(taken), stroke: "used" },
      { values: [...past.map((point) => point[limit] ?? null), ...future.map(() => present[limit] ?? null)], stroke: "limit", dashed: true },
      ...(ahead ? [forecast.high_gb, forecast.low_gb].map((growth) => ({ values: forecastOf(growth), stroke: "flight" })) : []),
    ],
    bands: [
      ...(range ? [{ upper: 0, lower: 1, fill: "reserved" }] : []),
      ...(ahead ? [{ upper: range ? 4 : 2, lower: range ? 5 : 3, fill: "flight" }] : []),
    ],
    keys: [
      ["used", range ? "used" : "promised"],
      ["limit", "limit"],
      ...(range ? [["reserved", `least and most of each ${word}`]] : []),
      ...(ahead ? [["flight", `forecast of ${forecast.growth_days} days, 80 %`]] : []),
    ],
  };
}

function Slots({ slots, grain }) {
  const shown = slots.slice(-LONGEST_TABLE).reverse();
  const figure = (key) => (row) => (row[key] === null ? "unknown" : size(row[key]));
  const limit = (key) => (row) => (row[key] === null ? "none" : size(row[key]));
  return html`<${Table} caption="History" rows=${shown} keyOf=${(row) => row.slot} columns=${[
    { title: grain === "day" ? "Day, UTC" : "From, UTC", class: "word", cell: (row) => (grain === "day" ? row.slot.slice(0, 10) : row.slot.slice(0, 16).replace("T", " ")) },
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
