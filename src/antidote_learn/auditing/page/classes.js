// How a class is chosen: by its own digit, which is the same on every row, or by the beginning of its name.

const MATCHES = 12; // the most classes that a search shows
const areDigits = data.classes.every((name) => /^[0-9]$/.test(name));
const haveDigits = areDigits || data.classes.length <= 9;
const plainNames = data.classes.map((name) => name.toLowerCase());
const classNumbers = data.classes.map((_, label) => label);

const digitOf = (label) => (areDigits ? data.classes[label] : String(label + 1));

// The class of a digit; -1 if it has none.
function labelOf(digit) {
  return haveDigits ? classNumbers.findIndex((label) => digitOf(label) === digit) : -1;
}

// The classes whose names begin with the words, then those that hold them; a name that is the words comes first.
function matches(words) {
  const text = words.toLowerCase(), rank = new Map();
  for (const label of classNumbers) {
    const at = plainNames[label].indexOf(text);
    if (at >= 0) rank.set(label, at > 0 ? 2 : plainNames[label] === text ? 0 : 1);
  }
  return [...rank.keys()].sort((a, b) => rank.get(a) - rank.get(b) || a - b);
}

function likeliest(row) {
  const start = row * data.choices;
  return data.likeliest.slice(start, start + data.choices);
}

// The probabilities of the likeliest classes of a row, in thousandths.
function shares(row) {
  return new Map(likeliest(row).map((label, at) => [label, data.probs[row * data.choices + at]]));
}

// The element with the classes of a row: all with their digits, or the likeliest ones below a field to type in.
function choices(row) {
  const list = made("ol", { className: "choices" });
  if (haveDigits) {
    list.ariaLabel = "Classes";
    offer(list, row, classNumbers, digitOf);
    return list;
  }
  const field = made("input", { id: "class", type: "search", autocomplete: "off", placeholder: "begin its name" });
  const words = made("label", { className: "other" }, made("span", {}, "Class ", keyMark("c")), field);
  const rest = made("p", { className: "quiet" });
  field.addEventListener("input", () => offerMatches(list, rest, row, field.value.trim()));
  field.addEventListener("keydown", (event) => onClassKey(event, field));
  offerMatches(list, rest, row, "");
  return made("div", {}, words, list, rest);
}

function offerMatches(list, rest, row, words) {
  const all = words ? matches(words) : likeliest(row), shown = all.slice(0, MATCHES);
  list.ariaLabel = words ? "Classes that match" : "The likeliest classes";
  offer(list, row, shown, (label) => (words && label === shown[0] ? "Enter" : ""));
  const fits = count(all.length, "class", "classes"), first = data.classes[all[0]];
  const found = all.length ? `${fits}; Enter takes ${first}, Escape closes.` : "No class is called so.";
  if (words) say(found);
  rest.textContent = all.length > shown.length ? `and ${all.length - shown.length} more` : "";
}

function offer(list, row, labels, keyOf) {
  const known = shares(row);
  list.replaceChildren(...labels.map((label) => made("li", {}, choice(row, label, known.get(label), keyOf(label)))));
}

function choice(row, label, share, key) {
  const button = made("button", { type: "button", title: data.classes[label] }, key ? keyMark(key) : "");
  button.append(made("span", { className: "name", textContent: data.classes[label] }));
  const role = label === data.given[row] ? "given" : label === suggestion(row) ? "suggested" : "";
  if (role) button.append(made("span", { className: "tag " + role, textContent: role }));
  button.append(made("span", { className: "share", textContent: share === undefined ? "" : percent(share) }));
  button.style.setProperty("--share", (share || 0) / 10 + "%");
  const isChosen = kinds[row] !== NONE && kinds[row] !== UNSURE && chosen[row] === label;
  button.setAttribute("aria-pressed", String(isChosen));
  button.addEventListener("click", () => decideCurrent(RELABEL, label));
  return button;
}

// Opens the field to type the beginning of a name in; false if classes have digits.
function searchClass(words) {
  const field = byId("class");
  if (!field) return false;
  field.focus();
  field.value = words;
  field.dispatchEvent(new Event("input"));
  return true;
}

function onClassKey(event, field) {
  const words = field.value.trim();
  if (event.key === "Enter" && words) {
    const [label] = matches(words);
    if (label !== undefined) decideCurrent(RELABEL, label);
  } else if (event.key === "Escape") {
    searchClass("");
    say("");
    byId("list").focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}
