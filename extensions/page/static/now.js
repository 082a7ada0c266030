// SPDX-License-Identifier: Apache-2.0
// The section Now: the problems, and the sums of all pools, physical and promised apart.

import { count, percent, size } from "./format.js";
import { Bar, Figures, Key, Section } from "./parts.js";
import { Fullest } from "./pools.js";
import { Problems } from "./problems.js";
import { html } from "./vendor.js";

export function Now({ summary, time, focus }) {
  return html`<${Section} title="Now" focus=${focus}>
    <${Figures} answer=${summary} time=${time}>${(data) =>
      data.pools === 0 ? html`<${Empty} backends=${data.backends.total} />` : html`<h3>Problems</h3><${Problems} problems=${data.problems} /><${Sums} summary=${data} />`}</${Figures}>
    ${summary.data?.pools > 0 && html`<${Fullest} time=${time} />`}
  </${Section}>`;
}

// A bound of all pools: the parts within the bounds of single pools are its whole, and an excess stands apart, so that
// it takes nothing from the room of other pools.
function Sums({ summary }) {
  const { physical, promised } = summary;
  return html`<div class="sums">
      <${Sum} title="Physical" end="total" whole=${physical.total_gb} usable=${physical.total_gb - physical.reserved_gb}
        taken=${physical.used_gb + physical.in_flight_gb - physical.excess_gb} excess=${["in reserves", physical.excess_gb]} parts=${[
          ["used", "used", physical.used_gb],
          ["flight", "in flight", physical.in_flight_gb],
          ["room", "room", physical.left_gb],
          ["reserved", "reserved", physical.reserved_gb - physical.excess_gb],
        ]} />
      <${Sum} title="Promised" end="limit" whole=${promised.limit_gb} usable=${promised.limit_gb}
        taken=${promised.promised_gb - promised.excess_gb} excess=${["over limits", promised.excess_gb]} parts=${[
          ["used", "provisioned within limits", promised.promised_gb - promised.in_flight_gb - promised.excess_gb],
          ["flight", "in flight", promised.in_flight_gb],
          ["room", "room", promised.left_gb],
        ]} />
    </div>
    <p class="note">${leftOut(summary)}</p>`;
}

function Sum({ title, end, whole, usable, taken, excess: [excessName, excess], parts }) {
  const share = usable > 0 ? percent((taken / usable) * 100) : "unknown";
  // A storage that pools share may leave them less room than they have: the bar shows the rest of the scale.
  const segments = parts.map(([color, , value]) => [color === "room" ? "gap" : color, Math.max(value, 0)]);
  const rest = Math.max(whole - segments.reduce((sum, [color, value]) => sum + (color === "gap" ? 0 : value), 0), 0);
  const drawn = segments.map(([color, value]) => [color, color === "gap" ? rest : value]);
  const over = excess > 0 ? `; ${size(excess)} ${excessName}` : "";
  return html`<div class="sum">
    <h3>${title}: ${share} taken${over && html`<span class="state down">${over}</span>`}</h3>
    <${Bar} large whole=${whole} segments=${drawn} label=${`${title}: ${share} taken${over}`} />
    <dl class="legend">${parts.map(([color, name, value]) => html`<div><dt><${Key} color=${color} />${name}</dt><dd>${size(Math.max(value, 0))}</dd></div>`)}
      ${excess > 0 && html`<div><dt><${Key} color="heat5" />${excessName}</dt><dd>${size(excess)}</dd></div>`}
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
