"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const el = (tag, props = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...children);
    return node;
  };
  const id = (name) => document.getElementById(name);
  const ms = (s) => s >= 1 ? s.toFixed(2) + " s" : s >= 1e-3 ? (1e3 * s).toFixed(1) + " ms" : (1e6 * s).toFixed(s < 1e-5 ? 2 : 0) + " µs";
  const bytes = (n) => {
    if (n === null) return "?";
    for (const unit of ["B", "KiB", "MiB"]) { if (n < 1024) return (unit === "B" ? n : n.toFixed(1)) + " " + unit; n /= 1024; }
    return n.toFixed(1) + " GiB";
  };
  const plural = (n, what) => n + " " + what + (n === 1 ? "" : "s");
  let wanted = "";

  // Text with what is looked for marked; built when its details are opened.
  const textBlock = (text) => {
    const pre = el("pre", {className: "text"});
    if (text === null) text = "Left out: this page has as much text as browsers show at once. The recording's json() has all of it.";
    const lower = text.toLowerCase();
    if (!wanted || !lower.includes(wanted)) { pre.textContent = text; return pre; }
    let at = 0;
    for (let hits = 0; hits < 500; hits++) {
      const next = lower.indexOf(wanted, at);
      if (next < 0) break;
      pre.append(text.slice(at, next), el("mark", {textContent: text.slice(next, next + wanted.length)}));
      at = next + wanted.length;
    }
    pre.append(text.slice(at));
    return pre;
  };
  const lazily = (details, build) => {
    let built = null;
    details.addEventListener("toggle", () => {
      if (details.open && built !== wanted) {
        while (details.children.length > 1) details.lastChild.remove();
        details.append(...build());
        built = wanted;
      }
    });
    return details;
  };
  const tabs = (choices) => {
    const bar = el("div", {className: "tabs"}), body = el("div");
    const show = (button, make) => {
      for (const other of bar.children) other.classList.toggle("on", other === button);
      body.replaceChildren(make());
    };
    let first = null;
    for (const [name, make, text] of choices) {
      const button = el("button", {type: "button", textContent: name});
      button.onclick = () => show(button, make);
      bar.append(button);
      if (!first || wanted && !first[2] && text && text.toLowerCase().includes(wanted)) {
        first = [button, make, Boolean(wanted && text && text.toLowerCase().includes(wanted))];
      }
    }
    if (first) show(first[0], first[1]);
    return [bar, body];
  };

  // Kernels
  const kernelFacts = (kernel) => {
    const parts = ["reads " + bytes(kernel.read) + ", writes " + bytes(kernel.written)];
    if (kernel.us !== null) parts.push(ms(kernel.us / 1e6) + " a run");
    if (kernel.rate !== null) parts.push(kernel.rate.toFixed(1) + " GB/s");
    if (kernel.limit !== null) parts.push((100 * Math.min(kernel.limit, 1)).toFixed(0) + "% of the speed of a plain copy");
    if (kernel.unmeasured) parts.push("not measured: " + kernel.unmeasured);
    return parts.join(" · ");
  };
  const kernelBody = (kernel) => {
    const list = [el("p", {}, el("span", {className: "label", textContent: "operators "}), el("code", {textContent: kernel.operators.join(", ") || "–"}))];
    list.push(el("p", {}, el("span", {className: "label", textContent: "lines "}), el("code", {textContent: kernel.lines.join(", ") || "none: it is part of a backward, or of code of torch's"})));
    list.push(el("p", {className: "dim", textContent: kernelFacts(kernel)}));
    if (!kernel.call) list.push(...tabs([["loops", () => textBlock(kernel.loops), kernel.loops], ["generated source", () => textBlock(kernel.source || "(not kept)"), kernel.source]]));
    return list;
  };
  const shortName = (kernel) => kernel.call ? kernel.name : kernel.name + ": " + kernel.operators.map((o) => o.split(".")[1] || o).slice(0, 6).join(", ") + (kernel.operators.length > 6 ? ", …" : "");

  // Graphs
  const graphNodes = data.graphs.map((graph, number) => {
    const summary = el("summary", {}, el("b", {textContent: "graph " + number}), " ", el("code", {textContent: graph.name}), " ",
      el("span", {className: "dim", textContent: plural(graph.operators, "operator") + " · " + graph.where}));
    if (graph.why) summary.append(" ", el("span", {className: "chip plain", textContent: "operator by operator", title: graph.why}));
    const details = lazily(el("details", {id: "g" + number}, summary), () => {
      const nodes = graph.why ? [el("p", {textContent: "Runs operator by operator: " + graph.why})] : [];
      const choices = graph.texts.map(([stage, text]) => [stage, () => textBlock(text), text]);
      for (const program of graph.programs) {
        const mark = graph.programs.length > 1 ? program.half + ": " : "";
        for (const [stage, text] of program.texts) choices.push([mark + stage, () => textBlock(text), text]);
        if (program.passes.length) choices.push([mark + "passes", () => passes(program)]);
        if (program.drawing) choices.push([mark + "drawing", () => drawing(program.drawing)]);
      }
      nodes.push(...tabs(choices));
      const kernels = graph.programs.flatMap((program) => program.kernels);
      if (kernels.length) nodes.push(el("p", {}, el("span", {className: "label", textContent: "kernels and calls "}),
        ...kernels.slice(0, 60).map((k) => el("a", {className: "chip kernel", href: "#k" + k, textContent: shortName(data.kernels[k])})),
        kernels.length > 60 ? "and " + (kernels.length - 60) + " more" : ""));
      return nodes;
    });
    return details;
  });
  const passes = (program) => {
    const table = el("table", {className: "list"}, el("tr", {}, el("th", {textContent: "pass"}), el("th", {textContent: "ms"}), el("th", {textContent: "nodes afterwards"})));
    let before = null;
    for (const [name, time, nodes] of program.passes) {
      const change = before === null || before === nodes ? "" : " (" + (nodes > before ? "+" : "") + (nodes - before) + ")";
      table.append(el("tr", {}, el("td", {}, el("code", {textContent: name})), el("td", {className: "num", textContent: time.toFixed(2)}), el("td", {className: "num", textContent: nodes + change})));
      before = nodes;
    }
    return table;
  };
  const drawing = (svg) => el("div", {className: "drawing"}, el("img", {alt: "kernels and the buffers between them", src: "data:image/svg+xml," + encodeURIComponent(svg)}));
  id("graph-list").append(...graphNodes);

  const kernelNodes = data.kernels.map((kernel, number) => {
    const summary = el("summary", {}, kernel.call ? el("span", {className: "dim", textContent: "call "}) : "", el("code", {textContent: shortName(kernel)}), " ",
      el("span", {className: "dim", textContent: kernel.us !== null ? ms(kernel.us / 1e6) : bytes((kernel.read || 0) + (kernel.written || 0))}));
    return lazily(el("details", {id: "k" + number}, summary), () => kernelBody(kernel));
  });
  id("kernel-list").append(...kernelNodes);
  if (!data.kernels.length) id("kernel-list").append(el("p", {className: "dim", textContent: "No kernels were made: graphs run operator by operator, or nothing was compiled."}));

  // Search
  const graphTexts = data.graphs.map((graph) => [graph.name, ...graph.texts.map((t) => t[1]), ...graph.programs.flatMap((p) => p.texts.map((t) => t[1]))]);
  const matches = (texts) => texts.some((text) => text && text.toLowerCase().includes(wanted));
  let timer = 0;
  id("find").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      wanted = id("find").value.trim().toLowerCase();
      let shown = 0, kernels = 0;
      graphNodes.forEach((node, n) => { const yes = !wanted || matches(graphTexts[n]); node.hidden = !yes; shown += yes; node.open = node.open && yes; });
      kernelNodes.forEach((node, n) => { const k = data.kernels[n], yes = !wanted || matches([k.name, k.loops, k.source, ...k.operators, ...k.lines]); node.hidden = !yes; kernels += yes; });
      id("found").textContent = wanted ? plural(shown, "graph") + ", " + plural(kernels, "kernel") : "";
      for (const node of [...graphNodes, ...kernelNodes]) if (node.open && !node.hidden) { node.open = false; requestAnimationFrame(() => { node.open = true; }); }
    }, 150);
  });
  const openTarget = () => {
    const node = location.hash.length > 1 && id(decodeURIComponent(location.hash.slice(1)));
    if (node && node.tagName === "DETAILS") { node.hidden = false; node.open = true; node.scrollIntoView(); }
  };
  addEventListener("hashchange", openTarget);

  // Compile time: root spans side by side
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
    const flame = id("flame"), nodes = [];
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
    id("stage-note").textContent = alone ? "One of " + plural(roots.length, "compilation") + ", " + ms(total) : plural(roots.length, "compilation") + ", " + ms(total) + " together";
  };
  const totals = new Map();
  for (const root of roots) for (const [name, kind, began, seconds, depth] of root.stages) {
    if (kind === "compile" || kind === "graph") continue;
    const key = kind + " " + name, known = totals.get(key) || {name, kind, seconds: 0, count: 0};
    known.seconds += seconds; known.count += 1; totals.set(key, known);
  }
  const rows = [...totals.values()].sort((a, b) => b.seconds - a.seconds).slice(0, 40);
  if (rows.length) {
    id("stage-table").append(el("tr", {}, el("th", {textContent: "stage"}), el("th", {className: "num", textContent: "time"}), el("th", {className: "num", textContent: "runs"}), el("th")));
    for (const row of rows) {
      const bar = el("span", {className: "bar"});
      bar.style.width = (10 * row.seconds / rows[0].seconds).toFixed(2) + "rem";
      id("stage-table").append(el("tr", {}, el("td", {}, el("code", {textContent: row.name}), row.kind === "pass" ? el("span", {className: "dim", textContent: " pass"}) : ""), el("td", {className: "num", textContent: ms(row.seconds)}), el("td", {className: "num", textContent: row.count}), el("td", {}, bar)));
    }
    draw();
  } else id("stage-note").textContent = "Nothing was compiled.";

  // Guards
  id("guard-list").append(...data.compilations.map((one, number) => {
    const summary = el("summary", {}, el("code", {textContent: one.name}), " ", el("span", {className: "dim", textContent: one.where + " · " + plural(one.count, "guard") + " · " + ms(one.seconds)}));
    if (one.again) summary.append(" ", el("span", {className: "chip again", textContent: "again"}));
    if (one.result) summary.append(" ", el("span", {className: "chip plain", textContent: "not compiled", title: one.result}));
    return lazily(el("details", {}, summary), () => [one.result ? el("p", {textContent: one.result}) : "", textBlock(one.guards)]);
  }));
  openTarget();
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
