"use strict";
const plotTheme = (() => {
  // The page's own colours, as the browser resolves them, for plotly.
  const probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
  function colour(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }
  function template() {
    const [ink, muted, line, panel] = ["--ink", "--muted", "--line", "--panel"].map(colour);
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
        hoverlabel: { bgcolor: panel, bordercolor: line, font: { color: ink, size: 13 } },
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
  return { colour, template, config };
})();
