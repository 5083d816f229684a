// What is shown: by platform, by verdict, by text.

const wanted = { text: "", platforms: new Set(), verdicts: new Set() };

const platformNames = [...new Set(run.machines.map((machine) => machine.platform))];

/** Places of the machines of the chosen platforms; of all, where none is chosen. */
function shownMachines() {
  const all = run.machines.map((_, index) => index);
  return wanted.platforms.size ? all.filter((index) => wanted.platforms.has(run.machines[index].platform)) : all;
}

function shownRows(machines) {
  return rows.filter((row) => {
    const checks = machines.flatMap((machine) => row.cells[machine]);
    if (!checks.length) return false;
    if (wanted.verdicts.size && !checks.some((check) => wanted.verdicts.has(check.verdict))) return false;
    return !wanted.text || haystack(row, ...findingsOf(row)).includes(wanted.text);
  }).sort((a, b) => a.worst - b.worst || a.index - b.index);
}

function shownGroups(machines) {
  return run.groups.filter((group) => {
    const finding = run.findings[group.finding];
    if (wanted.verdicts.size && !wanted.verdicts.has(finding.kind)) return false;
    if (!group.places.some(([, machine]) => machines.includes(machine))) return false;
    if (!wanted.text) return true;
    return haystack(group, finding).includes(wanted.text)
      || group.places.some(([subject]) => run.subjects[subject].toLowerCase().includes(wanted.text));
  });
}

function chip(label, number, chosen, value) {
  const toggle = () => {
    if (!chosen.delete(value)) chosen.add(value);
    refilter();
  };
  const count = h("span", { class: "number" }, number.toLocaleString("en"));
  return h("button", { type: "button", "aria-pressed": String(chosen.has(value)), "data-value": value, onclick: toggle }, label, count);
}

function drawFilters(machines) {
  const focused = document.activeElement && document.activeElement.dataset.value;
  const checks = run.checks.filter((check) => check.machine >= 0 && machines.includes(check.machine));
  const counts = new Map();
  for (const check of checks) counts.set(check.verdict, (counts.get(check.verdict) || 0) + 1);
  for (const verdict of wanted.verdicts) if (!counts.has(verdict)) counts.set(verdict, 0);
  const verdicts = [...counts].sort(([a], [b]) => rank.get(a) - rank.get(b));
  fill(byId("verdicts"), verdicts.map(([verdict, count]) => chip(verdict, count, wanted.verdicts, verdict)));
  fill(byId("platforms"), platformNames.map((name) => {
    const count = run.machines.filter((machine) => machine.platform === name).length;
    return chip(name, count, wanted.platforms, name);
  }));
  byId("clear").hidden = !wanted.text && !wanted.platforms.size && !wanted.verdicts.size;
  if (focused) document.querySelector(`.chips [data-value="${CSS.escape(focused)}"]`)?.focus();
}

function refilter() {
  for (const list of [matrix.list, findings.list]) list.top();
  update();
}

function clearFilters() {
  wanted.text = byId("text").value = "";
  wanted.platforms.clear();
  wanted.verdicts.clear();
  refilter();
}

byId("clear").addEventListener("click", clearFilters);
byId("text").addEventListener("input", (event) => {
  wanted.text = event.target.value.trim().toLowerCase();
  refilter();
});
