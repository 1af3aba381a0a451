"use strict";
// Says above each table what of it is hidden: how many columns and rows one may scroll to.
(() => {
  const say = (count, unit, arrow) => (count ? `${count} ${count === 1 ? unit : `${unit}s`} ${arrow}` : "");

  function count_hidden(box) {
    const frame = box.getBoundingClientRect();
    const heads = [...box.querySelectorAll("thead th")].map((it) => it.getBoundingClientRect());
    const rows = [...box.querySelectorAll("tbody tr")].map((it) => it.getBoundingClientRect());
    const top = frame.top + (heads.length ? heads[0].height : 0);
    return {
      left: heads.filter((it) => it.left < frame.left - 1).length,
      right: heads.filter((it) => it.right > frame.right + 1).length,
      above: rows.filter((it) => it.top < top - 1).length,
      below: rows.filter((it) => it.bottom > frame.bottom + 1).length,
    };
  }

  for (const box of document.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "hint";
    box.before(hint);
    const look = () => {
      const { left, right, above, below } = count_hidden(box);
      const parts = [say(left, "column", "←"), say(right, "column", "→"), say(above, "row", "↑"), say(below, "row", "↓")];
      const text = parts.filter(Boolean).join(", ");
      hint.hidden = !text;
      hint.textContent = text && `Scroll for ${text}`;
      box.classList.toggle("left", left > 0);
      box.classList.toggle("right", right > 0);
    };
    box.addEventListener("scroll", look, { passive: true });
    new MutationObserver(look).observe(box, { childList: true, subtree: true });
    const sizes = new ResizeObserver(look);
    sizes.observe(box);
    sizes.observe(box.firstElementChild);
  }
})();
