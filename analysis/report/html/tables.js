/* Tables of what was counted, and the facts of the environment. */

const ROWS_MAX = 15;

/** Columns: [heading, value of a row, form of the value (text if none), unit that numbers sort by]. */
function table(id, title, columns, rows) {
  if (!rows.length) return null;
  const body = element("tbody"), heads = [];
  const more = element("button", { class: "more", type: "button", onclick: () => { limit = limit * 20; fill(); } });
  let limit = ROWS_MAX, sorted = rows, order = null;
  function cell([, value, form], row) {
    const found = value(row);
    return element("td", { class: form ? "number" : null }, found === null || found === undefined ? "–" : form ? form(found) : String(found));
  }
  function fill() {
    body.replaceChildren(...sorted.slice(0, limit).map((row) => element("tr", null, columns.map((column) => cell(column, row)))));
    more.hidden = rows.length <= limit;
    more.textContent = `Show more (${countText(rows.length - limit)})`;
  }
  function sort(index) {
    const [, value, form] = columns[index], down = order === null || order.index !== index ? Boolean(form) : !order.down;
    order = { index, down };
    sorted = [...rows].sort((a, b) => {
      const [first, second] = [value(a), value(b)].map((found) => found ?? (form ? -Infinity : ""));
      const compared = form ? Number(first) - Number(second) || 0 : String(first).localeCompare(String(second));
      return down ? -compared : compared;
    });
    for (const [at, head] of heads.entries()) head.setAttribute("aria-sort", at !== index ? "none" : down ? "descending" : "ascending");
    fill();
  }
  heads.push(...columns.map(([name, , form], index) => element("th", { scope: "col", class: form ? "number" : null, "aria-sort": "none" },
    element("button", { type: "button", onclick: () => sort(index) }, name))));
  fill();
  return element("section", { class: "table", id: `table-${id}`, "aria-label": title }, element("h3", null, `${title} (${countText(rows.length)})`),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      element("table", null, element("thead", null, element("tr", null, heads)), body)), more);
}

function field(name) {
  return (row) => row[name];
}

function counts(...names) {
  return names.map((name) => [name.replace(/_/g, " "), field(name), countText]);
}

function ratio(part, whole) {
  return (row) => row[whole] ? row[part] / row[whole] : null;
}

function perTime(name) {
  return (row) => {
    const whole = (row.busy_ns ?? 0) + (row.poll_ns ?? 0) + (row.wait_ns ?? 0);
    return whole ? row[name] / whole : null;
  };
}

function tablesSection() {
  const several = report.trace.processes.length > 1, pid = several ? [["pid", field("pid")]] : [];
  const threads = report.pool.processes.flatMap((process) => process.threads.map((thread) => ({ pid: process.pid, ...thread })));
  const stages = STAGES.filter((stage) => report.latency.stages[stage]).map((stage) => ({ stage, ...report.latency.stages[stage] }));
  const locks = [...report.locks].sort(byDescending((row) => row.wait_ns ?? 0));
  const parts = [
    table("latency", "Latency by stage", [["stage", field("stage")], ["requests", field("count"), countText],
      ...["mean", "p50", "p90", "p99", "p999", "max"].map((name) => [name === "p999" ? "p99.9" : name, field(`${name}_ns`), durationText])], stages),
    table("queues", "Queues", [...pid, ["device", (row) => nameOr(row.device, row.device_id)], ["queue", field("queue_index"), countText],
      ["loop", (row) => row.attached_loop_id ?? row.loop_id, String], ["broken", (row) => row.broken ? "broken" : "no"],
      ...counts("in_flight", "pops", "completions", "kicks", "empty_kicks", "interrupts", "suppressed_interrupts")], report.queues),
    table("locks", "Locks", [...pid, ["lock", field("lock_id"), String], ["class", field("class_name")], ["kind", (row) => row.kind?.replace(/_/g, " ")],
      ...counts("acquisitions", "contentions"), ["contended", ratio("contentions", "acquisitions"), percentText],
      ["waited", field("wait_ns"), durationText], ["held", field("hold_ns"), durationText]], locks),
    table("loops", "Loops", [...pid, ["loop", (row) => nameOr(row.name, row.loop_id)], ["thread", field("thread_id"), String],
      ["busy", perTime("busy_ns"), percentText], ["polls", perTime("poll_ns"), percentText], ["waits", perTime("wait_ns"), percentText],
      ...counts("passes", "dispatches", "idle_dispatches", "notifies", "event_writes"),
      ["polls useful", ratio("polls_useful", "polls"), percentText]], report.loops),
    table("pool", "Coroutine pool by thread", [...pid, ["thread", (row) => nameOr(row.name, row.thread_id)], ["id", field("thread_id"), String],
      ...counts("local_size", "takes", "gives", "misses", "refills", "donations", "overflows")], threads),
    table("vma", "Mappings and global pool", [["process", (row) => row.pid], ...counts("vma_count", "max_map_count", "stack_count", "stack_vma_count",
      "live_count", "mappings_per_1000_stacks", "global_size", "global_max", "global_hard_max")],
    report.vma.processes.map((row, index) => ({ ...row, ...report.pool.processes[index] }))),
  ];
  return element("section", { id: "tables", class: "block", "aria-labelledby": "tables-heading" },
    element("h2", { id: "tables-heading" }, "Tables"), element("p", { class: "faint" }, "Totals count what happened during the recording."), parts);
}

function environment() {
  const { trace } = report, forms = { stack_bytes: bytesText, max_map_count: countText, event_count: countText };
  const skip = new Set(["begin_ns", "end_ns", "baseline_ns", "trace"]);
  const names = [...new Set(trace.processes.flatMap((process) => Object.keys(process)))].filter((name) => !skip.has(name));
  const facts = element("table", { class: "environment" }, element("tbody", null,
    trace.processes.length ? names.map((name) => element("tr", null, element("th", { scope: "row" }, name.replace(/_/g, " ")),
      trace.processes.slice(0, ROWS_MAX).map((process) => {
        const value = process[name];
        return element("td", null, value === null || value === undefined || value === "" ? "–" : forms[name] ? forms[name](value) : String(value));
      }))) : null));
  return element("section", { id: "environment", class: "block", "aria-labelledby": "environment-heading" },
    element("h2", { id: "environment-heading" }, "Environment"),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Facts of each process" }, facts),
    trace.processes.length > ROWS_MAX ? element("p", { class: "faint" }, `${trace.processes.length - ROWS_MAX} more processes`) : null,
    element("p", { class: "faint" }, `Recorded sets: ${trace.recorded_sets.join(", ") || "none"}. Traces: `),
    shortList(trace.paths, (path) => element("li", { class: "path" }, path)));
}
