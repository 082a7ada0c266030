// SPDX-License-Identifier: Apache-2.0
// The section Ledger: drift with its causes, orphans, the audit of reports, the ages of listings.

import { age, count, size } from "./format.js";
import { Figures, Section, Table } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

export function Ledger({ time, focus }) {
  const answer = usePolling("capacity-overview/ledger");
  return html`<${Section} title="Ledger" focus=${focus}>
    <${Figures} answer=${answer} time=${time} loading="The ledger is being checked.">${(data) => html`
      <${Overview} overview=${data} time=${time} />`}</${Figures}>
  </${Section}>`;
}

function Overview({ overview, time }) {
  const drift = overview.findings.filter(({ is_drift }) => is_drift);
  const others = overview.findings.filter(({ is_drift }) => !is_drift);
  return html`
    <p class=${overview.drift_count === 0 ? "answer" : "answer refused"}>${overview.pools === 0 && overview.drift_count === 0
      ? "There is no pool to check: no agent has reported to this ledger yet."
      : overview.drift_count === 0
      ? `${count(overview.pools, "pool")} checked: the ledger is right.`
      : `${count(overview.drift_count, "difference")} found in ${count(overview.pools, "pool")}.`}
      <span class="reason"> ${age(overview.checked_at, time)} ago</span></p>
    ${drift.length > 0 && html`<h3>Drift</h3><${Findings} caption="Drift" findings=${drift} />
      <p class="note"><code>tonnage-manage ledger repair</code> mends the differences marked so.</p>`}
    <h3>Orphans and explanations</h3>
    ${others.length === 0 ? html`<p class="note">None.</p>` : html`<${Findings} caption="Orphans and explanations" findings=${others} />`}
    ${overview.finding_count > overview.findings.length && html`<p class="note">These are
      the first ${overview.findings.length} of ${overview.finding_count.toLocaleString("en")}; <code>tonnage drift --all</code> shows all.</p>`}
    <h3>Audit of drivers' reports</h3>
    ${overview.audits.length === 0
      ? html`<p class="note">The reports keep to the definitions.</p>`
      : html`<${Table} caption="Audit of drivers' reports" rows=${overview.audits} keyOf=${(row) => `${row.backend}#${row.pool} ${row.breach}`} columns=${[
          { title: "Pool", class: "name", cell: (row) => `${row.backend}#${row.pool}` },
          { title: "Broken rule", cell: (row) => row.breach },
          { title: "Evidence", class: "why", cell: (row) => row.text },
          { title: "Seen", class: "number", cell: (row) => `${age(row.seen_at, time)} ago` },
        ]} />`}
    <h3>Reports and listings</h3>
    ${overview.backends.length === 0 ? html`<p class="note">No backend has reported.</p>` : html`<${Table}
      caption="Reports and listings" rows=${overview.backends} keyOf=${(row) => row.name} columns=${[
        { title: "Backend", class: "name", cell: (row) => row.name },
        { title: "Last report", class: "number", cell: (row) => before(row.reported_at, overview.checked_at) },
        { title: "Last listing", class: "number", cell: (row) => before(row.listed_at, overview.checked_at) },
      ]} />`}`;
}

// The answer is kept for some time, in which no later report is seen.
const before = (moment, check) => (moment === null ? "never" : `${age(moment, Date.parse(check))} before the check`);

function Findings({ caption, findings }) {
  return html`<${Table} caption=${caption} rows=${findings} keyOf=${(row) => `${row.cause} ${row.where} ${row.subject}`} columns=${[
    { title: "Cause", cell: (row) => row.cause },
    { title: "Where", class: "name", cell: (row) => row.where },
    { title: "Subject", class: "name", cell: (row) => row.subject },
    { title: "Ledger", class: "number", cell: (row) => size(row.ledger_gb) },
    { title: "Found", class: "number", cell: (row) => size(row.found_gb) },
    { title: "Because", class: "why", cell: (row) => row.text },
    { title: "Repair", cell: (row) => (row.is_mended_by_repair ? "mends it" : "leaves it") },
  ]} />`;
}
