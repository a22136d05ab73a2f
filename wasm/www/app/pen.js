// Where the diagram is drawn for the eye: a canvas. The pen of `later/svg.js`, for files, knows the same words.

/// Draws on a canvas.
export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  setDash(dash = null) {
    if (dash || this.dash) this.context.setLineDash(dash ?? []);
    this.dash = dash;
  }

  line(points, { color, width = 1, dash, alpha = 1, cap = "round" }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.strokeStyle = color;
    c.lineWidth = width;
    c.lineCap = cap;
    c.lineJoin = "round";
    this.setDash(dash);
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
    this.setDash();
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
    if (!radius) return c.fillRect(x, y, width, height);
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
      this.setDash();
      c.lineWidth = 1.5;
      c.strokeStyle = ring;
      c.stroke();
    }
  }

  /// Many boxes, each its left, top, width and height, in one fill: thousands cost little more than one.
  boxes(all, { color, alpha = 1 }) {
    const c = this.context;
    c.globalAlpha = alpha;
    c.fillStyle = color;
    c.beginPath();
    for (const [x, y, width, height] of all) c.rect(x, y, width, height);
    c.fill();
  }

  text(words, x, y, { color, size = 11, align = "left", alpha = 1, weight = 400, mono = false, halo }) {
    const c = this.context;
    c.globalAlpha = alpha;
    const font = `${weight} ${size}px ${mono ? MONO : SANS}`;
    // Reading a font costs more than drawing the words.
    if (font !== this.font) c.font = this.font = font;
    c.textAlign = align;
    c.textBaseline = "middle";
    if (halo) {
      this.setDash();
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
    const { context: c, font, dash } = this;
    c.save();
    c.beginPath();
    c.rect(x, y, width, height);
    c.clip();
    draw();
    c.restore();
    Object.assign(this, { font, dash });
  }
}

// The fonts of the style sheet.
const style = getComputedStyle(document.documentElement);
export const [SANS, MONO] = ["--sans", "--mono"].map((name) => style.getPropertyValue(name).trim());
