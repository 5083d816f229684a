// Golden tables: what is chosen on each machine, with what was to be chosen where the two differ.

const golden = { panel: h("div", { class: "panel golden", tabindex: "0", "aria-label": "Golden tables" }) };
const tables = run.tables;

const changesIn = (table) => table.rows.flatMap((row) => row.cells).filter((cell) => typeof cell !== "string").length;

function drawGolden(machines) {
  const names = new Set(machines.map((at) => run.machines[at].id));
  const chosen = (row) => (!wanted.platforms.size || names.has(row.machine))
    && (!wanted.text || `${row.machine} ${JSON.stringify(row.cells)}`.toLowerCase().includes(wanted.text));
  fill(golden.panel, tables.map((table) => drawTable(table, table.rows.filter(chosen))));
}

function drawTable(table, rows) {
  const changed = changesIn(table);
  const words = ["machine", ...table.columns, "source"];
  const head = h("tr", {}, words.map((name) => h("th", { scope: "col" }, name)));
  const body = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.machine),
    row.cells.map((cell, at) => drawAnswer(cell, row, table.columns[at])), h("td", { class: "from" }, row.source)));
  return h("section", {},
    h("h2", {}, table.name),
    h("p", { class: "under" }, `${table.file}: ${changed ? `${plural(changed, "answer")} changed` : "as it should be"}`),
    h("div", { class: "wide" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))));
}

function drawAnswer(cell, row, problem) {
  if (typeof cell === "string") return h("td", {}, cell);
  const open = () => openDetail({ kind: "answer", cell, row, problem });
  return h("td", { class: "changed" }, h("button", { type: "button", onclick: open }, wantAndGot(cell)));
}

const wantAndGot = (cell) => [h("del", {}, cell.want), " ", h("ins", {}, cell.got)];

function answerDetail(cell, row, problem) {
  return [
    h("h2", {}, problem),
    h("p", { class: "under" }, `on ${row.machine}`),
    h("p", { class: "diff" }, h("span", {}, "want"), h("del", {}, cell.want), h("span", {}, "got"), h("ins", {}, cell.got)),
    cell.why.length > 0 && [h("h3", {}, "Why"), h("ul", {}, cell.why.map((why) => h("li", {}, why)))],
    row.source && [h("h3", {}, "Source of the golden row"), h("p", {}, row.source)],
  ];
}
