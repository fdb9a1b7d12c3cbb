/* A plot over time: uPlot with our colours, legend, flags of findings, the marked moment, and time shared by all. */

const MARKS_MAX = 200;
const SYNC = uPlot.sync("time");

/** A colour of the style sheet, as it is now. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function faded(name, alpha) {
  const value = parseInt(colour(name).slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

function x(plot, seconds) {
  return plot.valToPos(seconds, "x", true);
}

/** A stretch of time as a rectangle on the canvas, cut to the plot; at least a hair wide. Null: out of view. */
function stretch(plot, begin, end) {
  const { left, width } = plot.bbox, right = left + width;
  const from = Math.max(left, Math.min(x(plot, begin), right)), to = Math.max(left, Math.min(x(plot, end), right));
  return end < view.begin || begin > view.end ? null : { from, width: Math.max(to - from, devicePixelRatio) };
}

function verticalLine(plot, seconds, stroke, dash, width = 1) {
  const { left, top, width: wide, height } = plot.bbox, at = Math.round(x(plot, seconds)) + 0.5;
  if (at < left || at > left + wide) return;
  const context = plot.ctx;
  context.save();
  context.beginPath();
  context.strokeStyle = stroke;
  context.lineWidth = width * devicePixelRatio;
  context.setLineDash(dash.map((length) => length * devicePixelRatio));
  context.moveTo(at, top);
  context.lineTo(at, top + height);
  context.stroke();
  context.restore();
}

/** Behind the data: where events were lost, how long the chosen finding lasted. */
function drawBehind(plot) {
  const { top, height } = plot.bbox, context = plot.ctx;
  context.save();
  for (const lost of report.trace.lost_intervals.slice(0, MARKS_MAX)) {
    const at = stretch(plot, secondsOf(lost.begin_ns), secondsOf(lost.end_ns));
    if (!at) continue;
    context.fillStyle = faded("muted", 0.18);
    context.fillRect(at.from, top, at.width, height);
  }
  const at = view.chosen && stretch(plot, view.chosen.begin, view.chosen.end);
  if (at) {
    context.fillStyle = faded(view.chosen.severity, 0.12);
    context.fillRect(at.from, top, at.width, height);
  }
  context.restore();
}

function drawInFront(plot) {
  for (const finding of findings.slice(0, MARKS_MAX))
    verticalLine(plot, finding.begin, faded(finding.severity, finding === view.chosen ? 1 : 0.55), [3, 3]);
  if (view.moment !== null) verticalLine(plot, view.moment, colour("moment"), [], 1.5);
  placeMarks(plot);
}

/** Flags above the plot, those that would overlap joined into one. */
function placeMarks(plot) {
  const flags = [];
  let most = 0;
  for (const finding of findings.slice(0, MARKS_MAX).sort((a, b) => a.begin - b.begin)) {
    const at = plot.valToPos(finding.begin, "x");
    if (finding.begin < view.begin || finding.begin > view.end) continue;
    const flag = flags[flags.length - 1];
    if (flag && at - flag.at < 22) flag.findings.push(finding);
    else flags.push({ at, findings: [finding] });
  }
  const overflow = findings.length > MARKS_MAX ? `; ${findings.length - MARKS_MAX} more findings have no mark` : "";
  plot.marks.replaceChildren(...flags.map(({ at, findings: joined }) => {
    const worst = ["error", "warning", "info"].find((severity) => joined.some((finding) => finding.severity === severity));
    const first = joined.find((finding) => finding.severity === worst) ?? joined[0];
    const names = joined.slice(0, 8).map((finding) => `${finding.number} ${finding.id}`).join(", ") +
      (joined.length > 8 ? `, ${joined.length - 8} more` : "");
    most = Math.max(most, at);
    const flag = element("button", {
      class: `mark ${worst}`, type: "button", tabindex: plot.isOverview ? null : "-1",
      title: `${names}${overflow}`, "aria-label": `Finding ${names}, at ${offsetText(first.begin)}: go to its evidence`,
      onclick: () => goToFinding(first),
    }, joined.length === 1 ? String(first.number) : `${first.number}+`);
    flag.style.left = `${at}px`;
    return flag;
  }));
}

/**
 * What: { title, note, unit (value => text), short (axis), lines: [ { label, values, colour, fill, dash, width, gaps } ],
 *         stacked, max, height, draw and drawOver (plot), scales, yAxis }
 */
function timePlot(what) {
  const lines = what.lines ?? [], times = what.times ?? stepTimes;
  const heard = lines.map(() => element("span", { class: "value" }));
  const legend = element("div", { class: "legend" }, lines.map((line, index) =>
    element("span", { class: "key" }, swatch(line), line.label, heard[index])));
  const canvas = element("div", { class: "canvas" });
  const figure = element("figure", {
    class: "plot", tabindex: "0", role: "group", "aria-label": `${what.title}. ${what.note ?? ""} Arrows move the mark, + and - zoom, 0 shows all.`,
    onkeydown: onPlotKey,
  }, element("figcaption", null, element("span", { class: "title" }, what.title), what.note ? element("span", { class: "note" }, what.note) : null),
  what.controls ?? null, canvas, lines.length ? legend : null);
  figure.build = () => buildPlot(figure, canvas, what, lines, times, heard);
  return figure;
}

