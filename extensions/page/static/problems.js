// SPDX-License-Identifier: Apache-2.0
// The list of problems that comes first on the page, and its short form in the header.

import { count } from "./format.js";
import { Code, Table, backendLink, poolLink, volumeLink } from "./parts.js";
import { html } from "./vendor.js";

const forms = (number, one, many) => (number === 1 ? one : many);

// By the name of a problem in the API: its words, the address of the section that shows it, and the link of a subject.
// `down` are the problems with which nothing is healthy.
const PROBLEMS = {
  ledger_unwritable: { words: () => "ledger cannot be written", href: null, link: ({ name }) => name, down: true },
  backends_down: { words: (number) => `${count(number, "backend")} down`, href: "#backends", link: ({ name }) => backendLink(name), down: true },
  backends_failing: { words: (number) => `${count(number, "backend")} without reports`, href: "#backends", link: ({ name }) => backendLink(name) },
  pools_over_limit: { words: (number) => `${count(number, "pool")} over ${forms(number, "its", "their")} limit`, href: "#pools?severity=over", link: ({ name }) => poolLink(name), down: true },
  pools_full: { words: (number) => `${count(number, "pool")} full`, href: "#pools?severity=full", link: ({ name }) => poolLink(name) },
  pools_absent: { words: (number) => `${count(number, "pool")} with volumes no longer reported`, href: "#pools?state=down", link: ({ name }) => poolLink(name) },
  pools_stale: { words: (number) => `${count(number, "pool")} without usable figures`, href: "#pools?state=up", link: ({ name }) => poolLink(name) },
  drains_waiting: { words: (number) => `${count(number, "drain")} not done`, href: "#backends", link: ({ name }) => backendLink(name) },
  claims_waiting: { words: (number) => `${count(number, "operation")} ${forms(number, "waits", "wait")} for more than an hour`, href: null, link: ({ name }) => volumeLink(name) },
  refusals: { words: (number) => `${count(number, "request")} refused since yesterday`, href: "#refusals", link: ({ name, volume_id }) => volumeLink(volume_id, name) },
  pools_full_soon: { words: (number) => `${count(number, "pool")} full within 14 days`, href: "#soon", link: ({ name }) => poolLink(name) },
};

// The problems that the page has words for; a newer server may know more.
const named = (problems) => problems.filter(({ problem }) => problem in PROBLEMS);

const Words = ({ problem, count: number }) => {
  const { words, href } = PROBLEMS[problem];
  return href === null ? words(number) : html`<a href=${href}>${words(number)}</a>`;
};

// The health in the header: green only if nothing is down and no pool is over its limit.
export function Health({ reasons, problems }) {
  if (reasons.length > 0) return html`<span class="state down">API not healthy</span> <span class="reason">${reasons.join("; ")}</span>`;
  const down = named(problems).filter(({ problem }) => PROBLEMS[problem].down);
  if (down.length === 0) return html`<span class="state up">healthy</span>`;
  return down.map((problem, index) => html`${index > 0 && ", "}<span class="state warned"><${Words} ...${problem} /></span>`);
}

export function Problems({ problems }) {
  const rows = named(problems);
  if (rows.length === 0) return html`<p class="answer">Nothing needs attention.</p>`;
  return html`<${Table} caption="Problems" rows=${rows} keyOf=${({ problem }) => problem} columns=${[
    { title: "Problem", class: "problem", cell: (row) => html`<span class=${PROBLEMS[row.problem].down ? "state down" : "state warned"}><${Words} ...${row} /></span>` },
    { title: "Where", class: "why", cell: (row) => html`<${Subjects} ...${row} />` },
    { title: "Command", class: "why", cell: (row) => html`<${Code} line=${row.command} />` },
  ]} />`;
}

function Subjects({ problem, subjects, count: number }) {
  const { link } = PROBLEMS[problem];
  const others = number - subjects.length;
  return html`<ul class="subjects">${subjects.map((subject) => html`<li>${link(subject)}: ${subject.text}</li>`)}
    ${others > 0 && html`<li class="reason">and ${others.toLocaleString("en")} more</li>`}</ul>`;
}
