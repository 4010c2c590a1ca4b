// Graphs at each of their stages, as text and drawn, and the kernels that were made of them.

// A drawing of a graph's text: an operation a line, and an arc from each to those that read it.
const LONGEST_DRAWN = 2500;
const VIEWS = /\b(view|_unsafe_view|reshape|transpose|permute|t|expand|slice|select|unsqueeze|squeeze|getitem|alias|split|detach)\b/;
const CALLS = /\b(addmm|mm|bmm|baddbmm|linear|convolution|conv\dd|matmul|scaled_dot_product_attention|_scaled_dot_product\w*|embedding)\b/;
const operations = (text) => {
  const rows = [], places = new Map();
  const add = (row, ...reads) => { places.set(row.name, rows.length); rows.push({...row, reads: [...new Set(reads)]}); };
  for (const line of text.split("\n")) {
    const [said, where] = line.split(/\s{2,}# /);
    let found = said.match(/^\s*(?:input|tangent) (.*)/);
    if (found) {
      for (const [, name, type] of found[1].matchAll(/(\w+): (\w+(?:[[(][^\])]*[\])])?)/g)) add({name, type, what: "", kind: "input", line: said});
      continue;
    }
    found = said.match(/^\s*(return|gradients) (.*)/) || said.match(/^\s*(\w+)(?:\[[^\]]*\])?(?:: ([^=]*?))? = (.*)/);
    if (!found || rows.length > LONGEST_DRAWN) continue;
    const end = found[1] === "return" || found[1] === "gradients", call = found[found.length - 1];
    const reads = [...call.matchAll(/[A-Za-z_]\w*/g)].map((word) => places.get(word[0])).filter((at) => at !== undefined);
    const name = end ? found[1] : call.split("(")[0].trim();
    add({name: end ? found[1] + " " : found[1], type: end ? "" : found[2] || "", what: end ? "" : name, where: where || "", line: said.trim(),
         kind: end ? "input" : CALLS.test(name) ? "call" : VIEWS.test(name) ? "view" : "other"}, ...reads);
  }
  return rows;
};
const drawn = (rows) => {
  const height = 20, edge = 92, middle = (n) => height * n + height / 2;
  const arcs = svg("svg", {width: edge + 6, height: height * rows.length, class: "arcs"}), paths = rows.map(() => []);
  rows.forEach((row, n) => row.reads.forEach((from) => {
    const bend = (6 + Math.min(74, 11 * Math.sqrt(n - from - 1))) * 1.33, x = edge - bend;
    const path = svg("path", {d: `M${edge},${middle(from)}C${x},${middle(from)} ${x},${middle(n)} ${edge},${middle(n)}`});
    arcs.append(path);
    paths[n].push(path); paths[from].push(path);
  }));
  rows.forEach((row, n) => arcs.append(svg("circle", {cx: edge, cy: middle(n), r: 4, class: row.kind})));
  const list = el("div", {className: "operations"}, ...rows.map((row, n) => {
    const node = el("div", {title: row.line + (row.where ? "\n" + row.where : "")}, el("b", {}, marked(row.name)), " ", marked(row.what), " ", dim(row.type + (row.where ? "  " + row.where : "")));
    if (has(row.line)) node.classList.add("hit");
    node.onmouseenter = () => paths[n].forEach((path) => path.classList.add("on"));
    node.onmouseleave = () => paths[n].forEach((path) => path.classList.remove("on"));
    return node;
  }));
  return toHit(el("div", {className: "drawn"}, el("div", {className: "drawn-inside"}, arcs, list)));
};
let asDrawing = false;
const graphText = (text) => {
  const rows = text === null ? [] : operations(text);
  if (rows.length < 2 || rows.length > LONGEST_DRAWN) return textBlock(text);
  const box = el("input", {type: "checkbox", checked: asDrawing}), body = el("div");
  const show = () => body.replaceChildren(box.checked ? drawn(rows) : textBlock(text));
  box.onchange = () => { asDrawing = box.checked; show(); };
  show();
  return [el("label", {className: "switch"}, box, " drawn"), body];
};

