/* Findings as cards, and what could not be judged. */

const FINDINGS_MAX = 20;

function verdictText() {
  return document.getElementById("text-report").textContent.split("\n\n")[0].replace(/\s+/g, " ").trim();
}

/** How the verdict looks: the worst severity, good, or unsure where there is none. */
function verdictKind() {
  const worst = ["error", "warning", "info"].find((severity) => severityCount(severity) > 0);
  if (worst && worst !== "info") return worst;
  return verdictText().startsWith("VERDICT: nothing found. ") ? "good" : "warning";
}

function momentButton(timeNs, event) {
  const seconds = secondsOf(timeNs);
  return element("button", { class: "moment", type: "button", title: `${clockText(timeNs)}: show in the plots`,
    "aria-label": `${offsetText(seconds)}: show in the plots`, onclick: () => goToMoment(seconds, event) }, offsetText(seconds));
}

function subjectText(subject) {
  return Object.entries(subject ?? {}).filter(([, value]) => value !== null).map(([name, value]) =>
    `${name.replace(/_/g, " ")} ${typeof value === "object" ? `${value.name ?? "without name"}${value.pid ? ` (${value.pid})` : ""}` : value}`);
}

function evidenceRows(finding) {
  return finding.evidence.map((line) => element("tr", null, element("td", null, momentButton(line.time_ns, line.event)),
    element("td", { class: "event" }, line.event), element("td", null, line.text)));
}

function findingCard(finding) {
  const spans = finding.end > finding.begin ? `for ${durationText((finding.end - finding.begin) * 1e9)}` : "at one moment";
  return element("article", { class: `finding ${finding.severity}`, id: `finding-${finding.number}`, tabindex: "-1",
    "aria-labelledby": `summary-${finding.number}` },
  element("header", null, element("span", { class: "number", "aria-hidden": "true" }, String(finding.number)),
    element("span", { class: "severity" }, finding.severity), element("code", { class: "id" }, finding.id),
    finding.cause ? element("span", { class: "cause" }, finding.cause) : null,
    element("span", { class: "when" }, "since ", momentButton(finding.begin_ns, finding.evidence[0]?.event ?? ""), ` ${spans}`,
      finding.count > 0 ? ` · count ${countText(finding.count)}` : "")),
  element("h3", { id: `summary-${finding.number}` }, finding.summary),
  element("ul", { class: "subject" }, subjectText(finding.subject).map((text) => element("li", null, text))),
  finding.advice ? element("p", { class: "advice" }, element("b", null, "What to do. "), finding.advice) : null,
  finding.evidence.length ? element("details", { open: finding.number <= 3 },
    element("summary", { onclick: () => chooseFinding(finding) }, `Evidence (${finding.evidence.length})`),
    element("table", { class: "evidence" }, element("tbody", null, evidenceRows(finding)))) : null);
}

/** Cards that are not shown yet come with this. */
let showFinding = () => {};

function findingsSection() {
  const list = element("div"), more = element("button", { class: "more", type: "button", onclick: () => show(next + 5 * FINDINGS_MAX) });
  let next = 0;
  function show(end) {
    list.append(...findings.slice(next, end).map(findingCard));
    next = Math.max(next, Math.min(end, findings.length));
    more.textContent = `Show more findings (${countText(findings.length - next)})`;
    more.hidden = next >= findings.length;
  }
  showFinding = (number) => { if (number > next) show(number); };
  show(FINDINGS_MAX);
  return element("section", { id: "findings", "aria-label": "Findings" }, list, more);
}

function times(entry) {
  return [momentButton(entry.begin_ns, ""), " – ", entry.end_ns === undefined || entry.end_ns === null ? "the end" : momentButton(entry.end_ns, "")];
}

function shortList(entries, make) {
  const LIST_MAX = 50;
  return element("ul", null, entries.slice(0, LIST_MAX).map(make),
    entries.length > LIST_MAX ? element("li", { class: "faint" }, `${countText(entries.length - LIST_MAX)} more`) : null);
}

/** What a file of known findings took out of the verdict, and its rules that are to be tidied up. Null: nothing. */
function knownFindings() {
  const suppressed = report.suppressed ?? [], { unused = [], expired = [] } = report.suppression_rules ?? {};
  const rule = (entry) => `${entry.file ?? "a file"}:${entry.line}: ${entry.rule}${entry.reason ? ` # ${entry.reason}` : ""}`;
  const rules = [...unused.map((entry) => [entry, "matched nothing"]), ...expired.map((entry) => [entry, "has expired"])];
  if (!suppressed.length && !rules.length) return null;
  return element("section", { id: "known", class: "block", "aria-labelledby": "known-heading" },
    element("h2", { id: "known-heading" }, `Known findings (${suppressed.length})`),
    suppressed.length ? element("p", { class: "faint" }, "Taken out of the verdict by --suppress.") : null,
    suppressed.length ? shortList(suppressed, (entry) => element("li", null, `${entry.severity} `, element("code", null, entry.id), `: ${entry.summary} `,
      momentButton(entry.begin_ns, entry.evidence[0]?.event ?? ""), element("div", { class: "faint" }, rule(entry.suppressed_by)))) : null,
    rules.length ? [element("h3", null, "Rules to tidy up"), shortList(rules, ([entry, what]) =>
      element("li", null, `${rule(entry)}: ${what}`))] : null);
}

function notJudged() {
  const { trace } = report, skipped = new Map();
  for (const { id, reason } of report.skipped) skipped.set(reason, [...(skipped.get(reason) ?? []), id]);
  const parts = [];
  if (report.inconclusive.length)
    parts.push(element("h3", null, `Cannot tell (${report.inconclusive.length})`), shortList(report.inconclusive, (entry) =>
      element("li", null, element("code", null, entry.id), ` ${entry.process ?? ""}: ${entry.reason} `, element("span", { class: "faint" }, times(entry)))));
  if (skipped.size)
    parts.push(element("h3", null, `Not checked (${report.skipped.length})`), element("ul", null, [...skipped].map(([reason, ids]) =>
      element("li", null, `${reason}: `, ids.flatMap((id, index) => [index ? ", " : "", element("code", null, id)])))));
  const unseen = [
    ...trace.unreadable.map((entry) => element("li", null, `${entry.path}: unreadable: ${entry.reason}`)),
    ...trace.cut_streams.map((entry) => element("li", null, `${entry.stream ?? "a stream"}: damaged, read up to its last whole packet; events lost `, times(entry))),
    ...trace.lost_intervals.map((entry) => element("li", null, `${entry.stream ?? "a stream"}: the tracer discarded ${entry.kind} `, times(entry))),
  ];
  if (unseen.length) parts.push(element("h3", null, `Not seen (${unseen.length})`), shortList(unseen, (entry) => entry));
  return parts.length ? element("section", { id: "not-judged", class: "block", "aria-labelledby": "not-judged-heading" },
    element("h2", { id: "not-judged-heading" }, "What could not be judged"), parts) : null;
}
