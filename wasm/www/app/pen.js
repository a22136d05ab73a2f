// Where the diagram is drawn: on a canvas for the eye, or as SVG for a file. Both know the same words.

/// Draws on a canvas.
export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  line(points, { color, width = 1, dash, alpha = 1, cap = "round" }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.strokeStyle = color;
    c.lineWidth = width;
    c.lineCap = cap;
    c.lineJoin = "round";
    c.setLineDash(dash ?? []);
    c.beginPath();
    points.forEach(([x, y], at) => (at ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.stroke();
  }

  /// Many lines of two points each, in one stroke: thousands cost little more than one.
  lines(segments, { color, width = 1, alpha = 1 }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.strokeStyle = color;
    c.lineWidth = width;
    c.lineCap = "butt";
    c.setLineDash([]);
    c.beginPath();
    for (const [x1, y1, x2, y2] of segments) {
      c.moveTo(x1, y1);
      c.lineTo(x2, y2);
    }
    c.stroke();
  }

  area(points, { color, alpha = 1 }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.fillStyle = color;
    c.beginPath();
    points.forEach(([x, y], at) => (at ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.fill();
  }

  box(x, y, width, height, { color, alpha = 1, radius = 0 }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.fillStyle = color;
    c.beginPath();
    c.roundRect(x, y, width, height, radius);
    c.fill();
  }

  dot(x, y, radius, { color, alpha = 1, ring }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.beginPath();
    c.arc(x, y, radius, 0, 2 * Math.PI);
    c.fillStyle = color;
    c.fill();
    if (ring) {
      c.setLineDash([]);
      c.lineWidth = 1.5;
      c.strokeStyle = ring;
      c.stroke();
    }
  }

  text(words, x, y, { color, size = 11, align = "left", alpha = 1, weight = 400, mono = false, halo }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.font = `${weight} ${size}px ${mono ? MONO : SANS}`;
    c.textAlign = align;
    c.textBaseline = "middle";
    if (halo) {
      c.setLineDash([]);
      c.lineWidth = 3;
      c.lineJoin = "round";
      c.strokeStyle = halo;
      c.strokeText(words, x, y);
    }
    c.fillStyle = color;
    c.fillText(words, x, y);
  }

  /// What `draw` draws is seen inside of a box only.
  within(x, y, width, height, draw) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(x, y, width, height);
    c.clip();
    draw();
    c.restore();
  }
}

/// Writes SVG.
export class SvgPen {
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

// The fonts of the style sheet.
const style = getComputedStyle(document.documentElement);
const [SANS, MONO] = ["--sans", "--mono"].map((name) => style.getPropertyValue(name).trim());
