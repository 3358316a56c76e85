// The matrix in three panels (observed, reconstructed, difference) that show the same part of it.
const PANELS = ["observed", data.kind === "completion" ? "predicted" : "reconstructed", "difference"];
const LABEL = 11; // height of a line in pixels below which its name is not written
const PIECES = 16; // a factor in more pieces is outlined where it is largest
const [HEIGHT, WIDTH] = data.grid.shape;
const matrix = { observed: null, probability: null };
const chosen = new Set(); // factors that are selected
const view = { top: 0, left: 0, bottom: HEIGHT, right: WIDTH };
let cursor = null; // the entry at the keyboard cursor, [i, j]
let marked = null; // a row or column that was looked for: { isRow, at }
let band = null; // the area over which the pointer is dragged, in entries

const rowName = (i) => (data.grid.labels ? data.grid.labels[0][i] : rowLines.names[i]);
const columnName = (j) => (data.grid.labels ? data.grid.labels[1][j] : columnLines.names[j]);
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
const rgb = (name) => { const n = parseInt(colour(name).slice(1), 16); return [n >> 16, (n >> 8) & 255, n & 255]; };
// A mixture of two colours as one number, as the pixels of a canvas hold it.
const mix = (a, b, f) => { const [r, g, blue] = a.map((v, c) => Math.round(v + (b[c] - v) * f)); return ((255 << 24) | (blue << 16) | (g << 8) | r) >>> 0; };

const panels = PANELS.map((title, p) => {
  const canvas = make("canvas", { tabindex: p ? null : 0, role: "img", "aria-label": p ? title : `The matrix, ${title}, ${HEIGHT} × ${WIDTH}`, "aria-describedby": p ? null : "matrix-help" });
  return { canvas, image: make("canvas"), figure: make("figure", { class: "panel" }, make("figcaption", {}, title), canvas), area: null };
});
if (HEIGHT && WIDTH) byId("tiles").append(...panels.map((panel) => panel.figure));

// ---------------------------------------------------------------- colours

