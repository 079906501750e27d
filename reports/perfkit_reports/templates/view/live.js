"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const OFTEN = 2000; // ms between two looks at a job that runs
  const SELDOM = 15000; // and at one that has ended: it may be started again in the same folder
  const POINTS = 2000; // of a line; more are merged

  // Each chart: its title, and its series as [field, name, how several windows become one point].
  const CHARTS = [
    { key: "step", title: "Step time", unit: "s", series: [["step_s", "median", "mean"], ["step_max_s", "longest", "max"]] },
    { key: "throughput", title: "Throughput", unit: "rate", series: [["units_per_s", "throughput", "mean"]] },
    { key: "data", title: "Data wait per step", unit: "s", series: [["data_wait_s", "wait", "mean"]] },
    { key: "memory", title: "Memory", unit: "bytes", series: [["allocated_bytes", "allocated", "max"], ["reserved_bytes", "reserved", "max"], ["rss_bytes", "resident", "max"]] },
    { key: "mfu", title: "MFU and utilization", unit: "share", series: [["mfu", "MFU", "mean"], ["utilization", "device busy", "mean"]] },
    { key: "power", title: "Power", unit: "W", series: [["power_w", "power", "mean"]] },
  ];
  // As everywhere in perfkit: Okabe and Ito, each doubled by a dash.
  const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const EVENTS = {
    outlier: { color: "--unsure", symbol: "triangle-down", tone: "unsure" }, drift: { color: "--bad", symbol: "diamond", tone: "bad" },
    trace: { color: "--accent", symbol: "circle", tone: "live" }, end: { color: "--muted", symbol: "square", tone: "" },
  };
  const styleOf = (event) => EVENTS[event.kind] ?? EVENTS.end;
  const MARKED = 200; // events that are marked in the charts

  function element(tag, content = "", attributes = {}) {
    const made = document.createElement(tag);
    made.append(...[content].flat());
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  // A log as read so far: `lines` are windows, with null where the job was started again.
  const empty = () => ({ since: 0, start: null, windows: [], events: [], answer: null });
  const logs = JSON.parse(byId("data").textContent).map((log) => ({ ...log, ...empty() }));
  logs.forEach((log, index) => {
    const box = element("input", "", { type: "checkbox", value: index });
    box.checked = index === 0;
    box.addEventListener("change", () => {
      if (!chosen().length) box.checked = true;
      look();
    });
    byId("logs").append(element("label", [box, element("span", log.label)], { class: "chip" }));
  });
  const chosen = () => [...byId("logs").querySelectorAll("input")].filter((box) => box.checked).map((box) => logs[box.value]);

  async function read(log) {
    let changed = false;
    for (;;) {
      const answer = await fetch(`${log.api}?since=${log.since}`);
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      if (found.from !== log.since) {
        Object.assign(log, empty()); // another log has taken its place
        changed = true;
      }
      for (const line of found.lines) {
        if (line.type === "window") log.windows.push(line);
        else if (line.type === "event") log.events.push(line);
        else {
          log.start = line;
          if (log.windows.length) log.windows.push(null);
        }
      }
      changed ||= found.lines.length > 0 || log.answer === null;
      log.since = found.next;
      log.answer = found;
      if (!found.more) return changed;
    }
  }

  // Points of a series; where there are too many windows, neighbors become one: their mean by steps, or their maximum.
  function points(windows, field, how, axis) {
    const size = Math.ceil(windows.length / POINTS);
    const [x, y] = [[], []];
    for (let first = 0; first < windows.length; first += size) {
      const group = windows.slice(first, first + size);
      const known = group.filter((window) => window && window[field] !== null);
      const end = group.findLast((window) => window);
      if (!end) {
        x.push(null); // a line is not drawn across a new start
        y.push(null);
        continue;
      }
      x.push(axis === "time_s" ? new Date(end.time_s * 1000) : end.last_step);
      if (!known.length) y.push(null);
      else if (how === "max") y.push(Math.max(...known.map((window) => window[field])));
      else y.push(known.reduce((sum, window) => sum + window[field] * window.steps, 0) / known.reduce((sum, window) => sum + window.steps, 0));
      if (group.includes(null) && size > 1) {
        x.push(null);
        y.push(null);
      }
    }
    return [x, y];
  }
  const GIB = 2 ** 30;
  const AXES = {
    s: { tickformat: "~s", ticksuffix: "s" },
    rate: { tickformat: "~s" },
    bytes: { ticksuffix: " GiB" },
    share: { tickformat: ".0%" },
    W: { ticksuffix: " W" },
  };
  const HOVER = { s: "%{y:.3s}s", rate: "%{y:.4s}/s", bytes: "%{y:.3f} GiB", share: "%{y:.1%}", W: "%{y:.0f} W" };

  function traces(chart, shown, axis) {
    const found = [];
    const fields = shown.length > 1 ? chart.series.filter(([field]) => shown.some((log) => log.windows.some((window) => window?.[field] != null))).slice(0, 1) : chart.series;
    shown.forEach((log, which) =>
      fields.forEach(([field, name, how], number) => {
        let [x, y] = points(log.windows, field, how, axis);
        if (y.every((value) => value === null)) return;
        if (chart.unit === "bytes") y = y.map((value) => (value === null ? null : value / GIB));
        const index = shown.length > 1 ? which : number;
        const label = shown.length > 1 ? log.label : name;
        const line = { color: COLORS[index % COLORS.length], dash: DASHES[index % DASHES.length], width: 1.8 };
        found.push({ type: "scatter", mode: y.length < 3 ? "lines+markers" : "lines", x, y, line, name: label, text: label, hovertemplate: `%{text}: ${HOVER[chart.unit]}<extra></extra>` });
      }),
    );
    return found;
  }
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const place = (event, axis) => (axis === "time_s" ? new Date(event.time_s * 1000) : event.step);
  const paint = (event) => plotTheme.color(styleOf(event).color);

  function figure(chart, shown, axis) {
    const data = traces(chart, shown, axis);
    for (const trace of data) trace.text = escaped(trace.text);
    const events = shown.flatMap((log) => log.events).slice(-MARKED);
    const shapes = events.map((event) => ({ type: "line", x0: place(event, axis), x1: place(event, axis), yref: "paper", y0: 0, y1: 1, line: { color: paint(event), width: 1, dash: "dot" } }));
    if (data.length && events.length)
      data.push({
        type: "scatter", mode: "markers", yaxis: "y2", x: events.map((event) => place(event, axis)), y: events.map(() => 1), cliponaxis: false, meta: "events",
        text: events.map((event) => `<b>${escaped(event.kind)}</b><br>${escaped(event.text).slice(0, 160)}`), hovertemplate: "%{text}<extra></extra>",
        marker: { color: events.map(paint), symbol: events.map((event) => styleOf(event).symbol), size: 9 },
      });
    const layout = {
      template: plotTheme.template(), height: 240, margin: { l: 64, r: 16, t: 12, b: 26 }, showlegend: false, hovermode: "x", hoverlabel: { align: "left" }, shapes,
      xaxis: { type: axis === "time_s" ? "date" : "linear", tickformat: axis === "time_s" ? "" : ",d", nticks: axis === "time_s" ? 4 : 6, tickangle: 0 },
      yaxis: { rangemode: "tozero", ...AXES[chart.unit] },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    };
    if (touch) layout.dragmode = false; // a finger scrolls the page
    return [data, layout];
  }
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = { ...plotTheme.config, displayModeBar: false };

  for (const chart of CHARTS) {
    chart.plot = element("div", "", { class: "chart", "data-chart": chart.key, role: "img", "aria-label": chart.title });
    chart.legend = element("ul", "", { class: "legend" });
    chart.why = element("p", "", { class: "caption" });
    chart.box = element("figure", [element("h3", chart.title), chart.legend, chart.plot, chart.why]);
    byId("charts").append(chart.box);
  }
  function draw() {
    const shown = chosen();
    const axis = byId("axis").querySelector(":checked").value;
    for (const chart of CHARTS) {
      const [data, layout] = figure(chart, shown, axis);
      const lines = data.filter((trace) => trace.meta !== "events");
      chart.plot.hidden = !lines.length;
      chart.why.hidden = lines.length > 0;
      chart.why.textContent = lines.length ? "" : `n/a: ${shown[0].answer?.absent[chart.key] ?? "the log has not been read"}`;
      chart.legend.hidden = lines.length < 2;
      chart.legend.replaceChildren(...lines.map((trace) => {
        const sample = element("i", "", { class: "sample", "aria-hidden": "true" });
        sample.style.borderTop = `3px ${{ solid: "solid", dash: "dashed", dot: "dotted", dashdot: "double" }[trace.line.dash]} ${trace.line.color}`;
        return element("li", [sample, trace.name]);
      }));
      if (lines.length) Plotly.react(chart.plot, data, layout, config);
    }
  }

  function tell() {
    const shown = chosen();
    byId("standing").replaceChildren(...shown.map((log) => {
      const { tone, state, text } = log.answer;
      return element("p", [element("span", state, { class: `pill ${tone}` }), ` ${shown.length > 1 ? `${log.label}: ` : ""}${text}`]);
    }));
    const [first] = shown;
    byId("host").textContent = first.start ? `process ${first.start.pid} on ${first.start.hostname}` : "";
    byId("tiles").replaceChildren(...first.answer.tiles.map(({ title, text, detail }) =>
      element("div", [element("span", title), element("b", text, text === "n/a" ? { class: "na" } : {}), element("small", detail)], { class: "card" })));
    const events = shown.flatMap((log) => log.events.map((event) => ({ ...event, who: shown.length > 1 ? `${log.label}: ` : "" }))).sort((a, b) => b.time_s - a.time_s);
    byId("quiet").hidden = events.length > 0;
    byId("events").hidden = !events.length;
    byId("events").querySelector("tbody").replaceChildren(...events.map((event) =>
      element("tr", [
        element("td", new Date(event.time_s * 1000).toLocaleString()),
        element("td", event.step.toLocaleString("en"), { class: "num" }),
        element("td", element("span", event.kind, { class: `pill ${styleOf(event).tone}` })),
        element("td", event.who + event.text, { class: "wrap" }),
      ])));
  }

  // Shown where the page has the token and the job looks for requests.
  const token = sessionStorage.getItem("perfkit-token");
  function offer() {
    const [first] = chosen();
    byId("trace").hidden = !(token && first.answer?.running && first.start?.trace_on.includes("file"));
  }
  byId("trace").addEventListener("click", async () => {
    byId("trace").disabled = true;
    byId("asked").hidden = false;
    try {
      const answer = await fetch(byId("trace").dataset.address, { method: "POST", headers: { "X-Perfkit-Token": token } });
      const refusal = answer.headers.get("Content-Type").includes("json") ? (await answer.json()).error : "the server restarted: open the address it now prints";
      byId("asked").textContent = answer.ok ? "Requested: the next steps will be traced and added to the report." : `Request refused: ${refusal}.`;
    } catch (error) {
      byId("asked").textContent = `Request failed (${error.message}): is perfkit view still running?`;
    }
    byId("trace").disabled = false;
  });

  let waiting = 0;
  let drawn = "";
  async function look() {
    clearTimeout(waiting);
    const shown = chosen();
    try {
      const changed = (await Promise.all(shown.map(read))).some(Boolean);
      tell();
      offer();
      const now = shown.map((log) => log.api).join(" ");
      if (changed || now !== drawn) draw();
      drawn = now;
      byId("trouble").hidden = true;
    } catch (error) {
      byId("trouble").textContent = `The log cannot be read (${error.message}): is perfkit view still running?`;
      byId("trouble").hidden = false;
    }
    clearTimeout(waiting); // another look may have begun meanwhile
    waiting = setTimeout(look, logs.some((log) => log.answer?.running) ? OFTEN : SELDOM);
    document.documentElement.dataset.ready = "true";
  }
  byId("axis").addEventListener("change", draw);
  addEventListener("theme", draw);
  look();
})();
