// The data, and the decisions with their history, storage and export.

const data = JSON.parse(document.getElementById("data").textContent);
const total = data.index.length;
const KEY = "antidote-review:" + data.key;
const NONE = 0, ACCEPT = 1, KEEP = 2, RELABEL = 3, DROP = 4, UNSURE = 5;
const WORDS = ["", "accept", "keep", "relabel", "drop", "unsure"];

const byId = (id) => document.getElementById(id);
const isFlagged = (row) => row < data.flagged; // flagged rows are the worst and come first
const count = (number, one, many = one + "s") => number.toLocaleString("en") + " " + (number === 1 ? one : many);

const kinds = new Uint8Array(total); // the decision on each row
const chosen = new Int32Array(total).fill(-1); // the new class of each row
let decided = 0;
const past = [], future = [];

function put(row, kind, label) {
  decided += (kind !== NONE) - (kinds[row] !== NONE);
  kinds[row] = kind;
  chosen[row] = label;
}

// The likeliest class; of a flagged row the likeliest one but the given.
function suggestion(row) {
  const at = row * data.choices, first = data.likeliest[at];
  return isFlagged(row) && first === data.given[row] ? data.likeliest[at + 1] : first;
}

// The kind and the class of a decision; a class that is chosen is kept, accepted or neither.
function wanted(row, kind, label) {
  if (kind === DROP) return [DROP, -1];
  if (kind === KEEP || kind === UNSURE) return [kind, data.given[row]];
  const wish = kind === ACCEPT ? suggestion(row) : label;
  return [wish === data.given[row] ? KEEP : wish === suggestion(row) ? ACCEPT : RELABEL, wish];
}

// Adds one step to the history, for one row or for many.
function decide(rows, kind, label) {
  const step = { rows: Int32Array.from(rows), before: [], after: [] };
  for (const row of step.rows) {
    step.before.push([kinds[row], chosen[row]]);
    step.after.push(wanted(row, kind, label));
  }
  past.push(step);
  future.length = 0;
  replay(step, step.after);
}

function replay(step, states) {
  step.rows.forEach((row, at) => put(row, states[at][0], states[at][1]));
  saveSoon();
}

function undo() {
  const step = past.pop();
  if (!step) return null;
  future.push(step);
  replay(step, step.before);
  return step;
}

function redo() {
  const step = future.pop();
  if (!step) return null;
  past.push(step);
  replay(step, step.after);
  return step;
}

// The browser keeps decisions by a digest of data and classes and by positions, so that another cut finds them.
let timer = 0, canSave = true, others = [];
let cost = 0; // milliseconds of the last save

// At once while that is quick; a page that is left may not be asked for its decisions any more.
function saveSoon() {
  clearTimeout(timer);
  if (cost < 30) save();
  else timer = setTimeout(save, 150);
}

function save() {
  clearTimeout(timer);
  const start = performance.now();
  const kept = others.slice();
  for (let row = 0; row < total; row++) if (kinds[row]) kept.push([data.index[row], kinds[row], chosen[row]]);
  try {
    if (kept.length) localStorage.setItem(KEY, JSON.stringify(kept));
    else localStorage.removeItem(KEY);
    canSave = true;
  } catch {
    canSave = false;
  }
  byId("saving").textContent = canSave
    ? "Decisions are kept in this browser."
    : "This browser does not keep decisions: export them before you close the page.";
  cost = performance.now() - start;
}

function restore() {
  let kept = null;
  try {
    kept = JSON.parse(localStorage.getItem(KEY));
  } catch {
    canSave = false; // `save` has not tried yet
  }
  const rowOf = new Map(data.index.map((place, row) => [place, row]));
  for (const entry of Array.isArray(kept) ? kept.filter(isDecision) : []) {
    const [place, kind, label] = entry, row = rowOf.get(place);
    if (row === undefined) others.push(entry); // another cut of the same audit lists this row
    else if (label === data.given[row] || (kind !== KEEP && kind !== UNSURE)) {
      put(row, ...wanted(row, kind === ACCEPT ? RELABEL : kind, label)); // what was suggested then may not be now
    }
  }
}

// Tells whether `save` may have written this: anybody can write to the browser's storage.
function isDecision(entry) {
  if (!Array.isArray(entry) || entry.length !== 3 || !entry.every(Number.isInteger)) return false;
  const [place, kind, label] = entry;
  const isClass = label >= 0 && label < data.classes.length;
  return place >= 0 && kind >= ACCEPT && kind <= UNSURE && (kind === DROP ? label === -1 : isClass);
}

// A cell that a spreadsheet would execute gets an apostrophe, as does one that begins with an apostrophe itself.
function cell(value) {
  const text = /^[=+\-@\t\r']/.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function decisionsText() {
  const hash = data.content_hash, names = data.names.length > 0;
  const lines = ["index,given_label,decision,new_label" + (hash ? ",data_hash" : "") + (names ? ",file" : "")];
  for (let row = 0; row < total; row++) {
    if (!kinds[row]) continue;
    const label = kinds[row] === DROP ? "" : data.classes[chosen[row]];
    const cells = [data.index[row], cell(data.classes[data.given[row]]), WORDS[kinds[row]], cell(label)];
    if (hash) cells.push(hash);
    if (names) cells.push(cell(data.names[row]));
    lines.push(cells.join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

function exportDecisions() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([decisionsText()], { type: "text/csv" }));
  link.download = "decisions.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
