// Elements of the document; whatever comes from the data goes into it as text.

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent.append(node);
  return node;
}

function made(name, options, ...children) {
  const node = Object.assign(document.createElement(name), options);
  node.append(...children);
  return node;
}

function percent(thousandths) {
  return thousandths < 5 ? "<1 %" : thousandths >= 995 ? ">99 %" : Math.round(thousandths / 10) + " %";
}

// A picture in base64; one of few pixels shows them as squares.
function picture(content, className, alt) {
  if (!content) return "";
  const image = made("img", { className, alt, decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 64));
  image.src = "data:image/webp;base64," + content;
  return image;
}

const rowPicture = (row, className) => picture(data.pictures[row], className, rowName(row));
const rowName = (row) => data.names[row] || "row " + data.index[row];

function keyMark(text) {
  return made("kbd", { textContent: text });
}

// A picture that a click enlarges.
function zoomable(image, words, onZoom, className = "") {
  if (!image) return "";
  const button = made("button", { type: "button", className: "zoom " + className, title: "Enlarge: " + words }, image);
  button.setAttribute("aria-label", "Enlarge the picture: " + words);
  button.addEventListener("click", onZoom);
  return button;
}

function enlarge(content, words) {
  const dialog = byId("zoom"), before = dialog.querySelector("img");
  if (before) before.remove();
  dialog.prepend(picture(content, "enlarged", words));
  dialog.querySelector("p").textContent = words;
  if (!dialog.open) dialog.showModal();
  dialog.focus();
}
