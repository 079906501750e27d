"use strict";
// Pointers on the lanes and the ruler of a timeline: one pans, two zoom; without moving, one chooses. Along the ruler a
// range is zoomed to. With Shift, or in the mode of the button, a range is selected.
const timelinePointers = (() => {
  const CLICK_PX = 6, DRAG_PX = 4;
  const touch = matchMedia("(pointer: coarse)").matches;

  function listen(canvas, axis, { ready, lanesWidth, time, isSelecting, select, go, pan, zoom, hover, choose }) {
    const down = new Map();
    let moved = 0, drag = null;
    const place = (event) => [event.offsetX, event.offsetY];
    const zoomTo = (ends) => go(...ends);

    function press(event, target) {
      if (event.button || !ready()) return;
      target.setPointerCapture(event.pointerId);
      down.set(event.pointerId, place(event));
      moved = 0;
      const act = isSelecting(event) ? select : target === axis ? zoomTo : null;
      drag = down.size === 1 && act ? { act, from: time(event.offsetX), x: event.offsetX } : null;
      hover(null);
    }
    function move(event, target) {
      if (!down.has(event.pointerId)) return target === canvas && hover(event);
      const before = [...down.values()];
      const [x, y] = down.get(event.pointerId);
      down.set(event.pointerId, place(event));
      moved += Math.abs(event.offsetX - x) + Math.abs(event.offsetY - y);
      if (drag?.act === select) return select([drag.from, time(event.offsetX)]);
      if (drag || (moved < DRAG_PX && !touch)) return;
      const after = [...down.values()];
      if (after.length === 1) return pan(-(event.offsetX - x) / lanesWidth());
      const [[a], [b]] = before, [[c], [d]] = after;
      zoom(Math.max(Math.abs(a - b), 8) / Math.max(Math.abs(c - d), 8), time((c + d) / 2));
    }
    function release(event, target) {
      if (!down.delete(event.pointerId)) return;
      if (event.type === "pointerup") {
        if (drag && Math.abs(event.offsetX - drag.x) > DRAG_PX) drag.act([drag.from, time(event.offsetX)].sort((one, other) => one - other));
        else if (drag?.act === select) select(null);
        else if (moved < CLICK_PX && !down.size && target === canvas) choose(event);
      }
      drag = null;
    }
    for (const target of [canvas, axis]) {
      target.addEventListener("pointerdown", (event) => press(event, target));
      target.addEventListener("pointermove", (event) => move(event, target));
      for (const name of ["pointerup", "pointercancel"]) target.addEventListener(name, (event) => release(event, target));
    }
  }

  return { listen };
})();
