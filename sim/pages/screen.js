"use strict";
// What the pages have in common that a server may tell news: elements, numbers, and how they ask.
// All that comes from a server or a record is put into a page as text.
const Page = (() => {
  const POLL_MS = 1000;

  const by_id = (id) => document.getElementById(id);
  const count = (value) => Number(value).toLocaleString("en");
  const plural = (number, unit) => `${count(number)} ${number === 1 ? unit : `${unit}s`}`;

  function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "class") made.className = value;
      else if (key in made) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  function shape(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function show_status(text, kind) {
    const place = by_id("status");
    if (place.textContent !== text) place.textContent = text;
    place.className = kind;
  }

  function follow({ address, take, lose, every = POLL_MS }) {
    // Asks the page's server again and again; `take` says whether there is more at once.
    async function poll() {
      let again = every;
      try {
        const answer = await fetch(address(), { cache: "no-store" });
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        if (take(await answer.json())) again = 0;
      } catch {
        lose("the program that serves this page does not answer");
        again = 4 * every;
      }
      setTimeout(poll, again);
    }
    poll();
  }

  return { by_id, count, plural, element, shape, show_status, follow };
})();
