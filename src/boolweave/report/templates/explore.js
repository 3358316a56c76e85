// The slider of a page that is shown by a server: another number of factors is fitted and then shown.
const token = new URLSearchParams(location.search).get("token");
const ask = (path, more = {}) => fetch(`${path}?${new URLSearchParams({ token, ...more.query })}`, { method: more.method || "GET", cache: "no-store" }).then(async (answer) => {
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
});

function startExploring() {
  const slider = byId("n-factors"), output = byId("n-chosen"), status = byId("status"), bar = byId("fitting");
  const showStatus = (text) => { status.textContent = text; };

  async function follow() {
    const state = await ask("/status");
    if (state.state === "fitting") {
      bar.hidden = false;
      bar.value = Math.min(1, state.seconds / state.limit);
      showStatus(`Searching for the best ${state.n} factors: ${state.seconds.toFixed(0)} of at most ${state.limit.toFixed(0)} seconds.`);
      setTimeout(() => follow().catch(failed), 300);
    } else if (state.state === "failed") { bar.hidden = true; showStatus(state.message); }
    else {
      try { sessionStorage.setItem("boolweave slider", "yes"); } catch { /* the slider is not focused then */ }
      location.reload();
    }
  }
  const failed = (error) => { bar.hidden = true; showStatus(error instanceof TypeError ? "The server does not answer, because it was stopped. Start boolweave explore again." : error.message); };

  const refit = () => {
    if (+slider.value === data.exploring.n) return;
    showStatus(`Searching for the best ${slider.value} factors.`);
    ask("/fit", { method: "POST", query: { n: slider.value } }).then(follow).catch(failed);
  };
  slider.addEventListener("input", () => { output.textContent = slider.value; });
  let waiting = 0; // arrow keys change the number step by step
  slider.addEventListener("change", () => { clearTimeout(waiting); waiting = setTimeout(refit, 400); });
  try {
    if (sessionStorage.getItem("boolweave slider")) { sessionStorage.removeItem("boolweave slider"); slider.focus(); }
  } catch { /* as above */ }
}
