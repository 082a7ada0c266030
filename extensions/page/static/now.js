// SPDX-License-Identifier: Apache-2.0
// The section Now: the sums of all pools, physical and promised apart.

import { count, percent, size } from "./format.js";
import { Bar, Figures, Section } from "./parts.js";
import { Fullest } from "./pools.js";
import { html } from "./vendor.js";

export function Now({ summary, time, focus }) {
  return html`<${Section} title="Now" focus=${focus}>
    <${Figures} answer=${summary} time=${time}>${(data) =>
      data.pools === 0 ? html`<${Empty} backends=${data.backends.total} />` : html`<${Sums} summary=${data} />`}</${Figures}>
    ${summary.data?.pools > 0 && html`<${Fullest} time=${time} />`}
  </${Section}>`;
}

function Sums({ summary }) {
  const { physical, promised } = summary;
  return html`<div class="sums">
      <${Sum} title="Physical" whole=${physical.total_gb} taken=${physical.used_gb + physical.in_flight_gb}
        usable=${physical.total_gb - physical.reserved_gb} parts=${[
          ["used", "used", physical.used_gb],
          ["flight", "in flight", physical.in_flight_gb],
          ["room", "room", physical.left_gb],
          ["reserved", "reserved", physical.reserved_gb],
        ]} end="total" />
      <${Sum} title="Promised" whole=${promised.limit_gb} taken=${promised.promised_gb} usable=${promised.limit_gb}
        parts=${[
          ["used", "provisioned", promised.promised_gb - promised.in_flight_gb],
          ["flight", "in flight", promised.in_flight_gb],
          ["room", "room", promised.left_gb],
        ]} end="limit" />
    </div>
    <p class="note">${leftOut(summary)}</p>`;
}

function Sum({ title, whole, taken, usable, parts, end }) {
  const share = usable > 0 ? percent((taken / usable) * 100) : "unknown";
  const room = parts.findIndex(([kind]) => kind === "room");
  // The rest of the scale, which is less than the room of pools that are not over their limits.
  const rest = Math.max(whole - parts.reduce((sum, [kind, , value]) => sum + (kind === "room" ? 0 : value), 0), 0);
  const segments = parts.map(([kind, , value], place) => (place === room ? ["gap", rest] : [kind, value]));
  return html`<div class="sum">
    <h3>${title}: ${share} taken</h3>
    <${Bar} large whole=${Math.max(whole, taken)} limit=${end === "limit" ? whole : null} segments=${segments}
      label=${`${title}: ${share} taken`} />
    <dl class="legend">${parts.map(([kind, name, value]) => html`<div>
      <dt><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${kind} width="10" height="10" /></svg>${name}</dt>
      <dd>${size(value)}</dd></div>`)}
      <div><dt>${end}</dt><dd>${size(whole)}</dd></div>
    </dl>
  </div>`;
}

// The pools that the sums do not contain, in words.
export function leftOut(summary) {
  const { stale, disabled, unknown } = summary.left_out;
  const parts = [
    [stale, "with stale figures"],
    [disabled, "disabled or draining"],
    [unknown, "with unknown or infinite capacity"],
  ].filter(([number]) => number > 0);
  const sums = `Sums of ${count(summary.summed_pools, "pool")}`;
  if (parts.length === 0) return `${sums}, which are all.`;
  return `${sums}; left out: ${parts.map(([number, words]) => `${number.toLocaleString("en")} ${words}`).join(", ")}.`;
}

function Empty({ backends }) {
  const title = backends === 0 ? "No backend has reported" : "No pool has been reported";
  return html`<div class="empty">
    <h3>${title}</h3>
    <p>Pools appear here as soon as an agent has sent its first report. This command starts one next to the storage:</p>
    <pre tabindex="0">tonnage-agent --config-file /etc/tonnage/tonnage.conf</pre>
  </div>`;
}
