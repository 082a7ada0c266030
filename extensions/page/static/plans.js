// SPDX-License-Identifier: Apache-2.0
// The sections Plans and Plan: plans of moves that are or were carried out, their pools before and after, and their moves.

import { commandLine } from "./explain.js";
import { age, count, size } from "./format.js";
import { Bar, Code, Facts, Figures, Section, Table, poolLink, volumeLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html } from "./vendor.js";

// The most plans, moves, pools and volumes that are shown.
const MOST = 50;

const planLink = (plan, text) => html`<a href=${`#plan?${new URLSearchParams({ id: plan.id })}`}>${text}</a>`;

// The classes of states, by those of backends.
const CLASSES = { running: "up", finished: "up", moved: "up", paused: "warned", stopped: "warned", failed: "down" };

const State = ({ state }) => html`<span class=${`state ${CLASSES[state] ?? ""}`}>${state}</span>`;

export function Plans({ time, focus }) {
  const answer = usePolling(`move-plans?limit=${MOST}`);
  return html`<${Section} title="Plans" focus=${focus}>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${List} plans=${data.move_plans} time=${time} />`}</${Figures}>
    <p class="note">The same as a command: <${Code} line="tonnage plan list" />; <${Code} line="tonnage plan apply" /> starts one.</p>
  </${Section}>`;
}

function List({ plans, time }) {
  if (plans.length === 0) return html`<p class="answer">No plan was carried out.</p>`;
  return html`<${Table} caption="Plans" rows=${plans} keyOf=${(row) => row.id} columns=${[
    { title: "Goal", class: "name", cell: (row) => planLink(row, row.goal) },
    { title: "State", cell: (row) => html`<${State} state=${row.state} />` },
    { title: "Moved", class: "share", cell: (row) => html`<${Progress} plan=${row} />` },
    { title: "Time left", class: "number", cell: (row) => (isUnfinished(row) ? timeLeft(row) : "ended") },
    { title: "Message", class: "why", cell: (row) => row.message ?? "none" },
    { title: "Started", class: "number", cell: (row) => `${age(row.created_at, time)} ago` },
    { title: "By", class: "name", cell: (row) => row.user_id || "unknown" },
    { title: "Moved by", class: "name", cell: (row) => movers[row.mover] ?? row.mover },
  ]} />`;
}

function Progress({ plan, large = false }) {
  const text = `${plan.moved.toLocaleString("en")} of ${count(plan.moves, "move")}, ${size(plan.moved_gb)} of ${size(plan.size_gb)}`;
  return html`<${Bar} label=${`moved: ${text}`} whole=${plan.size_gb} large=${large} segments=${[["used", plan.moved_gb]]} /><span>${text}</span>`;
}

const movers = { tonnage: "Tonnage", cinder: "Cinder" };

const isUnfinished = ({ ended_at: ended }) => ended === null;

// The time that is left: within the hours of the plan, if it has some.
const timeLeft = ({ seconds_left: seconds, limits: { hours } }) =>
  seconds === null ? "not known" : `${duration(seconds)}${hours ? ` in the hours ${hours}` : ""}`;

function duration(seconds) {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function Plan({ query, time, focus }) {
  const id = query.get("id") ?? "";
  const answer = usePolling(`move-plans/${encodeURIComponent(id)}?steps=${MOST}`);
  return html`<${Section} title=${`Plan ${id}`} focus=${focus}>
    <p class="note"><a href="#plans">All plans</a></p>
    <${Figures} answer=${answer} time=${time}>${(data) => html`<${Detail} plan=${data.move_plan} time=${time} />`}</${Figures}>
    <p class="note">The same as a command: <${Code} line=${commandLine("plan", ["show", id])} /></p>
    ${answer.data && isUnfinished(answer.data.move_plan) && html`<p class="note">These change it: ${["pause", "resume", "stop"].map(
      (verb) => html`<${Code} line=${commandLine("plan", [verb, id])} /> `)}</p>`}
  </${Section}>`;
}

function Detail({ plan, time }) {
  return html`
    <p class="answer">${plan.goal}: <${State} state=${plan.state} />${plan.message && html`<span class="reason"> ${plan.message}</span>`}</p>
    <${Progress} plan=${plan} large=${true} />
    <${Facts} facts=${[
      ...(plan.outcome === null ? [] : [["as planned", plan.outcome]]),
      ["moving now", plan.moving.toLocaleString("en")],
      ["failed", plan.failed.toLocaleString("en")],
      ...(isUnfinished(plan) ? [["time left", timeLeft(plan)]] : []),
      ["made", count(plan.generation, "time")],
      ["started", `${age(plan.created_at, time)} ago${plan.user_id && ` by ${plan.user_id}`}`],
      ...(plan.ended_at === null ? [] : [["ended", `${age(plan.ended_at, time)} ago`]]),
      ["moved by", movers[plan.mover] ?? plan.mover],
      ["limits", limits(plan.limits)],
    ]} />
    <h3>Pools before and after</h3>
    ${plan.pools.length === 0 ? html`<p class="note">None are recorded.</p>` : html`<${Pools} changes=${plan.pools} />`}
    <h3>Moves</h3>
    <${Steps} steps=${plan.steps} time=${time} />
    ${plan.steps.length === MOST && html`<p class="note">Those that are moving, the next ones, and the last ones that have ended.</p>`}
    ${plan.staying.length > 0 && html`<h3>Volumes that stay</h3><${Staying} volumes=${plan.staying} />`}`;
}

function limits({ moves_per_backend: perBackend, moves, in_flight_gb: inFlight, hours, failures }) {
  const texts = [`${perBackend} at a time for a backend`, `${moves} in all`, `fails at ${count(failures, "failure")}`];
  if (inFlight > 0) texts.push(`${size(inFlight)} in flight`);
  if (hours) texts.push(`hours ${hours}`);
  return texts.join(", ");
}

// The pools that change most come first. A pool that the plan as it was made last does not use has no levels after it.
const change = ({ before, after }) => (after === null ? 0 : Math.abs(after.promised_gb - before.promised_gb));

const level = (levels, value, limit) => ({ isUsed: levels !== null, value: levels?.[value] ?? null, limit: levels?.[limit] ?? null });

function Pools({ changes }) {
  const rows = [...changes].sort((first, second) => change(second) - change(first)).slice(0, MOST);
  return html`<${Table} caption="Pools before and after" rows=${rows} keyOf=${(row) => row.pool} columns=${[
    { title: "Pool", class: "name", cell: (row) => poolLink(row.pool) },
    ...["before", "after"].flatMap((when) => [
      { title: `Promised ${when}`, class: "share", cell: (row) => html`<${Level} what=${`promised ${when}`} ...${level(row[when], "promised_gb", "promise_limit_gb")} />` },
      { title: `Used ${when}`, class: "share", cell: (row) => html`<${Level} what=${`used ${when}`} ...${level(row[when], "used_gb", "physical_limit_gb")} />` },
    ]),
  ]} />
  ${rows.length < changes.length && html`<p class="note">The ${MOST} of ${count(changes.length, "pool")} that change most.</p>`}`;
}

// A level of a pool and its bound; either may be unknown, and the plan may not use the pool any more.
function Level({ what, isUsed, value, limit }) {
  if (!isUsed) return "not used";
  if (value === null) return "unknown";
  if (limit === null) return html`<span>${size(value)}</span>`;
  const text = `${size(value)} of ${size(limit)}`;
  return html`<${Bar} label=${`${what}: ${text}`} whole=${Math.max(value, limit)} limit=${limit} segments=${[["used", value]]} /><span>${text}</span>`;
}

function Steps({ steps, time }) {
  return html`<${Table} caption="Moves" rows=${steps} keyOf=${(row) => row.number} columns=${[
    { title: "No.", class: "number", cell: (row) => row.number.toLocaleString("en") },
    { title: "Volume", class: "name", cell: (row) => volumeLink(row.volume_id) },
    { title: "Size", class: "number", cell: (row) => size(row.size_gb) },
    { title: "From", class: "name", cell: (row) => poolLink(row.source) },
    { title: "To", class: "name", cell: (row) => poolLink(row.target) },
    { title: "After", cell: (row) => row.after.join(", ") || "none" },
    { title: "State", cell: (row) => html`<${State} state=${row.state} />` },
    { title: "Since", class: "number", cell: (row) => since(row, time) },
    { title: "Why", class: "why", cell: (row) => row.message ?? row.reason },
  ]} />`;
}

function since({ started_at: started, ended_at: ended }, time) {
  const last = ended ?? started;
  return last === null ? "not begun" : `${age(last, time)} ago`;
}

function Staying({ volumes }) {
  return html`<${Table} caption="Volumes that stay" rows=${volumes.slice(0, MOST)} keyOf=${(row) => row.volume_id} columns=${[
    { title: "Volume", class: "name", cell: (row) => volumeLink(row.volume_id) },
    { title: "Size", class: "number", cell: (row) => size(row.size_gb) },
    { title: "Pool", class: "name", cell: (row) => poolLink(row.pool) },
    { title: "Why", class: "why", cell: (row) => row.reason },
  ]} />
  ${volumes.length > MOST && html`<p class="note">The first ${MOST}; the command shows all.</p>`}`;
}
