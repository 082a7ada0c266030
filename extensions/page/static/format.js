// SPDX-License-Identifier: Apache-2.0
// Capacities, shares and times as texts.

const UNITS = ["GiB", "TiB", "PiB", "EiB"];

// Three digits, and no zeros at the end.
const digits = (value) => {
  const places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: places });
};

// A capacity in GiB, or one of the words "unknown" and "infinite".
export function size(gib) {
  if (gib === null || gib === undefined) return "none";
  if (typeof gib === "string") return gib;
  let value = Math.abs(gib);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${gib < 0 ? "−" : ""}${digits(value)} ${UNITS[unit]}`;
}

// One decimal, rounded down: 100 % is never said of a bound with room. The small part keeps 2.3 from being 2.2999.
export const percent = (value) =>
  value === null ? "unknown" : `${(Math.floor(value * 10 + 1e-6) / 10).toLocaleString("en", { minimumFractionDigits: 1 })} %`;

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// The milliseconds of a time of the API. Times of OpenStack's resources are in UTC and do not say so.
const milliseconds = (time) => Date.parse(time.endsWith("Z") ? time : `${time}Z`);

// The age of a time, such as "41 s" or "3 h", at the time `at` in milliseconds.
export function age(time, at) {
  if (time === null) return "never";
  const seconds = Math.max(0, Math.round((at - milliseconds(time)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}
