// Code that all parts of the page use: the data, elements, names, files.
const data = JSON.parse(document.getElementById("data").textContent);
const NOTHING = 255, FULL = 254;
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const colourOf = (k) => data.colours[k % data.colours.length];
const [rowLines, columnLines] = data.lines;

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "title", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

async function unpack(text, Kind = Uint8Array) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Kind(await new Response(stream).arrayBuffer());
}

// ---------------------------------------------------------------- numbers and words

const whole = (n) => n.toLocaleString("en-US");
const chanceText = (p) => (p > 0 && p < 0.005 ? "< 0.01" : p < 1 && p > 0.995 ? "> 0.99" : p.toFixed(2));
const predictionText = (name, p) => (data.kind === "cover" ? (p > 0.5 ? "covered" : "not covered") : `${name} ${chanceText(p).replace(/^(?=\d)/, "= ")}`);
const several = (n, word, plural = `${word}s`) => `${whole(n)} ${n === 1 ? word : plural}`;
const some = (names, n) => names.join(", ") + (n > names.length ? ` and ${whole(n - names.length)} more` : "");

// ---------------------------------------------------------------- names of factors, which the reader may change

const givenNames = [...document.querySelectorAll(".card .name")].map((input) => input.value);
const factorNames = [...givenNames];
const key = `boolweave ${document.title} ${data.grid.shape} ${givenNames.length}`;
try {
  const kept = JSON.parse(localStorage.getItem(key) || "{}");
  for (const [k, name] of Object.entries(kept)) if (k in factorNames) factorNames[k] = String(name);
} catch { /* a browser may store nothing for a file */ }
const nameOf = (k) => factorNames[k] || givenNames[k];

function rename(k, name) {
  factorNames[k] = name.trim() || givenNames[k];
  try {
    const changed = Object.fromEntries(factorNames.map((own, i) => [i, own]).filter(([i, own]) => own !== givenNames[i]));
    localStorage.setItem(key, JSON.stringify(changed));
  } catch { /* as above */ }
}

// ---------------------------------------------------------------- files

function exportCsv(name, lines) {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));
  const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  const link = make("a", { href: URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
