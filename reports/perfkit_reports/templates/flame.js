"use strict";
// Flame graphs: blocks as wide as what they take, what they lie in above them. Zoom with a click, search, or walk through
// them by the keyboard. Blocks are elements of the page, so that they print, and scale with the theme.
(() => {
  const sheet = JSON.parse(document.getElementById("flames").textContent);
  const ROW = 22;
  const LEAST = 2; // pixels
  const READABLE = 40;
  const scaled = (value, units, base) => {
    const steps = value > 0 ? Math.min(units.length - 1, Math.max(0, Math.floor(Math.log(value) / Math.log(base)))) : 0;
    const number = value / base ** steps;
    return `${number >= 99.95 ? Math.round(number).toLocaleString("en") : number.toPrecision(3)} ${units[steps]}`;
  };
  const show = {
    s: (value) => (value >= 1 ? scaled(value, ["s"], 1000) : scaled(value * 1e9, ["ns", "us", "ms"], 1000)),
    FLOP: (value) => scaled(value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], 1000),
    B: (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024),
  };
  const percent = (part) => `${(100 * part).toFixed(1)} %`;

  for (const box of document.querySelectorAll(".flame")) start(box, sheet[box.dataset.flame]);

  function start(box, data) {
    const field = (name) => box.querySelector(`[data-${name}]`);
    const area = field("blocks");
    const status = field("status");
    const choosers = [...box.querySelectorAll("[data-tree]")];
    const measure = () => field("measure")?.value ?? data.measures[0].name;
    const unit = () => data.measures.find(({ name }) => name === measure()).unit;
    let tree, zoom, focused, places;

    function choose(number) {
      tree = data.trees[number];
      tree.below ??= tree.parent.reduce((below, parent, node) => ((below[parent] ??= []).push(node), below), {});
      zoom = -1;
      focused = null;
      const has = (name) => tree.values[name];
      for (const option of field("measure")?.options ?? []) option.disabled = !has(option.value);
      if (!has(measure())) field("measure").value = data.measures.find(({ name }) => has(name)).name;
      const colors = field("colors");
      if (colors) colors.closest("label").hidden = !tree.before;
    }
    const label = (node) => (node < 0 ? "everything" : data.labels[tree.label[node]][0]);
    const key = (node) => (node < 0 ? "" : data.labels[tree.label[node]][1]);
    const values = () => tree.values[measure()];
    const of = (node) => (node < 0 ? (tree.below[-1] ?? []).reduce((sum, top) => sum + values()[top], 0) : values()[node]);
    const isGone = (node) => node >= tree.parent.length - (tree.gone ?? 0);
    const size = (node) => (byChange() ? of(node) + goneWithin(node) : of(node)); // how wide it is
    // The largest first; those that differ by a number at the end (blocks of a model) in its order.
    const family = (node) => /^(.*?)(\d+)$/.exec(label(node));
    function below(node) {
      const nodes = [...(tree.below[node] ?? [])].sort((a, b) => size(b) - size(a));
      const places = new Map();
      nodes.forEach((each, place) => {
        const stem = family(each)?.[1];
        if (stem !== undefined) places.set(stem, [...(places.get(stem) ?? []), place]);
      });
      for (const some of places.values()) {
        const members = some.map((place) => nodes[place]).sort((a, b) => family(a)[2] - family(b)[2]);
        some.forEach((place, rank) => (nodes[place] = members[rank]));
      }
      return nodes;
    }
    const path = (node) => (node < 0 ? [-1] : [...path(tree.parent[node]), node]);
    const then = (node) => (node < 0 ? (tree.below[-1] ?? []).reduce((sum, top) => sum + before()[top], 0) : before()[node]);
    const before = () => tree.before[measure()] ?? values().map(() => 0);
    const byChange = () => Boolean(tree.before) && field("colors").value === "change";

    // What was there before of a node that is gone, or of the gone ones beneath another.
    function goneWithin(node) {
      const sums = ((tree.sums ??= {})[measure()] ??= tree.parent.reduceRight((sums, parent, at) => {
        if (isGone(at)) sums[at] = before()[at];
        if (!isGone(parent)) sums[parent] = (sums[parent] ?? 0) + (sums[at] ?? 0);
        return sums;
      }, {}));
      return sums[node] ?? 0;
    }

    // Where each block lies: what the zoomed one lies in is above it in full width.
    function layout() {
      const found = [];
      const put = (node, x, width, depth) => {
        found.push({ node, x, width, depth });
        let at = x;
        for (const child of below(node)) {
          const part = size(node) > 0 ? (size(child) / size(node)) * width : 0;
          if (part * area.clientWidth >= LEAST) put(child, at, part, depth + 1);
          at += part;
        }
      };
      const around = path(zoom).slice(0, -1);
      around.forEach((node, depth) => found.push({ node, x: 0, width: 1, depth, around: true }));
      put(zoom, 0, 1, around.length);
      return found;
    }

    function color(node) {
      if (!byChange()) return node < 0 ? "" : (data.colors[data.labels[tree.label[node]][2]] ?? "");
      const [now, was] = [of(node), then(node)];
      const change = (now - was) / Math.max(now, was, 1e-30);
      return Math.abs(change) < 0.01 ? "" : data.change[change > 0 ? 0 : 1];
    }
    const strength = (node) => (byChange() && isGone(node) ? "35%" : byChange() ? `${Math.round(15 + 60 * Math.min(1, Math.abs(of(node) - then(node)) / Math.max(of(node), then(node), 1e-30)))}%` : "");

    function told(node) {
      if (node >= 0 && isGone(node)) return `removed; was ${show[unit()](then(node))}, ${percent(then(node) / (then(-1) || 1))} ${data.whole}`;
      const parts = [`${show[unit()](of(node))}, ${percent(of(node) / (of(-1) || 1))} ${data.whole}`];
      if (node >= 0 && tree.parent[node] >= 0) parts.push(`${percent(of(node) / (of(tree.parent[node]) || 1))} of ${label(tree.parent[node])}`);
      if (tree.before) parts.push(then(node) ? `before ${show[unit()](then(node))}` : "new");
      return parts.join("; ");
    }

    function draw() {
      const words = field("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      const hit = (node) => words.length > 0 && node >= 0 && words.every((word) => label(node).toLowerCase().includes(word));
      places = layout();
      const active = document.activeElement?.parentElement === area;
      const reached = places.some(({ node }) => node === focused) ? focused : zoom; // by Tab
      area.replaceChildren(
        ...places.map(({ node, x, width, depth, around }) => {
          const block = document.createElement("div");
          const chosen = perfkitSelection.has(key(node));
          const fill = color(node);
          block.className = ["block", around && "around", hit(node) && "hit", chosen && "chosen", node >= 0 && isGone(node) && "gone", fill && "colored"].filter(Boolean).join(" ");
          block.dataset.node = node;
          block.setAttribute("role", "treeitem");
          block.setAttribute("aria-level", depth + 1);
          block.setAttribute("aria-selected", String(chosen));
          block.setAttribute("aria-label", `${label(node)}: ${told(node)}`);
          block.title = `${label(node)}\n${told(node)}`;
          block.tabIndex = node === reached ? 0 : -1;
          block.style.cssText = `left:${100 * x}%;width:${100 * width}%;top:${depth * ROW}px`;
          if (fill) block.style.setProperty("--of", fill);
          if (strength(node)) block.style.setProperty("--strength", strength(node));
          if (width * area.clientWidth > 30) block.textContent = label(node);
          return block;
        }),
      );
      area.style.height = `${(Math.max(...places.map(({ depth }) => depth)) + 1) * ROW}px`;
      if (active) area.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
      const sum = (node) => (hit(node) ? of(node) : (tree.below[node] ?? []).reduce((all, child) => all + sum(child), 0));
      status.textContent = words.length ? `${show[unit()](sum(-1))}, ${percent(sum(-1) / (of(-1) || 1))} ${data.whole} matches` : `${label(zoom)}: ${told(zoom)}`;
      field("reset").hidden = zoom < 0;
      for (const legend of box.querySelectorAll("[data-legend]")) legend.hidden = (legend.dataset.legend === "change") !== byChange();
    }
    function to(node) {
      zoom = node;
      focused = node;
      draw();
    }
    function open(node) {
      if (node < 0 || tree.below[node] || node === zoom) to(node === zoom ? (tree.parent[node] ?? -1) : node);
      if (key(node)) perfkitSelection.set(key(node), "flame");
    }

    area.addEventListener("click", (event) => event.target.dataset.node !== undefined && open(Number(event.target.dataset.node)));
    area.addEventListener("focusin", (event) => {
      focused = Number(event.target.dataset.node);
      status.textContent = `${label(focused)}: ${told(focused)}`;
    });
    area.addEventListener("keydown", (event) => {
      const at = places.find(({ node }) => node === focused) ?? places[0];
      const row = places.filter(({ depth }) => depth === at.depth).sort((a, b) => a.x - b.x);
      const beside = (step) => row[row.indexOf(at) + step];
      const steps = {
        ArrowDown: () => places.filter(({ depth, x }) => depth === at.depth + 1 && x >= at.x - 1e-9 && x < at.x + at.width).sort((a, b) => b.width - a.width)[0],
        ArrowUp: () => places.find(({ node }) => at.node >= 0 && node === tree.parent[at.node]),
        ArrowLeft: () => beside(-1),
        ArrowRight: () => beside(1),
        Home: () => places[0],
      };
      if (steps[event.key]) {
        event.preventDefault();
        const next = steps[event.key]();
        if (next) area.querySelector(`[data-node="${next.node}"]`).focus();
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(at.node);
      } else if (event.key === "Backspace" && zoom >= 0) {
        event.preventDefault();
        to(tree.parent[zoom]);
      }
    });
    field("reset").addEventListener("click", () => to(-1));
    field("find").addEventListener("input", draw);
    const number = () => data.order.findIndex((chosen) => chosen.every((value, place) => value === choosers[place].value));
    for (const chooser of choosers)
      chooser.addEventListener("change", () => {
        // Not every trace has every tree: the first that has what was just chosen.
        if (number() < 0) {
          const other = data.order.find((chosen) => chosen[choosers.indexOf(chooser)] === chooser.value);
          choosers.forEach((each, place) => (each.value = other[place]));
        }
        choose(number());
        draw();
      });
    for (const select of [field("measure"), field("colors")]) select?.addEventListener("change", draw);

    // The drawer leads to the largest block of what is chosen, in the tree that is shown if it has one.
    function find(wanted) {
      const shown = data.trees.indexOf(tree);
      for (const place of [shown, ...data.trees.keys()]) {
        const { label: labels, values } = data.trees[place];
        const size = values[measure()] ?? Object.values(values)[0];
        const nodes = labels.flatMap((one, node) => (data.labels[one][1] && perfkitSelection.has(data.labels[one][1], wanted) ? [node] : []));
        if (nodes.length) return { place, node: nodes.reduce((best, node) => (size[node] > size[best] ? node : best)) };
      }
      return null;
    }
    perfkitSelection.view({
      name: "flame graph",
      has: (wanted) => find(wanted) !== null,
      show: (wanted) => {
        const { place, node } = find(wanted);
        perfkitSelection.unfold(box);
        choosers.forEach((chooser, number) => (chooser.value = data.order[place][number]));
        choose(place);
        // No closer than it takes to see it.
        to(path(tree.parent[node]).find((around) => (size(node) / (size(around) || 1)) * area.clientWidth >= READABLE) ?? tree.parent[node]);
        box.scrollIntoView({ block: "center" });
        area.querySelector(`[data-node="${node}"]`)?.focus({ preventScroll: true });
      },
    });
    perfkitSelection.on(draw);
    new ResizeObserver(() => area.clientWidth && draw()).observe(area);
    // On paper: all of it.
    let zoomed = null;
    addEventListener("beforeprint", () => {
      [zoomed, zoom] = [zoom, -1];
      draw();
    });
    addEventListener("afterprint", () => {
      [zoom, zoomed] = [zoomed ?? zoom, null];
      draw();
    });
    choose(0);
    draw();
  }
})();
