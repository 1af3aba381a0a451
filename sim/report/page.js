"use strict";
// Draws the figures that stand in the page as JSON, and shows one game at a time.
(() => {
  const CONFIG = { responsive: true, displaylogo: false };
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222"];

  const NARROW = 620;
  const SMALL = 12; // pixels of texts in a narrow plot

  function wrap(text, width) {
    // Lines of at most so many pixels, if words allow it; a dot ends a word, too.
    const most = Math.floor(width / (SMALL * 0.62));
    const lines = [""];
    for (const word of text.match(/[^ .]*[ .]?/g)) {
      const line = lines[lines.length - 1];
      if (line && line.length + word.trimEnd().length > most) lines.push(word);
      else lines[lines.length - 1] += word;
    }
    return lines.join("<br>");
  }

  function narrow_axis(axis, data, letter, room) {
    // Names of categories take two lines; else half of the plot would be names.
    const text = axis?.title?.text;
    const made = { ...axis, tickfont: { size: SMALL }, tickangle: axis?.tickangle ?? 0, nticks: letter === "x" ? 5 : undefined };
    if (text) made.title = { ...axis.title, text: wrap(text, room), font: { size: SMALL } };
    const names = [...new Set(data.flatMap((trace) => [...(trace[letter] ?? [])]))];
    if (letter === "y" && names.length && names.every((it) => typeof it === "string")) {
      made.tickvals = names;
      made.ticktext = names.map((it) => it.replace(/(.*)[+]/, "$1+<br>"));
    }
    return made;
  }

  function fit(figure, width) {
    // In a narrow place the legend goes above the plot, and texts become smaller.
    if (width >= NARROW) return figure;
    const { layout } = figure;
    const own = {
      ...layout,
      font: { ...layout.font, size: SMALL },
      margin: { l: 50, r: 8, t: 10, b: 60 },
      legend: { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
      xaxis: narrow_axis(layout.xaxis, figure.data, "x", width - 90),
      yaxis: narrow_axis(layout.yaxis, figure.data, "y", layout.height - 200),
    };
    const data = figure.data.map((trace) => (trace.type === "heatmap" ? narrow_heat(trace) : trace));
    return { data, layout: own };
  }

  function narrow_heat(trace) {
    // A few cells have room for their numbers, and then need no scale of colours.
    const is_small = trace.texttemplate && trace.x.length <= 5;
    const colorbar = { ...trace.colorbar, thickness: 12, title: { ...trace.colorbar.title, side: "right" } };
    return { ...trace, colorbar, showscale: !is_small, texttemplate: is_small ? trace.texttemplate : null };
  }

  function draw(place, figure) {
    const { height } = figure.layout;
    if (height) place.style.height = `${height}px`; // stays so when the page gets narrower
    const { data, layout } = fit(figure, place.clientWidth);
    Plotly.react(place, data, layout, CONFIG);
  }

  const drawn = new Map();
  for (const place of document.querySelectorAll(".plot")) {
    drawn.set(place, JSON.parse(place.parentElement.querySelector("script.figure").textContent));
  }
  let was_narrow = null;
  new ResizeObserver(([{ contentRect }]) => {
    const is_narrow = contentRect.width < NARROW;
    if (is_narrow === was_narrow) return;
    was_narrow = is_narrow;
    for (const [place, figure] of drawn) draw(place, figure);
  }).observe(document.querySelector("main section"));

  const data = document.getElementById("data");
  if (!data) return;
  const { columns, games } = JSON.parse(data.textContent);
  const select = document.getElementById("game");
  const before = document.getElementById("before");
  const after = document.getElementById("after");
  const show_number = (value) => value.toLocaleString("en");
  const escape_markup = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

  function fill_table(moves) {
    let sum = 0;
    const rows = moves.map((move) => {
      sum += move.gas;
      const cells = [move.move, move.block, move.stage, move.player, move.call, move.gas, sum];
      const row = document.createElement("tr");
      for (const cell of cells) {
        const place = row.appendChild(document.createElement("td"));
        place.textContent = typeof cell === "number" ? show_number(cell) : cell;
      }
      return row;
    });
    document.querySelector("#moves tbody").replaceChildren(...rows);
  }

  function draw_moves(moves) {
    const players = [...new Set(moves.map((move) => move.player))];
    const traces = players.map((player, number) => {
      const own = moves.filter((move) => move.player === player);
      return {
        type: "bar",
        name: escape_markup(player),
        x: own.map((move) => move.move),
        y: own.map((move) => move.gas / 1000),
        text: own.map((move) => escape_markup(`${move.stage}: ${move.call}`)),
        textposition: "none",
        hovertemplate: "move %{x}, %{text}<br>%{y:,.1f} thousand gas",
        marker: { color: COLOURS[number % COLOURS.length] },
      };
    });
    const axis = { automargin: true, showline: true, linecolor: "#888888", ticks: "outside" };
    const layout = {
      height: 320,
      margin: { l: 70, r: 20, t: 10, b: 50 },
      font: { family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 14 },
      barmode: "stack",
      showlegend: true,
      xaxis: { ...axis, title: { text: "move" } },
      yaxis: { ...axis, title: { text: "gas (thousands)" } },
    };
    const place = document.querySelector(".moves");
    drawn.set(place, { data: traces, layout });
    draw(place, drawn.get(place));
  }

  function show_game(number) {
    const game = games[number];
    const moves = game.moves.map((move) => Object.fromEntries(columns.map((c, i) => [c, move[i]])));
    document.getElementById("title").textContent =
      `Run ${game.run}, game ${game.game} (job ${game.job}, repetition ${game.rep}, seed ${game.seed}), ${game.fidelity}: ` +
      `${game.lineup} by ${game.strategies} → ${game.outcome}, ${moves.length} moves`;
    select.value = String(number);
    before.disabled = number === 0;
    after.disabled = number === games.length - 1;
    fill_table(moves);
    draw_moves(moves);
  }

  select.addEventListener("change", () => show_game(Number(select.value)));
  before.addEventListener("click", () => show_game(Number(select.value) - 1));
  after.addEventListener("click", () => show_game(Number(select.value) + 1));
  show_game(0);
})();
