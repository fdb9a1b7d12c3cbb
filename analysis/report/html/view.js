/* What all plots have in common: the stretch of time that is shown, the moment that is pointed out, the chosen finding. */

const view = {
  begin: 0,
  end: Math.max(lengthS, 1e-6),
  moment: null,   // seconds, or null
  chosen: null,   // a finding, or null
  plots: [],      // uPlot, all with time as x
};

function announce(text) {
  document.getElementById("announce").textContent = text;
}

function redrawPlots() {
  for (const plot of view.plots) plot.redraw(true);
}

/** Show from @begin to @end in all plots. */
function setZoom(begin, end) {
  const full = Math.max(lengthS, 1e-6), width = Math.max(end - begin, 1e-6);
  const from = Math.max(0, Math.min(begin, full)), to = Math.min(full, from + width);
  if (!(to > from) || (from === view.begin && to === view.end)) return;
  view.begin = from;
  view.end = to;
  for (const plot of view.plots) plot.setScale("x", { min: from, max: to });
  showZoom();
}

function resetZoom() {
  setZoom(0, Math.max(lengthS, 1e-6));
}

function isZoomed() {
  return view.begin > 0 || view.end < Math.max(lengthS, 1e-6);
}

function showZoom() {
  const state = document.getElementById("zoom-state"), reset = document.getElementById("zoom-reset");
  if (!state) return;
  state.textContent = isZoomed()
    ? `${view.begin.toFixed(3)} – ${view.end.toFixed(3)} s of ${lengthS.toFixed(3)} s` : `0 – ${lengthS.toFixed(3)} s`;
  reset.disabled = !isZoomed();
}

/** Point a moment out in all plots; it comes into view if it is not. */
function setMoment(seconds) {
  view.moment = seconds;
  if (seconds !== null && (seconds < view.begin || seconds > view.end)) {
    const width = view.end - view.begin;
    setZoom(seconds - width / 2, seconds + width / 2);
  }
  redrawPlots();
  const state = document.getElementById("moment-state");
  if (state) state.textContent = seconds === null ? "" : `marked: ${offsetText(seconds)}`;
}

/** From an event's provider to the plots that show it. */
const GROUP_OF = { rt_pool: "pool", rt_process: "mappings", rt_coroutine: "pool", rt_loop: "loops", rt_lock: "locks",
  vblk_queue: "queues", vblk_dataplane: "queues", vhost_user: "queues", vblk_request: "latency" };

function goToMoment(seconds, event) {
  setMoment(seconds);
  const group = document.getElementById(`group-${GROUP_OF[event.split(":")[0]]}`) ?? document.getElementById("plots");
  group?.scrollIntoView({ behavior: motion(), block: "start" });
  announce(`Marked ${offsetText(seconds)} in the plots.`);
}

function chooseFinding(finding) {
  view.chosen = finding;
  for (const card of document.querySelectorAll(".finding")) card.classList.toggle("chosen", card.id === `finding-${finding?.number}`);
  redrawPlots();
}

function goToFinding(finding) {
  showFinding(finding.number);
  chooseFinding(finding);
  const card = document.getElementById(`finding-${finding.number}`);
  card.querySelector("details")?.setAttribute("open", "");
  card.scrollIntoView({ behavior: motion(), block: "start" });
  card.focus({ preventScroll: true });
  announce(`Finding ${finding.number}: ${finding.severity} ${finding.id}.`);
}

function motion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
}

/** Keys of a plot that has the focus, or of the whole page for 0. */
function onPlotKey(event) {
  const width = view.end - view.begin, at = view.moment ?? view.begin + width / 2;
  const step = Math.max(width / 100, 1e-6);
  const keys = {
    ArrowLeft: () => setMoment(Math.max(0, at - step)),
    ArrowRight: () => setMoment(Math.min(lengthS, at + step)),
    "+": () => setZoom(at - width / 4, at + width / 4),
    "=": () => setZoom(at - width / 4, at + width / 4),
    "-": () => setZoom(at - width, at + width),
    0: resetZoom,
    Escape: () => setMoment(null),
  };
  if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
}
