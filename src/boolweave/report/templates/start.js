// Light and dark theme, printing, and the start of the page.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let asked = null; // the reader's own choice of light or dark
let printing = false;

function setTheme() {
  const theme = printing ? "light" : asked || (dark.matches ? "dark" : "light");
  root.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (matrix.observed) { paint(); drawMatrix(); }
}

byId("theme").addEventListener("click", () => { asked = root.dataset.theme === "dark" ? "light" : "dark"; setTheme(); });
dark.addEventListener("change", setTheme);
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")].filter((d) => d.querySelectorAll("span").length <= 60);
  opened.forEach((d) => { d.open = true; });
  printing = true;
  setTheme();
  if (matrix.observed) panels.forEach(drawPanel);
});
window.addEventListener("afterprint", () => { opened.forEach((d) => { d.open = false; }); printing = false; setTheme(); });

setTheme();
drawCharts();
startFactors();
if (data.exploring) startExploring();
Promise.all([startMatrix(), ...data.lists.map(startList)]).then(() => { setTheme(); drawMatrix(); requestAnimationFrame(() => { root.dataset.ready = "yes"; }); });
