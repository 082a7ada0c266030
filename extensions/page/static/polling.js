// SPDX-License-Identifier: Apache-2.0
// Figures that are asked for again every ten seconds while somebody can see them.

import { get, now, post } from "./api.js";
import { useEffect, useRef, useState } from "./vendor.js";

const PERIOD = 10_000;
const LONGEST = 80_000;

let paused = false;
const watchers = new Set();

export function setPaused(value) {
  paused = value;
  wakeAll();
}

// Ask for all figures that are shown now.
export function wakeAll() {
  for (const wake of watchers) wake();
}

// Return the answer at a path, and ask again as long as the component is shown. After an error the last data stay, and the
// pauses grow. With `keep` the data of the path before stay until there are new ones. An answer has
//   data   the body, null without one
//   error  an ApiError, null after success
//   busy   whether the server is being asked
//   at     the time of the last success by the server's clock
//   stage  "loading", "shown" if the data are those of this path, "missing" if there are none because of an error
//   retry  a function that asks at once
export function usePolling(path, { keep = false, period = PERIOD } = {}) {
  const [state, setState] = useState({ path, ...START });
  const ask = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let pause = period;
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
        pause = period;
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
  return answerOf(state, path, keep, () => ask.current());
}

// Return the answer to a question, which is asked `pause` milliseconds after its last change. The data are { asked, body };
// they stay until the next ones. Without a question (null) the stage is "shown": there is nothing to wait for.
export function useQuestion(path, question, pause = 0) {
  const [state, setState] = useState({ path: null, ...START });
  const [round, setRound] = useState(0);
  const asked = JSON.stringify(question);
  useEffect(() => {
    if (question === null) {
      setState({ path: asked, ...START, busy: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((last) => ({ ...last, busy: true }));
    const timer = setTimeout(async () => {
      try {
        const data = { asked: question, body: await post(path, question, abort.signal) };
        setState({ path: asked, data, error: null, busy: false, at: now() });
      } catch (error) {
        if (!abort.signal.aborted) setState({ path: asked, ...START, error, busy: false });
      }
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [asked, round]);
  const answer = answerOf(state, asked, true, () => setRound(round + 1));
  return question === null ? { ...answer, stage: "shown" } : answer;
}

const START = { data: null, error: null, busy: true, at: null };

// The state may still be that of the path before.
function answerOf(state, path, keep, retry) {
  const current = state.path === path;
  const data = current || keep ? state.data : null;
  const error = current ? state.error : null;
  const stage = current && data !== null ? "shown" : error === null ? "loading" : "missing";
  return { data, error, busy: state.busy || !current, at: state.at, stage, retry };
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
