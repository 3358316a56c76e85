// Lists of entries, which can be searched, sorted, explained and exported.
const SHOWN = 50; // number of lines of a list that are shown at a time
const COLUMNS = {
  holes: [[data.nouns.row, (e) => e.row], [data.nouns.column, (e) => e.column], ["filled in", (e) => +(e.chance > 0.5)], ["P(1)", (e) => e.chance]],
  doubtful: [[data.nouns.row, (e) => e.row], [data.nouns.column, (e) => e.column], ["observed", (e) => e.observed], ["P(1)", (e) => e.chance], ["doubt", (e) => (e.observed ? 1 - e.chance : e.chance)]],
  missed: [[data.nouns.row, (e) => e.row], [data.nouns.column, (e) => e.column]],
  false: [[data.nouns.row, (e) => e.row], [data.nouns.column, (e) => e.column]],
};
const filters = [];

function filterLists(text) {
  filters.forEach((filter) => filter(text));
  document.querySelector(".list").scrollIntoView();
}

async function startList(packed) {
  const place = byId(`list-${packed.kind}`), columns = COLUMNS[packed.kind];
  const [rows, cols, seen, chances] = await Promise.all([unpack(packed.rows, Int32Array), unpack(packed.columns, Int32Array), unpack(packed.observed), unpack(packed.chances, Float32Array)]);
  const entries = Array.from(rows, (i, n) => ({ i, j: cols[n], row: rowLines.names[i], column: columnLines.names[cols[n]], observed: seen[n], chance: chances[n] }));
  let sorted = null, backwards = false, shown = SHOWN, wanted = "";

  const search = make("input", { type: "search", "aria-label": "Search this list", placeholder: "Search this list", oninput: () => { wanted = search.value.trim().toLowerCase(); shown = SHOWN; fill(); } });
  const status = make("span", { role: "status" });
  const save = make("button", { type: "button", onclick: () => exportCsv(`${packed.kind}.csv`, [columns.map(([name]) => name), ...matching().map((e) => columns.map(([, of]) => cellText(of(e), 6)))]) }, "Export as CSV");
  const heads = columns.map(([name], c) => make("th", { scope: "col" }, make("button", { type: "button", onclick: () => { backwards = sorted === c && !backwards; sorted = c; fill(); } }, name)));
  const body = make("tbody");
  const more = make("button", { type: "button", onclick: () => { shown += 4 * SHOWN; fill(); } }, "Show more");
  place.append(
    make("div", { class: "tools" }, search, save, status),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": `h-${packed.kind}` }, make("table", {}, make("thead", {}, make("tr", {}, ...heads, make("th", { scope: "col" }, "reasons"))), body)),
    more,
  );
  const cellText = (value, digits) => (Number.isInteger(value) || typeof value === "string" ? String(value) : digits ? String(+value.toFixed(digits)) : chanceText(value));

  function matching() {
    const found = wanted ? entries.filter((e) => e.row.toLowerCase().includes(wanted) || e.column.toLowerCase().includes(wanted)) : [...entries];
    if (sorted !== null) {
      const of = columns[sorted][1], compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
      found.sort((a, b) => (backwards ? -1 : 1) * compare(of(a), of(b)));
    }
    return found;
  }

  function line(entry) {
    const why = make("button", { type: "button", "aria-expanded": "false" }, "Why?");
    const row = make("tr", {}, ...columns.map(([, of], c) => make(c ? "td" : "th", { scope: c ? null : "row", class: typeof of(entry) === "string" ? "text" : null }, cellText(of(entry)))), make("td", {}, why));
    why.addEventListener("click", () => {
      const open = why.getAttribute("aria-expanded") === "true";
      why.setAttribute("aria-expanded", String(!open));
      if (open) row.nextSibling.remove();
      else row.after(make("tr", { class: "reasons" }, make("td", { colspan: columns.length + 1 }, reasons(entry.i, entry.j, entry.observed, ["P(observing 1)", entry.chance]))));
    });
    return row;
  }

  function fill() {
    const found = matching();
    heads.forEach((head, c) => head.setAttribute("aria-sort", c !== sorted ? "none" : backwards ? "descending" : "ascending"));
    body.replaceChildren(...found.slice(0, shown).map(line));
    more.hidden = found.length <= shown;
    status.textContent = wanted ? `${whole(found.length)} of ${whole(entries.length)}` : several(entries.length, "entry", "entries");
  }
  filters.push((text) => { search.value = text; search.dispatchEvent(new Event("input")); });
  fill();
}
