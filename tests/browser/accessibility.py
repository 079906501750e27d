"""What axe-core finds wrong on a page with everything unfolded."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# Opens every fold and row. Figures that are then in view are drawn, others are not waited for. Of rows and blocks,
# which are alike, a few stand for all; axe looks at each.
_UNFOLD = """() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const button of document.querySelectorAll("button.more[aria-expanded=false]")) button.click();
  const keep = (parts, most) => [...parts].slice(most).forEach((part) => part.remove());
  for (const body of document.querySelectorAll("tbody")) keep(body.rows, 6);
  for (const tree of document.querySelectorAll(".blocks")) keep(tree.children, 40);
}"""


def list_violations(page: Page) -> list[str]:
    """`light color-contrast: .block` of every rule broken, and of contrast in the dark."""
    page.evaluate(_UNFOLD)
    found = _run_axe(page, "light", {})
    page.emulate_media(color_scheme="dark")
    return found + _run_axe(page, "dark", {"runOnly": ["color-contrast"]})


def _run_axe(page: Page, scheme: str, options: dict[str, object]) -> list[str]:
    broken = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{scheme} {rule['id']}: {node['target']} {node['html']}" for rule in broken for node in rule["nodes"]]
