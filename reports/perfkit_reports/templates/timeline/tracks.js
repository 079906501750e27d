"use strict";
// Tracks of a timeline: sampled counters and memory, whose slices have values.
const timelineTracks = (() => {
  const { above } = timelineData;
  const FONT = "11px system-ui, sans-serif";
  const LINE = 1; // pixel

  // `412 W`, `3.5 GiB`.
  function amount(value, unit) {
    if (unit === "B") {
      const power = Math.min(Math.max(Math.floor(Math.log2(Math.max(Math.abs(value), 1)) / 10), 0), 4);
      return `${Number((value / 1024 ** power).toPrecision(4))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
    }
    return `${Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 })}${unit ? ` ${unit}` : ""}`;
  }

  // The sample that holds at a time; -1 where none does.
  function sampleAt(track, ns) {
    const place = above(track.end, ns);
    return place < track.start.length && track.start[place] <= ns ? place : -1;
  }

  // Of the samples in a range: their mean by time, the least and the most; null where there is none.
  function sumRange(track, left, right) {
    let [known, total, least, most] = [0, 0, Infinity, -Infinity];
    for (let place = above(track.end, left); place < track.start.length && track.start[place] < right; place += 1) {
      const time = Math.min(track.end[place], right) - Math.max(track.start[place], left);
      if (time <= 0) continue;
      const value = track.values[place];
      [known, total, least, most] = [known + time, total + time * value, Math.min(least, value), Math.max(most, value)];
    }
    return known ? { mean: total / known, least, most } : null;
  }

  // A step area from zero, with a line on top; pauses stay empty. Of samples that share a pixel (of many, two) the line has all values,
  // the area their mean. Rectangles on whole pixels: strokes of thousands of steps take longer than a frame has.
  function draw(context, one, view, x, look) {
    const { start, end, values, most, least, unit } = one.lane;
    const y = (value) => Math.round(one.top + 2 + (1 - (value - least) / (most - least || 1)) * (one.row - 3));
    const [first, last, zero] = [x(view.left), x(view.right), y(0)];
    const begin = above(end, view.left);
    const apart = above(start, view.right) - begin > (last - first) / 3 ? 2 : 1; // pixels
    const pixel = (ns) => Math.round(Math.min(Math.max(x(ns), first), last) / apart) * apart;
    const lines = [];
    context.fillStyle = look.area;
    let [until, level] = [-1, 0];
    for (let place = begin; place < start.length && start[place] < view.right; ) {
      const left = pixel(start[place]);
      let [right, next, sum, low, high] = [pixel(end[place]), place + 1, values[place], values[place], values[place]];
      while (right <= left && next < start.length && pixel(start[next]) <= left) {
        [right, sum, low, high] = [pixel(end[next]), sum + values[next], Math.min(low, values[next]), Math.max(high, values[next])];
        next += 1;
      }
      const top = y(sum / (next - place));
      const width = Math.max(right - left, apart);
      context.fillRect(left, Math.min(top, zero), width, Math.abs(zero - top));
      lines.push([left, y(high), width, y(low) - y(high) + LINE]);
      if (until === left && level !== top) lines.push([left, Math.min(level, top), LINE, Math.abs(level - top) + LINE]);
      [until, level, place] = [left + width, top, next];
    }
    context.fillStyle = look.accent;
    for (const line of lines) context.fillRect(...line);
    if (one.row < 30) return;
    context.font = FONT;
    context.textBaseline = "top";
    note(context, amount(most, unit), x(view.left) + 4, one.top + 1, look);
  }
  // Text on a piece of the panel's color, legible on area and line.
  function note(context, text, left, top, look) {
    const width = context.measureText(text).width;
    context.globalAlpha = 0.85;
    context.fillStyle = look.paper;
    context.fillRect(left - 3, top, width + 6, 14);
    context.globalAlpha = 1;
    context.fillStyle = look.ink;
    context.fillText(text, left, top + 2);
  }

  // A time over all lanes, with the value that each open track has there.
  function drawCursor(context, tracks, ns, height, x, look) {
    const at = x(ns);
    context.globalAlpha = 0.5;
    context.fillStyle = look.muted;
    context.fillRect(Math.round(at) - 0.5, 0, 1, height);
    context.globalAlpha = 1;
    context.font = FONT;
    context.textBaseline = "top";
    for (const one of tracks) {
      const place = sampleAt(one.lane, ns);
      if (place < 0 || one.row < 30) continue;
      const text = amount(one.lane.values[place], one.lane.unit);
      const width = context.measureText(text).width;
      note(context, text, at + 8 + width < look.width ? at + 6 : at - 6 - width, one.top + one.row - 16, look);
    }
  }

  return { amount, sampleAt, sumRange, draw, drawCursor };
})();
