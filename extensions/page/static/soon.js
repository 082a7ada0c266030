// SPDX-License-Identifier: Apache-2.0
// The section Soon: pools by the time until they are full, and the volume types that will be refused.

import { age, count, percent, size } from "./format.js";
import { Figures, Section, Table, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

// Milliseconds between two questions: forecasts are made once a day or hour.
const PERIOD = 60_000;

// The sizes and types that the requests before a refusal are told with.
const MOST = 5;

export function Soon({ time, focus }) {
  const answer = usePolling("capacity-overview/forecasts", { period: PERIOD });
  const refusals = usePolling("capacity-overview/coming-refusals", { period: PERIOD });
  return html`<${Section} title="Soon" focus=${focus}>
    <h3>Pools</h3>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Forecasts} overview=${data} />`}</${Figures}>
    <h3>Refusals to come</h3>
    <${Figures} answer=${refusals} time=${time}>${(data) => html`<${Refused} types=${data.types} time=${time} />`}</${Figures}>
  </${Section}>`;
}

function Forecasts({ overview }) {
  if (overview.count === 0) return html`<p class="note">There is no forecast: the first one is made on the day after the first sample of the history.</p>`;
  return html`<p class="note">The range has the day with a probability of 80 %, and the growth of
      the next ${overview.forecasts[0].growth_days} days. The hit rate is the share of earlier forecasts whose range had the growth.</p>
    <${Table} caption="Forecasts" rows=${overview.forecasts} keyOf=${(row) => `${row.pool} ${row.bound}`} columns=${[
      { title: "Pool", class: "name", cell: (row) => poolLink(row.pool) },
      { title: "Bound", cell: (row) => row.bound },
      { title: "Forecast", class: "why", cell: (row) => row.text },
      { title: "Growth a week", class: "number", cell: growth },
      { title: "Hit rate", class: "number", cell: (row) => (row.hit_rate === null ? "not known yet" : `${percent(100 * row.hit_rate)} of ${row.checked}`) },
      { title: "Made on", class: "word", cell: (row) => row.made_on.slice(0, 10) },
    ]} />
    ${overview.count > overview.forecasts.length && html`<p class="note">The first ${overview.forecasts.length}
      of ${count(overview.count, "forecast")}; <code>tonnage forecast</code> shows all.</p>`}`;
}

function Refused({ types, time }) {
  if (types.length === 0) return html`<p class="note">There is no forecast of refusals: a scheduler makes one each hour from the history of volume types.</p>`;
  return html`<p class="note">The requests of recorded days were decided on the pools as they were, by the code that
      decides, in runs of 14 days. The reason is that of one of the refusals, the requests are those that led to it.</p>
    <${Table} caption="Refusals to come" rows=${types} keyOf=${(row) => row.volume_type} columns=${[
      { title: "Type", class: "name", cell: (row) => row.volume_type || "none" },
      { title: "Forecast", class: "why", cell: (row) => row.text },
      { title: "Reason", class: "why", cell: (row) => row.message ?? "none" },
      { title: "Requests", class: "why", cell: (row) => requests(row.requests) },
      { title: "Made", class: "number", cell: (row) => `${age(row.made_at, time)} ago` },
    ]} />
    <p class="note">The same as a command: <code>tonnage forecast --refusals</code>; with <code>-f json</code> the requests
      are in their order, for <code>tonnage what-if --file</code>.</p>`;
}

// "41 × 5 GiB gold, 20 GiB and 7 volumes of other sizes"
function requests(wanted) {
  if (wanted.length === 0) return "none";
  const texts = wanted.slice(0, MOST).map(({ number, size_gb, volume_type }) => `${number > 1 ? `${number.toLocaleString("en")} × ` : ""}${size(size_gb)} ${volume_type}`.trim());
  const others = wanted.slice(MOST).reduce((sum, { number }) => sum + number, 0);
  return `${texts.join(", ")}${others > 0 ? ` and ${count(others, "volume")} of other sizes or types` : ""}`;
}

function growth({ low_gb, high_gb, growth_days }) {
  if (low_gb === null) return "unknown";
  const [low, high] = [low_gb, high_gb].map((gib) => (gib * 7) / growth_days);
  return `${size(low)} to ${size(high)}`;
}
