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
  function links(column, count) {
    const found = new Int32Array(count).fill(NONE);
    let last = 0;
    column.forEach((step, place) => {
      if (step) found[place] = (last += step > 0 ? step : step + 1) - 1;
    });
    return found;
  }

  // Columns follow each other in the order of a lane's header: of each the lowest bytes of all values, then the next.
  function reader(bytes, offset) {
    return (count, width) => {
      const values = new Float64Array(count);
      for (let plane = 0, factor = 1; plane < width; plane += 1, factor *= 256, offset += count)
        for (let place = 0; place < count; place += 1) values[place] += bytes[offset + place] * factor;
      for (let place = 0; place < count; place += 1) values[place] = values[place] % 2 ? -(values[place] + 1) / 2 : values[place] / 2;
      return values;
    };
  }
  // A start is told from what it follows: the slice before it of its depth, or the one around it.
  function starts(gaps, duration, depth) {
    const [ends, above] = [[], []];
    return gaps.map((gap, place) => {
      const level = depth[place];
      const start = gap + Math.max(0, ends[level] ?? 0, above[level - 1] ?? 0);
      [ends[level], above[level]] = [start + duration[place], start];
      return start;
    });
  }

  function decoded(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const bytes = new Uint8Array(buffer);
    const step = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    const read = reader(bytes, 4 + size);
    const labels = Object.fromEntries(Object.entries(step.labels).map(([name, column]) => [name, [...integers(column)]]));
    let first = 0;
    const lanes = step.lanes.map(({ kind, name, columns }, place) => {
      const found = Object.fromEntries(Object.entries(columns).map(([column, [count, width]]) => [column, read(count, width)]));
      const count = found.gap_ns.length;
      const column = (key) => found[key] ?? new Float64Array(0);
      const depth = Int32Array.from(found.depth ?? new Float64Array(count));
      const start = starts(found.gap_ns, column("duration_ns"), depth);
      const end = column("duration_ns").map((duration, slice) => start[slice] + duration);
      // A slice may stand for several that are too short to be written one by one: `busy` of its time they run.
      const lane = {
        place, kind, name, first, start, end, depth, count: found.count ?? null, busy: found.slice_busy_ns ?? null,
        merged: ["merged_label", "merged_count", "merged_ns"].map(column), mixed: mixed(found),
        label: Int32Array.from(column("label")), link: links(column("link"), count),
      };
      first += count;
      return lane;
    });
    const slices = first;
    const tracks = [...step.counters.map(counter), ...step.memory.map(memory)].map((track) => {
      const lane = sampled(step, labels, { ...track, place: lanes.length, first });
      lanes.push(lane);
      first += lane.start.length;
      return lane;
    });
    for (const lane of lanes) lane.rows = rows(lane);
    return { ...step, labels, lanes, tracks, slices, drawn: arranged(lanes, tracks) };
  }

  // Kinds of a stretch that has several: [kind, count, time] by its place.
  function mixed({ mixed_place: places = [], mixed_kind: kind, mixed_count: count, mixed_ns: time }) {
    const found = new Map();
    places.forEach((place, row) => found.set(place, [...(found.get(place) ?? []), [kind[row], count[row], time[row]]]));
    return found;
  }

  // Samples of a counter, and bytes of a device's memory: a lane whose slices have values, each from one sample to the
  // next. They come after all others, to which links lead by their numbers.
  const counter = (line) => ({ name: line.unit ? line.name.replace(` (${line.unit})`, "") : line.name, unit: line.unit, below: line.below, times: summed(floats(line.time_ns)), values: Float64Array.from(line.value), holds: line.holds_ns });
  const memory = (line) => ({ name: `memory, ${line.device}`, unit: "B", below: NONE, times: summed(floats(line.time_ns)), values: summed(floats(line.bytes)), holds: Infinity });
  function sampled(step, labels, { place, first, name, unit, below, times, values, holds }) {
    const label = labels.name.length;
    const text = (value) => (step.texts.includes(value) ? step.texts.indexOf(value) : step.texts.push(value) - 1);
    for (const [column, value] of [["name", text(name)], ["kind", text("counter")], ["op", NONE], ["module", NONE], ["shapes", NONE]]) labels[column].push(value);
    const end = times.map((time, sample) => Math.min(times[sample + 1] ?? step.length_ns, time + holds, step.length_ns));
    return {
      place, first, name, unit, below, values, kind: "counter", start: times, end, depth: new Int32Array(times.length), count: null, busy: null,
      merged: [[], [], []], mixed: new Map(), label: new Int32Array(times.length).fill(label), link: new Int32Array(times.length).fill(NONE),
      most: values.reduce((high, value) => Math.max(high, value), 0), least: values.reduce((low, value) => Math.min(low, value), 0),
    };
  }
  // Lanes from top to bottom: a track is below the streams of its device.
  function arranged(lanes, tracks) {
    const under = (place) => tracks.filter((track) => track.below === place);
    return [...lanes.filter((lane) => lane.kind !== "counter").flatMap((lane) => [lane, ...under(lane.place)]), ...under(NONE)];
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
    step.firsts ??= step.lanes.map((each) => each.first);
    const lane = step.lanes[above(step.firsts, number) - 1];
    return at(step, lane, number - lane.first);
  }
  function at(step, lane, place) {
    const label = lane.label[place];
    const text = (column) => (step.labels[column][label] === NONE ? "" : step.texts[step.labels[column][label]]);
    return {
      lane, place, label, count: lane.count?.[place] ?? 1, busy: lane.busy?.[place] ?? lane.end[place] - lane.start[place], number: lane.first + place, start: lane.start[place], end: lane.end[place], depth: lane.depth[place], link: lane.link[place], value: lane.values?.[place],
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

  // Of each lane, how many recorded slices have one of some labels, and how long these are together; a track is one.
  function totals(step, labels) {
    return step.lanes.map((lane) => {
      let [count, time] = [0, 0];
      if (lane.kind === "counter") return { lane, count: labels[lane.label[0]], time };
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

  // How many recorded slices of a range lie in stretches with others.
  function mergedIn(step, left, right) {
    let found = 0;
    for (const lane of step.lanes.filter((each) => each.count))
      for (const row of lane.rows)
        for (let place = above(row.end, left); place < row.start.length && row.start[place] < right; place += 1) {
          const count = lane.count[row.slices[place]];
          if (count > 1) found += count;
        }
    return found;
  }

  return { decoded, mergedIn, totals, rows, above, slice, at, following, matching, NONE };
})();
