// SPDX-License-Identifier: Apache-2.0
// A map of all pools by their fullest bound: a cell for each, in the order of their names.

import { count, percent } from "./format.js";
import { Figures, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useEffect, useRef, useState } from "./vendor.js";

// The least percentage of each class of fullness.
const CLASSES = [0, 50, 70, 85, 95, 100];
const LARGEST = 22;
const SMALLEST = 7;

const classOf = (value) => CLASSES.findLastIndex((least) => value >= least);

export function HeatMap({ time }) {
  const answer = usePolling("capacity-overview/fill");
  const [pointed, setPointed] = useState(null);
  return html`<${Figures} answer=${answer} time=${time}>${(data) => html`<${Cells} fill=${data} point=${setPointed} />
      <p class="keys">${CLASSES.map((least, place) => html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true">
        <rect class=${`heat${place}`} width="10" height="10" /></svg>${range(place)}: ${count(number(data, place), "pool")}</span>`)}
        <span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="room" width="10" height="10" /></svg>unknown
          or stale: ${count(number(data, -1), "pool")}</span></p>
      <p class="note" role="status">${pointed === null ? "Point at a cell for its pool." : html`${poolLink(data.names[pointed])}: ${
        data.stale[pointed] ? "stale" : percent(data.full_percent[pointed])}`}</p>`}</${Figures}>`;
}

const range = (place) => (place === CLASSES.length - 1 ? "full" : `${CLASSES[place]} to ${CLASSES[place + 1]} %`);

// The class of a pool, -1 if its figures are unknown or old.
const cell = (fill, index) => (fill.stale[index] || fill.full_percent[index] === null ? -1 : classOf(fill.full_percent[index]));

const number = (fill, place) => fill.names.reduce((sum, name, index) => sum + (cell(fill, index) === place), 0);

function Cells({ fill, point }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(canvas.current.parentElement);
    return () => watch.disconnect();
  }, []);
  const total = fill.names.length;
  const side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((width * 400) / Math.max(total, 1)))));
  const columns = Math.max(1, Math.floor(width / side));
  const rows = Math.ceil(total / columns);
  useEffect(() => {
    if (width === 0) return;
    const colors = getComputedStyle(document.documentElement);
    const painted = CLASSES.map((least, place) => colors.getPropertyValue(`--heat${place}`));
    const scale = devicePixelRatio;
    canvas.current.width = columns * side * scale;
    canvas.current.height = rows * side * scale;
    const drawing = canvas.current.getContext("2d");
    drawing.scale(scale, scale);
    for (let index = 0; index < total; index += 1) {
      const place = cell(fill, index);
      drawing.fillStyle = place < 0 ? colors.getPropertyValue("--room") : painted[place];
      drawing.fillRect((index % columns) * side, Math.floor(index / columns) * side, side - 1, side - 1);
    }
  }, [fill, width, side]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const index = Math.floor(((event.clientY - box.top) / box.height) * rows) * columns + column;
    return index >= 0 && index < total ? index : null;
  };
  const open = (event) => {
    const index = at(event);
    if (index !== null) location.hash = `#pool?name=${encodeURIComponent(fill.names[index])}`;
  };
  return html`<div class="heat"><canvas ref=${canvas} role="img" aria-label="All pools by their fullest bound; the table below has the same figures"
    onPointerMove=${(event) => point(at(event))} onClick=${open}></canvas></div>`;
}
