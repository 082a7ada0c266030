// SPDX-License-Identifier: Apache-2.0
// Figures that are asked for again every ten seconds while somebody can see them.

import { get, now } from "./api.js";
import { useEffect, useRef, useState } from "./vendor.js";

const PERIOD = 10_000;
const LONGEST = 80_000;

let paused = false;
const watchers = new Set();

export function setPaused(value) {
  paused = value;
  for (const wake of watchers) wake();
}

// Return { data, error, busy, at, retry } of a path, and ask again as long as the component is shown. After an error
// the last data stay, and the pauses grow. `at` is the time of the last answer by the server's clock.
export function usePolling(path) {
  const [state, setState] = useState({ path, data: null, error: null, busy: true, at: null });
  const ask = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let pause = PERIOD;
    let running = false;
    const wait = () => {
      clearTimeout(timer);
      if (!paused && !document.hidden) timer = setTimeout(run, pause);
    };
    const run = async () => {
      if (running) return;
      running = true;
      clearTimeout(timer);
      setState((last) => ({ ...last, busy: true }));
      try {
        const data = await get(path, abort.signal);
        pause = PERIOD;
        setState({ path, data, error: null, busy: false, at: now() });
      } catch (error) {
        if (abort.signal.aborted) return;
        pause = Math.min(pause * 2, LONGEST);
        // The figures of another path say nothing about this one.
        setState((last) => ({ ...last, path, data: last.path === path ? last.data : null, error, busy: false }));
      } finally {
        running = false;
      }
      wait();
    };
    const wake = () => (paused || document.hidden ? clearTimeout(timer) : run());
    ask.current = run;
    run();
    watchers.add(wake);
    document.addEventListener("visibilitychange", wake);
    return () => {
      abort.abort();
      clearTimeout(timer);
      watchers.delete(wake);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [path]);
  // Until the first answer, the data are those of the path before.
  return { ...state, busy: state.busy || state.path !== path, retry: () => ask.current() };
}

// Return the time by the server's clock, and show the component again every five seconds, so that ages grow.
export function useClock() {
  const [time, setTime] = useState(now);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setTime(now()), 5_000);
    return () => clearInterval(timer);
  }, []);
  return time;
}
