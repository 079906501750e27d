"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const figures = {}; // unfolded with plotly.js

  // Figures are drawn when they come near the screen: drawing all at once would hold up the first view.
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = touch ? { ...plotTheme.config, displayModeBar: false } : plotTheme.config;
  const drawn = new Set();
  const BAR = 30; // pixels of the toolbar, which is to lie above what it is for
  const PAPER = 660; // pixels of a sheet's width: what is drawn wider is cut off
  let printing = false;
  function draw(chart) {
    const { data, layout } = structuredClone(figures[chart.dataset.figure]);
    layout.template = plotTheme.template();
    const lower = touch ? 0 : Math.max(BAR - (layout.margin?.t ?? BAR), 0);
    if (lower) {
      layout.margin.t += lower;
      if (layout.height) layout.height += lower;
    }
    if (printing) Object.assign(layout, { width: Math.min(PAPER, chart.clientWidth || PAPER), autosize: false });
    for (const trace of data) if (keys(trace)) dim(trace);
    fade(data.filter(isArea));
    if (touch) layout.dragmode = false; // a finger scrolls the page
    if (chart.classList.contains("layered")) {
      layers(chart, data, layout);
      fit(chart, data, layout);
    }
    const first = !drawn.has(chart);
    drawn.add(chart);
    if (first) chart.replaceChildren();
    chart.style.setProperty("--height", `${layout.height || chart.offsetHeight}px`);
    const made = Plotly.react(chart, data, layout, config);
    if (first) chart.on("plotly_click", ({ points, event }) => {
      if (keys(points[0].data)) perfkitSelection.set(points[0].customdata, "figure");
      else pickRank(points[0].customdata);
      const area = findArea(chart, points.filter((point) => isArea(point.data)), event);
      if (area) perfkitSelection.set(area.data.meta.key, "figure");
    });
    return made;
  }
  // A cell of a map of ranks picks its rank for the page, where that is analyzed in full.
  function pickRank(name) {
    const box = all("[data-pick]").find(({ options }) => [...options].some(({ value }) => value === name));
    if (!box || box.value === name) return;
    box.value = name;
    box.dispatchEvent(new Event("change"));
    box.scrollIntoView({ block: "nearest" });
  }
  // Stacked areas have one key each; the one below the pointer is clicked.
  const isArea = (trace) => Boolean(trace.meta?.key);
  function findArea(chart, points, event) {
    if (!points.length) return null;
    const axis = points[0].yaxis;
    let left = axis.p2d(event.clientY - chart.getBoundingClientRect().top - axis._offset);
    return points.find(({ y }) => (left -= y) <= 0) ?? null;
  }
  function fade(areas) {
    if (!areas.some(({ meta }) => perfkitSelection.has(meta.key))) return;
    for (const area of areas.filter(({ meta }) => !perfkitSelection.has(meta.key))) {
      area.fillcolor += "30";
      area.fillpattern.bgcolor = area.fillcolor;
    }
  }
  const redraw = () => drawn.forEach(draw);
  // Of traces with `meta` the points have keys; that of others is text to hover over.
  const keys = (trace) => (trace.meta ? trace.customdata : null);

  // Dots that are not chosen step back.
  function dim(trace) {
    if (!perfkitSelection.get()) return;
    trace.selectedpoints = trace.customdata.flatMap((key, place) => (perfkitSelection.has(key) ? [place] : []));
    Object.assign(trace, { selected: { marker: { opacity: 1 } }, unselected: { marker: { opacity: 0.18 } } });
  }
  const withKeys = (name) => figures[name]?.data.filter(keys) ?? []; // one that is still folded has none
  const keyed = all('.chart[data-keyed="points"]');
  perfkitSelection.on(() => keyed.filter((chart) => drawn.has(chart)).forEach(draw));
  for (const chart of all('.chart[data-keyed="areas"]')) {
    const has = (key) => (figures[chart.dataset.figure]?.data ?? []).some((trace) => isArea(trace) && perfkitSelection.has(trace.meta.key, key));
    perfkitSelection.on(() => drawn.has(chart) && draw(chart));
    perfkitSelection.view({
      name: "memory",
      has: (key) => chart.checkVisibility() && has(key),
      show: () => {
        perfkitSelection.unfold(chart);
        chart.scrollIntoView({ block: "center" });
      },
    });
  }
  keyed.forEach((chart) => {
    const of = (key) => withKeys(chart.dataset.figure).filter((trace) => trace.customdata.some((own) => perfkitSelection.has(own, key)));
    perfkitSelection.view({
      name: chart.dataset.figure.split("-")[0],
      has: (key) => of(key).length > 0,
      show: (key) => {
        const { meta } = of(key)[0];
        for (const box of all(`[data-layers="${chart.dataset.figure}"] input`)) if (meta[box.dataset.key] === box.dataset.value) box.checked = true;
        perfkitSelection.unfold(chart);
        draw(chart);
        chart.scrollIntoView({ block: "center" });
      },
    });
  });

  // Layers: a part is on where all that it is of is on. Of an arrow, which has no `meta`, its name tells that.
  function layers(chart, data, layout) {
    const off = all(`[data-layers="${chart.dataset.figure}"] input:not(:checked)`).map((box) => [box.dataset.key, box.dataset.value]);
    const on = (meta) => off.every(([key, value]) => meta[key] !== value);
    for (const trace of data) if (trace.meta) trace.visible = on(trace.meta);
    for (const note of layout.annotations) note.visible = on(note.showarrow ? JSON.parse(note.name) : { roof: note.name.split("|")[1] });
  }
  // On log-log axes every bandwidth has slope 1; its angle on the screen depends on the plot's size. On a small
  // screen dots are smaller, and what does not fit beside the roofs is named on hover only.
  function fit(chart, data, layout) {
    const { l, r, t, b } = layout.margin;
    const [x, y] = [layout.xaxis.range, layout.yaxis.range].map(([low, high]) => high - low);
    const angle = Math.atan((chart.offsetHeight - t - b) / y / ((chart.offsetWidth - l - r) / x));
    const gap = 9;
    const narrow = chart.offsetWidth < 560;
    const both = layout.annotations.some((label) => label.name?.split("|")[0].includes("below"));
    if (narrow) for (const trace of data) if (trace.marker) trace.marker.size = trace.marker.size.map((size) => 3 + size * 0.5);
    for (const label of layout.annotations) {
      if (label.showarrow) continue;
      const [line, place, several] = label.name.split("|")[0].split(" ");
      const side = place === "below" ? 1 : -1;
      if (narrow) Object.assign(label, { visible: label.visible && !several && (place === "below" || !both), font: { size: 10 } }); // the others keep their hover text
      if (line === "flat") continue;
      Object.assign(label, { textangle: (-angle * 180) / Math.PI, xanchor: "center", yanchor: "middle", xshift: side * gap * Math.sin(angle), yshift: -side * gap * Math.cos(angle) });
    }
  }
  all("[data-layers]").forEach((box) => box.addEventListener("change", () => draw(document.querySelector(`[data-figure="${box.dataset.layers}"]`))));

  // Tables: expandable rows, one panel at a time, sorting, filtering.
  all("button.more").forEach((button) =>
    button.addEventListener("click", () => {
      const open = byId(button.getAttribute("aria-controls")).classList.toggle("open");
      button.setAttribute("aria-expanded", String(open));
    }),
  );

  // What a cell is sorted by and saved as: its raw value, or the whole of a name that was shortened.
  const raw = (cell) => cell.dataset.value ?? cell.querySelector("[data-whole]")?.title ?? null;
  all("table.sortable thead button").forEach((button) =>
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const row = head.parentElement;
      const column = [...row.children].indexOf(head);
      const body = head.closest("table").tBodies[0];
      const rows = [...body.rows].filter((line) => !line.classList.contains("detail"));
      const numeric = rows.every((line) => raw(line.cells[column]) === null || raw(line.cells[column]).trim() !== "" && !isNaN(raw(line.cells[column])));
      const first = numeric && head.classList.contains("num") ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? (first === "ascending" ? "descending" : "ascending") : first;
      for (const other of row.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const key = (line) => raw(line.cells[column]) ?? (numeric ? null : line.cells[column].textContent);
      const unfolded = new Map(rows.map((line) => [line, line.nextElementSibling?.matches(".detail") ? [line.nextElementSibling] : []]));
      const lines = rows.sort((left, right) => {
        const [a, b] = [key(left), key(right)];
        if (a === null || b === null) return (a === null) - (b === null); // what is not known stays last
        return sign * (numeric ? a - b : a.localeCompare(b));
      });
      body.append(...lines.flatMap((line) => [line, ...unfolded.get(line)]));
    }),
  );

  // A table is one stop of the Tab key for its headings and one for its rows; arrows lead from one to the next.
  const ARROWS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const stops = (part) => all(part.tagName === "THEAD" ? "button" : "button.choose", part);
  const seen = (part) => stops(part).filter((button) => button.checkVisibility());
  function settle(part, stop = seen(part)[0]) {
    for (const button of stops(part)) button.tabIndex = button === stop ? 0 : -1;
  }
  all("table.ops").flatMap((table) => [table.tHead, table.tBodies[0]]).forEach((part) => {
    part.addEventListener("focusin", ({ target }) => stops(part).includes(target) && settle(part, target));
    part.addEventListener("keydown", (event) => {
      const some = seen(part);
      const place = some.indexOf(event.target);
      if (place < 0 || !(event.key in ARROWS) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      some[Math.min(Math.max(place + ARROWS[event.key], 0), some.length - 1)].focus();
    });
  });
  const settleAll = () => all("table.ops").forEach((table) => [table.tHead, table.tBodies[0]].forEach((part) => settle(part)));
  document.addEventListener("toggle", settleAll, true); // of what is folded nothing is seen
  setTimeout(settleAll); // once rows have their buttons

  // On a narrow screen a row is a card, in which each figure has its column's title.
  const narrow = matchMedia("(max-width: 600px)");
  function labels() {
    if (!narrow.matches) return;
    for (const table of all("table.ops")) {
      const titles = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
      for (const row of table.tBodies[0].rows) if (!row.matches(".detail")) [...row.cells].slice(1).forEach((cell, place) => (cell.dataset.label = titles[place + 1]));
    }
  }
  narrow.addEventListener("change", labels);
  labels();

  // Panels: one of a group is shown, the one whose id is the group's name and the chosen values. A group has one or
  // more choosers (a select, radio buttons in a fieldset, or a hidden input), and it may have a filter with a count.
  const shownPanel = (name) => all(`.${name}-panel`).find((panel) => !panel.hidden);
  const chosen = (chooser) => (chooser.matches("fieldset") ? chooser.querySelector(":checked") : chooser).value;
  const groups = new Set(all("[data-panels]").map((chooser) => chooser.dataset.panels));
  groups.forEach((group) => {
    const choosers = all(`[data-panels="${group}"]`);
    const input = document.querySelector(`[data-filter="${group}"]`);
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const panel = shownPanel(group);
      const rows = panel ? [...panel.querySelectorAll("tbody tr")] : [];
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      if (rows.length) settle(panel.querySelector("tbody"));
      input.closest(".tools").querySelector("[data-count]").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
    };
    const show = () => {
      const id = [group, ...choosers.map(chosen)].join("-");
      for (const panel of all(`.${group}-panel`)) panel.hidden = panel.id !== id;
      const table = shownPanel(group)?.querySelector("table.ops");
      if (table) [table.tHead, table.tBodies[0]].forEach((part) => settle(part));
      if (input) filter();
    };
    choosers.forEach((chooser) => chooser.addEventListener("change", show));
    input?.addEventListener("input", filter);
    show();
  });

  // One choice for the page: the same value in all choosers of its key, and a timeline's first step of it. Those of its
  // own section give it their place; of layers there, the first and the picked one are on.
  const optionsOf = (chooser) => (chooser.matches("select") ? [...chooser.options] : all("input", chooser));
  const textOf = (option) => (option.text ?? option.closest("label").textContent).trim();
  const isChosen = (option) => option.selected || option.checked;
  const isOf = (option, value) => textOf(option) === value || textOf(option).startsWith(`${value}, `);
  all("[data-pick]").forEach((box) => {
    const section = box.closest("section");
    const values = [...box.options].map(({ value }) => value);
    const choosers = all(`:is(select, fieldset)[data-key="${box.dataset.pick}"], [data-steps]`);
    const near = choosers.filter((chooser) => chooser.closest("section") === section);
    const layers = all('[data-layers] input[data-key="series"]', section);
    let picking = false;
    function giveWay() {
      for (const chooser of near) {
        const own = optionsOf(chooser).filter((option) => isOf(option, box.value));
        if (chooser.matches("select")) for (const option of chooser.options) option.hidden = !own.includes(option);
        (chooser.closest("label") ?? chooser).hidden = own.length <= 1;
        chooser.closest("section > *").classList.toggle("unpicked", !own.length);
      }
    }
    function pick() {
      picking = true;
      giveWay();
      for (const chooser of choosers) {
        const own = optionsOf(chooser).filter((option) => isOf(option, box.value));
        if (!own.length || own.some(isChosen)) continue;
        own[0][chooser.matches("select") ? "selected" : "checked"] = true;
        chooser.dispatchEvent(new Event("change"));
      }
      for (const layer of layers) {
        const on = layer.dataset.value === box.value || layer.dataset.value === values[0];
        if (layer.checked === on) continue;
        layer.checked = on;
        layer.dispatchEvent(new Event("change", { bubbles: true }));
      }
      picking = false;
    }
    box.addEventListener("change", pick);
    // What leads to a row, a block or a slice of another value sets a chooser: the choice follows it.
    const follow = () => {
      const led = picking ? undefined : near.map((chooser) => values.find((value) => isOf(optionsOf(chooser).find(isChosen), value))).find((value) => value && value !== box.value);
      if (!led) return;
      box.value = led;
      pick();
    };
    for (const chooser of near) chooser.addEventListener("change", follow);
    giveWay();
  });
  // A link to a section of details opens it.
  const unfoldSection = () => {
    const fold = byId(location.hash.slice(1).split("?")[0])?.querySelector(":scope > details");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfoldSection);
  unfoldSection();

  // Of what has tags, that is shown which has what each of the selects names.
  all("[data-narrow]").forEach((box) => {
    const things = all("[data-tags]").filter((thing) => !thing.parentElement.closest("[data-tags]"));
    const selects = all("select", box);
    const show = () => {
      for (const thing of things) thing.hidden = !selects.every((select) => !select.value || JSON.parse(thing.dataset.tags)[select.name] === select.value);
      const plots = things.filter((thing) => thing.querySelector(".chart"));
      box.querySelector("[data-count]").textContent = `${plots.filter((plot) => !plot.hidden).length} of ${plots.length} series`;
    };
    box.addEventListener("change", show);
    show();
  });

  // Columns that are hidden until they are asked for.
  all("[data-columns]").forEach((box) =>
    box.addEventListener("change", () => all(`.${box.dataset.columns}-panel`).forEach((panel) => panel.classList.toggle("few", !box.checked))),
  );

  // Saving: the embedded JSON as it is, tables as CSV with raw numbers where a cell carries one.
  function save(text, type, name) {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  // A spreadsheet takes what begins so for a formula, numbers apart: the apostrophe makes it text (OWASP, "CSV Injection").
  const text = (value) => (/^[=+\-@]/.test(value) && isNaN(value) ? `'${value}` : value);
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const words = (cell) => (cell.querySelector(".na") ?? cell).innerText; // not the number of its footnote
  function csv(table) {
    const rows = [...table.rows].filter((row) => !row.hidden && !row.classList.contains("detail"));
    return rows.map((row) => [...row.cells].map((cell) => quoted(text((raw(cell) ?? words(cell)).trim().replace(/\s+/g, " ")))).join(",")).join("\r\n");
  }
  all("[data-save]").forEach((button) => button.addEventListener("click", async () => save(await unfold(byId(button.dataset.save).textContent), "application/json", button.dataset.name)));
  all("[data-csv]").forEach((button) =>
    button.addEventListener("click", () => {
      const panel = shownPanel(button.dataset.csv); // a table alone is its only panel
      const table = panel?.querySelector("table");
      if (table) save(csv(table), "text/csv", panel.dataset.name);
    }),
  );

  // Copying by way of a selection: a page from disk or in a sandbox may not have the clipboard itself.
  function copy(text) {
    const box = Object.assign(document.createElement("textarea"), { value: text, className: "hidden" });
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
  const copiers = new WeakMap(); // what each said at first
  addEventListener("click", ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    if (!copiers.has(button)) copiers.set(button, [...button.childNodes]);
    button.replaceChildren(copy(button.dataset.copy) ? "Copied" : "Copying blocked by the browser");
    button.focus();
    setTimeout(() => button.replaceChildren(...copiers.get(button)), 2000);
  });

  // Theme, print, navigation.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  all("[data-theme-toggle]").forEach((button) =>
    button.addEventListener("click", () => {
      const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
      document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
      redraw();
    }),
  );
  dark.addEventListener("change", redraw);
  // Paper has no tabs: the tables with the dots that a roofline shows are printed beside the chosen ones.
  function findPanelsOfDots() {
    const dots = [...drawn].filter((chart) => chart.dataset.figure.startsWith("roofline") && chart.data).flatMap(({ data }) => data).filter((trace) => keys(trace) && trace.visible !== false);
    const wanted = new Set(dots.flatMap(keys));
    const missing = (rows) => rows.filter((row) => wanted.has(row.dataset.key));
    for (const row of missing(all("main tr[data-key]").filter((row) => row.checkVisibility()))) wanted.delete(row.dataset.key);
    return all(`[class*="-panel"][hidden]`).filter((panel) => {
      const rows = missing(all("tr[data-key]", panel));
      rows.forEach((row) => wanted.delete(row.dataset.key));
      return rows.length;
    });
  }
  let unfolded = [];
  let untabbed = [];
  addEventListener("beforeprint", () => {
    unfolded = all("details:not([open])"); // paper does not unfold
    unfolded.forEach((fold) => (fold.open = true));
    printing = true;
    all(".chart").filter((chart) => chart.offsetParent && figures[chart.dataset.figure]).forEach(draw); // not those of hidden panels
    untabbed = findPanelsOfDots();
    untabbed.forEach((panel) => (panel.hidden = false));
  });
  addEventListener("afterprint", () => {
    printing = false;
    unfolded.forEach((fold) => (fold.open = false));
    untabbed.forEach((panel) => (panel.hidden = true));
    redraw();
  });

  // In perfkit view a report is one of many; opened as a file it stands alone.
  if (location.protocol.startsWith("http") && /^\/(report\/|compare$)/.test(location.pathname))
    document.querySelector(".brand").after(Object.assign(document.createElement("a"), { className: "back", href: "/", textContent: "← All runs" }));

  const links = new Map(all(".side nav a").map((link) => [link.hash.slice(1), link]));
  const inView = new Set();
  const sections = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const current = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    },
    { rootMargin: "-20% 0px -65%" },
  );
  all("main > section").forEach((section) => sections.observe(section));

  function ready() {
    if (!document.documentElement.dataset.ready) performance.mark("usable");
    document.documentElement.dataset.ready = "true";
  }

  // plotly.js lies in the page folded, after its notice; it is started after the first paint, so that the summary comes
  // at once.
  async function start() {
    const source = byId("plotly");
    const folded = source.textContent.slice(source.textContent.indexOf("*/") + 2).trim();
    document.head.append(Object.assign(document.createElement("script"), { textContent: await unfold(folded) }));
    source.remove();
    Object.assign(figures, JSON.parse(await unfold(byId("figures").textContent)));
    const near = new IntersectionObserver(
      (entries) => {
        for (const entry of entries)
          if (entry.isIntersecting) {
            near.unobserve(entry.target);
            draw(entry.target);
          }
        ready();
      },
      { rootMargin: "400px" },
    );
    all(".chart").forEach((chart) => near.observe(chart));
  }
  if (all(".chart").length) requestAnimationFrame(() => setTimeout(start));
  else ready();
})();
