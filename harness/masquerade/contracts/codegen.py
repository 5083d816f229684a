"""Contracts on code generation: what a function's Triton kernels are compiled to on each machine, by a golden table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from masquerade.contracts import codegen_cells, codegen_tables, golden, kinds
from masquerade.contracts.call import Asked
from masquerade.contracts.codegen_cells import COLUMNS, KEYS
from masquerade.contracts.codegen_judge import KIND, Judge, Outcome, arch_of, outcome
from masquerade.contracts.codegen_rows import rows
from masquerade.contracts.codegen_where import matching, strangers
from masquerade.contracts.codegen_words import WORDS
from masquerade.contracts.contract import Broken, Case, Discover
from masquerade.contracts.errors import ConfigurationError, shown
from masquerade.contracts.golden import Answer, Answers, Change, Compared, Comparison, Plan, Table
from masquerade.contracts.golden.cells import MISSING
from masquerade.contracts.settings import Keys, setting
from masquerade.contracts.tabled import Pairs, Tabled
from masquerade.machines import Machine
from masquerade.stage.record import Record


@dataclass(frozen=True, kw_only=True)
class Expected:
    """An error that must come, and why."""

    message: str = setting(kinds.regular_expression, "A regular expression to be found in the error's message.")
    reason: str = setting(kinds.text, "Why there is no kernel.")


@dataclass(frozen=True)
class Compiled(Case):
    """One configuration on one machine."""

    configuration: str = ""


@dataclass(frozen=True, kw_only=True)
class Codegen(Tabled):
    """A function that launches kernels is called in each configuration on each machine, and nothing is launched."""

    function: str = setting(kinds.function, "The function that launches kernels, as pkg.mod:func.")
    factory: str = setting(
        kinds.function, "A function of yours, pkg.mod:func, that makes the arguments of all configurations.", ""
    )
    configurations: Mapping[str, Asked] = setting(
        kinds.table_of(kinds.object_of(Asked), kinds.name), "The calls by name: args, kwargs, factory, env of each."
    )
    golden: str = setting(
        codegen_tables.template,
        "The golden table's file, with {triton} in its name for Triton's release. Its reasons lie beside it.",
    )
    requires: tuple[str, ...] = setting(
        kinds.list_of(kinds.one_of(*WORDS)), f"What must hold of all kernels: {', '.join(WORDS)}.", ()
    )
    requires_on: Mapping[str, tuple[str, ...]] = setting(
        kinds.table_of(kinds.list_of(kinds.one_of(*WORDS))),
        "What must hold besides, by machine, arch or platform, or by configuration@machine and so on.",
        dict,
    )
    kernels: tuple[str, ...] = setting(
        kinds.list_of(kinds.text), "The kernels, as patterns, of which `uses ...` is required. Without it: all.", ("*",)
    )
    expect_error: Mapping[str, Expected] = setting(
        kinds.table_of(kinds.object_of(Expected)), "Errors that must come, by place as in requires_on.", dict
    )
    no_launch: Mapping[str, str] = setting(
        kinds.table_of(kinds.text), "Places where the function launches no kernel, each with the reason.", dict
    )
    left_out: Mapping[str, str] = setting(
        kinds.table_of(kinds.text), "Places that are not compiled for, each with the reason.", dict
    )
    first: tuple[str, ...] = setting(
        kinds.list_of(kinds.text),
        "Modules to import before the function's: once for all calls on a machine, if that leaves nothing else behind.",
        (),
    )
    tolerance: float = setting(
        kinds.seconds, "The part by which shared memory, registers and spills may differ from the table; 0.1.", 0.1
    )
    triton: str = ""  # the subject's release, and with it the table, are known when cases are made
    tables: codegen_tables.Tables = field(default_factory=dict, repr=False)

    def wrong(self) -> Iterator[tuple[Keys, str]]:
        yield from super().wrong()
        if not self.configurations:
            yield ("configurations",), "there is no configuration: nothing would be compiled"
        names = [name for machine in self.variants() for name in self.places(machine)]
        tables: dict[str, Mapping[str, object]] = {
            "requires_on": self.requires_on,
            "expect_error": self.expect_error,
            "no_launch": self.no_launch,
            "left_out": self.left_out,
        }
        for setting_name, table in tables.items():
            for key, message in strangers(table, self.configurations, names):
                yield (setting_name, key), message

    def places(self, machine: Machine) -> tuple[str, ...]:
        """What tables of settings may call a machine: by its names, its arch, its platform."""
        return (*self.names(machine), arch_of(machine), machine.platform)

    @property
    def keys(self) -> tuple[str, ...]:
        return KEYS

    @property
    def golden_file(self) -> str:
        return self.golden.replace(codegen_tables.VERSION, self.triton)

    @property
    def head(self) -> tuple[str, ...]:
        return (
            f"# {self.function}",
            "",
            f"Triton {self.triton}. Shared memory in bytes a block; registers, and spilled words of 4 bytes, a thread.",
        )

    def prepared(self, act: str) -> Codegen:
        """With its golden tables of all releases; reports what is wrong with their files."""
        return replace(self, tables=self.attempted(lambda: codegen_tables.read(self.golden)) or {})

    def cases(self, discover: Discover) -> tuple[Case, ...]:
        release = codegen_tables.installed(discover, self.path)
        if not release:
            says = "the subject has no Triton, whose release names the golden table; install it where the subject lives"
            raise ConfigurationError([self.problem(says)])
        table, reasons = self.tables.get(release, (None, {}))
        owner = replace(self, triton=release, table=table, reasons=reasons)
        out = []
        for name, machine in self.pairs():
            if self.why_left_out(name, machine):
                continue
            asked = self.configurations[name]
            id = self.id(name, machine)
            factory = asked.factory or self.factory
            more = {**asked.call(), "factory": factory, "env": asked.env, "first": self.first}
            out.append(Compiled(id, owner, self.check(self.function, machine, id, **more), name))
        return tuple(out)

    def pairs(self) -> Iterator[tuple[str, Machine]]:
        """Each configuration with each machine."""
        variants = self.variants()
        for name in self.configurations:
            for machine in variants:
                yield name, machine

    def id(self, configuration: str, machine: Machine) -> str:
        return f"{self.kind}/{self.name}/{configuration}@{machine.id}"

    def why_left_out(self, configuration: str, machine: Machine) -> str:
        """Why there is no such case; "" where there is one."""
        return next(matching(self.left_out, configuration, self.places(machine)), "")

    # -- one case -----------------------------------------------------------------------------------------------------

    def judge(self, case: Case, record: Record) -> Record:
        configuration = case.configuration if isinstance(case, Compiled) else ""
        findings, result = Judge(self, configuration, case.check.machine).judged(record)
        if self.table is None:
            record = replace(record, notes=(*record.notes, f"compared with no golden table: {self._lacking()}"))
        return self.settled(record, findings, subject=f"{self.function}[{configuration}]", result=result)

    def outcome(self, configuration: str, machine: Machine, record: Record) -> Outcome:
        """The rows that the record of a case gives."""
        places = self.places(machine)
        expected = next(matching(self.expect_error, configuration, places), None)
        return outcome(record, expected, next(matching(self.no_launch, configuration, places), ""))

    def key(self, configuration: str, kernel: str, machine: Machine) -> str:
        """What names a row."""
        return f"{configuration} {kernel} {machine.id} {arch_of(machine)}"

    def same(self, column: str, one: str, other: str) -> bool:
        """Whether two cells of a column say the same, with this contract's tolerance."""
        return codegen_cells.same(self.tolerance, column, one, other)

    def cell(self, key: str, column: str, answer: Answer) -> str | Change:
        """What the table holds, or how `answer` differs from it, with a sentence that says what that means."""
        found = golden.compared(self.table or Table(keys=KEYS), {}, key, column, answer, self.same)
        return replace(found, why=(codegen_tables.sentence(found),)) if isinstance(found, Change) else found

    # -- all of them --------------------------------------------------------------------------------------------------

    def whole(self, records: Sequence[Record]) -> Iterator[Broken]:
        by_id = {record.id: record for record in records}
        if all(self.id(name, machine) in by_id or self.why_left_out(name, machine) for name, machine in self.pairs()):
            yield from super().whole(records)
        found = rows(self, by_id)
        if self.table is None:
            yield self.broken(self._without_table(found.answers))
            return
        for change in golden.compare(self.table, {}, found.fixed, self.same):
            if change.problem == COLUMNS[0]:
                mend = f"`masquerade check --golden {'create' if change.old == MISSING else 'fix'}` writes it"
                says = f"row {change.machine}: want {change.old}, got {change.new}; {mend}"
                yield self.broken(says, change.line, shown(self.golden_file) if change.line else "")
        for row in self.table.rows:
            if row.machine not in found.answers and row.machine not in found.unknown:
                says = f"stale: row {row.machine} no longer runs; take it out with `masquerade check --golden trim`"
                yield self.broken(says, row.line, shown(self.golden_file))

    def _without_table(self, answers: Answers) -> str:
        says = f"{self._lacking()}; `masquerade check --golden create` writes it"
        release = codegen_tables.before(self.tables, self.triton)
        if not release:
            return says
        told = codegen_tables.differences(self.tables[release][0], answers, self.same)
        lines = told or ["nothing changed beyond the tolerance"]
        return "\n  ".join([f"{says}. Against Triton {release}:", *lines])

    def _lacking(self) -> str:
        return f"there is no {shown(self.golden_file)} for Triton {self.triton} yet"

    def plan(self, pairs: Pairs, source: str) -> Plan:
        found = rows(self, self._by_id(pairs))
        table = tuple(row.machine for row in self.table.rows) if self.table else ()
        return Plan(found.order(table), COLUMNS, found.answers, source, self.same)

    def compared(self, pairs: Pairs) -> Comparison:
        by_id = self._by_id(pairs)
        out = []
        for key, row in rows(self, by_id).answers.items() if self.table else ():
            golden_row = self.table.row(key) if self.table else None
            cells = tuple(self.cell(key, name, row[name]) for name in COLUMNS)
            out.append(Compared(key, cells, golden_row.source if golden_row else ""))
        places = {record.place for record in by_id.values() if record.place}
        oracle = f"{self.function}{f' in {min(map(str, places))}' if places else ''}"
        count = len(out) * len(COLUMNS)
        return Comparison(self.name, shown(self.golden_file), COLUMNS, tuple(out), count, oracle, KIND)

    def _by_id(self, pairs: Pairs) -> dict[str, Record]:
        return {case.id: record for case, record in pairs if case.contract == self.name}
