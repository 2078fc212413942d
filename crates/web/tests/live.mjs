// Looks at the live charts of `windward shell --web` in Chromium:
//
//   node tests/live.mjs [--shots DIR]
//
// Needs root and TUN devices; passes with a note without them. Options and variables are those of browser.mjs.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { program, shots, start } from "./browser.mjs";

if (process.getuid?.() !== 0 || !existsSync("/dev/net/tun")) {
    console.log("skipped: namespaces and TUN devices need root and /dev/net/tun");
    process.exit(0);
}

/** A simulated flow beside a port, over a link that drops, destroys and delays packets. */
const SCENARIO = `
duration = "100s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "40p", loss = 0.01 }
access = { rate = "100Mbit", delay = "1ms", queue = "1000p" }
[[flows]]
group = "simulated"
protocol = "cubic"
count = 2
`;
const { folder, open, part, accessible, close } = await start();
const file = join(folder, "<script>.toml");
writeFileSync(file, SCENARIO);

/** `windward shell --web` around a program that ends with its input, and the address of its charts. */
async function shell(port) {
    const child = spawn(program, ["shell", file, `--web=${port}`, "--", "cat"], { stdio: ["pipe", "inherit", "pipe"] });
    let said = "";
    const url = await new Promise((found, fail) => {
        child.stderr.on("data", (data) => {
            said += data;
            const [, url] = /^charts: (http:.*)$/m.exec(said) ?? [];
            if (url) found(url);
        });
        child.once("exit", () => fail(new Error(`windward shell ended: ${said}`)));
    });
    const over = new Promise((ended) => child.once("exit", ended));
    return { url, end: () => (child.stdin.end(), over) };
}

const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
const drawn = (page) => page.evaluate(() => Number(document.documentElement.dataset.drawn ?? 0));
const moves = async (page, more = 3) => {
    const before = await drawn(page);
    await page.waitForFunction((least) => Number(document.documentElement.dataset.drawn ?? 0) > least, {}, before + more);
};

let run = null;
try {
    run = await shell(0);
    let page = await open(run.url);
    await part("charts move while the program runs, with names as they are", async () => {
        await moves(page, 10);
        assert.match(await text(page, "h1"), /^windward shell: .*<script>\.toml$/);
        assert.match(await text(page, "#legend"), /simulated-1/);
        const shown = await page.$$eval(".chart:not([hidden]) figcaption", (all) => all.map((each) => each.textContent.split(",")[0]));
        assert.deepEqual(shown, ["Goodput", "Congestion window", "Queueing delay", "Round-trip time", "Packets dropped"]);
        // Two flows of 5 Mbit/s together, less what is lost.
        await page.waitForFunction(() => {
            const label = document.querySelector(".chart.goodput [role=img]").getAttribute("aria-label");
            const own = [...label.matchAll(/simulated-\d ([\d.]+)/g)].map((found) => Number(found[1]));
            return own.length === 2 && own[0] + own[1] > 1 && own[0] + own[1] < 5.2;
        });
        assert.match(await text(page, "#links"), /bottleneck/);
    });

    await part("a pause holds the charts, and they go on with what came meanwhile", async () => {
        await page.click("#pause");
        const before = await drawn(page);
        await new Promise((resume) => setTimeout(resume, 500));
        assert.ok((await drawn(page)) <= before + 1);
        assert.equal(await text(page, "#pause"), "Go on");
        await page.click("#pause");
        await moves(page);
        await page.select("#span", "30");
    });

    await part("no violations of accessibility, narrow and wide, light and dark; nothing sticks out", async () => {
        for (const [width, scheme] of [[390, "light"], [390, "dark"], [1400, "light"], [1400, "dark"]]) {
            const other = await open(run.url, { width, scheme });
            await moves(other);
            await other.click("#pause");
            await accessible(other);
            assert.ok((await other.evaluate(() => document.documentElement.scrollWidth)) <= width);
            if (shots) await other.screenshot({ path: join(shots, `live-${width}-${scheme}.png`), fullPage: true });
            await other.close();
        }
    });

    await part("the page says that the run has ended, and keeps its charts", async () => {
        assert.equal(await run.end(), 0);
        run = null;
        await page.waitForFunction(() => /ended/.test(document.getElementById("state").textContent));
        assert.ok((await page.$$(".chart:not([hidden])")).length >= 5);
        await page.close();
    });
    await close("live");
} catch (error) {
    await close("live", error);
} finally {
    await run?.end();
}
