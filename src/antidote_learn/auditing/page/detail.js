// The chosen suspect: what it is, what it may be, why, and what lies near it.

let isUnfolded = false; // whether the further values of a row are shown

function drawDetail() {
  const detail = byId("detail");
  if (!view.length) {
    const words = total ? "No row passes the filters." : "No row is listed.";
    detail.replaceChildren(made("p", { className: "quiet", textContent: words }));
    return;
  }
  const row = view[current];
  const title = made("h2", { textContent: "Row " + data.index[row] });
  if (data.names.length) title.append(" · " + data.names[row]);
  else if (data.identified && data.cells[row]) title.append(` · ${data.columns[0]} ${data.cells[row][0]}`);
  if (!isFlagged(row)) title.append(made("span", { className: "quiet", textContent: " (not flagged)" }));
  const large = zoomable(rowPicture(row, "large"), rowName(row), enlargeCurrent, "own");
  const sample = made("div", { className: "sample" }, large, values(row));
  const judged = made("div", { className: "judged" }, choices(row), why(row));
  const body = made("div", { className: "body" }, sample.childNodes.length ? sample : "", judged);
  detail.replaceChildren(made("div", { className: "decide" }, title, verdict(row), actions(row)), body);
  if (byId("zoom").open) enlargeCurrent();
}

function enlargeCurrent() {
  const row = view[current];
  if (!data.pictures[row]) return;
  const labels = `given ${data.classes[data.given[row]]}, suggested ${data.classes[suggestion(row)]}`;
  enlarge(data.pictures[row], `${rowName(row)}: ${labels}${kinds[row] ? ", decided: " + decisionText(row) : ""}`);
}

function verdict(row) {
  const line = made("p", { className: "verdict" }, "Given ");
  line.append(made("strong", { className: "given", textContent: data.classes[data.given[row]] }));
  if (suggestion(row) === data.given[row]) line.append(", which fits best");
  else line.append(", suggested ", made("strong", { className: "suggested", textContent: data.classes[suggestion(row)] }));
  line.append(decisionMark(row));
  return line;
}

const ACTIONS = [[ACCEPT, "a", "Accept"], [KEEP, "k", "Keep"], [UNSURE, "u", "Unsure"], [DROP, "d", "Drop"]];

function actions(row) {
  const line = made("div", { className: "actions", role: "group", ariaLabel: "Decision" });
  for (const [kind, key, words] of ACTIONS) {
    const button = made("button", { type: "button" }, words + " ", keyMark(key));
    button.setAttribute("aria-pressed", String(kinds[row] === kind));
    button.addEventListener("click", () => decideCurrent(kind));
    line.append(button);
  }
  return line;
}

function values(row) {
  const cells = data.cells[row];
  if (!cells) return "";
  const hidden = data.columns.length + data.more - cells.length, rest = cells.slice(FIRST);
  const part = made("div", { className: "values" }, valueList(cells.slice(0, FIRST), 0));
  if (rest.length) {
    const fold = made("details", { open: isUnfolded });
    fold.append(made("summary", { textContent: count(rest.length, "further column") }), valueList(rest, FIRST));
    fold.addEventListener("toggle", () => (isUnfolded = fold.open));
    part.append(fold);
  }
  if (hidden) part.append(made("p", { className: "quiet", textContent: count(hidden, "column") + " not on this page" }));
  return part;
}

function valueList(cells, start) {
  const list = made("dl", {});
  cells.forEach((text, at) => {
    list.append(made("dt", { textContent: data.columns[start + at] }), made("dd", { textContent: text || "–" }));
  });
  return list;
}

function why(row) {
  const part = made("div", { className: "why" }, made("p", { textContent: data.reason[row] + "." }));
  if (data.near[row]) part.append(nearPictures(row));
  const near = data.nearest[row];
  if (!near) return part;
  const line = made("p", { className: "near" }, "Labels of the nearest rows: ");
  for (let at = 0; at < near.length; at += 2) {
    const number = near[at + 1] > 1 ? " × " + near[at + 1] : "";
    line.append(made("span", { className: "tag", textContent: data.classes[near[at]] + number }), " ");
  }
  part.append(line);
  return part;
}

function nearPictures(row) {
  const list = made("ul", { className: "near-pictures", ariaLabel: "The nearest rows" });
  for (const place of data.near[row]) {
    const label = data.near_labels[place], name = data.classes[label];
    const words = `row ${data.near_index[place]}, labelled ${name}`;
    const content = data.near_pictures[place], image = picture(content, "neighbour", words);
    const kind = label === data.given[row] ? "given" : label === suggestion(row) ? "suggested" : "";
    const text = made("span", { className: "name " + kind, textContent: name, title: words });
    list.append(made("li", {}, zoomable(image, words, () => enlarge(content, words)), text));
  }
  return list;
}