// The boxes and arrows that the recording drew of a plan: text in them is found and marked too.
const planDrawing = (text) => {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.nodeName !== "svg") return el("p", {className: "dim", textContent: "It cannot be shown."});
  const node = document.importNode(parsed, true);
  for (const part of node.querySelectorAll("text")) if (has(part.textContent)) part.setAttribute("class", "hit");
  return el("div", {className: "drawing"}, node);
};
const passTable = (program) => {
  const table = el("table", {className: "list"}, el("tr", {}, el("th", {textContent: "pass"}), el("th", {className: "num", textContent: "ms"}), el("th", {className: "num", textContent: "nodes afterwards"})));
  let before = null;
  for (const [name, time, nodes] of program.passes) {
    const change = before === null || before === nodes ? "" : " (" + (nodes > before ? "+" : "") + (nodes - before) + ")";
    table.append(el("tr", {}, el("td", {}, el("code", {textContent: name})), el("td", {className: "num", textContent: time.toFixed(2)}), el("td", {className: "num", textContent: nodes + change})));
    before = nodes;
  }
  return el("div", {className: "scroll"}, table);
};
const peakOf = (program) => program.memory.reduce((most, step) => Math.max(most, step[1]), 0);
const memoryOf = (program) => [
  el("p", {className: "dim", textContent: "Arguments take " + bytes(program.arguments) + ". Beside them the program holds at most " + bytes(peakOf(program)) + "; from left to right its kernels and calls."}),
  stepChart(program.memory.map(([name, held]) => ({width: 1, value: held, title: name + ": " + bytes(held)})), peakOf(program))];

const NATURE = {loops: true, plan: true, "host program": true};
const programTabs = (program) => {
  const choices = program.texts.map(([stage, text]) => [stage, () => NATURE[stage] ? textBlock(text) : graphText(text), text]);
  if (program.passes.length) choices.push(["passes", () => passTable(program)]);
  if (program.drawing) choices.push(["drawing", () => planDrawing(program.drawing), program.drawing.replace(/<[^>]*>/g, " ")]);
  if (program.memory.length) choices.push(["memory", () => memoryOf(program)]);
  return tabs(choices);
};
const programNames = (graph) => {
  const counts = {}, seen = {};
  for (const {half} of graph.programs) counts[half] = (counts[half] || 0) + 1;
  return graph.programs.map(({half}) => counts[half] > 1 ? half + " " + (seen[half] = (seen[half] || 0) + 1) : half);
};
const MOST_BUTTONS = 6;
const graphBody = (data, graph) => {
  const nodes = graph.why ? [el("p", {textContent: "Runs operator by operator: " + graph.why})] : [];
  if (graph.parts.length) nodes.push(el("p", {textContent: "It is taken apart, and a part runs operator by operator: " + graph.parts.join("; ")}));
  const names = programNames(graph);
  const views = [["as captured", () => tabs(graph.texts.map(([stage, text]) => [stage, () => graphText(text), text])), graph.texts.map((t) => t[1]).join("\n")],
    ...graph.programs.map((program, n) => [names[n], () => programTabs(program), program.texts.map((t) => t[1]).join("\n")])];
  if (views.length <= MOST_BUTTONS) nodes.push(...tabs(views, "tabs views"));
  else {
    const body = el("div"), hit = Math.max(0, views.findIndex((view) => has(view[2])));
    const choice = el("select", {ariaLabel: "part of the graph"}, ...views.map(([name, , text], n) => el("option", {value: n, textContent: name + (has(text) ? " ●" : ""), selected: n === hit})));
    choice.onchange = () => body.replaceChildren(...views[choice.value][1]());
    choice.onchange();
    nodes.push(el("p", {}, label("part"), choice, " ", dim(plural(graph.programs.length, "part") + " were compiled one by one")), body);
  }
  const kernels = graph.programs.flatMap((program) => program.kernels);
  if (kernels.length) nodes.push(el("p", {}, label("kernels and calls"),
    ...kernels.slice(0, 60).map((k) => el("a", {className: "chip kernel", href: "#k" + k, textContent: shortName(data.kernels[k])})),
    kernels.length > 60 ? "and " + (kernels.length - 60) + " more" : ""));
  return nodes;
};

