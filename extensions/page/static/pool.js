// SPDX-License-Identifier: Apache-2.0
// The section Pool: everything about one pool.

import { isEnabled } from "./api.js";
import { age, count, percent, size } from "./format.js";
import { History } from "./history.js";
import { Facts, Figures, PhysicalBar, PromisedBar, Section, SeverityWord, State, Table, poolLink, volumeLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { headroom, ratio } from "./pools.js";
import { html } from "./vendor.js";

export function Pool({ query, time, focus }) {
  const name = query.get("name") ?? "";
  const answer = usePolling(`capacity-overview/pool?${new URLSearchParams({ name })}`);
  return html`<${Section} title=${`Pool ${name}`} focus=${focus}>
    <p class="note"><a href="#pools">All pools</a></p>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Detail} detail=${data} grain=${query.get("grain")} time=${time} />`}</${Figures}>
  </${Section}>`;
}

// Nobody knows the age of the figures of a pool that is no longer reported.
const ageOf = (pool, time) => (pool.collected_at === null ? "of the last report that had the pool" : `${age(pool.collected_at, time)} old`);

function Detail({ detail, grain, time }) {
  const { pool } = detail;
  return html`
    ${pool.stale && html`<p class="warning">These figures are ${ageOf(pool, time)}. The sums do not contain them.</p>`}
    <div class=${pool.stale ? "sums stale" : "sums"}>
      <div class="sum">
        <h3>Physical: ${taken(pool.physical_percent, pool.physical_severity)}</h3>
        <${PhysicalBar} pool=${pool} />
        <${Facts} facts=${[
          ["total", size(pool.total_gb)],
          ["used", size(pool.used_gb)],
          ["in flight", size(pool.in_flight_physical_gb)],
          ["reserved", size(pool.reserved_gb)],
          ["room", current(pool, pool.physical_left_gb)],
        ]} />
      </div>
      <div class="sum">
        <h3>Promised: ${taken(pool.promised_percent, pool.promised_severity)}</h3>
        <${PromisedBar} pool=${pool} />
        <${Facts} facts=${[
          ...limits(pool),
          ["promised", size(pool.promised_gb)],
          ["of it in flight", size(pool.in_flight_gb)],
          ["placed by Tonnage", size(pool.allocated_gb)],
          ["room", current(pool, pool.promise_left_gb)],
        ]} />
      </div>
    </div>
    <${Facts} facts=${[
      ["fullness", html`<${SeverityWord} severity=${pool.severity} value=${pool.full_percent} />`],
      ["state", html`<${State} state=${pool.state} reason=${pool.state_reason} />`],
      ["zone", pool.availability_zone],
      ["figures", ageOf(pool, time)],
      ["ratio", ratio(pool)],
      ["headroom thin", headroom(pool, pool.headroom_thin_gb)],
      ["headroom thick", headroom(pool, pool.headroom_thick_gb)],
    ]} />
    ${detail.sharing.length > 0 && html`<h3>Shared storage</h3>
      <p>The storage ${pool.storage_id} is shared with: ${detail.sharing.map((name, place) => html`${place > 0 && ", "}${poolLink(name)}`)}.</p>`}
    ${detail.findings.length > 0 && html`<h3>Findings about its reports</h3>
      <${Table} caption="Findings" rows=${detail.findings} keyOf=${(row) => row.breach} columns=${[
        { title: "Broken rule", cell: (row) => row.breach },
        { title: "Evidence", cell: (row) => row.text },
        { title: "Seen", cell: (row) => `${age(row.seen_at, time)} ago` },
      ]} />`}
    ${isEnabled("history") && html`<${History} pool=${pool} grain=${grain} time=${time} />`}
    <p><a href=${`#refusals?${new URLSearchParams({ pool: pool.name })}`}>Refusals that it was nearest to</a></p>
    <h3>Operations in progress</h3>
    ${detail.claims.length === 0
      ? html`<p class="note">None.</p>`
      : html`<${Table} caption="Operations in progress" rows=${detail.claims} keyOf=${(row) => row.volume_id} columns=${[
          { title: "Operation", cell: (row) => row.verb },
          { title: "Volume", class: "name", cell: (row) => volumeLink(row.volume_id) },
          { title: "Claim", class: "number", cell: (row) => size(row.size_gb) },
          { title: "State", cell: (row) => row.state },
          { title: "Age", class: "number", cell: (row) => age(row.created_at, time) },
          { title: "Request", class: "name", cell: (row) => row.request_id },
        ]} />`}
    <h3><a href=${`#volumes?${new URLSearchParams({ pool: pool.name })}`}>${count(detail.volume_count, "volume")}</a>${detail.volume_count > detail.volumes.length ? `, the largest ${detail.volumes.length}` : ""}</h3>
    ${detail.volumes.length > 0 && html`<${Table} caption="Volumes" rows=${detail.volumes} keyOf=${(row) => row.id} columns=${[
      { title: "Volume", class: "name", cell: (row) => volumeLink(row.id, row.name || row.id) },
      { title: "Size", class: "number", cell: (row) => size(row.size_gb) },
      { title: "Type", cell: (row) => row.volume_type ?? "none" },
      { title: "Provisioning", cell: (row) => row.provisioning ?? "unknown" },
      { title: "Project", class: "name", cell: (row) => row.project_id },
      { title: "Status", cell: (row) => row.status },
      { title: "Age", class: "number", cell: (row) => age(row.created_at, time) },
    ]} />`}`;
}

const taken = (value, severity) => html`${percent(value)} taken${severity !== null && html`, <${SeverityWord} severity=${severity} value=${value} />`}`;

// Old figures tell nothing about the room that is left.
const current = (pool, gib) => (pool.stale ? "unknown" : size(gib));

// A pool without thin volumes has no limit of over-subscription: it promises its own capacity.
const limits = (pool) =>
  pool.headroom_thin_gb === null
    ? [["limit for thin volumes", "none"], ["total less reserve", size(pool.promise_limit_gb)]]
    : [["limit", size(pool.promise_limit_gb)]];
