"use strict";
// What lies in a range of a step: its slices by kind and by lane, each cut at the ends of the range.
const timelineRange = (() => {
  const { above } = timelineData;
  const { duration } = timelineDrawing;

  // Each slice of a row in the range: its place, and the part of its time that lies inside.
  function within(row, left, right, visit) {
    for (let place = above(row.end, left); place < row.start.length && row.start[place] < right; place += 1)
      visit(place, Math.max(row.start[place], left), Math.min(row.end[place], right));
  }

  // Time of a lane with any slice. Only slices of depth 0 count: others lie in them.
  function busy(row, left, right) {
    let [total, until] = [0, left];
    within(row, left, right, (place, begin, end) => {
      if (end <= until) return;
      total += ((end - Math.max(begin, until)) * row.busy[place]) / Math.max(row.end[place] - row.start[place], 1);
      until = end;
    });
    return total;
  }

  // By kind: how many slices, and how long without those that lie in them. A stretch of merged slices that the range cuts
  // has all of its slices in it.
  function kinds(step, lanes, left, right) {
    const found = new Map();
    const add = (kind, count, ns) => {
      const sum = found.get(kind) ?? { kind: step.texts[kind], count: 0, ns: 0 };
      found.set(kind, { ...sum, count: sum.count + count, ns: sum.ns + ns });
    };
    // A stretch of several kinds has its parts of a count and a time.
    const spread = (lane, row, place, share, ns) => {
      const number = row.slices[place];
      const parts = lane.mixed.get(number) ?? [[step.labels.kind[lane.label[number]], lane.count?.[number] ?? 1, row.busy[place]]];
      for (const [kind, count, time] of parts) add(kind, count * share, (ns * time) / Math.max(row.busy[place], 1));
    };
    for (const lane of lanes)
      lane.rows.forEach((row, depth) =>
        within(row, left, right, (place, begin, end) => {
          const time = ((end - begin) * row.busy[place]) / Math.max(row.end[place] - row.start[place], 1);
          spread(lane, row, place, 1, time);
          if (!depth) return;
          const around = lane.rows[depth - 1];
          const parent = above(around.end, row.start[place]);
          if (parent < around.start.length && around.start[parent] <= row.start[place]) spread(lane, around, parent, 0, -time);
        }),
      );
    return [...found.values()].sort((one, other) => other.ns - one.ns);
  }

  // Devices where the step has any, else threads; idle time by its cause.
  function sums(step, { left, right }) {
    const of = (kind) => step.lanes.filter((lane) => lane.kind === kind);
    const main = of("stream").length ? of("stream") : of("thread");
    const lanes = [...of("stream"), ...of("thread")].map((lane) => {
      let count = 0;
      for (const row of lane.rows) within(row, left, right, (place) => (count += lane.count?.[row.slices[place]] ?? 1));
      return { lane, count, busy: lane.rows.length ? busy(lane.rows[0], left, right) : 0 };
    });
    const tracks = step.tracks.flatMap((track) => {
      const sum = timelineTracks.sumRange(track, left, right);
      return sum ? [{ track, ...sum }] : [];
    });
    return { tracks, kinds: kinds(step, main, left, right), idle: kinds(step, of("idle"), left, right), lanes: lanes.filter((one) => one.count) };
  }

  function table(id, titles, rows) {
    const made = document.createElement("table");
    made.dataset.sums = id;
    const line = (parent, tag, cells) => {
      const row = parent.insertRow();
      cells.forEach((text, place) => {
        const cell = document.createElement(place && tag === "td" ? "td" : "th");
        if (cell.matches("th")) cell.scope = tag === "th" ? "col" : "row";
        cell.className = place ? "number" : "";
        cell.textContent = text;
        row.append(cell);
      });
    };
    line(made.createTHead(), "th", titles);
    const body = made.createTBody();
    for (const row of rows) line(body, "td", row);
    return made;
  }

  // The sums as tables: kinds of work and of idle time, lanes, then counters.
  function tables(step, range) {
    const length = range.right - range.left;
    const share = (ns) => `${((100 * ns) / length).toFixed(1)} %`;
    const found = sums(step, range);
    const kindRows = [...found.kinds, ...found.idle].map(({ kind, count, ns }) => [kind, count.toLocaleString("en"), duration(ns), share(ns)]);
    const laneRows = found.lanes.map(({ lane, count, busy }) => [lane.name, count.toLocaleString("en"), duration(busy), duration(Math.max(length - busy, 0))]);
    const trackRows = found.tracks.map(({ track, ...sum }) => [track.name, ...[sum.mean, sum.least, sum.most].map((value) => timelineTracks.amount(value, track.unit))]);
    const ofTracks = trackRows.length ? [table("tracks", ["Counter", "Mean", "Least", "Most"], trackRows)] : [];
    return [table("kinds", ["Kind", "Slices", "Time", "% of range"], kindRows), table("lanes", ["Lane", "Slices", "Busy", "Idle"], laneRows), ...ofTracks];
  }

  return { sums, tables };
})();
