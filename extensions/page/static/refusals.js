// SPDX-License-Identifier: Apache-2.0
// The section Refusals: their numbers by day and reason, and the last ones in full.

import { queryOf } from "./explain_form.js";
import { age, count } from "./format.js";
import { Bar, Figures, Section, Table, poolLink, volumeLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

export function Refusals({ query, time, focus }) {
  const pool = query.get("pool") ?? "";
  const answer = usePolling(`capacity-overview/refusals${pool && `?${new URLSearchParams({ pool })}`}`);
  return html`<${Section} title="Refusals" focus=${focus}>
    ${pool && html`<p class="note">Only those whose nearest pool was ${poolLink(pool)}. <a href="#refusals">All refusals</a></p>`}
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Overview} overview=${data} time=${time} />`}</${Figures}>
  </${Section}>`;
}

function Overview({ overview, time }) {
  if (overview.refusals.length === 0) return html`<p class="answer">No request was refused in the last 30 days.</p>`;
  const most = Math.max(...overview.counts.map(({ refusals }) => refusals));
  const total = overview.counts.reduce((sum, { refusals }) => sum + refusals, 0);
  return html`
    <h3>${count(total, "refusal")} by day and reason</h3>
    <${Table} caption="Refusals by day and reason" rows=${overview.counts} keyOf=${(row) => `${row.day} ${row.verb} ${row.filter} ${row.code}`} columns=${[
      { title: "Day", class: "word", cell: (row) => row.day },
      { title: "Request", cell: (row) => row.verb },
      { title: "Filter", cell: (row) => row.filter || "none" },
      { title: "Code", cell: (row) => row.code },
      { title: "Number", class: "share", cell: (row) => html`<${Bar} label=${count(row.refusals, "refusal")} whole=${most} segments=${[["used", row.refusals]]} /><span>${row.refusals.toLocaleString("en")}</span>` },
    ]} />
    <h3>The last ${overview.refusals.length}</h3>
    <${Refused} rows=${overview.refusals} time=${time} />`;
}

// Refused requests, the newest first.
export function Refused({ rows, time }) {
  return html`<${Table} caption="The last refusals" rows=${rows} keyOf=${(row) => `${row.request_id} ${row.volume_id} ${row.refused_at}`} columns=${[
    { title: "Age", class: "number", cell: (row) => age(row.refused_at, time) },
    { title: "Request", cell: (row) => `${row.verb} ${row.request}` },
    { title: "Reason", class: "why", cell: (row) => row.message },
    { title: "Project", class: "name", cell: (row) => row.project_id },
    { title: "Volume", class: "name", cell: (row) => volumeLink(row.volume_id) },
    { title: "Now", class: "word", cell: (row) => html`<${AskAgain} refused=${row} />` },
  ]} />`;
}

function AskAgain({ refused }) {
  const query = queryOf(refused.request_body);
  if (query === null) return "";
  return html`<a href=${`#explain?${query}`}>Ask again now<span class="hidden">: ${refused.request}</span></a>`;
}
