"""The timeline as people move in it: with the pointer, the wheel, keys and the search, on a desk and on a phone."""

from typing import Any

import pytest

from perfkit.analysis.model.idle import LATE
from tests.fixtures import sample_trace_analysis as sample

pytestmark = pytest.mark.browser

VIEW = "(({ view }) => [view.left / 1e3, view.right / 1e3])(document.querySelector('.timeline').timeline)"
# Where a slice lies on the screen: of a lane (the end of its name) the one of a number.
PLACE = """([name, number]) => {
  const { step, view, place } = document.querySelector(".timeline").timeline;
  return place(step.lanes.find((lane) => lane.name.endsWith(name)), number);
}"""
# Waits in a function of its own: the page's policy forbids the `eval` of Playwright's `wait_for_function`.
ZOOMED = """(right) => new Promise((done) => {
  const look = () =>
    document.querySelector(".timeline").timeline.view.right < right ? done() : requestAnimationFrame(look);
  look();
})"""
STILL = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


# As the page was opened: a test finds it as another left it.
FRESH = """() => {
  const [steps, search] = ["steps", "search"].map((name) => document.querySelector(`[data-${name}]`));
  [steps.value, search.value] = ["0", ""];
  steps.dispatchEvent(new Event("change"));
  document.activeElement.blur();
  perfkitSelection.set("");
}"""


@pytest.fixture
def page(shared_report: Any) -> Any:
    """A page with two steps of a training, scrolled to the first."""
    found = shared_report(sample.alone).page
    found.evaluate(FRESH)
    found.locator(".timeline[data-step='0']").wait_for()
    found.locator(".lanes canvas").scroll_into_view_if_needed()
    found.evaluate(STILL)
    return found


def view(page: Any) -> tuple[float, float]:
    """From when to when the timeline shows the step, in microseconds."""
    left, right = page.evaluate(VIEW)
    return left, right


def at(page: Any, lane: str, number: int) -> tuple[float, float]:
    page.evaluate(STILL)
    x, y = page.evaluate(PLACE, [lane, number])
    return x, y


def test_the_whole_step_is_shown_at_first_and_again_when_asked_for(page: Any) -> None:
    page.locator("[data-all]").click()
    first = view(page)
    assert first[0] <= 0
    assert first[1] >= 400
    page.locator("[data-in]").click()
    assert view(page)[1] - view(page)[0] < (first[1] - first[0]) * 0.7
    page.locator("[data-all]").click()
    assert view(page) == first


def test_a_person_zooms_to_the_longest_idle_time_and_follows_it_to_the_launch_that_ended_it(page: Any) -> None:
    page.get_by_role("button", name="Longest idle").click()
    left, right = view(page)
    assert right - left < 300
    told = page.locator("[data-told]")
    assert "116 us" in told.inner_text()
    assert LATE in told.inner_text()
    told.get_by_role("button", name="Caused by: cudaLaunchKernel").click()
    assert told.locator("code").inner_text() == "cudaLaunchKernel"
    told.get_by_role("button", name="Leads to").click()
    assert told.locator("code").inner_text() != "cudaLaunchKernel"


def test_a_click_tells_all_of_a_kernel(page: Any) -> None:
    page.mouse.click(*at(page, "stream 7", 0))
    told = page.locator("#drawer").inner_text()
    assert "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n" in told
    assert "aten::mm" in told
    assert "bf16[2048,2048] bf16[2048,2048]" in told


def test_the_address_holds_the_slice_and_leads_back_to_it(page: Any) -> None:
    page.mouse.click(*at(page, "stream 7", 1))
    link = page.evaluate("location.href")  # `page.url` is told of it later
    assert "?select=slice:0." in link
    page.evaluate(FRESH)
    assert "select=" not in page.evaluate("location.href")
    page.evaluate("(hash) => { location.hash = hash }", link.partition("#")[2])
    page.locator("[data-told] code").wait_for()
    assert page.locator("[data-told] code").inner_text() == "vectorized_elementwise_kernel<4>"


