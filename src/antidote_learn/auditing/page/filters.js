// Filters: which rows are listed.

const USUAL = data.flagged || !total ? "flagged" : "all"; // what is listed at first

function fillSelect(id, labels) {
  const select = byId(id);
  select.append(made("option", { value: "", textContent: "any" }));
  for (const label of labels) select.append(made("option", { value: label, textContent: data.classes[label] }));
}

const listed = {
  open: (row) => isFlagged(row) && !kinds[row],
  flagged: isFlagged,
  decided: (row) => kinds[row] !== NONE,
  unsure: (row) => kinds[row] === UNSURE,
  all: () => true,
};

function passes() {
  const which = byId("which").value, given = byId("given").value, other = byId("suggested").value;
  const words = byId("find").value.trim().toLowerCase();
  return (row) => {
    if (!listed[which](row)) return false;
    if (given && data.given[row] !== Number(given)) return false;
    if (other && suggestion(row) !== Number(other)) return false;
    return !words || found(row, words);
  };
}

function found(row, words) {
  const texts = [String(data.index[row]), data.names[row] || "", ...(data.cells[row] || [])];
  return texts.some((text) => text.toLowerCase().includes(words));
}

// Makes the list anew; the chosen row stays chosen, or else the row at its place.
function refilter(keep) {
  const row = keep === undefined ? view[current] : keep, test = passes();
  view = [];
  for (let at = 0; at < total; at++) if (test(at)) view.push(at);
  const place = row === undefined ? 0 : view.indexOf(row);
  if (place < 0 && keep === undefined) byId("list").scrollTop = 0;
  current = place < 0 ? 0 : place;
  drawList(true);
  select(current);
  tell();
  markFilters(byId("given").value, byId("suggested").value);
}

function pickPair(given, other) {
  const same = byId("given").value === String(given) && byId("suggested").value === String(other);
  byId("given").value = same ? "" : given;
  byId("suggested").value = same ? "" : other;
  refilter();
}

function pickGiven(given) {
  const same = byId("given").value === String(given) && !byId("suggested").value;
  byId("given").value = same ? "" : given;
  byId("suggested").value = "";
  if (!same && data.given.indexOf(given) >= data.flagged) byId("which").value = "all";
  refilter();
}

function clearFilters() {
  byId("which").value = USUAL;
  for (const id of ["given", "suggested", "find"]) byId(id).value = "";
  refilter();
}
