/* Puts the page together; theme and paper. */

function badge(kind, count) {
  return count ? element("span", { class: `badge ${kind}` }, plural(count, kind === "info" ? "note" : kind)) : null;
}

function header() {
  const { trace } = report, processes = trace.processes.slice(0, 3).map((process) =>
    `${process.name ?? "process"}${process.pid === null ? "" : ` (${process.pid})`}${process.version ? ` ${process.version}` : ""}`);
  if (trace.processes.length > 3) processes.push(`${trace.processes.length - 3} more`);
  const facts = [processes.join(", "), [...new Set(trace.processes.map((process) => process.host).filter(Boolean))].join(", "),
    trace.begin_ns === null ? null : clockText(trace.begin_ns), trace.begin_ns === null ? null : durationText(lengthS * 1e9),
    plural(trace.event_count, "event")].filter(Boolean);
  return element("header", { class: `verdict ${verdictKind()}` },
    element("div", { class: "tools" },
      element("button", { type: "button", id: "theme", onclick: switchTheme }, "Dark / light"),
      element("button", { type: "button", onclick: () => window.print() }, "Print")),
    element("h1", { id: "verdict" }, verdictText()),
    element("p", { class: "badges" }, badge("error", severityCount("error")), badge("warning", severityCount("warning")), badge("info", severityCount("info")),
      report.suppressed?.length ? element("a", { class: "badge unsure", href: "#known" }, `known: ${report.suppressed.length}`) : null,
      report.inconclusive.length ? element("a", { class: "badge unsure", href: "#not-judged" }, `cannot tell: ${report.inconclusive.length}`) : null,
      report.skipped.length ? element("a", { class: "badge unsure", href: "#not-judged" }, `not checked: ${report.skipped.length}`) : null,
      trace.lost_intervals.length || trace.cut_streams.length ? element("a", { class: "badge warning", href: "#not-judged" }, "events were lost") : null),
    element("p", { class: "facts" }, facts.map((fact) => element("span", null, fact))));
}

/** Stays in sight: where the findings lie, what is shown, the way back to all of it. */
function overview() {
  const lanes = Math.min(Math.max(findings.length, 1), 4);
  return element("div", { class: "overview" },
    timePlot({
      title: "Findings over time", isOverview: true, height: 66 + 7 * lanes, times: [0, Math.max(lengthS, 1e-6)], lines: [],
      yAxis: { show: false }, drawOver: (plot) => {
        const { top, height } = plot.bbox, context = plot.ctx;
        for (const [index, finding] of findings.slice(0, MARKS_MAX).entries()) {
          const at = stretch(plot, finding.begin, finding.end);
          if (!at) continue;
          context.fillStyle = faded(finding.severity, 0.75);
          context.fillRect(at.from, top + (index % lanes + 0.2) * height / lanes, Math.max(at.width, 3 * devicePixelRatio), height / lanes * 0.6);
        }
      },
    }),
    element("div", { class: "state" }, element("span", { id: "zoom-state" }),
      element("button", { type: "button", id: "zoom-reset", onclick: resetZoom }, "Show all"), element("span", { id: "moment-state" })));
}

function plotsSection() {
  const groups = [latencyGroup(), ...chartGroups()];
  const empty = groups.every((one) => one === null);
  return element("section", { id: "plots", "aria-labelledby": "plots-heading" }, element("h2", { id: "plots-heading" }, "Over time"),
    empty ? element("p", { class: "faint" }, "Nothing was recorded that could be drawn over time.") : [
      element("p", { class: "hint" }, "Drag to zoom, double-click to see all, click to mark a moment. Flags are findings: they lead to the evidence, " +
        "and its times lead back here."), overview(), groups]);
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redrawPlots();
}

/* Paper is light and narrower than most windows. */
let themeOnScreen;

function beforePrint() {
  themeOnScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  document.documentElement.classList.add("paper");
  for (const details of document.querySelectorAll(".finding details")) details.setAttribute("open", "");
  buildPlots(document.querySelectorAll(".plot"));
}

function afterPrint() {
  document.documentElement.classList.remove("paper");
  if (themeOnScreen === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = themeOnScreen;
  buildPlots(document.querySelectorAll(".plot"));
}

function links() {
  const targets = [["findings", "Findings"], ["plots", "Over time"], ["tables", "Tables"], ["environment", "Environment"], ["known", "Known"], ["not-judged", "Not judged"], ["text", "Text"]];
  return element("nav", { "aria-label": "Parts of the report" }, targets.filter(([id]) => document.getElementById(id))
    .map(([id, text]) => element("a", { href: `#${id}` }, text)));
}

function start() {
  const page = document.getElementById("page");
  document.title = `${verdictText()} – vblkscope`;
  document.querySelector("#text details").removeAttribute("open");
  page.append(...[header(), findings.length ? findingsSection() : null, plotsSection(), tablesSection(), environment(), knownFindings(), notJudged()].filter(Boolean));
  page.querySelector("header").after(links());
  buildPlots(document.querySelectorAll(".plot"));
  showZoom();
  new ResizeObserver(fitPlots).observe(page);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawPlots);
  window.addEventListener("beforeprint", beforePrint);
  window.addEventListener("afterprint", afterPrint);
  document.documentElement.dataset.ready = "";
}

start();
