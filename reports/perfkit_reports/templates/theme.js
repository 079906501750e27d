"use strict";
const plotTheme = (() => {
  // The page's own colors, as the browser resolves them, for plotly.
  const probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const known = new Map();
  function color(name) {
    const key = `${root.dataset.theme} ${dark.matches} ${name}`;
    if (!known.has(key)) {
      probe.style.color = `var(${name})`;
      known.set(key, getComputedStyle(probe).color);
    }
    return known.get(key);
  }
  // Paper is light; what is drawn anew for it comes after this.
  let theme = null;
  addEventListener("beforeprint", () => {
    theme ??= root.dataset.theme ?? "";
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else if (theme === "") delete root.dataset.theme;
    theme = null;
  });
  function template() {
    const [ink, muted, line, panel] = ["--ink", "--muted", "--line", "--panel"].map(color);
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, title: { font: { size: 13 }, standoff: 10 }, ticklabelstandoff: 4 };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: muted },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        xaxis: axis,
        yaxis: axis,
        legend: { font: { color: ink, size: 12.5 } },
        annotationdefaults: { font: { color: ink } },
        hoverlabel: { bgcolor: panel, bordercolor: line, font: { color: ink, size: 13, family: getComputedStyle(document.body).fontFamily } },
      },
    };
  }
  // Only these buttons: plotly's own choice has one that uploads the chart to a server of its maker's.
  const config = {
    responsive: true,
    displaylogo: false,
    doubleClick: "reset",
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  return { color, template, config };
})();
