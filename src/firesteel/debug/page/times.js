// Time of compilations as a flame chart, memory over time, guards.

const showStages = (data) => {
  const roots = [];
  for (const stage of data.stages) {
    const [, , began, seconds, depth, thread] = stage;
    const last = roots.findLast((root) => root.thread === thread && began >= root.began - 1e-6 && began < root.began + root.seconds);
    if (depth === 0 || !last) roots.push({began, seconds, thread, stages: [stage]});
    else last.stages.push(stage);
  }
  let alone = null;
  const draw = () => {
    const shown = alone ? [alone] : roots, total = shown.reduce((sum, root) => sum + root.seconds, 0) || 1;
    const flame = byId("flame"), nodes = [];
    let at = 0, deepest = 0;
    for (const root of shown) {
      for (const [name, kind, began, seconds, depth, , graph] of root.stages) {
        const width = 100 * seconds / total;
        if (width < 0.08) continue;
        deepest = Math.max(deepest, depth);
        const node = el("div", {className: kind, title: name + ", " + ms(seconds) + (graph === null ? "" : ", graph " + graph), textContent: width > 2.5 ? name + " " + ms(seconds) : ""});
        node.style.cssText = "left:" + (100 * (at + began - root.began) / total) + "%;width:" + width + "%;top:" + 20 * depth + "px";
        node.onclick = () => { alone = alone ? null : root; draw(); };
        nodes.push(node);
      }
      at += root.seconds;
    }
    flame.style.height = 20 * (deepest + 1) + "px";
    flame.replaceChildren(...nodes);
    byId("stage-note").textContent = alone ? "One of " + plural(roots.length, "compilation") + ", " + ms(total) : plural(roots.length, "compilation") + ", " + ms(total) + " together";
  };
  const rows = data.totals.slice(0, 40).map(([name, kind, seconds, count]) => ({name, kind, seconds, count}));
  if (!rows.length) { byId("stage-note").textContent = "Nothing was compiled."; return; }
  byId("stage-table").append(el("tr", {}, el("th", {textContent: "stage"}), el("th", {className: "num", textContent: "time"}), el("th", {className: "num", textContent: "runs"}), el("th")));
  for (const row of rows) {
    const bar = el("span", {className: "bar"});
    bar.style.width = "calc(var(--longest) * " + (row.seconds / rows[0].seconds).toFixed(3) + ")";
    byId("stage-table").append(el("tr", {}, el("td", {}, el("code", {textContent: row.name}), row.kind === "pass" ? dim(" pass") : ""), el("td", {className: "num", textContent: ms(row.seconds)}), el("td", {className: "num", textContent: row.count}), el("td", {}, bar)));
  }
  draw();
};

const MOST_PROGRAMS = 20;
const showMemory = (data) => {
  const process = byId("memory-process");
  for (const [name, column] of [["memory of the process", 1], ["tensors on the GPU", 2]]) {
    const most = data.memory.reduce((top, sample) => Math.max(top, sample[column]), 0);
    if (!most || data.memory.length < 2) continue;
    const steps = data.memory.slice(0, -1).map((sample, n) => ({width: data.memory[n + 1][0] - sample[0], value: sample[column], title: "after " + ms(sample[0]) + ": " + bytes(sample[column])}));
    process.append(el("p", {}, label(name), dim("from " + bytes(data.memory[0][column]) + " to " + bytes(data.memory[data.memory.length - 1][column]) + ", at most " + bytes(most) + ", over " + ms(data.memory[data.memory.length - 1][0]) + "; looked at whenever something was compiled")), stepChart(steps, most));
  }
  const programs = data.graphs.flatMap((graph, number) => { const names = programNames(graph); return graph.programs.map((program, n) => ({number, name: names[n], program, peak: peakOf(program)})); })
    .filter((one) => one.program.memory.length).sort((a, b) => b.peak - a.peak);
  const table = byId("memory-table");
  if (!programs.length) { if (!process.children.length) process.append(el("p", {className: "dim", textContent: "Nothing is known about it."})); return; }
  table.append(el("tr", {}, el("th", {textContent: "program"}), el("th", {className: "num", textContent: "arguments"}), el("th", {className: "num", textContent: "at most beside"}), el("th", {textContent: "step by step"})));
  for (const {number, name, program, peak} of programs.slice(0, MOST_PROGRAMS)) {
    table.append(el("tr", {}, el("td", {}, el("a", {href: "#g" + number, textContent: "graph " + number}), " ", el("code", {textContent: name})), el("td", {className: "num", textContent: bytes(program.arguments)}),
      el("td", {className: "num", textContent: bytes(peak)}), el("td", {className: "chart"}, stepChart(program.memory.map(([step, held]) => ({width: 1, value: held, title: step + ": " + bytes(held)})), peak))));
  }
  if (programs.length > MOST_PROGRAMS) byId("memory-note").textContent = "and " + (programs.length - MOST_PROGRAMS) + " smaller ones";
};

const showGuards = (data) => {
  byId("guard-list").append(...data.compilations.map((one) => {
    const summary = el("summary", {}, el("code", {textContent: one.name}), " ", dim(one.where + " · " + plural(one.count, "guard") + " · " + ms(one.seconds)));
    if (one.again) summary.append(" ", el("span", {className: "chip again", textContent: "again"}));
    if (one.result) summary.append(" ", el("span", {className: "chip plain", textContent: "not compiled", title: one.result}));
    return lazily(el("details", {}, summary), () => [one.result ? el("p", {textContent: one.result}) : "", textBlock(one.guards)]);
  }));
};
