"""The HTML report in a real browser. Skipped where there is no Chromium or no Playwright."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from masquerade.contracts import Broken
from masquerade.contracts.golden import Change, Compared, Comparison
from masquerade.report.html import render
from masquerade.stage.record import Finding, Line

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"no browser here: none of {', '.join(_NAMES)} is on PATH")
    with playwright.sync_playwright() as driver:
        # Its sandbox refuses root, and containers without user namespaces; what is opened here is our own file.
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


Open = Callable[..., "Page"]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open a run's report. At the end nothing may have been asked of a network, raised or refused."""
    wrong: list[str] = []
    pages: list[Page] = []

    def open(results, **options) -> Page:
        file = tmp_path / "report.html"
        file.write_text(render(results), encoding="utf-8")
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        page.set_default_timeout(5000)
        page.on("request", lambda request: request.url == file.as_uri() or wrong.append(f"asked for {request.url}"))
        page.on("console", lambda message: wrong.append(f"said {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"raised {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"opened a dialog {dialog.message}"))
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield open
    for page in pages:
        page.close()
    assert wrong == []


@pytest.fixture
def run(check, results, device_init):
    """Two modules fail, each in its own way; one has a warning; one is clean."""
    raised = Finding("import-error", "AssertionError", "import", device_init.blame, message="not compiled with CUDA")
    foreign = Finding("forbidden-import", "aiter", "import", Line("badpkg/moe.py", 7, "import aiter", "badpkg.moe"))
    warning = Finding("env-mutation", "PYTHONPATH", "import", Line("badpkg/tl.py", 4, "os.environ[...] = ..."))
    stack = ("badpkg/cli.py:1 in <module>", "badpkg/_arch.py:5 in probe")
    probe = replace(device_init, stack=stack)
    return results([
        check("badpkg.cli", "h100", probe, output="loading\n"), check("badpkg.cli", "b580", probe, raised),
        check("badpkg.moe", "h100", foreign), check("badpkg.moe", "mi300x"),
        check("badpkg.tl", "epyc-9655", warning),
        *(check("badpkg.fine", machine) for machine in ("h100", "mi300x", "b580", "epyc-9655")),
    ])  # fmt: skip


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.id || document.activeElement.className")


def test_it_opens_on_what_was_found(opened, run) -> None:
    page = opened(run)
    assert page.text_content("#headline") == "2 findings"
    assert page.title() == "masquerade: 2 findings, 1 warning in 4 modules on 4 machines: 9 checks in 1.2 s"
    assert page.locator(".item .what").all_text_contents() == [
        "torch.cuda.get_device_capability",
        "aiter",
        "PYTHONPATH",
    ]


def test_a_finding_leads_to_its_line_its_way_its_stack_and_whom_it_hits(opened, run) -> None:
    page = opened(run)
    page.click("text=torch.cuda.get_device_capability")
    detail = page.locator("#detail")
    assert detail.locator(".source .file").text_content() == "badpkg/_arch.py:5"
    assert detail.locator(".source code").text_content() == "return torch.cuda.get_device_capability() >= (9, 0)"
    assert detail.locator(".way .mono").all_text_contents() == ["badpkg/cli.py:1", "badpkg/registry.py:2", "badpkg/_arch.py:5"]  # fmt: skip # noqa: E501
    assert detail.locator(".way .blamed .mono").text_content() == "badpkg/_arch.py:5"
    assert "then AssertionError on b580" in detail.inner_text()
    detail.locator("summary", has_text="Stack").click()
    assert detail.locator("pre", has_text="in probe").is_visible()
    detail.locator(".hits button", has_text="b580").click()
    assert detail.locator("h2").first.text_content() == "badpkg.cli"
    assert "import on b580 (xpu, bmg)" in detail.inner_text()
    assert "not compiled with CUDA" in detail.inner_text()


def test_filters_by_platform_verdict_and_text(opened, run) -> None:
    page = opened(run)
    page.click("#tab-matrix")
    names = page.locator(".row .name")
    assert names.all_text_contents() == ["badpkg.cli", "badpkg.moe", "badpkg.tl", "badpkg.fine"], "the worst first"

    page.click("#platforms button:has-text('rocm')")
    assert names.all_text_contents() == ["badpkg.moe", "badpkg.fine"]
    assert page.locator(".head > div").count() == 2
    assert page.locator("#verdicts button").all_text_contents() == ["ok2"]
    page.click("#platforms button:has-text('rocm')")

    page.click("#verdicts button:has-text('env-mutation')")
    assert names.all_text_contents() == ["badpkg.tl"]
    assert page.get_attribute("#verdicts [data-value=env-mutation]", "aria-pressed") == "true"
    page.click("#clear")

    page.fill("#text", "MOE.PY:7")
    assert names.all_text_contents() == ["badpkg.moe"], "the blamed file counts, in any case of letters"
    assert page.text_content("#count") == "1 of 4 modules"
    page.fill("#text", "nothing like it")
    assert page.locator(".empty", has_text="Nothing matches").is_visible()
    page.fill("#text", "")

    page.click("#tab-findings")
    page.click("#verdicts button:has-text('forbidden-import')")
    assert page.locator(".item .what").all_text_contents() == ["aiter"]


def test_a_contract_is_found_by_its_name_and_named(opened, check, results) -> None:
    ours = replace(check("pkg.a", "h100"), id="imports/lazy-core/pkg.a@h100")
    page = opened(results([ours, check("pkg.b", "h100")]))
    page.click("#tab-matrix")
    page.fill("#text", "LAZY-core")
    assert page.locator(".row .name").all_text_contents() == ["pkg.a"]
    page.locator(".row .cell").first.click()
    assert "contract imports/lazy-core" in page.locator("#detail").inner_text()


def test_the_keyboard_reaches_everything(opened, run) -> None:
    page = opened(run)
    page.keyboard.press("/")
    assert focused(page) == "text"
    page.keyboard.type("badpkg")
    page.keyboard.press("Enter")
    assert focused(page) == "panel-findings"
    page.keyboard.press("ArrowDown")
    assert page.locator(".item.here .what").text_content() == "aiter"
    page.keyboard.press("Enter")
    assert focused(page) == "detail"
    assert page.locator("#detail h2").first.text_content() == "aiter"
    page.keyboard.press("Escape")
    assert focused(page) == "panel-findings"

    page.keyboard.press("2")
    assert focused(page) == "panel-matrix"
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    active = page.get_attribute("#panel-matrix", "aria-activedescendant")
    assert page.get_attribute(f"#{active}", "aria-label") == "badpkg.cli on mi300x: not checked"
    page.keyboard.press("Enter")
    assert focused(page) == "panel-matrix", "there is nothing to open"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert "import on h100" in page.inner_text("#detail")

    page.focus("#tab-matrix")
    page.keyboard.press("ArrowLeft")
    assert focused(page) == "tab-findings"
    page.focus("#platforms button")
    page.keyboard.press("Space")
    assert page.get_attribute("#platforms button", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.value") == "cuda", "a filter keeps the focus"


def test_every_word_can_be_read_in_light_and_in_dark(opened, run) -> None:
    contrast = """() => {
      const parse = (text) => {  // of an rgb or of a color(srgb) value, channels from 0 to 1
        const numbers = text.match(/[\\d.]+/g).map(Number);
        return text.startsWith("rgb") ? numbers.map((n, at) => at < 3 ? n / 255 : n) : numbers;
      };
      const light = (c) => c.slice(0, 3).map((n) => n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4)
        .reduce((sum, n, at) => sum + n * [0.2126, 0.7152, 0.0722][at], 0);
      const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
          const colour = parse(getComputedStyle(at).backgroundColor);
          if (colour.length < 4 || colour[3] > 0.9) return colour;
        }
        return [1, 1, 1];
      };
      const words = [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility()
        && e.getClientRects().length && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
      return words.map((e) => {
        const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), e.className + ": " + e.textContent.slice(0, 30)];
      }).filter(([ratio]) => ratio < 4.5);
    }"""
    grounds = []
    for scheme in ("light", "dark"):
        page = opened(run, color_scheme=scheme)
        for step in ("text=aiter", "#tab-matrix", ".cell.device"):
            page.click(step)
            page.mouse.move(0, 0)
            page.wait_for_timeout(250)
            assert page.evaluate(contrast) == [], f"{scheme}, {step}"
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_the_theme_can_be_chosen_against_the_system(opened, run) -> None:
    page = opened(run, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for word in ("light", "dark"):
        page.click("#theme")
        assert page.text_content("#theme") == f"Theme: {word}"
    assert page.evaluate(ground) != light


HOSTILE = (
    "</script><script>window.pwned=1</script><img src='http://127.0.0.1:9/x' onerror='window.pwned=1'>"
    "<svg onload=window.pwned=1><iframe src=javascript:window.pwned=1> ${window.pwned=1} {{pwned}} "
    "\u202e\x1b[31m \ud800"
)


def test_hostile_names_and_lines_are_shown_as_text(opened, check, results) -> None:
    link = Line(HOSTILE, 1, HOSTILE, HOSTILE)
    finding = Finding("crash", HOSTILE, "import", link, (link, Line("a.py", 2, HOSTILE)), (HOSTILE,), HOSTILE)
    record = check(HOSTILE, "h100", finding, output=HOSTILE, notes=(HOSTILE,))
    page = opened(
        results([replace(record, result=HOSTILE)], notes=(HOSTILE,), host={"python": HOSTILE, "torch": HOSTILE})
    )
    start = "</script><script>window.pwned=1</script><img src='http://127.0.0.1:9/x'"
    assert page.text_content(".item .what").startswith(start)
    page.click(".item")
    page.locator("#detail summary").first.click()
    for part in (".source .file", ".source code", ".way .mono", ".way .code", ".says", "pre"):
        assert start in page.locator(f"#detail {part}").first.text_content()
    page.click("#tab-matrix")
    assert page.text_content(".row .name").startswith(start)
    page.click(".cell.broke")
    page.fill("#text", HOSTILE[:20])
    assert start in page.text_content(".banner")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe, svg, body script:not([id]) ~ script").count() == 0
    assert r"\u202e\x1b[31m" in page.text_content(".row .name"), "what turns text round is written out"


def test_ten_thousand_checks_open_at_once_and_stay_quick(opened, check, results, device_init, machines) -> None:
    faulty = [replace(device_init, blame=Line(f"pkg/m{i}.py", i, "x")) for i in range(300)]
    records = [
        check(f"pkg.sub{i % 50}.m{i}", machine.id, *([faulty[i % 300]] if i % 7 == 0 else []), output=f"{i}\n" * 20)
        for i in range(2500)
        for machine in machines
    ]
    run = results(records)
    start = time.monotonic()
    page = opened(run)
    page.wait_for_selector(".item")
    assert time.monotonic() - start < 5, "the page with its file written and its browser tab opened"
    page.keyboard.press("2")
    page.keyboard.press("End")
    assert page.locator(".row .name").last.text_content() == max(
        record.subject for record in records if not record.findings
    )
    assert page.evaluate("document.getElementsByTagName('*').length") < 1500, "only what is in sight exists"
    started = time.monotonic()
    page.fill("#text", "sub7.m207")
    assert page.locator(".row .name").all_text_contents() == ["pkg.sub7.m207"]
    assert time.monotonic() - started < 2


def test_golden_tables_show_what_changed_and_why(opened, check, results, device_init) -> None:
    why = ("aiter is refused: gfx942 has no MXFP4", "triton: next in order <b>")
    changed = Change("mi300x", "small", "aiter", "triton", why, 4)
    rows = (Compared("h100", ("marlin", "triton"), "vLLM 0.11"), Compared("mi300x", (changed, "?")))
    table = Comparison("mxfp4", "routes.md", ("small", "large"), rows, 3)
    stale = Broken("mxfp4", "stale: row b200 no longer runs", "routes.md", 9)
    page = opened(results([check("pkg:choose[small]", "mi300x")], golden=(table,), broken=(stale,)))
    assert page.text_content("#headline") == "1 broken contract"
    assert "routes.md:9: mxfp4: stale: row b200 no longer runs" in page.inner_text("#banner")
    page.click("#tab-golden")
    assert page.locator("tbody tr").all_inner_texts() == [
        "h100\tmarlin\ttriton\tvLLM 0.11",
        "mi300x\taiter triton\t?\t",
    ]
    assert page.text_content(".golden .under") == "routes.md: 1 answer changed"
    assert page.locator("td.changed").count() == 1
    page.focus("td.changed button")
    page.keyboard.press("Enter")
    detail = page.inner_text("#detail")
    assert "want\naiter\ngot\ntriton" in detail
    assert all(reason in detail for reason in why)
    page.click("#platforms button:has-text('cuda')")
    assert page.locator("tbody th").all_text_contents() == ["h100"]


def test_a_run_without_findings_shows_its_matrix(opened, check, results, machines) -> None:
    page = opened(results([check("pkg", machine.id) for machine in machines]))
    assert page.text_content("#headline") == "Everything holds"
    assert page.locator(".cell.ok").count() == 4
    assert page.locator("#tab-findings").count() == 0


def test_an_interrupted_run_does_not_look_complete(opened, check, results) -> None:
    page = opened(results([check("pkg", "h100")], planned=8, interrupted=True))
    assert page.text_content("#headline") == "Interrupted"
    assert "1 of 8" in page.inner_text("#figures")


def test_a_picture_of_it(opened, run, tmp_path) -> None:
    page = opened(run)
    page.click("text=aiter")
    picture = page.screenshot(path=os.environ.get("MASQUERADE_TEST_SCREENSHOT"))
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000
    colours = page.evaluate("[...document.querySelectorAll('.badge')].map((e) => getComputedStyle(e).backgroundColor)")
    assert len(set(colours)) >= 3, "kinds are told apart by colour as well"
