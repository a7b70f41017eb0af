// The figures: the histogram of all rows, the rate by class, and the classes of flagged rows as a heat map.

const MOST_CLASSES = 100; // the most classes of the table and the heat map, so that they are made at once
const UPRIGHT = 12; // the most classes whose names stand above one another; more are turned

function drawHistogram() {
  const width = 400, height = 120, bins = data.bins, step = width / bins.length;
  const top = Math.log1p(Math.max(1, ...bins));
  const high = (number) => (height * Math.log1p(number)) / top;
  const figure = drawn("svg", { viewBox: `0 -14 ${width} ${height + 32}`, role: "img" }, byId("histogram"));
  const flagged = count(data.flagged, "row");
  figure.setAttribute("aria-label", `${flagged} of ${data.n} are flagged`);
  bins.forEach((number, at) => {
    const x = at * step + 0.5, own = data.flagged_bins[at];
    const bar = { x, width: step - 1 };
    const range = [at, at + 1].map((edge) => (100 * edge) / bins.length + " %").join(" to ");
    const words = range + ": " + count(number, "row") + (own ? `, ${own} flagged` : "");
    // A bar's height shows all rows of a bin, and its parts show the flagged share.
    const all = number ? high(number) : 0, part = number ? (all * own) / number : 0;
    const group = drawn("g", {}, figure);
    drawn("title", {}, group).textContent = words;
    drawn("rect", { ...bar, y: height - all, height: Math.max(0, all - part), class: "rest" }, group);
    drawn("rect", { ...bar, y: height - part, height: part, class: "flagged" }, group);
  });
  drawn("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" }, figure);
  for (const [x, anchor, words] of [[0, "start", "0 %"], [width / 2, "middle", "50 %"], [width, "end", "100 %"]]) {
    drawn("text", { x, y: height + 14, "text-anchor": anchor }, figure).textContent = words;
  }
  if (data.threshold !== null) drawThreshold(figure, width, height);
}

function drawThreshold(figure, width, height) {
  const x = width * data.threshold, left = x > width / 2;
  drawn("line", { x1: x, x2: x, y1: -12, y2: height, class: "threshold" }, figure);
  const where = { x: x + (left ? -4 : 4), y: -4, "text-anchor": left ? "end" : "start", class: "threshold" };
  drawn("text", where, figure).textContent = "flagged up to " + percent(1000 * data.threshold);
}

// The table of how often each given class looks wrong, the worst first; a click on a class lists its rows.
function drawRates(onPick) {
  const listed = new Set(data.given);
  const rates = data.rates.map(([given, wrong], label) => ({ label, given, wrong, rate: wrong / given }));
  const worst = rates.filter((one) => one.given).sort((a, b) => b.rate - a.rate || b.wrong - a.wrong);
  const shown = worst.slice(0, MOST_CLASSES), most = Math.max(1e-9, ...shown.map((one) => one.rate));
  if (worst.length > shown.length) byId("rates-caption").append(`, the worst ${shown.length} of ${worst.length}`);
  const table = made("table", {});
  const heads = ["given class", "look wrong", "of", "share"].map((text) => made("th", { scope: "col", textContent: text }));
  table.append(made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}));
  for (const { label, given, wrong, rate } of shown) {
    const name = made("button", { type: "button", textContent: data.classes[label], disabled: !listed.has(label) });
    name.title = "List the rows given " + data.classes[label];
    name.dataset.label = label;
    name.addEventListener("click", () => onPick(label));
    const share = made("td", { className: "bar", textContent: (100 * rate).toFixed(1) + " %" });
    share.style.setProperty("--share", (100 * rate) / most + "%");
    const cells = [wrong, given].map((number) => made("td", { textContent: number.toLocaleString("en") }));
    table.tBodies[0].append(made("tr", {}, made("th", { scope: "row" }, name), ...cells, share));
  }
  byId("rates").append(table);
}

// Returns the classes of the most flagged rows, in the order of the classes.
function pairCounts() {
  const pairs = new Map(), weight = new Map();
  for (let row = 0; row < Math.min(total, data.flagged); row++) {
    const given = data.given[row], other = suggestion(row), key = given + "," + other;
    pairs.set(key, (pairs.get(key) || 0) + 1);
    for (const label of [given, other]) weight.set(label, (weight.get(label) || 0) + 1);
  }
  const labels = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a) || a - b).slice(0, MOST_CLASSES);
  return { pairs, labels: labels.sort((a, b) => a - b), all: weight.size };
}

function drawPairs(onPick) {
  const { pairs, labels, all } = pairCounts();
  if (!labels.length) {
    byId("pairs").textContent = "No row is flagged.";
    return;
  }
  if (all > labels.length) byId("pairs-caption").append(`, the ${labels.length} most frequent of ${all}`);
  const most = Math.max(1, ...pairs.values());
  const table = made("table", { ariaLabel: "Given class by row, suggested class by column" });
  table.classList.toggle("turned", labels.length > UPRIGHT || labels.some((label) => data.classes[label].length > 8));
  const name = (label) => made("span", { textContent: data.classes[label], title: data.classes[label] });
  const corner = made("td", { className: "corner" }, "suggested →", made("br", {}), "given ↓");
  const heads = labels.map((label) => made("th", { scope: "col" }, name(label)));
  table.append(made("thead", {}, made("tr", {}, corner, ...heads)), made("tbody", {}));
  for (const given of labels) {
    const line = made("tr", {}, made("th", { scope: "row" }, name(given)));
    for (const other of labels) line.append(pairCell(given, other, pairs.get(given + "," + other) || 0, most, onPick));
    table.tBodies[0].append(line);
  }
  byId("pairs").append(table);
  walkable(table);
}

function pairCell(given, other, number, most, onPick) {
  if (!number) return made("td", {});
  const words = `${data.classes[given]} that may be ${data.classes[other]}: ${count(number, "row")}`;
  const button = made("button", { type: "button", tabIndex: -1, title: words, ariaLabel: words, textContent: number });
  button.dataset.pair = given + "," + other;
  button.style.setProperty("--heat", (100 * Math.sqrt(number / most)).toFixed(0) + "%");
  if (number / most > 0.45) button.classList.add("hot");
  button.addEventListener("click", () => onPick(given, other));
  return made("td", {}, button);
}

// The heat map is one stop for the Tab key; arrows go between cells that have rows.
function walkable(table) {
  const cells = [...table.querySelectorAll("button")];
  cells[0].tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const next = cells[cells.indexOf(document.activeElement) + step];
    if (next) {
      for (const one of cells) one.tabIndex = one === next ? 0 : -1;
      next.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  });
}

// Marks what the filters say, in the heat map and in the table of classes.
function markFilters(given, suggested) {
  for (const button of byId("pairs").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.pair === given + "," + suggested));
  }
  for (const button of byId("rates").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(!suggested && button.dataset.label === given));
  }
}
