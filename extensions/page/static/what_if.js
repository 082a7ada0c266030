// SPDX-License-Identifier: Apache-2.0
// The section What if: decisions under assumed changes, by the code that decides. Nothing is placed.

import { Command, Explanation, commandLine } from "./explain.js";
import { Figures, Section, Table } from "./parts.js";
import { usePolling, useQuestion } from "./polling.js";
import { html, useEffect, useState } from "./vendor.js";

// Milliseconds from the last move of a slider to the question.
const PAUSE = 300;

// Up to this number of pools the answer has a verdict on each.
const MAX_VERDICTS = 200;

// The names that the fields suggest, and the milliseconds between two looks for new ones.
const POOLS = "capacity-overview/pools?limit=1000&sort_key=name&sort_dir=asc";
const POOLS_PERIOD = 300_000;

// The form that an address fills. A change is on if the address has it.
function formOf(query) {
  const value = (key, otherwise = "") => query.get(key) ?? otherwise;
  return {
    size: value("size", "10"),
    type: value("type"),
    ratio: { on: query.has("ratio"), value: value("ratio", "2"), of: value("ratio_of") },
    reserve: { on: query.has("reserve"), value: value("reserve", "10"), of: value("reserve_of") },
    lose: { on: query.has("lose"), of: value("lose") },
    add: { on: query.has("add"), name: value("add", "new@backend#pool"), total: value("total", "1000"), thin: value("kind") !== "thick" },
  };
}

// The address that fills the form.
function addressOf({ size, type, ratio, reserve, lose, add }) {
  const given = {
    size,
    type,
    ...(ratio.on && { ratio: ratio.value, ratio_of: ratio.of }),
    ...(reserve.on && { reserve: reserve.value, reserve_of: reserve.of }),
    ...(lose.on && { lose: lose.of }),
    ...(add.on && { add: add.name, total: add.total, kind: add.thin ? "thin" : "thick" }),
  };
  return `#what-if?${new URLSearchParams(Object.entries(given).filter(([key, value]) => value !== "" || key === "lose"))}`;
}

// Whether the API takes a size.
const isSize = (text) => /^[0-9]+$/.test(text) && Number(text) > 0;

// The question about a volume and assumed changes, for the API.
function questionOf({ size, type, ratio, reserve, lose, add }, detail) {
  const ratioValue = Number(ratio.value);
  const reserveValue = Number(reserve.value);
  const changes = {
    ...(ratio.on && (ratio.of ? { ratios: { [ratio.of]: ratioValue } } : { default_ratio: ratioValue })),
    ...(reserve.on && (reserve.of ? { reserved_percentages: { [reserve.of]: reserveValue } } : { reserved_percentage: reserveValue })),
    ...(lose.on && lose.of && { lost: [lose.of] }),
    ...(add.on && { added: [report(add)] }),
  };
  return { requests: [{ volume: { size: Number(size), ...(type && { volume_type: type }) } }], changes, detail };
}

// A new, empty pool as a driver reports it.
const report = ({ name, total, thin }) => ({
  pool_name: name,
  total_capacity_gb: Number(total),
  free_capacity_gb: Number(total),
  [thin ? "thin_provisioning_support" : "thick_provisioning_support"]: true,
});

// The same question as arguments of the command.
function wordsOf({ requests: [{ volume }], changes }) {
  const named = (values = {}) => Object.entries(values).map(([name, value]) => `${name}=${value}`);
  const all = (option, values) => values.flatMap((value) => [option, String(value)]);
  return [
    String(volume.size),
    ...(volume.volume_type ? ["--type", volume.volume_type] : []),
    ...all("--ratio", [changes.default_ratio ?? [], named(changes.ratios)].flat()),
    ...all("--reserved", [changes.reserved_percentage ?? [], named(changes.reserved_percentages)].flat()),
    ...all("--lose", changes.lost ?? []),
    ...all("--add", (changes.added ?? []).map((pool) => JSON.stringify(pool))),
  ];
}

