"""Golden files: what is written is read again, and each bad line is told with its mend."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.contracts import ConfigurationError, golden
from masquerade.contracts.golden import Answer, Row, Table, cells

GOOD = """\
# routes
#
# Agreed on in PR 1.

| machine      | small  | large      | source            |
|--------------|--------|------------|-------------------|
| h100         | marlin | [false, 0] | PR 1 \\| measured  |
| mi355x+aiter | !Error | ?          | unknown           |
"""


def told(tmp_path: Path, data: str | bytes) -> list[str]:
    file = tmp_path / "g.md"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(ConfigurationError) as caught:
        golden.read(file)
    return [str(problem).removeprefix(str(problem.file)) for problem in caught.value.problems]


def test_a_table_is_read_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "g.md"
    file.write_text(GOOD)
    table = golden.read(file)
    assert table is not None
    assert (table.columns, table.head) == (("small", "large"), ("# routes", "#", "# Agreed on in PR 1."))
    assert table.rows[0] == Row("h100", {"small": "marlin", "large": "[false, 0]"}, "PR 1 | measured", 7)
    assert (table.cell("mi355x+aiter", "small"), table.cell("mi355x+aiter", "large")) == ("!Error", "?")
    assert (table.cell("b580", "small"), table.cell("h100", "other")) == ("?", "?")
    assert golden.render(table) == GOOD
    assert golden.write(file, table, {}) is False, "nothing is written where nothing changed"


def test_no_file_is_no_table(tmp_path: Path) -> None:
    assert golden.read(tmp_path / "g.md") is None and golden.read_reasons(tmp_path / "g.md") == {}


def test_a_column_never_gets_narrower_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "g.md"
    file.write_text(GOOD.replace("mi355x+aiter | !Error | ?       ", "b580         | !Error | ?       "))
    table = golden.read(file)
    assert table is not None and golden.render(table) == file.read_text()


CONFLICT = GOOD.replace("| h100         | marlin", "<<<<<<< ours\n| h100         | marlin", 1).replace(
    "| mi355x+aiter", "||||||| base\n=======\n>>>>>>> theirs\n| mi355x+aiter"
)


@pytest.mark.parametrize(
    "data, problems",
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), [":1: it begins with a byte-order mark; save it as UTF-8 without one"]),
        (GOOD.replace("\n", "\r\n"), [":1: it has Windows line ends; save it with \\n, and keep it so: `eol=lf` in"]),
        (GOOD.encode().replace(b"PR 1.\n", b"PR 1.\r\n"), [":3: it has Windows line ends"]),
        (GOOD.encode().replace(b"marlin", b"m\xe4rlin"), [":7: it is not UTF-8; save it as UTF-8"]),
        (CONFLICT, [f":{n}: a conflict marker of a merge; keep one side of each row" for n in (7, 9, 10, 11)]),
        (GOOD + "| h100 | a | b | c |\n", [":9: 'h100' has a row in line 7 already; keep the right one of the two"]),
        (GOOD.replace("large     ", "small     "), [":5: column 'small' is there twice; take one of the two out"]),
        (
            GOOD + "| b580 | a | c |\n",
            [":9: the row has 3 cells and the table 4 columns; write one cell for each column"],
        ),
        (GOOD + "| b580 | a |  | c |\n", [":9: a cell is empty; write ? for an answer that is not known"]),
        (GOOD + "| b580 | a | b | c\n", [":9: the row does not end with '|'; complete it"]),
        (GOOD + "\nmore words\n", [":10: text below the table: 'more words'; move it above the table"]),
        (GOOD.replace("machine ", "device  "), [":5: the first column must be 'machine' and the last one 'source'"]),
        ("# nothing\n", [": it holds no table; delete it, and `masquerade check --golden create` makes it anew"]),
        ("", [": it holds no table"]),
    ],
)
def test_a_bad_file_is_told_with_line_and_mend(tmp_path: Path, data: str | bytes, problems: list[str]) -> None:
    found = told(tmp_path, data)
    assert len(found) >= len(problems)
    assert all(any(line.startswith(problem) for line in found) for problem in problems), found


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + (GOOD + "=======\n| h100 | a | b | c |\nwords\n").replace("\n", "\r\n").encode()
    assert [line.split(":")[1] for line in told(tmp_path, data)] == ["1", "1", "9", "10", "11"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 3}', '{"a": {"b": {}}}', '{"a": {"b": {"answer": 1, "refused": 3}}}']
)
def test_bad_reasons_are_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.reasons.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"g.reasons.json.*: not a file of reasons; delete it, and"):
        golden.read_reasons(tmp_path / "g.md")


def test_a_read_only_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "g.md"
    file.write_text(GOOD)
    file.chmod(0o444)
    table = golden.read(file)
    assert table is not None
    with pytest.raises(ConfigurationError, match=r"g.md is read-only; make it writable: chmod u\+w "):
        golden.write(file, Table(table.columns), {})
    assert file.read_text() == GOOD


def test_a_link_and_the_mode_of_a_file_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "g.md"
    real.write_text(GOOD)
    real.chmod(0o640)
    link.symlink_to(real)
    table = golden.read(link)
    assert table is not None and golden.write(link, Table(("a",), table.rows), {})
    assert link.is_symlink() and "marlin" not in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["g.md", "real.md"], "no half of a file is left"


def test_reasons_are_a_line_each_and_go_with_the_last(tmp_path: Path) -> None:
    file = tmp_path / "g.md"
    reasons = {"h100": {"small": Answer("ck", "it fits", {"aiter": 'not "here"'}), "large": Answer("ck")}}
    golden.write(file, Table(("small",), (Row("h100", {"small": "ck"}),)), reasons)
    beside = golden.reasons_file(file)
    assert beside == tmp_path / "g.reasons.json"
    assert beside.read_text() == (
        '{\n "h100": {\n'
        '  "small": {"answer": "ck", "reason": "it fits", "refused": {"aiter": "not \\"here\\""}}\n'
        " }\n}\n"
    )
    assert golden.read_reasons(file) == {"h100": {"small": reasons["h100"]["small"]}}
    golden.write(file, Table(("small",), (Row("h100", {"small": "ck"}),)), {})
    assert not beside.exists()


CELL = st.text(max_size=12).map(cells.name) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
).map(cells.value)
NAME = st.from_regex(r"[a-z][a-z0-9+-]{0,8}", fullmatch=True)


@given(
    st.lists(NAME, min_size=1, max_size=4, unique=True).filter(lambda names: not {"machine", "source"} & set(names)),
    st.dictionaries(NAME, st.tuples(st.lists(CELL, min_size=4, max_size=4), st.text(max_size=20)), max_size=4),
)
def test_any_answers_come_back(columns: list[str], made: dict[str, tuple[list[str], str]]) -> None:
    from masquerade.contracts.golden.parsing import parse

    rows = [Row(name, dict(zip(columns, found, strict=False)), source) for name, (found, source) in made.items()]
    problems: list[str] = []
    table = parse(
        golden.render(Table(tuple(columns), tuple(rows))).encode(),
        lambda line, says: problems.append(f"{line}: {says}"),
    )
    assert not problems
    assert [(row.machine, row.cells) for row in table.rows] == [(row.machine, row.cells) for row in rows]


@given(st.binary(max_size=200) | st.text(alphabet="| \n-machinesource?<=>x", max_size=120).map(str.encode))
def test_any_bytes_are_a_table_or_told(data: bytes) -> None:
    from masquerade.contracts.golden.parsing import parse

    problems: list[str] = []
    table = parse(data, lambda line, says: problems.append(says))
    assert problems or table.columns or table.rows == ()


@pytest.mark.parametrize("text", ["ck", "flashinfer_cutlass", "a b", "ck/asm 2.0"])
def test_a_plain_name_stands_bare(text: str) -> None:
    assert cells.name(text) == text == cells.plain(text)


@pytest.mark.parametrize("text", ["", "?", "!x", "a|b", '"a"', "true", "3", " a", "a ", "a\nb", "-", "null", "a\\"])
def test_a_name_that_could_be_misread_stands_in_quotes(text: str) -> None:
    assert cells.name(text) == json.dumps(text).replace("|", "\\u007c") and cells.plain(cells.name(text)) == text


@pytest.mark.parametrize("text", ["a\u202eb", "a\ud800", "\u200b", "a\x7f"])
def test_what_a_reader_cannot_see_is_escaped(text: str, tmp_path: Path) -> None:
    assert cells.name(text).isascii() and cells.plain(cells.name(text)) == text
    answer = Answer(cells.name(text), text, {text: text})
    golden.write(tmp_path / "g.md", Table(("p",), (Row("m", {"p": answer.cell}, f"PR {text}"),)), {"m": {"p": answer}})
    assert golden.read_reasons(tmp_path / "g.md")["m"]["p"] == answer
    assert text not in (tmp_path / "g.md").read_text() + golden.reasons_file(tmp_path / "g.md").read_text()


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("[false,0]", "[false, 0]", True), ('"ck"', "ck", True), ("true", "true", True), ("true", '"true"', False),
        ("1", "true", False), ("?", '"?"', False), ("!E", '"!E"', False), ("ck", "CK", False), ("?", "?", True),
    ],
)  # fmt: skip
def test_cells_that_say_the_same(one: str, other: str, same: bool) -> None:
    assert cells.same(one, other) is same
