"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NOTHING = 255, FULL = 254;
  const PALETTES = {
    light: { ink: "#1d1f23", faint: "#666a73", line: "#dcdad3", one: "#1f3a5f", zero: "#f3dfbf", mid: "#f7f5f0", more: "#b2182b", less: "#2166ac", mark: "#1f5fa8", tip: "#ffffff" },
    dark: { ink: "#e9e8e4", faint: "#a1a5ae", line: "#373b44", one: "#a8c7fa", zero: "#3d3527", mid: "#22262d", more: "#ff8a80", less: "#64b5f6", mark: "#8ab4f8", tip: "#2b3038" },
  };
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 760px)");
  const byId = (id) => document.getElementById(id);
  let asked = null; // the reader's own choice of light or dark
  let printing = false;
  let chosen = -1; // the factor whose tile is shown
  let matrices = null;

  const theme = () => (printing ? "light" : asked || (dark.matches ? "dark" : "light"));
  const palette = () => PALETTES[theme()];
  const colourOf = (k) => data.colours[k % data.colours.length];

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function makeMatrices() {
    const [height, width] = data.grid.shape;
    const [seen, chance] = await Promise.all([unpack(data.grid.observed), unpack(data.grid.probability)]);
    const made = { observed: [], probability: [], difference: [] };
    for (let i = 0; i < height; i++) {
      const o = new Array(width), p = new Float32Array(width), d = new Array(width);
      for (let j = 0; j < width; j++) {
        const at = i * width + j;
        p[j] = chance[at] / FULL;
        o[j] = seen[at] === NOTHING ? null : seen[at] / FULL;
        d[j] = o[j] === null ? null : o[j] - p[j];
      }
      made.observed.push(o); made.probability.push(p); made.difference.push(d);
    }
    return made;
  }

  function base(extra) {
    const c = palette();
    const axis = { gridcolor: c.line, zerolinecolor: c.line, linecolor: c.line, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: c.ink, family: "system-ui, sans-serif", size: 12 },
      margin: { l: 50, r: 12, t: 12, b: 40 }, showlegend: false,
      modebar: { bgcolor: "rgba(0,0,0,0)", color: c.faint, activecolor: c.mark },
      hoverlabel: { bgcolor: c.tip, bordercolor: c.line, font: { color: c.ink } },
      ...extra,
      xaxis: { ...axis, ...(extra.xaxis || {}) }, yaxis: { ...axis, ...(extra.yaxis || {}) },
    };
  }
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };

  // ------------------------------------------------------------ the matrix

  const PANELS = [["observed", "observed"], ["reconstructed", "probability"], ["difference", "difference"]];

  // A factor in many pieces is outlined where it is largest: more outlines than this hide the matrix.
  const PIECES = 16;
  const longest = (runs) => (runs.length <= PIECES ? runs : [...runs].sort((a, b) => b[1] - b[0] - a[1] + a[0]).slice(0, PIECES));

  function shapes() {
    const out = [];
    const some = chosen < 0 ? (data.grid.tiles.length <= 8 ? data.grid.tiles.map((_, k) => k) : []) : [chosen];
    for (const k of some) {
      const tile = data.grid.tiles[k];
      for (let panel = 1; panel <= 3; panel++) {
        for (const [top, bottom] of longest(tile.rows)) for (const [left, right] of longest(tile.columns)) {
          out.push({
            type: "rect", xref: panel === 1 ? "x" : `x${panel}`, yref: panel === 1 ? "y" : `y${panel}`,
            x0: left - 0.5, x1: right + 0.5, y0: top - 0.5, y1: bottom + 0.5,
            line: { color: colourOf(k), width: chosen < 0 ? 1.5 : 4 },
          });
        }
      }
    }
    return out;
  }

  function tileLayout() {
    const c = palette(), stacked = narrow.matches, [height, width] = data.grid.shape;
    const layout = base({ margin: { l: 10, r: 10, t: 26, b: 10 }, shapes: shapes(), annotations: [], dragmode: stacked ? false : "zoom" });
    PANELS.forEach(([title], i) => {
      const n = i === 0 ? "" : String(i + 1);
      const span = stacked ? [0, 1] : [i * 0.34, i * 0.34 + 0.32];
      const rise = stacked ? [1 - (i + 1) / 3, 1 - i / 3 - 0.04] : [0, 1];
      const plain = { showgrid: false, zeroline: false, mirror: true, showline: true, linecolor: c.line, type: "category", ticks: "" };
      layout[`xaxis${n}`] = { ...plain, domain: span, anchor: `y${n}`, showticklabels: width <= 24, tickangle: 90, automargin: true };
      layout[`yaxis${n}`] = { ...plain, domain: rise, anchor: `x${n}`, autorange: "reversed", showticklabels: height <= 40 && (i === 0 || stacked), automargin: true };
      if (i > 0) { layout[`xaxis${n}`].matches = "x"; layout[`yaxis${n}`].matches = "y"; }
      layout.annotations.push({ text: `<b>${title}</b>`, x: span[0], y: rise[1], xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 13 } });
    });
    return layout;
  }

  function tileTraces() {
    const c = palette(), what = data.grid.summarised ? "share of ones" : "observed";
    const chance = `${data.chance} = %{customdata:.2f}`;
    return PANELS.map(([, key], i) => ({
      type: "heatmap", z: matrices[key], x: data.grid.columns, y: data.grid.rows, customdata: matrices.probability,
      xaxis: i === 0 ? "x" : `x${i + 1}`, yaxis: i === 0 ? "y" : `y${i + 1}`, showscale: false, hoverongaps: true,
      zmin: key === "difference" ? -1 : 0, zmax: 1,
      colorscale: key === "difference" ? [[0, c.less], [0.5, c.mid], [1, c.more]] : [[0, c.zero], [1, c.one]],
      hovertemplate: `%{y}<br>%{x}<br>${chance}${key === "probability" ? "" : `<br>${key === "difference" ? "difference" : what} %{z:.2~f}`}<extra></extra>`,
    }));
  }

  const decode = (text) => { const area = document.createElement("textarea"); area.innerHTML = text; return area.value; };

  function describe(point) {
    const [i, j] = Array.isArray(point.pointIndex) ? point.pointIndex : [point.pointNumber[0], point.pointNumber[1]];
    const seen = matrices.observed[i][j], chance = matrices.probability[i][j];
    const inside = (runs, at) => runs.some(([a, b]) => a <= at && at <= b);
    const of = data.grid.tiles.map((t, k) => (inside(t.rows, i) && inside(t.columns, j) ? `Factor ${k + 1}` : null)).filter(Boolean);
    const value = seen === null ? "not observed" : `observed ${data.grid.summarised ? seen.toFixed(2) : seen}`;
    byId("detail").textContent =
      `${decode(data.grid.rows[i])} × ${decode(data.grid.columns[j])}: ${value}, ${data.chance} = ${chance.toFixed(2)}` +
      (of.length ? `, in ${of.join(", ")}` : data.grid.tiles.length ? ", in no factor" : "");
  }

  function drawTiles() {
    const place = byId("tiles");
    return Plotly.react(place, tileTraces(), tileLayout(), config).then(() => {
      if (!place.dataset.heard) {
        place.dataset.heard = "yes";
        place.on("plotly_hover", (event) => describe(event.points[0]));
      }
    });
  }

  // ------------------------------------------------------------ the charts

  function chart(id, traces, layout) {
    return byId(id) ? Plotly.react(byId(id), traces, base(layout), config) : null;
  }

  // Long names would leave no room for the bars; pointing at one shows it in full. They are escaped: no entity is cut.
  const brief = (name) => (decode(name).length <= 28 ? name : encode(decode(name).slice(0, 27)) + "…");
  const encode = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Amounts by name, from the top down; those above 0 and below it in colours of their own.
  function amounts(one) {
    const c = palette();
    return {
      type: "bar", orientation: "h", x: one.values, y: one.names.map((_, i) => i), customdata: one.names,
      marker: { color: one.values.map((v) => (v < 0 ? c.less : c.more)) }, hovertemplate: "%{customdata}: %{x:+.2f}<extra></extra>",
      text: one.values.map((v) => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(2)), textposition: "auto",
    };
  }

  function amountLayout(one, title) {
    // Margins are given: with automatic ones, bars and their texts can push each other to and fro.
    const longest = Math.max(...one.names.map((name) => decode(brief(name)).length));
    return {
      margin: { l: 16 + 7 * longest, r: 12, t: 6, b: 40 },
      xaxis: { title: { text: title }, zeroline: true, zerolinecolor: palette().faint, automargin: false },
      yaxis: { autorange: "reversed", tickvals: one.names.map((_, i) => i), ticktext: one.names.map(brief), showgrid: false, automargin: false },
    };
  }

  function drawCharts() {
    const c = palette(), h = data.history || {};
    const line = (y) => ({ type: "scatter", mode: y.length > 60 ? "lines" : "lines+markers", x: y.map((_, i) => i + 1), y, line: { color: c.mark, width: 2 }, marker: { size: 4 } });
    if (h.residual) chart("residual", [line(h.residual)], { xaxis: { title: { text: "iteration" } }, yaxis: { type: "log", title: { text: "residual" }, tickformat: "~g", nticks: 8 } });
    if (h.log_posterior) chart("posterior", [line(h.log_posterior)], { xaxis: { title: { text: "iteration" } }, yaxis: { title: { text: "log-posterior" } } });
    if (h.error) chart("error", [line(h.error)], { xaxis: { title: { text: "round" } }, yaxis: { title: { text: "error" } } });
    if (h.changes) chart("changes", [line(h.changes)], { xaxis: { title: { text: "iteration" } }, yaxis: { title: { text: "changes" }, rangemode: "tozero" } });
    const bars = (data.histograms || []).map((one, i) => ({
      type: "bar", name: one.name, x: one.counts.map((_, b) => (one.edges[b] + one.edges[b + 1]) / 2), y: one.counts,
      width: one.edges[1] - one.edges[0], marker: { color: i === 0 ? c.mark : colourOf(1), opacity: 0.75 },
      hovertemplate: "log-odds %{x:.2f}: %{y}<extra>" + one.name + "</extra>",
    }));
    chart("beliefs", bars, { barmode: "overlay", bargap: 0, showlegend: true, legend: { orientation: "h", y: 1.12 }, xaxis: { title: { text: "log-odds" } }, yaxis: { title: { text: "how many" }, type: "log", dtick: 1 } });
    for (const side of data.offsets || []) chart(`offsets-${side.axis}`, [amounts(side)], amountLayout(side, "offset"));
    (data.reasons || []).forEach((one, i) => chart(`reason-${i}`, [amounts(one)], amountLayout(one, "log-odds")));
    if (data.calibration) {
      const k = data.calibration, largest = Math.max(...k.count);
      chart("calibration", [
        { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: c.faint, dash: "dot" }, hoverinfo: "skip" },
        { type: "scatter", mode: "markers", x: k.predicted, y: k.frequency, customdata: k.count, marker: { color: c.mark, opacity: 0.85, size: k.count.map((n) => 6 + 16 * Math.sqrt(n / largest)) }, hovertemplate: "predicted %{x:.2f}, came true %{y:.2f}<br>%{customdata} entries<extra></extra>" },
      ], { xaxis: { title: { text: "predicted P(observing 1)" }, range: [-0.03, 1.03] }, yaxis: { title: { text: "share of observed ones" }, range: [-0.03, 1.03] } });
    }
    if (data.rank) {
      const r = data.rank;
      const curve = (id, y, title, bars) => chart(id, [{ type: "scatter", mode: "lines+markers", x: r.map((v) => v.rank), y, error_y: bars, line: { color: c.mark }, marker: { size: r.map((v) => (v.best ? 14 : 7)), symbol: r.map((v) => (v.best ? "star" : "circle")) } }],
        { xaxis: { title: { text: "number of factors" }, dtick: r.length <= 20 ? 1 : undefined }, yaxis: { title: { text: title } } });
      curve("rank", r.map((v) => v.score), "score", { type: "data", array: r.map((v) => v.error), visible: r.some((v) => v.error > 0) });
      if (r[0].cost !== undefined) curve("costs", r.map((v) => v.cost), "error");
    }
  }

  function draw() {
    root.dataset.theme = theme();
    const c = palette();
    for (const name of ["one", "zero", "more", "less"]) root.style.setProperty(`--${name}`, c[name]);
    byId("theme").setAttribute("aria-pressed", String(theme() === "dark"));
    byId("theme").textContent = theme() === "dark" ? "Light" : "Dark";
    drawCharts();
    return drawTiles();
  }

  // ------------------------------------------------------------ what the reader does

  const cards = [...document.querySelectorAll(".card")].filter((card) => card.querySelector(".pick"));
  function choose(k) {
    chosen = chosen === k ? -1 : k;
    cards.forEach((card, i) => {
      card.classList.toggle("chosen", i === chosen);
      card.querySelector(".pick").setAttribute("aria-pressed", String(i === chosen));
    });
    Plotly.relayout(byId("tiles"), { shapes: shapes() });
  }
  cards.forEach((card, k) => {
    card.style.setProperty("--factor", colourOf(k));
    card.querySelector(".pick").addEventListener("click", () => choose(k));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen >= 0) choose(chosen);
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at >= 0 && step && cards[at + step]) { cards[at + step].querySelector(".pick").focus(); event.preventDefault(); }
  });
  byId("theme").addEventListener("click", () => { asked = theme() === "dark" ? "light" : "dark"; draw(); });
  dark.addEventListener("change", () => { if (!asked) draw(); });
  narrow.addEventListener("change", () => drawTiles());
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")].filter((d) => d.querySelectorAll("span").length <= 60);
    opened.forEach((d) => { d.open = true; });
    printing = true; draw();
  });
  window.addEventListener("afterprint", () => { opened.forEach((d) => { d.open = false; }); printing = false; draw(); });

  root.dataset.theme = theme();
  makeMatrices().then((made) => { matrices = made; return draw(); }).then(() => { root.dataset.ready = "yes"; });
})();
