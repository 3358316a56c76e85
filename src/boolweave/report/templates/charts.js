// Small charts as SVG. Colours come from the style sheet, so that light and dark need no new drawing.
const CHART_HEIGHT = 260, BAR = 20;

function niceTicks(low, high, most) {
  const span = high - low || Math.abs(high) || 1, rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) ticks.push(at * step);
  return ticks;
}

const tickText = (v) => (v !== 0 && (Math.abs(v) >= 1e6 || Math.abs(v) < 1e-3) ? v.toExponential(0).replace("e+", "e") : whole(+v.toPrecision(6)));

function logTicks(low, high) {
  const ticks = [];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), step = Math.max(1, Math.round((last - first) / 5));
  for (let p = first; p <= last; p += step) if (10 ** p >= low * 0.99 && 10 ** p <= high * 1.01) ticks.push(10 ** p);
  return ticks.length >= 2 ? ticks : [low, high];
}

// Draw a frame with axes, and return the positions of values on them.
function frame(place, label, axes) {
  const width = Math.max(200, place.clientWidth), height = CHART_HEIGHT;
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const { x, y } = axes;
  const yTicks = y.log ? logTicks(y.low, y.high) : niceTicks(y.low, y.high, 5);
  const left = 20 + 7 * Math.max(...yTicks.map((v) => tickText(v).length)) + 14, right = width - 12, top = 10, bottom = height - 40;
  const along = (axis, from, to) => (v) => {
    const f = axis.log ? Math.log(v / axis.low) / Math.log(axis.high / axis.low || 2) : (v - axis.low) / (axis.high - axis.low || 1);
    return from + f * (to - from);
  };
  const at = { x: along(x, left, right), y: along(y, bottom, top), svg, left, right, top, bottom };
  for (const v of yTicks) {
    svg.append(make("line", { class: "grid", x1: left, x2: right, y1: at.y(v), y2: at.y(v) }));
    svg.append(make("text", { x: left - 6, y: at.y(v) + 4, "text-anchor": "end" }, tickText(v)));
  }
  const xTicks = niceTicks(x.low, x.high, Math.min(8, Math.floor((right - left) / 60))).filter((v) => !x.whole || Number.isInteger(v));
  for (const v of xTicks) svg.append(make("text", { x: at.x(v), y: bottom + 16, "text-anchor": "middle" }, tickText(v)));
  svg.append(make("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  svg.append(make("text", { class: "title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, x.title));
  svg.append(make("text", { class: "title", x: 0, y: 0, transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.title));
  return at;
}

const range = (values) => {
  const low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * 0.05;
  return { low: low - room, high: high + room };
};

// Draw a line through points; some may be marked, and have bars for their standard errors.
function lineChart(place, { x, y, marked = [], bars = [], xTitle, yTitle, log = false, fromZero = false }) {
  const shown = range([...y, ...y.map((v, i) => v + (bars[i] || 0)), ...y.map((v, i) => v - (bars[i] || 0))]);
  if (fromZero) shown.low = 0;
  const positive = y.filter((v) => v > 0);
  if (log && !positive.length) log = false;
  if (log) Object.assign(shown, { low: Math.min(...positive), high: Math.max(...positive) * 1.2 });
  const label = `${yTitle} by ${xTitle}, from ${tickText(y[0])} to ${tickText(y.at(-1))}`;
  const pad = x.length > 1 ? 0 : 1;
  const at = frame(place, label, { x: { low: x[0] - pad, high: x.at(-1) + pad, title: xTitle, whole: true }, y: { ...shown, log, title: yTitle } });
  const height = (v) => at.y(log ? Math.max(v, shown.low) : v);
  at.svg.append(make("path", { class: "line", d: x.map((v, i) => `${i ? "L" : "M"}${at.x(v).toFixed(1)} ${height(y[i]).toFixed(1)}`).join("") }));
  if (x.length <= 60) x.forEach((v, i) => {
    if (bars[i]) at.svg.append(make("line", { class: "error", x1: at.x(v), x2: at.x(v), y1: at.y(y[i] - bars[i]), y2: at.y(y[i] + bars[i]) }));
    const point = make("circle", { class: marked[i] ? "point marked" : "point", cx: at.x(v), cy: height(y[i]), r: marked[i] ? 7 : 3.5 });
    point.append(make("title", {}, `${xTitle} ${tickText(v)}: ${tickText(y[i])}${marked[i] ? ", chosen" : ""}`));
    at.svg.append(point);
  });
  return at.svg;
}

function histogram(place, one) {
  const high = Math.max(1, ...one.counts);
  const at = frame(place, `Histogram of the log-odds of ${one.name}`, {
    x: { low: one.edges[0], high: one.edges.at(-1), title: "log-odds" }, y: { low: 0.7, high: high * 1.2, log: true, title: "count" },
  });
  one.counts.forEach((n, b) => {
    if (!n) return;
    const left = at.x(one.edges[b]), top = at.y(n);
    const bar = make("rect", { class: "bar", x: left, y: top, width: Math.max(1, at.x(one.edges[b + 1]) - left - 0.5), height: at.bottom - top });
    bar.append(make("title", {}, `${one.edges[b].toFixed(1)} to ${one.edges[b + 1].toFixed(1)}: ${whole(n)}`));
    at.svg.append(bar);
  });
  return at.svg;
}

function calibrationChart(place, found) {
  const axis = { low: -0.03, high: 1.03 }, largest = Math.max(...found.count);
  const at = frame(place, "Fraction of observed ones by predicted probability", { x: { ...axis, title: "predicted P(observing 1)" }, y: { ...axis, title: "fraction of observed ones" } });
  at.svg.append(make("line", { class: "even", x1: at.x(0), y1: at.y(0), x2: at.x(1), y2: at.y(1) }));
  found.predicted.forEach((p, i) => {
    const point = make("circle", { class: "point", cx: at.x(p), cy: at.y(found.frequency[i]), r: 3 + 8 * Math.sqrt(found.count[i] / largest) });
    point.append(make("title", {}, `predicted ${p.toFixed(2)}, came true ${found.frequency[i].toFixed(2)}, ${several(found.count[i], "entry", "entries")}`));
    at.svg.append(point);
  });
  return at.svg;
}

// Draw bars with names, from top to bottom; positive and negative values have different colours.
function amountChart(place, { names, values }, label) {
  const width = Math.max(200, place.clientWidth), height = BAR * names.length + 6;
  const room = Math.min(0.45 * width, 10 + 7 * Math.max(...names.map((name) => name.length)));
  const fits = Math.max(4, Math.floor((room - 10) / 7));
  const brief = (name) => (name.length <= fits ? name : name.slice(0, fits - 1) + "…");
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${names.map((name, i) => `${name} ${values[i].toFixed(2)}`).join(", ")}` });
  const low = Math.min(0, ...values), high = Math.max(0, ...values), text = 54;
  const from = room + (low < 0 ? text : 4), to = width - text, at = (v) => from + ((v - low) / (high - low || 1)) * (to - from);
  values.forEach((v, i) => {
    const y = 3 + i * BAR, left = Math.min(at(0), at(v)), line = make("g", {}, make("title", {}, `${names[i]}: ${v.toFixed(2)}`));
    line.append(make("text", { x: room - 6, y: y + 14, "text-anchor": "end" }, brief(names[i])));
    line.append(make("rect", { class: v < 0 ? "below" : "above", x: left, y: y + 2, width: Math.max(1, Math.abs(at(v) - at(0))), height: BAR - 5 }));
    line.append(make("text", { x: v < 0 ? left - 4 : at(v) + 4, y: y + 14, "text-anchor": v < 0 ? "end" : "start" }, (v < 0 ? "−" : "+") + Math.abs(v).toFixed(2)));
    svg.append(line);
  });
  svg.append(make("line", { class: "axis", x1: at(0), x2: at(0), y1: 0, y2: height }));
  return svg;
}

// A chart is drawn when it becomes visible, and again when its width changes.
const drawn = new ResizeObserver((changes) => {
  for (const { target } of changes) if (target.clientWidth && target.clientWidth !== target.drawnWidth) {
    target.drawnWidth = target.clientWidth;
    target.replaceChildren(target.drawChart(target));
  }
});

function chart(place, draw) {
  if (!place) return;
  place.drawChart = draw;
  drawn.observe(place);
}

function drawCharts() {
  const counted = (y) => y.map((_, i) => i + 1), history = data.history || {};
  const over = (id, y, xTitle, yTitle, more = {}) => y && y.length && chart(byId(id), (place) => lineChart(place, { x: counted(y), y, xTitle, yTitle, ...more }));
  over("residual", history.residual, "iteration", "residual", { log: true });
  over("posterior", history.log_posterior, "iteration", "log-posterior");
  over("error", history.error, "round", "error");
  over("changes", history.changes, "iteration", "changes", { fromZero: true });
  over("coverage", data.coverage, "number of roles", "fraction of ones", { fromZero: true });
  for (const one of data.histograms || []) chart(byId(`beliefs-${one.name}`), (place) => histogram(place, one));
  for (const one of data.offsets || []) chart(byId(`offsets-${one.axis}`), (place) => amountChart(place, one, `Offsets of ${one.axis}s`));
  if (data.calibration) chart(byId("calibration"), (place) => calibrationChart(place, data.calibration));
  const ranks = (id, points, y, yTitle, more) => chart(byId(id), (place) => lineChart(place, {
    x: points.map((p) => p.rank), y, marked: points.map((p) => p.best), xTitle: "number of factors", yTitle, ...more,
  }));
  if (data.rank) {
    ranks("rank", data.rank, data.rank.map((p) => p.score), "score", { bars: data.rank.map((p) => p.error) });
    if (data.rank[0].cost !== undefined) ranks("costs", data.rank, data.rank.map((p) => p.cost), "error", { fromZero: true });
  }
  const tried = data.exploring && data.exploring.tried;
  if (tried && tried.length > 1) ranks("tried-here", tried, tried.map((p) => p.wrong), "wrong entries", { fromZero: true });
}
