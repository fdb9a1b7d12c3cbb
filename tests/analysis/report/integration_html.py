#!/usr/bin/env python3
"""Goal: the page of a report opens from disk in a browser, loads nothing, says what the JSON says, and leads from a finding
on the plots to its evidence and back; nothing in a trace can run in it.

Method: pages of traces with hostile names, with hundreds of everything, and of an empty one, in Chromium without a window:
console, requests, text, mouse, keys, dark mode, paper. If it fails: who opens a report sees nothing, something wrong, or
worse, runs what a guest or a stranger's recording says.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import build, expect, main, run  # noqa: E402
from browser import Browser, program  # noqa: E402

HOSTILE = "</script><img/src=x/onerror=document.title='taken'><b>"
FINDINGS = 40
MANY = 300

if not program():
    print("chromium is missing (Debian's package chromium)")
    sys.exit(77)


def events():
    """A recording of 20 s: a mapping limit that is nearly reached, broken queues, hundreds of queues and contended locks."""
    lines = [f'0.5 cpu0 vtid=7 rt_process:info version="{HOSTILE}" max_map_count=1000 pool_policy=batched contract_version=1',
             f'0.5 cpu0 vtid=7 rt_loop:create loop_id=1 name="{HOSTILE}" thread_id=7',
             f'0.5 cpu0 vtid=7 vblk_dataplane:device_create device_id=1 name="{HOSTILE}" queue_count={MANY}']
    lines += [f'0.6 cpu0 vtid=7 rt_lock:create lock_id={lock} class_name="{HOSTILE}" kind=1' for lock in range(1, MANY + 1)]
    for second in range(1, 21):
        lines += [f"{second} cpu0 vtid=7 rt_loop:sample loop_id=1 passes={second * 100} busy_ns={second * 300000000} "
                  f"poll_ns={second * 200000000} wait_ns={second * 500000000}",
                  f"{second} cpu0 vtid=7 rt_pool:global_sample global_size={second} global_max=20 global_hard_max=100",
                  f'{second} cpu0 vtid=7 rt_pool:local_sample thread_id=7 local_size=5 takes={second * 50} name="{HOSTILE}"',
                  f"{second} cpu0 vtid=7 rt_process:vma_sample vma_count={400 + 20 * second} max_map_count=1000 "
                  f"stack_count={10 * second} stack_vma_count={20 * second} live_count={10 * second}"]
        lines += [f"{second}.1 cpu0 vtid=7 vblk_queue:sample device_id=1 queue_index={queue} avail_index={second * 9} "
                  f"popped_index={second * 8} in_flight={queue % 7} completions={second * 8} kicks={second}"
                  for queue in range(MANY if second in (1, 20) else 4)]
    for lock in range(1, MANY + 1):
        lines += [f"{3 + lock / 100} cpu0 vtid=7 rt_lock:wait lock_id={lock} thread_id=7 coroutine_id=9 owner_thread_id=8",
                  f"{3.005 + lock / 100} cpu0 vtid=7 rt_lock:acquired lock_id={lock} thread_id=7 coroutine_id=9 waited=1"]
    for request in range(1, 200):
        begin = 5 + request / 50
        lines += [f"{begin} cpu0 vtid=7 vblk_request:begin request_id={request} device_id=1 queue_index=0 head=1 loop_id=1",
                  f"{begin + 0.000004} cpu0 vtid=7 vblk_request:submit request_id={request}",
                  f"{begin + 0.0005} cpu0 vtid=7 vblk_request:complete request_id={request}",
                  f"{begin + 0.0006} cpu0 vtid=7 vblk_request:end request_id={request}"]
    lines += [f'{10 + queue / 10} cpu0 vtid=7 vblk_queue:broken device_id=1 queue_index={queue} error=-71 reason="{HOSTILE}"'
              for queue in range(FINDINGS)]
    return "\n".join(lines)


def absurd_totals():
    """What a damaged recording may say: totals and ids beyond what a double holds exactly."""
    most = 9 * 10**18
    return "\n".join(
        [f"1 cpu0 vtid=7 rt_process:info version=1 max_map_count=1000 contract_version=1",
         "1 cpu0 vtid=7 rt_loop:create loop_id=1 name=main thread_id=7", f"1 cpu0 vtid=7 rt_lock:create lock_id={most + 1} class_name=x kind=1",
         "1 cpu0 vtid=7 rt_lock:create lock_id=2 class_name=x kind=1"] +
        [f"{second} cpu0 vtid=7 rt_lock:sample lock_id={lock} acquisitions={total} contentions={total} wait_ns={total}"
         for second, total in ((2, 0), (3, most)) for lock in (2, most + 1)] +
        [f"{second} cpu0 vtid=7 rt_loop:sample loop_id=1 passes={total} busy_ns={total} poll_ns=0 wait_ns=5 polls={total} polls_useful=5"
         for second, total in ((2, 0), (3, most))])


def page_of(trace, *options):
    path = trace.with_suffix(".html")
    result = run("analyze", "--format=html", f"--output={path}", *options, trace)
    expect(path.is_file(), result.err)
    return path.as_uri()


def clean(page):
    page.wait("'ready' in document.documentElement.dataset")
    expect(page.problems == [], f"the console: {page.problems[:3]}")
    expect(page.requests == [page.address], f"it loads: {page.requests}")


def text(page, selector):
    return page.value(f"document.querySelector({json.dumps(selector)}).textContent")


def all_texts(page, selector):
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.textContent)")


def count(page, selector):
    return page.value(f"document.querySelectorAll({json.dumps(selector)}).length")


def painted(page):
    """How many canvases nothing was drawn on, and how many there are."""
    return page.value("""(() => {
        const small = new OffscreenCanvas(64, 64).getContext("2d", { willReadFrequently: true });
        const blank = (canvas) => {
          small.clearRect(0, 0, 64, 64);
          small.drawImage(canvas, 0, 0, 64, 64);
          return !small.getImageData(0, 0, 64, 64).data.some((value) => value > 0);
        };
        const all = [...document.querySelectorAll(".plot canvas")];
        return [all.filter(blank).length, all.length];
      })()""")


def says_what_the_json_says(page, report, written):
    expect(text(page, "#verdict") == " ".join(written.split("\n\n")[0].split()), text(page, "#verdict"))
    expect(all_texts(page, ".finding .id") == [f["id"] for f in report["findings"]][:20], "ids, the first ones")
    page.value("document.querySelector('#findings > .more').click()")
    expect(all_texts(page, ".finding .id") == [f["id"] for f in report["findings"]], "all ids on demand")
    expect(all_texts(page, ".finding h3") == [f["summary"] for f in report["findings"]], "summaries")
    expect(all_texts(page, ".finding .severity") == [f["severity"] for f in report["findings"]], "severities")
    evidence = [line["text"] for f in report["findings"] for line in f["evidence"]]
    expect(all_texts(page, ".evidence td:last-child") == evidence, "evidence")
    expect(len(report["findings"]) >= FINDINGS, f"the test itself: {len(report['findings'])} findings")


def holds_hostile_names_as_text(page):
    expect(count(page, "img") == 0 and count(page, "main b:not(.advice b):not(.facts b)") == 0, "names became elements")
    expect("taken" not in page.value("document.title").split("–")[-1], "a name ran")
    expect(any(HOSTILE in found for found in all_texts(page, ".table td")), "they are shown")
    expect(any(HOSTILE in found for found in all_texts(page, ".plot .title")), "also on plots")


def limits_what_it_shows(page):
    expect(count(page, "#group-locks .plot") == 6, "plots of locks at first")
    page.value("document.querySelector('#group-locks .more').click()")
    expect(count(page, "#group-locks .plot") == 30, "and on demand")
    expect(count(page, "#table-queues tbody tr") == 15, "rows of a table at first")
    page.value("document.querySelector('#table-queues .more').click()")
    expect(count(page, "#table-queues tbody tr") == MANY, "and all of them")
    page.value("document.querySelectorAll('#table-queues th button')[1].click()")
    expect(text(page, "#table-queues tbody tr td:nth-child(2)") == str(MANY - 1), "sorted by what was clicked")


def leads_from_mark_to_evidence_and_back(page):
    page.value("document.querySelector('.overview .mark').click()")
    chosen = page.value("document.activeElement.id")
    expect(re.fullmatch(r"finding-\d+", chosen or ""), f"the focus: {chosen}")
    expect(page.value(f"document.getElementById('{chosen}').classList.contains('chosen')"), "the finding is chosen")
    moment = page.value(f"(() => {{ const found = document.querySelector('#{chosen} .evidence button'); found.click(); return found.textContent; }})()")
    expect(text(page, "#moment-state") == f"marked: {moment}", text(page, "#moment-state"))


def zooms_together(page):
    page.value("document.querySelector('#group-queues .plot').scrollIntoView({ block: 'center' })")
    place = page.value("""(() => { const place = document.querySelector("#group-queues .u-over").getBoundingClientRect();
        return [place.left, place.top, place.width, place.height]; })()""")
    x, y = place[0], place[1] + place[3] / 2
    page.mouse(("mouseMoved", x + 50, y), ("mousePressed", x + 50, y), ("mouseMoved", x + 150, y), ("mouseReleased", x + 150, y))
    page.wait("!document.getElementById('zoom-reset').disabled")
    expect(text(page, "#moment-state").startswith("marked:"), "a drag marks nothing anew")
    page.value("document.querySelector('#group-loops .plot').focus()")
    page.key("0", 48)
    page.wait("document.getElementById('zoom-reset').disabled")
    before = text(page, "#moment-state")
    page.key("ArrowRight", 39)
    expect(text(page, "#moment-state") != before, "keys move the mark")


def is_dark_when_wanted(page):
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.media(("prefers-color-scheme", "dark"))
    dark = page.value(background)
    expect(light != dark, f"{light} and {dark}")
    page.value("document.getElementById('theme').click()")
    expect(page.value(background) == light, "the button turns it back")
    page.media()


def prints(page):
    pdf = page.pdf()
    expect(pdf.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2, f"{len(pdf)} bytes")
    page.value("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.value("document.documentElement.dataset.theme") == "light", "paper is light")
    page.wait("document.querySelector('#group-loops canvas').width < 1000")
    expect(painted(page)[0] == 0, f"blank plots on paper: {painted(page)}")
    page.value("window.dispatchEvent(new Event('afterprint'))")
    expect(page.value("document.documentElement.dataset.theme") == "light", "as it was chosen before")


def shows_known_findings(page, suppressed):
    clean(page)
    expect(count(page, "#known li") == len(suppressed) + 1, "each that was taken out, and the rule that matched nothing")
    expect(suppressed[0]["summary"] in text(page, "#known li") and HOSTILE in text(page, "#known li"), text(page, "#known li"))
    expect(count(page, "#known img") == 0, "names became elements")
    expect(count(page, "nav a[href='#known']") == 1 and count(page, ".badge[href='#known']") == 1, "links to them")


def test_page(folder):
    trace = build(folder / "many", events())
    report = json.loads(run("analyze", "--format=json", trace).out)
    written = run("analyze", trace).out
    empty = build(folder / "empty", "")
    absurd = build(folder / "absurd", absurd_totals())
    known = folder / "known.txt"
    known.write_text(f"queue-broken queue_index=3 # {HOSTILE}\nqueue-broken queue_index=4\nloop-hog\n")
    suppressed = json.loads(run("analyze", "--format=json", f"--suppress={known}", trace).out)["suppressed"]
    with Browser() as browser:
        page = browser.open(page_of(trace))
        clean(page)
        expect(painted(page)[0] == 0 and painted(page)[1] > 10, f"blank plots, of all: {painted(page)}")
        says_what_the_json_says(page, report, written)
        holds_hostile_names_as_text(page)
        limits_what_it_shows(page)
        leads_from_mark_to_evidence_and_back(page)
        zooms_together(page)
        is_dark_when_wanted(page)
        prints(page)
        clean(page)

        shows_known_findings(browser.open(page_of(trace, f"--suppress={known}")), suppressed)

        page = browser.open(page_of(absurd))
        clean(page)
        expect(str(9 * 10**18 + 1) in all_texts(page, "#table-locks td"), "ids are exact")

        page = browser.open(page_of(empty))
        clean(page)
        expect(text(page, "#verdict").startswith("NOTHING TO JUDGE"), text(page, "#verdict"))


main(globals())
