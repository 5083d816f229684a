// The page as a whole: its head, its views, its keys.

const VIEWS = [
  ["findings", "Findings", findings.panel, run.groups.length],
  ["matrix", "Matrix", matrix.panel, rows.length],
  ["golden", "Golden tables", golden.panel, tables.length],
].filter(([name, , , count]) => name === "matrix" || count > 0);

let view = VIEWS[0][0];

function show(name) {
  view = name;
  for (const [each, , panel] of VIEWS) {
    panel.hidden = each !== name;
    const tab = byId(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
  }
  update();
}

function update() {
  const machines = shownMachines();
  drawFilters(machines);
  const found = shownRows(machines);
  const groups = shownGroups(machines);
  if (view === "matrix") drawMatrix(machines, found);
  if (view === "findings") findings.list.show(groups);
  if (view === "golden") drawGolden(machines);
  byId("count").textContent = view === "findings"
    ? `${groups.length.toLocaleString("en")} of ${plural(run.groups.length, "finding")}`
    : `${found.length.toLocaleString("en")} of ${plural(rows.length, run.summary.noun)}`;
}

function drawHead() {
  const { findings: errors, warnings, interrupted, planned, seconds, noun } = run.summary;
  const headline = byId("headline");
  const missing = run.checks.length < planned;
  const broken = run.broken.length;
  const bad = [errors && plural(errors, "finding"), broken && plural(broken, "broken contract")].filter(Boolean);
  headline.textContent = interrupted || missing ? "Interrupted" : bad.join(", ") || "Everything holds";
  headline.className = bad.length || interrupted || missing ? "bad" : "good";
  const made = missing ? `${run.checks.length.toLocaleString("en")} of ${planned.toLocaleString("en")}` : run.checks.length.toLocaleString("en");
  const figures = [
    [errors, "findings"], [warnings, "warnings"], [rows.length.toLocaleString("en"), `${noun}s`],
    [run.machines.length, "machines"], [made, "checks"], [duration(seconds), "time"],
  ];
  fill(byId("figures"), figures.map(([value, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
  const host = ["python", "torch", "system"].filter((key) => run.host[key]).map((key) => `${key} ${run.host[key]}`);
  byId("tool").textContent = [run.tool, ...host].join(" \u00b7 ");
  byId("banner").hidden = !run.broken.length && !run.notes.length && !run.standIns.lines.length;
  const told = [
    ["Contracts that do not hold as a whole", run.broken], [run.standIns.title, run.standIns.lines], ["Notes", run.notes],
  ];
  fill(byId("banner"), told.map(([title, told]) =>
    told.length > 0 && [h("strong", {}, title), h("ul", {}, told.map((row) => h("li", {}, row)))]));
}

const duration = (seconds) => seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;

const THEMES = ["auto", "light", "dark"];
let theme = "auto";

function setTheme(name) {
  theme = name;
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try {
    localStorage.setItem("masquerade-theme", name);
  } catch {
    // A page that was opened from a file may have no storage; the choice then lasts as long as the page.
  }
}

function drawTabs() {
  fill(byId("tabs"), VIEWS.map(([name, label, panel, count]) => {
    panel.id = `panel-${name}`;
    return h("button", {
      type: "button", id: `tab-${name}`, role: "tab", "aria-controls": panel.id, onclick: () => show(name),
    }, label, h("span", { class: "number" }, count.toLocaleString("en")));
  }));
  fill(byId("views"), VIEWS.map((_, at) => h("kbd", {}, String(at + 1))));
  fill(byId("panels"), VIEWS.map(([, , panel]) => panel));
}

function currentPanel() {
  return VIEWS.find(([name]) => name === view)[2];
}

document.addEventListener("keydown", (event) => {
  const typing = event.target === byId("text");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (typing && wanted.text) clearFilters();
    else currentPanel().focus();
  } else if (typing) {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    currentPanel().focus();
  } else if (event.key === "/") byId("text").focus();
  else if (event.target.role === "tab" && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    const at = VIEWS.findIndex(([name]) => name === view) + (event.key === "ArrowLeft" ? -1 : 1);
    const [name] = VIEWS[(at + VIEWS.length) % VIEWS.length];
    show(name);
    byId(`tab-${name}`).focus();
  } else if (VIEWS[Number(event.key) - 1]) {
    show(VIEWS[Number(event.key) - 1][0]);
    currentPanel().focus();
  } else return;
  event.preventDefault();
});

byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]));
let kept = null;
try {
  kept = localStorage.getItem("masquerade-theme");
} catch {
  // As above.
}
setTheme(THEMES.includes(kept) ? kept : "auto");
drawHead();
drawTabs();
drawDetail();
show(view);
