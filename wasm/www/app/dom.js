// Elements, made by one call each.

/// An element with attributes, listeners (`onclick` and so on) and children. `key` identifies it among its
/// siblings when its parent is updated.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  const { key, ...others } = attributes;
  made.set(element, { key, attributes: others, listeners: new Map() });
  for (const [name, value] of Object.entries(others)) {
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...present(children));
  return element;
}

/// Children in any nesting, without those that a condition has left out.
const present = (children) => children.flat(Infinity).filter((child) => child != null && child !== false);

/// A button with a name that is read aloud, and a key that does the same.
export function button(name, label, onclick, more = {}) {
  const key = more.key ? ` (${more.key})` : "";
  const { key: _, ...rest } = more;
  return h("button", { type: "button", "aria-label": name, title: name + key, onclick, ...rest }, label);
}

/// Replaces what an element holds.
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/// Updates what an element holds to `children`, and keeps the nodes that stay: a focus, a typed text and a press
/// that has begun survive. Listeners of kept nodes are those of the new ones, and must not hold new nodes.
export function update(element, ...children) {
  const next = present(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  const held = Map.groupBy(element.childNodes, identityOf);
  const nodes = next.map((node) => {
    const kept = held.get(identityOf(node))?.shift();
    return kept && adopt(kept, node) ? kept : node;
  });
  const staying = new Set(nodes);
  // Nodes that go are removed first: a node that is moved loses its focus.
  for (const node of [...element.childNodes]) if (!staying.has(node)) node.remove();
  let place = element.firstChild;
  for (const node of nodes) {
    if (node === place) place = place.nextSibling;
    else element.insertBefore(node, place);
  }
}

/// Identity of a node among its siblings. Buttons of different names never share a node.
function identityOf(node) {
  const key = made.get(node)?.key;
  if (key != null) return key;
  if (!made.has(node)) return node.nodeName;
  const name = node.getAttribute("aria-label") ?? (node.localName === "button" ? node.textContent : "");
  return `${node.localName} ${name}`;
}

/// Turns `kept` into `next`; false if it has to be replaced.
function adopt(kept, next) {
  if (kept === next) return true;
  if (kept.nodeType === Node.TEXT_NODE) {
    if (kept.data !== next.data) kept.data = next.data;
    return true;
  }
  const [was, is] = [made.get(kept), made.get(next)];
  if (!was || !is || kept.localName !== next.localName) return kept.isEqualNode(next);
  for (const name of Object.keys({ ...was.attributes, ...is.attributes })) {
    if (name.startsWith("on")) {
      listen(kept, name.slice(2), is.attributes[name]);
    } else {
      // What the page has set since, as a class of the moment, is left alone.
      if (was.attributes[name] === is.attributes[name]) continue;
      const value = next.getAttribute(name);
      if (value == null) kept.removeAttribute(name);
      else kept.setAttribute(name, value);
    }
  }
  was.attributes = is.attributes;
  const chosen = next.localName === "select" ? next.value : null;
  update(kept, [...next.childNodes]);
  if (chosen != null) kept.value = chosen;
  return true;
}

/// Sets the listener to an event, in place of the one before.
function listen(element, type, listener) {
  const { listeners } = made.get(element);
  if (!listeners.has(type)) element.addEventListener(type, (event) => listeners.get(type)?.(event));
  listeners.set(type, listener);
}

/// Origin of each element that `h` has made.
const made = new WeakMap();

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
  present: "M4 5h16v11H4zM9 20h6M12 16v4",
  hello: "M4 12h3M17 12h3M10 9h4a3 3 0 0 1 0 6h-4a3 3 0 0 1 0-6z",
  fold: "M5 6h14M5 18h14M12 8v8M9 10l3-2 3 2M9 14l3 2 3-2",
  dice: "M5 5h14v14H5zM9 9v.01M15 15v.01M12 12v.01",
};
