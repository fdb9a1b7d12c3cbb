/* Latency: a histogram of each stage, and a heat map over time. */

const STAGES = ["queued", "serialising", "backend", "completing", "total"];
const STAGE_TEXT = { queued: "queued, until it goes to the backend", serialising: "waited for an overlapping request",
  backend: "at the backend", completing: "from the backend's answer to the used ring", total: "from the ring to the ring" };

function stagesSeen() {
  return STAGES.filter((stage) => series.latency.stages[stage]);
}

/** Powers of ten between two durations, as [position 0..1, text]. */
function decades(low, high) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.0001; power++)
    ticks.push([(power - Math.log10(low)) / (Math.log10(high) - Math.log10(low)), durationText(10 ** power)]);
  return ticks;
}

/** All stages have the same axis, so that they can be compared. */
function latencyRange() {
  let low = Infinity, high = 0;
  for (const stage of stagesSeen()) {
    const from = numbers(series.latency.stages[stage].from_ns);
    low = Math.min(low, Math.max(from[0], 1));
    high = Math.max(high, from[from.length - 1]);
  }
  return [low, Math.max(high, low * 2)];
}

function histogram(stage, [low, high]) {
  const { from_ns, counts } = series.latency.stages[stage], from = numbers(from_ns), most = largest(counts);
  const width = 300, height = 92, base = 74, scale = width / (Math.log(high) - Math.log(low));
  const at = (ns) => (Math.log(Math.max(ns, low)) - Math.log(low)) * scale;
  const bars = counts.map((count, bucket) => count ? element("rect", {
    class: "bar", x: at(from[bucket]).toFixed(2), width: Math.max(at(from[bucket + 1]) - at(from[bucket]) - 0.4, 0.6).toFixed(2),
    y: (base - Math.max(count / most * (base - 4), 0.8)).toFixed(2), height: Math.max(count / most * (base - 4), 0.8).toFixed(2),
  }, element("title", null, `${durationText(from[bucket])} – ${durationText(from[bucket + 1])}: ${plural(count, "request")}`)) : null);
  const ticks = decades(low, high).map(([share, text]) => element("g", null,
    element("line", { class: "tick", x1: share * width, x2: share * width, y1: 0, y2: base }),
    element("text", { x: share * width + 2, y: height - 7 }, text)));
  const row = report.latency.stages[stage] ?? {};
  const facts = [["p50", row.p50_ns], ["p99", row.p99_ns], ["p99.9", row.p999_ns], ["max", row.max_ns]]
    .map(([name, value]) => element("span", null, element("b", null, name), ` ${durationText(value)}`));
  return element("figure", { class: "histogram" },
    element("figcaption", null, element("span", { class: "title" }, stage), element("span", { class: "note" }, STAGE_TEXT[stage])),
    element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${stage}: ${plural(row.count ?? 0, "request")}, half of them below ${durationText(row.p50_ns)}, at most ${durationText(row.max_ns)}` },
    ticks, bars, element("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base })),
    element("div", { class: "facts" }, facts));
}

/** The duration below which the share of a step's requests lies, from its buckets. */
function quantiles(stage, share) {
  const rows = series.latency.heat[stage], from = numbers(series.latency.stages[stage].from_ns);
  return stepTimes.map((_, step) => {
    const count = rows.reduce((sum, row) => sum + (row?.[step] ?? 0), 0);
    let seen = 0;
    for (let bucket = 0; count && bucket < rows.length; bucket++) {
      seen += rows[bucket]?.[step] ?? 0;
      if (seen >= share * count) return Math.sqrt(Math.max(from[bucket], 1) * from[bucket + 1]);
    }
    return null;
  });
}

function drawHeat(stage) {
  const rows = series.latency.heat[stage], from = numbers(series.latency.stages[stage].from_ns);
  const most = rows.reduce((all, row) => Math.max(all, row ? largest(row) : 0), 1);
  return (plot) => {
    const { left, top, width, height } = plot.bbox, context = plot.ctx;
    const shades = Array.from({ length: 16 }, (_, shade) => faded("heat", 0.1 + 0.9 * shade / 15));
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    for (const [bucket, row] of rows.entries()) {
      if (!row) continue;
      const upper = plot.valToPos(from[bucket + 1], "y", true), lower = plot.valToPos(Math.max(from[bucket], 1), "y", true);
      for (const [step, count] of row.entries()) {
        if (!count || stepTimes[step] > view.end || stepTimes[step] + stepS < view.begin) continue;
        const begin = x(plot, stepTimes[step]), end = x(plot, stepTimes[step] + stepS);
        context.fillStyle = shades[Math.round(15 * Math.log(1 + count) / Math.log(1 + most))];
        context.fillRect(begin, upper, Math.max(end - begin, 1), lower - upper);
      }
    }
    context.restore();
  };
}

function heatMap(stage, range) {
  const line = (label, share, dash) => ({ label, values: quantiles(stage, share), colour: "text", width: 1, dash });
  return timePlot({
    title: `Latency over time: ${stage}`, note: "darker: more requests, on a logarithmic scale", height: 230, unit: durationText, short: durationText,
    scales: { y: { distr: 3, log: 10, range: () => range } }, yAxis: { filter: (plot, ticks) => ticks, splits: () => decades(...range).map(([share]) =>
      Math.round(range[0] * (range[1] / range[0]) ** share)) }, draw: drawHeat(stage),
    lines: [line("p50", 0.5), line("p99", 0.99, [4, 3])],
  });
}

function latencyGroup() {
  const seen = stagesSeen();
  if (!seen.length) return null;
  const range = latencyRange(), place = element("div");
  const choices = seen.map((stage) => element("button", { type: "button", "aria-pressed": "false", onclick: () => choose(stage) }, stage));
  function choose(stage, build = true) {
    const figure = heatMap(stage, range);
    for (const choice of choices) choice.setAttribute("aria-pressed", String(choice.textContent === stage));
    const before = place.querySelector(".plot");
    if (before?.plot) {
      view.plots.splice(view.plots.indexOf(before.plot), 1);
      before.plot.destroy();
    }
    place.replaceChildren(figure);
    if (build) figure.build();
  }
  choose("total", false);
  return element("section", { id: "group-latency", class: "group", "aria-label": "Latency" }, element("h3", null, "Latency"),
    element("div", { class: "choices", role: "group", "aria-label": "Stage that the heat map shows" }, choices), place,
    element("div", { class: "histograms" }, seen.map((stage) => histogram(stage, range))));
}
