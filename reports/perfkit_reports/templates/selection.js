"use strict";
// One selection for the whole page: a row, a dot, a block and a slice of the same thing have the same key. `kernel:NAME`
// is all of that name, `kernel:NAME;PART` one row of it, `idle:CAUSE` all idle time of a cause, `slice:STEP.LANE/INDEX`
// one event. It lies in the address, after the anchor: `#roofline?select=kernel:NAME`.
const perfkitSelection = (() => {
  const listeners = new Set();
  const views = [];
  const providers = new Map();
  let chosen = "";

  const split = (key) => /^(.*?)(?:;([0-9a-f]{8}))?$/s.exec(key).slice(1);
  const wide = (key) => split(key)[0];
  const readable = (text) => encodeURIComponent(text).replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%3B", ";").replaceAll("%2C", ",");

  function address() {
    const [anchor, query = ""] = location.hash.slice(1).split("?select=");
    try {
      return { anchor, key: decodeURIComponent(query) };
    } catch {
      return { anchor, key: "" }; // somebody cut the link
    }
  }
  // Each choice of a person is an entry of the history, so that Back undoes it and does not leave the report.
  function write(anchor, as = "replaceState") {
    const hash = chosen ? `#${anchor}?select=${readable(chosen)}` : `#${anchor}`;
    const state = { selected: chosen };
    if (hash !== location.hash && (chosen || location.hash)) history[as](state, "", hash);
    else history.replaceState(state, "");
  }

  // What is known of a key whose kind has a provider (`slice`): {name, facts: [[name, text]], of: [[name, key]]}.
  const detail = (key) => providers.get(key.slice(0, key.indexOf(":")))?.(key) ?? null;
  // All keys that are chosen with it: a slice's kernel, the ops that a finding is about.
  let known = ["", []]; // of the last key: pages ask for those of one key for every row
  function members(key) {
    if (known[0] !== key) known = [key, [key, ...(detail(key)?.members ?? [])]];
    return known[1];
  }
  // Whether something on the page belongs to the selection.
  function has(key, selection = chosen) {
    if (!key || !selection) return false;
    return members(selection).some((member) => member === key || member === wide(key) || wide(member) === key);
  }

  function set(key, from = "") {
    key = key || "";
    if (key === chosen) return;
    chosen = key;
    known = ["", []];
    if (from !== "history") write(address().anchor, from === "address" ? "replaceState" : "pushState");
    for (const listener of listeners) listener(chosen, from);
  }

  // What lies in folds is unfolded before one is led to it: all around it, and a section's own.
  function unfold(element) {
    for (let box = element.querySelector(":scope > details") ?? element; box; box = box.parentElement) if (box.matches("details")) box.open = true;
  }
  function land(anchor, how) {
    const element = document.getElementById(anchor);
    if (!element) return;
    const folded = !element.checkVisibility();
    unfold(element);
    // Else the browser has; after Back it scrolls to where one was, which the fold had moved.
    if (how || folded) requestAnimationFrame(() => element.scrollIntoView(how ?? { behavior: "instant" }));
  }
  // Also of a link to where one is already, which changes no address.
  addEventListener("click", ({ target }) => {
    const link = target.closest?.('a[href^="#"]');
    if (link) unfold(document.getElementById(link.hash.slice(1)) ?? document.body);
  });

  addEventListener("popstate", ({ state }) => state && set(state.selected, "history"));
  addEventListener("hashchange", () => {
    const { key, anchor } = address();
    if (location.hash.includes("?select=")) {
      if (key !== chosen) set(key, "address");
      land(anchor, {});
    } else {
      write(anchor); // a link within the page keeps what is chosen
      land(anchor);
    }
  });

  // A move to another part of the report is an entry, too: Back returns to where it began, with the same selection.
  const leave = () => history.pushState({ selected: chosen }, "", location.hash || location.pathname);

  return {
    set,
    unfold,
    leave,
    get: () => chosen,
    has,
    wide,
    detail,
    // `callback(key, from)` after every change; the key is empty when nothing is chosen any more.
    on: (callback) => listeners.add(callback),
    // A place where things are shown: {name, has(key), show(key)}. The drawer leads there.
    view: (place) => views.push(place),
    views: () => views,
    // `describe(key)` tells of keys of a kind what no table does; see `detail`.
    describe: (kind, describe) => providers.set(kind, describe),
    // Called once all that can show a selection is there.
    start() {
      const { anchor, key } = address();
      if (!history.state) history.replaceState({ selected: key }, "");
      if (key) set(key, "address");
      land(anchor, { behavior: "instant" });
    },
  };
})();
