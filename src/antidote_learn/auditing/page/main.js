// Filters, keys and buttons.

function say(words) {
  byId("said").textContent = words;
}

function fillSelect(id, labels) {
  const select = byId(id);
  select.append(made("option", { value: "", textContent: "any" }));
  for (const label of labels) select.append(made("option", { value: label, textContent: data.classes[label] }));
}

function passes() {
  const which = byId("which").value, given = byId("given").value, other = byId("suggested").value;
  const words = byId("find").value.trim().toLowerCase();
  return (row) => {
    if (which === "decided" ? !kinds[row] : which !== "all" && !isFlagged(row)) return false;
    if (which === "open" && kinds[row]) return false;
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
  markPair(byId("given").value, byId("suggested").value);
}

function undecided() {
  return view.filter((row) => !kinds[row]);
}

function tell() {
  byId("bar").max = Math.max(1, data.flagged);
  byId("bar").value = Math.min(decided, data.flagged);
  byId("done").textContent = count(decided, "decision");
  byId("undo").disabled = !past.length;
  byId("redo").disabled = !future.length;
  byId("export").disabled = !decided;
  let open = 0;
  for (const row of view) if (!kinds[row]) open += 1;
  byId("bulk").textContent = "Accept the suggestion for " + count(open, "undecided row");
  byId("bulk").disabled = !open;
}

function decideCurrent(kind, label) {
  if (!view.length) return;
  const row = view[current];
  decide([row], kind, label);
  say("Row " + data.index[row] + ": " + WORDS[kinds[row]] + (kinds[row] === DROP ? "" : ", " + data.classes[chosen[row]]));
  if (byId("detail").contains(document.activeElement)) byId("list").focus({ preventScroll: true });
  if (byId("which").value === "open") view.splice(current, 1);
  else current += 1;
  drawList(true);
  select(current);
  tell();
}

function bulkAccept() {
  const rows = undecided();
  if (!rows.length) return;
  decide(rows, ACCEPT);
  say(count(rows.length, "suggestion") + " accepted; Ctrl+Z takes them back.");
  refilter();
}

function travel(step, word) {
  if (!step) return say("Nothing to " + word + ".");
  say(count(step.rows.length, "decision") + (word === "undo" ? " taken back." : " made again."));
  refilter(step.rows[0]);
  byId("list").focus({ preventScroll: true });
}

function pickPair(given, other) {
  const same = byId("given").value === String(given) && byId("suggested").value === String(other);
  byId("given").value = same ? "" : given;
  byId("suggested").value = same ? "" : other;
  refilter();
}

function clearFilters() {
  byId("which").value = "flagged";
  for (const id of ["given", "suggested", "find"]) byId(id).value = "";
  refilter();
}

const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity };

function onKey(event) {
  const field = event.target.closest("input, select");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !(field && field.type === "search")) {
    event.preventDefault();
    return event.shiftKey ? travel(redo(), "redo") : travel(undo(), "undo");
  }
  if (event.ctrlKey || event.metaKey || event.altKey || field) return;
  const onControl = event.target.closest("button, summary");
  if (event.key in MOVES) select(current + MOVES[event.key]);
  else if (event.key === "a" || (event.key === "Enter" && !onControl)) decideCurrent(ACCEPT);
  else if (event.key === "k") decideCurrent(KEEP);
  else if (event.key === "d") decideCurrent(DROP);
  else if (/^[1-9]$/.test(event.key) && event.key <= data.choices && view.length) {
    decideCurrent(RELABEL, data.likeliest[view[current] * data.choices + Number(event.key) - 1]);
  } else return;
  event.preventDefault();
}

function head() {
  const [low, high] = data.interval, share = (100 * data.noise_rate).toFixed(1);
  byId("title").textContent = "Labels of " + data.data;
  const label = data.label && `The label is column ‘${data.label}’${data.label_is_guess ? ", a guess by its name" : ""}. `;
  byId("counts").textContent = label +
    `${data.estimated_errors.toLocaleString("en")} of ${count(data.n, "label")} look wrong (${share} %), between ` +
    `${low.toLocaleString("en")} and ${high.toLocaleString("en")}; ${count(data.flagged, "row")} flagged` +
    (data.flagged > total ? `, of which the worst ${total.toLocaleString("en")} are listed.` : ".") +
    ` Looked at: ${data.features}.` + (data.judges.length ? ` Who judged: ${data.judges.join(", ")}.` : "");
  const advice = [data.why_wide && "The interval is wide: " + data.why_wide + ".", data.look && data.look + "."];
  byId("why").textContent = advice.filter(Boolean).join(" ");
  byId("why").hidden = !byId("why").textContent;
}

function start() {
  restore();
  head();
  if (matchMedia("(max-width: 48rem)").matches) byId("figures").open = false;
  drawHistogram();
  drawPairs(pickPair);
  const order = (labels) => [...new Set(labels)].sort((a, b) => a - b);
  fillSelect("given", order(data.given));
  fillSelect("suggested", order(data.index.map((_, row) => suggestion(row))));
  refilter();
  save();
  for (const id of ["which", "given", "suggested"]) byId(id).addEventListener("change", () => refilter());
  byId("find").addEventListener("input", () => refilter());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, act] of [
    ["clear", clearFilters], ["bulk", bulkAccept], ["export", exportDecisions],
    ["undo", () => travel(undo(), "undo")], ["redo", () => travel(redo(), "redo")],
  ]) byId(id).addEventListener("click", act);
  byId("list").addEventListener("scroll", () => drawList(false), { passive: true });
  addEventListener("resize", () => drawList(false));
  addEventListener("keydown", onKey);
  addEventListener("pagehide", save);
  addEventListener("beforeunload", (event) => {
    save();
    if (!canSave && decided) event.preventDefault();
  });
  byId("list").focus({ preventScroll: true });
}

start();
