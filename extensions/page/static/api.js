// SPDX-License-Identifier: Apache-2.0
// Requests to the REST API that serves this page.

const ROOT = new URL("../v3/", document.baseURI);
const VERSION = "volume 3.73";
const MAX_KEPT = 50;

// Answers by path, with their entity tags: an unchanged answer is not sent again.
const kept = new Map();
// A token of OpenStack Identity, for this tab alone.
const TOKEN = "tonnage-token";
let token = sessionStorage.getItem(TOKEN);
// Milliseconds by which the server's clock is ahead of the browser's.
let ahead = 0;

export class ApiError extends Error {
  // `status` is that of the response, 0 without one; `reasons` are those of the health check for 503.
  constructor(status, message, reasons = []) {
    super(message);
    this.status = status;
    this.reasons = reasons;
  }
}

// Keep a token until the tab is closed; null forgets it.
export function setToken(value) {
  token = value;
  kept.clear();
  if (value === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, value);
}

export const hasToken = () => token !== null;

// The extensions of Tonnage that are enabled. The API has no paths of others.
const EXTENSIONS = new Set(document.body.dataset.extensions.split(" "));

export const isEnabled = (extension) => EXTENSIONS.has(extension);

export const now = () => Date.now() + ahead;

async function send(url, options) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "There is no answer: the server, or the way to it, is down.");
  }
  const date = Date.parse(response.headers.get("Date"));
  if (date) ahead = date - Date.now();
  return response;
}

const headers = () => ({ "OpenStack-API-Version": VERSION, ...(token ? { "X-Auth-Token": token } : {}) });

async function fail(response) {
  let message = `The server answered ${response.status} ${response.statusText}.`;
  try {
    message = Object.values(await response.json())[0].message;
  } catch {
    // An answer of a proxy, which is no JSON.
  }
  throw new ApiError(response.status, message, response.status === 503 ? await health() : []);
}

// The reasons of the health check.
async function health() {
  try {
    const response = await send(new URL("../healthcheck", document.baseURI), {});
    return (await response.json()).reasons;
  } catch {
    return [];
  }
}

// Return the body at a path; raise ApiError.
export async function get(path, signal) {
  const known = kept.get(path);
  const response = await send(new URL(path, ROOT), {
    signal,
    headers: { ...headers(), ...(known ? { "If-None-Match": known.tag } : {}) },
  });
  if (response.status === 304) return known.body;
  if (!response.ok) await fail(response);
  const body = await response.json();
  kept.delete(path);
  const tag = response.headers.get("ETag");
  if (tag) kept.set(path, { tag, body });
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value);
  return body;
}

// Return the answer to a question in JSON; raise ApiError.
export async function post(path, body, signal) {
  const response = await send(new URL(path, ROOT), {
    signal,
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) await fail(response);
  return response.json();
}
