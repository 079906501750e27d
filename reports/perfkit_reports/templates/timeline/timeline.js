"use strict";
// The timeline of a page: what is looked at, by pointer, wheel, finger and keyboard, and what is chosen in it.
(() => {
  const { decoded, mergedIn, rows, slice, at, following, matching, totals } = timelineData;
  const { AXIS, duration, layout, draw, ruler, hit } = timelineDrawing;
  const { sums: sumRange, tables } = timelineRange;
  const { amount } = timelineTracks;
  const { first, beside, across, cause, result, gap } = timelineWalk;
  const LEAST_NS = 50; // across the whole width
  const MOST_PX = 620; // higher lanes are folded at first, the highest first
  const OPEN_TRACKS = 4; // at first

  for (const element of document.querySelectorAll("[data-timeline]")) start(element, JSON.parse(document.getElementById("timelines").textContent)[element.dataset.timeline]);

  function start(root, held) {
    const find = (name) => root.querySelector(`[data-${name}]`);
    const canvas = root.querySelector(".lanes canvas");
    const context = canvas.getContext("2d");
    const [axis, heads, tip, search, count, told, chooser, selecting, help, dense] = ["ruler", "heads", "tip", "search", "count", "told", "steps", "range", "help", "dense"].map(find);
    const steps = held.steps.map(() => null);
    let latest; // the step that was asked for last: unfolding takes its time
    let sums = []; // by lane, of what is searched
    let step, placed, fills, chosen, marked, found, current, width, range, cursor = null, resting, asked = false, printing = false;
    const view = { left: 0, right: 1 };
    const folded = new Set();

    async function show(place) {
      latest = place;
      if (chooser) chooser.value = place;
      delete root.dataset.step;
      const made = (steps[place] ??= prepared(await unfoldBytes(held.steps[place])));
      if (place !== latest) return;
      step = made;
      find("path").closest("label").hidden = !has("critical path");
      find("gap").hidden = !has("idle");
      [chosen, marked, found, current, sums, range] = [null, null, [], -1, [], null];
      folded.clear();
      fold();
      whole();
      tell();
      const [key, from] = [perfkitSelection.get(), "address"];
      if (key.startsWith("slice:")) perfkitSelection.set("", from), perfkitSelection.set(key, from); // told anew, now that it is known
      else heed(key, from);
      if (search.value) look();
      root.dataset.step = place;
    }
    const has = (kind) => step.lanes.some((lane) => lane.kind === kind);
    function prepared(packed) {
      const made = decoded(packed);
      const short = (text) => held.short[text] ?? text;
      const last = (label) => made.lanes.length && made.texts[made.labels.kind[label]] === "modules";
      made.shown = Array.from(made.labels.name, (name, label) => (last(label) ? made.texts[name].split("/").pop() : short(made.texts[name] ?? "")));
      made.about = timelineAbout.of(made, held);
      return made;
    }
    function fold() {
      const narrow = root.clientWidth < 620;
      const frames = (lane) => lane.label.every((label) => step.texts[step.labels.kind[label]] === "Python");
      for (const lane of step.lanes) if (lane.kind === "thread" && frames(lane)) folded.add(lane.place);
      const most = narrow ? 420 : MOST_PX;
      for (const track of step.tracks) folded.add(track.place);
      for (const lane of [...step.lanes].sort((one, other) => other.rows.length - one.rows.length))
        if (layout(step, folded, narrow).height > most && lane.rows.length > 1) folded.add(lane.place);
      for (const track of step.tracks.slice(0, narrow ? OPEN_TRACKS / 2 : OPEN_TRACKS)) folded.delete(track.place);
    }

    // Drawing: once a frame at most, and only if something changed.
    function redraw() {
      if (asked || !step) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        paint();
      });
    }
    function paint() {
      width = canvas.clientWidth;
      if (!width) return;
      const ratio = printing ? 2 : devicePixelRatio || 1;
      const narrow = width < 620;
      placed = layout(step, folded, narrow);
      const [high, wide] = [Math.round(placed.height * ratio), Math.round(width * ratio)];
      if (canvas.width !== wide || canvas.height !== high) {
        [canvas.width, canvas.height] = [wide, high];
        canvas.style.height = `${placed.height}px`;
      }
      titles(narrow);
      const box = canvas.getBoundingClientRect();
      const [top, bottom] = printing ? [0, placed.height] : [-box.top - 400, innerHeight - box.top + 400]; // a little more than is on the screen
      [axis.width, axis.height] = [wide, Math.round(AXIS * ratio)];
      const bar = document.querySelector(".side");
      axis.style.top = `${bar && bar.clientWidth > innerWidth / 2 ? bar.clientHeight : 0}px`; // a bar of links lies above it
      fills ??= timelineDrawing.fills(context, held.kinds);
      const { color } = plotTheme;
      const look = {
        width, range, ratio, top, bottom, marked, path: find("path").checked,
        fills: step.texts.map((text) => fills.get(text)),
        chosen: chosen && { slice: chosen, linked: linked(chosen) },
        ink: color("--ink"), paper: color("--panel"), muted: color("--muted"), line: color("--line"), accent: color("--accent"), area: color("--bar"), cursor: cursor ?? chosen?.start ?? null,
      };
      draw(context, step, view, placed, look);
      ruler(axis.getContext("2d"), step, view, placed, look);
      clearTimeout(resting);
      if (held.commands[steps.indexOf(step)]) resting = setTimeout(tellMerged, 200);
    }
    // Slices in view that are merged, and how to see each; not of the whole step, of which the caption tells.
    function tellMerged() {
      const [left, right] = [Math.max(view.left, 0), Math.min(view.right, step.length_ns)];
      const merged = right - left < step.length_ns * 0.9 ? mergedIn(step, left, right) : 0;
      dense.hidden = !merged;
      if (!merged) return;
      const [begin, end] = [Math.floor(left / 1e3), Math.ceil(right / 1e3)].map((us) => `${(step.start_s + us / 1e6).toFixed(6).replace(/\.?0+$/, "")}s`);
      const command = `${held.commands[steps.indexOf(step)]} --window ${begin}:${end}`;
      const copy = Object.assign(button("Copy command", () => {}), { className: "quiet" });
      copy.dataset.copy = command;
      dense.replaceChildren(`${merged.toLocaleString("en")} merged slices in view. Each of them: `, element("code", command), " ", copy);
    }
    // Names of lanes: buttons that fold those of several rows.
    function titles(narrow) {
      const every = step.drawn.map((lane) => [placed.lanes[lane.place], lane.name, lane]);
      const key = JSON.stringify([narrow, ...every.map(([one, name]) => [one.head, one.row, name])]);
      if (heads.dataset.key === key) return;
      const had = heads.contains(document.activeElement) ? document.activeElement.dataset.lane : null;
      heads.dataset.key = key;
      heads.classList.toggle("narrow", narrow);
      heads.replaceChildren(
        ...every.map(([one, name, lane]) => {
          const foldable = lane.rows.length > 1 || lane.kind === "counter";
          const head = document.createElement(foldable ? "button" : "span");
          head.style.top = `${narrow ? one.head : one.top}px`;
          head.textContent = head.title = name;
          if (foldable) {
            head.type = "button";
            head.dataset.lane = lane.place;
            head.setAttribute("aria-expanded", String(!folded.has(lane.place)));
            head.addEventListener("click", () => {
              folded.has(lane.place) ? folded.delete(lane.place) : folded.add(lane.place);
              redraw();
            });
          }
          return head;
        }),
      );
      if (had !== null) heads.querySelector(`[data-lane="${had}"]`)?.focus();
    }

    // What is looked at.
    function go(left, right) {
      const span = Math.min(Math.max(right - left, LEAST_NS), step.length_ns * 1.06);
      const middle = (left + right) / 2;
      const [low, high] = [-0.03 * step.length_ns, 1.03 * step.length_ns];
      view.left = Math.min(Math.max(middle - span / 2, low), high - span);
      view.right = view.left + span;
      redraw();
    }
    // The step with a little around it; what was launched before it, or ends later, is a pan away.
    function whole() {
      const [begin, end] = step.step_end_ns > step.step_begin_ns ? [step.step_begin_ns, step.step_end_ns] : [0, step.length_ns];
      go(begin - 0.01 * (end - begin), end + 0.01 * (end - begin));
    }
    const zoom = (factor, around = (view.left + view.right) / 2) => go(around - (around - view.left) * factor, around + (view.right - around) * factor);
    const pan = (share) => go(view.left + share * (view.right - view.left), view.right + share * (view.right - view.left));
    const time = (px) => view.left + ((px - placed.gutter) / (width - placed.gutter)) * (view.right - view.left);
    function fit(one) {
      const room = Math.max((one.end - one.start) * 0.6, LEAST_NS);
      go(one.start - room, one.end + room);
      into(one);
    }
    // Brings a slice into view: sideways, its lane open, and the page so far that it is on the screen.
    function reveal(one) {
      if (one.end - one.start < (view.right - view.left) / 400 || one.start > view.right || one.end < view.left) {
        const span = Math.min(view.right - view.left, Math.max((one.end - one.start) * 30, LEAST_NS));
        go((one.start + one.end - span) / 2, (one.start + one.end + span) / 2);
      }
      into(one);
      redraw();
    }
    function into(one) {
      if (!canvas.clientWidth) return; // it lies in what is folded
      folded.delete(one.lane.place);
      paint();
      const y = canvas.getBoundingClientRect().top + placed.lanes[one.lane.place].top + one.depth * placed.lanes[one.lane.place].row;
      const drawer = document.getElementById("drawer").getBoundingClientRect();
      const bottom = drawer.height && drawer.top > 0 ? drawer.top : innerHeight; // on wide screens it is at the right
      if (y < 60 || y > bottom - 40) scrollBy({ top: y - bottom * 0.6, behavior: "instant" });
    }

    // What is chosen, here and on the rest of the page: a slice by its place, its kernel or op by name.
    const address = (one) => `slice:${steps.indexOf(step)}.${one.lane.place}/${one.place}`;
    const places = (key) => (/^slice:(\d+)\.(\d+)\/(\d+)$/.exec(key) ?? []).slice(1);
    // The step of a slice; none where the page has no such step, or the key is of something else.
    function stepOf(key) {
      const [place] = places(key);
      return place in steps ? Number(place) : null;
    }
    function addressed(key) {
      const [place, lane, number] = places(key);
      return step && steps[place] === step && step.lanes[lane]?.start[number] !== undefined ? at(step, step.lanes[lane], Number(number)) : null;
    }
    let described = ["", null];
    perfkitSelection.describe("slice", (key) => {
      if (described[0] === key && described[1]) return described[1];
      const one = addressed(key);
      if (!one) return null;
      const own = step.about.partsOf(one.label);
      const [, color] = held.kinds.find(([kind]) => kind === one.kind) ?? [];
      const from = one.link < 0 ? null : slice(step, one.link);
      const of = [...own, ...(from ? [[from.name, address(from)]] : [])];
      described = [key, { name: one.name, kind: "slice", work: color && [one.kind, color], facts: step.about.factsOf(one), of, members: own.slice(0, 1).map(([, key]) => key) }];
      return described[1];
    });
    // What somebody chose elsewhere: a slice is gone to, of all else the slices stand out.
    function heed(key, from) {
      const one = addressed(key);
      chosen = one;
      described = ["", null];
      mark(key);
      tell();
      if (one && from !== "timeline") requestAnimationFrame(() => chosen === one && reveal(one)); // when the drawer is open
      redraw();
    }
    function mark(key) {
      if (search.value.trim()) return;
      const labels = key && !key.startsWith("slice:") ? step.about.belonging(key) : null;
      marked = labels?.some(Boolean) ? step.lanes.map((lane) => rows(lane, (label) => labels[label])) : null;
    }
    perfkitSelection.on((key, from) => {
      const place = stepOf(key) ?? latest;
      if (place !== latest) show(place);
      else if (step === steps[place]) heed(key, from);
    });
    perfkitSelection.view({
      name: "timeline",
      has: (key) => Boolean(step) && (Boolean(addressed(key)) || step.about.belonging(key).some(Boolean)),
      show(key) {
        root.scrollIntoView({ block: "start" });
        const lane = marked ? marked.findIndex((of) => of.some((row) => row.slices.length)) : -1;
        const one = addressed(key) ?? (lane < 0 ? null : at(step, step.lanes[lane], marked[lane].find((row) => row.slices.length).slices[0]));
        if (one) reveal(one);
      },
    });
    const linked = (one) => [...(one.link < 0 ? [] : [one.link]), ...following(step, one.number).slice(0, 40)].map((number) => slice(step, number));
    function choose(one) {
      const key = one ? address(one) : "";
      if (key === perfkitSelection.get()) heed(key, "timeline");
      else perfkitSelection.set(key, "timeline");
    }
    function tell() {
      told.replaceChildren();
      if (range) told.append(...toldRange());
      if (sums.length) told.append(element("p", sums.filter(({ time: ns }) => ns).map(({ lane, count: many, time: ns }) => `${lane.name}: ${many.toLocaleString("en")}, ${duration(ns)}`).join(" · "), "sums"));
      if (!chosen) return;
      const from = chosen.link < 0 ? null : slice(step, chosen.link);
      const next = following(step, chosen.number);
      const about = [many(chosen), chosen.lane.values ? amount(chosen.value, chosen.lane.unit) : duration(chosen.busy), chosen.lane.name, chosen.lane.kind === "idle" ? chosen.shapes : chosen.op].filter(Boolean);
      const actions = element("p", "", "actions");
      actions.append(button("Zoom to selection", () => fit(chosen)));
      if (from) actions.append(button(`Caused by: ${from.name}`, () => follow(from)));
      if (next.length) actions.append(button(next.length === 1 ? `Leads to: ${slice(step, next[0]).name}` : `Leads to: first of ${next.length}`, () => follow(slice(step, next[0]))));
      told.append(element("code", step.shown[chosen.label]), element("p", about.join(" · ")), actions);
    }
    function toldRange() {
      const actions = element("p", "", "actions");
      actions.append(button("Zoom to range", () => go(range.left, range.right)), button("Clear range", () => select(null)));
      const [from, length] = [duration(Math.max(range.left, 0)), duration(range.right - range.left)];
      const sheet = element("div", "", "sums");
      sheet.append(...tables(step, range));
      return [element("p", `Range of ${length}, from ${from}`), sheet, actions];
    }
    // A range of at least a pixel, cut to the step; null selects none.
    function select(ends) {
      const [left, right] = (ends ?? [0, 0]).map((at) => Math.min(Math.max(at, 0), step.length_ns)).sort((one, other) => one - other);
      range = right - left > 0 ? { left, right } : null;
      tell();
      redraw();
    }
    const many = (one) => (one.count > 1 ? `${one.count.toLocaleString("en")} slices, the longest of them` : "");
    function element(tag, text, name = "") {
      return Object.assign(document.createElement(tag), { textContent: text, className: name });
    }
    function button(text, act) {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      made.addEventListener("click", act);
      return made;
    }
    function follow(one) {
      choose(one);
      reveal(one);
    }
    // A step of `timelineWalk` from what is chosen; from nothing, to the first one in view.
    function walk(to, ...how) {
      const one = chosen ? to(step, chosen, ...how) : first(step, view);
      if (one) follow(one);
    }
    function toGap(forward) {
      const one = gap(step, chosen, forward);
      if (!one) return;
      choose(one);
      fit(one);
    }

    // Search.
    function look() {
      const labels = matching(step, search.value);
      if (search.value.trim()) marked = step.lanes.map((lane) => rows(lane, (label) => labels[label]));
      else mark(perfkitSelection.get());
      found = search.value.trim() ? marked.flatMap((of, lane) => of.flatMap((row) => (step.lanes[lane].values ? row.slices.slice(0, 1) : row.slices).map((place) => [row, lane, place]))) : [];
      found.sort(([, lane, place], [, other, last]) => step.lanes[lane].start[place] - step.lanes[other].start[last]);
      current = -1;
      sums = search.value.trim() ? totals(step, labels).filter((one) => one.count) : [];
      counted();
      tell();
      redraw();
    }
    // All that was recorded counts, also what is drawn with its neighbors.
    function counted() {
      const every = sums.reduce((all, one) => all + one.count, 0);
      const [recorded, drawn] = [every, found.length].map((number) => number.toLocaleString("en"));
      const at = current < 0 ? "" : `${current + 1} of `;
      // Enter steps through those that are drawn: which merged stretch holds the others is not known.
      const known = found.length === every ? `${at}${recorded}` : `${at}${drawn} drawn, ${recorded} recorded`;
      count.textContent = !search.value.trim() ? "" : every ? known : "none";
    }
    function next(forward) {
      if (!found.length) return;
      current = (current + forward + found.length) % found.length;
      const [, lane, place] = found[current];
      follow(at(step, step.lanes[lane], place));
      counted();
    }
    search.addEventListener("input", () => step && look());
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape" && search.value) {
        search.value = "";
        look();
      }
    });

    const place = (event) => [event.offsetX, event.offsetY];
    timelinePointers.listen(canvas, axis, {
      ready: () => Boolean(placed), lanesWidth: () => width - placed.gutter, time, select, go, pan, zoom, hover,
      isSelecting: (event) => event.shiftKey || selecting.getAttribute("aria-pressed") === "true",
      choose: (event) => choose(under(event)),
    });
    canvas.addEventListener("pointerleave", () => {
      hover(null);
      cursor = null;
      redraw();
    });
    canvas.addEventListener("dblclick", (event) => {
      if (!placed) return;
      const one = under(event);
      one ? fit(one) : whole();
    });
    selecting.addEventListener("click", () => selecting.setAttribute("aria-pressed", String(selecting.getAttribute("aria-pressed") !== "true")));
    const under = (event) => placed && hit(step, view, placed, { width }, ...place(event));
    // The wheel is the page's, unless it is held with a key or the timeline has been clicked into.
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!placed) return;
        const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
        if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) pan(sideways / width);
        else if (event.ctrlKey || event.metaKey || document.activeElement === canvas) zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.0035), time(event.offsetX));
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    function hover(event) {
      const one = event && event.pointerType !== "touch" ? under(event) : null;
      cursor = event && placed && event.offsetX > placed.gutter ? time(event.offsetX) : null;
      if (step?.tracks.length) redraw();
      tip.hidden = !one;
      canvas.style.cursor = one ? "pointer" : "grab";
      if (!one) return;
      const about = [many(one), one.kind === one.name ? "" : one.kind, one.op && `of ${one.op}`, one.shapes, one.module === one.name ? "" : one.module].filter(Boolean);
      tip.replaceChildren(element("b", step.shown[one.label]), element("span", `${one.lane.values ? `${amount(one.value, one.lane.unit)} for ${duration(one.end - one.start)}` : duration(one.busy)}, at ${duration(Math.max(one.start, 0))}`), ...about.map((text) => element("small", text)));
      const left = Math.min(event.offsetX + 14, width - tip.offsetWidth - 4);
      tip.style.left = `${Math.max(left, 0)}px`;
      tip.style.top = `${event.offsetY + 16}px`;
    }

    // Keys, as Perfetto has them; arrows do the same.
    const keys = {
      w: () => zoom(0.8), s: () => zoom(1.25), a: () => pan(-0.15), d: () => pan(0.15),
      ArrowUp: () => zoom(0.8), ArrowDown: () => zoom(1.25), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
      "+": () => zoom(0.8), "-": () => zoom(1.25), 0: whole, Home: whole,
      f: () => (chosen ? fit(chosen) : range && go(range.left, range.right)), m: () => chosen && select([chosen.start, chosen.end]),
      Enter: () => (chosen ? document.getElementById("drawer").focus() : walk()), "?": () => help.showModal(), ".": () => walk(beside, 1), ",": () => walk(beside, -1), j: () => walk(across, 1), k: () => walk(across, -1),
      g: () => toGap(1), G: () => toGap(-1), "[": () => walk(cause), c: () => walk(cause), "]": () => walk(result),
      n: () => next(1), p: () => next(-1), N: () => next(-1),
      "/": () => search.focus(), Escape: () => (chosen ? choose(null) : range ? select(null) : canvas.blur()),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!placed || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    for (const [name, act] of Object.entries({ in: () => zoom(0.6), out: () => zoom(1 / 0.6), all: whole, gap: () => toGap(1), keys: () => help.showModal() })) find(name).addEventListener("click", () => placed && act());
    find("path").addEventListener("change", redraw);
    chooser?.addEventListener("change", () => {
      const to = Number(chooser.value);
      if (stepOf(perfkitSelection.get()) !== null) perfkitSelection.set("", "timeline"); // it lies in the step that is left
      show(to);
    });

    const near = ({ top, bottom }) => bottom > -400 && top < innerHeight + 400;
    addEventListener("scroll", () => near(canvas.getBoundingClientRect()) && redraw(), { passive: true });
    const legend = root.querySelector(".legend");
    new ResizeObserver(() => {
      redraw();
      if (!legend) return; // nothing is drawn
      // On phones it scrolls: keys must reach it then.
      if (legend.scrollHeight > legend.clientHeight + 1) legend.tabIndex = 0;
      else legend.removeAttribute("tabindex");
    }).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.querySelectorAll("[data-theme-toggle]").forEach((toggle) => toggle.addEventListener("click", redraw));
    // On paper: the whole step, in ink.
    let before = null;
    addEventListener("beforeprint", () => {
      if (!step) return;
      before = { ...view };
      printing = true;
      [view.left, view.right] = [0, step.length_ns];
      paint();
    });
    addEventListener("afterprint", () => {
      printing = false;
      if (before) Object.assign(view, before);
      redraw();
    });
    // For measurements and tests: what is looked at, and where on the screen a slice lies.
    root.timeline = {
      view, go, paint,
      get step() { return step; },
      get range() { return range && { ...range, ...sumRange(step, range) }; },
      place(lane, number) {
        const { left, top } = canvas.getBoundingClientRect();
        const one = placed.lanes[lane.place];
        const middle = (Math.max(lane.start[number], view.left) + Math.min(lane.end[number], view.right)) / 2;
        const x = placed.gutter + ((middle - view.left) / (view.right - view.left)) * (width - placed.gutter);
        return [left + x, top + one.top + (lane.depth[number] + 0.5) * one.row];
      },
    };
    show(0);
  }
})();
