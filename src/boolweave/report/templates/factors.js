// Cards of factors, which can be selected, renamed and exported.
const cards = [...document.querySelectorAll(".card")];

function select(k) {
  if (chosen.has(k)) chosen.delete(k); else chosen.add(k);
  showSelection();
}

function selectNone() {
  chosen.clear();
  showSelection();
}

function showSelection() {
  cards.forEach((card, k) => {
    const on = chosen.has(k), button = card.querySelector(".pick");
    card.classList.toggle("chosen", on);
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Selected" : "Select";
  });
  byId("clear-selection").disabled = !chosen.size;
  const exported = chosen.size ? `${whole(chosen.size)} selected` : "all will be exported";
  byId("selected").textContent = exported + (document.querySelector(".card em") && !knowsAll ? ", only with the members in the cards" : "");
  drawMatrix();
}

// Members of a factor: all of them if the page has all rows and columns, otherwise those in its card.
const knowsAll = !data.grid.labels && !data.grid.sampled && rowLines.factors;
function membersOf(k) {
  if (knowsAll) return [["row", rowLines], ["column", columnLines]].flatMap(([axis, lines]) => lines.names.filter((_, at) => lines.factors[at].includes(k)).map((name) => [axis, name]));
  return [...cards[k].querySelectorAll(".members")].flatMap((list) => [...list.querySelectorAll(".names span")].map((name) => [list.dataset.axis, name.textContent]));
}

function exportFactors() {
  const which = chosen.size ? [...chosen].sort((a, b) => a - b) : cards.map((_, k) => k);
  exportCsv(`${data.group}s.csv`, [[data.group, "name", "axis", "label"], ...which.flatMap((k) => membersOf(k).map(([axis, name]) => [k + 1, nameOf(k), axis, name]))]);
}

// Show the name of a factor on its card and wherever else the page names it.
function showName(k) {
  cards[k].querySelector(".name").value = nameOf(k);
  for (const element of document.querySelectorAll(`[data-factor="${k}"]`)) element.textContent = nameOf(k);
}

function startFactors() {
  cards.forEach((card, k) => {
    const input = card.querySelector(".name"), button = card.querySelector(".pick");
    card.style.setProperty("--factor", colourOf(k));
    showName(k);
    input.addEventListener("change", () => { rename(k, input.value); showName(k); });
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") input.blur(); });
    button.addEventListener("click", () => select(k));
  });
  if (!cards.length) return;
  showSelection();
  byId("export-factors").addEventListener("click", exportFactors);
  byId("clear-selection").addEventListener("click", selectNone);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") selectNone();
    const at = cards.findIndex((card) => card.querySelector(".pick") === document.activeElement);
    const next = cards[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] || 0)];
    if (at >= 0 && next && next !== cards[at]) { next.querySelector(".pick").focus(); event.preventDefault(); }
  });
}
