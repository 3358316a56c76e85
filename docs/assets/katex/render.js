// Renders the formulas that pymdownx.arithmatex marks, once the page is there.
document.addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll(".arithmatex")) {
    const displayed = place.tagName === "DIV";
    const text = place.textContent.trim();
    katex.render(text.slice(2, -2), place, { displayMode: displayed, throwOnError: true });
  }
});
