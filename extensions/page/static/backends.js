// SPDX-License-Identifier: Apache-2.0
// The section Backends: their states, and the sums of their pools.

import { age, count, size } from "./format.js";
import { Code, Figures, SEVERITIES, Section, SeverityWord, State, Table, backendLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

export function Backends({ time, focus }) {
  const answer = usePolling("capacity-overview/backends");
  return html`<${Section} title="Backends" focus=${focus}>
    <${Figures} answer=${answer} time=${time}>${({ backends }) =>
      backends.length === 0 ? html`<p class="note">No backend has reported.</p>` : html`<${List} backends=${backends} time=${time} />`}</${Figures}>
    <p class="note">The same as a command: <${Code} line="tonnage backends" />; <${Code} line="tonnage-manage backend" /> enables,
      disables, drains and removes.</p>
  </${Section}>`;
}

// Backends that need attention come first.
const RANKS = { down: 0, draining: 1, disabled: 2, up: 3 };

function List({ backends, time }) {
  const rows = [...backends].sort((first, second) => RANKS[first.state] - RANKS[second.state]);
  return html`<${Table} caption="Backends" rows=${rows} keyOf=${(row) => row.name} rowClass=${(row) => (row.state === "down" ? "stale" : "")} columns=${[
    { title: "Backend", class: "name", cell: (row) => backendLink(row.name) },
    { title: "State", class: "why", cell: (row) => html`<${State} state=${row.state} reason=${row.state_reason} />` },
    { title: "Last report", class: "number", cell: (row) => (row.reported_at === null ? "never" : `${age(row.reported_at, time)} ago`) },
    { title: "Zone", cell: (row) => row.availability_zone },
    { title: "Pools", class: "number", cell: (row) => row.pools.toLocaleString("en") },
    { title: "Fullness of pools", cell: (row) => html`<${Fullness} counts=${row.fullness} />` },
    { title: "Placed by Tonnage", class: "number", cell: (row) => size(row.allocated_gb) },
    { title: "In flight", class: "number", cell: (row) => size(row.in_flight_gb) },
  ]} />`;
}

function Fullness({ counts }) {
  const severities = Object.keys(SEVERITIES).filter((severity) => counts[severity] > 0);
  if (severities.length === 0) return html`<span class="reason">unknown</span>`;
  return severities.map((severity) => html`<div><${SeverityWord} severity=${severity} value=${0} />: ${count(counts[severity], "pool")}</div>`);
}
