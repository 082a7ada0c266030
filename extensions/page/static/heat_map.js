// SPDX-License-Identifier: Apache-2.0
// A map of the selected pools by their fullness: a tile with its name for each or, of many pools, a cell for each, in
// one named group for each backend.

import { count, percent } from "./format.js";
import { Figures, HEATS, Key, SEVERITIES, breakable, heat, poolHref, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useEffect, useRef, useState } from "./vendor.js";

// Up to this number of pools each has a tile.
const MAX_TILES = 200;
// The backends of a larger number share groups, in the order of their names.
const MAX_GROUPS = 120;
// The side of a cell in pixels.
const SIDE = 12;

export function HeatMap({ selection, time }) {
  const answer = usePolling(`capacity-overview/fill?${new URLSearchParams(selection)}`, { keep: true });
  return html`<${Figures} answer=${answer} time=${time}>${(fill) => {
    const cells = cellsOf(fill);
    return html`<${Scale} cells=${cells} />
      ${cells.length <= MAX_TILES ? html`<${Tiles} cells=${cells} />` : html`<${Groups} cells=${cells} />`}`;
  }}</${Figures}>`;
}

// The pools with the steps of their colors, null for figures that are unknown or old.
const cellsOf = (fill) =>
  fill.names.map((name, index) => ({
    name,
    severity: fill.severity[index],
    step: heat(fill.severity[index], fill.full_percent[index]),
    words: words(fill, index),
  }));

function words(fill, index) {
  if (fill.stale[index]) return "stale";
  if (fill.severity[index] === null) return "unknown";
  return `${percent(fill.full_percent[index])}, ${SEVERITIES[fill.severity[index]]}`;
}

function Scale({ cells }) {
  const number = (step) => cells.filter((cell) => cell.step === step).length;
  return html`<p class="keys">${HEATS.map((title, step) => html`<span><${Key} color=${`heat${step}`} />${title}: ${count(number(step), "pool")}</span>`)}
    <span><${Key} color="room" />unknown or stale: ${count(number(null), "pool")}</span></p>`;
}

const Tiles = ({ cells }) => html`<ul class="tiles">${cells.map(({ name, step, words: told }) => html`<li key=${name}>
  <a href=${poolHref(name)} class=${step === null ? "" : `heat${step}`}><strong>${breakable(name)}</strong> <span>${told}</span></a></li>`)}</ul>`;

const backendOf = (name) => name.slice(0, name.lastIndexOf("#"));

// The cells of each backend, and of several backends if there are many; they are in the order of their names.
function groupsOf(cells) {
  const backends = [];
  for (const cell of cells) {
    const backend = backendOf(cell.name);
    if (backends.at(-1)?.last !== backend) backends.push({ first: backend, last: backend, cells: [] });
    backends.at(-1).cells.push(cell);
  }
  const size = Math.ceil(backends.length / MAX_GROUPS);
  return Array.from({ length: Math.ceil(backends.length / size) }, (_, index) => {
    const members = backends.slice(index * size, (index + 1) * size);
    return { first: members[0].first, last: members.at(-1).last, cells: members.flatMap((member) => member.cells) };
  });
}

function Groups({ cells }) {
  const [pointed, setPointed] = useState(null);
  return html`<p class="note" role="status">${pointed === null ? "Point at a cell for its pool, or select fewer pools by name." : html`${poolLink(pointed.name)}: ${pointed.words}`}</p>
    <div class="groups">${groupsOf(cells).map((group) => html`<${Group} key=${group.first} ...${group} point=${setPointed} />`)}</div>`;
}

function Group({ first, last, cells, point }) {
  const bad = Object.keys(SEVERITIES).filter((severity) => severity !== "rest")
    .map((severity) => [cells.filter((cell) => cell.severity === severity).length, SEVERITIES[severity]])
    .filter(([number]) => number > 0)
    .map(([number, severity]) => `${number.toLocaleString("en")} ${severity}`);
  const told = [count(cells.length, "pool"), ...bad].join(", ");
  const title = first === last ? html`<a href=${`#pools?${new URLSearchParams({ view: "map", name: `${first}#` })}`}>${breakable(first)}</a>` : `${first} to ${last}`;
  return html`<div><h3>${title}</h3><p class="reason">${told}</p>
    <${Cells} cells=${cells} label=${`${first === last ? first : `${first} to ${last}`}: ${told}`} point=${point} /></div>`;
}

function Cells({ cells, label, point }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(canvas.current.parentElement);
    return () => watch.disconnect();
  }, []);
  const columns = Math.max(1, Math.floor(width / SIDE));
  const rows = Math.ceil(cells.length / columns);
  useEffect(() => {
    if (width === 0) return;
    const colors = getComputedStyle(document.documentElement);
    const painted = HEATS.map((title, step) => colors.getPropertyValue(`--heat${step}`));
    const scale = devicePixelRatio;
    canvas.current.width = columns * SIDE * scale;
    canvas.current.height = rows * SIDE * scale;
    const drawing = canvas.current.getContext("2d");
    drawing.scale(scale, scale);
    cells.forEach(({ step }, index) => {
      drawing.fillStyle = step === null ? colors.getPropertyValue("--room") : painted[step];
      drawing.fillRect((index % columns) * SIDE, Math.floor(index / columns) * SIDE, SIDE - 1, SIDE - 1);
    });
  }, [cells, width]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return cells[Math.floor(((event.clientY - box.top) / box.height) * rows) * columns + column] ?? null;
  };
  const open = (event) => {
    const cell = at(event);
    if (cell !== null) location.hash = poolHref(cell.name);
  };
  return html`<div class="cells"><canvas ref=${canvas} role="img" aria-label=${label} onPointerMove=${(event) => point(at(event))} onClick=${open}></canvas></div>`;
}
