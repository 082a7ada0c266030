// SPDX-License-Identifier: Apache-2.0
// The section Explain: the decision about a new volume, explained pool by pool. Nothing is placed.

import { Command, Explanation, commandLine } from "./explain.js";
import { Figures, Section } from "./parts.js";
import { usePolling, useQuestion } from "./polling.js";
import { html, useEffect, useState } from "./vendor.js";

// "key=value" on each line, as the scheduler hints of a request.
function hints(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const [key, ...value] = line.split("=");
    found[key] = key in found ? [found[key], value.join("=")].flat() : value.join("=");
  }
  return found;
}

const EMPTY = { size: "", type: "", zone: "", hints: "" };

// The address that asks the question of a request for a new volume; null for a request that the form cannot ask.
export function queryOf(body) {
  if (!body || body.volume.source_volid) return null;
  const { size, volume_type: type = "", availability_zone: zone = "" } = body.volume;
  const pairs = Object.entries(body["OS-SCH-HNT:scheduler_hints"] ?? {}).flatMap(([key, value]) => [value].flat().map((one) => [key, one]));
  if (pairs.some(([, value]) => typeof value !== "string" || value.includes("\n"))) return null;
  const asked = { size, type, zone, hints: pairs.map((pair) => pair.join("=")).join("\n") };
  return new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
}

// The question that an address asks, for the API; null without a size.
function questionOf({ size, type, zone, hints: lines }) {
  if (size === "") return null;
  const volume = { size: Number(size), ...(type && { volume_type: type }), ...(zone && { availability_zone: zone }) };
  return { volume, "OS-SCH-HNT:scheduler_hints": hints(lines) };
}

// The same question as arguments of the command.
function wordsOf({ volume, "OS-SCH-HNT:scheduler_hints": given }) {
  return [
    String(volume.size),
    ...(volume.volume_type ? ["--type", volume.volume_type] : []),
    ...(volume.availability_zone ? ["--zone", volume.availability_zone] : []),
    ...Object.entries(given).flatMap(([key, value]) => [value].flat().flatMap((one) => ["--hint", `${key}=${one}`])),
  ];
}

export function Explain({ query, time, focus }) {
  const asked = Object.fromEntries(Object.keys(EMPTY).map((key) => [key, query.get(key) ?? ""]));
  const [form, setForm] = useState(asked);
  const types = usePolling("capacity-overview/types").data?.types ?? [];
  const answer = useQuestion("scheduler-stats/explain", questionOf(asked));
  const address = query.toString();
  useEffect(() => setForm(asked), [address]);
  const submit = (event) => {
    event.preventDefault();
    const next = new URLSearchParams(Object.entries(form).filter(([, value]) => value !== ""));
    if (next.toString() === address) answer.retry();
    else location.hash = `#explain?${next}`;
  };
  const field = (key) => ({ value: form[key], onInput: (event) => setForm({ ...form, [key]: event.target.value }) });
  return html`<${Section} title="Explain" focus=${focus}>
    <p class="note">Where would a volume go now, and why nowhere else? Nothing is placed.</p>
    <form class="filters" onSubmit=${submit}>
      <label>Size in GiB <input type="number" min="1" step="1" required ...${field("size")} /></label>
      <label>Type <select value=${form.type} onChange=${field("type").onInput}>
        <option value="">default</option>${types.map(({ name }) => html`<option value=${name}>${name}</option>`)}
        ${form.type && !types.some(({ name }) => name === form.type) && html`<option value=${form.type}>${form.type}</option>`}
      </select></label>
      <label>Availability zone <input ...${field("zone")} /></label>
      <label>Hints, key=value lines <textarea rows="1" ...${field("hints")}></textarea></label>
      <button type="submit">Explain</button>
    </form>
    <${Figures} answer=${answer} time=${time} loading="The schedulers are asked.">${(data) => html`
      <${Explanation} explanation=${data.body.explanation} />
      <${Command} line=${commandLine("explain", wordsOf(data.asked))} />`}</${Figures}>
  </${Section}>`;
}
