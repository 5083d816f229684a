// The run, as the rest of the page asks for it.

const run = JSON.parse(byId("data").textContent);

const FAMILIES = {
  "device-init": "device", "fork-poison": "device",
  "forbidden-import": "foreign", "forbidden-native": "foreign",
  "call-mismatch": "answer", "route-mismatch": "answer",
  "ok": "ok", "": "none",
};

const rank = new Map(run.severity.map((kind, index) => [kind, index]));
rank.set("ok", run.severity.length);

const family = (verdict, failed) => FAMILIES[verdict] || (failed ? "broke" : "warned");

/** How grave a check is: less is worse; a warning is less grave than any error. */
const gravity = (check) => rank.get(check.verdict) + (check.failed ? 0 : run.severity.length);

/** What a cell says: a short word for a verdict. */
const short = (verdict) => verdict === "ok" ? "\u2713" : run.short[verdict] || verdict;

/** A row for each subject: in `cells`, by machine, the checks that were made there, the worst first. */
const rows = run.subjects.map((name, index) => ({ index, name, cells: run.machines.map(() => []), worst: Infinity }));

run.checks.forEach((check, index) => {
  check.index = index;
  const row = rows[check.subject];
  row.worst = Math.min(row.worst, gravity(check));
  if (check.machine >= 0) row.cells[check.machine].push(check);
});
for (const row of rows) for (const cell of row.cells) if (cell.length > 1) cell.sort((a, b) => gravity(a) - gravity(b));

const lineOf = (place) => {
  if (place < 0) return null;
  const [file, line, code, module] = run.lines[place];
  return { file, line, code, module, where: `${file}:${line}` };
};
const textOf = (place) => place < 0 ? "" : run.texts[place];

/** What the text filter looks at, made when first asked for. */
function haystack(thing, ...findings) {
  if (thing.haystack === undefined) {
    const words = findings.flatMap((finding) => {
      const blame = lineOf(finding.blame);
      return [finding.kind, finding.what, blame ? blame.where : "", textOf(finding.message)];
    });
    const contracts = (thing.cells || []).flatMap((cell) => cell.map((check) => check.contract || ""));
    thing.haystack = [thing.name || "", ...new Set(contracts), ...words].join("\n").toLowerCase();
  }
  return thing.haystack;
}

const findingsOf = (row) => row.cells.flatMap((cell) => cell.flatMap((check) => check.findings.map((at) => run.findings[at])));
