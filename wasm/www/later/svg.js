// The diagram as a file.

import { fenceTitles, past, present } from "../app/draw.js";
import { SIGNS } from "../app/legend.js";
import { MONO, SANS } from "../app/pen.js";
import { theme } from "../app/theme.js";

/// The diagram of a pane as it is seen, with the names of its lanes and the legend, in the light or dark colours of its reader.
export function svgOf(pane) {
  const names = 96;
  const { story, rows, geometry, width } = pane;
  const palettes = theme.palettes();
  // Each colour by its name, which is a class of the picture.
  const colors = Object.fromEntries(Object.keys(palettes.light).map((name) => [name, name]));
  const pen = new SvgPen(Math.max(width + names, LEGEND_PX), geometry.height + 32);
  pen.parts.push(`<g transform="translate(${names} 0)">`);
  const scene = { ...pane.scene(), colors, seen: [0, geometry.height] };
  pen.within(0, 0, width, geometry.height, () => {
    past(pen, scene);
    fenceTitles(pen, scene);
    present(pen, scene);
  });
  pen.parts.push("</g>");
  const style = { color: "ink", size: 12, align: "right", weight: 600 };
  pen.text(story.hub, names - 12, geometry.server, style);
  rows.forEach((row, at) => pen.text(pane.named(row), names - 12, geometry.ys[at], { ...style, size: Math.min(12, geometry.spacing), weight: 400 }));
  signs(pen, geometry.height + 14);
  return pen.finish(`${story.name}, seed ${story.seed}`, palettes);
}

/// The legend, in a line.
function signs(pen, y) {
  let x = 20;
  for (const [kind, words] of SIGNS) {
    const { width = 24, height, radius = 2, color = kind, alpha = 1 } = SHAPES[kind];
    pen.box(x, y - height / 2, width, height, { color, radius, alpha });
    pen.text(words, x + width + 7, y, { color: "soft", size: 12 });
    x += width + 25 + words.length * 6.2;
  }
}

/// The signs as in the style sheet.
const SHAPES = {
  up: { height: 3 }, down: { height: 3 }, wait: { height: 5, alpha: 0.5 }, fence: { height: 10, alpha: 0.7 },
  hello: { height: 12, radius: 6, color: "server" }, fault: { width: 10, height: 10, radius: 5 },
};

/// Width of the legend.
const LEGEND_PX = 900;

/// Writes SVG. Colours are names, those of the style sheet.
class SvgPen {
  constructor(width, height) {
    this.parts = [];
    this.clips = 0;
    this.used = new Set();
    this.size = [width, height];
    this.box(0, 0, width, height, { color: "paper" });
  }

  fill(color) {
    return this.#classed(`fill-${color}`);
  }

  stroke(color) {
    return this.#classed(`stroke-${color}`);
  }

  #classed(name) {
    this.used.add(name);
    return name;
  }

  line(points, { color, width = 1, dash, alpha = 1, cap = "round" }) {
    const dashes = dash ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<polyline points="${path(points)}" fill="none" class="${this.stroke(color)}" stroke-width="${width}" ` +
      `stroke-linecap="${cap}" stroke-linejoin="round" opacity="${alpha}"${dashes}/>`);
  }

  lines(segments, { color, width = 1, alpha = 1 }) {
    const d = segments.map(([x1, y1, x2, y2]) => `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`).join("");
    this.parts.push(`<path d="${d}" fill="none" class="${this.stroke(color)}" stroke-width="${width}" opacity="${alpha}"/>`);
  }

  area(points, { color, alpha = 1 }) {
    this.parts.push(`<polygon points="${path(points)}" class="${this.fill(color)}" opacity="${alpha}"/>`);
  }

  box(x, y, width, height, { color, alpha = 1, radius = 0 }) {
    const [w, r] = [Math.max(width, 0), Math.min(radius, width / 2, height / 2)];
    this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(height)}" rx="${n(Math.max(r, 0))}" ` +
      `class="${this.fill(color)}" opacity="${alpha}"/>`);
  }

  dot(x, y, radius, { color, alpha = 1, ring }) {
    const around = ring ? ` ${this.stroke(ring)}" stroke-width="1.5` : "";
    this.parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${radius}" opacity="${alpha}" class="${this.fill(color)}${around}"/>`);
  }

  boxes(all, { color, alpha = 1 }) {
    const d = all.map(([x, y, width, height]) => `M${n(x)} ${n(y)}h${n(width)}v${n(height)}h${n(-width)}z`).join("");
    this.parts.push(`<path d="${d}" class="${this.fill(color)}" opacity="${alpha}"/>`);
  }

  text(words, x, y, { color, size = 11, align = "left", alpha = 1, weight = 400, mono = false, halo }) {
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    const around = halo ? ` ${this.stroke(halo)}" stroke-width="3" paint-order="stroke" stroke-linejoin="round` : "";
    this.parts.push(`<text x="${n(x)}" y="${n(y)}" dominant-baseline="central" text-anchor="${anchor}" ` +
      `font-family="${escaped(mono ? MONO : SANS)}" font-size="${size}" font-weight="${weight}" opacity="${alpha}" class="${this.fill(color)}${around}">` +
      `${escaped(words)}</text>`);
  }

  within(x, y, width, height, draw) {
    const id = `clip-${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(Math.max(width, 0))}" ` +
      `height="${n(Math.max(height, 0))}"/></clipPath><g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  /// The whole file.
  finish(title, { light, dark }) {
    const [width, height] = this.size;
    const rules = (palette) => [...this.used].map((name) => {
      const [how, color] = name.split("-");
      return `.${name} { ${how}: ${palette[color]}; }`;
    }).join("\n");
    const style = `<style>\n${rules(light)}\n@media (prefers-color-scheme: dark) {\n${rules(dark)}\n}\n</style>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
      `role="img"><title>${escaped(title)}</title>\n${style}\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

function path(points) {
  return points.map(([x, y]) => `${n(x)},${n(y)}`).join(" ");
}

function n(number) {
  return Math.round(number * 10) / 10;
}

/// Text as XML takes it; what XML has no way to say is shown as a box.
function escaped(text) {
  return String(text)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\u25a1")
    .replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
