// Looks at a page as it is laid out, and returns what is wrong with it, as sentences by property.
(smallest) => {
  const NUMBER = /0x[0-9a-f]+(…[0-9a-f]+)?|[-−+]?\d[\d,.]*(e[-−+]?\d+)?/gi;
  const SLACK = 1.5; // pixels: edges are rounded, and a line's box is higher than its letters
  const found = { "broken numbers": [], overflow: [], "no hint": [], unreachable: [], overlaps: [], small: [], cut: [] };
  const style = getComputedStyle;
  const scrolls = (it, axis = "X") => ["auto", "scroll"].includes(style(it)[`overflow${axis}`]);
  const ancestors = (it) => { const all = []; for (let at = it; at; at = at.parentElement) all.push(at); return all; };

  function is_seen(it) {
    return it.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      && !it.closest("noscript, script, style, option, svg title, .hidden, .skip");
  }

  // Corners of texts, in the order in which one goes around them: a picture's texts may be turned.
  const corners = (box) => [[box.left, box.top], [box.right, box.top], [box.right, box.bottom], [box.left, box.bottom]];

  function turn_corners(text) {
    const { x, y, width, height } = text.getBBox();
    const to_screen = text.getScreenCTM();
    const made = [[x, y], [x + width, y], [x + width, y + height], [x, y + height]];
    return made.map(([left, top]) => { const at = new DOMPoint(left, top).matrixTransform(to_screen); return [at.x, at.y]; });
  }

  function clip_box(box, it) {
    // What a container that scrolls shows of a box.
    let { left, top, right, bottom } = box;
    for (const at of ancestors(it).filter((one) => scrolls(one) || scrolls(one, "Y"))) {
      if (at === document.documentElement || at === document.body) continue;
      const frame = at.getBoundingClientRect();
      [left, top] = [Math.max(left, frame.left), Math.max(top, frame.top)];
      [right, bottom] = [Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    }
    return right - left > 2 && bottom - top > 2 ? { left, top, right, bottom } : null;
  }

  // What floats above the rest is not compared with what is below it.
  const find_layer = (it) => ancestors(it).find((at) => ["fixed", "sticky"].includes(style(at).position)) ?? null;

  function list_texts() {
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const it = node.parentElement;
      const said = node.data.trim();
      if (!said || !is_seen(it) || it.closest("svg text")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].map((box) => clip_box(box, it)).filter(Boolean);
      const size = parseFloat(style(it).fontSize);
      texts.push({ said, it, node, size, layer: find_layer(it), boxes: boxes.map(corners) });
    }
    for (const it of document.querySelectorAll("svg text")) {
      const said = it.textContent.trim();
      if (!said || !is_seen(it) || !it.getBBox().width) continue;
      const scale = Math.hypot(it.getScreenCTM().a, it.getScreenCTM().b);
      texts.push({ said, it, size: parseFloat(style(it).fontSize) * scale, layer: find_layer(it), boxes: [turn_corners(it)] });
    }
    return texts;
  }

  const span = (shape, [x, y]) => { const all = shape.map((at) => at[0] * x + at[1] * y); return [Math.min(...all), Math.max(...all)]; };

  function overlap(one, other) {
    // Two shapes without hollows lie apart if some side of one of them has the other beyond it.
    return [one, other].every((shape) => [0, 1].every((side) => {
      const [x, y] = [shape[side + 1][0] - shape[side][0], shape[side + 1][1] - shape[side][1]];
      const across = [-y / Math.hypot(x, y), x / Math.hypot(x, y)];
      const [[low, high], [from, to]] = [span(one, across), span(other, across)];
      return Math.min(high, to) - Math.max(low, from) > SLACK;
    }));
  }

  function find_overlaps(things) {
    const boxes = things.flatMap((thing) => thing.boxes.map((shape) => ({ thing, shape, across: span(shape, [1, 0]), down: span(shape, [0, 1]) })));
    boxes.sort((one, other) => one.down[0] - other.down[0]);
    boxes.forEach((one, place) => {
      for (let next = place + 1; next < boxes.length && boxes[next].down[0] < one.down[1] - SLACK; next += 1) {
        const other = boxes[next];
        const is_apart = one.across[1] < other.across[0] || other.across[1] < one.across[0];
        const is_same = one.thing === other.thing || (one.thing.is_picture && other.thing.is_picture) || one.thing.layer !== other.thing.layer || one.thing.it.contains(other.thing.it) || other.thing.it.contains(one.thing.it);
        if (!is_apart && !is_same && overlap(one.shape, other.shape)) found.overlaps.push(`"${one.thing.said}" lies on "${other.thing.said}"`);
      }
    });
  }

  function find_broken_numbers({ said, node }) {
    for (const { 0: number, index } of node ? node.data.matchAll(NUMBER) : []) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + number.length);
      const lines = new Set([...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top)));
      if (lines.size > 1) found["broken numbers"].push(`${number} in "${said}"`);
    }
  }

  function look_at_containers() {
    const width = document.documentElement.clientWidth;
    if (document.scrollingElement.scrollWidth > width) found.overflow.push(`the page is ${document.scrollingElement.scrollWidth} wide, and its window ${width}`);
    for (const it of document.querySelectorAll("body, body *")) {
      if (!is_seen(it) || it instanceof SVGElement || it === document.body || it.scrollWidth <= it.clientWidth + 1 || !it.clientWidth) continue;
      const name = it.ariaLabel || it.id || it.className || it.tagName;
      if (!scrolls(it)) {
        if (style(it).overflowX !== "visible" && !it.matches("select")) found.cut.push(`${name} hides a part of itself`);
        continue;
      }
      const hint = it.previousElementSibling;
      if (!hint?.matches(".hint") || !is_seen(hint) || !hint.textContent.includes("column")) found["no hint"].push(name);
      if (it.tabIndex < 0) found.unreachable.push(name);
    }
  }

  function look_at_edges({ said, it, boxes }) {
    // A picture's text lies inside the picture, and any text inside the window.
    const frame = (it.closest("svg text") ? it.closest("svg.main-svg, svg") : document.documentElement).getBoundingClientRect();
    for (const shape of boxes) {
      const [[left, right], [top, bottom]] = [span(shape, [1, 0]), span(shape, [0, 1])];
      const is_inside = left >= frame.left - SLACK && right <= frame.right + SLACK && top >= frame.top - SLACK && bottom <= frame.bottom + SLACK;
      if (!is_inside) found.cut.push(`"${said}" ends beyond the edge`);
    }
  }

  const texts = list_texts();
  for (const text of texts) {
    find_broken_numbers(text);
    look_at_edges(text);
    if (text.size < smallest) found.small.push(`"${text.said}" has ${text.size} pixels`);
  }
  const pictures = [...document.querySelectorAll("figure svg")].filter((it) => is_seen(it) && !it.parentElement.closest("svg, .modebar"));
  const labels = texts.filter(({ it }) => !it.closest("svg"));
  find_overlaps(texts);
  find_overlaps([...labels, ...pictures.map((it) => ({ said: "a picture", is_picture: true, it, layer: find_layer(it), boxes: [corners(it.getBoundingClientRect())] }))]);
  look_at_containers();
  for (const name of Object.keys(found)) found[name] = [...new Set(found[name])];
  return { texts: texts.length, ...found };
}
