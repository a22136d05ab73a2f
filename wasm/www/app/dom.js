// Elements, made by one call each.

/// An element with attributes, listeners (`onclick` and so on) and children.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/// A button with a name that is read aloud, and a key that does the same.
export function button(name, label, onclick, more = {}) {
  const key = more.key ? ` (${more.key})` : "";
  const { key: _, ...rest } = more;
  return h("button", { type: "button", "aria-label": name, title: name + key, onclick, ...rest }, label);
}

/// Replaces what an element holds.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/// A picture of the page's own: strokes on a field of 24 by 24.
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

const ICONS = {
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  back: "M15 5l-8 7 8 7",
  forth: "M9 5l8 7-8 7",
  start: "M18 5l-9 7 9 7M6 5v14",
  end: "M6 5l9 7-9 7M18 5v14",
  jump: "M4 12h12M11 6l6 6-6 6M20 5v14",
  share: "M12 15V4M8 8l4-4 4 4M5 13v6h14v-6",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  help: "M9 9a3 3 0 1 1 4 3c-1 .6-1 1.2-1 2M12 18v.01",
  close: "M6 6l12 12M18 6L6 18",
  fork: "M6 4v6c0 5 12 3 12 8v2M18 4v4M6 10v10",
  undo: "M8 5L4 9l4 4M4 9h10a5 5 0 0 1 0 10h-3",
  open: "M4 7h6l2 2h8v10H4z",
  save: "M12 4v11M8 11l4 4 4-4M5 19h14",
  learn: "M4 6l8-2 8 2v12l-8 2-8-2zM12 4v16",
  minus: "M6 12h12",
  plus: "M6 12h12M12 6v12",
  fit: "M4 9V5h4M20 9V5h-4M4 15v4h4M20 15v4h-4",
  fold: "M5 6h14M5 18h14M12 8v8M9 10l3-2 3 2M9 14l3 2 3-2",
  dice: "M5 5h14v14H5zM9 9v.01M15 15v.01M12 12v.01",
};
