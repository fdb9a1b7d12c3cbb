/* Elements, numbers and times. Text from a report is only ever set as text, never as markup. */

const SVG_TAGS = new Set(["svg", "g", "rect", "line", "text", "title"]);

/** element("button", { class: "x", onclick: f }, "text", child, null ...) */
function element(tag, attributes, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function countText(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

/** 1,234 as "1.23 k": for axes. */
function shortCount(value) {
  const size = Math.abs(value);
  for (const [limit, suffix] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]])
    if (size >= limit) return trim(value / limit) + suffix;
  return trim(value);
}

function trim(value) {
  return String(Number(Number(value).toPrecision(3)));
}

function durationText(ns) {
  if (ns === null || ns === undefined) return "–";
  const size = Math.abs(Number(ns));
  if (size < 1e3) return `${trim(ns)} ns`;
  if (size < 1e6) return `${trim(Number(ns) / 1e3)} µs`;
  if (size < 1e9) return `${trim(Number(ns) / 1e6)} ms`;
  return size < 1e13 ? `${trim(Number(ns) / 1e9)} s` : `${countText(Math.round(Number(ns) / 1e9))} s`;
}

function bytesText(value) {
  if (!value) return countText(value);
  const steps = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let step = 0, rest = value;
  while (rest >= 1024 && step < steps.length - 1) { rest /= 1024; step++; }
  return `${trim(rest)} ${steps[step]}`;
}

function plural(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function percentText(share) {
  return `${trim(share * 100)} %`;
}