function swatch(line) {
  const mark = element("span", { class: `swatch${line.dash ? " dashed" : ""}` });
  mark.style.setProperty("--swatch", `var(--${line.colour})`);
  return mark;
}

function stack(lines) {
  const upper = [];
  let below = stepTimes.map(() => 0);
  for (const line of lines) {
    below = line.values.map((value, step) => (below[step] ?? 0) + (value ?? 0));
    upper.push(below.map((value, step) => lines.every((other) => other.values[step] === null) ? null : value));
  }
  return upper;
}

function buildPlot(figure, canvas, what, lines, times, heard) {
  const unit = what.unit ?? countText, short = what.short ?? unit;
  const shown = what.stacked ? stack(lines) : lines.map((line) => line.values);
  /* Stacked areas are drawn from the highest down, each over the one that reaches further. */
  const order = lines.map((_, index) => what.stacked ? lines.length - 1 - index : index);
  const axis = { stroke: () => colour("muted"), font: "11px system-ui, sans-serif", grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("grid"), width: 1, size: 4 } };
  const options = {
    width: Math.max(canvas.clientWidth, 200), height: what.height ?? 170, padding: [18, 12, 0, what.isOverview ? 14 : 4],
    legend: { show: false },
    cursor: {
      y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false },
      /* The pointer is shared; what it does goes through the view. */
      sync: { key: SYNC.key, setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      bind: { dblclick: () => () => { resetZoom(); return null; } },
    },
    scales: { x: { time: false, range: () => [view.begin, view.end] },
      y: { range: (plot, low, high) => [0, what.max ?? (high > 0 ? high * 1.08 : 1)] }, ...what.scales },
    axes: [
      { ...axis, size: 28, gap: 3, values: (plot, ticks) => ticks.map((tick) => `${trim6(tick)} s`) },
      { ...axis, size: 58, gap: 4, values: (plot, ticks) => ticks.map((tick) => tick === null ? "" : short(tick)), ...what.yAxis },
    ],
    series: [{}, ...order.map((index) => ({
      label: lines[index].label, spanGaps: lines[index].gaps !== true && !what.stacked,
      stroke: () => colour(lines[index].colour), width: lines[index].width ?? (what.stacked ? 0.5 : 1.5), dash: lines[index].dash,
      fill: what.stacked ? () => faded(lines[index].colour, 0.85) : lines[index].fill ? () => faded(lines[index].colour, 0.14) : undefined,
      points: { show: lines[index].points ?? false, size: 4 },
    }))],
    hooks: {
      drawClear: [drawBehind, ...(what.draw ? [what.draw] : [])],
      draw: [...(what.drawOver ? [what.drawOver] : []), drawInFront],
      setCursor: [(plot) => {
        for (const [index, line] of lines.entries()) {
          const value = plot.cursor.idx === null || plot.cursor.idx === undefined ? null : nearest(line.values, plot.cursor.idx);
          heard[index].textContent = value === null ? "" : unit(value);
        }
      }],
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        if (width <= 3) return;
        plot.wasDragged = true;
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        setZoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
      }],
    },
  };
  const plot = new uPlot(options, [times, ...order.map((index) => shown[index])], canvas);
  plot.isOverview = what.isOverview === true;
  plot.marks = element("div", { class: "marks" });
  plot.over.append(plot.marks);
  plot.over.addEventListener("click", (event) => {
    if (!plot.wasDragged && !event.target.closest(".mark")) setMoment(plot.posToVal(event.offsetX, "x"));
    plot.wasDragged = false;
  });
  figure.plot = plot;
  view.plots.push(plot);
  return plot;
}

function trim6(value) {
  return String(Number(value.toPrecision(6)));
}

/** A gauge holds until its next value. */
function nearest(values, step) {
  for (let at = step; at >= 0; at--)
    if (values[at] !== null && values[at] !== undefined) return values[at];
  return null;
}

/** (Re)makes the plots of all figures on the page: after they came to be, and for paper. */
function buildPlots(figures) {
  for (const plot of view.plots) plot.destroy();
  view.plots = [];
  for (const figure of figures) figure.build();
}

function fitPlots() {
  for (const figure of document.querySelectorAll(".plot")) {
    const width = figure.querySelector(".canvas").clientWidth;
    if (figure.plot && width > 0 && Math.abs(width - figure.plot.width) > 1) figure.plot.setSize({ width, height: figure.plot.height });
  }
}