export function WhatIf({ query, time, focus }) {
  const [form, setForm] = useState(() => formOf(query));
  const types = usePolling("capacity-overview/types").data?.types ?? [];
  const known = usePolling(POOLS, { period: POOLS_PERIOD });
  const { pools, count } = known.data ?? { pools: [], count: 0 };
  const places = [...new Set(pools.flatMap(({ name, backend }) => [backend, name]))];
  const given = query.toString();
  useEffect(() => setForm(formOf(query)), [given]);
  useEffect(() => {
    // A browser limits the number of changes of an address, and a slider makes many.
    const timer = setTimeout(() => history.replaceState(null, "", addressOf(form)), PAUSE);
    return () => clearTimeout(timer);
  }, [form, query]);
  const question = known.stage === "loading" || !isSize(form.size) ? null : questionOf(form, count <= MAX_VERDICTS);
  const answer = useQuestion("scheduler-stats/what-if", question, PAUSE);
  const change = (key, part) => setForm((last) => ({ ...last, [key]: { ...last[key], ...part } }));
  return html`<${Section} title="What if?" focus=${focus}>
    <p class="note">The schedulers decide about a copy of the pools with these changes. Nothing is placed.</p>
    <form class="changes" onSubmit=${(event) => event.preventDefault()}>
      <datalist id="places">${places.map((name) => html`<option value=${name} />`)}</datalist>
      <fieldset><legend>A volume</legend>
        <label>Size in GiB <input type="number" min="1" step="1" required value=${form.size} onInput=${(event) => setForm({ ...form, size: event.target.value })} /></label>
        <label>Type <select value=${form.type} onChange=${(event) => setForm({ ...form, type: event.target.value })}>
          <option value="">default</option>${types.map(({ name }) => html`<option value=${name}>${name}</option>`)}</select></label>
      </fieldset>
      <${Slider} title="Other ratio" name="Ratio" of="all pools that report none" min="1" max="30" step="0.5" value=${form.ratio} change=${(part) => change("ratio", part)} />
      <${Slider} title="Other reserve" name="Reserved" unit=" %" of="all pools" min="0" max="100" step="1" value=${form.reserve} change=${(part) => change("reserve", part)} />
      <${Change} title="A lost pool or backend" on=${form.lose.on} change=${(on) => change("lose", { on })}>
        <label>Name <input list="places" placeholder="host@backend#pool" value=${form.lose.of} onInput=${(event) => change("lose", { of: event.target.value })} /></label>
      </${Change}>
      <${Change} title="A pool more" on=${form.add.on} change=${(on) => change("add", { on })}>
        <label>Name <input value=${form.add.name} onInput=${(event) => change("add", { name: event.target.value })} /></label>
        <label>Total: ${Number(form.add.total).toLocaleString("en")} GiB <input type="range" min="100" max="100000" step="100" value=${form.add.total} onInput=${(event) => change("add", { total: event.target.value })} /></label>
        <label class="check"><input type="checkbox" checked=${form.add.thin} onChange=${(event) => change("add", { thin: event.target.checked })} /> thin volumes</label>
      </${Change}>
    </form>
    ${!isSize(form.size) && html`<p class="answer refused" role="alert">The size is a whole number of GiB, 1 or more.</p>`}
    <${Figures} answer=${known.stage === "loading" ? known : answer} time=${time} loading="The schedulers are asked.">${({ asked, body: { outlooks: [outlook] } }) => html`
      <div aria-live="polite"><${Outlook} outlook=${outlook} /></div>
      <${Command} line=${commandLine("what-if", wordsOf(asked))} />
      ${outlook.volumes[0].verdicts.length > 0 && html`<h3>Pools, with the changes</h3>
        <${Explanation} explanation=${outlook.volumes[0]} />`}`}</${Figures}>
  </${Section}>`;
}

// A change that counts while its box is ticked.
function Change({ title, on, change, children }) {
  return html`<fieldset class=${on ? "on" : ""}>
    <legend><label class="check"><input type="checkbox" checked=${on} onChange=${(event) => change(event.target.checked)} /> ${title}</label></legend>
    ${children}
  </fieldset>`;
}

function Slider({ title, name, unit = "", of, min, max, step, value, change }) {
  return html`<${Change} title=${title} on=${value.on} change=${(on) => change({ on })}>
    <label>${name}: ${value.value}${unit} <input type="range" min=${min} max=${max} step=${step} value=${value.value}
      onInput=${(event) => change({ on: true, value: event.target.value })} /></label>
    <label>Of <input list="places" placeholder=${of} value=${value.of} onInput=${(event) => change({ of: event.target.value })} /></label>
  </${Change}>`;
}

// The table of the command, and its messages about refusals.
function Outlook({ outlook }) {
  const then = outlook.volumes[0];
  const before = (outlook.unchanged.length > 0 ? outlook.unchanged : outlook.volumes)[0];
  const columns = [
    { title: "Number", cell: () => "1" },
    { title: "Request", cell: () => then.request },
    { title: "Now", class: "name", cell: () => before.pool ?? "refused" },
    { title: "Then", class: "name", cell: () => then.pool ?? "refused" },
    { title: "Differs", cell: () => (before.pool === then.pool ? "no" : "yes") },
  ];
  return html`<div class="outlook"><${Table} caption="Now and then" columns=${columns} rows=${[outlook]} keyOf=${() => 1} /></div>
    ${then.pool === null && html`<p class="answer refused">1: ${then.message}</p>`}`;
}
