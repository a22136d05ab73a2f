// Dark and light: the setting of the system, unless the user has chosen.

const views = [];
const dark = matchMedia("(prefers-color-scheme: dark)");

export const theme = {
  /// The colours of the diagram, which stand in the style sheet.
  colors() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  },

  /// The colours in light and in dark.
  palettes() {
    const { dataset } = document.documentElement;
    const now = dataset.theme;
    const of = (name) => {
      dataset.theme = name;
      return this.colors();
    };
    const palettes = { light: of("light"), dark: of("dark") };
    dataset.theme = now;
    return palettes;
  },

  toggle() {
    choose(isDark() ? "light" : "dark");
    try {
      localStorage.setItem("theme", document.documentElement.dataset.theme);
    } catch {
      // Where nothing may be stored, the choice lasts as long as the page.
    }
  },

  onChange(view) {
    views.push(view);
  },
};

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function choose(name) {
  document.documentElement.dataset.theme = name;
  views.forEach((view) => view());
}

function stored() {
  try {
    const name = localStorage.getItem("theme");
    return ["dark", "light"].includes(name) ? name : null;
  } catch {
    return null;
  }
}

choose(stored() ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => stored() ?? choose(dark.matches ? "dark" : "light"));

const NAMES = ["paper", "ink", "soft", "faint", "good", "sheet", "rule", "grid", "band", "server", "lane", "life", "up", "down", "wait", "fence", "fenceHalo",
  "fault", "onFault", "now", "onNow", "strip"];
