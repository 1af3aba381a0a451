"use strict";
// Shows a record of a court: its state after any frame, and a match's search as a picture.
// All that comes from a record is put into the page as text. docs/how-to/court.md describes the record.
(() => {
  const { by_id, count, plural, element, shape, show_status, follow } = Page;
  const PLAY_MS = 900;
  const UNITS = {
    history: "checkpoint", interval: "step", trace: "operator", state: "slot",
    tensor: "chunk", chunk: "element", fold: "term",
  };
  const STAGES = {
    history: "History", interval: "Interval", trace: "Step", state: "State",
    tensor: "Output", chunk: "Chunk", fold: "Sum",
  };
  const ABOUT = {
    history: "the states at every checkpoint", interval: "the states after each step",
    trace: "the outputs of all operators", state: "the tensors after the step",
    tensor: "256-byte chunks of one output", chunk: "the elements of one chunk",
    fold: "the terms of one sum",
  };
  const OUTCOMES = { first: 0, second: 1 };
  const SIDES = ["first", "second"];

  const still = window.matchMedia("(prefers-reduced-motion: reduce)");

  const given = JSON.parse(by_id("record").textContent);
  const court = {
    about: given.court, names: given.names, frames: given.frames, head: given.head,
    epoch: 0, problem: null, is_live: given.is_live === true,
  };
  const view = { job: null, match: null, by: "move", at: 0, follows: true, timer: null, rows: 0 };

  // --- The state after a frame -------------------------------------------------------------

  function fold_frames(limit) {
    const state = { jobs: new Map(), members: new Map(), claims: new Map(), matches: new Map() };
    for (let index = 0; index < limit; index += 1) {
      const frame = court.frames[index];
      for (const job of frame.jobs ?? []) state.jobs.set(job.number, job);
      for (const it of frame.members ?? []) state.members.set(`${it.job} ${it.address}`, it);
      for (const it of frame.claims ?? []) state.claims.set(`${it.job} ${it.top}`, it);
      for (const match of frame.matches ?? []) state.matches.set(match.number, match);
    }
    return state;
  }

  const of_job = (map) => [...map.values()].filter((it) => it.job === view.job);

  function read_line() {
    // The places of the slider: how many there are, what is shown at each, and where a frame is.
    const { frames } = court;
    if (view.by === "block") {
      const first = frames.length ? frames[0].block : court.head;
      const count_until = (block) => {
        let [low, high] = [0, frames.length];
        while (low < high) {
          const middle = (low + high) >> 1;
          if (frames[middle].block <= block) low = middle + 1;
          else high = middle;
        }
        return low;
      };
      return {
        length: Math.max(court.head, first) - first + 1,
        at: (place) => ({ shown: count_until(first + place), block: first + place }),
        find: (shown) => (shown ? frames[shown - 1].block - first : 0),
      };
    }
    const moves = [];
    frames.forEach((frame, index) => {
      if (view.job === null || frame.job === view.job) moves.push(index);
    });
    const last = moves.length - 1;
    return {
      length: Math.max(1, moves.length),
      at: (place) => {
        if (last < 0) return { shown: 0, block: court.head };
        const { block } = frames[moves[place]];
        return { shown: moves[place] + 1, block: place === last ? Math.max(block, court.head) : block };
      },
      find: (shown) => {
        const place = moves.findIndex((index) => index + 1 >= shown);
        return place < 0 ? Math.max(0, last) : place;
      },
    };
  }

  // --- Names -------------------------------------------------------------------------------

  const say_number = (value) => (value.number || shorten(value.bits)).replaceAll("-", "−");
  const shorten = (hex, digits = 4) =>
    hex.length > 2 * digits + 3 ? `${hex.slice(0, digits + 2)}…${hex.slice(-4)}` : hex;
  const name_account = (address) =>
    (Object.hasOwn(court.names, address) ? court.names[address] : shorten(address));
  const say_ether = (wei) => {
    const value = Number(BigInt(wei) / 10n ** 9n) / 1e9;
    return `${value.toLocaleString("en", { maximumFractionDigits: 6 })} ETH`;
  };

  function name_place(tree, low, high, label) {
    const unit = UNITS[tree] ?? tree;
    if (tree === "trace" && high - low === 1 && label === "state") return "the state after the step";
    if (high - low === 1) return `${unit} ${count(low)}${label ? `, ${label}` : ""}`;
    return `${unit}s ${count(low)} to ${count(high - 1)}`;
  }

  // --- The search as rows ------------------------------------------------------------------

  function list_rows(number, limit) {
    // Each row is an opening, and what was picked in it, if anything was.
    const rows = [];
    for (let index = 0; index < limit; index += 1) {
      const frame = court.frames[index];
      if (frame.match !== number) continue;
      const match = (frame.matches ?? []).find((it) => it.number === number);
      if (frame.pick) {
        let row = rows[rows.length - 1];
        if (!row || row.pick || row.tree !== frame.pick.tree) {
          const { tree, low, high, by } = frame.pick;
          row = { tree, low, high, count: high, starts: [low], by: [1 - by], values: [], labels: [], frame: index };
          rows.push(row);
        }
        row.pick = frame.pick;
        row.picked = index;
        row.found = match ? match.found : {};
      }
      if (frame.opening) {
        const row = rows[rows.length - 1];
        const { tree, low, high } = frame.opening;
        if (row && !row.pick && row.tree === tree && row.low === low && row.high === high) {
          row.by.push(frame.opening.by);
        } else {
          const { starts, values = [], labels = [] } = frame.opening;
          rows.push({ tree, low, high, count: frame.opening.count, starts, values, labels, by: [frame.opening.by], frame: index });
        }
      }
    }
    return rows;
  }

  function draw_picture(match, rows) {
    const place = by_id("picture");
    const width = Math.max(260, place.clientWidth);
    const is_narrow = width < 620;
    const left = is_narrow ? 0 : 158;
    const right = is_narrow ? 0 : 126;
    const inner = width - left - right;
    const head = is_narrow ? 22 : 0;
    const bar = 30;
    const gap = 50;
    const svg = shape("svg", { role: "img", "aria-label": describe_search(match, rows) });
    let top = 4;
    rows.forEach((row, index) => {
      const is_last = index === rows.length - 1;
      const group = shape("g", { class: `row${is_last && rows.length > view.rows ? " new" : ""}`, "data-frame": row.picked ?? row.frame });
      draw_labels(group, row, { left, width, top, is_narrow, bar });
      const box = draw_parts(group, row, { left, inner, top: top + head, bar });
      if (row.pick) draw_funnel(group, row, box, { left, inner, top: top + head + bar, gap, width });
      svg.append(group);
      top += head + bar + (row.pick ? gap : 12);
    });
    svg.setAttribute("viewBox", `0 0 ${width} ${top}`);
    svg.setAttribute("height", top);
    place.replaceChildren(svg);
    view.rows = rows.length;
  }

  function draw_labels(group, row, at) {
    const middle = at.top + at.bar / 2;
    const total = row.high - row.low;
    const unit = UNITS[row.tree] ?? row.tree;
    const is_whole = row.tree === "trace" && row.high === row.count && total > 1;
    const size = is_whole ? `${plural(total - 1, unit)} + state` : plural(total, unit);
    const stage = STAGES[row.tree] ?? row.tree;
    if (at.is_narrow) {
      group.append(shape("text", { class: "stage", x: 0, y: at.top + 13 }, `${stage}: ${size.replace(" + state", "")}`));
    } else {
      group.append(shape("text", { class: "stage", x: 0, y: middle - 2 }, stage));
      group.append(shape("text", { class: "soft", x: 0, y: middle + 14 }, size));
    }
    const owners = [...new Set(row.by)];
    const kind = owners.length === 2 ? "soft" : `owner ${SIDES[owners[0]]}`;
    const who = owners.length === 2 ? "both sides" : side_name(owners[0]);
    const verb = owners.length === 2 ? "open" : "opens";
    if (at.is_narrow) {
      group.append(shape("text", { class: kind, x: at.width, y: at.top + 13, "text-anchor": "end" }, `${clip(who, 16)} ${verb}`));
    } else {
      group.append(shape("text", { class: kind, x: at.width - 114, y: middle - 2 }, clip(who, 15)));
      group.append(shape("text", { class: "soft", x: at.width - 114, y: middle + 14 }, `${verb} ${plural(row.starts.length, "part")}`));
    }
    group.append(shape("title", {}, `${stage}: ${ABOUT[row.tree] ?? row.tree}; ${size}, in ${row.starts.length} parts`));
  }

  const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const side_name = (side) => name_account(current.match.sides[side]);

  function draw_parts(group, row, at) {
    // Parts have the same width each; one that is picked has at least room for its number.
    const parts = row.starts.length;
    const picked = row.pick ? find_part(row, row.pick.low) : -1;
    const wide = picked >= 0 && parts > 12 ? Math.min(46, at.inner / 4) : 0;
    const each = wide ? (at.inner - wide) / (parts - 1) : at.inner / parts;
    const space = each > 6 ? 2 : each > 3 ? 1 : 0.4;
    let x = at.left;
    let box = null;
    row.starts.forEach((start, index) => {
      const size = index === picked && wide ? wide : each;
      const end = row.starts[index + 1] ?? row.high;
      const kind = picked < 0 ? `open ${SIDES[row.by[0]]}` : index < picked ? "agreed" : index === picked ? "differs" : "beyond";
      const drawn = shape("rect", { class: kind, x, y: at.top, width: Math.max(0.6, size - space), height: at.bar, rx: Math.min(4, size / 4) });
      const value = row.values[row.tree === "fold" ? index - 1 : index];
      const said = value ? `: ${say_number(value)}` : "";
      drawn.append(shape("title", {}, name_place(row.tree, start, end, row.labels[index]) + said));
      group.append(drawn);
      if (index === picked) {
        box = { from: x, to: x + size - space };
        if (size > 26) {
          const text = end - start === 1 ? count(start) : `${count(start)}–${count(end - 1)}`;
          if (text.length * 8 < size) group.append(shape("text", { class: "inside", x: x + size / 2, y: at.top + at.bar / 2 + 5 }, text));
        }
      }
      x += size;
    });
    return box;
  }

  function find_part(row, low) {
    let part = 0;
    row.starts.forEach((start, index) => { if (start <= low) part = index; });
    return part;
  }

  function draw_funnel(group, row, box, at) {
    const bottom = at.top + at.gap - 4;
    const points = [[box.from, at.top], [box.to, at.top], [at.left + at.inner - 2, bottom], [at.left, bottom]];
    group.append(shape("polygon", { class: "funnel", points: points.map((it) => it.join(",")).join(" ") }));
    const { pick } = row;
    const picker = side_name(pick.by);
    const found = row.tree === "trace" && row.found.step !== undefined && !row.found.operator && pick.high === row.count && pick.high - pick.low === 1
      ? "the state after the step" : name_place(pick.tree, pick.low, pick.high, pick.label);
    const verb = `${clip(picker, 24)} picks ${found}`;
    const middle = at.left + at.inner / 2;
    const room = at.inner / 7;
    const text = shape("text", { class: "found", x: middle, y: at.top + (row.tree === "fold" ? 22 : 29), "text-anchor": "middle" }, clip(verb, room));
    group.append(text);
    if (row.tree === "fold" && row.found.claimed) group.append(draw_sums(row.found, middle, at.top + 39, room));
  }

  function draw_sums(found, x, y, room) {
    // What the sum is before and after the terms in dispute; the two sides' words in their colours.
    // Numbers for which there is no room are left out: those before first.
    const line = shape("text", { class: "soft", x, y, "text-anchor": "middle" });
    const [first, second] = round_numbers(found.claimed);
    const known = found.agreed ? `${round_numbers([found.agreed])[0]} before, ` : "";
    const after = `${first} or ${second} after`.length;
    if (after > room) return line;
    const before = known.length + after > room ? "" : known;
    line.append(shape("tspan", {}, before), shape("tspan", { class: "owner first" }, first),
      shape("tspan", {}, " or "), shape("tspan", { class: "owner second" }, second), shape("tspan", {}, " after"));
    return line;
  }

  function round_numbers(values) {
    // Few digits, unless they are not enough to tell the values apart.
    const rounded = values.map((it) => (Number.isFinite(Number(it.number)) && it.number ? String(Number(Number(it.number).toPrecision(4))) : say_number(it)));
    const is_clear = new Set(rounded).size === rounded.length;
    return is_clear ? rounded.map((it) => it.replaceAll("-", "−")) : values.map((it) => say_number(it).split(",")[0]);
  }

  function describe_search(match, rows) {
    const told = rows.map((row) => {
      const total = plural(row.high - row.low, UNITS[row.tree] ?? row.tree);
      const rest = row.pick ? `the first difference is in ${name_place(row.tree, row.pick.low, row.pick.high, row.pick.label)}` : "nothing is picked yet";
      return `${STAGES[row.tree] ?? row.tree}, ${total} in ${row.starts.length} parts: ${rest}`;
    });
    return told.length ? `${told.join(". ")}.` : "No side has opened anything yet.";
  }

  // --- The match ---------------------------------------------------------------------------

  const current = { match: null, state: null, block: 0 };

  function show_crumbs(match) {
    const { found } = match;
    const crumbs = [];
    if (found?.checkpoint !== undefined && found.checkpoint !== null) crumbs.push(`checkpoint ${count(found.checkpoint)}`);
    if (found?.step !== undefined && found.step !== null) crumbs.push(`step ${count(found.step)}`);
    if (found?.operator) {
      const { index, name, kind, function: used } = found.operator;
      const what = name || (kind ? `${kind}${used && used !== "copy" ? ` by ${used}` : ""}` : "");
      crumbs.push(`operator ${count(index)}${what ? `, ${what}` : ""}`);
    }
    if (found?.element !== undefined && found.element !== null) crumbs.push(`element ${count(found.element)}`);
    if (found?.fold_length && found.low !== null && found.low !== undefined) {
      crumbs.push(found.high - found.low > 1 ? `terms ${count(found.low)} to ${count(found.high - 1)} of ${count(found.fold_length)}` : `term ${count(found.low)} of ${count(found.fold_length)}`);
    }
    if (!crumbs.length) crumbs.push("somewhere in the whole run");
    const items = crumbs.map((text, index) => element("li", { class: index === crumbs.length - 1 ? "now" : "", textContent: text }));
    by_id("crumbs").replaceChildren(...items);
  }

  function show_side(match, side) {
    const place = by_id(`side-${side}`);
    const address = match.sides[side];
    const member = current.state.members.get(`${match.job} ${address}`);
    const job = current.state.jobs.get(match.job);
    const is_mover = !match.end && match.phase !== "verifier" && match.mover === side;
    const left = match.end ? null : is_mover ? match.deadline - current.block : match.spare_blocks;
    const lost = match.end && match.end.ending !== "stopped" && (match.end.outcome === "neither" || OUTCOMES[match.end.outcome] === 1 - side);
    place.className = `side${lost ? " lost" : ""}`;
    const heading = element("h3", { textContent: name_account(address), title: address });
    const turn = element("span", { class: "turn", textContent: lost ? "has lost" : match.end ? (OUTCOMES[match.end.outcome] === side ? "was right" : "is out of this match") : is_mover ? "is to move" : "waits" });
    const facts = element("p", {}, turn,
      element("span", { textContent: `claims ${shorten(match.claims[side])}` }),
      element("span", { textContent: `${say_ether(job ? job.bond_wei : "0")} bond` }),
      element("span", { textContent: `${count(sum_gas(match, side))} gas` }));
    place.replaceChildren(heading, facts);
    if (left !== null) {
      const shown = Math.max(0, Math.min(left, match.clock_blocks));
      const fill = element("div");
      fill.style.width = `${(100 * shown) / Math.max(1, match.clock_blocks)}%`;
      const clock = element("div", { class: "clock", role: "meter", "aria-label": "Clock", "aria-valuemin": "0", "aria-valuemax": String(match.clock_blocks), "aria-valuenow": String(shown), "aria-valuetext": `${shown} blocks` }, fill);
      place.append(element("p", {}, element("span", { textContent: left < 0 ? "clock has run out" : `clock: ${plural(shown, "block")} left of ${match.clock_blocks}` })), clock);
    }
    if (member && member.standing === "defeated" && !lost) turn.textContent = "is defeated";
  }

  function sum_gas(match, side) {
    let gas = 0;
    for (let index = 0; index < current.shown; index += 1) {
      const frame = court.frames[index];
      if (frame.match === match.number && frame.call.sender === match.sides[side]) gas += frame.call.gas ?? 0;
    }
    return gas;
  }

  function show_verdict(match) {
    const place = by_id("verdict");
    const { end, scalar, found } = match;
    place.hidden = !end && match.phase !== "leaf";
    if (place.hidden) return;
    const parts = [element("h3", { id: "verdict-title", textContent: end ? say_ending(match) : "One scalar operation is left" })];
    if (scalar) {
      const operands = scalar.operands.map(say_number).join(", ");
      parts.push(element("p", { class: "operation", textContent: `${scalar.function}(${operands}) = ${say_number(scalar.computed)}` }));
    } else if (found?.operator && match.phase === "leaf") {
      const { name, kind, function: used } = found.operator;
      parts.push(element("p", { class: "operation", textContent: `${used || kind || "operator"} of ${name || `operator ${found.operator.index}`}` }));
    }
    if (found?.claimed) {
      const computed = scalar?.computed;
      const cards = [0, 1].map((side) => show_value(`${side_name(side)} claims`, found.claimed[side], SIDES[side], found.claimed[1 - side], computed));
      const middle = computed ? show_value("the contract computes", computed, "", computed) : element("div", { class: "value" }, element("h4", { textContent: "the contract" }), element("p", { class: "number", textContent: end ? "—" : "…" }), element("p", {}, element("code", { textContent: end ? "did not need to compute" : "waits for the proven operands" })));
      const is_long = [computed, ...found.claimed].some((it) => it && say_number(it).split(",")[0].length > 15);
      parts.push(element("div", { class: is_long ? "values long" : "values" }, cards[0], middle, cards[1]));
    }
    parts.push(element("p", { class: "sentence", textContent: say_result(match) }));
    place.replaceChildren(...parts);
  }

  function show_value(title, value, side, other, computed) {
    const card = element("div", { class: `value ${side}` }, element("h4", { textContent: title }),
      element("p", { class: "number", textContent: say_number(value) }),
      element("p", {}, element("code", { textContent: shorten(value.bits, 10) })));
    if (/^0x[0-9a-f]{1,16}$/.test(value.bits) && /^0x[0-9a-f]{1,16}$/.test(other.bits)) card.append(show_bits(value.bits, other.bits));
    if (computed) {
      const is_right = computed.bits === value.bits;
      card.append(element("p", { class: is_right ? "right" : "wrong", textContent: is_right ? "✓ right" : "✗ wrong" }));
    }
    return card;
  }

  function show_bits(own, other) {
    const size = 4 * (own.length - 2);
    const [mine, theirs] = [BigInt(own), BigInt(other)];
    const bits = element("div", { class: "bits", "aria-hidden": "true" });
    for (let place = size - 1; place >= 0; place -= 1) {
      const bit = (mine >> BigInt(place)) & 1n;
      const is_other = bit !== ((theirs >> BigInt(place)) & 1n);
      bits.append(element("i", { class: `${bit ? "one" : ""}${is_other ? " other" : ""}` }));
      if (size === 32 && (place === 31 || place === 23)) bits.append(element("i", { class: "gap" }));
    }
    return bits;
  }

  function say_ending(match) {
    return {
      scalar: "The contract computes the one operation that is left", clock: "A clock has run out",
      sink: "The state is compared with the step's output", empty: "An output without elements has one root only",
      verifier: "The bounded verifier has ruled", stopped: "This match stopped: a side or the job is out",
    }[match.end.ending] ?? match.end.ending;
  }

  function say_result(match) {
    if (!match.end) return "Whoever is right proves the operands to the contract.";
    const winner = OUTCOMES[match.end.outcome];
    const job = current.state.jobs.get(match.job);
    if (match.end.ending === "stopped") return "Nobody wins or loses by it.";
    if (winner === undefined) return match.end.outcome === "neither" ? "Neither side was right: both lose their bonds." : "Nobody has ruled: both are out, and keep their bonds.";
    const prize = job ? `, of which ${say_ether(job.prize_wei)} are the winner's prize` : "";
    return `${side_name(winner)} was right. ${side_name(1 - winner)} loses the bond${prize}.`;
  }

  function show_tabs(matches) {
    const tabs = by_id("tabs");
    const had_focus = tabs.contains(document.activeElement);
    tabs.replaceChildren(...matches.map((match) => {
      const is_chosen = match.number === view.match;
      const names = match.sides.map(name_account).join(" against ");
      const made = element("button", { type: "button", role: "tab", id: `tab-${match.number}`, "aria-selected": String(is_chosen), "aria-controls": "panel", tabIndex: is_chosen ? 0 : -1, textContent: `${names}${match.end ? " · over" : ""}` });
      made.addEventListener("click", () => choose_match(match.number));
      return made;
    }));
    tabs.hidden = matches.length < 2;
    by_id("panel").setAttribute("aria-labelledby", tabs.hidden ? "match-title" : `tab-${view.match}`);
    if (had_focus) by_id(`tab-${view.match}`)?.focus();
  }

  function choose_match(number) {
    view.match = number;
    view.rows = Infinity;
    show();
  }

  // --- The job -----------------------------------------------------------------------------

  function show_jobs(jobs) {
    by_id("jobs").replaceChildren(...jobs.map((job) => {
      const members = [...current.state.members.values()].filter((it) => it.job === job.number).length;
      const made = element("button", { type: "button", "aria-current": String(job.number === view.job) }, `Job ${job.number}`, element("small", { textContent: `${say_status(job)}, ${plural(members, "member")}` }));
      made.addEventListener("click", () => { view.job = job.number; view.match = null; view.rows = Infinity; go_to_end(); });
      return element("li", {}, made);
    }));
  }

  function say_status(job) {
    if (job.status !== "open") return { won: "won", empty: "without a winner", void: "void" }[job.status] ?? job.status;
    if (current.block <= job.commit_deadline) return "open to commit";
    if (current.block <= job.reveal_deadline) return "open to reveal";
    return (job.claims ?? 0) > 1 ? "in dispute" : current.block <= job.window_end ? "open to challenge" : "to be settled";
  }

  function show_facts(job) {
    const members = of_job(current.state.members);
    const bonded = BigInt(job.bond_wei) * BigInt(members.length);
    let gas = 0;
    let fees = 0n;
    for (let index = 0; index < current.shown; index += 1) {
      const { call, job: number } = court.frames[index];
      if (number !== job.number) continue;
      gas += call.gas ?? 0;
      fees += BigInt(call.gas ?? 0) * BigInt(call.gas_price_wei ?? "0");
    }
    const rows = [
      ["status", say_status(job)], ["client", name_account(job.client)],
      ["run", `${plural(job.steps, "step")}, a checkpoint every ${count(job.checkpoint_every)}`],
      ["a step", plural(job.operators, "operator")],
      ["decided by", job.leaf === "scalar" ? "one scalar operation" : "the bounded verifier"],
      ["reward", say_ether(job.reward_wei)], ["bonds", say_ether(String(bonded))],
      ["burned", say_ether(job.burned_wei ?? "0")], ["paid out", say_ether(job.paid_wei ?? "0")],
      ["gas", count(gas)], ["fees", say_ether(String(fees))],
      ["opened in", `block ${count(job.opened_block)}`], ["open to join until", `block ${count(job.window_end)}`],
    ];
    by_id("facts").replaceChildren(...rows.flatMap(([name, text]) => [element("dt", { textContent: name }), element("dd", { textContent: text })]));
    by_id("job-title").textContent = `Job ${job.number}`;
  }

  function show_members(job) {
    const gas = new Map();
    for (let index = 0; index < current.shown; index += 1) {
      const { call, job: number } = court.frames[index];
      if (number === job.number) gas.set(call.sender, (gas.get(call.sender) ?? 0) + (call.gas ?? 0));
    }
    by_id("members").replaceChildren(...of_job(current.state.members).map((member) => {
      const bond = { defeated: "bond lost", paid: "bond returned" }[member.standing] ?? `${say_ether(job.bond_wei)} bond`;
      const side = current.match ? current.match.sides.indexOf(member.address) : -1;
      const facts = [bond, plural(member.prizes ?? 0, "prize"), `${count(gas.get(member.address) ?? 0)} gas`];
      if (BigInt(member.paid_wei ?? "0")) facts.push(`${say_ether(member.paid_wei)} paid`);
      return element("li", { class: side < 0 ? "" : SIDES[side], title: member.address },
        element("strong", { textContent: name_account(member.address) }), ` ${say_standing(member.standing)}`,
        element("small", { textContent: facts.join(" · ") }));
    }));
  }

  function say_standing(standing) {
    return {
      committed: "has sealed a claim", revealed: "has shown its claim", late: "has joined late",
      defeated: "is defeated", paid: "is paid", released: "is released",
    }[standing] ?? standing;
  }

  function show_claims(job) {
    const claims = of_job(current.state.claims);
    by_id("claims").replaceChildren(...claims.map((claim) => {
      const side = current.match ? current.match.claims.indexOf(claim.top) : -1;
      const is_winner = job.winner === claim.top;
      const kinds = [side < 0 ? "" : SIDES[side], is_winner ? "won" : "", claim.contenders ? "" : "out"];
      const state = is_winner ? ", wins" : claim.contenders ? "" : ", out";
      return element("li", { class: kinds.join(" ").trim(), title: claim.top, textContent: `${shorten(claim.top)}: ${plural(claim.contenders, "contender")}${state}` });
    }));
    if (!claims.length) by_id("claims").replaceChildren(element("li", { textContent: job.hidden ? `${plural(job.hidden, "sealed claim")}` : "none yet" }));
  }

  function show_calls() {
    const rows = [];
    court.frames.forEach((frame, index) => {
      if (frame.job !== view.job) return;
      const is_now = index === current.shown - 1;
      const go = element("button", { type: "button", textContent: frame.text });
      go.addEventListener("click", () => go_to_frame(index));
      const row = element("tr", { class: is_now ? "now" : index >= current.shown ? "later" : "" },
        element("td", { textContent: count(frame.block) }), element("td", { textContent: name_account(frame.call.sender), title: frame.call.sender }),
        element("td", {}, go), element("td", { textContent: frame.call.name }), element("td", { textContent: frame.call.gas ? count(frame.call.gas) : "" }));
      if (is_now) row.setAttribute("aria-current", "step");
      rows.push(row);
    });
    const had_focus = by_id("calls").contains(document.activeElement);
    by_id("calls").replaceChildren(...rows);
    const now = by_id("calls").querySelector(".now");
    if (!now) return;
    const box = now.closest(".scroll");
    box.scrollTop = Math.max(0, now.offsetTop - box.clientHeight / 2);
    if (had_focus) now.querySelector("button").focus({ preventScroll: true });
  }

  // --- Time --------------------------------------------------------------------------------

  function show() {
    const everything = fold_frames(court.frames.length);
    const numbers = [...everything.jobs.keys()];
    if (!numbers.includes(view.job)) view.job = numbers.length ? numbers[numbers.length - 1] : null;
    const line = read_line();
    const end = line.length - 1;
    view.at = view.follows ? end : Math.max(0, Math.min(view.at, end));
    const stop = line.at(view.at);
    current.shown = stop.shown;
    current.block = stop.block;
    current.state = fold_frames(stop.shown);
    const slider = by_id("time");
    slider.max = String(end);
    slider.value = String(view.at);
    const said = view.by === "move" ? `move ${count(view.at + 1)} of ${count(line.length)}, block ${count(stop.block)}` : `block ${count(stop.block)} of ${count(court.head)}`;
    by_id("now").textContent = said;
    slider.setAttribute("aria-valuetext", said);
    for (const id of ["first", "back"]) by_id(id).disabled = view.at === 0;
    for (const id of ["last", "forward"]) by_id(id).disabled = view.at === end;
    show_jobs([...current.state.jobs.values()]);
    show_matches();
    const job = current.state.jobs.get(view.job);
    by_id("job").hidden = !job;
    if (job) {
      show_facts(job);
      show_claims(job);
      show_members(job);
    } else {
      by_id("claims").replaceChildren();
      by_id("members").replaceChildren();
    }
    show_calls();
  }

  function show_matches() {
    const matches = of_job(current.state.matches);
    if (!matches.some((it) => it.number === view.match)) {
      const moving = matches.filter((it) => !it.end);
      view.match = (moving[0] ?? matches[matches.length - 1])?.number ?? null;
    }
    current.match = current.state.matches.get(view.match) ?? null;
    by_id("match").hidden = !current.match;
    by_id("no-match").hidden = Boolean(current.match);
    by_id("no-match").textContent = view.job === null ? "This court has no job yet." : "No match has begun: nobody disputes a claim so far.";
    show_tabs(matches);
    if (!current.match) {
      by_id("picture").replaceChildren();
      return;
    }
    by_id("match-title").textContent = `${side_name(0)} against ${side_name(1)}`;
    show_side(current.match, 0);
    show_side(current.match, 1);
    show_crumbs(current.match);
    draw_picture(current.match, list_rows(view.match, current.shown));
    show_verdict(current.match);
  }

  function find_newest() {
    const verdict = by_id("verdict");
    return verdict.hidden ? by_id("picture").querySelector("g.row:last-of-type") : verdict;
  }

  function is_in_view(place) {
    const box = place?.getBoundingClientRect();
    return Boolean(box) && box.bottom > 0 && box.top < window.innerHeight;
  }

  function bring_into_view() {
    // What the shown move has changed is to be seen above the bar of time.
    const box = find_newest()?.getBoundingClientRect();
    if (!box || by_id("match").hidden) return;
    const limit = document.querySelector("footer").getBoundingClientRect().top - 16;
    const below = box.bottom - limit;
    const top = below > 0 ? below : Math.min(0, box.top - 16);
    if (top) window.scrollBy({ top, behavior: still.matches ? "auto" : "smooth" });
  }

  function step_to(place) {
    play(false);
    move_to(place);
    bring_into_view();
  }

  function move_to(place) {
    const end = read_line().length - 1;
    view.at = Math.max(0, Math.min(place, end));
    view.follows = view.at === end;
    show();
    const frame = court.frames[current.shown - 1];
    if (frame) announce(frame);
  }

  function go_to_end() { view.follows = true; show(); }

  function go_to_frame(index) { move_to(read_line().find(index + 1)); }

  function announce(frame) {
    by_id("news").textContent = `Block ${frame.block}: ${name_account(frame.call.sender)} ${frame.text}.`;
  }

  function play(starts) {
    clearInterval(view.timer);
    view.timer = null;
    by_id("play").setAttribute("aria-pressed", String(starts));
    by_id("play").textContent = starts ? "Pause" : "Play";
    if (!starts) return;
    if (view.at === read_line().length - 1) move_to(0);
    view.timer = setInterval(() => {
      move_to(view.at + 1);
      bring_into_view();
      if (view.at === read_line().length - 1 && !court.is_live) play(false);
    }, PLAY_MS);
  }

  // --- The server --------------------------------------------------------------------------

  function show_source() {
    if (!court.is_live) show_status(`record, up to block ${count(court.head)}`, "");
    else if (court.problem) show_status(`stopped at block ${count(court.head)}: ${court.problem}`, "stopped");
    else show_status(`live, block ${count(court.head)}`, "live");
  }

  function take(news) {
    // Frames of another epoch replace all others: the chain has replaced blocks.
    const is_replaced = news.epoch !== court.epoch;
    const is_same = !is_replaced && !news.frames.length && news.head === court.head;
    court.problem = news.problem;
    if (is_same) return news.more;
    if (is_replaced) court.frames = [];
    court.epoch = news.epoch;
    court.head = news.head;
    court.frames.push(...news.frames);
    const was_seen = is_in_view(find_newest());
    show();
    const own = news.frames.filter((frame) => frame.job === view.job);
    if (!view.follows || !own.length) return news.more;
    announce(own[own.length - 1]);
    if (was_seen) bring_into_view();
    return news.more;
  }

  // --- Controls ----------------------------------------------------------------------------

  by_id("time").addEventListener("input", (event) => step_to(Number(event.target.value)));
  by_id("first").addEventListener("click", () => step_to(0));
  by_id("back").addEventListener("click", () => step_to(view.at - 1));
  by_id("forward").addEventListener("click", () => step_to(view.at + 1));
  by_id("last").addEventListener("click", () => step_to(Infinity));
  by_id("play").addEventListener("click", () => play(view.timer === null));
  for (const choice of document.querySelectorAll("input[name=by]")) {
    choice.addEventListener("change", () => {
      const shown = current.shown;
      view.by = choice.value;
      if (!view.follows) view.at = read_line().find(shown);
      show();
    });
  }
  by_id("search").addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    step_to(view.at + steps[event.key]);
  });
  by_id("tabs").addEventListener("keydown", (event) => {
    const numbers = of_job(current.state.matches).map((it) => it.number);
    const at = numbers.indexOf(view.match);
    const places = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: numbers.length - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    choose_match(numbers[(places[event.key] + numbers.length) % numbers.length]);
    by_id(`tab-${view.match}`).focus();
  });
  by_id("picture").addEventListener("click", (event) => {
    const row = event.target.closest("g.row");
    if (row) go_to_frame(Number(row.dataset.frame));
  });
  let width = 0;
  new ResizeObserver(() => {
    const now = by_id("picture").clientWidth;
    if (now === width || !current.match) return;
    width = now;
    view.rows = Infinity;
    draw_picture(current.match, list_rows(view.match, current.shown));
  }).observe(by_id("picture"));

  if (still.matches) by_id("play").title = "One move after the other";
  show_source();
  show();
  if (court.is_live) {
    follow({
      address: () => `frames?epoch=${court.epoch}&from=${court.frames.length}`,
      take: (news) => { const has_more = take(news); show_source(); return has_more; },
      lose: (problem) => { court.problem = problem; show_source(); },
    });
  }
})();
