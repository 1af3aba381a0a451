"use strict";
// Shows what a market comes to while it runs, and begins it again where a slider is moved.
// All that comes from the server is put into the page as text. docs/how-to/live.md describes it.
(() => {
  const { by_id, count, plural, element, shape, show_status, follow } = Page;
  const POLL_MS = 500;
  const REST_MS = 250;
  const LOOKS = 6;
  const EDGE = { left: 52, right: 14, top: 10, bottom: 26 };
  const GWEI = 1e9;

  const given = JSON.parse(by_id("data").textContent);
  const view = { state: given.state, before: null, moved: {}, timer: null, is_asking: false, problem: null, lost: null };
  const inputs = [...document.querySelectorAll("#sliders input")];

  // --- Words -------------------------------------------------------------------------------

  const say_number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  const say_share = (value) => `${(100 * value).toLocaleString("en", { maximumFractionDigits: 1 })}%`;
  const say_ether = (gwei) => `${(gwei / GWEI).toLocaleString("en", { maximumSignificantDigits: 5, signDisplay: "exceptZero" }).replace("-", "−")} ETH`;
  const say = (value, chart) => (value === null || value === undefined ? "–" : chart.in_percent ? say_share(value) : say_number(value));

  // --- Measures ----------------------------------------------------------------------------

  function list_lines(chart, state) {
    // Each line has its words, and of a point its value and how much of the point it is a mean of.
    if (chart.lines.length) {
      return chart.lines.map(({ key, label, of }) => ({ label, read: (point) => point[key], weigh: (point) => point[of] }));
    }
    const names = [...new Set(state.points.flatMap((point) => Object.keys(point.strategies)))].sort();
    names.sort((one, other) => (other === "honest") - (one === "honest"));
    return names.map((name) => {
      const find = (point) => (Object.hasOwn(point.strategies, name) ? point.strategies[name] : null);
      return { label: name, read: (point) => find(point)?.reputation ?? null, weigh: (point) => find(point)?.jobs ?? 0 };
    });
  }

  // The points are of as many jobs each; those whose jobs are burn-in come first.
  const count_early = (state) => Math.floor((state.burn_in * state.most_points) / state.jobs);

  function take_mean(line, state) {
    let [sum, weight] = [0, 0];
    for (const point of state.points.slice(count_early(state))) {
      const value = line.read(point);
      if (value === null) continue;
      sum += value * line.weigh(point);
      weight += line.weigh(point);
    }
    return weight ? sum / weight : null;
  }

  // --- Charts ------------------------------------------------------------------------------

  function choose_ticks(high) {
    const rough = high / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((digit) => digit * power).find((it) => it >= rough * 0.999);
    const steps = Math.ceil(high / step - 1e-9);
    return [...Array(steps + 1).keys()].map((place) => place * step);
  }

  function find_top(chart, lines, before) {
    if (chart.is_share) return 1;
    const points = [...view.state.points, ...(before?.points ?? [])];
    const most = Math.max(0, ...points.flatMap((point) => lines.map((line) => line.read(point) ?? 0)));
    return most || 1;
  }

  function draw_axes(svg, chart, frame) {
    const { width, height, x, y, ticks } = frame;
    const early = count_early(view.state);
    if (early) {
      svg.append(shape("rect", { class: "burn-in", x: x(0), y: EDGE.top, width: x(early) - x(0), height: height - EDGE.top - EDGE.bottom }));
    }
    for (const tick of ticks) {
      svg.append(shape("line", { class: tick ? "grid" : "axis", x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) }));
      svg.append(shape("text", { x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, say(tick, chart)));
    }
    const shares = width > 300 ? [0, 25, 50, 75, 100] : [0, 50, 100];
    for (const share of shares) {
      const at = EDGE.left + ((width - EDGE.left - EDGE.right) * share) / 100;
      const text = share === 100 ? "jobs" : `${share}%`;
      svg.append(shape("text", { x: at, y: height - 8, "text-anchor": share === 100 ? "end" : "middle" }, text));
    }
  }

  function name_burn_in(svg, frame) {
    if (count_early(view.state)) svg.append(shape("text", { class: "early", x: frame.x(0) + 4, y: EDGE.top + 14 }, "burn-in"));
  }

  function draw_line(line, look, state, frame, is_before) {
    let path = "";
    let is_begun = false;
    state.points.forEach((point, place) => {
      const value = line.read(point);
      if (value === null || value === undefined) { is_begun = false; return; }
      path += `${is_begun ? "L" : "M"}${frame.x(place + 0.5).toFixed(1)} ${frame.y(value).toFixed(1)}`;
      is_begun = true;
    });
    if (state.points.length === 1 && path) path += "h4";
    return shape("path", { class: `line line-${look % LOOKS}${is_before ? " before" : ""}`, d: path });
  }

  function draw_chart(chart) {
    const section = by_id(chart.name);
    const place = section.querySelector(".plot");
    const [width, height] = [place.clientWidth, place.clientHeight];
    const { state, before } = view;
    const lines = list_lines(chart, state);
    const ticks = choose_ticks(find_top(chart, lines, before));
    const [top, most] = [ticks[ticks.length - 1], state.most_points];
    const frame = {
      width, height, ticks,
      x: (at) => EDGE.left + ((width - EDGE.left - EDGE.right) * at) / most,
      y: (value) => height - EDGE.bottom - ((height - EDGE.top - EDGE.bottom) * value) / top,
    };
    const last = state.points[state.points.length - 1];
    const words = lines.map((line) => `${line.label} ${last ? say(line.read(last), chart) : "–"}`).join(", ");
    const svg = shape("svg", { role: "img", viewBox: `0 0 ${width} ${height}`, "aria-label": `${chart.title}, ${chart.unit}, now: ${words || "nothing yet"}` });
    draw_axes(svg, chart, frame);
    if (before && before.most_points === most) lines.forEach((line, look) => svg.append(draw_line(line, look, before, frame, true)));
    lines.forEach((line, look) => svg.append(draw_line(line, look, state, frame, false)));
    name_burn_in(svg, frame);
    place.replaceChildren(svg);
    show_legend(section.querySelector(".legend"), lines);
  }

  function show_legend(list, lines) {
    const labels = lines.map((line) => line.label);
    if (view.before) labels.push("faint: before the last change");
    if (list.dataset.labels === labels.join("\n")) return;
    list.dataset.labels = labels.join("\n");
    list.replaceChildren(...labels.map((label, look) => {
      if (look === lines.length) return element("li", { class: "soft" }, label);
      const swatch = shape("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
      swatch.append(shape("path", { class: `line line-${look % LOOKS}`, d: "M0 5H26" }));
      return element("li", {}, swatch, label);
    }));
  }

  // --- The page ----------------------------------------------------------------------------

  function show_numbers() {
    const { state } = view;
    const last = state.points[state.points.length - 1];
    const rows = given.charts.flatMap((chart) => list_lines(chart, state).map((line) => {
      const label = chart.lines.length ? line.label : `reputation, ${line.label}`;
      const unit = chart.in_percent || chart.unit === line.label || !chart.lines.length ? "" : ` (${chart.unit})`;
      return element("tr", {},
        element("td", {}, label + unit),
        element("td", {}, last ? say(line.read(last), chart) : "–"),
        element("td", {}, say(take_mean(line, state), chart)));
    }));
    document.querySelector("#numbers tbody").replaceChildren(...rows);
    const early = state.burn_in ? `the first ${count(state.burn_in)}, which are burn-in` : "none: there is no burn-in";
    by_id("means").textContent = `Now: the newest point. Mean: of all jobs that are settled, but ${early}.`;
  }

  function show_sums() {
    const { counts } = view.state;
    by_id("no-sums").hidden = counts !== null;
    if (!counts) { by_id("sums").replaceChildren(); return; }
    const sums = {
      "jobs after the burn-in": count(counts.jobs),
      "right, wrong answers": `${count(counts.right)}, ${count(counts.wrong)}`,
      "void, unserved": `${count(counts.void)}, ${count(counts.unserved)}`,
      "cheated in, caught": `${count(counts.cheated)}, ${count(counts.caught)}`,
      "audited, disputed": `${count(counts.audited)}, ${count(counts.disputed)}`,
      clients: say_ether(counts.client_gwei),
      "honest providers": say_ether(counts.honest_gwei),
      "other providers": say_ether(counts.cheat_gwei),
      watchers: say_ether(counts.watcher_gwei),
      "fees for gas": say_ether(-counts.fees_gwei),
    };
    by_id("sums").replaceChildren(...Object.entries(sums).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  function show_source() {
    const { state } = view;
    const bar = by_id("progress");
    const told = state.progress;
    bar.max = state.jobs;
    bar.value = state.status === "done" ? state.jobs : told?.what === "jobs" ? told.done : 0;
    const problem = view.lost ?? view.problem ?? state.problem;
    by_id("problem").hidden = !problem;
    if (by_id("problem").textContent !== (problem ?? "")) by_id("problem").textContent = problem ?? "";
    if (view.lost) show_status("no answer", "stopped");
    else if (state.status === "failed") show_status("failed", "stopped");
    else if (state.status === "done") show_status(`done: ${plural(state.jobs, "job")} in ${plural(state.counts.blocks, "block")}`, "");
    else if (told && told.what !== "jobs") show_status(`makes ready: ${told.what}`, "live");
    else show_status(state.status === "begins" ? "begins" : "runs", "live");
  }

  function show_settings() {
    const { settings } = view.state;
    by_id("settings").hidden = !settings.length;
    const parts = settings.flatMap((setting) => [element("code", {}, `--set ${setting}`), " "]);
    by_id("settings").replaceChildren("The same market, with its tables: ", ...parts, element("code", {}, "-o DIR"), " instead of ", element("code", {}, "--watch"));
  }

  function show() {
    show_source();
    show_settings();
    given.charts.forEach(draw_chart);
    show_numbers();
    show_sums();
  }

  // --- Sliders -----------------------------------------------------------------------------

  function show_slider(input) {
    const text = `${say_number(Number(input.value))}`;
    document.querySelector(`output[for="${input.id}"]`).textContent = text;
    input.setAttribute("aria-valuetext", `${text} ${input.dataset.unit}`);
  }

  function set_sliders() {
    for (const input of inputs.filter((it) => !it.matches(":active"))) {
      input.value = view.state.values[input.dataset.key];
      show_slider(input);
    }
  }

  const describe = (state) => JSON.stringify([state.run, state.status, state.progress, state.points.length]);

  function take(state) {
    const seen = view.state;
    view.lost = null;
    if (state.run < seen.run) return false;
    view.state = state;
    if (state.run > seen.run) {
      if (seen.points.length) view.before = seen;
      if (!Object.keys(view.moved).length) set_sliders();
    }
    if (describe(state) === describe(seen)) show_source();
    else show();
    return false;
  }

  async function send() {
    // One request at a time: what is moved meanwhile is sent with the next.
    if (view.is_asking) return;
    view.is_asking = true;
    while (Object.keys(view.moved).length) {
      const values = view.moved;
      view.moved = {};
      try {
        const headers = { "Content-Type": "application/json", "X-Moot-Token": given.token };
        const answer = await fetch("market", { method: "POST", headers, body: JSON.stringify(values) });
        const told = await answer.json();
        view.problem = answer.ok ? null : told.problem;
        if (answer.ok) take(told);
        else if (!Object.keys(view.moved).length) set_sliders();
      } catch {
        view.lost = "the program that serves this page does not answer";
      }
      show_source();
    }
    view.is_asking = false;
  }

  function move(values) {
    Object.assign(view.moved, values);
    clearTimeout(view.timer);
    view.timer = setTimeout(send, REST_MS);
  }

  for (const input of inputs) {
    input.addEventListener("input", () => show_slider(input));
    input.addEventListener("change", () => move({ [input.dataset.key]: Number(input.value) }));
  }
  by_id("reset").addEventListener("click", () => {
    move(Object.fromEntries(inputs.map((input) => [input.dataset.key, Number(input.dataset.value)])));
    for (const input of inputs) { input.value = input.dataset.value; show_slider(input); }
  });
  by_id("sliders").addEventListener("submit", (event) => event.preventDefault());
  let width = 0;
  new ResizeObserver(() => {
    const now = document.querySelector(".plot").clientWidth;
    if (now === width) return;
    width = now;
    given.charts.forEach(draw_chart);
  }).observe(document.querySelector(".plot"));

  set_sliders();
  show();
  follow({
    address: () => "market", every: POLL_MS, take,
    lose: (problem) => { view.lost = problem; show_source(); },
  });
})();
