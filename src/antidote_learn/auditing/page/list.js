// The list of suspects; only visible rows of it are in the document.

const HEIGHT = 64; // the height of a row in pixels, as in the style
const MARGIN = 6; // rows that are made beyond each edge, so that scrolling shows no gap
const MARKS = ["", "✓", "=", "→", "✕", "?"];
const LONG = 40; // characters from which on a value is a text that speaks for the row
const FIRST = 12; // the values that stand for the row in the list, and unfolded beside it

let view = []; // the rows that pass the filters
let current = 0; // the chosen row's position in view
const drawnRows = new Map(); // the elements of rows by position in view

function caption(row) {
  if (data.names.length) return data.names[row];
  const cells = data.cells[row] || [];
  const longest = cells.reduce((best, one) => (one.length > best.length ? one : best), "");
  if (longest.length > LONG || cells.length === 1) {
    return (data.identified && longest !== cells[0] ? cells[0] + " · " : "") + longest;
  }
  return cells.slice(0, FIRST).map((text, at) => data.columns[at] + " " + (text || "–")).join(" · ");
}

function decisionText(row) {
  const kind = kinds[row];
  return kind ? MARKS[kind] + " " + (kind === DROP || kind === UNSURE ? WORDS[kind] : data.classes[chosen[row]]) : "";
}

function decisionMark(row) {
  return made("span", { className: "decision kind-" + kinds[row], textContent: decisionText(row) });
}

function listItem(at) {
  const row = view[at];
  const labels = made("span", { className: "labels" });
  const given = data.given[row], other = suggestion(row);
  labels.append(made("span", { className: "given", textContent: data.classes[given] }));
  if (other === given) labels.append(made("span", { className: "arrow", textContent: "fits best" }));
  else {
    labels.append(made("span", { className: "arrow", textContent: "→", ariaLabel: "suggested" }));
    labels.append(made("span", { className: "suggested", textContent: data.classes[other] }));
  }
  const words = made("span", { className: "words" }, labels);
  words.append(made("span", { className: "caption", textContent: caption(row) || "row " + data.index[row] }));
  const item = made("div", { className: "item", id: "item-" + row }, rowPicture(row, "thumb"), words);
  item.append(decisionMark(row), made("span", { className: "quality", textContent: percent(data.quality[row]) }));
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
