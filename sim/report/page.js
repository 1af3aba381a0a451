"use strict";
// Draws the figures that stand in the page as JSON, and shows one game at a time.
(() => {
  const CONFIG = { responsive: true, displaylogo: false };
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222"];

  for (const place of document.querySelectorAll(".plot")) {
    const figure = JSON.parse(place.parentElement.querySelector("script.figure").textContent);
    const { height } = figure.layout;
    if (height) place.style.height = `${height}px`; // stays so when the page gets narrower
    Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
  }

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
    Plotly.react(document.querySelector(".moves"), traces, layout, CONFIG);
  }

  function show_game(number) {
    const game = games[number];
    const moves = game.moves.map((move) => Object.fromEntries(columns.map((c, i) => [c, move[i]])));
    document.getElementById("title").textContent =
      `Run ${game.run}, game ${game.game} (job ${game.job}), ${game.fidelity}: ` +
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
