// Polls a path of the API while the page is visible, and reports failures.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask } from "./api.js";

const EVERY_MS = 2000;
const listeners = new Set();
let heardAt = Date.now();
let trouble = null;

function report(error) {
  if (!error) heardAt = Date.now();
  trouble = error;
  for (const each of listeners) each();
}

/** `{ heardAt, trouble }`: the time of the last answer, and the current error. */
export function useHealth() {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    const timer = setInterval(listener, 1000);
    listeners.add(listener);
    return () => {
      clearInterval(timer);
      listeners.delete(listener);
    };
  }, []);
  return { heardAt, trouble };
}

/** `[answer, error, refresh]` of a path. Another path keeps the old answer until the new one. */
export function useLive(path, everyMs = EVERY_MS) {
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const refresh = useRef(() => {});
  useEffect(() => {
    const controller = new AbortController();
    let timer;
    const look = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          setAnswer(await ask(path, { signal: controller.signal }));
          setError(null);
          report(null);
        } catch (caught) {
          if (controller.signal.aborted) return;
          setError(caught);
          report(caught.status && caught.status < 500 && caught.status !== 401 ? null : caught);
        }
      }
      if (!controller.signal.aborted) timer = setTimeout(look, everyMs);
    };
    refresh.current = look;
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [path, everyMs]);
  return [answer, error, () => refresh.current()];
}

/** The typed text, after a short pause. */
export function useSettled(value, pauseMs = 100) {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value, pauseMs]);
  return settled;
}
