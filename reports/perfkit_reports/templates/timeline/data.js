"use strict";
// A step as columns: slices of a lane by depth, in the order of time, so that what is on the screen is found by halving.
const timelineData = (() => {
  const NONE = -1;
  const floats = (text) => Float64Array.from(text ? text.split(" ") : [], Number);
  const integers = (text) => Int32Array.from(text ? text.split(" ") : [], Number);

  function summed(steps) {
    for (let place = 1; place < steps.length; place += 1) steps[place] += steps[place - 1];
    return steps;
  }
  // Differences among those that have a link: 0 is none, and so a difference that is not positive is one less.
  function links(text, count) {
    const found = new Int32Array(count).fill(NONE);
    let last = 0;
    integers(text).forEach((step, place) => {
      if (step) found[place] = (last += step > 0 ? step : step + 1) - 1;
    });
    return found;
  }

  function decoded(step) {
    const labels = Object.fromEntries(Object.entries(step.labels).map(([name, column]) => [name, integers(column)]));
    let first = 0;
    const lanes = step.lanes.map((packed, place) => {
      const start = summed(floats(packed.start_ns));
      const end = floats(packed.duration_ns).map((duration, slice) => start[slice] + duration);
      const depth = packed.depth ? integers(packed.depth) : new Int32Array(start.length);
      // A slice may stand for several that are too short to be written one by one: `busy` of its time they run.
      const count = packed.count ? integers(packed.count) : null;
      const busy = packed.count ? floats(packed.slice_busy_ns) : null;
      const merged = [packed.merged_label, packed.merged_count].map(integers).concat([floats(packed.merged_ns)]);
      const lane = { place, kind: packed.kind, name: packed.name, first, start, end, depth, count, busy, merged, label: integers(packed.label), link: links(packed.link, start.length) };
      first += start.length;
      return lane;
    });
    for (const lane of lanes) lane.rows = rows(lane);
    const memory = step.memory.map((line) => ({ device: line.device, time: summed(floats(line.time_ns)), bytes: summed(floats(line.bytes)) }));
    return { ...step, labels, lanes, memory, slices: first };
  }

  // A row a depth: places of its slices, with their times beside each other.
  function rows(lane, chosen = () => true) {
    const places = [];
    lane.depth.forEach((depth, slice) => {
      while (places.length <= depth) places.push([]);
      if (chosen(lane.label[slice], slice)) places[depth].push(slice);
    });
    return places.map((slices) => {
      const start = Float64Array.from(slices, (slice) => lane.start[slice]);
      const end = Float64Array.from(slices, (slice) => lane.end[slice]);
      const busy = Float64Array.from(slices, (slice, place) => lane.busy?.[slice] ?? end[place] - start[place]);
      return { slices, start, end, busy, upto: summed(busy.slice()) }; // `upto`: how long they are together
    });
  }

  // The first place whose value is above a limit; values ascend.
  function above(values, limit, low = 0) {
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (values[middle] > limit) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // A slice by its number over all lanes.
  function slice(step, number) {
    const lane = step.lanes[above(step.lanes.map((each) => each.first), number) - 1];
    return at(step, lane, number - lane.first);
  }
  function at(step, lane, place) {
    const label = lane.label[place];
    const text = (column) => (step.labels[column][label] === NONE ? "" : step.texts[step.labels[column][label]]);
    return {
      lane, place, label, count: lane.count?.[place] ?? 1, busy: lane.busy?.[place] ?? lane.end[place] - lane.start[place], number: lane.first + place, start: lane.start[place], end: lane.end[place], depth: lane.depth[place], link: lane.link[place],
      name: text("name"), kind: text("kind"), op: text("op"), module: text("module"), shapes: text("shapes"),
    };
  }

  // What came from a slice: the kernels of a launch.
  function following(step, number) {
    const found = [];
    for (const lane of step.lanes)
      lane.link.forEach((link, place) => {
        if (link === number) found.push(lane.first + place);
      });
    return found;
  }

  // Which labels hold all words of a text.
  function matching(step, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const lower = step.texts.map((each) => each.toLowerCase());
    const { name, op, module, shapes } = step.labels;
    return Uint8Array.from(name, (_, label) => {
      const told = [name, op, module, shapes].map((column) => lower[column[label]] ?? "").join("\n");
      return words.length > 0 && words.every((word) => told.includes(word));
    });
  }

  // Of each lane, how many recorded slices have one of some labels, and how long these are together.
  function totals(step, labels) {
    return step.lanes.map((lane) => {
      let [count, time] = [0, 0];
      lane.label.forEach((label, place) => {
        if (!labels[label] || (lane.count && lane.count[place] > 1)) return;
        count += 1;
        time += lane.end[place] - lane.start[place];
      });
      lane.merged[0].forEach((label, place) => {
        if (!labels[label]) return;
        count += lane.merged[1][place];
        time += lane.merged[2][place];
      });
      return { lane, count, time };
    });
  }

  return { decoded, totals, rows, above, slice, at, following, matching, NONE };
})();