function paint() {
  const one = rgb("one"), zero = rgb("zero"), none = mix(rgb("card"), rgb("card"), 0), more = rgb("more"), less = rgb("less"), mid = rgb("mid");
  const scale = Uint32Array.from({ length: 255 }, (_, v) => mix(zero, one, v / FULL));
  const gap = Uint32Array.from({ length: 509 }, (_, v) => mix(mid, v > FULL ? more : less, Math.abs(v - FULL) / FULL)); // by observed minus reconstructed, + FULL
  panels.forEach(({ image }, p) => {
    Object.assign(image, { width: WIDTH, height: HEIGHT });
    const pixels = new ImageData(WIDTH, HEIGHT), cells = new Uint32Array(pixels.data.buffer);
    for (let at = 0; at < cells.length; at++) {
      const seen = matrix.observed[at], chance = matrix.probability[at];
      cells[at] = p === 1 ? scale[chance] : seen === NOTHING ? none : p === 0 ? scale[seen] : gap[seen - chance + FULL];
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
  });
}

// ---------------------------------------------------------------- drawing

const stacked = window.matchMedia("(max-width: 760px)");
const longest = (runs) => (runs.length <= PIECES ? runs : [...runs].sort((a, b) => b[1] - b[0] - a[1] + a[0]).slice(0, PIECES));

// The space for the names of rows, left of the first panel, and of columns, below all panels, and the width of the
// entries, which is the same in all panels. The names of rows leave the columns enough space for theirs, if possible.
function arrange() {
  const rows = view.bottom - view.top, columns = view.right - view.left, height = panels[0].canvas.clientHeight;
  const width = stacked.matches ? panels[0].canvas.clientWidth : panels.reduce((sum, { canvas }) => sum + canvas.clientWidth, 0) / panels.length;
  const letters = (name, from, to) => Math.max(...Array.from({ length: Math.max(1, Math.ceil(to) - Math.floor(from)) }, (_, i) => name(clamp(Math.floor(from) + i, 0, Infinity))?.length || 0));
  let left = 0, below = 0;
  const named = width / columns >= LABEL, most = named ? clamp(width - LABEL * columns, 0.25 * width, 0.4 * width) : 0.4 * width;
  if (height / rows >= LABEL) left = Math.min(most, 12 + 6.8 * letters(rowName, view.top, Math.min(view.bottom, HEIGHT)));
  if (named) below = Math.min(0.35 * height, 12 + 6.8 * letters(columnName, view.left, Math.min(view.right, WIDTH)));
  const inside = width - left / (stacked.matches ? 1 : panels.length);
  byId("tiles").style.gridTemplateColumns = stacked.matches ? "" : panels.map((_, p) => `${p ? inside : inside + left}fr`).join(" ");
  return { left, width: inside, height: height - below };
}

// Entries that are smaller than a pixel are averaged. If they are so in one direction only, the image is first
// shrunk in that direction, since averaging would blur the borders of entries in the other one.
function drawEntries(context, image, area, ratio) {
  const part = [view.left, view.top, view.right - view.left, view.bottom - view.top];
  const wide = area.width * ratio < part[2], high = area.height * ratio < part[3];
  if (wide !== high) {
    const size = wide ? [Math.ceil(area.width * ratio), HEIGHT] : [WIDTH, Math.ceil(area.height * ratio)];
    const shrunk = make("canvas", { width: size[0], height: size[1] });
    shrunk.getContext("2d").drawImage(image, ...(wide ? [part[0], 0, part[2], HEIGHT] : [0, part[1], WIDTH, part[3]]), 0, 0, ...size);
    [image, part[wide ? 0 : 1], part[wide ? 2 : 3]] = [shrunk, 0, size[wide ? 0 : 1]];
  }
  context.imageSmoothingEnabled = wide && high;
  context.drawImage(image, ...part, area.left, area.top, area.width, area.height);
}

function drawPanel(panel, p, space) {
  const { canvas, image } = panel, ratio = window.devicePixelRatio || 1;
  if (!canvas.clientWidth) return;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const left = p && !stacked.matches ? 0 : space.left, context = canvas.getContext("2d");
  const area = { left, top: 0, width: Math.min(space.width, canvas.clientWidth - left), height: space.height };
  panel.area = area;
  context.scale(ratio, ratio);
  const x = (j) => area.left + ((j - view.left) / (view.right - view.left)) * area.width;
  const y = (i) => area.top + ((i - view.top) / (view.bottom - view.top)) * area.height;
  drawEntries(context, image, area, ratio);
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  const box = (left, top, right, bottom) => context.strokeRect(x(left), y(top), x(right) - x(left), y(bottom) - y(top));
  const shown = chosen.size ? [...chosen] : data.grid.tiles.length <= 8 ? data.grid.tiles.map((_, k) => k) : [];
  for (const k of shown) {
    const tile = data.grid.tiles[k];
    if (!tile) continue;
    context.strokeStyle = colourOf(k);
    context.lineWidth = chosen.size ? 4 : 1.5;
    for (const [top, bottom] of longest(tile.rows)) for (const [left, right] of longest(tile.columns)) box(left, top, right + 1, bottom + 1);
  }
  context.strokeStyle = colour("focus");
  context.lineWidth = 2;
  if (marked) marked.isRow ? box(-1, marked.at, WIDTH + 1, marked.at + 1) : box(marked.at, -1, marked.at + 1, HEIGHT + 1);
  if (cursor) { context.lineWidth = 3; box(cursor[1], cursor[0], cursor[1] + 1, cursor[0] + 1); }
  if (band) { context.setLineDash([5, 4]); box(band[1], band[0], band[3], band[2]); }
  context.restore();
  writeNames(context, canvas, area, x, y);
}

function writeNames(context, canvas, area, x, y) {
  context.fillStyle = colour("ink");
  const write = (size) => { context.font = `${size}px system-ui, sans-serif`; };
  write(Math.min(LABEL, y(1) - y(0)));
  const fits = (text, room) => { let own = text; while (own.length > 1 && context.measureText(own).width > room) own = own.slice(0, -2) + "…"; return own; };
  if (area.left) for (let i = Math.floor(view.top); i < Math.min(view.bottom, HEIGHT); i++) {
    context.textAlign = "right";
    context.fillText(fits(rowName(i), area.left - 6), area.left - 5, (y(i) + y(i + 1)) / 2 + 3.5);
  }
  const room = canvas.clientHeight - area.height, size = Math.min(LABEL, x(1) - x(0));
  write(size);
  if (room > 1) for (let j = Math.floor(view.left); j < Math.min(view.right, WIDTH); j++) {
    context.save();
    context.translate((x(j) + x(j + 1)) / 2 + 0.36 * size, area.height + 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "right";
    context.fillText(fits(columnName(j), room - 6), 0, 0);
    context.restore();
  }
}

let waiting = 0;
function drawMatrix() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => { 
    if (!matrix.observed || !panels[0].canvas.clientWidth) return;
    const space = arrange();
    panels.forEach((panel, p) => drawPanel(panel, p, space));
  });
}

