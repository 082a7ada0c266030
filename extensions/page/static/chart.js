// SPDX-License-Identifier: Apache-2.0
// A chart over time: lines, and bands between two of them. The table next to it has the same figures.

import { size } from "./format.js";
import { Key } from "./parts.js";
import { UPlot, html, useEffect, useRef, useState } from "./vendor.js";

const HEIGHT = 220;
const DARK = matchMedia("(prefers-color-scheme: dark)");

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A mark of the time axis: the day, or the hour between two days.
function date(moment, moments) {
  const text = new Date(moment * 1000).toISOString();
  const isHour = moments.length > 1 && moments[1] - moments[0] < 86_400 && moment % 86_400 !== 0;
  return isHour ? text.slice(11, 16) : text.slice(0, 10);
}

// `times` are seconds. Each line has values in GiB (null is a hole), the name of a color, and may be dashed.
// Each band is the numbers of its upper and its lower line, and the name of a color. `keys` explain the colors.
export function Chart({ label, times, lines, bands, keys }) {
  const place = useRef(null);
  const [dark, setDark] = useState(DARK.matches);
  useEffect(() => {
    const change = () => setDark(DARK.matches);
    DARK.addEventListener("change", change);
    return () => DARK.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const box = place.current;
    const [text, grid] = [color("soft"), color("line")];
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const chart = new UPlot(
      {
        width: box.clientWidth,
        height: HEIGHT,
        tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        cursor: { drag: { x: false, y: false } },
        legend: { show: false },
        scales: { y: { range: (self, low, high) => [0, Math.max(high * 1.05, 1)] } },
        axes: [{ ...axis, space: 90, values: (self, moments) => moments.map((moment) => moment !== null && date(moment, moments)) }, { ...axis, size: 80, values: (self, values) => values.map(size) }],
        series: [
          {},
          ...lines.map(({ stroke, dashed }) => ({
            stroke: color(stroke),
            width: 2,
            points: { show: false },
            ...(dashed && { dash: [6, 4] }),
          })),
        ],
        bands: bands.map(({ upper, lower, fill }) => ({ series: [upper + 1, lower + 1], fill: `${color(fill)}40` })),
      },
      [times, ...lines.map(({ values }) => values)],
      box,
    );
    const watch = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: HEIGHT }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [times, lines, bands, dark]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>
    <p class="keys">${keys.map(([color, title]) => html`<span><${Key} color=${color} />${title}</span>`)}</p>`;
}
