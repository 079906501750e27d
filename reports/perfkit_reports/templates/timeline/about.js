"use strict";
// What the rest of the page calls the slices of a step, and the facts that the drawer tells of one.
const timelineAbout = (() => {
  const { duration } = timelineDrawing;
  const { amount, sumRange } = timelineTracks;

  function of(step, held) {
    const known = {};
    const labelsOf = (kind) => (known[kind] ??= new Set(step.lanes.filter((lane) => lane.kind === kind).flatMap((lane) => [...lane.label])));
    const names = new Set([...labelsOf("stream")].map((each) => step.labels.name[each]));
    // On a stream; the lane of collectives has those again, and such as ran on the host.
    const ran = (label) => labelsOf("stream").has(label) || (labelsOf("collectives").has(label) && names.has(step.labels.name[label]));

    // What a slice is, its op and its module, as [name, key].
    function partsOf(label) {
      const text = (column) => step.texts[step.labels[column][label]];
      const part = (kind, name) => (name ? [[held.short[name] ?? name, `${kind}:${held.keys[name] ?? name}`]] : []);
      if (labelsOf("counter").has(label)) return [];
      if (labelsOf("idle").has(label)) return part("idle", text("name"));
      const kind = labelsOf("modules").has(label) ? "module" : labelsOf("phases").has(label) ? "phase" : ran(label) ? "kernel" : "op";
      const ours = labelsOf("critical path").has(label); // names of our own
      return [...(ours ? [] : part(kind, text("name"))), ...part("op", text("op")), ...part("module", text("module"))];
    }
    // Which labels belong to a key of the page's selection.
    const belonging = (key) => Uint8Array.from(step.labels.name, (_, label) => partsOf(label).some(([, own]) => perfkitSelection.has(own, key)));

    function factsOf(one) {
      return [
        ...(one.count > 1 ? [["Merged slices", `${one.count.toLocaleString("en")}, named after the longest`]] : []),
        ...(one.lane.values ? [["Value", amount(one.value, one.lane.unit)]] : []),
        ["Duration", duration(one.end - one.start)], ["Starts at", `${duration(Math.max(one.start, 0))} into the step`], ["Lane", one.lane.name],
        [one.lane.kind === "idle" ? "CPU ran" : "Shapes", one.shapes], ["Op", one.op], ["Module", one.module === one.name ? "" : one.module],
        ...(one.lane.kind === "stream" ? meanwhile(one) : []),
      ];
    }
    // The means of counters while a kernel ran.
    function meanwhile(one) {
      const counters = step.tracks.filter((track) => track.below !== timelineData.NONE);
      return counters.flatMap((track) => {
        const sum = sumRange(track, one.start, one.end);
        return sum ? [[track.name, amount(sum.mean, track.unit)]] : [];
      });
    }
    return { partsOf, belonging, factsOf };
  }

  return { of };
})();
