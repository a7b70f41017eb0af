// Head, decisions, keys and buttons.

const NARROW = matchMedia("(max-width: 48rem)"); // as in the style
let isFolded = false; // whether the figures were folded for the first decision

function say(words) {
  byId("said").textContent = words;
}

const undecided = () => view.filter((row) => !kinds[row]);

function tell() {
  byId("bar").max = data.flagged || total || 1;
  byId("bar").value = Math.min(decided, byId("bar").max);
  byId("done").textContent = count(decided, "decision");
  byId("undo").disabled = !past.length;
  byId("redo").disabled = !future.length;
  byId("export").disabled = !decided;
  const open = undecided().length;
  byId("bulk").textContent = "Accept the suggestion for " + count(open, "undecided row");
  byId("bulk").disabled = !open;
  if (decided && !isFolded) {
    isFolded = true; // once: who opens the figures again wants to see them
    byId("figures").open = false;
  }
}

function decideCurrent(kind, label) {
  if (!view.length) return;
  const row = view[current];
  decide([row], kind, label);
  const stays = kinds[row] === DROP || kinds[row] === UNSURE;
  say("Row " + data.index[row] + ": " + WORDS[kinds[row]] + (stays ? "" : ", " + data.classes[chosen[row]]));
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

const MOVES = {
  ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity,
};

function onKey(event) {
  const field = event.target.closest("input, select");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !(field && field.type === "search")) {
    event.preventDefault();
    return event.shiftKey ? travel(redo(), "redo") : travel(undo(), "undo");
  }
  if (event.ctrlKey || event.metaKey || event.altKey || field) return;
  const onControl = event.target.closest("button, summary");
  const kind = { a: ACCEPT, k: KEEP, u: UNSURE, d: DROP }[event.key];
  if (event.key in MOVES) select(current + MOVES[event.key]);
  else if (event.key === "Enter" && !onControl) decideCurrent(ACCEPT);
  else if (kind) decideCurrent(kind);
  else if (event.key === "z") toggleZoom();
  else if (!/^[0-9c]$/.test(event.key) || !chooseBy(event.key)) return;
  event.preventDefault();
}

// A class by its digit, or the field that takes its name; false if the key means nothing.
function chooseBy(key) {
  if (!view.length) return false;
  const label = labelOf(key);
  if (label >= 0) decideCurrent(RELABEL, label);
  return label >= 0 || (!byId("zoom").open && searchClass(key === "c" ? "" : key));
}

function toggleZoom() {
  if (byId("zoom").open) byId("zoom").close();
  else if (view.length) enlargeCurrent();
}

function head() {
  const [low, high] = data.interval, share = (100 * data.noise_rate).toFixed(1);
  byId("title").textContent = "Labels of " + data.data;
  const label = data.label && `The label is column ‘${data.label}’${data.label_is_guess ? ", a guess by its name" : ""}. `;
  byId("counts").textContent = label +
    `${data.estimated_errors.toLocaleString("en")} of ${count(data.n, "label")} look wrong (${share} %), between ` +
    `${low.toLocaleString("en")} and ${high.toLocaleString("en")}; ${count(data.flagged, "row")} flagged` +
    (data.flagged > total ? `, of which the worst ${total.toLocaleString("en")} are listed.` : ".");
  byId("look").textContent = data.look && data.look + ".";
  byId("judges").textContent = data.judges.length ? `Who judged: ${data.judges.join(", ")}.` : "";
  byId("why").textContent = data.why_wide && `The interval is wide: ${data.why_wide}.`;
  byId("features").textContent = `Looked at: ${data.features}.`;
  byId("about-words").textContent = (data.why_wide ? "Why the interval is wide, and w" : "W") + "hat was looked at";
  for (const [which, number] of [["flagged", data.flagged], ["all", total]]) {
    byId("which").querySelector(`[value=${which}]`).append(` (${number.toLocaleString("en")})`);
  }
  const last = data.classes.length - 1;
  byId("class-key").textContent = haveDigits ? `${digitOf(0)}–${digitOf(last)}` : "c";
  byId("class-words").textContent = haveDigits ? "that class" : "a class by its name";
  byId("zoom-key").hidden = !data.pictures.length;
}

// A narrow page begins with what is to be decided; on a wide one the filters have no fold.
function fold() {
  byId("filtering").open = !NARROW.matches;
}

function start() {
  restore();
  head();
  fold();
  NARROW.addEventListener("change", fold);
  if (NARROW.matches) byId("figures").open = false;
  drawHistogram();
  drawRates(pickGiven);
  drawPairs(pickPair);
  const order = (labels) => [...new Set(labels)].sort((a, b) => a - b);
  fillSelect("given", order(data.given));
  fillSelect("suggested", order(data.index.map((_, row) => suggestion(row))));
  byId("which").value = USUAL;
  refilter();
  save();
  for (const id of ["which", "given", "suggested"]) byId(id).addEventListener("change", () => refilter());
  byId("find").addEventListener("input", () => refilter());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, act] of [
    ["clear", clearFilters], ["bulk", bulkAccept], ["export", exportDecisions], ["zoom", toggleZoom],
    ["undo", () => travel(undo(), "undo")], ["redo", () => travel(redo(), "redo")],
  ]) byId(id).addEventListener("click", act);
  byId("list").addEventListener("scroll", () => drawList(false), { passive: true });
  new ResizeObserver(() => drawList(false)).observe(byId("list"));
  addEventListener("keydown", onKey);
  addEventListener("pagehide", save);
  addEventListener("beforeunload", (event) => {
    save();
    if (!canSave && decided) event.preventDefault();
  });
  byId("list").focus({ preventScroll: true });
}

start();
