"use strict";
// From one slice to another by keys: along its row, across rows, along flows, to the longest idle times. Where there is
// none, nothing.
const timelineWalk = (() => {
  const { above, at, slice, following, NONE } = timelineData;

  // The first one that is seen.
  function first(step, view) {
    const lane = step.lanes.find((each) => each.rows[0]?.end.some((end) => end > view.left)) ?? step.lanes[0];
    const row = lane?.rows[0];
    return row && at(step, lane, row.slices[Math.max(row.end.findIndex((end) => end > view.left), 0)]);
  }
  function beside(step, one, places) {
    const row = one.lane.rows[one.depth];
    const next = row.slices[row.slices.indexOf(one.place) + places];
    return next === undefined ? undefined : at(step, one.lane, next);
  }
  // The row below or above at the same time, into the next lane at the end of one.
  function across(step, one, down) {
    const every = step.drawn.flatMap((lane) => lane.rows.map((row) => ({ lane, row })));
    let place = every.findIndex(({ lane, row }) => lane === one.lane && row === lane.rows[one.depth]) + down;
    while (every[place] && !every[place].row.slices.length) place += down;
    if (!every[place]) return undefined;
    const { lane, row } = every[place];
    return at(step, lane, row.slices[Math.min(above(row.end, one.start), row.slices.length - 1)]);
  }
  const cause = (step, one) => (one.link === NONE ? undefined : slice(step, one.link));
  // What came from a slice: the first of it, as of a launch its kernel.
  function result(step, one) {
    const [next] = following(step, one.number);
    return next === undefined ? undefined : slice(step, next);
  }
  // Idle times of the devices, the longest first.
  function gap(step, one, forward) {
    const gaps = step.lanes.filter((lane) => lane.kind === "idle").flatMap((lane) => Array.from(lane.start, (_, place) => at(step, lane, place)));
    gaps.sort((one, other) => other.end - other.start - (one.end - one.start));
    const now = one ? gaps.findIndex((each) => each.number === one.number) : -1;
    return gaps[(now + forward + gaps.length) % gaps.length];
  }

  return { first, beside, across, cause, result, gap };
})();
