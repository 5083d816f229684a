// Modules down, machines across.

const matrix = {
  panel: h("div", { class: "panel matrix", role: "grid", tabindex: "0", "aria-label": "Verdicts by module and machine" }),
  head: h("div", { class: "head", role: "row" }),
  machines: [],
};

matrix.panel.append(matrix.head);
matrix.list = new LongList(matrix.panel, 30, drawRow, (row, column) => openCell(row, matrix.machines[column]));
matrix.list.head = matrix.head;

function openCell(row, machine) {
  if (row.cells[machine].length) openDetail({ kind: "cell", row, machine });
}

function drawRow(row, at) {
  const name = h("div", { class: "name", role: "rowheader", title: row.name }, row.name);
  const cells = matrix.machines.map((machine, column) => drawCell(row, machine, at, column));
  return h("div", { class: "row", role: "row", "aria-rowindex": at + 2 }, name, cells);
}

function drawCell(row, machine, at, column) {
  const checks = row.cells[machine];
  const verdict = checks.length ? checks[0].verdict : "";
  const here = at === matrix.list.row && column === matrix.list.column;
  const open = () => {
    matrix.list.go(at, column);
    openCell(row, machine);
  };
  return h("div", {
    class: `cell verdict ${family(verdict, checks.length > 0 && checks[0].failed)}${here ? " here" : ""}`,
    id: `cell-${at}-${column}`, role: "gridcell", onclick: open,
    "aria-label": `${row.name} on ${run.machines[machine].id}: ${verdict || "not checked"}`,
  }, verdict ? short(verdict) : "\u00b7");
}

function drawMatrix(machines, found) {
  matrix.machines = machines;
  const longest = found.reduce((most, row) => Math.max(most, row.name.length), 10);
  const name = Math.min(Math.ceil(longest * 7.7) + 30, 380);
  matrix.panel.style.setProperty("--columns", `${name}px repeat(${machines.length}, minmax(0, 1fr))`);
  const each = Math.max(84, ...machines.map((at) => Math.min(run.machines[at].id.length * 7 + 10, 150)));
  matrix.panel.style.setProperty("--width", `max(100%, ${name + each * machines.length}px)`);
  fill(matrix.head, h("div", { class: "corner", role: "columnheader" }, plural(found.length, run.summary.noun)),
    machines.map((at) => {
      const { id, platform, arch } = run.machines[at];
      return h("div", { role: "columnheader", title: arch }, h("span", { class: "platform" }, platform), id);
    }));
  matrix.panel.setAttribute("aria-rowcount", found.length + 1);
  matrix.panel.setAttribute("aria-colcount", machines.length + 1);
  matrix.list.show(found, machines.length);
}
