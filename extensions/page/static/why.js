// SPDX-License-Identifier: Apache-2.0
// The sections Why and Volume: the decisions on a volume or a request, and the same request now, as the command
// `tonnage why` shows them. Nothing is placed.

import { Command, Explanation, commandLine } from "./explain.js";
import { age, size } from "./format.js";
import { Facts, Figures, Section, Table, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { Refused } from "./refusals.js";
import { html, useEffect, useState } from "./vendor.js";
import { Status } from "./volumes.js";

// Milliseconds between two questions: each asks a scheduler.
const PERIOD = 60_000;

// The page of a volume.
export function Volume({ query, time, focus }) {
  const id = query.get("id") ?? "";
  return html`<${Section} title=${`Volume ${id}`} focus=${focus}>
    <p class="note"><a href="#volumes">All volumes</a></p>
    <${Decisions} id=${id} time=${time} />
  </${Section}>`;
}

// The same for a text that somebody types.
export function Why({ query, time, focus }) {
  const id = query.get("id") ?? "";
  const [text, setText] = useState(id);
  useEffect(() => setText(id), [id]);
  const submit = (event) => {
    event.preventDefault();
    location.hash = `#why?${new URLSearchParams({ id: text.trim() })}`;
  };
  return html`<${Section} title="Why?" focus=${focus}>
    <p class="note">Why is a volume where it is, or why was it refused? For a volume that nobody has asked for yet,
      see <a href="#explain">Explain</a>.</p>
    <form class="filters" onSubmit=${submit}>
      <label>Id or name of a volume, or id of a request <input required size="40" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <button type="submit">Show</button>
    </form>
    ${id === "" ? html`<div data-figures="shown"></div>` : html`<${Decisions} id=${id} time=${time} />`}
  </${Section}>`;
}

function Decisions({ id, time }) {
  const answer = usePolling(`scheduler-stats/why?${new URLSearchParams({ volume: id })}`, { period: PERIOD });
  return html`<${Figures} answer=${answer} time=${time} loading="The schedulers are asked.">${({ why }) => html`<${Shown} why=${why} time=${time} />`}</${Figures}>
    <${Command} line=${commandLine("why", [id])} />`;
}

function Shown({ why, time }) {
  return html`<p class=${why.pool === null ? "answer refused" : "answer"}>${why.pool !== null && html`${poolLink(why.pool)}: `}${why.reason}</p>
    <${Facts} facts=${[
      ["name", why.name || "none"],
      ["id", why.volume_id],
      ...(why.status === null ? [] : [["status", html`<${Status} status=${why.status} reason=${why.status_reason} />`]]),
      ...(why.size_gb === null ? [] : [["size", size(why.size_gb)]]),
      ["type", why.volume_type ?? "none"],
      ...(why.provisioning === null ? [] : [["provisioning", why.provisioning]]),
      ["project", why.project_id],
      ["requested zone", why.requested_zone ?? "any"],
      ...(why.scheduler_hints === null || Object.keys(why.scheduler_hints).length === 0 ? [] : [["hints", JSON.stringify(why.scheduler_hints)]]),
      ...(why.attempted_pools.length === 0 ? [] : [["pools that failed to create it", why.attempted_pools.join(", ")]]),
      ["request", why.request_id],
      ...(why.created_at === null ? [] : [["age", age(why.created_at, time)]]),
    ]} />
    <h3>Claims</h3>
    ${why.claims.length === 0 ? html`<p class="note">None.</p>` : html`<${Table} caption="Claims" rows=${why.claims} keyOf=${(row) => row.id} columns=${[
      { title: "Operation", cell: (row) => row.verb },
      { title: "State", cell: (row) => row.state },
      { title: "Pool", class: "name", cell: (row) => poolLink(row.pool) },
      { title: "Claim", class: "number", cell: (row) => size(row.size_gb) },
      { title: "Age", class: "number", cell: (row) => age(row.created_at, time) },
      { title: "Request", class: "name", cell: (row) => row.request_id },
    ]} />`}
    <h3>Refusals</h3>
    ${why.refusals.length === 0 ? html`<p class="note">None recorded.</p>` : html`<${Refused} rows=${why.refusals} time=${time} />`}
    <h3>The same request now</h3>
    ${why.explanation === null
      ? html`<p class="note">${why.unexplained ?? "The ledger does not have this request."}</p>`
      : html`<${Explanation} explanation=${why.explanation} />`}`;
}
