// What all views share: a value that tells those who watch it when it changes.

import { useEffect, useState } from "./html.js";

export function createStore(value) {
  const watchers = new Set();
  return {
    get: () => value,
    set(change) {
      value = { ...value, ...(typeof change === "function" ? change(value) : change) };
      for (const each of [...watchers]) each(value);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

export function useStore(store, pick = (value) => value) {
  const [picked, setPicked] = useState(() => pick(store.get()));
  useEffect(() => {
    const look = () => setPicked(() => pick(store.get()));
    look();
    return store.watch(look);
  }, [store]);
  return picked;
}

// Every second, for times that are told as "3 s ago".
export const now = createStore({ at: Date.now() });
setInterval(() => now.set({ at: Date.now() }), 1000);