// ---------------------------------------------------------------- which part is shown

function show(top, left, bottom, right) {
  const height = clamp(bottom - top, Math.min(3, HEIGHT), HEIGHT), width = clamp(right - left, Math.min(3, WIDTH), WIDTH);
  view.top = clamp((top + bottom - height) / 2, 0, HEIGHT - height);
  view.left = clamp((left + right - width) / 2, 0, WIDTH - width);
  view.bottom = view.top + height;
  view.right = view.left + width;
  drawMatrix();
}
const showAll = () => show(0, 0, HEIGHT, WIDTH);

function zoom(factor) {
  const [i, j] = cursor ? [cursor[0] + 0.5, cursor[1] + 0.5] : [(view.top + view.bottom) / 2, (view.left + view.right) / 2];
  const height = (view.bottom - view.top) * factor, width = (view.right - view.left) * factor;
  show(i - height / 2, j - width / 2, i + height / 2, j + width / 2);
}

function bringIntoView([i, j]) {
  const height = view.bottom - view.top, width = view.right - view.left;
  const top = clamp(view.top, i + 1 - height, i), left = clamp(view.left, j + 1 - width, j);
  show(top, left, top + height, left + width);
}

// ---------------------------------------------------------------- single entries

const factorsAt = (i, j) => {
  const inside = (runs, at) => runs.some(([a, b]) => a <= at && at <= b);
  return data.grid.tiles.flatMap((tile, k) => (inside(tile.rows, i) && inside(tile.columns, j) ? [k] : []));
};

function entryText(i, j) {
  const at = i * WIDTH + j, seen = matrix.observed[at], chance = matrix.probability[at] / FULL;
  const value = seen === NOTHING ? "not observed" : data.grid.summarized ? `${Math.round((100 * seen) / FULL)}% ones` : `observed ${seen === FULL ? 1 : 0}`;
  const factors = factorsAt(i, j);
  const where = factors.length ? `, in ${factors.map(nameOf).join(", ")}` : data.grid.tiles.length ? `, in no ${data.group}` : "";
  return `${rowName(i)} × ${columnName(j)}: ${value}, ${predictionText(data.chance, chance)}${where}`;
}

function explainEntry(i, j) {
  cursor = [i, j];
  const at = i * WIDTH + j, seen = matrix.observed[at];
  if (data.grid.labels) byId("detail").textContent = entryText(i, j);
  else byId("detail").replaceChildren(reasons(i, j, seen === NOTHING ? NOTHING : seen === FULL ? 1 : 0, [data.chance, matrix.probability[at] / FULL]));
  drawMatrix();
}

function entryAt(panel, event) {
  const box = panel.canvas.getBoundingClientRect(), { area } = panel;
  if (!area) return null;
  const across = (event.clientX - box.left - area.left) / area.width, down = (event.clientY - box.top - area.top) / area.height;
  if (across < 0 || across >= 1 || down < 0 || down >= 1) return null;
  return [view.top + down * (view.bottom - view.top), view.left + across * (view.right - view.left)];
}

function watchPointer(panel) {
  const { canvas } = panel, tip = byId("tip");
  let start = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    start = event.pointerType === "mouse" && event.button === 0 ? entryAt(panel, event) : null;
    moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = entryAt(panel, event);
    tip.hidden = !at || event.pointerType !== "mouse";
    if (!at) return;
    tip.textContent = entryText(Math.floor(at[0]), Math.floor(at[1]));
    tip.style.left = `${clamp(event.clientX + 14, 4, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight < window.innerHeight ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10}px`;
    if (start && event.buttons & 1) {
      const box = canvas.getBoundingClientRect();
      const pixels = [Math.abs(at[0] - start[0]) / (view.bottom - view.top) * box.height, Math.abs(at[1] - start[1]) / (view.right - view.left) * box.width];
      moved = moved || Math.max(...pixels) > 6;
      band = moved ? [Math.min(start[0], at[0]), Math.min(start[1], at[1]), Math.max(start[0], at[0]), Math.max(start[1], at[1])] : null;
      if (band) drawMatrix();
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointerup", () => {
    start = null;
    if (!band) return;
    const part = band;
    band = null;
    show(...part);
  });
  canvas.addEventListener("click", (event) => {
    const at = entryAt(panel, event);
    if (at && !moved) explainEntry(Math.floor(at[0]), Math.floor(at[1]));
  });
  canvas.addEventListener("dblclick", showAll);
}

