"use strict";
// Draws what of a step is on the screen: each row in as many rectangles as it has pixels at most, whatever lies in it.
const timelineDrawing = (() => {
  const { above } = timelineData;
  const AXIS = 24, ROW = 18, THIN = 4, GAP = 9, HEAD = 18, TRACK = 40;
  const FONT = "11px system-ui, sans-serif";
  const LETTER = 6.1; // pixels, on average

  const scale = (ns) => (ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"]);
  function duration(ns) {
    const [size, unit] = scale(ns);
    return `${Number((ns / size).toPrecision(ns < 1e3 ? 3 : 4))} ${unit}`;
  }

  // Where lanes lie, from top to bottom. An open lane has a row a depth, a folded one thin ones without names; a track is high, or low.
  function layout(step, folded, narrow) {
    const gutter = narrow ? 0 : 150;
    const lanes = [];
    let y = 0;
    for (const lane of step.drawn) {
      const thin = folded.has(lane.place);
      const row = lane.kind === "counter" ? (thin ? ROW : TRACK) : thin ? THIN : ROW;
      const top = y + (narrow ? HEAD : 0);
      const height = Math.max(row * Math.max(lane.rows.length, 1), narrow ? 0 : ROW);
      lanes[lane.place] = { lane, top, row, height, head: y };
      y = top + height + GAP;
    }
    return { gutter, lanes, height: y };
  }

  // As a pixel's bytes lie in memory, without its opacity.
  const rgb = (color) => [1, 3, 5].reduce((all, place, byte) => all | (parseInt(color.slice(place, place + 2), 16) << (8 * byte)), 0);

  // Dark ink on light fills, light ink on dark ones.
  function ink(color) {
    const [r, g, b] = [1, 3, 5].map((place) => parseInt(color.slice(place, place + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#16181d" : "#ffffff";
  }

  // How slices of each kind are filled.
  function fills(context, kinds) {
    return new Map(kinds.map(([kind, color, pattern]) => [kind, { rgb: rgb(color), ink: ink(color), pattern: pattern && hatch(context, pattern, ink(color)) }]));
  }
  function hatch(context, pattern, color) {
    const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    const pen = tile.getContext("2d");
    pen.strokeStyle = pen.fillStyle = color;
    pen.globalAlpha = 0.22;
    const lines = { "/": [[0, 8, 8, 0]], "\\": [[0, 0, 8, 8]], x: [[0, 8, 8, 0], [0, 0, 8, 8]], "-": [[0, 4, 8, 4]], "|": [[4, 0, 4, 8]], "+": [[0, 4, 8, 4], [4, 0, 4, 8]] }[pattern] ?? [];
    for (const [x0, y0, x1, y1] of lines) {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    }
    if (pattern === ".") pen.fillRect(3, 3, 2, 2);
    return context.createPattern(tile, "repeat");
  }

  // A row as rectangles: `paint(x, width, slice, share)`. What is too small to tell apart is one pixel, of which a share
  // is taken: a thousand short pauses must not look like one long one.
  function sweep(row, left, right, scale, paint) {
    const { start, end, slices, upto, busy } = row;
    let place = above(end, left);
    while (place < start.length && start[place] < right) {
      const x = Math.max((start[place] - left) * scale, -1);
      const until = Math.min((end[place] - left) * scale, (right - left) * scale + 1);
      if (until - x >= 1) {
        paint(x, until - x, slices[place], busy[place] / Math.max(end[place] - start[place], 1));
        place += 1;
        continue;
      }
      const pixel = Math.floor(x);
      const edge = left + (pixel + 1) / scale;
      let next = above(start, edge, place + 1);
      if (next - 1 > place && end[next - 1] > edge) next -= 1; // it begins in this pixel and does not end there
      paint(pixel, 1, slices[place], Math.min((upto[next - 1] - (place ? upto[place - 1] : 0)) * scale, 1));
      place = next;
    }
  }

  // Ticks as far apart as their texts need, which have as many places as tell neighbors apart. Where these are more than
  // people read, texts are offsets from the first tick.
  const PLACES = 3;
  function ticks(left, right, width) {
    const rough = (right - left) / Math.max(width / 130, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const every = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const found = [];
    for (let place = Math.ceil(left / every); place * every <= right; place += 1) found.push(place * every);
    const [size, unit] = scale(Math.max(Math.abs(left), Math.abs(right)));
    const places = Math.max(0, Math.ceil(-Math.log10(every / size) - 1e-9));
    const whole = (at) => (at ? `${at < 0 ? "−" : ""}${(Math.abs(at) / size).toFixed(places)} ${unit}` : "0");
    if (places <= PLACES) return found.map((at) => [at, whole(at)]);
    const [step, name] = scale(every);
    const digits = Math.max(0, Math.ceil(-Math.log10(every / step) - 1e-9));
    return found.map((at, place) => [at, place ? `+${((place * every) / step).toFixed(digits)} ${name}` : whole(at)]);
  }

  function draw(context, step, view, placed, look) {
    const { gutter } = placed;
    const width = look.width - gutter;
    const scale = width / (view.right - view.left);
    const x = (ns) => gutter + (ns - view.left) * scale;
    context.setTransform(look.ratio, 0, 0, look.ratio, 0, 0);
    context.clearRect(0, 0, look.width, placed.height);
    context.fillStyle = look.line;
    for (const [at] of ticks(view.left, view.right, width)) context.fillRect(x(at), 0, 1, placed.height);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, width, placed.height);
    context.clip();
    bounds(context, step, placed, look, x);
    const shown = (top, height) => top + height >= look.top && top <= look.bottom;
    const inSight = placed.lanes.filter((one) => shown(one.head, one.height + HEAD));
    const [tracks, rest] = [true, false].map((which) => inSight.filter((one) => (one.lane.kind === "counter") === which));
    const lines = rest.flatMap((one) => one.lane.rows.map((row, depth) => ({ one, row, marked: look.marked?.[one.lane.place][depth], top: one.top + depth * one.row })));
    names(context, step, slices(context, step, view, lines, width, gutter, look), gutter, look);
    for (const one of tracks) timelineTracks.draw(context, one, view, x, look);
    if (look.path) path(context, step, placed, view, x, look);
    if (look.range) band(context, look.range, placed.height, x, look);
    if (look.cursor !== null && tracks.length) timelineTracks.drawCursor(context, tracks, look.cursor, placed.height, x, look);
    if (look.chosen) outline(context, placed, look.chosen, x, look);
    context.restore();
  }

  // Slices are written as pixels, a few lines of them a row, that are stretched to its height: as quick with a hundred
  // thousand as with a hundred. What is less than a pixel is as high as its share of it.
  const LINES = 8;
  const strip = document.createElement("canvas");
  function slices(context, step, view, lines, width, gutter, look) {
    const wide = Math.max(Math.round(width * look.ratio), 1);
    const high = Math.max(lines.length, 1) * LINES;
    [strip.width, strip.height] = [wide, high]; // which clears it
    const pen = strip.getContext("2d", { willReadFrequently: true });
    const image = pen.createImageData(wide, high);
    const pixels = new Uint32Array(image.data.buffer);
    const scale = wide / (view.right - view.left);
    const kinds = step.labels.kind;
    const room = 14 * look.ratio;
    const found = []; // wide enough for more than their color
    const fill = (line, row, label, alpha, told) =>
      sweep(row, view.left, view.right, scale, (x, across, slice, share) => {
        if (told && across > room) found.push([x / look.ratio, across / look.ratio, slice, lines[line]]);
        const color = (look.fills[kinds[label[slice]]].rgb | (alpha << 24)) >>> 0;
        const from = Math.max(Math.round(x), 0);
        const until = Math.min(Math.max(Math.round(x + across) - (across > 3 ? 1 : 0), from + 1), wide);
        for (let level = share < 1 ? LINES - Math.max(Math.round(share * LINES), 1) : 0; level < LINES; level += 1) {
          const start = (line * LINES + level) * wide;
          if (until - from < 8) for (let pixel = from; pixel < until; pixel += 1) pixels[start + pixel] = color;
          else pixels.fill(color, start + from, start + until);
        }
      });
    lines.forEach(({ one, row, marked }, line) => {
      fill(line, row, one.lane.label, marked ? 72 : 255, one.row > THIN && !marked);
      if (marked) fill(line, marked, one.lane.label, 255, one.row > THIN);
    });
    pen.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    lines.forEach(({ one, top }, line) => context.drawImage(strip, 0, line * LINES, wide, LINES, gutter, top, width, one.row > THIN ? one.row - 2 : one.row - 1));
    return found;
  }

  // The pattern of its kind and its name; of a stretch the number of its slices.
  function names(context, step, found, gutter, look) {
    context.font = FONT;
    context.textBaseline = "middle";
    for (const [x, width, slice, { top, one }] of found) {
      const label = one.lane.label[slice];
      const several = one.lane.count?.[slice] ?? 1;
      const style = look.fills[step.labels.kind[label]];
      if (style.pattern && several === 1) {
        context.fillStyle = style.pattern;
        context.fillRect(gutter + x, top, width - 1, one.row - 2);
      }
      const from = Math.max(x, 0);
      const room = Math.floor((x + width - from - 8) / LETTER);
      if (room < 3) continue;
      const name = several > 1 ? `${several.toLocaleString("en")} merged` : step.shown[label];
      context.fillStyle = several > 1 ? look.ink : style.ink;
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, gutter + from + 4, top + one.row / 2 - 0.5);
    }
  }

  // The ruler is a canvas of its own, which stays in sight above the lanes.
  function ruler(context, step, view, placed, look) {
    const width = look.width - placed.gutter;
    const x = (ns) => placed.gutter + ((ns - view.left) * width) / (view.right - view.left);
    context.setTransform(look.ratio, 0, 0, look.ratio, 0, 0);
    context.clearRect(0, 0, look.width, AXIS);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const [at, text] of ticks(view.left, view.right, width)) {
      context.fillStyle = look.line;
      context.fillRect(x(at), AXIS - 6, 1, 6);
      context.fillStyle = look.muted;
      if (x(at) + context.measureText(text).width + 8 < look.width) context.fillText(text, x(at) + 4, AXIS / 2);
    }
    context.beginPath();
    context.rect(placed.gutter, 0, width, AXIS);
    context.save();
    context.clip();
    if (look.range) band(context, look.range, AXIS, x, look);
    if (step.step_end_ns > step.step_begin_ns) {
      context.fillStyle = look.accent;
      for (const at of [step.step_begin_ns, step.step_end_ns]) context.fillRect(Math.round(x(at)) - 0.5, AXIS - 8, 1.5, 8);
      context.fillRect(x(step.step_begin_ns), AXIS - 8, x(step.step_end_ns) - x(step.step_begin_ns), 2);
    }
    context.restore();
  }

  // Where the step itself begins and ends: what is launched earlier for it, or ends later, is shown around it.
  function bounds(context, step, placed, look, x) {
    if (step.step_end_ns <= step.step_begin_ns) return;
    context.fillStyle = look.accent;
    for (const at of [step.step_begin_ns, step.step_end_ns]) context.fillRect(Math.round(x(at)) - 0.5, 0, 1.5, placed.height);
  }

  // A range that is selected.
  function band(context, range, height, x, look) {
    const [left, right] = [x(range.left), x(range.right)];
    context.globalAlpha = 0.16;
    context.fillStyle = look.accent;
    context.fillRect(left, 0, Math.max(right - left, 1), height);
    context.globalAlpha = 1;
    for (const edge of [left, right]) context.fillRect(edge - 0.5, 0, 1, height);
  }

  const box = (placed, slice, x) => {
    const one = placed.lanes[slice.lane.place];
    return { left: x(slice.start), right: x(slice.end), top: one.top + slice.depth * one.row, height: one.row - 1 };
  };

  // What the step's length is made of, as one line through the slices that it lies on.
  function path(context, step, placed, view, x, look) {
    const lane = step.lanes.find((each) => each.kind === "critical path");
    if (!lane) return;
    const firsts = (step.firsts ??= step.lanes.map((each) => each.first));
    let last = -Infinity;
    context.beginPath();
    for (let place = Math.max(above(lane.end, view.left) - 1, 0); place < lane.start.length && lane.start[place] < view.right; place += 1) {
      const [left, right, link] = [x(lane.start[place]), x(lane.end[place]), lane.link[place]];
      if (link === timelineData.NONE || right - last < 1) continue; // no more of them than pixels
      const on = placed.lanes[above(firsts, link) - 1];
      const y = on.top + (on.lane.depth[link - on.lane.first] + 1) * on.row - 1.5;
      context.lineTo(left, y);
      context.lineTo(right, y);
      last = right;
    }
    for (const [width, color] of [[4, look.paper], [1.75, look.ink]]) {
      context.lineWidth = width;
      context.strokeStyle = color;
      context.stroke();
    }
  }

  function outline(context, placed, chosen, x, look) {
    const { left, right, top, height } = box(placed, chosen.slice, x);
    for (const other of chosen.linked) {
      const to = box(placed, other, x);
      const [from, until] = other.start < chosen.slice.start ? [to, { left, top, height }] : [{ left, top, height }, to];
      context.beginPath();
      context.moveTo(from.left, from.top + from.height / 2);
      const [tip, down] = [until.top + (until.top > from.top ? 0 : until.height), until.top > from.top ? 1 : -1];
      context.bezierCurveTo(from.left, tip, until.left, from.top, until.left, tip);
      context.lineWidth = 1.5;
      context.strokeStyle = context.fillStyle = look.accent;
      context.stroke();
      context.beginPath(); // the head of the arrow
      context.moveTo(until.left, tip);
      context.lineTo(until.left - 4, tip - 8 * down);
      context.lineTo(until.left + 4, tip - 8 * down);
      context.fill();
    }
    context.lineWidth = 2;
    context.strokeStyle = look.ink;
    context.strokeRect(left - 1, top - 1, Math.max(right - left, 2) + 2, height + 2);
  }

  // The slice under a place of the canvas, or the nearest within two pixels; null where there is none.
  function hit(step, view, placed, look, px, py) {
    const one = placed.lanes.find((each) => py >= each.top && py < each.top + each.row * each.lane.rows.length);
    if (!one || px < placed.gutter) return null;
    const row = one.lane.rows[Math.floor((py - one.top) / one.row)];
    const scale = (look.width - placed.gutter) / (view.right - view.left);
    const ns = view.left + (px - placed.gutter) / scale;
    const next = above(row.end, ns);
    const near = [next, next - 1].find((place) => place >= 0 && place < row.start.length && row.start[place] - 2 / scale <= ns && row.end[place] + 2 / scale >= ns);
    return near === undefined ? null : timelineData.at(step, one.lane, row.slices[near]);
  }

  return { AXIS, duration, layout, draw, ruler, hit, fills, ticks };
})();
