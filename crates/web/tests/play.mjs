// Drives the playground in Chromium as a person would, and compares with the program:
//
//   node tests/play.mjs [--shots DIR] [--measure]
//
// It serves crates/web/dist/play.html.gz by `windward play`. WINDWARD is the program, target/release/windward unless
// set; CHROMIUM the browser. --measure also prints sizes, times and the memory of a minute; they decide nothing.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { here, program, root, shots, start } from "./browser.mjs";
import { LARGE } from "./large.mjs";

const measures = process.argv.includes("--measure");

const server = spawn(program, ["play", "--no-browser", "--quiet", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
const { browser, folder, open: visit, accessible, part, close } = await start();

async function open(url, options) {
    const page = await visit(url, options);
    await drawn(page, 0);
    return page;
}

/** Waits until the figure was drawn more than `count` times and nothing runs. */
const drawn = (page, count) => page.waitForFunction((count) => Number(document.documentElement.dataset.drawn ?? 0) > count, {}, count);
const count = (page) => page.evaluate(() => Number(document.documentElement.dataset.drawn));
const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

/** Does something and waits for the figure that follows. */
async function then(page, act) {
    const before = await count(page);
    await act();
    await drawn(page, before);
    await page.waitForFunction(() => document.getElementById("busy").hidden);
}

/** Types that in place of what a field has. */
async function enter(page, field, typed) {
    await page.$eval(field, (input) => (input.value = ""));
    await page.focus(field);
    await page.keyboard.type(typed);
    await page.keyboard.press("Tab");
}

/** Puts the cursor of the editor, which is open, at its end. */
async function toEnd(page) {
    const content = await page.waitForSelector(">>> .cm-content");
    await content.click();
    await page.keyboard.down("Control");
    await page.keyboard.press("End");
    await page.keyboard.up("Control");
}

const values = (page, list) => page.$$eval(`${list} option`, (all) => all.map((each) => each.value));

/** Does something and waits for the figure that follows, or the words, which it returns. */
async function answer(page, act) {
    const answered = (before) => Number(document.documentElement.dataset.answered) > before;
    const before = await page.evaluate(() => Number(document.documentElement.dataset.answered));
    await act();
    await page.waitForFunction(answered, {}, before);
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    return page.$eval("#notice", (notice) => (notice.hidden ? "" : notice.textContent));
}

/** What the program reads in a command of the page. */
function scenarioOf(command) {
    const [, given] = /^(printf %b '[^']*') \| windward run -$/.exec(command);
    return execFileSync("bash", ["-c", given], { encoding: "utf8" });
}

/** The fingerprint that the page shows is the one that its command gives. */
async function agrees(page) {
    await page.waitForFunction(() => document.getElementById("print").textContent !== "…");
    const command = await text(page, "#command");
    const shown = await text(page, "#print");
    const toml = scenarioOf(command);
    const native = JSON.parse(execFileSync(program, ["run", "-", "--json"], { input: toml, encoding: "utf8" }));
    assert.equal(shown, native.fingerprint);
    return { toml, native };
}

try {
    const url = await new Promise((found, fail) => {
        server.stdout.once("data", (line) => found(String(line).trim()));
        server.once("exit", () => fail(new Error("windward play ended")));
    });
    let page = await open(url);

    await part("it opens with cubic beside upwind, and the command gives the same run", async () => {
        const { native } = await agrees(page);
        assert.match(await text(page, "h1"), /loses 2 % of packets, upwind carries/);
        assert.deepEqual(native.groups.map((group) => group.name), ["cubic", "upwind"]);
        assert.match(await text(page, "table"), /cubic.*upwind/s);
    });

    await part("a slider redraws the figure, and every slider gives the run of its command", async () => {
        await page.focus("#slider-loss");
        await then(page, () => page.keyboard.press("Home"));
        assert.doesNotMatch(await text(page, "h1"), /loses/);
        await agrees(page);
        for (const key of ["burst", "rate", "rtt", "queue", "jitter", "loss"]) {
            await page.focus(`#slider-${key}`);
            await then(page, () => page.keyboard.press("ArrowRight"));
            if (key === "loss") for (let n = 0; n < 40; n += 1) await page.keyboard.press("PageUp");
        }
        await new Promise((resume) => setTimeout(resume, 400));
        await page.waitForFunction(() => document.getElementById("busy").hidden);
        const { toml } = await agrees(page);
        assert.match(toml, /burst|loss/);
        assert.match(toml, /jitter = "0\.5\d*ms"/);
    });

    await part("who shares the link, the queue and the router are chosen", async () => {
        await page.waitForFunction(() => document.getElementById("protocol-0").length > 40);
        await then(page, () => page.select("#protocol-0", "bbr"));
        await then(page, () => page.select("#loss-1", "1"));
        await then(page, () => enter(page, "#count-0", "3"));
        await then(page, () => page.select("#aqm", "codel"));
        const { toml, native } = await agrees(page);
        assert.match(toml, /aqm = "codel"/);
        assert.equal(native.groups[0].name, "bbr");
        assert.match(toml, /count = 3\nprotocol = "bbr"/);
        assert.match(await text(page, ".legend"), /bbr × 3/);
        await then(page, () => enter(page, "#count-0", "1"));
        await then(page, () => page.select("#aqm", "droptail"));
        for (const router of await values(page, "#router")) {
            const shown = await answer(page, () => page.select("#router", router));
            // A router that needs more than this scenario has is refused in the program's words.
            if (shown === "") assert.equal(/^\w.*router = "(.*)"/m.exec((await agrees(page)).toml)?.[1] ?? "auto", router);
            else assert.match(shown, new RegExp(`^scenario\\.toml.*${router}`, "s"));
        }
        await then(page, () => page.select("#router", "auto"));
        await then(page, () => page.select("#aqm", "codel"));
    });

    await part("each number says what it means, and the bars show the share of each", async () => {
        const meanings = await page.$$eval("th span", (all) => all.map((each) => each.title));
        assert.ok(meanings.length >= 5 && meanings.every((each) => each.length > 20), String(meanings));
        const share = await page.$$eval("[aria-label^='Share']", (all) => all.map((each) => each.getAttribute("aria-label")));
        assert.match(share[0], /bbr \d+ %, upwind \d+ %/);
        assert.ok((await page.$$eval(".caption", (all) => all.map((each) => each.textContent))).includes(share[0]));
    });

    await part("a law of two expressions runs beside the others, and its errors are the program's", async () => {
        await page.click("#law summary");
        await page.type("#on_ack", "cwnd + growth / cwnd");
        await then(page, () => page.type("#on_loss", "0.9 * cwnd"));
        await new Promise((resume) => setTimeout(resume, 600));
        const { native } = await agrees(page);
        assert.deepEqual(native.groups.map((group) => group.name), ["bbr", "upwind", "own-law"]);
        await page.type("#on_loss", " + cwdn");
        await page.waitForFunction(() => /cwdn/.test(document.getElementById("notice").textContent));
        for (let n = 0; n < " + cwdn".length; n += 1) await page.keyboard.press("Backspace");
        await page.waitForFunction(() => document.getElementById("notice").hidden);
    });

    await part("two set-ups, seeds with their band, and an instant", async () => {
        await then(page, () => page.click("#compare"));
        await then(page, () => page.select("#protocol-0", "newreno"));
        assert.equal((await page.$$(".setup")).length, 2);
        assert.deepEqual(await page.$$eval(".setup h2", (all) => all.map((each) => each.textContent)), ["Set-up A", "Set-up B"]);
        await page.$eval("#seeds", (input) => (input.value = ""));
        await page.focus("#seeds");
        await then(page, () => page.keyboard.type("3"));
        await page.waitForFunction(() => /\(.*–.*\)/.test(document.querySelector("td:nth-child(2)").textContent));
        // The headline says what the table says, and each number of the table is of all seeds.
        const said = await text(page, "h1");
        assert.match(said, /\(means of 3 seeds\)\.$/);
        const rows = await page.$$eval(".setup:nth-child(2) tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
        for (const [name, goodput, ...others] of rows) {
            assert.ok(said.replace("carries ", "").includes(`${name} ${goodput.split(" (")[0]}`), `${said}: ${name} ${goodput}`);
            for (const number of others) assert.match(number, /^(–|.* \(.*–.*\))$/, name);
        }
        await page.waitForFunction(() => /packets? waits?/.test(document.querySelector(".at").textContent));
        const at = await text(page, ".at");
        await page.focus("#instant");
        await page.keyboard.press("ArrowRight");
        assert.notEqual(await text(page, ".at"), at);
        assert.equal(await text(page, "#play"), "Play");
    });

    await part("the link has the whole state, and bad links are refused with a word", async () => {
        const print = await text(page, "#print");
        await new Promise((resume) => setTimeout(resume, 600));
        const link = page.url();
        assert.match(link, /#s=[\w-]{20,}$/);
        const again = await open(link);
        assert.equal((await again.$$(".setup")).length, 2);
        const prints = await again.$$eval("p .print", (all) => all.map((each) => each.textContent));
        assert.ok(prints.includes(print), `${prints} have no ${print}`);
        await again.close();
        for (const bad of ["#s=AAAA", "#s=%3Cscript%3E", `#s=${"A".repeat(300_000)}`, link.slice(0, -9).slice(url.length)]) {
            const other = await open(url + bad);
            assert.match(await text(other, "#notice"), /^The link cannot be read: it is (damaged or incomplete|too long)/);
            await other.close();
        }
    });

    await part("scenarios are edited, with the program's errors at their lines", async () => {
        await page.close();
        page = await open(url);
        await then(page, () => page.select("#preset", "0"));
        await page.click("#file summary");
        await toEnd(page);
        await page.keyboard.type('protocl = "cubic"\n');
        await page.waitForFunction(() => /unknown key/.test(document.getElementById("notice").textContent));
        // The picture of the bottleneck is that of the figure still.
        const whole = await text(page, ".setup p .print");
        await page.waitForFunction((print) => document.querySelector(".link canvas").dataset.fingerprint === print, {}, whole);
        // That of the command is not known, since its scenario does not run.
        assert.equal(await text(page, "#print"), "…");
        const shown = (await text(page, "#notice")).split("\n")[0];
        assert.match(shown, /^scenario\.toml:\d+: .*unknown key/);
        assert.ok(await page.$(">>> .cm-lintRange-error"));
        for (let n = 0; n < 'protocl = "cubic"\n'.length; n += 1) await page.keyboard.press("Backspace");
        await page.waitForFunction(() => document.getElementById("notice").hidden);
        await page.click("h1");
        await then(page, () => page.select("#preset", "1"));
        await agrees(page);
        await then(page, () => page.click("#back"));
        await agrees(page);
    });

    await part("keys and protocols are completed in the editor", async () => {
        await toEnd(page);
        const offers = async (typed, offered) => {
            await page.keyboard.type(typed);
            const isOffered = (offered) => document.getElementById("editor").shadowRoot.querySelector(".cm-tooltip-autocomplete")?.textContent.includes(offered);
            await page.waitForFunction(isOffered, {}, offered);
            await page.keyboard.press("Escape");
        };
        await offers("\n[[flows]]\nproto", "protocol");
        await offers('col = "upw', "upwind");
        await page.click("h1");
        await then(page, () => page.click("#back"));
    });

    await part("every preset runs and agrees with the program, or is asked about first", async () => {
        const presets = (await values(page, "#preset")).filter((value) => Number(value) >= 0 && value !== "");
        assert.equal(presets.length, 27);
        let ran = 0;
        for (const preset of presets) {
            const shown = await answer(page, () => page.select("#preset", preset));
            if (shown !== "") {
                assert.match(shown, /packet-hops, some .* in this page/);
                continue;
            }
            const { toml, native } = await agrees(page);
            // The picture is that of this run, or none.
            const pictured = (print) => {
                const [canvas, words] = [document.querySelector(".link canvas"), document.querySelector(".at").textContent];
                if (canvas.dataset.fingerprint && canvas.dataset.fingerprint !== print) throw new Error(`a picture of ${canvas.dataset.fingerprint}`);
                return canvas.dataset.fingerprint === print || /too many packets to draw/.test(words);
            };
            await page.waitForFunction(pictured, { polling: 20 }, native.fingerprint);
            // What runs is what the fields say, and no group has more than its route delivers.
            assert.equal(await page.$eval("#duration", (field) => Number(field.value)), native.duration_s);
            assert.equal(await page.$eval("#seed", (field) => Number(field.value)), native.seed);
            const shares = await page.$$eval("tbody td:nth-child(3)", (all) => all.map((cell) => cell.textContent));
            for (const share of shares) assert.ok(share === "–" || Number.parseInt(share) <= 101, `${shares}: ${toml.split("\n")[0]}`);
            const named = await text(page, "h1");
            if (native.groups.length === 1) assert.ok(named.includes(native.groups[0].protocol ?? native.flows[0].protocol), named);
            ran += 1;
        }
        console.log(`${ran} of ${presets.length} run at once`);
        assert.ok(ran > 14);
        assert.equal(await answer(page, () => page.select("#preset", "")), "");
        await agrees(page);
    });

    if (!process.env.FIREFOX) await part("the address, the file and the command are taken away", async () => {
        const { origin } = new URL(url);
        await browser.defaultBrowserContext().overridePermissions(origin, ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"]);
        await page.bringToFront();
        const pasted = async (button) => {
            await page.click(button);
            await page.waitForFunction((button) => document.querySelector(button).textContent === "Copied", {}, button);
            return page.evaluate(() => navigator.clipboard.readText());
        };
        const link = await pasted("#share");
        assert.equal(link, page.url());
        const print = await text(page, "#print");
        const other = await open(link);
        assert.equal(await text(other, "#print"), print);
        await other.close();
        await page.bringToFront();
        await page.$eval("#shell", (details) => (details.open = true));
        assert.equal(await pasted("#copy"), await text(page, "#command"));
        const session = await page.createCDPSession();
        await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
        await page.click("#save");
        const file = join(folder, "scenario.toml");
        for (let n = 0; n < 100 && !existsSync(file); n += 1) await new Promise((resume) => setTimeout(resume, 50));
        assert.equal(JSON.parse(execFileSync(program, ["run", file, "--json"], { encoding: "utf8" })).fingerprint, print);
        await session.detach();
    });

    await part("a run that takes long is asked about first, and cancelled at once", async () => {
        const long = scenarioOf(await text(page, "#command")).replace(/duration = "\d+s"/, 'duration = "1000000s"');
        const state = (await import("node:zlib")).deflateRawSync(JSON.stringify({ setups: [{ text: `${long}# <script>wrong</script>\n` }], seeds: 1 }));
        await page.evaluate((fragment) => (location.hash = fragment), `s=${state.toString("base64url")}`);
        await page.waitForFunction(() => /packet-hops, some .* in this page/.test(document.getElementById("notice").textContent));
        await page.click("#notice button");
        await page.waitForFunction(() => !document.getElementById("busy").hidden);
        await page.click("#cancel");
        assert.match(await text(page, "#notice"), /^Cancelled/);
        await then(page, () => page.click("#back"));
        await agrees(page);
    });

    await part("scenarios of hostile links are refused with a word, and the page goes on", async () => {
        const { deflateRawSync } = await import("node:zlib");
        const link = (text) => `s=${deflateRawSync(JSON.stringify({ setups: [{ text }], seeds: 1 })).toString("base64url")}`;
        const follow = (text) => page.evaluate((fragment) => (location.hash = fragment), link(text));
        const notice = async (pattern) => {
            const shown = (source) => new RegExp(source).test(document.getElementById("notice").textContent);
            await page.waitForFunction(shown, {}, pattern.source).catch(async () => assert.match(await text(page, "#notice"), pattern));
        };
        const scenario = scenarioOf(await text(page, "#command"));
        // 10 MB that a link of a few kB would unfold to.
        await follow("#".repeat(10 << 20));
        await notice(/^The link cannot be read: it is too large/);
        await follow(`x = ${"[".repeat(50_000)}`);
        await notice(/scenario\.toml:1.*nested|recursion|too deep/);
        await follow('<img src=x onerror=alert(1)>\n');
        await notice(/^scenario\.toml:1:/);
        assert.equal(await page.$("#notice img"), null);
        await follow(scenario.replace(/count = \d+/, "count = 100000000"));
        await notice(/count = 100000000: must lie between 1 and/);
        await follow(scenario.replace(/duration = "\d+s"/, 'duration = "1000000000s"'));
        await notice(/duration = "1000000000s": longer than/);
        await follow(scenario.replace(/protocol = "cubic"/, 'protocol = { window = { on_ack = "0 / (rtt - rtt)", on_loss = "cwnd" } }'));
        await notice(/on_ack/);
        // Many flows for long: asked about first, and cancelled at once.
        await follow(scenario.replace(/count = \d+/, "count = 20000").replace(/duration = "\d+s"/, 'duration = "100000s"'));
        await notice(/packet-hops, some .* in this page/);
        await page.click("#notice button");
        await page.waitForFunction(() => !document.getElementById("busy").hidden);
        await page.click("#cancel");
        await notice(/^Cancelled/);
        // So many for a second only: it is the flows that take long.
        await follow(scenario.replace(/count = \d+/, "count = 100000").replace(/duration = "\d+s"/, 'duration = "1s"').replace(/warmup = "\d+s"/, 'warmup = "0s"'));
        await notice(/^This run has 100,\d\d\d flows and about .* packet-hops, some [5-9] s in this page/);
        await follow(scenario);
        await page.waitForFunction(() => document.getElementById("notice").hidden);
        await agrees(page);
    });

    await part("a run that needs more memory than there is ends with a word, and the page goes on", async () => {
        const { deflateRawSync } = await import("node:zlib");
        const state = deflateRawSync(JSON.stringify({ setups: [{ text: LARGE }], seeds: 1 })).toString("base64url");
        for (let n = 0; n < 2; n += 1) {
            await page.evaluate((fragment) => (location.hash = fragment), `s=${state}`);
            await page.waitForFunction(() => /packet-hops, some .* in this page/.test(document.getElementById("notice").textContent));
            await page.click("#notice button");
            await page.waitForFunction(() => /^The simulator stopped: .* out of memory.*it runs again/.test(document.getElementById("notice").textContent));
            assert.ok(await page.$eval("#busy", (busy) => busy.hidden));
            // Nothing that was typed is lost.
            assert.match(await text(page, ">>> .cm-content"), /group = "many"/);
            await then(page, () => page.click("#back"));
            await page.waitForFunction(() => document.getElementById("notice").hidden);
            await agrees(page);
            // The address follows the state a moment later; until then the same fragment is no change.
            await page.waitForFunction((fragment) => location.hash !== `#${fragment}`, {}, `s=${state}`);
        }
        // The worker that failed is gone with its memory.
        if (!process.env.FIREFOX) assert.equal(page.workers().length, 1);
    });

    if (!process.env.FIREFOX) await part("a slider that is dragged takes no more memory", async () => {
        await drag(page, 60);
        const before = await memory(page);
        await drag(page, 240);
        const after = await memory(page);
        console.log(`memory: ${words(before)}; 240 frames later ${words(after)}`);
        // The samples of a run are 20 kB or more, so a leak of them would be 1 MB after 50 redraws.
        assert.ok(after.page - before.page < 1, "the page");
        assert.ok(after.worker - before.worker < 1, "the worker");
        assert.ok(after.wasm - before.wasm < 1, "WebAssembly");
        assert.ok(after.nodes - before.nodes < 200, "elements");
    });

    await part("a page in the background draws, and one without WebAssembly says what it lacks", async () => {
        const front = await open(url);
        await front.bringToFront();
        const before = await count(page);
        await page.evaluate(() => {
            const slider = document.getElementById("slider-loss");
            document.getElementById("back").click();
            slider.value = "700";
            slider.dispatchEvent(new Event("input"));
        });
        // A page in the background has no frames, in which `drawn` would look.
        const isDrawn = (before) => Number(document.documentElement.dataset.drawn) > before;
        await page.waitForFunction(isDrawn, { polling: 50 }, before);
        await front.close();
        await page.bringToFront();
        const old = await browser.newPage();
        await old.evaluateOnNewDocument(() => delete globalThis.WebAssembly);
        await old.goto(url);
        assert.match(await text(old, "#notice"), /lacks WebAssembly/);
        await old.close();
    });

    await part("links with one side, with an error, and with two groups of one protocol are shown", async () => {
        const { deflateRawSync } = await import("node:zlib");
        const link = (...setups) => `${url}#s=${deflateRawSync(JSON.stringify({ setups, seeds: 1 })).toString("base64url")}`;
        const other = await open(link({ sides: [{ protocol: "cubic", count: 1, loss: 0 }] }));
        assert.deepEqual((await agrees(other)).native.groups.map((group) => group.name), ["cubic"]);
        await then(other, () => enter(other, "#count-1", "2"));
        assert.deepEqual((await agrees(other)).native.groups.map((group) => group.name), ["cubic", "upwind"]);
        await then(other, () => other.select("#protocol-0", "upwind"));
        const swatches = await other.$$eval(".side i", (all) => all.map((swatch) => swatch.style.background));
        assert.equal(new Set(swatches).size, 2, String(swatches));
        const lines = await other.$$eval(".legend .sample", (all) => all.map((canvas) => canvas.toDataURL()));
        assert.equal(new Set(lines).size, 2);
        await other.close();
        // A first scenario that does not run leaves a way out, alone and beside another one.
        for (const setups of [[{ text: "nonsense = 1\n" }], [{}, { text: "nonsense = 1\n" }]]) {
            const bad = await open(link(...setups));
            await bad.waitForFunction(() => document.querySelectorAll("#notice button").length === 2);
            assert.match(await text(bad, "#notice"), /^scenario\.toml:1: nonsense: unknown key/);
            assert.doesNotMatch(await text(bad, "#notice"), /last scenario that ran/);
            assert.match(await text(bad, "#figures"), /There is no figure of/);
            assert.equal((await bad.$$("table")).length, setups.length - 1);
            await bad.click("#notice button:first-of-type");
            await bad.waitForSelector(">>> .cm-lintRange-error");
            await bad.click("#notice button:last-of-type");
            await bad.waitForFunction((count) => document.querySelectorAll("table").length === count, {}, setups.length);
            await agrees(bad);
            await bad.close();
        }
    });

    await part("drops of the queue are drawn", async () => {
        const { deflateRawSync } = await import("node:zlib");
        const state = { setups: [{ loss: 0, queue: 0.2, sides: [{ protocol: "newreno", count: 4, loss: 0 }] }], seeds: 1 };
        const other = await open(`${url}#s=${deflateRawSync(JSON.stringify(state)).toString("base64url")}`);
        await other.waitForFunction(() => document.querySelector(".link canvas").dataset.fingerprint);
        const dropped = await other.evaluate(() => {
            const range = document.getElementById("instant");
            for (let time = 1; time < 20; time += 0.02) {
                range.value = String(time);
                range.dispatchEvent(new Event("input"));
                const words = document.querySelector(".at").textContent;
                if (/ dropped by the queue$/.test(words)) return words;
            }
            return "";
        });
        assert.match(dropped, /0 of them lost, \d+ dropped by the queue$/);
        await other.close();
    });

    await part("on a telephone, a slider and the figure are seen together", async () => {
        const phone = await open(url, { width: 390 });
        for (const key of ["loss", "jitter"]) {
            await phone.$eval(`#slider-${key}`, (slider) => slider.scrollIntoView({ block: "center" }));
            const seen = await phone.evaluate((key) => {
                const [chart, slider] = [".chart.goodput", `#slider-${key}`].map((each) => document.querySelector(each).getBoundingClientRect());
                return chart.top >= 0 && chart.bottom <= slider.top && slider.bottom <= innerHeight;
            }, key);
            assert.ok(seen, key);
        }
        await phone.close();
    });

    await part("the figure alone, as a part of another page, moves with its slider", async () => {
        const figure = await open(`${url}?figure`, { width: 800 });
        assert.deepEqual(await figure.$$eval(".slider", (all) => all.filter((each) => each.offsetParent).length), 3);
        await figure.focus("#slider-loss");
        await then(figure, () => figure.keyboard.press("Home"));
        assert.doesNotMatch(await text(figure, "h1"), /loses/);
        if (shots) await figure.screenshot({ path: join(shots, "figure.png") });
        await figure.close();
    });

    await part("no violations of accessibility, narrow and wide, light and dark; nothing sticks out", async () => {
        await page.close();
        for (const [width, scheme] of [[390, "light"], [390, "dark"], [1400, "light"], [1400, "dark"]]) {
            page = await open(url, { width, scheme });
            await page.waitForFunction(() => document.getElementById("protocol-0").length > 40);
            for (const id of ["file", "shell", "law"]) await page.$eval(`#${id}`, (details) => (details.open = true));
            await page.waitForSelector(">>> .cm-content");
            await accessible(page);
            assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
            if (shots) await page.screenshot({ path: join(shots, `play-${width}-${scheme}.png`), fullPage: true });
            await page.close();
        }
    });

    await part("one file from a disk does the same", async () => {
        const file = join(folder, "play.html");
        execFileSync(program, ["play", "--save", file]);
        page = await open(`file://${file}`);
        await agrees(page);
        await page.close();
    });

    await part("links of drawings and of reports open their very scenarios", async () => {
        const changed = ["experiments/examples/first.toml", "--set", "flows.lossy.protocol=upwind", "--seed", "5"];
        const at = { cwd: root, encoding: "utf8" };
        const native = JSON.parse(execFileSync(program, ["run", ...changed, "--json", "--plot", join(folder, "run.svg")], { ...at, stdio: "pipe" }));
        const [, address] = /<a href="http:\/\/127\.0\.0\.1:9744\/(#s=[\w-]+)"/.exec(readFileSync(join(folder, "run.svg"), "utf8"));
        const linked = await open(url + address);
        assert.equal(await text(linked, "#print"), native.fingerprint);
        await linked.close();
        // `windward play FILE` prints that address.
        const other = spawn(program, ["play", ...changed, "--no-browser", "--quiet", "--port", "0"], { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
        const printed = await new Promise((found) => other.stdout.once("data", (line) => found(String(line).trim())));
        other.kill("SIGINT");
        assert.equal(printed.slice(printed.indexOf("#")), address);

        const report = join(folder, "report");
        execFileSync(program, ["sweep", "experiments/examples/loss-sweep.toml", "--quick", "--quiet", "--out", report], { ...at, stdio: "pipe" });
        const figure = await visit(`file://${join(report, "own-experiments.html")}`);
        const links = await figure.$$eval('a[href^="play.html#s="]', (all) => all.map((link) => [link.href, link.textContent]));
        await figure.close();
        // Four protocols at three loss rates.
        assert.equal(links.length, 12);
        const [href] = links.find(([, label]) => label === "cubic, 5%");
        const cell = await open(href);
        const { toml } = await agrees(cell);
        assert.equal(toml.match(/^protocol = "cubic"$/gm).length, 2);
        assert.match(toml, /^last_hop = \{ loss = "5%" \}$/m);
        await cell.close();
    });

    if (measures) await measure(url);
    await close("play");
} catch (error) {
    await close("play", error);
} finally {
    server.kill("SIGINT");
}

/** Sizes and times of docs/playground.md. */
async function measure(url) {
    console.log(`compressed: ${statSync(join(here, "../dist/play.html.gz")).size} bytes`);
    const page = await open(url);
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    const figure = await page.evaluate(() => performance.now());
    console.log(`first paint ${paint.toFixed(0)} ms, figure before ${figure.toFixed(0)} ms`);
    await new Promise((resume) => setTimeout(resume, 1500));
    const charted = () => page.evaluate(() => Number(document.documentElement.dataset.charted));
    for (const frames of [300, 300, 300, 300, 300, 3600]) {
        const [drawings, held] = [await charted(), await memory(page)];
        const took = await drag(page, frames);
        const rate = (1e3 * ((await charted()) - drawings)) / took;
        console.log(`slider: ${rate.toFixed(1)} redraws a second at ${((1e3 * frames) / took).toFixed(0)} frames; memory ${words(held)}; after ${(took / 1e3).toFixed(0)} s ${words(await memory(page))}`);
    }
    await page.close();
}

/** A person who drags the slider of the losses: an event for each of that many frames. Returns the time that it took, ms. */
async function drag(page, frames) {
    return page.evaluate(async (frames) => {
        const began = performance.now();
        const slider = document.getElementById("slider-loss");
        for (let n = 0; n < frames; n += 1) {
            slider.value = String(500 + 300 * Math.sin(n / 20));
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((next) => requestAnimationFrame(next));
        }
        return performance.now() - began;
    }, frames);
}

/** What is left after a collection of garbage, MB: the heaps of the page and its worker, and the memory of the simulator. */
async function memory(page) {
    await page.waitForFunction(() => document.getElementById("busy").hidden);
    // The pictures of the link come later.
    await new Promise((resume) => setTimeout(resume, 700));
    const tab = await page.createCDPSession();
    const heap = async (session) => {
        await session.send("HeapProfiler.collectGarbage");
        const { usedSize, backingStorageSize = 0 } = await session.send("Runtime.getHeapUsage");
        return (usedSize + backingStorageSize) / 1e6;
    };
    const { client } = page.workers()[0];
    const { result } = await client.send("Runtime.evaluate", { expression: "WebAssembly.Memory.prototype" });
    const { objects } = await client.send("Runtime.queryObjects", { prototypeObjectId: result.objectId });
    const sum = "function () { return this.reduce((sum, memory) => sum + memory.buffer.byteLength, 0); }";
    const { result: bytes } = await client.send("Runtime.callFunctionOn", { objectId: objects.objectId, functionDeclaration: sum, returnByValue: true });
    const measured = { page: await heap(tab), worker: await heap(client), wasm: bytes.value / 1e6 };
    await tab.detach();
    // Elements that were replaced count until they are collected.
    return { ...measured, nodes: (await page.metrics()).Nodes };
}

function words({ page, worker, wasm, nodes }) {
    return `${page.toFixed(1)} MB in the page, ${worker.toFixed(1)} MB in its worker, ${wasm.toFixed(1)} MB of WebAssembly, ${nodes} nodes`;
}