function watchKeys(canvas) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = steps[event.key];
    if (step) {
      cursor = cursor ? [clamp(cursor[0] + step[0], 0, HEIGHT - 1), clamp(cursor[1] + step[1], 0, WIDTH - 1)] : [Math.floor(view.top), Math.floor(view.left)];
      byId("detail").textContent = entryText(...cursor);
      bringIntoView(cursor);
    } else if (event.key === "Enter" && cursor) explainEntry(...cursor);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0") showAll();
    else return;
    event.preventDefault();
  });
}

// ---------------------------------------------------------------- rows and columns by name

function findLines(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  for (const [lines, isRow] of [[rowLines, true], [columnLines, false]]) lines.names.forEach((name, at) => {
    const place = name.toLowerCase().indexOf(wanted);
    if (place >= 0) found.push({ lines, isRow, at, name, place: name.length === wanted.length ? -1 : place });
  });
  return found.sort((a, b) => a.place - b.place).slice(0, 8);
}

function lineText({ lines, isRow, at, name }) {
  const parts = [];
  if (lines.factors) parts.push(lines.factors[at].length ? `belongs to ${lines.factors[at].map(nameOf).join(", ")}` : `belongs to no ${data.group}`);
  if (lines.offsets) parts.push(`has the offset ${lines.offsets[at].toFixed(2)}`);
  if (!data.grid.labels && at < (isRow ? HEIGHT : WIDTH)) {
    let seen = 0, ones = 0, wrong = 0;
    for (let other = 0; other < (isRow ? WIDTH : HEIGHT); other++) {
      const place = isRow ? at * WIDTH + other : other * WIDTH + at, value = matrix.observed[place];
      if (value === NOTHING) continue;
      seen++;
      ones += value === FULL;
      wrong += (value === FULL) !== matrix.probability[place] > FULL / 2;
    }
    parts.push(`has ${whole(ones)} ones in ${whole(seen)} observed entries${data.grid.sampled ? " that are drawn" : ""}, of which ${whole(wrong)} differ from the ${data.kind === "completion" ? "prediction of the model" : `reconstruction by the ${data.group}s`}`);
  }
  return `${isRow ? "Row" : "Column"} ${name} ${parts.join("; it ")}.`;
}

function mark(line) {
  marked = !data.grid.labels && line.at < (line.isRow ? HEIGHT : WIDTH) ? { isRow: line.isRow, at: line.at } : null;
  if (marked) bringIntoView(line.isRow ? [line.at, Math.floor(view.left)] : [Math.floor(view.top), line.at]);
  const button = make("button", { type: "button", onclick: () => filterLists(line.name) }, "Show its entries in the lists");
  byId("detail").replaceChildren(make("p", {}, lineText(line)), ...(data.lists.length ? [button] : []));
  drawMatrix();
}

function watchSearch() {
  const input = byId("find"), matches = byId("matches");
  const offer = () => matches.replaceChildren(...findLines(input.value).map((line) => make("li", {}, make("button", { type: "button", onclick: () => mark(line) }, line.name, make("small", {}, ` ${line.isRow ? data.nouns.row : data.nouns.column}`)))));
  input.addEventListener("input", () => {
    offer();
    if (!input.value) { marked = null; drawMatrix(); }
    else if (!matches.children.length) matches.replaceChildren(make("li", {}, data.grid.labels || data.grid.sampled ? `This page knows no such ${data.nouns.row} or ${data.nouns.column}: the table is large, and only those in its lists have names here.` : `There is no such ${data.nouns.row} or ${data.nouns.column}.`));
  });
  input.addEventListener("keydown", (event) => {
    const [first] = findLines(input.value);
    if (event.key === "Enter" && first) mark(first);
  });
}

async function startMatrix() {
  [matrix.observed, matrix.probability] = await Promise.all([unpack(data.grid.observed), unpack(data.grid.probability)]);
  panels.forEach(watchPointer);
  watchKeys(panels[0].canvas);
  watchSearch();
  byId("closer").addEventListener("click", () => zoom(0.5));
  byId("wider").addEventListener("click", () => zoom(2));
  byId("whole").addEventListener("click", showAll);
  const sized = new ResizeObserver(drawMatrix);
  panels.forEach((panel) => {
    panel.canvas.style.height = `min(${clamp(HEIGHT * 22 + 90, 180, 560)}px, 80vh)`;
    sized.observe(panel.canvas);
  });
}
