"use strict";
// Draws the charts of the page. Everything that comes from a user's data is inserted as text, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 7;
  let report = JSON.parse(document.getElementById("report-data").textContent);
  const off = new Set(report.settings.map((_, i) => i).filter((i) => i >= report.shown));
  const charts = new Map();

  // ---- small helpers
  const html = (parent, name, attributes = {}, text) => fill(document.createElement(name), parent, attributes, text);
  const svg = (parent, name, attributes = {}, text) => fill(document.createElementNS(SVG, name), parent, attributes, text);
  function fill(element, parent, attributes, text) {
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
  const format = (value) => (value === null || value === undefined ? "–" : compact.format(value));
  // After seven settings the colours repeat, with other dashes and another swatch.
  const look = (setting) => `s${setting % COLOURS} e${Math.floor(setting / COLOURS) % 4}`;
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  function ticks([low, high], count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(+(n * step).toPrecision(12));
    return found;
  }
  function logTicks([low, high]) {
    const found = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power++)
      for (const digit of [1, 2, 5]) found.push(Math.log10(digit) + power);
    const inside = found.filter((value) => value >= low && value <= high);
    if (inside.length < 2) return ticks([low, high], 3);
    return inside.length > 8 ? inside.filter((value) => Number.isInteger(value)) : inside;
  }
  const path = (corners) => `M${corners.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
  const SHAPES = {
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    triangle: [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
    diamond: [[0, -1.5], [1.3, 0], [0, 1.5], [-1.3, 0]],
  };
  function mark(parent, kind, x, y, size) {
    if (kind === "circle") return svg(parent, "circle", { class: "mark", cx: x, cy: y, r: size });
    return svg(parent, "path", { class: "mark", d: path(SHAPES[kind].map(([dx, dy]) => [x + dx * size, y + dy * size])) + "Z" });
  }
  // On a narrow screen a row is a list, in which every cell needs the heading of its column.
  function label(table) {
    const headings = [...table.querySelectorAll("thead th")].map((heading) => heading.textContent);
    for (const row of table.querySelectorAll("tbody tr")) [...row.cells].forEach((cell, i) => { cell.dataset.label = headings[i]; });
  }

  // ---- one chart
  class Chart {
    constructor(figure, spec) {
      this.figure = figure;
      this.axis = 0;
      this.zoom = null;
      this.tools = html(figure, "div", { class: "tools" });
      if (spec.x.length > 1) {
        const choice = html(html(this.tools, "label", {}, "against"), "select");
        spec.x.forEach((name, i) => html(choice, "option", { value: i }, name));
        choice.addEventListener("change", () => { this.axis = +choice.value; this.zoom = null; this.draw(); });
      }
      if (spec.hover === "column") {
        const choice = html(null, "input", { type: "checkbox" });
        html(this.tools, "label", {}, "logarithmic").prepend(choice);
        choice.addEventListener("change", () => { this.logY = choice.checked; this.zoom = null; this.draw(); });
      }
      this.legend = html(this.tools, "span", { class: "legend" });
      this.reset = html(this.tools, "button", { type: "button", hidden: "" }, "Reset zoom");
      this.reset.addEventListener("click", () => this.setZoom(null));
      this.plot = html(figure, "div", { class: "plot", tabindex: "0", role: "group", "aria-label": `${spec.title}: arrow keys move, + and − zoom, Escape resets` });
      this.tip = html(this.plot, "div", { class: "tip", role: "status", hidden: "" });
      this.table = html(figure, "details");
      html(this.table, "summary", {}, "The numbers as a table");
      this.table.addEventListener("toggle", () => this.tabulate());
      this.listen();
      this.show(spec);
      new ResizeObserver(() => { if (Math.abs(this.plot.clientWidth - this.width) > 2) this.draw(); }).observe(this.plot);
    }
    show(spec) {
      this.spec = spec;
      this.draw();
      this.tabulate();
    }
    explain() {
      this.legend.replaceChildren();
      for (const [kind, meaning] of this.spec.key) {
        if (!this.shown().some((series) => series.mark === kind || series.line === kind)) continue;
        const box = html(this.legend, "span", { class: "keys" });
        const picture = svg(box, "svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
        if (SHAPES[kind] || kind === "circle") mark(picture, kind, 13, 7, 4.5);
        else svg(picture, "path", { d: "M1 7H25", class: `curve ${kind}` });
        html(box, "span", {}, meaning);
      }
    }
    shown() { return this.spec.series.filter((series) => !off.has(series.setting)); }
    toX(value) { return this.spec.logarithmic ? Math.log10(value) : value; }
    fromX(value) { return this.spec.logarithmic ? 10 ** value : value; }
    toY(value) { return this.logY ? Math.log10(Math.max(value, 1e-12)) : value; }
    fromY(value) { return this.logY ? 10 ** value : value; }
    pointsOf(series) {
      return series.y.map((y, i) => ({
        series, i, y, x: this.toX(series.x[this.axis][i]), low: series.low?.[i] ?? y, high: series.high?.[i] ?? y,
      })).filter((point) => point.y !== null && Number.isFinite(point.x));
    }
    points() { return this.shown().flatMap((series) => this.pointsOf(series)); }
    // Points of a plane are found and zoomed by both of their coordinates, curves and rows by their x alone.
    get byPoint() { return this.spec.hover === "point"; }
    get inPlane() { return this.byPoint && !this.spec.rows.length; }
    domain() {
      const all = this.points();
      const spread = (values, share, around) => {
        const low = Math.min(...values), high = Math.max(...values);
        const room = high > low ? (high - low) * share : Math.abs(high) * 0.1 || around;
        // Hardly below 0 where nothing is: an error of −0.5 % does not exist.
        return [low >= 0 && low < room ? low - Math.min(room, 0.04 * (high + room)) : low - room, high + room];
      };
      let x = this.zoom?.x ?? (all.length ? spread(all.map((p) => p.x), this.byPoint ? 0.06 : 0, 0.5) : [0, 1]);
      if (this.spec.diagonal && !this.zoom) x = [Math.min(x[0], 95), 101];
      const inside = all.filter((p) => p.x >= x[0] - 1e-9 && p.x <= x[1] + 1e-9);
      const used = inside.length ? inside : all;
      let y = this.zoom?.y ?? (used.length ? spread(used.flatMap((p) => [p.low, p.high]).map((v) => this.toY(v)), 0.06, 0.5) : [0, 1]);
      if (this.spec.rows.length) y = [this.spec.rows.length - 0.4, -0.6];
      else if (!this.zoom?.y && !this.logY && used.every((p) => p.low >= 0)) y = [y[0] < y[1] * 0.35 ? 0 : y[0], y[1]];
      if (this.spec.diagonal && !this.zoom) y = [Math.min(y[0], x[0]), Math.max(101, Math.min(y[1], 103))];
      return { x, y };
    }
    draw() {
      this.width = this.plot.clientWidth || 560;
      const width = this.width;
      const rows = this.spec.rows;
      const height = rows.length ? 70 + 38 * rows.length : clamp(width * 0.6, 220, 360);
      const left = rows.length ? clamp(Math.max(...rows.map((row) => row.length)) * 6.5 + 12, 60, width * 0.4) : 52;
      const box = (this.box = { left, right: width - 12, top: 22, bottom: height - 40 });
      const { x, y } = (this.view = this.domain());
      this.px = (v) => box.left + ((v - x[0]) / (x[1] - x[0])) * (box.right - box.left);
      this.py = (v) => box.bottom - ((this.toY(v) - y[0]) / (y[1] - y[0])) * (box.bottom - box.top);
      this.canvas?.remove();
      const root = (this.canvas = svg(null, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${this.spec.title}. ${this.summary()}` }));
      svg(root, "desc", {}, this.summary());
      this.plot.prepend(root);
      this.frame(root, width, height);
      const clip = `clip-${this.spec.id}`;
      svg(svg(svg(root, "defs"), "clipPath", { id: clip }), "rect", { x: box.left - 1, y: box.top - 8, width: Math.max(0, box.right - box.left + 9), height: Math.max(0, box.bottom - box.top + 16) });
      const inner = svg(root, "g", { "clip-path": `url(#${clip})` });
      if (this.spec.diagonal) {
        const from = Math.max(x[0], y[0]), to = Math.min(x[1], y[1]);
        svg(inner, "line", { class: "diagonal", x1: this.px(from), y1: this.py(from), x2: this.px(to), y2: this.py(to) });
      }
      for (const series of this.shown()) this.series(inner, series);
      this.explain();
      this.overlay = svg(root, "g");
      if (!this.shown().length) svg(root, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "No setting is shown: choose one above");
      this.reset.hidden = !this.zoom;
      this.tip.hidden = true;
    }
    frame(root, width, height) {
      const { left, right, top, bottom } = this.box;
      const xs = this.spec.logarithmic ? logTicks(this.view.x) : ticks(this.view.x, clamp(width / 90, 3, 8));
      const most = Math.max(2, Math.floor((right - left) / 48));
      const every = Math.ceil(xs.length / most);
      xs.forEach((value, i) => {
        const at = this.px(value);
        svg(root, "line", { class: "gridline", x1: at, x2: at, y1: top, y2: bottom });
        if (i % every === 0) svg(root, "text", { x: at, y: bottom + 16, "text-anchor": "middle" }, format(this.fromX(value)));
      });
      if (this.spec.rows.length) {
        const most = Math.floor((left - 10) / 6.2);
        this.spec.rows.forEach((row, i) => {
          svg(root, "line", { class: "gridline", x1: left, x2: right, y1: this.py(i), y2: this.py(i) });
          svg(root, "text", { x: left - 8, y: this.py(i) + 4, "text-anchor": "end" }, row.length > most ? `${row.slice(0, most - 1)}…` : row);
        });
      } else {
        for (const value of (this.logY ? logTicks(this.view.y) : ticks(this.view.y, 5)).map((v) => this.fromY(v))) {
          const at = this.py(value);
          svg(root, "line", { class: "gridline", x1: left, x2: right, y1: at, y2: at });
          svg(root, "text", { x: left - 7, y: at + 4, "text-anchor": "end" }, format(value));
        }
        svg(root, "text", { x: 4, y: 12 }, this.spec.y);
      }
      svg(root, "path", { class: "axis", fill: "none", d: `M${left} ${top}V${bottom}H${right}` });
      svg(root, "text", { x: right, y: height - 6, "text-anchor": "end" }, this.spec.x[this.axis]);
    }
    series(inner, series) {
      const group = svg(inner, "g", { class: `s${series.setting % COLOURS}` });
      const points = this.pointsOf(series);
      const at = (y) => points.map((point) => [this.px(point.x), this.py(point[y])]);
      if (series.low && !this.byPoint) svg(group, "path", { class: "band", d: `${path([...at("high"), ...at("low").reverse()])}Z` });
      if (series.line !== "none" && points.length > 1) svg(group, "path", { class: `curve ${series.line} ${series.line === "solid" ? look(series.setting) : ""}`, d: path(at("y")) });
      for (const { i, x, y, low, high } of points) {
        const px = this.px(x), py = this.py(y);
        if (series.low && this.byPoint) svg(group, "line", { class: "bar", x1: px, x2: px, y1: this.py(low), y2: this.py(high) });
        const size = this.byPoint ? 2.5 + 3.5 * (series.weights?.[i] ?? 0.75) : series.line === "none" ? 5 : 3;
        if (series.mark || points.length === 1) mark(group, series.mark ?? "circle", px, py, size);
        if (series.labels) svg(group, "text", { class: "label", x: px + 8, y: py + 11 > this.box.bottom ? py - 4 : py + 11 }, series.labels[i]);
      }
    }
    summary() {
      const parts = this.shown().slice(0, 20).map((series) => {
        const last = series.y.length - 1;
        return `${series.name}: ${series.y.length} points, first ${format(series.y[0])}, last ${format(series.y[last])}`;
      });
      return `${this.spec.y || "row"} against ${this.spec.x[this.axis]}. ${parts.join(". ")}.`;
    }
    tabulate() {
      if (!this.table.open) return;
      this.table.querySelector(".scroll")?.remove();
      const table = html(html(this.table, "div", { class: "scroll", tabindex: "0" }), "table");
      const head = html(html(table, "thead"), "tr");
      for (const name of ["", this.spec.x[this.axis], this.spec.y || "row", "from", "to", ""]) html(head, "th", { scope: "col" }, name);
      const body = html(table, "tbody");
      for (const { series, i, y } of this.points()) {
        const row = html(body, "tr");
        html(row, "th", { scope: "row" }, series.name);
        const value = this.spec.rows.length ? this.spec.rows[y] : format(y);
        for (const text of [format(series.x[this.axis][i]), value, format(series.low?.[i]), format(series.high?.[i]), series.notes?.[i] ?? ""]) html(row, "td", {}, text);
      }
      label(table);
    }

    // ---- what the pointer and the keys do
    at(event) {
      const bounds = this.canvas.getBoundingClientRect();
      return [event.clientX - bounds.left, event.clientY - bounds.top];
    }
    toData([x, y]) {
      const { left, right, top, bottom } = this.box;
      return [
        this.view.x[0] + ((clamp(x, left, right) - left) / (right - left)) * (this.view.x[1] - this.view.x[0]),
        this.view.y[0] + ((bottom - clamp(y, top, bottom)) / (bottom - top)) * (this.view.y[1] - this.view.y[0]),
      ];
    }
    listen() {
      let start = null;
      this.plot.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "touch") this.hover(this.at(event));
        else if (event.button === 0) start = this.at(event);
      });
      this.plot.addEventListener("pointermove", (event) => {
        const here = this.at(event);
        if (!start) return this.hover(here);
        const { top, bottom } = this.box;
        this.overlay.replaceChildren();
        svg(this.overlay, "rect", {
          class: "selection", x: Math.min(start[0], here[0]), width: Math.abs(here[0] - start[0]),
          y: this.inPlane ? Math.min(start[1], here[1]) : top, height: this.inPlane ? Math.abs(here[1] - start[1]) : bottom - top,
        });
      });
      const finish = (event) => {
        if (!start) return;
        const [a, b] = [this.toData(start), this.toData(this.at(event))];
        const far = Math.abs(this.at(event)[0] - start[0]);
        start = null;
        this.overlay.replaceChildren();
        if (far < 8) return;
        const order = (p, q) => (p < q ? [p, q] : [q, p]);
        this.setZoom({ x: order(a[0], b[0]), y: this.inPlane ? order(a[1], b[1]) : null });
      };
      this.plot.addEventListener("pointerup", finish);
      this.plot.addEventListener("pointerleave", (event) => { finish(event); if (event.pointerType !== "touch") this.leave(); });
      this.plot.addEventListener("dblclick", () => this.setZoom(null));
      // A page must scroll past its charts: the wheel zooms only one that has been chosen.
      this.plot.addEventListener("wheel", (event) => {
        if (document.activeElement !== this.plot && !event.ctrlKey) return;
        event.preventDefault();
        this.scale(event.deltaY > 0 ? 1.25 : 0.8, this.toData(this.at(event)));
      }, { passive: false });
      this.plot.addEventListener("keydown", (event) => {
        const actions = {
          ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Home: () => this.step(-Infinity), End: () => this.step(Infinity),
          "+": () => this.scale(0.7), "=": () => this.scale(0.7), "-": () => this.scale(1.4), Escape: () => this.setZoom(null), 0: () => this.setZoom(null),
        };
        if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        actions[event.key]();
      });
      this.plot.addEventListener("blur", () => this.leave());
    }
    setZoom(zoom) { this.zoom = zoom; this.draw(); }
    scale(factor, around) {
      const grow = ([low, high], centre) => [centre - (centre - low) * factor, centre + (high - centre) * factor];
      const middle = ([low, high]) => (low + high) / 2;
      const { x, y } = this.view;
      const centre = around ?? [this.chosen?.x ?? middle(x), this.chosen?.y ?? middle(y)];
      this.setZoom({ x: grow(x, centre[0]), y: this.inPlane ? grow(y, centre[1]) : null });
    }
    step(by) {
      const points = this.points().sort((a, b) => a.x - b.x || a.y - b.y);
      const stops = this.byPoint ? points : points.filter((p, i) => i === 0 || p.x !== points[i - 1].x);
      if (!stops.length) return;
      const now = stops.findIndex((p) => this.chosen && p.x === this.chosen.x && (!this.byPoint || (p.series.name === this.chosen.series.name && p.i === this.chosen.i)));
      this.choose(stops[clamp(now < 0 && by === 1 ? 0 : now + by, 0, stops.length - 1)]);
    }
    hover([x, y]) {
      const points = this.points();
      if (!points.length) return;
      const distance = (p) => Math.hypot(this.px(p.x) - x, this.byPoint ? this.py(p.y) - y : 0);
      const nearest = points.reduce((best, p) => (distance(p) < distance(best) ? p : best));
      if (this.byPoint && distance(nearest) > 40) return this.leave();
      this.choose(nearest);
    }
    choose(point) {
      this.chosen = point;
      this.overlay.replaceChildren();
      this.tip.replaceChildren();
      this.tip.hidden = false;
      const px = this.px(point.x), py = this.py(point.y);
      const line = (series, text) => {
        const row = html(this.tip, "div");
        html(row, "span", { class: `swatch ${look(series.setting)}` });
        html(row, "span", {}, text);
      };
      if (!this.byPoint) {
        svg(this.overlay, "line", { class: "cursor", x1: px, x2: px, y1: this.box.top, y2: this.box.bottom });
        html(this.tip, "b", {}, `${format(this.fromX(point.x))} ${this.spec.x[this.axis]}`);
        // Settings are measured at different x: each shows its nearest point, if it reaches this far.
        const here = [];
        for (const points of this.shown().map((series) => this.pointsOf(series))) {
          if (!points.length || point.x < points[0].x || point.x > points.at(-1).x) continue;
          here.push(points.reduce((best, p) => (Math.abs(p.x - point.x) < Math.abs(best.x - point.x) ? p : best)));
        }
        here.sort((a, b) => b.y - a.y);
        for (const { series, i, y } of here.slice(0, 12)) line(series, `${series.name}: ${format(y)}${series.low ? ` (${format(series.low[i])} to ${format(series.high[i])})` : ""}`);
      } else {
        svg(this.overlay, "circle", { class: "ring", cx: px, cy: py, r: 8 });
        line(point.series, point.series.name);
        const value = this.spec.rows.length ? "" : `${this.spec.y}: ${format(point.y)}`;
        for (const text of [point.series.notes?.[point.i], value, `${this.spec.x[this.axis]}: ${format(this.fromX(point.x))}`]) if (text) html(this.tip, "div", {}, text);
      }
      const onTheRight = px > this.width / 2;
      this.tip.style.left = onTheRight ? "" : `${px + 14}px`;
      this.tip.style.right = onTheRight ? `${this.width - px + 14}px` : "";
      this.tip.style.top = `${Math.max(0, this.byPoint ? py - 20 : this.box.top)}px`;
    }
    leave() {
      this.chosen = null;
      this.overlay.replaceChildren();
      this.tip.hidden = true;
    }
  }

  // ---- the page
  function drawAll() {
    for (const spec of report.charts) {
      const figure = document.getElementById(`chart-${spec.id}`);
      if (charts.has(spec.id)) charts.get(spec.id).show(spec);
      else if (figure) charts.set(spec.id, new Chart(figure, spec));
    }
  }
  function showPicked() {
    for (const button of document.querySelectorAll("[data-pick]")) button.setAttribute("aria-pressed", String(!off.has(+button.dataset.pick)));
    for (const element of document.querySelectorAll("[data-setting]")) element.hidden = off.has(+element.dataset.setting);
    for (const chart of charts.values()) chart.show(chart.spec);
  }
  for (const button of document.querySelectorAll("[data-pick]")) {
    const number = +button.dataset.pick;
    button.title = "Click to show or hide, double-click to show it alone";
    button.addEventListener("click", () => { if (!off.delete(number)) off.add(number); showPicked(); });
    button.addEventListener("dblclick", () => { report.settings.forEach((_, i) => off.add(i)); off.delete(number); showPicked(); });
  }
  document.getElementById("pick-all")?.addEventListener("click", () => { off.clear(); showPicked(); });
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", async () => {
    const text = button.closest(".code").querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // On paper nothing can be unfolded.
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("section:not(#again) > details")) part.open = true; });

  async function follow() {
    const status = document.getElementById("status");
    try {
      const answer = await fetch("data.json", { cache: "no-store" });
      const news = await answer.json();
      if (JSON.stringify(news.parts) !== JSON.stringify(report.parts)) return location.reload();
      const changed = JSON.stringify(news.charts) !== JSON.stringify(report.charts);
      report = news;
      if (changed) drawAll();
      status.textContent = news.status;
      if (news.done) return;
    } catch {
      status.textContent = "No answer: the command that watches the run has ended, or the run is gone.";
    }
    setTimeout(follow, 1000);
  }

  for (const table of document.querySelectorAll("table:not(.matrix)")) label(table);
  drawAll();
  showPicked();
  if (report.live) follow();
})();
