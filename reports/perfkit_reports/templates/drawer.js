"use strict";
// The drawer tells of what is chosen, and rows and findings show that they are.
(() => {
  const drawer = document.getElementById("drawer");
  const sheet = JSON.parse(document.getElementById("chosen").textContent);
  const make = (tag, attributes = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.append(...children);
    return element;
  };
  const text = (index) => sheet.texts[index];
  const row = ([part, owner, cells, of]) => ({ part, owner, cells, of });
  for (const item of Object.values(sheet.items)) Object.assign(item, { rows: item.rows.map(row), totals: item.totals.map(row), name: text(item.name), recorded: item.recorded && text(item.recorded), titles: sheet.kinds[item.kind]?.map(text) ?? [] });

  const said = (cell) => (Array.isArray(cell) ? cell.map(text) : [text(cell), ""]);

  // What a table has no room for is told by the same sheet.
  function whole(line) {
    const [key, part] = [perfkitSelection.wide(line.dataset.key), line.dataset.key.slice(-8)];
    const item = sheet.items[key];
    const mine = item?.rows.find((one) => one.part === part);
    for (const cell of mine ? line.cells : []) {
      const place = item.titles.indexOf(line.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent.trim());
      for (const shown of cell.querySelectorAll("[data-whole]:not([title])")) shown.title = place < 0 ? item.recorded ?? item.name : said(mine.cells[place])[0];
    }
  }

  // Rows of a table: their names are buttons, and a click anywhere else in them does the same.
  const rows = [...document.querySelectorAll("tr[data-key]")];
  for (const row of rows) {
    const head = row.cells[0];
    const name = head.querySelector("code, span") ?? head;
    const button = make("button", { type: "button", className: "choose" });
    name.before(button);
    button.append(name);
    whole(row);
    row.addEventListener("click", (event) => {
      if (event.target.closest("a, button:not(.choose), input") || (event.detail && String(getSelection()))) return; // text is being marked
      choose(row.dataset.key, "table", event);
    });
  }
  for (const button of document.querySelectorAll("button[data-choose]"))
    button.addEventListener("click", (event) => choose(button.dataset.choose, "finding", event));

  let opener = null;
  function choose(key, from, event) {
    const again = key === perfkitSelection.get();
    if (from !== "drawer") opener = event.target.closest("button") ?? event.currentTarget.querySelector("button.choose");
    perfkitSelection.set(again && from !== "drawer" ? "" : key, from);
    if (!drawer.hidden && event.detail === 0) drawer.focus(); // by the keyboard
  }

  function mark() {
    for (const row of rows) {
      const chosen = row.classList.toggle("chosen", perfkitSelection.has(row.dataset.key));
      row.querySelector("button.choose").setAttribute("aria-pressed", String(chosen));
    }
    for (const button of document.querySelectorAll("button[data-choose]")) button.setAttribute("aria-pressed", String(perfkitSelection.get() === button.dataset.choose));
    for (const article of document.querySelectorAll("[data-about]")) article.classList.toggle("chosen", of(article, perfkitSelection.get()));
  }
  // Findings are about ops and idle time: those of a kernel are about its op. One that is chosen does not choose others.
  function of(article, key) {
    if (!key || key.startsWith("finding:")) return article.dataset.finding === key;
    const ops = sheet.items[perfkitSelection.wide(key)]?.rows.flatMap(({ part, of: parents }) => (key.endsWith(part) || !key.includes(";") ? parents.map(([, one]) => text(one)) : [])) ?? [];
    return about(article).some((one) => perfkitSelection.has(one, key) || ops.includes(one));
  }
  const about = (article) => JSON.parse(article.dataset.about);
  perfkitSelection.describe("finding", (key) => {
    const article = [...document.querySelectorAll("[data-finding]")].find((one) => one.dataset.finding === key);
    if (!article) return null;
    const keys = about(article);
    const title = article.querySelector("h2, h3, h4").textContent;
    const told = [...article.querySelectorAll(":scope > p:not([class])")].map((line) => line.textContent).join(" ");
    return { kind: "finding", name: title, facts: [["Evidence", told]], of: keys.map((one) => [named(one), one]), members: keys };
  });

  // Memory is about the ops that allocated it.
  perfkitSelection.describe("memory", (key) => {
    const item = sheet.items[perfkitSelection.wide(key)];
    return item && { members: item.rows.flatMap(({ of: ops }) => ops.map(([, op]) => text(op))) };
  });

  // A long name is cut in its key.
  const named = (key) => sheet.items[perfkitSelection.wide(key)]?.name ?? key.slice(key.indexOf(":") + 1);

  // What there is to tell: of a table's rows from the sheet, of all else from who shows it.
  function told(key) {
    const item = sheet.items[perfkitSelection.wide(key)];
    if (!item) return perfkitSelection.detail(key) ?? { name: named(key), kind: key.slice(0, key.indexOf(":")), facts: [] };
    const part = key.includes(";") ? key.slice(key.lastIndexOf(";") + 1) : "";
    const mine = item.rows.filter((row) => !part || row.part === part);
    const facts = mine.length === 1 ? list(item.titles, mine[0]) : item.totals.flatMap((total) => list(sheet.kinds.all.map(text), total, text(total.owner)));
    if (item.recorded) facts.push(["Raw name", item.recorded]);
    return { ...item, work: item.work?.map(text), facts, part, of: mine.length === 1 ? mine[0].of.map((pair) => pair.map(text)) : [] };
  }
  const list = (titles, row, owner = "") => titles.map((title, place) => [owner ? `${title}, ${owner}` : title, ...said(row.cells[place])]);
  // A path of modules may be broken at its steps.
  const breakable = (path) => path.split(/(?<=\/)(?=\w)/).flatMap((step, place) => (place ? [make("wbr"), step] : [step]));
  const OWNERS = 8; // in the drawer
  const SHOWN = ["Time", "Size", "Share", "On the critical path", "Potential savings", "% of roofline", "Bound", "Calls", "Phase", "Module", "Shapes"];
  function variants(item, key) {
    const columns = SHOWN.map((title) => item.titles.indexOf(title)).filter((place) => place >= 0 && item.rows.some((row) => !["–", ""].includes(said(row.cells[place])[0])));
    const several = new Set(item.rows.map((row) => row.owner)).size > 1;
    const head = make("tr", {}, ...(several ? [make("th", { scope: "col", textContent: "Of" })] : []), ...columns.map((place) => make("th", { scope: "col", textContent: item.titles[place] })));
    const body = item.rows.map((row) => {
      const own = `${perfkitSelection.wide(key)};${row.part}`;
      const cells = [...(several ? [text(row.owner)] : []), ...columns.map((place) => said(row.cells[place])[0])];
      const first = make("button", { type: "button", className: "choose", textContent: cells[0] });
      first.addEventListener("click", (event) => choose(own, "drawer", event));
      const line = make("tr", {}, make("th", { scope: "row" }, first), ...cells.slice(1).map((cell) => make("td", {}, ...breakable(cell))));
      first.setAttribute("aria-pressed", String(line.classList.toggle("chosen", item.part === row.part)));
      return line;
    });
    return make("div", { className: "scroll" }, make("table", {}, make("caption", { textContent: "Rows with this name" }), make("thead", {}, head), make("tbody", {}, ...body)));
  }

  const count = (item) => item.totals.reduce((sum, total) => sum + Number(said(total.cells[0])[0].replaceAll(",", "")), 0);

  function links(key, item) {
    const places = perfkitSelection.views().filter((place) => place.has(key));
    const found = places.map((place) => {
      const button = make("button", { type: "button", textContent: place.name });
      button.addEventListener("click", () => {
        perfkitSelection.leave();
        place.show(key);
      });
      return button;
    });
    const belongs = (item.of ?? []).slice(0, OWNERS).map(([name, other]) => {
      const button = make("button", { type: "button", className: "quiet", textContent: name });
      button.addEventListener("click", (event) => choose(other, "drawer", event));
      return button;
    });
    const box = make("div", { className: "links" });
    if (found.length) box.append(make("span", { textContent: "Show in" }), ...found);
    if (belongs.length) box.append(make("span", { textContent: { finding: "About", memory: "Allocated by" }[item.kind] ?? "Part of" }), ...belongs);
    return box;
  }

  function copy(name) {
    const button = make("button", { type: "button", className: "quiet", textContent: "Copy name" });
    button.dataset.copy = name;
    return button;
  }

  function open(key) {
    const item = told(key);
    const close = make("button", { type: "button", className: "quiet", textContent: "Close", title: "Esc" });
    close.addEventListener("click", shut);
    const tag = make("p", { className: "tag" });
    if (item.work) {
      const dot = make("i", { className: "swatch", textContent: "●", ariaHidden: "true" });
      dot.style.color = item.work[1];
      tag.append(dot);
    }
    tag.append([item.kind, item.work?.[0]].filter(Boolean).join(" · "));
    const name = make("h2", {}, make("code", { textContent: item.name }));
    const facts = make("dl", {}, ...item.facts.filter(([, value]) => value && value !== "–").map(([title, value, more]) => make("div", { className: value.length + (more?.length ?? 0) > 60 ? "wide" : "" }, make("dt", { textContent: title }), make("dd", { textContent: value }, ...(more ? [make("small", { textContent: more })] : [])))));
    drawer.replaceChildren(make("header", {}, tag, make("span", { className: "tools" }, copy(item.name), close)), name, links(key, item), facts);
    if (item.rows?.length > 1) drawer.append(make("h3", { textContent: `${item.rows.length} ${item.rows.length < count(item) ? `of ${count(item)} ` : ""}rows with this name` }), variants(item, key));
    drawer.hidden = false;
    drawer.scrollTop = 0;
    document.documentElement.classList.add("choosing");
    document.documentElement.classList.toggle("docked", key.startsWith("slice:"));
  }
  function shut() {
    const focused = drawer.contains(document.activeElement);
    perfkitSelection.set("", "drawer");
    if (focused && opener?.isConnected) opener.focus({ preventScroll: true });
  }
  perfkitSelection.on((key, from) => {
    if (from === "timeline") opener = document.activeElement; // Esc returns to it
    mark();
    if (key) return open(key);
    drawer.hidden = true;
    document.documentElement.classList.remove("choosing", "docked");
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !drawer.hidden && !event.defaultPrevented && !event.target.closest?.("input[type=search], select")) shut();
  });

  // Where the drawer leads: a row among those of its table, the findings that are about it.
  function reveal(element) {
    perfkitSelection.unfold(element);
    const panel = element.closest('[class$="-panel"][id], [class*="-panel "][id]');
    const group = panel && [...document.querySelectorAll("[data-panels]")].filter((chooser) => panel.id.startsWith(`${chooser.dataset.panels}-`));
    if (group?.length) {
      const values = panel.id.slice(group[0].dataset.panels.length + 1).split("-");
      group.forEach((chooser, place) => {
        if (chooser.matches("fieldset")) chooser.querySelectorAll("input")[values[place]].checked = true;
        else chooser.value = values[place];
      });
      group[0].dispatchEvent(new Event("change"));
    }
    element.hidden = false; // a filter may have
    element.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth" });
    element.querySelector("button.choose, button[data-choose]")?.focus({ preventScroll: true });
  }
  const first = (places, fits) => places.find(fits);
  const place = (name, places, keys) => {
    const found = (key) => first(places(), (element) => keys(element).includes(key)) ?? first(places(), (element) => keys(element).some((other) => perfkitSelection.has(other, key)));
    perfkitSelection.view({ name, has: (key) => Boolean(found(key)), show: (key) => reveal(found(key)) });
  };
  // Tables that are about others' rows come after these.
  const own = (row) => /;[0-9a-f]{8}$/.test(row.dataset.key);
  place("table", () => [...rows.filter(own), ...rows.filter((row) => !own(row))], (row) => [row.dataset.key]);
  const finding = (key) => [...document.querySelectorAll("[data-about]")].find((article) => of(article, key));
  perfkitSelection.view({ name: "findings", has: (key) => Boolean(finding(key)), show: (key) => reveal(finding(key)) });
  perfkitSelection.start();
})();
