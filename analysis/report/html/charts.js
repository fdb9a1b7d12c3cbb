/* Which plots there are: pool and mappings against their limits, loops, locks, queues. */

const LINES_MAX = 8;
const PLOTS_MAX = 6;
const PALETTE = ["line1", "line2", "line3", "line4", "line5", "line6", "line7", "line8"];

function byDescending(weight) {
  return (a, b) => weight(b) - weight(a);
}

/** At most LINES_MAX lines: the heaviest, and the others as one. */
function fewLines(rows, weight, label, values) {
  const sorted = [...rows].sort(byDescending(weight)), shown = sorted.length > LINES_MAX ? LINES_MAX - 1 : LINES_MAX;
  const lines = sorted.slice(0, shown).map((row, index) => ({ label: label(row), values: values(row), colour: PALETTE[index] }));
  const others = sorted.slice(shown);
  if (others.length) lines.push({ label: `${others.length} others`, values: added(others.map(values)), colour: "muted" });
  return lines;
}

/** A heading and plots, the first ones at once and the others on demand. */
function group(id, title, rows, make, all) {
  if (!rows.length) return null;
  const grid = element("div", { class: "plots" }, rows.slice(0, PLOTS_MAX).map(make));
  const hidden = rows.slice(PLOTS_MAX), beyond = (all ?? rows.length) - rows.length;
  const more = hidden.length ? element("button", {
    class: "more", type: "button", onclick: (event) => {
      const figures = hidden.splice(0, 4 * PLOTS_MAX).map(make);
      grid.append(...figures);
      for (const figure of figures) figure.build();
      if (hidden.length) event.target.textContent = `Show more (${countText(hidden.length)})`;
      else event.target.remove();
    },
  }, `Show more (${countText(hidden.length)})`) : null;
  return element("section", { id: `group-${id}`, class: "group", "aria-label": title }, element("h3", null, title), grid, more,
    beyond > 0 ? element("p", { class: "faint" }, `${countText(beyond)} more are in the table only: series are kept of ${countText(series.rows_max)}.`) : null);
}

/** A limit far above what is used would flatten the plot: then it is said in words. */
function against(limit, most) {
  if (!limit || limit >= 4294967295) return { text: "no limit", show: false };
  return { text: `${percentText(most / limit)} of the limit ${countText(limit)} at most`, show: most > limit / 4 };
}

function mappingsPlot(row) {
  const limit = largest(row.max_map_count), used = against(limit, largest(row.vma_count));
  const lines = [
    { label: "mappings", values: numbers(row.vma_count), colour: "line1", fill: true, points: true },
    { label: "stacks", values: numbers(row.stack_count), colour: "line3" },
    { label: "live coroutines", values: numbers(row.live_count), colour: "line2" },
  ];
  if (used.show) lines.push({ label: "vm.max_map_count", values: numbers(row.max_map_count), colour: "error", dash: [6, 4] });
  return timePlot({ title: `Mappings${ofProcess(row)}`, note: used.text, lines, short: shortCount });
}

function poolPlot(row) {
  const limit = largest(row.global_max), used = against(limit, largest(row.global_size));
  const locals = fewLines(row.locals, (local) => largest(local.size), (local) => `local of ${nameOr(local.name, local.thread_id)}`,
    (local) => numbers(local.size)).slice(0, LINES_MAX - 2);
  const lines = [{ label: "global pool", values: numbers(row.global_size), colour: "line1", fill: true },
    ...locals.map((line, index) => ({ ...line, colour: PALETTE[index + 1] }))];
  if (used.show) lines.push({ label: "limit of the global pool", values: numbers(row.global_max), colour: "error", dash: [6, 4] });
  return timePlot({ title: `Pool sizes${ofProcess(row)}`, note: `coroutines · global: ${used.text}`, lines, short: shortCount });
}

function poolRates(row) {
  const kinds = [["takes", "line1"], ["misses", "error"], ["refills", "line3"], ["donations", "line2"], ["overflows", "line4"]];
  return timePlot({
    title: `Pool traffic${ofProcess(row)}`, note: "per second", unit: (value) => `${shortCount(value)}/s`, short: shortCount,
    lines: kinds.filter(([name]) => name === "takes" || sumOf(row[name]) > 0)
      .map(([name, colourName]) => ({ label: name, values: rates(row[name]), colour: colourName })),
  });
}

