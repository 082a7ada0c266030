// SPDX-License-Identifier: Apache-2.0
// The section Volumes: those of all projects, the newest first, selected by the server.

import { age, count, size } from "./format.js";
import { Figures, Search, Section, Table, poolLink, volumeLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

const PAGE = 100;
// Milliseconds between two questions: there may be a million volumes.
const PERIOD = 30_000;
const STATUSES = ["available", "creating", "extending", "maintenance", "deleting", "error", "error_deleting", "error_extending", "error_managing"];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

// The filters of the address by those of the API.
const FILTERS = { name: "name~", status: "status", pool: "host", marker: "marker" };

export function Volumes({ query, time, focus }) {
  const address = Object.fromEntries(Object.keys(FILTERS).map((key) => [key, query.get(key) ?? ""]));
  const filters = Object.entries(address).filter(([, value]) => value !== "").map(([key, value]) => [FILTERS[key], value]);
  const parameters = new URLSearchParams([["all_tenants", "1"], ["with_count", "1"], ["sort", "created_at:desc"], ["limit", PAGE], ...filters]);
  const answer = usePolling(`volumes/detail?${parameters}`, { keep: true, period: PERIOD });
  const hashOf = (change) => `#volumes?${new URLSearchParams(Object.entries({ ...address, marker: "", ...change }).filter(([, value]) => value !== ""))}`;
  const go = (change) => location.replace(hashOf(change));
  const search = (text) => {
    if (ID.test(text.trim())) location.hash = `#volume?${new URLSearchParams({ id: text.trim() })}`;
    else go({ name: text });
  };
  return html`<${Section} title="Volumes" focus=${focus}>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${Search} title="Name contains, or id" value=${address.name} change=${search} />
      <label>Status <select value=${address.status} onChange=${(event) => go({ status: event.target.value })}>
        <option value="">all</option>${STATUSES.map((status) => html`<option value=${status}>${status}</option>`)}</select></label>
    </form>
    ${address.pool && html`<p class="note">Only those in ${poolLink(address.pool)}. <a href=${hashOf({ pool: "" })}>Those in all pools</a></p>`}
    <${Figures} answer=${answer} time=${time}>${(data) => html`
      <p class="pages" aria-live="polite"><span>${data.count === 0 ? "No volume matches." : count(data.count, "volume")}</span>
        ${address.marker && html`<a href=${hashOf({})}>The newest</a>`}
        ${data.volumes_links && html`<a href=${hashOf({ marker: data.volumes.at(-1).id })}>The next ${PAGE}</a>`}</p>
      ${data.volumes.length > 0 && html`<${List} volumes=${data.volumes} time=${time} />`}`}</${Figures}>
  </${Section}>`;
}

const List = ({ volumes, time }) => html`<${Table} caption="Volumes" rows=${volumes} keyOf=${(row) => row.id} columns=${[
  { title: "Volume", class: "name", cell: (row) => html`${volumeLink(row.id, row.name || row.id)}${row.name && html` <span class="reason">${row.id}</span>`}` },
  { title: "Status", class: "states", cell: (row) => html`<${Status} status=${row.status} reason=${row.status_reason} />` },
  { title: "Size", class: "number", cell: (row) => size(row.size) },
  { title: "Type", cell: (row) => row.volume_type ?? "none" },
  { title: "Pool", class: "name", cell: (row) => (row["os-vol-host-attr:host"] ? poolLink(row["os-vol-host-attr:host"]) : "none") },
  { title: "Project", class: "name", cell: (row) => row["os-vol-tenant-attr:tenant_id"] ?? "unknown" },
  { title: "Age", class: "number", cell: (row) => age(row.created_at, time) },
]} />`;

// The status of a volume, with the reason of an error.
export const Status = ({ status, reason }) => html`<span class=${status.startsWith("error") ? "state down" : ""}>${status}</span>${
  reason && html`<span class="reason"> ${reason}</span>`}`;
