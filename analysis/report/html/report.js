/* The report that the page shows. Times are nanoseconds since the epoch, more than a double holds: exact where possible, as are
 * ids. All else is a number, however large, since BigInts do not mix with those. */

const EXACT = /^(begin|end|time)_ns$|_id$/;
const report = JSON.parse(document.getElementById("report").textContent, (key, value, context) =>
  typeof value === "number" && context?.source && EXACT.test(key) && Number.isInteger(value) && !Number.isSafeInteger(value)
    ? BigInt(context.source) : value);
const beginNs = BigInt(report.trace.begin_ns ?? 0);
/** Of the whole recording. */
const lengthS = report.trace.end_ns === null ? 0 : secondsOf(report.trace.end_ns);

/** Seconds since the begin of the recording. */
function secondsOf(timeNs) {
  return Number(BigInt(timeNs) - beginNs) / 1e9;
}

function offsetText(seconds) {
  return `${seconds < 0 ? "−" : "+"}${Math.abs(seconds).toFixed(6)} s`;
}

function clockText(timeNs) {
  const date = new Date(Number(BigInt(timeNs) / 1000000n));
  const rest = String(BigInt(timeNs) / 1000n % 1000n).padStart(3, "0");
  return Number.isNaN(date.getTime()) ? "?" : `${date.toISOString().replace("T", " ").slice(0, -1)}${rest} UTC`;
}

/** Findings with their number (from 1) and times in seconds. */
const findings = report.findings.map((finding, index) => ({
  ...finding, number: index + 1, begin: secondsOf(finding.begin_ns), end: secondsOf(finding.end_ns),
}));

function severityCount(severity) {
  return findings.filter((finding) => finding.severity === severity).length;
}

const series = report.series ?? { begin_ns: null, step_ns: 1, steps: 0, pool: [], vma: [], loops: [], locks: [], queues: [],
  latency: { stages: {}, heat: {} } };
const stepS = Number(series.step_ns) / 1e9;
const stepTimes = Array.from({ length: series.steps }, (_, step) => secondsOf(series.begin_ns) + step * stepS);

function numbers(values) {
  return values.map((value) => value === null ? null : Number(value));
}

/** What a total grew by, per second. The first and the last step of a known stretch are known in part: as their neighbours. */
function rates(values) {
  const known = numbers(values).map((value) => value === null ? null : value / stepS);
  return known.map((value, step) => {
    if (value === null) return null;
    if (known[step - 1] === undefined || known[step - 1] === null) return known[step + 1] ?? value;
    if (known[step + 1] === undefined || known[step + 1] === null) return known[step - 1] ?? value;
    return value;
  });
}

function sumOf(values) {
  return values.reduce((sum, value) => sum + Number(value ?? 0), 0);
}

function largest(values) {
  return values.reduce((most, value) => value === null ? most : Math.max(most, Number(value)), 0);
}

/** Columns added up step by step; null where all are. */
function added(columns) {
  return stepTimes.map((_, step) => columns.reduce((sum, column) =>
    column[step] === null || column[step] === undefined ? sum : (sum ?? 0) + Number(column[step]), null));
}

function nameOr(name, otherwise) {
  return name === null || name === undefined || name === "" ? otherwise : name;
}

/** Several processes: each row says whose it is. */
function ofProcess(row) {
  return report.trace.processes.length > 1 ? ` · ${row.process}` : "";
}
