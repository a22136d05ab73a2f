// A film: shots that move time and zoom by themselves, each with a caption.

/// One shot: `words` for the caption; time runs on to `until` (a step of the story) in `run` milliseconds, and stays for
/// `hold`; with `ns`, to this time behind it. `follow` is a lane, `tab` a tab or section of the panel.
export class Film {
  /// `panel` opens tabs; `onShot` is given each shot as it begins, and nothing at the end.
  constructor(app, { panel, onShot, onEnd }) {
    this.app = app;
    this.panel = panel;
    this.onShot = onShot;
    this.onEnd = onEnd;
  }

  /// Plays shots, the first one from the displayed moment on.
  start(shots) {
    this.shots = shots;
    this.at = -1;
    this.app.film = this;
    this.next();
    this.app.play();
  }

  get isRunning() {
    return this.app.film === this;
  }

  get shot() {
    return this.shots[this.at];
  }

  next() {
    this.at += 1;
    this.passed = 0;
    const { app, shot } = this;
    if (!shot) return this.end(true);
    this.from = app.axis.place(app.now);
    const target = shot.ns ?? app.active.story.moments.findLast(({ step }) => step <= shot.until)?.ns ?? 0;
    this.to = Math.max(app.axis.place(target), this.from);
    this.zoomFrom = { scale: app.scale, scroll: app.scroll };
    this.zoomTo = viewOf(app, this.from, this.to);
    if (shot.follow !== undefined && app.followed(app.active) !== shot.follow) app.follow(app.active, shot.follow, true);
    if (shot.tab) this.panel.open(shot.tab);
    this.onShot(shot);
  }

  /// Moves on by so many milliseconds.
  advance(milliseconds) {
    const { app, shot } = this;
    this.passed += milliseconds;
    const zoom = isStill.matches ? 1 : eased(Math.min(this.passed / ZOOM_MS, 1));
    for (const name of ["scale", "scroll"]) app[name] = this.zoomFrom[name] + (this.zoomTo[name] - this.zoomFrom[name]) * zoom;
    const part = isStill.matches || shot.run === 0 ? 1 : Math.min(this.passed / shot.run, 1);
    const ns = app.axis.time(this.from + (this.to - this.from) * part);
    app.now = ns;
    const step = part === 1 ? Math.max(shot.until, 0) : app.stepAt(app.active, ns);
    app.step = Math.min(Math.max(step, app.step), app.active.story.moments.at(-1).step);
    app.pan(0);
    if (this.passed >= shot.run + shot.hold) this.next();
  }

  /// Ends it; what is shown stays.
  end(isWhole = false) {
    if (!this.isRunning) return;
    this.app.film = null;
    this.app.pause();
    this.onShot(null);
    this.onEnd?.(isWhole);
  }
}

/// The view that shows the places between `from` and `to`, and some of what was before.
function viewOf(app, from, to) {
  const before = (to - from) * 0.25;
  const room = Math.max(to - from + 2 * before, app.axis.usual * 12);
  const whole = (app.width - 40) / app.axis.length;
  const scale = Math.min(Math.max((app.width - 60) / room, whole), 60 / app.axis.usual);
  const most = Math.max(app.axis.length * scale - app.width + 40, 0);
  return { scale, scroll: Math.min(Math.max((from - before) * scale, 0), most) };
}

const eased = (part) => part * part * (3 - 2 * part);
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const ZOOM_MS = 900;
