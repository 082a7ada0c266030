// SPDX-License-Identifier: Apache-2.0
// The page: its header, its navigation and the section that the address names.

import { hasToken, isEnabled } from "./api.js";
import { Backends } from "./backends.js";
import { Explain } from "./explain_form.js";
import { age, count } from "./format.js";
import { Ledger } from "./ledger.js";
import { Now } from "./now.js";
import { Plan, Plans } from "./plans.js";
import { setPaused, useClock, usePolling } from "./polling.js";
import { Pool } from "./pool.js";
import { Pools } from "./pools.js";
import { Health } from "./problems.js";
import { Refusals } from "./refusals.js";
import { Soon } from "./soon.js";
import { ForgetToken, TokenForm } from "./token.js";
import { Types } from "./types.js";
import { html, render, useEffect, useState } from "./vendor.js";
import { Volumes } from "./volumes.js";
import { WhatIf } from "./what_if.js";
import { Volume, Why } from "./why.js";

const SECTIONS = {
  soon: Soon,
  pools: Pools,
  pool: Pool,
  backends: Backends,
  volumes: Volumes,
  volume: Volume,
  types: Types,
  refusals: Refusals,
  why: Why,
  explain: Explain,
  "what-if": WhatIf,
  plans: Plans,
  plan: Plan,
  ledger: Ledger,
};
// The extension whose figures a section shows, if these are not the page's own.
const EXTENSION_OF = { soon: "history", plans: "moves", plan: "moves" };
const isOffered = (name) => !(name in EXTENSION_OF) || isEnabled(EXTENSION_OF[name]);
// The section that the page of one thing belongs to.
const SECTION_OF = { pool: "pools", volume: "volumes", plan: "plans" };
const LINKS = [
  ["now", "Now"],
  ["soon", "Soon"],
  ["pools", "Pools"],
  ["backends", "Backends"],
  ["volumes", "Volumes"],
  ["types", "Types"],
  ["refusals", "Refusals"],
  ["why", "Why?"],
  ["explain", "Explain"],
  ["what-if", "What if?"],
  ["plans", "Plans"],
  ["ledger", "Ledger"],
].filter(([name]) => isOffered(name));

function read() {
  const [name, query = ""] = location.hash.slice(1).split("?", 2);
  return { name: name || "now", query: new URLSearchParams(query) };
}

function useAddress() {
  const [address, setAddress] = useState(read);
  useEffect(() => {
    const change = () => setAddress({ ...read(), followed: true });
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return address;
}

function App() {
  const address = useAddress();
  const time = useClock();
  const summary = usePolling("capacity-overview");
  const Shown = (isOffered(address.name) && SECTIONS[address.name]) || Now;
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} summary=${summary.data} error=${summary.error} time=${time} name=${address.name} />
    <main id="main" tabindex="-1">
      ${summary.error?.status === 401 && html`<${TokenForm} error=${summary.error} />`}
      <${Shown} key=${address.name} query=${address.query} focus=${address.followed} summary=${summary} time=${time} />
    </main>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Header({ summary, error, time, name }) {
  const [paused, setPausedHere] = useState(false);
  const pause = () => {
    setPaused(!paused);
    setPausedHere(!paused);
  };
  return html`<header>
    <div class="top">
      <h1>Tonnage</h1>
      <p class="health" role="status">${health(summary, error)}</p>
      <p class="currency">${summary && !error && currency(summary, time)}</p>
      ${hasToken() && html`<${ForgetToken} />`}
      <button type="button" aria-pressed=${paused ? "true" : "false"} onClick=${pause}>Pause</button>
    </div>
    <nav aria-label="Sections"><ul>${LINKS.map(([key, title]) => html`<li>
      <a href=${`#${key}`} aria-current=${(SECTION_OF[name] ?? name) === key ? "page" : null}>${title}</a></li>`)}</ul></nav>
  </header>`;
}

function health(summary, error) {
  if (error) return html`<span class="state down">no current figures</span>`;
  if (!summary) return html`<span class="state">loading</span>`;
  return html`<${Health} ...${summary} />`;
}

function currency({ backends }, time) {
  if (backends.total === 0) return "No backend has reported.";
  const current = `Figures of ${backends.current} of ${count(backends.total, "backend")} are current`;
  return backends.current === 0 ? `${current}.` : `${current}, the oldest ${age(backends.oldest_collected_at, time)}.`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
