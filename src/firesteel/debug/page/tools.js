"use strict";
// What all parts of the page use: elements, numbers for people, text with what is looked for marked.
const el = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};
const svg = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const byId = (text) => document.getElementById(text);
const ms = (s) => s >= 1 ? s.toFixed(2) + " s" : s >= 1e-3 ? (1e3 * s).toFixed(1) + " ms" : (1e6 * s).toFixed(s < 1e-5 ? 2 : 0) + " µs";
const bytes = (n) => {
  if (n === null) return "?";
  for (const unit of ["B", "KiB", "MiB"]) { if (n < 1024) return (unit === "B" ? n : n.toFixed(1)) + " " + unit; n /= 1024; }
  return n.toFixed(1) + " GiB";
};
const percent = (share) => share >= 0.0995 ? Math.round(100 * share) + "%" : share < 0.001 ? "<0.1%" : (100 * share).toFixed(1) + "%";
const plural = (n, what) => n + " " + what + (n === 1 ? "" : "s");
const dim = (text) => el("span", {className: "dim", textContent: text});
const label = (text) => el("span", {className: "label", textContent: text + " "});

let wanted = "";
const has = (text) => Boolean(wanted && text && text.toLowerCase().includes(wanted));

const marked = (text) => {
  const parts = document.createDocumentFragment(), lower = text.toLowerCase();
  let at = 0;
  for (let hits = 0; wanted && hits < 500; hits++) {
    const next = lower.indexOf(wanted, at);
    if (next < 0) break;
    parts.append(text.slice(at, next), el("mark", {textContent: text.slice(next, next + wanted.length)}));
    at = next + wanted.length;
  }
  parts.append(text.slice(at));
  return parts;
};
// What is looked for, moved to where it can be seen.
const toHit = (box) => { requestAnimationFrame(() => { const hit = box.querySelector(".hit, mark"); if (hit) box.scrollTop = hit.offsetTop - box.clientHeight / 3; }); return box; };
const textBlock = (text) => toHit(el("pre", {className: "text"}, marked(
  text === null ? "Left out: this page has as much text as browsers show at once. The recording's json() has all of it." : text)));

// The inside of a details element, built when it is opened, and again when something else is looked for.
const lazily = (details, build) => {
  let built = null;
  const fill = () => {
    if (!details.open || built === wanted) return;
    while (details.children.length > 1) details.lastChild.remove();
    details.append(...build());
    built = wanted;
  };
  details.addEventListener("toggle", fill);
  details.refresh = fill;
  return details;
};

// Buttons of which one is chosen: [name, what it shows, text that is searched]. Those with a hit are marked.
const tabs = (choices, className = "tabs") => {
  const bar = el("div", {className}), body = el("div");
  const show = (button, make) => {
    for (const other of bar.children) other.classList.toggle("on", other === button);
    body.replaceChildren(...[make()].flat());
  };
  let first = null;
  for (const [name, make, text] of choices) {
    const button = el("button", {type: "button", textContent: name});
    button.classList.toggle("hit", has(text));
    button.onclick = () => show(button, make);
    bar.append(button);
    if (!first || has(text) && !first[2]) first = [button, make, has(text)];
  }
  if (first) show(first[0], first[1]);
  return choices.length > 1 || className !== "tabs" ? [bar, body] : [body];
};

// Values from left to right as steps, each as wide as it says, with a text for whoever points at it.
const stepChart = (steps, most) => {
  const total = steps.reduce((sum, step) => sum + step.width, 0) || 1, top = most || 1;
  const chart = svg("svg", {viewBox: "0 0 1000 100", preserveAspectRatio: "none", class: "steps"});
  let at = 0, line = "M0,100";
  const areas = [];
  for (const {width, value, title} of steps) {
    const x = 1000 * at / total, w = 1000 * width / total, y = 100 - 98 * value / top;
    line += "L" + x.toFixed(2) + "," + y.toFixed(2) + "L" + (x + w).toFixed(2) + "," + y.toFixed(2);
    const area = svg("rect", {x: x.toFixed(2), y: 0, width: w.toFixed(2), height: 100, class: "area"});
    area.append(svg("title", {}, title));
    areas.push(area);
    at += width;
  }
  chart.append(svg("path", {d: line + "L1000,100Z", "vector-effect": "non-scaling-stroke"}), ...areas);
  return chart;
};
