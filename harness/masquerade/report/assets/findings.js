// Each distinct finding once, the worst first.

const findings = {
  panel: h("div", { class: "panel", role: "listbox", tabindex: "0", "aria-label": "Distinct findings" }),
};

findings.list = new LongList(findings.panel, 66, drawItem, (group) => openDetail({ kind: "group", group }));

function drawItem(group, at) {
  const finding = run.findings[group.finding];
  const blame = lineOf(finding.blame);
  const here = at === findings.list.row;
  const open = () => {
    findings.list.go(at);
    findings.list.choose();
  };
  return h("div", {
    class: `row item${here ? " here" : ""}`, id: `finding-${at}`, role: "option", "aria-selected": String(here),
    "aria-setsize": findings.list.items.length, "aria-posinset": at + 1, onclick: open,
  },
  h("div", { class: "first" }, badge(finding.kind, group.level === "error"), h("span", { class: "what" }, finding.what)),
  h("div", { class: "second" }, h("span", { class: "place mono" }, blame ? blame.where : "no line to blame"), reach(group)));
}

function reach(group) {
  const subjects = new Set(group.places.map(([subject]) => subject));
  const machines = new Set(group.places.map(([, machine]) => machine));
  const where = group.alike ? "all machines alike" : plural(machines.size, "machine");
  return h("span", { class: "reach" }, `${plural(subjects.size, run.summary.noun)}, ${where}`);
}

const badge = (verdict, failed) => h("span", { class: `badge verdict ${family(verdict, failed)}` }, verdict);
