// SPDX-License-Identifier: Apache-2.0
// The section Types: the pools that would accept a volume of each type, and the reasons of the others.

import { get } from "./api.js";
import { count, size } from "./format.js";
import { Figures, Section, Table, poolLink } from "./parts.js";
import { usePolling } from "./polling.js";
import { html, useEffect, useState } from "./vendor.js";

// Ask the schedulers about one type after another, once.
function useCapacities(names) {
  const [found, setFound] = useState({});
  const [round, setRound] = useState(0);
  const key = names.join("\n");
  useEffect(() => {
    const abort = new AbortController();
    (async () => {
      for (const name of names) {
        try {
          const capacity = await get(`capacity-overview/type?${new URLSearchParams({ name })}`, abort.signal);
          setFound((last) => ({ ...last, [name]: { capacity } }));
        } catch (error) {
          if (abort.signal.aborted) return;
          setFound((last) => ({ ...last, [name]: { error } }));
        }
      }
    })();
    return () => abort.abort();
  }, [key, round]);
  return [found, () => setRound(round + 1)];
}

export function Types({ time, focus }) {
  const answer = usePolling("capacity-overview/types");
  const [capacities, again] = useCapacities((answer.data?.types ?? []).map(({ name }) => name));
  const of = (type, show, failed = () => "unknown") => {
    const known = capacities[type.name];
    if (known === undefined) return "is asked";
    return known.error ? failed(known.error) : show(known.capacity);
  };
  const columns = [
    { title: "Type", class: "name", cell: (type) => html`${type.name}${!type.is_public && html` <span class="reason">private</span>`}` },
    { title: "Volumes", class: "number", cell: (type) => type.volumes.toLocaleString("en") },
    { title: "Size", class: "number", cell: (type) => size(type.size_gb) },
    { title: "Headroom", class: "number", cell: (type) => of(type, (capacity) => size(capacity.headroom_gb)) },
    { title: "Candidates", class: "number", cell: (type) => of(type, (capacity) => `${capacity.candidates} of ${count(capacity.pools, "pool")}`) },
    { title: "Why not the others", class: "why", cell: (type) => of(type, (capacity) => html`<${Others} capacity=${capacity} />`, (failure) => failure.message) },
    { title: "Explanation", class: "word", cell: (type) => html`<a href=${`#explain?${new URLSearchParams({ size: 1, type: type.name })}`}>Pool by pool<span class="hidden"> for ${type.name}</span></a>` },
  ];
  return html`<${Section} title="Types" focus=${focus}>
    <p class="note">Candidates accept a volume of 1 GiB now; the headroom is the largest volume that one of them accepts.${" "}
      <button type="button" onClick=${again}>Ask again</button></p>
    <${Figures} answer=${answer} time=${time}>${({ types }) => (types.length === 0
      ? html`<p class="note">There is no volume type.</p>`
      : html`<${Table} caption="Volume types" columns=${columns} rows=${types} keyOf=${(type) => type.name} />`)}</${Figures}>
  </${Section}>`;
}

function Others({ capacity }) {
  if (capacity.refused.length === 0) return capacity.pools === 0 ? capacity.message : "all pools accept it";
  return html`<div>${capacity.refused.map(({ filter, pools, example, reason }) => html`<details>
    <summary>${filter} refuses ${count(pools, "pool")}</summary>such as ${poolLink(example)}: ${reason}
  </details>`)}</div>`;
}