def test_an_op_that_is_chosen_elsewhere_stands_out_and_the_drawer_leads_to_it(page: Any) -> None:
    page.evaluate("perfkitSelection.set('op:aten::mm')")
    page.locator("#drawer").get_by_role("button", name="timeline").click()
    page.evaluate(STILL)
    dark = "[...document.querySelector('.lanes canvas').getContext('2d').getImageData(%d, %d, 1, 1).data]"
    box = page.locator(".lanes canvas").bounding_box()

    def color(lane: str, number: int) -> list[int]:
        x, y = at(page, lane, number)
        found: list[int] = page.evaluate(dark % (x - box["x"], y - box["y"] - 6))
        return found

    page.locator("[data-all]").click()
    box = page.locator(".lanes canvas").bounding_box()
    product, added = color("stream 7", 0), color("stream 7", 1)
    assert product[3] == 255
    assert added[3] < 180


def test_hovering_names_what_is_under_the_pointer(page: Any) -> None:
    page.mouse.move(*at(page, "stream 7", 1))
    tip = page.locator("[data-tip]")
    tip.wait_for(state="visible")
    assert "vectorized_elementwise_kernel<4>" in tip.inner_text()
    assert "20 us" in tip.inner_text()


def test_the_keys_of_perfetto_and_arrows_move(page: Any) -> None:
    page.locator(".lanes canvas").focus()
    whole = view(page)
    page.keyboard.press("w")
    closer = view(page)
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) * 0.8)
    page.keyboard.press("w")
    closer = view(page)
    page.keyboard.press("d")
    assert view(page)[0] > closer[0]
    page.keyboard.press("ArrowLeft")
    assert view(page)[0] == pytest.approx(closer[0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("0")
    assert view(page) == whole


def test_slices_are_reached_from_the_keyboard(page: Any) -> None:
    page.locator(".lanes canvas").focus()
    name = page.locator("[data-told] code")
    page.keyboard.press(".")
    first = name.inner_text()
    page.keyboard.press("j")
    assert name.inner_text() != first
    page.keyboard.press("Escape")
    assert name.count() == 0


def test_the_search_counts_matches_and_goes_through_them(page: Any) -> None:
    page.get_by_role("searchbox", name="Search the timeline").fill("aten::MM")
    count = page.locator(".timeline [data-count]")
    whole = int(count.inner_text())
    assert whole >= 2  # the op, its kernel, in this step alone
    page.keyboard.press("Enter")
    assert count.inner_text() == f"1 of {whole}"
    first = page.locator("[data-told]").inner_text()
    page.keyboard.press("Enter")
    assert count.inner_text() == f"2 of {whole}"
    assert page.locator("[data-told]").inner_text() != first
    page.keyboard.press("Shift+Enter")
    assert page.locator("[data-told]").inner_text() == first
    page.get_by_role("searchbox", name="Search the timeline").fill("nothing like it")
    assert count.inner_text() == "none"


def test_the_wheel_scrolls_the_page_until_the_timeline_is_clicked_into(page: Any) -> None:
    whole = view(page)
    page.mouse.move(*at(page, "stream 7", 0))
    page.mouse.wheel(0, 40)
    page.wait_for_timeout(100)
    assert view(page) == whole
    page.mouse.click(*at(page, "stream 7", 0))
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, -200)
    page.evaluate(ZOOMED, whole[1] * 1e3)
    assert page.evaluate("scrollY") == before


def test_dragging_moves_what_is_shown(page: Any) -> None:
    page.locator("[data-in]").click()
    before = view(page)
    x, y = at(page, "stream 7", 1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 120, y, steps=4)
    page.mouse.up()
    after = view(page)
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert page.locator("[data-told] code").count() == 0  # it was no click


def test_a_lane_unfolds_from_its_name(page: Any) -> None:
    lane = page.locator(".heads button").first
    assert lane.get_attribute("aria-expanded") == "true"
    high = page.locator(".lanes canvas").bounding_box()["height"]
    lane.click()
    page.evaluate(STILL)
    assert page.locator(".heads button").first.get_attribute("aria-expanded") == "false"
    page.evaluate(STILL)
    assert page.locator(".lanes canvas").bounding_box()["height"] < high


def test_another_step_is_chosen_in_place(page: Any) -> None:
    page.locator("[data-steps]").select_option(index=1)
    page.locator(".timeline[data-step='1']").wait_for()
    assert view(page)[1] > 500


def test_a_link_to_a_slice_of_another_step_shows_that_step(page: Any) -> None:
    page.locator("[data-steps]").select_option(index=1)
    page.locator(".timeline[data-step='1']").wait_for()
    page.mouse.click(*at(page, "stream 7", 1))
    link = page.evaluate("location.href")  # `page.url` is told of it later
    told = page.locator("[data-told] code").inner_text()
    assert "?select=slice:1." in link
    page.locator("[data-steps]").select_option(index=0)
    page.locator(".timeline[data-step='0']").wait_for()
    assert "select=" not in page.evaluate("location.href")  # it lies in the step that was left
    page.evaluate("(hash) => { location.hash = hash }", link.partition("#")[2])
    page.locator(".timeline[data-step='1'] [data-told] code").wait_for()
    assert page.locator("[data-told] code").inner_text() == told
    assert page.locator("[data-steps]").input_value() == "1"
    assert told in page.locator("#drawer h2").inner_text()


def test_a_page_opens_with_the_slice_of_its_link(page: Any) -> None:
    page.locator("[data-steps]").select_option(index=1)
    page.locator(".timeline[data-step='1']").wait_for()
    page.mouse.click(*at(page, "stream 7", 1))
    page.reload()
    page.locator(".timeline[data-step='1'] [data-told] code").wait_for()
    assert "vectorized_elementwise_kernel<4>" in page.locator("#drawer h2").inner_text()


def test_on_a_phone_a_finger_moves_and_two_zoom(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.evaluate(STILL)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".heads.narrow").count() == 1
    whole = view(page)
    page.evaluate(
        """() => {
          const canvas = document.querySelector(".lanes canvas");
          canvas.setPointerCapture = () => {};
          const { left, top } = canvas.getBoundingClientRect();
          const send = (type, pointerId, x) => {
            const at = { clientX: left + x, clientY: top + 60 };
            canvas.dispatchEvent(new PointerEvent(type, { pointerId, pointerType: "touch", bubbles: true, ...at }));
          };
          send("pointerdown", 1, 150);
          send("pointerdown", 2, 200);
          for (let moved = 10; moved <= 100; moved += 10) {
            send("pointermove", 1, 150 - moved);
            send("pointermove", 2, 200 + moved);
          }
          send("pointerup", 1, 50);
          send("pointerup", 2, 300);
        }"""
    )
    left, right = view(page)
    assert right - left < (whole[1] - whole[0]) * 0.4


def test_on_paper_the_whole_step_is_shown(page: Any) -> None:
    page.locator("[data-in]").click()
    before = view(page)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert view(page) == (0, 400)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert view(page) == before


def test_the_critical_path_is_a_line_that_can_be_left_out(page: Any) -> None:
    picture = "document.querySelector('.lanes canvas').toDataURL().length"
    with_line = page.evaluate(picture)
    page.locator(".timeline .chip").click()
    page.evaluate(STILL)
    assert page.evaluate(picture) != with_line
    page.locator(".timeline .chip").click()
    page.evaluate(STILL)
    assert page.evaluate(picture) == with_line


def test_paper_has_the_titles_of_columns_and_lanes(page: Any) -> None:
    page.emulate_media(media="print")
    try:
        assert page.locator(".heads button").first.is_visible()
        heads = page.locator("#kernels-0-rows thead button")
        assert heads.first.evaluate("(head) => getComputedStyle(head).display") != "none"
        assert not page.locator("[data-theme-toggle]").is_visible()
    finally:
        page.emulate_media(media="screen")


def test_paper_is_light_whatever_the_screen_is(page: Any) -> None:
    color = "getComputedStyle(document.querySelector('.timeline figcaption')).color"
    ink = "getComputedStyle(document.body).color"
    light = page.evaluate(f"[{ink}, {color}]")
    page.locator("[data-theme-toggle]").click()
    dark = page.evaluate(f"[{ink}, {color}]")
    assert dark != light
    page.emulate_media(media="print")
    assert page.evaluate(ink) == light[0]
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(f"[{ink}, plotTheme.color('--ink')]") == [light[0]] * 2
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(f"[{ink}, plotTheme.color('--ink')]") == [dark[0]] * 2
    page.locator("[data-theme-toggle]").click()
    assert page.evaluate(f"[{ink}, {color}]") == light