const kernelFacts = (kernel, total) => {
  const parts = ["reads " + bytes(kernel.read) + ", writes " + bytes(kernel.written)];
  if (kernel.us !== null) parts.push(ms(kernel.us / 1e6) + " a run", percent(kernel.us / total) + " of all kernels");
  if (kernel.rate !== null) parts.push(kernel.rate.toFixed(1) + " GB/s");
  if (kernel.limit !== null) parts.push(percent(Math.min(kernel.limit, 1)) + " of the speed of a plain copy");
  if (kernel.unmeasured) parts.push("not measured: " + kernel.unmeasured);
  return parts.join(" · ");
};
const kernelBody = (kernel, total) => {
  const list = [el("p", {}, label("operators"), el("code", {}, marked(kernel.operators.join(", ") || "–")))];
  list.push(el("p", {}, label("lines"), el("code", {textContent: kernel.lines.join(", ") || "none: it is part of a backward, or of code of torch's"})));
  list.push(el("p", {className: "dim", textContent: kernelFacts(kernel, total)}));
  if (!kernel.call) list.push(...tabs([["loops", () => textBlock(kernel.loops), kernel.loops], ["generated source", () => textBlock(kernel.source || "(not kept)"), kernel.source]]));
  return list;
};
const shortName = (kernel) => kernel.call ? kernel.name : kernel.name + ": " + kernel.operators.map((o) => o.split(".")[1] || o).slice(0, 6).join(", ") + (kernel.operators.length > 6 ? ", …" : "");

const showGraphs = (data) => {
  const graphNodes = data.graphs.map((graph, number) => {
    const summary = el("summary", {}, el("b", {textContent: "graph " + number}), " ", el("code", {textContent: graph.name}), " ", dim(plural(graph.operators, "operator") + " · " + graph.where));
    if (graph.why) summary.append(" ", el("span", {className: "chip plain", textContent: "operator by operator", title: graph.why}));
    if (graph.parts.length) summary.append(" ", el("span", {className: "chip plain", textContent: "partly operator by operator", title: graph.parts.join("\n")}));
    return lazily(el("details", {id: "g" + number}, summary), () => graphBody(data, graph));
  });
  byId("graph-list").append(...graphNodes);

  const total = data.kernels.reduce((sum, kernel) => sum + (kernel.us || 0), 0);
  const kernelNodes = data.kernels.map((kernel, number) => {
    const summary = el("summary", {}, kernel.call ? dim("call ") : "", el("code", {textContent: shortName(kernel)}), " ",
      dim(kernel.us !== null ? ms(kernel.us / 1e6) + " · " + percent(kernel.us / total) : bytes((kernel.read || 0) + (kernel.written || 0))));
    if (kernel.us !== null) { const bar = el("span", {className: "bar"}); bar.style.width = Math.max(0.1, 8 * kernel.us / total).toFixed(2) + "rem"; summary.append(" ", bar); }
    return lazily(el("details", {id: "k" + number}, summary), () => kernelBody(kernel, total));
  });
  const list = byId("kernel-list"), order = byId("kernel-order");
  const keys = {run: () => 0, time: (kernel) => -(kernel.us || 0), bytes: (kernel) => -((kernel.read || 0) + (kernel.written || 0))};
  const sort = () => list.replaceChildren(...data.kernels.map((kernel, n) => [keys[order.value](kernel), n]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, n]) => kernelNodes[n]));
  if (total) order.value = "time";
  order.onchange = sort;
  sort();
  if (!data.kernels.length) { list.append(el("p", {className: "dim", textContent: "No kernels were made: graphs run operator by operator, or nothing was compiled."})); order.parentNode.hidden = true; }
  searching(data, graphNodes, kernelNodes);
};

const searching = (data, graphNodes, kernelNodes) => {
  const lower = (texts) => texts.filter(Boolean).join("\n").toLowerCase();
  let graphTexts = null, kernelTexts = null, timer = 0;
  const prepare = () => {
    if (graphTexts) return;
    kernelTexts = data.kernels.map((k) => lower([shortName(k), k.loops, k.source, ...k.operators, ...k.lines]));
    graphTexts = data.graphs.map((graph) => lower([graph.name, graph.where, ...graph.texts.map((t) => t[1]), ...graph.programs.flatMap((p) => p.texts.map((t) => t[1])),
      ...graph.programs.flatMap((p) => p.kernels.map((k) => shortName(data.kernels[k])))]));
  };
  const search = () => {
    wanted = byId("find").value.trim().toLowerCase();
    if (wanted) prepare();
    let graphs = 0, kernels = 0;
    graphNodes.forEach((node, n) => { node.hidden = Boolean(wanted) && !graphTexts[n].includes(wanted); graphs += !node.hidden; });
    kernelNodes.forEach((node, n) => { node.hidden = Boolean(wanted) && !kernelTexts[n].includes(wanted); kernels += !node.hidden; });
    byId("found").textContent = wanted ? plural(graphs, "graph") + ", " + plural(kernels, "kernel") : "";
    for (const node of [...graphNodes, ...kernelNodes]) if (node.open && !node.hidden) node.refresh();
  };
  byId("find").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 150); });
};
