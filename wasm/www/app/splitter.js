// The line between the diagrams and the panel, which can be moved by pointer and by keys.

import { h } from "./dom.js";

export function splitter(main) {
  const element = h("div", { class: "splitter", role: "separator", "aria-orientation": "vertical", "aria-label": "Width of the panel", tabindex: "0", "aria-valuemin": LEAST_PX, "aria-valuemax": MOST_PX });
  const set = (width) => {
    const most = Math.min(MOST_PX, main.clientWidth - FIELD_LEAST_PX);
    const kept = Math.round(Math.max(Math.min(width, most), LEAST_PX));
    main.style.setProperty("--panel", `${kept}px`);
    element.setAttribute("aria-valuenow", String(kept));
  };
  const width = () => main.getBoundingClientRect().right - element.getBoundingClientRect().right;
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => element.hasPointerCapture(event.pointerId) && set(main.getBoundingClientRect().right - event.clientX));
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: STEP_PX, ArrowRight: -STEP_PX }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    set(width() + by);
  });
  element.addEventListener("dblclick", () => {
    main.style.removeProperty("--panel");
    element.removeAttribute("aria-valuenow");
  });
  requestAnimationFrame(() => element.setAttribute("aria-valuenow", String(Math.round(Math.max(width(), 0)))));
  return element;
}

const LEAST_PX = 240;
const MOST_PX = 760;
const FIELD_LEAST_PX = 320;
const STEP_PX = 24;
