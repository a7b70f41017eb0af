// The list of suspects and the chosen one beside it; only visible rows of the list are in the document.

const HEIGHT = 64; // the height of a row in pixels, as in the style
const MARGIN = 6; // rows that are made beyond each edge, so that scrolling shows no gap
const MARKS = ["", "✓", "=", "→", "✕"];

let view = []; // the rows that pass the filters
let current = 0; // the chosen row's position in view
const drawnRows = new Map(); // the elements of rows by position in view

function percent(thousandths) {
  return thousandths < 5 ? "<1 %" : thousandths >= 995 ? ">99 %" : Math.round(thousandths / 10) + " %";
}

function picture(row, className) {
  const text = data.pictures[row];
  if (!text) return null;
  const image = made("img", { className, alt: data.names[row] || "row " + data.index[row], decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 64));
  image.src = "data:image/webp;base64," + text;
  return image;
}

function caption(row) {
  if (data.names.length) return data.names[row];
  const cells = data.cells[row] || [];
  const longest = cells.reduce((best, one) => (one.length > best.length ? one : best), "");
  return longest.length > 20 ? longest : cells.join(" · ");
}

function decisionText(row) {
  if (!kinds[row]) return "";
  const label = kinds[row] === DROP ? "drop" : data.classes[chosen[row]];
  return MARKS[kinds[row]] + " " + label;
}

function listItem(at) {
  const row = view[at];
  const labels = made("span", { className: "labels" });
  labels.append(
    made("span", { className: "given", textContent: data.classes[data.given[row]] }),
    made("span", { className: "arrow", textContent: "→", ariaLabel: "suggested" }),
    made("span", { className: "suggested", textContent: data.classes[suggestion(row)] }),
  );
  const words = made("span", { className: "words" }, labels);
  words.append(made("span", { className: "caption", textContent: caption(row) || "row " + data.index[row] }));
  const item = made("div", { className: "item", id: "item-" + row }, picture(row, "thumb") || "", words);
  item.append(made("span", { className: "decision kind-" + kinds[row], textContent: decisionText(row) }));
  item.append(made("span", { className: "quality", textContent: percent(data.quality[row]), title: "the given label is right" }));
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", String(at === current));
  item.setAttribute("aria-posinset", at + 1);
  item.setAttribute("aria-setsize", view.length);
  item.style.transform = `translateY(${at * HEIGHT}px)`;
  item.addEventListener("click", () => select(at));
  return item;
}

function drawList(anew) {
  const list = byId("list"), rows = byId("rows");
  if (anew) {
    rows.replaceChildren();
    drawnRows.clear();
    rows.style.height = view.length * HEIGHT + "px";
  }
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - MARGIN);
  const last = Math.min(view.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + MARGIN);
  for (const [at, item] of drawnRows) {
    if (at < first || at >= last) {
      item.remove();
      drawnRows.delete(at);
    }
  }
  for (let at = first; at < last; at++) {
    if (!drawnRows.has(at)) {
      const item = listItem(at);
      drawnRows.set(at, item);
      rows.append(item);
    }
  }
  if (drawnRows.has(current)) list.setAttribute("aria-activedescendant", "item-" + view[current]);
  else list.removeAttribute("aria-activedescendant");
}

function select(at) {
  current = Math.max(0, Math.min(at, view.length - 1));
  const list = byId("list"), top = current * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  for (const [place, item] of drawnRows) item.setAttribute("aria-selected", String(place === current));
  drawList(false);
  drawDetail();
}

function drawDetail() {
  const detail = byId("detail");
  detail.replaceChildren();
  if (!view.length) {
    detail.append(made("p", { className: "quiet", textContent: total ? "No row passes the filters." : "No row is flagged." }));
    return;
  }
  const row = view[current];
  const name = data.names.length ? " · " + data.names[row] : "";
  const title = made("h2", { textContent: "Row " + data.index[row] + name });
  if (!isFlagged(row)) title.append(made("span", { className: "quiet", textContent: " (not flagged)" }));
  const deciding = made("div", { className: "deciding" }, verdict(row), actions(row), choices(row));
  const judged = made("div", { className: "judged" }, picture(row, "large") || "", deciding);
  detail.append(title, values(row), judged, why(row));
}

function verdict(row) {
  const line = made("p", { className: "verdict" }, "Given ");
  line.append(made("strong", { className: "given", textContent: data.classes[data.given[row]] }), ", suggested ");
  line.append(made("strong", { className: "suggested", textContent: data.classes[suggestion(row)] }));
  if (kinds[row]) {
    line.append(made("span", { className: "decision kind-" + kinds[row], textContent: decisionText(row) }));
  }
  return line;
}

function values(row) {
  const cells = data.cells[row];
  if (!cells) return "";
  const list = made("dl", {});
  cells.forEach((text, at) => {
    list.append(made("dt", { textContent: data.columns[at] }), made("dd", { textContent: text || "–" }));
  });
  if (data.more) list.append(made("dt", { textContent: "…" }), made("dd", { textContent: count(data.more, "further value") }));
  return list;
}

function actions(row) {
  const line = made("div", { className: "actions" });
  for (const [kind, key, words] of [[ACCEPT, "a", "Accept"], [KEEP, "k", "Keep"], [DROP, "d", "Drop"]]) {
    const button = made("button", { type: "button" }, words + " ", made("kbd", { textContent: key }));
    button.setAttribute("aria-pressed", String(kinds[row] === kind));
    button.addEventListener("click", () => decideCurrent(kind));
    line.append(button);
  }
  return line;
}

function choices(row) {
  const list = made("ol", { className: "choices", ariaLabel: "Classes, the likeliest first" });
  for (let at = 0; at < data.choices; at++) {
    const label = data.likeliest[row * data.choices + at], share = data.probs[row * data.choices + at];
    const button = made("button", { type: "button" }, made("kbd", { textContent: at + 1 }));
    button.append(made("span", { className: "name", textContent: data.classes[label] }));
    if (label === data.given[row]) button.append(made("span", { className: "tag", textContent: "given" }));
    button.append(made("span", { className: "share", textContent: percent(share) }));
    button.style.setProperty("--share", share / 10 + "%");
    button.setAttribute("aria-pressed", String(kinds[row] !== NONE && chosen[row] === label));
    button.addEventListener("click", () => decideCurrent(RELABEL, label));
    list.append(made("li", {}, button));
  }
  return list;
}

function why(row) {
  const part = made("div", { className: "why" }, made("p", { textContent: data.reason[row] + "." }));
  const near = data.nearest[row];
  if (!near) return part;
  const line = made("p", { className: "near" }, "Labels of the nearest rows: ");
  for (let at = 0; at < near.length; at += 2) {
    const tag = made("span", { className: "tag", textContent: data.classes[near[at]] + (near[at + 1] > 1 ? " × " + near[at + 1] : "") });
    line.append(tag, " ");
  }
  part.append(line);
  return part;
}