function loopPlot(row) {
  const whole = added([row.busy_ns, row.poll_ns, row.wait_ns]);
  const share = (values) => values.map((value, step) => value === null || !whole[step] ? null : Number(value) / whole[step]);
  const busy = sumOf(row.busy_ns), all = busy + sumOf(row.poll_ns) + sumOf(row.wait_ns);
  return timePlot({
    title: `${nameOr(row.loop, `loop ${row.loop_id}`)}${ofProcess(row)}`,
    note: all ? `busy ${percentText(busy / all)}, polls ${percentText(sumOf(row.poll_ns) / all)} of its time` : "", stacked: true, max: 1,
    height: 130, unit: percentText, short: (value) => `${Math.round(value * 100)} %`,
    lines: [{ label: "busy", values: share(row.busy_ns), colour: "busy" }, { label: "poll", values: share(row.poll_ns), colour: "poll" },
      { label: "wait", values: share(row.wait_ns), colour: "wait" }],
  });
}

function lockPlot(row) {
  const total = sumOf(row.wait_ns);
  const byHolder = row.holders.length > 0;
  const lines = byHolder
    ? fewLines(row.holders, (holder) => sumOf(holder.wait_ns),
      (holder) => holder.thread_id === null ? "holder not known" : `held by ${nameOr(holder.name, "thread")} (${holder.thread_id})`,
      (holder) => rates(holder.wait_ns))
    : [{ label: "waiting", values: rates(row.wait_ns), colour: PALETTE[0] }];
  return timePlot({
    title: `${nameOr(row.class_name, "lock")} (lock ${row.lock_id})${ofProcess(row)}`,
    note: `time waited per second${byHolder ? ", by who held it" : ""} · ${durationText(total || sumOf(row.holders.map((holder) => sumOf(holder.wait_ns))))} ` +
      `in all, ${countText(sumOf(row.contentions))} of ${countText(sumOf(row.acquisitions))} acquisitions waited`,
    stacked: byHolder, unit: (value) => `${durationText(value)}/s`, short: durationText, lines,
  });
}

/** Queues of one device of one process. */
function devices() {
  const found = new Map();
  for (const row of series.queues) {
    const key = `${row.process} ${row.device_id}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(row);
  }
  return [...found.values()];
}

function deviceName(rows) {
  return `${nameOr(rows[0].device, `device ${rows[0].device_id}`)}${ofProcess(rows[0])}`;
}

function depthPlot(rows) {
  const lines = fewLines(rows, (row) => largest(row.in_flight), (row) => `queue ${row.queue_index}`, (row) => numbers(row.in_flight));
  const depth = added(rows.map((row) => row.depth));
  return timePlot({
    title: `Queue depth · ${deviceName(rows)}`, note: `requests in flight; waiting too: at most ${countText(largest(depth))} in all queues`,
    lines: [...lines, { label: "all queues, with those that wait in the ring", values: depth, colour: "text", dash: [2, 3], points: true }],
    short: shortCount,
  });
}

function throughputPlot(rows) {
  const of = (name) => rates(added(rows.map((row) => row[name])));
  return timePlot({
    title: `Requests · ${deviceName(rows)}`, note: `per second · ${countText(sumOf(rows.map((row) => sumOf(row.completions))))} completed`,
    unit: (value) => `${shortCount(value)}/s`, short: shortCount,
    lines: [{ label: "completions", values: of("completions"), colour: "line1", fill: true }, { label: "kicks", values: of("kicks"), colour: "line2" },
      { label: "interrupts", values: of("interrupts"), colour: "line3" }],
  });
}

function lockWait(row) {
  return Math.max(sumOf(row.wait_ns), ...row.holders.map((holder) => sumOf(holder.wait_ns)), 0);
}

function chartGroups() {
  const perDevice = devices();
  const locks = [...series.locks].sort(byDescending(lockWait));
  const loops = [...series.loops].sort(byDescending((row) => sumOf(row.busy_ns)));
  const both = (rows, ...makes) => rows.flatMap((row) => makes.map((make) => () => make(row)));
  const call = (make) => make();
  return [
    group("queues", "Queues", both(perDevice, depthPlot, throughputPlot), call),
    group("locks", "Lock waits", locks, lockPlot, report.locks.filter((lock) => lock.contentions > 0).length),
    group("loops", "Loops: where the time goes", loops, loopPlot, report.loops.filter((loop) => loop.sampled_ns !== undefined).length),
    group("pool", "Coroutine pool", both(series.pool, poolPlot, poolRates), call),
    group("mappings", "Mappings", series.vma, mappingsPlot),
  ];
}
