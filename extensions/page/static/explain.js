// SPDX-License-Identifier: Apache-2.0
// Explanations of decisions, with the words and the order of the command `tonnage explain`.

import { Table, poolLink } from "./parts.js";
import { html } from "./vendor.js";

const MAX_ROWS = 100;

// A word of a command line for a POSIX shell.
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// The command that asks the same of this server.
export function commandLine(verb, words) {
  const url = new URL("..", document.baseURI).href.replace(/\/$/, "");
  return ["tonnage", verb, ...words, "--url", url].map(quoted).join(" ");
}

export const Command = ({ line }) => html`<h3>The same as a command</h3><pre class="command" tabindex="0">${line}</pre>`;

// A number with six digits, as the command prints it.
const general = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value);

// A sort key: the chosen pool, then candidates, then refused pools by refusals and headroom.
function rank(verdict, explanation) {
  if (verdict.filter === null) return [verdict.pool === explanation.pool ? 0 : 1, 0, -(verdict.total_weight ?? 0), verdict.pool];
  return [1, 1 + verdict.also.length, typeof verdict.headroom === "number" ? -verdict.headroom : 0, verdict.pool];
}

function compare(one, other) {
  const place = one.findIndex((value, index) => value !== other[index]);
  if (place < 0) return 0;
  return one[place] < other[place] ? -1 : 1;
}

const verdictWord = (verdict, explanation) =>
  verdict.pool === explanation.pool ? "chosen" : verdict.filter === null ? "candidate" : "refused";

// The weight is null if a weigher cannot rank the pool, because JSON has no NaN.
function weight({ raw, scaled, multiplier, failure }) {
  if (failure !== null) return "failed";
  return `${raw === null ? "nan" : general(raw)} -> ${scaled.toFixed(3)} x ${general(multiplier)}`;
}

function reasons(verdict) {
  const first = verdict.rejection === null ? [] : [`${verdict.filter}: ${verdict.rejection.message}`];
  return [...first, ...verdict.also.map(({ filter, rejection }) => `${filter}: ${rejection.message}`)];
}

const lines = (texts) => texts.map((text) => html`<div>${text}</div>`);

export function Explanation({ explanation }) {
  const ranked = explanation.verdicts
    .map((verdict) => [rank(verdict, explanation), verdict])
    .sort(([one], [other]) => compare(one, other))
    .map(([, verdict]) => verdict);
  const shown = ranked.slice(0, MAX_ROWS);
  const weighers = [...new Set(ranked.flatMap((verdict) => verdict.weights.map(({ weigher }) => weigher)))];
  const kind = (verdict) => (verdict.thin === null ? "" : verdict.thin ? " thin" : " thick");
  const columns = [
    { title: "Pool", class: "name", cell: (verdict) => poolLink(verdict.pool) },
    { title: "Verdict", cell: (verdict) => html`<span class=${`verdict ${verdictWord(verdict, explanation)}`}>${verdictWord(verdict, explanation)}</span>` },
    { title: "Headroom, GiB", class: "number", cell: (verdict) => `${general(verdict.headroom) ?? ""}${kind(verdict)}` },
    { title: "Weight", class: "number", cell: (verdict) => verdict.total_weight?.toFixed(3) ?? "" },
    ...weighers.map((name) => ({
      title: name,
      cell: (verdict) => verdict.weights.filter(({ weigher }) => weigher === name).map(weight).join(),
    })),
    { title: "Why", class: "why", cell: (verdict) => lines(reasons(verdict)) },
  ];
  return html`<p class=${explanation.pool === null ? "answer refused" : "answer"}>${explanation.message}</p>
    ${[...explanation.ignored_hints, ...explanation.ignored_specs].map((words) => html`<p class="note">Note: ${words}</p>`)}
    ${(explanation.advice ?? []).map((words) => html`<p class="note">${words}</p>`)}
    ${shown.length > 0 && html`<${Table} caption="Pools" columns=${columns} rows=${shown} keyOf=${(verdict) => verdict.pool} />`}
    ${ranked.length > shown.length && html`<p class="note">${(ranked.length - shown.length).toLocaleString("en")} more pools, which the command below lists with --rows 0.</p>`}`;
}
