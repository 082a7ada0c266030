// SPDX-License-Identifier: Apache-2.0
// The section Soon: pools by the time until they are full.

import { age, count, percent, size } from "./format.js";
import { Figures, Section, Table, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

// Milliseconds between two questions: forecasts are made once a day.
const PERIOD = 60_000;

export function Soon({ time, focus }) {
  const answer = usePolling("capacity-overview/forecasts", { period: PERIOD });
  const refusals = usePolling("capacity-overview/coming-refusals", { period: PERIOD });
  return html`<${Section} title="Soon" focus=${focus}>
    <h3>Pools</h3>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Forecasts} overview=${data} time=${time} />`}</${Figures}>
    <h3>Refusals to come</h3>
    <${Figures} answer=${refusals} time=${time} loading="The schedulers are asked.">${(data) => html`<${Refused} types=${data.types} />`}</${Figures}>
  </${Section}>`;
}

function Forecasts({ overview, time }) {
  if (overview.count === 0) return html`<p class="note">There is no forecast: the first one is made on the day after the first sample of the history.</p>`;
  return html`<p class="note">The range has the day with a probability of 80 %, and the growth of
      the next ${overview.forecasts[0].growth_days} days. The hit rate is the share of earlier forecasts whose range had the growth.</p>
    <${Table} caption="Forecasts" rows=${overview.forecasts} keyOf=${(row) => `${row.pool} ${row.bound}`} columns=${[
      { title: "Pool", class: "name", cell: (row) => poolLink(row.pool) },
      { title: "Bound", cell: (row) => row.bound },
      { title: "Forecast", class: "why", cell: (row) => row.text },
      { title: "Growth a week", class: "number", cell: growth },
      { title: "Hit rate", class: "number", cell: (row) => (row.hit_rate === null ? "not known yet" : `${percent(100 * row.hit_rate)} of ${row.checked}`) },
      { title: "Made", class: "number", cell: (row) => `${age(row.made_on, time)} ago` },
    ]} />
    ${overview.count > overview.forecasts.length && html`<p class="note">The first ${overview.forecasts.length}
      of ${count(overview.count, "forecast")}; <code>tonnage forecast</code> shows all.</p>`}`;
}

function Refused({ types }) {
  if (types.length === 0) return html`<p class="note">There is no history of volume types yet.</p>`;
  return html`<p class="note">The requests of recorded days are decided on the pools as they are now, by the code that
      decides, in runs of 14 days.</p>
    <${Table} caption="Refusals to come" rows=${types} keyOf=${(row) => row.volume_type} columns=${[
      { title: "Type", class: "name", cell: (row) => row.volume_type || "none" },
      { title: "Forecast", class: "why", cell: (row) => row.text },
    ]} />
    <p class="note">The same as a command: <code>tonnage forecast --refusals</code></p>`;
}

function growth({ low_gb, high_gb, growth_days }) {
  if (low_gb === null) return "unknown";
  const [low, high] = [low_gb, high_gb].map((gib) => (gib * 7) / growth_days);
  return `${size(low)} to ${size(high)}`;
}
