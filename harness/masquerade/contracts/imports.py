"""Contracts on imports: these modules import clean on these machines."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.contracts import kinds, patterns
from masquerade.contracts.contract import Case, Contract, Discover
from masquerade.contracts.errors import ConfigurationError, Problem
from masquerade.contracts.settings import setting
from masquerade.machines.errors import nearest
from masquerade.stage.check import SubjectError


@dataclass(frozen=True, kw_only=True)
class Imports(Contract):
    """Each module is imported on each machine, in a process of its own."""

    modules: tuple[str, ...] = setting(
        kinds.some_of(patterns.rooted),
        "Modules to import: `pkg` with all below it, `pkg.*` for one level, `pkg.**` for all levels below.",
    )
    exclude: tuple[str, ...] = setting(kinds.list_of(patterns.loose), "Modules to leave out; patterns alike.", ())

    def cases(self, discover: Discover) -> tuple[Case, ...]:
        out = []
        for module in self.found(discover):
            for machine in self.variants():
                id = f"{self.kind}/{self.name}/{module}@{machine.id}"
                out.append(Case(id, self, self.check(module, machine, id)))
        return tuple(out)

    def found(self, discover: Discover) -> list[str]:
        """The modules, each once. Raises ConfigurationError for a package that is not there, or that selects none."""
        problems: list[Problem] = []
        chosen: dict[str, None] = {}
        for index, pattern in enumerate(self.modules):
            package = patterns.root(pattern)
            try:
                matches = patterns.select(pattern, discover(package, self.path).modules)
            except SubjectError as error:
                problems.append(self.problem(str(error), "modules", index))
                continue
            if not matches:
                problems.append(self.problem(f"{pattern!r} matches no module of {package}", "modules", index))
            chosen.update(dict.fromkeys(matches))
        out: set[str] = set()
        for index, pattern in enumerate(self.exclude if not problems else ()):
            matches = patterns.select(pattern, chosen)
            if not matches:
                near = nearest(pattern, chosen)
                mend = f"; did you mean {' or '.join(near)}?" if near else ""
                problems.append(self.problem(f"{pattern!r} matches none of the modules{mend}", "exclude", index))
            out.update(matches)
        if chosen and len(out) == len(chosen):
            problems.append(self.problem("it leaves out every module: nothing would be checked", "exclude"))
        if problems:
            raise ConfigurationError(problems)
        return [module for module in chosen if module not in out]
