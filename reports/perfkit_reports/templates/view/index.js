"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const [words, kind, state, body] = [byId("words"), byId("kind"), byId("state"), byId("list").tBodies[0]];
  const OFTEN = 3000; // ms between two looks while something runs
  const SELDOM = 15000;
  const PAGE = 200; // rows at a time: thousands take a browser seconds

  // Every text is set as text: names of runs are whatever their folders say.
  function element(tag, content = "", attributes = {}) {
    const made = document.createElement(tag);
    made.append(...[content].flat());
    for (const [name, value] of Object.entries(attributes)) if (value) made.setAttribute(name, value);
    return made;
  }
  const address = (first, path) => ["", first, ...(path === "." ? [] : path.split("/").map(encodeURIComponent))].join("/");

  const titles = [...byId("list").tHead.rows[0].cells].map((cell) => cell.textContent);
  function figure(found, of) {
    const known = found.value !== null;
    const text = known ? element("span", found.text, { title: `${found.how}: ${found.source}` }) : element("span", "n/a", { class: "na", title: found.reason });
    return element("td", known && of ? [text, element("small", of)] : [text], { class: "num" });
  }
  function line(run) {
    const links = [];
    if (run.live.length) links.push(element("a", "live", { href: address("live", run.path), "aria-label": `Live figures of ${run.path}` }));
    const tick = element("input", [], { type: "checkbox", "aria-label": `Compare ${run.path}`, title: "Compare" });
    tick.checked = picked.has(run.path);
    tick.addEventListener("change", () => pick(run, tick.checked));
    const open = run.state === "damaged" ? run.name : element("a", run.name, { href: address(run.state === "running" && run.live.length ? "live" : "report", run.path) });
    const what = element("small", [run.kind === "suite" ? "" : `${run.kind} · `, run.path, links.length ? " · " : "", ...links]);
    const pill = element("span", run.status, { class: `pill ${run.tone}` });
    const names = run.outcomes.map((outcome) => outcome.variant);
    const shown = names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
    const { of, step, throughput, peak, mfu } = run.figures;
    const row = element("tr", [
      element("th", [...(comparable(run) ? [tick] : []), open, what], { scope: "row" }),
      element("td", run.reason ? [pill, element("small", run.reason, { title: run.reason })] : [pill], { class: "state" }),
      element("td", run.created || element("span", "n/a", { class: "na", title: "not recorded" })),
      figure(step, of), figure(throughput), figure(peak), figure(mfu, mfu.of && `of ${mfu.of}`),
      element("td", shown, { class: "wrap", title: names.length > 3 ? names.join(", ") : "" }),
      element("td", run.device || element("span", "n/a", { class: "na", title: "not recorded" }), { class: "wrap" }),
    ]);
    row.dataset.path = run.path;
    for (const [index, cell] of [...row.cells].entries()) cell.dataset.title = titles[index]; // for narrow screens
    return row;
  }

  // Runs that are to be compared, in the order in which they were chosen: path -> variant, "" for its baseline. The
  // first is what the others are held against.
  const most = JSON.parse(byId("data").textContent).most;
  const picked = new Map();
  const EACH = "*";
  const comparable = (run) => ["suite", "trace", "memory"].includes(run.kind) && run.state !== "damaged";
  function pick(run, on) {
    if (on) picked.set(run.path, "");
    else picked.delete(run.path);
    compared();
    keep();
  }
  const runAt = (path) => entries.find((entry) => entry.run.path === path)?.run;
  function named(path) {
    const variants = runAt(path)?.outcomes.map((outcome) => outcome.variant) ?? [];
    const variant = picked.get(path);
    if (variant === EACH) return variants.map((each) => `${path}@${each}`);
    return [variant ? `${path}@${variant}` : path];
  }
  function compared() {
    const paths = [...picked.keys()];
    const shown = paths.map((path, place) => {
      const variants = runAt(path)?.outcomes.map((outcome) => outcome.variant) ?? [];
      const parts = [element("b", path)];
      if (variants.length > 1) {
        const options = [["", "baseline"], ...variants.map((each) => [each, each]), [EACH, "each variant"]];
        const box = element("select", options.filter(([value], at) => !at || value !== "baseline").map(([value, text]) => element("option", text, { value: value || " " })), { "aria-label": `Variant of ${path}` });
        for (const option of box.options) option.value = option.value.trim();
        box.value = picked.get(path);
        box.addEventListener("change", () => {
          picked.set(path, box.value);
          link();
          keep();
        });
        parts.push(" ", box);
      }
      return element("span", [...(place ? [place === 1 ? " against it: " : ", "] : ["first: "]), ...parts]);
    });
    byId("picked").replaceChildren(...shown);
    byId("comparing").hidden = !paths.length;
    link();
  }
  function link() {
    const runs = [...picked.keys()].flatMap(named);
    const enough = runs.length > 1 && runs.length <= most;
    const to = byId("compare");
    to.textContent = runs.length > most ? `At most ${most} runs` : enough ? `Compare ${runs.length} runs` : "Choose another run";
    if (enough) to.href = `/compare?${new URLSearchParams(runs.map((run) => ["run", run]))}`;
    else to.removeAttribute("href");
    to.setAttribute("aria-disabled", String(!enough));
  }
  byId("clear").addEventListener("click", () => {
    picked.clear();
    for (const { row } of entries) for (const box of row?.querySelectorAll("input[type=checkbox]") ?? []) box.checked = false;
    compared();
    keep();
    words.focus();
  });

  // What a run is sorted by; null where that is not known, which stays last.
  const KEYS = {
    name: (run) => run.name, state: (run) => run.status, created: (run) => run.created_at || null, device: (run) => run.device || null,
    variants: (run) => run.outcomes.length, step: (run) => run.figures.step.value, throughput: (run) => run.figures.throughput.value,
    peak: (run) => run.figures.peak.value, mfu: (run) => run.figures.mfu.value,
  };
  let sorted = { key: "created", order: "descending" };
  function compare(left, right) {
    const [a, b] = [KEYS[sorted.key](left.run), KEYS[sorted.key](right.run)];
    if (a === null || b === null) return (a === null) - (b === null);
    return (sorted.order === "ascending" ? 1 : -1) * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  }

  // One entry a run, with its row once it is shown, made again only where the run has changed.
  let entries = [];
  let limit = PAGE;
  function take(data) {
    const before = new Map(entries.map((entry) => [entry.run.path, entry]));
    entries = data.runs.map((run) => {
      const text = JSON.stringify(run);
      const known = before.get(run.path);
      if (known?.text === text) return known;
      const found = [run.name, run.path, run.kind, run.status, run.reason, run.device, run.created, ...run.outcomes.map((outcome) => outcome.variant)];
      return { run, text, row: null, words: found.join(" ").toLowerCase() };
    });
    byId("folder").textContent = data.folder;
    show();
  }
  function show() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (entry) =>
      (!kind.value || entry.run.kind === kind.value) && (!state.value || entry.run.status === state.value) && wanted.every((word) => entry.words.includes(word));
    const shown = entries.filter(matches).sort(compare); // the server's order, newest first, is kept among equals
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    const [was, links] = [focused?.closest("tr"), (row) => [...row.querySelectorAll("a, input")]];
    const listed = shown.slice(0, limit);
    for (const entry of listed) entry.row ??= line(entry.run);
    body.replaceChildren(...listed.map((entry) => entry.row));
    byId("more").hidden = listed.length === shown.length;
    byId("more").textContent = `Show ${Math.min(PAGE, shown.length - listed.length)} more`;
    const now = focused && listed.find((entry) => entry.run.path === was.dataset.path)?.row;
    if (now) links(now)[links(was).indexOf(focused)]?.focus({ preventScroll: true });
    const running = entries.filter((entry) => entry.run.state === "running").length;
    byId("count").textContent = `${shown.length} of ${entries.length}${running ? `, ${running} running` : ""}`;
    byId("none").hidden = shown.length > 0;
    byId("list").closest(".scroll").hidden = shown.length === 0;
    byId("none").textContent = entries.length ? "No run matches." : "There are no runs in this folder yet: no suite.json, analysis.json, memory.json or check.json below it.";
  }

  // The filter and the order are in the address, so that they outlive a reload.
  function keep() {
    const asked = new URLSearchParams();
    for (const box of [words, kind, state]) if (box.value) asked.set(box.id, box.value);
    for (const [path, variant] of picked) asked.append("compare", variant ? `${path}@${variant}` : path);
    if (sorted.key !== "created" || sorted.order !== "descending") asked.set("sort", `${sorted.key} ${sorted.order}`);
    history.replaceState(null, "", asked.size ? `?${asked}` : location.pathname);
  }
  const buttons = [...document.querySelectorAll("#list thead button")];
  function mark() {
    for (const button of buttons) button.parentElement.removeAttribute("aria-sort");
    buttons.find((button) => button.dataset.key === sorted.key).parentElement.setAttribute("aria-sort", sorted.order);
  }
  for (const button of buttons)
    button.addEventListener("click", () => {
      const { key, first = "ascending" } = button.dataset;
      const other = first === "ascending" ? "descending" : "ascending";
      sorted = { key, order: sorted.key === key && sorted.order === first ? other : first };
      mark();
      show();
      keep();
    });
  byId("more").addEventListener("click", () => {
    limit += PAGE;
    show();
  });
  for (const box of [words, kind, state])
    box.addEventListener("input", () => {
      limit = PAGE;
      show();
      keep();
    });

  const asked = new URLSearchParams(location.search);
  for (const box of [words, kind, state]) box.value = asked.get(box.id) ?? "";
  const [key, order] = (asked.get("sort") ?? "").split(" ");
  if (key in KEYS && ["ascending", "descending"].includes(order)) sorted = { key, order };
  mark();
  const data = JSON.parse(byId("data").textContent);
  for (const run of asked.getAll("compare")) {
    const at = run.lastIndexOf("@");
    const whole = data.runs.some((each) => each.path === run);
    if (!whole && at < 0) continue; // it was removed
    const path = whole ? run : run.slice(0, at);
    if (data.runs.some((each) => each.path === path && comparable(each))) picked.set(path, whole ? "" : run.slice(at + 1));
  }
  take(data);
  compared();

  let last = "";
  async function look() {
    if (!document.hidden) {
      try {
        const answer = await fetch("/api/runs");
        if (!answer.ok) throw new Error(`server error ${answer.status}`);
        const text = await answer.text();
        if (text !== last) take(JSON.parse(text));
        last = text;
        byId("trouble").hidden = true;
      } catch (error) {
        byId("trouble").textContent = `The list cannot be refreshed (${error.message}): is perfkit view still running?`;
        byId("trouble").hidden = false;
      }
    }
    setTimeout(look, entries.some((entry) => entry.run.state === "running") ? OFTEN : SELDOM);
  }
  setTimeout(look, OFTEN);
  document.documentElement.dataset.ready = "true";
})();
