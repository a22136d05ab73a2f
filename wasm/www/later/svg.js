// The diagram as a file.

import { fenceTitles, past, present } from "../app/draw.js";
import { MONO, SANS } from "../app/pen.js";

/// The diagram of a pane as it is seen, with the names of its lanes.
export function svgOf(pane) {
  const names = 96;
  const { app, story, rows, geometry, width } = pane;
  const { colors } = app;
  const pen = new SvgPen(width + names, geometry.height, colors.paper);
  pen.parts.push(`<g transform="translate(${names} 0)">`);
  const scene = { ...pane.scene(), seen: [0, geometry.height] };
  pen.within(0, 0, width, geometry.height, () => {
    past(pen, scene);
    fenceTitles(pen, scene);
    present(pen, scene);
  });
  pen.parts.push("</g>");
  const style = { color: colors.ink, size: 12, align: "right", weight: 600 };
  pen.text(story.hub, names - 12, geometry.server, style);
  rows.forEach((row, at) => pen.text(pane.named(row), names - 12, geometry.ys[at], { ...style, size: Math.min(12, geometry.spacing), weight: 400 }));
  return pen.finish(`${story.name}, seed ${story.seed}`);
}

/// Writes SVG.
class SvgPen {
  constructor(width, height, background) {
    this.parts = [];
    this.clips = 0;
    this.size = [width, height];
    this.box(0, 0, width, height, { color: background });
  }

  line(points, { color, width = 1, dash, alpha = 1, cap = "round" }) {
    const dashes = dash ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<polyline points="${path(points)}" fill="none" stroke="${color}" stroke-width="${width}" ` +
      `stroke-linecap="${cap}" stroke-linejoin="round" opacity="${alpha}"${dashes}/>`);
  }

  lines(segments, { color, width = 1, alpha = 1 }) {
    const d = segments.map(([x1, y1, x2, y2]) => `M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`).join("");
    this.parts.push(`<path d="${d}" fill="none" stroke="${color}" stroke-width="${width}" opacity="${alpha}"/>`);
  }

  area(points, { color, alpha = 1 }) {
    this.parts.push(`<polygon points="${path(points)}" fill="${color}" opacity="${alpha}"/>`);
  }

  box(x, y, width, height, { color, alpha = 1, radius = 0 }) {
    const [w, r] = [Math.max(width, 0), Math.min(radius, width / 2, height / 2)];
    this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(height)}" rx="${n(Math.max(r, 0))}" ` +
      `fill="${color}" opacity="${alpha}"/>`);
  }

  dot(x, y, radius, { color, alpha = 1, ring }) {
    const stroke = ring ? ` stroke="${ring}" stroke-width="1.5"` : "";
    this.parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${radius}" fill="${color}" opacity="${alpha}"${stroke}/>`);
  }

  boxes(all, { color, alpha = 1 }) {
    const d = all.map(([x, y, width, height]) => `M${n(x)} ${n(y)}h${n(width)}v${n(height)}h${n(-width)}z`).join("");
    this.parts.push(`<path d="${d}" fill="${color}" opacity="${alpha}"/>`);
  }

  text(words, x, y, { color, size = 11, align = "left", alpha = 1, weight = 400, mono = false, halo }) {
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    const around = halo ? ` stroke="${halo}" stroke-width="3" paint-order="stroke" stroke-linejoin="round"` : "";
    this.parts.push(`<text x="${n(x)}" y="${n(y)}" dominant-baseline="central" text-anchor="${anchor}" fill="${color}" ` +
      `font-family="${escaped(mono ? MONO : SANS)}" font-size="${size}" font-weight="${weight}" opacity="${alpha}"${around}>` +
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
  finish(title) {
    const [width, height] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
      `role="img"><title>${escaped(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`;
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
