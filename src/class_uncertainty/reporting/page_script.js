// every table is sorted by a click on a heading: numbers from high to low, words from A to Z, missing values last
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], [body, rest] = table.tBodies, shown = body.rows.length;
  if (rest) {
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = `Show all ${shown + rest.rows.length} rows`;
    all.addEventListener("click", () => { rest.hidden = false; all.remove(); });
    table.parentElement.after(all);
  }
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rows = [...body.rows, ...(rest?.rows ?? [])], key = (row) => row.cells[column].dataset.sort;
      const isNumber = !head.classList.contains("words");
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : isNumber;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => (isNumber ? a - b : a.localeCompare(b, undefined, { numeric: true }));
      rows.sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
        return compare(x, y) * (down ? -1 : 1);
      });
      body.append(...rows.slice(0, shown));
      rest?.append(...rows.slice(shown));
    });
  });
}
// a class or a confusion opens its examples, which are parsed when they are first asked for
const parsed = new Map();
const dataOf = (button) => {
  const page = button.closest("article").dataset.page;
  if (!parsed.has(page)) {
    parsed.set(page, JSON.parse(document.querySelector(`script.examples[data-page="${page}"]`).textContent));
  }
  return parsed.get(page);
};
const percent = (p) => `${(100 * p).toFixed(p < 0.995 && p > 0.005 ? 0 : 1)} %`;
const element = (tag, text, parent) => {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
};
const card = (data, [label, guess, pLabel, pGuess, pWrong, name, thumb, link], list) => {
  const item = element("li", "", list);
  if (thumb >= 0) {
    const image = element("img", "", item);
    image.src = data.thumbs[thumb];
    image.alt = `Example ${name}`;
    if (image.src.startsWith("data:image/png")) image.className = "tiny";
  }
  if (link) element("a", name, item).href = link;
  else element("b", name, item);
  element("div", `labelled ${data.classes[label]}, ${percent(pLabel)}`, item);
  if (guess !== label) element("div", `predicted ${data.classes[guess]}, ${percent(pGuess)}`, item);
  if (pWrong > 0.5) element("div", `label ${percent(pWrong)} likely wrong`, item);
};
const open = (button) => {
  const dialog = document.getElementById("shown"), place = document.getElementById("shown-examples");
  const data = dataOf(button), names = data.classes;
  const [c, k, total] = button.dataset.open.split("-").map(Number);
  const surest = (examples) => examples.sort((a, b) => b[3] - a[3]);
  const group = (title, examples, total) => {
    if (!examples.length) return;
    const of = examples.length < total ? `: ${examples.length} of ${total.toLocaleString("en")}` : "";
    element("h3", `${title}${of}`, place);
    const list = element("ul", "", place);
    list.className = "cards";
    for (const example of examples) card(data, example, list);
  };
  place.replaceChildren();
  document.getElementById("shown-text").textContent = [data.texts[c], data.about].filter(Boolean).join(" ");
  const ofClass = data.examples.filter(([label]) => label === c);
  if (k === undefined) {
    document.getElementById("shown-title").textContent = names[c];
    const [wrong, right, others] = data.totals[c];
    group("Wrong, the surest first", surest(ofClass.filter(([, guess]) => guess !== c)), wrong);
    group("Right, the least sure first", surest(ofClass.filter(([, guess]) => guess === c)).reverse(), right);
    const taken = data.examples.filter(([label, guess]) => guess === c && label !== c);
    group(`Others that are predicted as ${names[c]}`, surest(taken), others);
  } else {
    document.getElementById("shown-title").textContent = `${names[c]} predicted as ${names[k]}`;
    group("The surest first", surest(ofClass.filter(([, guess]) => guess === k)), total);
  }
  if (!place.children.length) element("p", "There are no such examples.", place);
  dialog.showModal();
  dialog.scrollTop = 0;
};
addEventListener("click", (event) => {
  const button = event.target.closest("[data-open]"), dialog = document.getElementById("shown");
  if (button) open(button);
  if (event.target === dialog || event.target.closest(".close")) dialog.close();
});
