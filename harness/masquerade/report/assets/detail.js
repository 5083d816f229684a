// One check or one distinct finding: the line to mend, the way there, the stack, and whom else it hits.

const MOST_HITS = 60;
let chosen = null;

/** `what` is {kind: "cell", row, machine}, {kind: "group", group} or {kind: "answer", cell, row, problem}. */
function openDetail(what) {
  chosen = what;
  drawDetail();
  byId("detail").scrollTop = 0;
  byId("detail").focus({ preventScroll: false });
}

function drawDetail() {
  const detail = byId("detail");
  if (!chosen) fill(detail, h("p", { class: "empty" }, run.groups.length ? "Choose a finding or a cell." : "Nothing was found."));
  else if (chosen.kind === "cell") fill(detail, ...cellDetail(chosen.row, chosen.machine));
  else if (chosen.kind === "group") fill(detail, ...groupDetail(chosen.group));
  else fill(detail, ...answerDetail(chosen.cell, chosen.row, chosen.problem));
}

function cellDetail(row, machine) {
  const { id, platform, arch } = run.machines[machine];
  return row.cells[machine].flatMap((check) => [
    h("h2", {}, row.name),
    check.contract && h("p", { class: "under" }, `contract ${check.contract}`),
    h("p", { class: "under" }, `${check.action} on ${id} (${platform}, ${arch}), ${check.seconds} s; touch of the device: ${check.touch}`),
    badge(check.verdict, check.failed),
    check.findings.map((at) => findingDetail(run.findings[at], [run.findings[at].message])),
    check.result !== undefined && [h("h3", {}, "Result"), h("pre", {}, textOf(check.result))],
    check.output >= 0 && h("details", { open: check.failed }, h("summary", {}, "Output"), h("pre", {}, textOf(check.output))),
    check.notes.map((note) => h("p", { class: "under" }, textOf(note))),
  ]).concat(elsewhere(row, machine));
}

/** How the same subject fares on the other machines. */
function elsewhere(row, machine) {
  const others = run.machines.map((_, at) => at).filter((at) => at !== machine && row.cells[at].length);
  return others.length ? [h("h3", {}, "Elsewhere"), h("div", { class: "hits" }, others.map((at) => {
    const [check] = row.cells[at];
    const open = () => openDetail({ kind: "cell", row, machine: at });
    return h("button", { type: "button", onclick: open }, `${run.machines[at].id} `, badge(check.verdict, check.failed));
  }))] : [];
}

function groupDetail(group) {
  const subjects = [...new Set(group.places.map(([subject]) => subject))];
  const machines = [...new Set(group.places.map(([, machine]) => machine))].filter((at) => at >= 0).sort((a, b) => a - b);
  return [
    findingDetail(run.findings[group.finding], group.messages, group.then),
    h("h3", {}, `On ${plural(machines.length, "machine")}`),
    h("div", { class: "hits" }, machines.map((at) => hit(run.machines[at].id, group, (place) => place[1] === at))),
    h("h3", {}, `In ${plural(subjects.length, run.summary.noun)}`),
    h("div", { class: "hits" }, subjects.slice(0, MOST_HITS).map((at) => hit(run.subjects[at], group, (place) => place[0] === at))),
    subjects.length > MOST_HITS && h("p", { class: "under" }, `and ${subjects.length - MOST_HITS} more`),
  ];
}

/** A button that opens the first check of a group that `matches`. */
function hit(label, group, matches) {
  const [subject, machine] = group.places.find(matches);
  return h("button", { type: "button", title: label, onclick: () => openDetail({ kind: "cell", row: rows[subject], machine }) }, label);
}

function findingDetail(finding, messages, then = []) {
  const blame = lineOf(finding.blame);
  return h("section", { class: "finding" },
    h("h2", {}, finding.what),
    h("p", { class: "under" }, badge(finding.kind, finding.level === "error"), ` ${finding.phase === "call" ? "in the call" : "while importing"}`),
    blame ? sourceBlock(blame) : h("p", { class: "under" }, "No line to blame."),
    messages.map((at) => textOf(at)).filter(Boolean).map((text) => h("div", { class: "says" }, text)),
    then.map((group) => h("p", { class: "under" }, `then ${run.findings[group.finding].what} on ${machineNames(group)}`)),
    finding.chain.length > 0 && [h("h3", {}, "The way there"), wayThere(finding, blame)],
    finding.stack.length > 0 && h("details", {}, h("summary", {}, "Stack"), h("pre", {}, finding.stack.map(textOf).join("\n"))));
}

const machineNames = (group) => [...new Set(group.places.map(([, at]) => at))].map((at) => run.machines[at].id).join(", ");

function sourceBlock(line) {
  return h("div", { class: "source" },
    h("div", { class: "file" }, line.where),
    line.code && h("pre", { class: "code" }, h("span", { class: "number" }, String(line.line)), h("code", {}, line.code)));
}

function wayThere(finding, blame) {
  return h("ol", { class: "way" }, finding.chain.map(lineOf).map((link) =>
    h("li", { class: blame && link.where === blame.where ? "blamed" : undefined },
      h("span", { class: "mono" }, link.where), link.code && h("span", { class: "code" }, link.code))));
}
